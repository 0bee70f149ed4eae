//! Looks up keys and ids by their first digits.

use assay_program::render::short_ids;
use assay_records::{MinerFilter, ObjectKind, Records, ResolvedId};
use assay_work::PublicKey;
use assay_work::text::quoted;

use super::{OperationError, Result};

/// The fewest digits: fewer are a typing error.
const MIN_DIGITS: usize = 4;
/// The most digits: those of a key.
const MAX_DIGITS: usize = 64;
/// Label with a miner's name.
pub(super) const NAME_LABEL: &str = "name";
/// The most candidates listed by an error.
const MAX_LISTED: usize = 8;

/// Checks the digits and converts them to lower case.
pub(super) fn digits(text: &str) -> Result<String> {
    let is_prefix = (MIN_DIGITS..=MAX_DIGITS).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_prefix {
        return Ok(text.to_ascii_lowercase());
    }
    let expected = format!("expected an id, or its first {MIN_DIGITS} to {MAX_DIGITS} hex digits");
    Err(OperationError::Invalid(expected))
}

/// Finds the id of the only miner with a key that starts with these digits.
pub(super) async fn miner(records: &Records, text: &str) -> Result<String> {
    let prefix = digits(text)?;
    let found = records.miners_by_prefix(&prefix, MAX_LISTED as u32 + 1).await?;
    only(found, &prefix, || {
        OperationError::NotFound(format!("no miner in the records has a key that starts with {prefix}"))
    })
}

/// Finds a miner by digits or by its name, for reading only: the right to set labels does not include decisions.
pub(super) async fn miner_or_name(records: &Records, text: &str) -> Result<String> {
    if digits(text).is_ok() {
        return miner(records, text).await;
    }
    let filter = MinerFilter {
        labels: [(NAME_LABEL.to_owned(), text.to_owned())].into(),
        limit: Some(MAX_LISTED as u32 + 1),
        ..MinerFilter::default()
    };
    let found = records.miners(&filter).await?.into_iter().map(|miner| miner.id).collect();
    let name = quoted(text).to_string();
    only(found, &name, || {
        let takes = format!("an id takes its first {MIN_DIGITS} to {MAX_DIGITS} hex digits");
        OperationError::Invalid(format!("no miner has the name {name}; {takes}"))
    })
}

/// Finds a miner as [`miner`], or takes a whole key that the records do not know.
pub(super) async fn miner_or_key(records: &Records, text: &str) -> Result<String> {
    match miner(records, text).await {
        Err(OperationError::NotFound(why)) => match text.parse::<PublicKey>() {
            Ok(key) => Ok(key.to_string()),
            Err(_) => Err(OperationError::NotFound(format!("{why}; one that never came takes its whole key"))),
        },
        found => found,
    }
}

/// Finds the id of the only object of a kind whose id starts with these digits.
pub(super) async fn one(records: &Records, text: &str, kind: ObjectKind) -> Result<String> {
    let prefix = digits(text)?;
    let found = records.find(&prefix).await?.into_iter().filter(|found| found.kind == kind);
    let found: Vec<_> = found.map(|found| found.id).collect();
    if found.contains(&prefix) {
        return Ok(prefix);
    }
    only(found, &prefix, || {
        OperationError::NotFound(format!("no {kind} in the records has an id that starts with {prefix}"))
    })
}

/// Finds the only item whose id starts with these digits; a miner by its name too.
pub(super) async fn any(records: &Records, text: &str) -> Result<ResolvedId> {
    let Ok(prefix) = digits(text) else {
        let id = miner_or_name(records, text).await?;
        return Ok(ResolvedId { kind: ObjectKind::Miner, id });
    };
    let mut found = records.find(&prefix).await?;
    // A complete id wins over longer ones that start with it.
    if let Some(at) = found.iter().position(|found| found.id == prefix) {
        return Ok(found.swap_remove(at));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(OperationError::NotFound(format!(
            "nothing in the records has an id that starts with {prefix}: no challenge, miner, device, receipt or round"
        ))),
        _ => Err(several(&prefix, found.iter().map(|found| format!("{} {}", found.kind, found.id)).collect())),
    }
}

/// The only one of the ids that were found.
fn only(mut found: Vec<String>, prefix: &str, none: impl FnOnce() -> OperationError) -> Result<String> {
    match found.len() {
        0 => Err(none()),
        1 => Ok(found.remove(0)),
        _ => Err(several(prefix, found)),
    }
}

fn several(prefix: &str, candidates: Vec<String>) -> OperationError {
    let all = candidates.len();
    let mut listed = short_ids(candidates);
    listed.truncate(MAX_LISTED);
    let more = if all > MAX_LISTED { " and more" } else { "" };
    OperationError::Invalid(format!("{prefix} could be any of {}{more}: give more digits", listed.join(", ")))
}

#[cfg(test)]
mod tests {
    use assay_records::{Actor, Approval, Location, MinerChange};

    use super::*;

    #[tokio::test]
    async fn a_name_is_of_one_miner_and_decides_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let key = |byte: &str| byte.repeat(32);
        for (byte, name) in [("ab", "node-07"), ("cd", "twice"), ("ef", "twice"), ("12", "abab")] {
            let change = MinerChange { action: "approve", status: Some(Approval::Approved), standing: None };
            records.change_miner(&key(byte), &change, &Actor::validator()).await.unwrap();
            let labels = [(NAME_LABEL.to_owned(), Some(name.to_owned()))].into();
            records.set_labels(&key(byte), &labels, &Actor::validator()).await.unwrap();
        }
        assert_eq!(miner_or_name(&records, "node-07").await.unwrap(), key("ab"));
        let expected = ResolvedId { kind: ObjectKind::Miner, id: key("ab") };
        assert_eq!(any(&records, "node-07").await.unwrap(), expected);
        assert_eq!(miner_or_name(&records, "abab").await.unwrap(), key("ab"), "digits are those of a key");
        let several = miner_or_name(&records, "twice").await.unwrap_err().to_string();
        assert!(several.starts_with("\"twice\" could be any of cdcdcdcd, efefefef"), "{several}");
        for none in ["", "node-08"] {
            let error = miner_or_name(&records, none).await.unwrap_err();
            assert!(
                matches!(&error, OperationError::Invalid(why) if why.starts_with("no miner has the name")),
                "{error}"
            );
        }
        assert!(miner_or_key(&records, "node-07").await.is_err());
    }

    #[test]
    fn digits_are_read_in_any_case() {
        assert_eq!(digits("ABcd").unwrap(), "abcd");
        for text in ["", "abc", "wxyz", "abcd efgh", &"a".repeat(65)] {
            assert!(matches!(digits(text), Err(OperationError::Invalid(_))), "{text}");
        }
        let error = several("abcd", vec!["abcd0".into(), "abcd1".into()]).to_string();
        assert_eq!(error, "abcd could be any of abcd0, abcd1: give more digits");
    }
}
