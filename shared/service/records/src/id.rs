//! Ids of rows that have none of their own, and the time.

use crate::{RecordsError, Result};

/// Bytes of an id: 6 of the time in milliseconds, so that ids sort by it, and 10 random ones.
const ID_BYTES: usize = 16;

/// A new id, in 32 hexadecimal digits.
pub(crate) fn new(at_ms: i64) -> Result<String> {
    let mut bytes = [0; ID_BYTES];
    bytes[..6].copy_from_slice(&at_ms.to_be_bytes()[2..]);
    getrandom::fill(&mut bytes[6..]).map_err(RecordsError::Random)?;
    Ok(hex::encode(bytes))
}

/// An id before which are those of before this time, and behind which are all others.
pub(crate) fn first_at(at_ms: i64) -> String {
    hex::encode(&at_ms.max(0).to_be_bytes()[2..])
}

/// A new id without a time in it, so that its first digits name it.
pub(crate) fn random() -> Result<String> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(RecordsError::Random)?;
    Ok(hex::encode(bytes))
}

pub(crate) use assay_program::clock::unix_ms as now_ms;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_are_distinct() {
        let (early, late, again) = (new(1_700_000_000_000).unwrap(), new(1_700_000_000_001).unwrap(), new(1).unwrap());
        assert_eq!(early.len(), 32);
        assert!(again < early && early < late, "{again} {early} {late}");
        assert_ne!(new(1).unwrap(), new(1).unwrap());
        assert!(early < first_at(1_700_000_000_001) && first_at(1_700_000_000_001) < late);
        assert!(first_at(-1) < again);
    }
}
