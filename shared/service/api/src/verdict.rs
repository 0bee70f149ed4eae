//! Verdicts.

use crate::record::VerdictRecord;
use assay_protocol::verdict::Verdict;

/// The verdict of a record.
///
/// # Errors
/// The verdict's form is of a release unknown to this one.
pub fn verdict_of(record: &VerdictRecord) -> serde_json::Result<Verdict> {
    serde_json::from_str(record.verdict.get())
}
