//! Join tokens: a secret by which a validator lets one new miner in.

use std::fmt;
use std::str::FromStr;

/// The most bytes of a join token: a prefix and 256 bits in hexadecimal have fewer.
pub const MAX_JOIN_TOKEN_BYTES: usize = 128;

/// A secret that lets one new miner in. Logs never show it.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken(String);

/// Why a text is not a join token. The text itself is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinTokenError {
    /// No character.
    #[error("the join token is empty")]
    Empty,
    /// Too many bytes.
    #[error("a join token has at most {MAX_JOIN_TOKEN_BYTES} characters, this text has {0}: is it the right file?")]
    TooLong(usize),
    /// White space, or anything beyond ASCII.
    #[error("a join token is one word of letters, digits and signs: take what `assay-validator enroll` printed")]
    NotOneWord,
}

impl JoinToken {
    /// The secret, to check or to send it.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl FromStr for JoinToken {
    type Err = JoinTokenError;

    fn from_str(text: &str) -> Result<Self, JoinTokenError> {
        match text {
            "" => Err(JoinTokenError::Empty),
            text if text.len() > MAX_JOIN_TOKEN_BYTES => Err(JoinTokenError::TooLong(text.len())),
            text if !text.bytes().all(|byte| byte.is_ascii_graphic()) => Err(JoinTokenError::NotOneWord),
            text => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_and_is_never_shown() {
        let token: JoinToken = "assay-join-0123456789abcdef".parse().unwrap();
        assert_eq!(token.secret(), "assay-join-0123456789abcdef");
        assert_eq!(format!("{token:?}"), "JoinToken(…)");
        let refused =
            ["", "two words", "tab\t", "schlüssel", "\u{1b}[31m"].map(|text| text.parse::<JoinToken>().is_err());
        assert_eq!(refused, [true; 5]);
        assert!("x".repeat(MAX_JOIN_TOKEN_BYTES).parse::<JoinToken>().is_ok());
        let error = "y".repeat(MAX_JOIN_TOKEN_BYTES + 1).parse::<JoinToken>().unwrap_err();
        assert_eq!(error, JoinTokenError::TooLong(129));
        assert!(!error.to_string().contains("yy"), "the text is a secret all the same");
    }
}
