//! Which validator a miner dials, as an operator writes it: `assay://HOST:PORT#KEY`.

use std::fmt;
use std::str::FromStr;

use assay_program::address::{Address, AddressError};
use assay_work::PublicKey;

/// A validator's address, its key where it is known, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The host and the port.
    pub address: Address,
    /// The only key that is accepted.
    pub key: Option<PublicKey>,
    /// The scheme before the address.
    pub scheme: Scheme,
}

/// The schemes of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `assay://`: TLS, also on loopback.
    Assay,
    /// `http://`: plaintext.
    Http,
    /// Nothing: plaintext on loopback, else TLS.
    Bare,
}

/// A text is not a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Another scheme.
    #[error(
        "expected assay://host:port#key, as `assay-validator address` prints it, or host:port; `{0}://` is not supported"
    )]
    Scheme(String),
    /// The text behind `#`.
    #[error("expected the validator's public key behind #, 64 hex digits, as `assay-validator address` prints it")]
    Key,
    /// Plaintext proves no key before the first message.
    #[error("a key behind # needs TLS: write assay:// in place of http://")]
    PlaintextKey,
    /// The host or the port.
    #[error(transparent)]
    Address(#[from] AddressError),
}

impl Target {
    /// Whether the connection is TLS, where plaintext to other machines is allowed or not.
    pub fn is_tls(&self, allows_remote_plaintext: bool) -> bool {
        match self.scheme {
            Scheme::Assay => true,
            Scheme::Http => false,
            Scheme::Bare => self.key.is_some() || !self.address.is_loopback() && !allows_remote_plaintext,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.scheme {
            Scheme::Assay => "assay://",
            Scheme::Http => "http://",
            Scheme::Bare => "",
        })?;
        write!(f, "{}", self.address)?;
        self.key.map_or(Ok(()), |key| write!(f, "#{key}"))
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("assay", rest)) => (Scheme::Assay, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            Some((scheme, _)) => return Err(TargetError::Scheme(scheme.to_owned())),
            None => (Scheme::Bare, text),
        };
        let (address, key) = match rest.split_once('#') {
            Some((address, key)) => (address, Some(key.parse().map_err(|_| TargetError::Key)?)),
            None => (rest, None),
        };
        if scheme == Scheme::Http && key.is_some() {
            return Err(TargetError::PlaintextKey);
        }
        // An address takes a scheme of its own.
        if address.contains("://") {
            return Err(AddressError::Extra.into());
        }
        let address = if scheme == Scheme::Bare { address } else { address.strip_suffix('/').unwrap_or(address) };
        Ok(Self { address: address.parse()?, key, scheme })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";

    #[test]
    fn what_is_read_is_written_the_same() {
        for text in [
            "127.0.0.1:7400".to_owned(),
            "[2001:db8::1]:7400".to_owned(),
            "http://127.0.0.1:7400".to_owned(),
            "assay://validator.example:7400".to_owned(),
            format!("assay://validator.example:7400#{KEY}"),
            format!("assay://[::1]:1#{KEY}"),
            format!("validator.example:7400#{KEY}"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), text);
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        assert_eq!("assay://a:1/".parse::<Target>().unwrap().to_string(), "assay://a:1");
    }

    #[test]
    fn other_texts_are_refused_with_the_form() {
        for (text, error) in [
            ("https://a:1".to_owned(), TargetError::Scheme("https".to_owned())),
            ("assay://a:1#".to_owned(), TargetError::Key),
            (format!("assay://a:1#{}", &KEY[1..]), TargetError::Key),
            (format!("assay://a:1#{KEY}0"), TargetError::Key),
            (format!("assay://a:1#{KEY}#{KEY}"), TargetError::Key),
            (format!("http://a:1#{KEY}"), TargetError::PlaintextKey),
            (format!("assay://a#{KEY}"), TargetError::Address(AddressError::Port)),
            ("assay://user@a:1".to_owned(), TargetError::Address(AddressError::Extra)),
            ("assay://a:1/path".to_owned(), TargetError::Address(AddressError::Extra)),
            ("assay://http://a:1".to_owned(), TargetError::Address(AddressError::Extra)),
            ("assay://::1:1".to_owned(), TargetError::Address(AddressError::Host)),
        ] {
            assert_eq!(text.parse::<Target>(), Err(error), "{text}");
        }
    }

    #[test]
    fn only_this_machine_is_reached_in_plaintext_by_default() {
        let is_tls = |text: &str, allowed| text.parse::<Target>().unwrap().is_tls(allowed);
        for (text, by_default, allowed) in [
            ("127.0.0.1:1", false, false),
            ("localhost:1", false, false),
            ("[::1]:1", false, false),
            ("10.0.0.1:1", true, false),
            ("[2001:db8::1]:1", true, false),
            ("validator.example:1", true, false),
            ("assay://127.0.0.1:1", true, true),
            ("http://10.0.0.1:1", false, false),
            (&format!("127.0.0.1:1#{KEY}"), true, true),
        ] {
            assert_eq!((is_tls(text, false), is_tls(text, true)), (by_default, allowed), "{text}");
        }
    }
}
