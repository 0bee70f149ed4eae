//! The address of a validator's HTTP API, as people type it.

use std::fmt;
use std::str::FromStr;

use assay_program::address::{Address, AddressError};
use assay_work::PublicKey;

const HTTPS_PORT: u16 = 443;

/// A server as people type it: `https://HOST:PORT#KEY`, `https://HOST[:PORT]` or `http://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    pub address: Address,
    pub is_tls: bool,
    /// The only accepted key.
    pub key: Option<PublicKey>,
}

/// Reasons why a text is not a server's URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerUrlError {
    /// Another scheme, or none.
    #[error("expected https://HOST:PORT#KEY, https://HOST:PORT or http://HOST:PORT")]
    Scheme,
    /// The address of the gRPC service, which is for miners.
    #[error(
        "assay:// is what miners connect to: take the port of http_listen, and https:// in its place, as in \
         https://HOST:7480#KEY"
    )]
    Miners,
    /// The part after `#` is not a key.
    #[error("expected the validator's public key behind #, 64 hex digits, as `assay-validator key` prints it")]
    Key,
    /// Plaintext proves no key.
    #[error("a key behind # needs TLS: write https:// in place of http://")]
    PlaintextKey,
    #[error(transparent)]
    Address(#[from] AddressError),
}

impl fmt::Display for ServerUrl {
    /// Without the key, which is not part of the location.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.address)
    }
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<Self, ServerUrlError> {
        let (is_tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some(("assay", _)) => return Err(ServerUrlError::Miners),
            _ => return Err(ServerUrlError::Scheme),
        };
        let (address, key) = match rest.split_once('#') {
            Some((address, key)) => (address, Some(key.parse().map_err(|_| ServerUrlError::Key)?)),
            None => (rest, None),
        };
        if key.is_some() && !is_tls {
            return Err(ServerUrlError::PlaintextKey);
        }
        // `Address` would accept a scheme of its own.
        if address.contains("://") {
            return Err(AddressError::Extra.into());
        }
        let address = address.strip_suffix('/').unwrap_or(address);
        let address = match address.parse() {
            Err(AddressError::Port) if is_tls => format!("{address}:{HTTPS_PORT}").parse(),
            parsed => parsed,
        };
        Ok(Self { address: address?, is_tls, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";

    #[test]
    fn a_server_is_a_url_with_or_without_its_key() {
        for (text, shown) in [
            ("http://127.0.0.1:7480".to_owned(), "http://127.0.0.1:7480"),
            ("https://[::1]:7480/".to_owned(), "https://[::1]:7480"),
            (format!("https://validator.example:7480#{KEY}"), "https://validator.example:7480"),
            ("https://validator.example".to_owned(), "https://validator.example:443"),
            ("https://validator.example/".to_owned(), "https://validator.example:443"),
        ] {
            let url: ServerUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(url.key.is_some(), text.contains('#'));
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_form() {
        for (text, error) in [
            ("validator.example:7480".to_owned(), ServerUrlError::Scheme),
            ("ftp://a:1".to_owned(), ServerUrlError::Scheme),
            (format!("assay://a:1#{KEY}"), ServerUrlError::Miners),
            (format!("http://a:1#{KEY}"), ServerUrlError::PlaintextKey),
            ("https://a:1#beef".to_owned(), ServerUrlError::Key),
            (format!("https://a:1#{KEY}0"), ServerUrlError::Key),
            ("https://user:secret@a:1".to_owned(), ServerUrlError::Address(AddressError::Extra)),
            ("https://a:1/api".to_owned(), ServerUrlError::Address(AddressError::Extra)),
            ("https://http://a:1".to_owned(), ServerUrlError::Address(AddressError::Extra)),
            ("http://a".to_owned(), ServerUrlError::Address(AddressError::Port)),
            ("https://a:70000".to_owned(), ServerUrlError::Address(AddressError::Host)),
        ] {
            assert_eq!(text.parse::<ServerUrl>(), Err(error), "{text}");
        }
    }
}
