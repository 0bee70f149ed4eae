//! Join tokens, tokens of the API, codes to log in with, and what is done to the validator itself.

use assay_records::{ApiTokenRecord, Exported, Format, Labels, Role, TokenRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A join token to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateJoinToken {
    /// What the miner is labelled with.
    #[serde(default)]
    pub labels: Labels,
    /// For how many seconds it can be used.
    #[schema(minimum = 1, maximum = 31622400)]
    pub expires_s: u64,
}

/// A join token that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinToken {
    /// What the records have of it.
    #[serde(flatten)]
    pub record: TokenRecord,
    /// The token: it is shown this once.
    pub token: String,
}

/// A token of the API to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateApiToken {
    /// What it lets a caller do.
    pub role: Role,
    /// What it is called in lists and in the records of what was done.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// For how many seconds it can be used.
    #[schema(minimum = 1, maximum = 31622400)]
    pub expires_s: u64,
}

/// A token of the API that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiToken {
    /// What the records have of it.
    #[serde(flatten)]
    pub record: ApiTokenRecord,
    /// The token: it is shown this once.
    pub token: String,
}

/// A code to log in with on the page, to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateLoginCode {
    /// What whoever logs in with it may do.
    pub role: Role,
}

/// A code to log in with on the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginCode {
    /// The code: it can be used once.
    pub code: String,
    /// For how many seconds.
    pub expires_s: u64,
    /// The address of the page, with the code; null where no page is served.
    pub url: Option<String>,
}

/// What a reload did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// The settings that have changed and are in effect now, by their names in a file.
    pub changed: Vec<String>,
    /// The settings that differ from those that the validator runs with, and take a restart.
    pub need_restart: Vec<String>,
}

/// Writes all records into a folder of the validator's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// The folder, which is made: an absolute path.
    pub folder: String,
    /// The form of its files.
    pub format: Format,
}

/// A folder that all records were written into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrittenFolder {
    /// What it has.
    #[serde(flatten)]
    pub exported: Exported,
    /// The folder.
    pub folder: String,
    /// The form of its files.
    pub format: Format,
}

/// Copies the records into a file of the validator's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// A file that is not there yet: an absolute path.
    pub file: String,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrittenFile {
    /// The file.
    pub file: String,
    /// Its size.
    pub bytes: u64,
}
