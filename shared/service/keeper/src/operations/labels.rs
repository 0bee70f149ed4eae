//! Labels that come in requests.

use assay_api::{MAX_LABELS, parse_label};
use assay_records::Labels;

use super::{OperationError, Result};

/// Checks labels that came in a request.
pub(super) fn check(labels: Labels) -> Result<Labels> {
    if labels.len() > MAX_LABELS {
        return Err(OperationError::Invalid(format!("{} labels are more than {MAX_LABELS}", labels.len())));
    }
    let each = labels.into_iter().map(|(name, value)| parse_label(&format!("{name}={value}")));
    each.collect::<Result<_, _>>().map_err(|error| OperationError::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miner_has_a_bounded_number_of_labels() {
        let labels = |count: usize| (0..count).map(|number| (format!("l{number}"), "1".to_owned())).collect();
        assert!(check(labels(MAX_LABELS)).is_ok() && check(labels(MAX_LABELS + 1)).is_err());
    }
}
