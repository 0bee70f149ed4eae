//! Join tokens, tokens of the API, codes to log in with, and operations on the validator itself.

use crate::record::{ApiTokenRecord, ExportSummary, Labels, Role, TokenRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::label::any_labels;

/// A join token to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateJoinToken {
    /// Labels for the miner.
    #[serde(default)]
    #[schema(schema_with = any_labels)]
    pub labels: Labels,
    /// Validity in seconds.
    #[schema(minimum = 1, maximum = 31622400)]
    pub expires_s: u64,
}

/// A join token that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = JoinToken)]
pub struct CreatedJoinToken {
    /// Its record.
    #[serde(flatten)]
    pub record: TokenRecord,
    /// The token, shown only this once.
    pub token: String,
}

/// A token of the API to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateApiToken {
    /// Role of its callers.
    pub role: Role,
    /// Its name in lists, and in the records of its callers' actions.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// Validity in seconds.
    #[schema(minimum = 1, maximum = 31622400)]
    pub expires_s: u64,
}

/// A token of the API that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiToken {
    /// Its record.
    #[serde(flatten)]
    pub record: ApiTokenRecord,
    /// The token, shown only this once.
    pub token: String,
}

/// A login code for the page, to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateLoginCode {
    /// Role of the login.
    pub role: Role,
}

/// A login code for the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginCode {
    /// The code, for one use.
    pub code: String,
    /// Validity in seconds.
    pub expires_s: u64,
    /// The address of the page, with the code; null where no page is served.
    pub url: Option<String>,
}

/// Result of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Reloaded)]
pub struct ReloadResult {
    /// Settings that have changed and are now in effect, by their names in a file; `receipt_key` when receipts have a
    /// new signing key.
    pub changed: Vec<String>,
    /// Settings that differ from those in effect, and need a restart.
    pub need_restart: Vec<String>,
}

/// Writes all records into a folder of the validator's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Export)]
#[serde(deny_unknown_fields)]
pub struct ExportRequest {
    /// The folder, which is created: an absolute path.
    pub folder: String,
}

/// The folder of a complete export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrittenFolder {
    /// The contents of the export.
    #[serde(flatten)]
    pub exported: ExportSummary,
    /// The folder.
    pub folder: String,
}

/// Copies the records into a file of the validator's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Backup)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// The file, which must not exist: an absolute path.
    pub file: String,
    /// Whether to read and check everything first: damaged records are not copied.
    #[serde(default)]
    pub check: bool,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrittenFile {
    /// The file.
    pub file: String,
    /// Its size in bytes.
    pub bytes: u64,
}
