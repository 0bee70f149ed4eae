//! Verdicts.

use assay_protocol::verdict::Verdict;
use assay_records::VerdictRecord;

/// The verdict of a record.
///
/// # Errors
/// It is of a release that this one does not know.
pub fn verdict_of(record: &VerdictRecord) -> serde_json::Result<Verdict> {
    serde_json::from_str(record.verdict.get())
}
