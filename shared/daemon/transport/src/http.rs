//! HTTP/1.1 to servers by their URL: logs, witnesses and receivers of events.

use std::fmt;
use std::str::FromStr;

use assay_program::address::{Address, AddressError};
use assay_work::PublicKey;
use http::Uri;
use http::uri::{InvalidUri, PathAndQuery};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;

use crate::certificate::system_authorities;
use crate::client::secure_http1;
use crate::failure::TlsFailure;
use crate::trust::Trust;

/// Bytes of the longest URL.
pub const MAX_URL_BYTES: usize = 2048;
/// Bytes of a message's head.
pub const MAX_HEAD_BYTES: usize = 16 << 10;

/// `http://HOST[:PORT][/PATH]` or `https://HOST[:PORT][/PATH][#KEY]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub is_tls: bool,
    pub address: Address,
    /// Path and query, from the first `/`.
    pub path: PathAndQuery,
    /// The only accepted key, of a validator's own certificate.
    pub key: Option<PublicKey>,
}

/// Reasons why a text is not a URL of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// A scheme other than `http` and `https`.
    #[error("expected a URL of http:// or https://")]
    Scheme,
    #[error("not a URL: {0}")]
    Malformed(String),
    /// A secret in the user part would be shown.
    #[error("a user in the URL is not supported")]
    User,
    /// Where only an address is meant.
    #[error("expected http://HOST:PORT or https://HOST:PORT, with nothing after the port")]
    Path,
    #[error("the URL has more than {MAX_URL_BYTES} bytes")]
    Long,
    /// The part after `#` is not a key.
    #[error("expected the validator's public key behind #, 64 hex digits, as `assay-validator key` prints it")]
    Key,
    /// Plaintext proves no key.
    #[error("a key behind # needs TLS: write https:// in place of http://")]
    PlaintextKey,
    #[error(transparent)]
    Address(#[from] AddressError),
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.len() > MAX_URL_BYTES {
            return Err(UrlError::Long);
        }
        let (location, key) = match text.split_once('#') {
            Some((location, key)) => (location, Some(key.parse().map_err(|_| UrlError::Key)?)),
            None => (text, None),
        };
        let uri: Uri = location.parse().map_err(|error: InvalidUri| UrlError::Malformed(error.to_string()))?;
        let (is_tls, default_port) = match uri.scheme_str() {
            Some("http") if key.is_some() => return Err(UrlError::PlaintextKey),
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(UrlError::Scheme),
        };
        let authority = uri.authority().ok_or(AddressError::Host)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::User);
        }
        let has_port = authority.as_str().len() > authority.host().len();
        let address = if has_port { authority.to_string() } else { format!("{authority}:{default_port}") };
        let address = address.parse::<Address>()?;
        if address.port == 0 {
            return Err(AddressError::Port.into());
        }
        // It shows the slash that a query without a path lacks.
        let path = uri.path_and_query().map_or_else(|| "/".to_owned(), PathAndQuery::to_string);
        let path = path.parse().map_err(|error: InvalidUri| UrlError::Malformed(error.to_string()))?;
        Ok(Self { is_tls, address, path, key })
    }
}

impl Url {
    /// Reads a URL that has no path.
    pub fn without_path(text: &str) -> Result<Self, UrlError> {
        text.parse().and_then(|url: Self| if url.path == "/" { Ok(url) } else { Err(UrlError::Path) })
    }

    /// Speaks HTTP/1.1 on a new connection to the server, over TLS where the URL is of `https`.
    ///
    /// # Errors
    /// The reason for the failure.
    pub async fn speak(&self, stream: TcpStream) -> Result<SendRequest<Full<Bytes>>, String> {
        if !self.is_tls {
            return speak(TokioIo::new(stream)).await;
        }
        let trust = self.key.map_or_else(system_trust, |key| Ok(Trust::Key(key)))?;
        let stream = secure_http1(stream, &self.address.host, &trust).await;
        if stream.is_err() {
            *SYSTEM.lock() = None;
        }
        speak(TokioIo::new(stream.map_err(|failure| format!("no TLS with {}: {}", self.address, reason(&failure)))?))
            .await
    }
}

