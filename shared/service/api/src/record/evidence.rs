//! Which evidence is kept, and for which challenges.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::EvidenceRecord;

/// The evidence of a challenge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptEvidence {
    /// The challenge.
    pub challenge: String,
    /// When it was judged.
    pub at_ms: i64,
    /// Its location.
    #[serde(flatten)]
    pub evidence: EvidenceRecord,
    /// Time of its removal, by the limits of age and size.
    pub dropped_ms: Option<i64>,
}
