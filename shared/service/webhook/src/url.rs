//! Destination URL of events, as an operator writes it.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::{InvalidUri, PathAndQuery};

use super::address;

/// The longest URL in bytes.
pub const MAX_URL_BYTES: usize = 2048;

/// Destination URL of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether the scheme is `https`.
    pub is_tls: bool,
    /// A name or an address.
    pub host: String,
    pub port: u16,
    /// Path and query, from the first `/`.
    pub path: PathAndQuery,
}

/// Reasons why a text is not a destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// A scheme other than `http` and `https`.
    #[error("expected a URL of http:// or https://")]
    Scheme,
    /// Not a URL.
    #[error("not a URL: {0}")]
    Url(String),
    /// A secret in the user part would be shown.
    #[error("a user in the URL is not supported")]
    User,
    #[error("the URL has more than {MAX_URL_BYTES} bytes")]
    Long,
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.len() > MAX_URL_BYTES {
            return Err(UrlError::Long);
        }
        let uri: Uri = text.parse().map_err(|error: InvalidUri| UrlError::Url(error.to_string()))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(UrlError::Scheme),
        };
        let authority = uri.authority().ok_or_else(|| UrlError::Url("it has no host".to_owned()))?;
        if authority.as_str().contains('@') {
            return Err(UrlError::User);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(UrlError::Url("it has no host".to_owned()));
        }
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(0) => return Err(UrlError::Url("port 0 is none".to_owned())),
            Some(port) => port,
            None if has_port => return Err(UrlError::Url("its port is no number up to 65535".to_owned())),
            None => {
                if is_tls {
                    443
                } else {
                    80
                }
            }
        };
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Self { is_tls, host: host.to_owned(), port, path })
    }
}

impl Url {
    /// The reason to refuse the host, if it is an address; a name is looked up for each delivery.
    pub fn refusal(&self) -> Option<&'static str> {
        self.host.parse().ok().and_then(address::refusal)
    }

    /// The host and the port, in the form of the header `Host`.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Url {
    /// Shows only the first segment of the path: later segments hold the secrets of Slack, Discord and Teams.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        let path = self.path.path();
        let first = path[1..].find('/').map_or(path.len(), |slash| 1 + slash);
        let rest = if path.len() > first + 1 { "/…" } else { &path[first..] };
        write!(f, "{scheme}://{}{}{rest}", self.authority(), &path[..first])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, UrlError> {
        text.parse::<Url>().map(|url| url.to_string())
    }

    #[test]
    fn urls_are_http_and_https() {
        assert_eq!(shown("http://127.0.0.1:9000/hook?token=secret").as_deref(), Ok("http://127.0.0.1:9000/hook"));
        assert_eq!(shown("HTTP://alerts.example").as_deref(), Ok("http://alerts.example:80/"));
        assert_eq!(
            shown("https://hooks.example/services/T0/B0/secret").as_deref(),
            Ok("https://hooks.example:443/services/…")
        );
        assert_eq!(shown("https://hooks.example/a/").as_deref(), Ok("https://hooks.example:443/a/"));
        assert_eq!(shown("http://[::1]:81/a").as_deref(), Ok("http://[::1]:81/a"));
        assert_eq!(shown("https://alerts.example/a?b=c").as_deref(), Ok("https://alerts.example:443/a"));
        assert_eq!(shown(&format!("http://alerts.example/{}", "a".repeat(2048))), Err(UrlError::Long));
        assert_eq!(shown("ftp://alerts.example/"), Err(UrlError::Scheme));
        assert_eq!(shown("http://me:word@alerts.example/"), Err(UrlError::User));
        for wrong in ["http://", "http://:80/", "http://host:99999/", "http://host:0/", "http://a b/"] {
            assert!(matches!(shown(wrong), Err(UrlError::Url(_))), "{wrong}");
        }
    }
}
