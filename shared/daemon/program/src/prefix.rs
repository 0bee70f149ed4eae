//! The first digits of a key or an id, as people type them.

use std::fmt;
use std::str::FromStr;

use super::render::short_ids;

/// The fewest digits: fewer are a typing error rather than a wish.
pub const MIN_DIGITS: usize = 4;
/// The most digits: those of a key.
const MAX_DIGITS: usize = 64;
/// Candidates that an error lists.
const MAX_LISTED: usize = 8;

/// The first digits of a key or an id, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

/// The text is not a prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected the first {MIN_DIGITS} to {MAX_DIGITS} hex digits")]
pub struct PrefixSyntaxError;

/// Why a prefix names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// No candidate starts with it.
    #[error("nothing starts with {prefix}; there is {}", listed(.candidates))]
    None {
        prefix: Prefix,
        /// The candidates, each as short as keeps it unique.
        candidates: Vec<String>,
    },
    /// More than one thing starts with it.
    #[error("{prefix} could be any of {}: give more digits", listed(.candidates))]
    Several {
        prefix: Prefix,
        /// The candidates that match, each as short as keeps it unique.
        candidates: Vec<String>,
    },
}

fn listed(candidates: &[String]) -> String {
    match candidates {
        [] => "none".to_owned(),
        few if few.len() <= MAX_LISTED => few.join(", "),
        many => format!("{} and {} more", many[..MAX_LISTED].join(", "), many.len() - MAX_LISTED),
    }
}

impl Prefix {
    /// Whether a key or an id starts with these digits.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        hex::encode(bytes).starts_with(&self.0)
    }

    /// The one candidate that starts with these digits.
    ///
    /// # Errors
    /// [`PrefixError`] when it matches no candidate, or more than one.
    pub fn find<T: AsRef<[u8]>>(&self, candidates: impl IntoIterator<Item = T>) -> Result<T, PrefixError> {
        let (mut matching, others): (Vec<T>, Vec<T>) =
            candidates.into_iter().partition(|candidate| self.matches(candidate.as_ref()));
        let short = |of: &[T]| short_ids(of.iter().map(hex::encode));
        match matching.len() {
            1 => Ok(matching.remove(0)),
            0 => Err(PrefixError::None { prefix: self.clone(), candidates: short(&others) }),
            _ => Err(PrefixError::Several { prefix: self.clone(), candidates: short(&matching) }),
        }
    }
}

impl FromStr for Prefix {
    type Err = PrefixSyntaxError;

    /// Digits are read in any case of letters.
    fn from_str(text: &str) -> Result<Self, PrefixSyntaxError> {
        let is_prefix = (MIN_DIGITS..=MAX_DIGITS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        if is_prefix { Ok(Self(text.to_ascii_lowercase())) } else { Err(PrefixSyntaxError) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn the_one_that_starts_so_is_found() {
        let keys = [[0xab; 32], [0xac; 32], [0xff; 32]];
        assert_eq!(prefix("ABAB").find(keys), Ok(keys[0]));
        assert_eq!(prefix(&"ff".repeat(32)).find(keys), Ok(keys[2]));
        // Half a byte.
        assert_eq!(prefix("acaca").find(keys), Ok(keys[1]));
    }

    #[test]
    fn none_or_several_list_what_there_is() {
        let mut twin = [0xab; 16];
        twin[15] = 0;
        let ids = [[0xab; 16], twin, [1; 16]];
        let error = prefix("abab").find(ids).unwrap_err().to_string();
        let last = format!("{}00", "ab".repeat(15));
        let other = format!("{}a", "ab".repeat(15));
        assert_eq!(error, format!("abab could be any of {other}, {}: give more digits", &last[..31]));
        let error = prefix("1234").find(ids).unwrap_err().to_string();
        assert!(error.starts_with("nothing starts with 1234; there is ") && error.ends_with(", 01010101"), "{error}");
        let error = prefix("1234").find([[0; 16]; 0]).unwrap_err().to_string();
        assert_eq!(error, "nothing starts with 1234; there is none");
        let many = (0..10_u8).map(|id| [id; 16]);
        assert!(prefix("1234").find(many).unwrap_err().to_string().ends_with("07070707 and 2 more"));
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for text in ["", "abc", "abcg", "0x1234", " abcd", &"a".repeat(65)] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixSyntaxError), "{text}");
        }
    }
}
