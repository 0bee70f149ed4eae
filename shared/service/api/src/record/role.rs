//! The rights of a caller of the API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

assay_work::names! {
    /// Role of a caller of the API; each role includes the earlier ones.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Role {
        /// Reads everything but secrets.
        Read = "read",
        /// Also challenges miners, cancels challenges, begins rounds, labels miners.
        Operate = "operate",
        /// Also decides about miners, creates tokens and webhooks, and reloads the settings.
        Admin = "admin",
    } else String = |text| format!("no role {text:?}: there are read, operate and admin")
}
