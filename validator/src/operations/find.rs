//! What the first digits of a key or an id stand for.

use assay_program::render::short_ids;
use assay_records::{Found, Records};
use assay_work::PublicKey;

use super::OperationError;

/// The fewest digits: fewer are a typing error rather than a wish.
const MIN_DIGITS: usize = 4;
/// The most digits: those of a key.
const MAX_DIGITS: usize = 64;
/// Candidates that an error lists.
const MAX_LISTED: usize = 8;

/// The digits in lower case.
pub(super) fn digits(text: &str) -> Result<String, OperationError> {
    let is_prefix = (MIN_DIGITS..=MAX_DIGITS).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_prefix {
        return Ok(text.to_ascii_lowercase());
    }
    let expected = format!("expected an id, or its first {MIN_DIGITS} to {MAX_DIGITS} hex digits");
    Err(OperationError::Invalid(expected))
}

/// The id of the miner of whose keys one starts so.
pub(super) async fn miner(records: &Records, text: &str) -> Result<String, OperationError> {
    let prefix = digits(text)?;
    let mut found = records.miners_by_prefix(&prefix, MAX_LISTED as u32 + 1).await?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(OperationError::NotFound(format!("no miner in the records has a key that starts with {prefix}"))),
        _ => Err(several(&prefix, found)),
    }
}

/// The same, or a whole key that the records do not know.
pub(super) async fn miner_or_key(records: &Records, text: &str) -> Result<String, OperationError> {
    match miner(records, text).await {
        Err(OperationError::NotFound(why)) => match text.parse::<PublicKey>() {
            Ok(key) => Ok(key.to_string()),
            Err(_) => Err(OperationError::NotFound(format!("{why}; one that never came takes its whole key"))),
        },
        found => found,
    }
}

/// The one thing of a kind whose id starts so.
pub(super) async fn one(
    records: &Records,
    text: &str,
    is_meant: impl Fn(&Found) -> bool,
    what: &str,
) -> Result<Found, OperationError> {
    let prefix = digits(text)?;
    let mut found: Vec<_> = records.find(&prefix).await?.into_iter().filter(is_meant).collect();
    if let Some(at) = found.iter().position(|found| id(found) == prefix) {
        return Ok(found.swap_remove(at));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(OperationError::NotFound(format!("no {what} in the records has an id that starts with {prefix}"))),
        _ => Err(several(&prefix, found.iter().map(|found| id(found).to_owned()).collect())),
    }
}

/// The one thing whose id starts so.
pub(super) async fn any(records: &Records, text: &str) -> Result<Found, OperationError> {
    let prefix = digits(text)?;
    let mut found = records.find(&prefix).await?;
    // A whole id is meant, whatever goes on after it.
    if let Some(at) = found.iter().position(|found| id(found) == prefix) {
        return Ok(found.swap_remove(at));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(OperationError::NotFound(format!(
            "nothing in the records has an id that starts with {prefix}: no challenge, miner, device, receipt or round"
        ))),
        _ => Err(several(&prefix, found.iter().map(|found| format!("{} {}", kind(found), id(found))).collect())),
    }
}

fn several(prefix: &str, candidates: Vec<String>) -> OperationError {
    let all = candidates.len();
    let mut listed = short_ids(candidates);
    listed.truncate(MAX_LISTED);
    let more = if all > MAX_LISTED { " and more" } else { "" };
    OperationError::Invalid(format!("{prefix} could be any of {}{more}: give more digits", listed.join(", ")))
}

/// What it is.
pub(super) const fn kind(found: &Found) -> &'static str {
    match found {
        Found::Challenge(_) => "challenge",
        Found::Miner(_) => "miner",
        Found::Device(_) => "device",
        Found::Receipt(_) => "receipt",
        Found::Round(_) => "round",
    }
}

/// Its id.
pub(super) fn id(found: &Found) -> &str {
    match found {
        Found::Challenge(id) | Found::Miner(id) | Found::Device(id) | Found::Receipt(id) | Found::Round(id) => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
