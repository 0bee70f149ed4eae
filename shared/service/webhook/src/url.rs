//! Destination URL of events, as an operator writes it.

use std::fmt;
use std::str::FromStr;

use assay_transport::http::{self, UrlError};

use super::address;

/// Destination URL of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url(pub http::Url);

impl FromStr for Url {
    type Err = UrlError;

    /// A fragment is not sent.
    fn from_str(text: &str) -> Result<Self, UrlError> {
        text.split('#').next().unwrap_or(text).parse().map(Self)
    }
}

impl Url {
    /// The reason to refuse the host, if it is an address; a name is looked up for each delivery.
    pub fn refusal(&self) -> Option<&'static str> {
        self.0.address.host.parse().ok().and_then(address::refusal)
    }
}

impl fmt::Display for Url {
    /// Shows only the first segment of the path: later segments hold the secrets of Slack, Discord and Teams.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.path.path();
        let first = path[1..].find('/').map_or(path.len(), |slash| 1 + slash);
        let rest = if path.len() > first + 1 { "/…" } else { &path[first..] };
        write!(f, "{}{}{rest}", self.0, &path[..first])
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
        assert_eq!(shown("https://alerts.example/a#b").as_deref(), Ok("https://alerts.example:443/a"));
        assert_eq!(shown("http://me:word@alerts.example/"), Err(UrlError::User));
    }
}
