//! Where events go, as an operator writes it: a URL, or in the settings a command line.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::{InvalidUri, PathAndQuery};

use super::address;

/// The longest URL.
pub const MAX_URL_BYTES: usize = 2048;

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program and its arguments: the event comes on standard input.
    Command {
        /// A path, or a name that is looked up in `PATH`.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// A server: the event is posted.
    Server(Url),
}

/// Where events are posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether it is `https://`.
    pub is_tls: bool,
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// From the first `/`.
    pub path: PathAndQuery,
}

/// Why a text is neither a command nor a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Nothing is there.
    #[error("expected a command or a URL; leave the setting out where nobody is told")]
    Empty,
    /// A quote is not closed, or a backslash is last.
    #[error("not a command line: a quote is not closed, or a backslash is last")]
    Words,
    /// Another scheme.
    #[error("expected a command, or a URL of http:// or https://")]
    Scheme,
    /// No URL.
    #[error("not a URL: {0}")]
    Url(String),
    /// A secret would stand where it is shown.
    #[error("a user in the URL is not supported")]
    User,
    /// It is longer than its bound.
    #[error("the URL has more than {MAX_URL_BYTES} bytes")]
    Long,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let text = text.trim();
        match text.split_once("://").map(|(scheme, _)| scheme) {
            Some(scheme) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => text.parse().map(Self::Server),
            _ => command(text),
        }
    }
}

fn command(text: &str) -> Result<Target, TargetError> {
    let mut words = shlex::split(text).ok_or(TargetError::Words)?.into_iter();
    let program = words.next().filter(|program| !program.is_empty()).ok_or(TargetError::Empty)?;
    Ok(Target::Command { program, arguments: words.collect() })
}

impl FromStr for Url {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.len() > MAX_URL_BYTES {
            return Err(TargetError::Long);
        }
        let uri: Uri = text.parse().map_err(|error: InvalidUri| TargetError::Url(error.to_string()))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(TargetError::Scheme),
        };
        let authority = uri.authority().ok_or_else(|| TargetError::Url("it has no host".to_owned()))?;
        if authority.as_str().contains('@') {
            return Err(TargetError::User);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(TargetError::Url("it has no host".to_owned()));
        }
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(0) => return Err(TargetError::Url("port 0 is none".to_owned())),
            Some(port) => port,
            None if has_port => return Err(TargetError::Url("its port is no number up to 65535".to_owned())),
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
    /// Why nothing is ever sent there, where the host is an address; a name is looked up when something is sent.
    #[must_use]
    pub fn refusal(&self) -> Option<&'static str> {
        self.host.parse().ok().and_then(address::refusal)
    }

    /// The host and the port, as the header `Host` has them.
    #[must_use]
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Url {
    /// Without the query, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path.path())
    }
}

impl fmt::Display for Target {
    /// Without arguments and queries, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { program, .. } => f.write_str(program),
            Self::Server(url) => url.fmt(f),
        }
    }
}

impl Target {
    /// The id of the webhook of the settings that goes there: the same for every validator and at every start.
    #[must_use]
    pub fn id(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("assay 2026 on_event");
        match self {
            Self::Command { program, arguments } => {
                for word in std::iter::once(program).chain(arguments) {
                    hasher.update(word.as_bytes()).update(&[0]);
                }
            }
            Self::Server(url) => {
                hasher.update(format!("{url}?{}", url.path.query().unwrap_or_default()).as_bytes());
            }
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, TargetError> {
        text.parse::<Target>().map(|target| target.to_string())
    }

    #[test]
    fn commands_are_split_as_a_shell_splits_them() {
        let target: Target = "/opt/a\\ hook --to 'some one' \"x y\"".parse().unwrap();
        let arguments = ["--to", "some one", "x y"].map(str::to_owned).to_vec();
        assert_eq!(target, Target::Command { program: "/opt/a hook".into(), arguments });
        // A URL as an argument makes no URL of a command.
        assert_eq!(shown("curl https://example.org/secret").as_deref(), Ok("curl"));
        assert_eq!(shown("a 'b"), Err(TargetError::Words));
        for empty in ["", "  ", "''"] {
            assert_eq!(shown(empty), Err(TargetError::Empty), "{empty:?}");
        }
    }

    #[test]
    fn urls_are_http_and_https() {
        assert_eq!(shown("http://127.0.0.1:9000/hook?token=secret").as_deref(), Ok("http://127.0.0.1:9000/hook"));
        assert_eq!(shown("HTTP://alerts.example").as_deref(), Ok("http://alerts.example:80/"));
        assert_eq!(shown("http://[::1]:81/a").as_deref(), Ok("http://[::1]:81/a"));
        assert_eq!(shown("https://alerts.example/a?b=c").as_deref(), Ok("https://alerts.example:443/a"));
        assert_eq!(shown(&format!("http://alerts.example/{}", "a".repeat(2048))), Err(TargetError::Long));
        assert_eq!(shown("ftp://alerts.example/"), Err(TargetError::Scheme));
        assert_eq!(shown("http://me:word@alerts.example/"), Err(TargetError::User));
        for wrong in ["http://", "http://:80/", "http://host:99999/", "http://host:0/", "http://a b/"] {
            assert!(matches!(shown(wrong), Err(TargetError::Url(_))), "{wrong}");
        }
    }

    #[test]
    fn a_webhook_of_the_settings_is_known_again() {
        let id = |text: &str| text.parse::<Target>().unwrap().id();
        assert_eq!(id("notify 'a b'"), id(" notify  \"a b\""));
        let others =
            ["notify a b", "notify", "http://a.example/?b=c", "http://a.example/?b=d", "https://a.example/?b=c"];
        let mut ids: Vec<_> = others.iter().map(|text| id(text)).chain([id("notify 'a b'")]).collect();
        ids.sort();
        ids.dedup();
        assert_eq!((ids.len(), ids[0].len()), (6, 32));
    }
}