impl fmt::Display for Url {
    /// Without the path, which may have secrets, and the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.address)
    }
}

async fn speak<S: Read + Write + Unpin + Send + 'static>(stream: S) -> Result<SendRequest<Full<Bytes>>, String> {
    let handshake = http1::Builder::new().max_buf_size(MAX_HEAD_BYTES).handshake(stream).await;
    let (sender, connection) = handshake.map_err(|error| error.to_string())?;
    // The task ends with the sender; requests report a broken connection.
    tokio::spawn(connection);
    Ok(sender)
}

/// A failure with its remedy where no setting names authorities.
fn reason(failure: &TlsFailure) -> String {
    match failure {
        TlsFailure::UnknownIssuer => "no authority that this machine trusts issued the server's certificate: add its \
                                      authority's to those of this machine, or name a file with it in SSL_CERT_FILE; \
                                      of a validator's own certificate, give the key behind # in the URL"
            .to_owned(),
        other => other.to_string(),
    }
}

/// The authorities of this machine, read again after a failure: they may have changed.
static SYSTEM: Mutex<Option<Trust>> = Mutex::new(None);

fn system_trust() -> Result<Trust, String> {
    let mut known = SYSTEM.lock();
    if let Some(trust) = &*known {
        return Ok(trust.clone());
    }
    let roots = system_authorities().map_err(|error| error.to_string())?;
    Ok(known.insert(Trust::Authorities(roots.into())).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";

    #[test]
    fn a_url_is_a_server_with_or_without_a_path_and_its_key() {
        for (text, shown, path) in [
            ("http://127.0.0.1:7480".to_owned(), "http://127.0.0.1:7480", "/"),
            ("HTTP://alerts.example".to_owned(), "http://alerts.example:80", "/"),
            ("http://alerts.example?b=c".to_owned(), "http://alerts.example:80", "/?b=c"),
            ("https://[::1]:7480/a".to_owned(), "https://[::1]:7480", "/a"),
            ("https://[::1]/".to_owned(), "https://[::1]:443", "/"),
            (format!("https://validator.example:7480#{KEY}"), "https://validator.example:7480", "/"),
            (format!("https://validator.example/a/?b=c#{KEY}"), "https://validator.example:443", "/a/?b=c"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.to_string().as_str(), url.path.as_str()), (shown, path));
            assert_eq!(url.key.is_some(), text.contains('#'));
        }
    }

    #[test]
    fn the_remedy_of_an_unknown_authority_is_one_that_every_command_has() {
        let said = reason(&TlsFailure::UnknownIssuer);
        assert!(
            said.contains("SSL_CERT_FILE") && said.contains("behind #") && !said.contains("validator_ca"),
            "{said}"
        );
    }

    #[test]
    fn other_texts_are_refused_with_the_form() {
        for (text, error) in [
            ("validator.example:7480".to_owned(), UrlError::Scheme),
            ("ftp://a:1".to_owned(), UrlError::Scheme),
            (format!("http://a:1#{KEY}"), UrlError::PlaintextKey),
            ("https://a:1#beef".to_owned(), UrlError::Key),
            (format!("https://a:1#{KEY}0"), UrlError::Key),
            ("https://user:secret@a:1".to_owned(), UrlError::User),
            ("https://a:70000".to_owned(), UrlError::Address(AddressError::Port)),
            ("https://a:0".to_owned(), UrlError::Address(AddressError::Port)),
            ("http://:80/".to_owned(), UrlError::Address(AddressError::Host)),
            (format!("http://a/{}", "a".repeat(2048)), UrlError::Long),
        ] {
            assert_eq!(text.parse::<Url>(), Err(error), "{text}");
        }
        for text in ["", "http://", "http://a b/", "https://http://a:1"] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
        for text in ["https://a:1/api", "https://a/?b"] {
            assert_eq!(Url::without_path(text), Err(UrlError::Path), "{text}");
        }
    }
}
