//! Where events go, as an operator writes it: a command line, or a URL.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::http::uri::PathAndQuery;

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookTarget {
    /// A program and its arguments: the event comes on standard input.
    Command {
        /// A path, or a name that is looked up in `PATH`.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// A server: the event is posted.
    Http {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
        /// From the first `/`.
        path: PathAndQuery,
    },
}

/// Why a text is neither a command nor a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookTargetError {
    /// Nothing is there.
    #[error("expected a command or an http:// URL; leave the setting out for no hook")]
    Empty,
    /// A quote is not closed, or a backslash is last.
    #[error("not a command line: a quote is not closed, or a backslash is last")]
    Words,
    /// TLS is not built in.
    #[error(
        "https is not supported: give a command that posts what it reads, such as \
             \"curl --fail --silent --data-binary @- https://...\", or an http:// URL on this machine"
    )]
    Https,
    /// Another scheme.
    #[error("expected a command or an http:// URL")]
    Scheme,
    /// No URL.
    #[error("not a URL: {0}")]
    Url(String),
    /// A secret would stand where it is shown.
    #[error("a user in the URL is not supported: give a command, such as curl with --config")]
    User,
}

impl FromStr for HookTarget {
    type Err = HookTargetError;

    fn from_str(text: &str) -> Result<Self, HookTargetError> {
        let text = text.trim();
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        match scheme.as_deref() {
            Some("http") => http(text),
            Some("https") => Err(HookTargetError::Https),
            Some(other) if other.bytes().all(|byte| byte.is_ascii_alphanumeric()) => Err(HookTargetError::Scheme),
            _ => command(text),
        }
    }
}

fn command(text: &str) -> Result<HookTarget, HookTargetError> {
    let mut words = shlex::split(text).ok_or(HookTargetError::Words)?.into_iter();
    let program = words.next().filter(|program| !program.is_empty()).ok_or(HookTargetError::Empty)?;
    Ok(HookTarget::Command { program, arguments: words.collect() })
}

fn http(text: &str) -> Result<HookTarget, HookTargetError> {
    let uri: Uri = text.parse().map_err(|error: http::uri::InvalidUri| HookTargetError::Url(error.to_string()))?;
    let authority = uri.authority().ok_or_else(|| HookTargetError::Url("it has no host".to_owned()))?;
    if authority.as_str().contains('@') {
        return Err(HookTargetError::User);
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(HookTargetError::Url("it has no host".to_owned()));
    }
    let has_port = authority.as_str().len() > authority.host().len();
    let port = match authority.port_u16() {
        Some(0) => return Err(HookTargetError::Url("port 0 is none".to_owned())),
        Some(port) => port,
        None if has_port => return Err(HookTargetError::Url("its port is no number up to 65535".to_owned())),
        None => 80,
    };
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Ok(HookTarget::Http { host: host.to_owned(), port, path })
}

impl fmt::Display for HookTarget {
    /// Without arguments and queries, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { program, .. } => f.write_str(program),
            Self::Http { host, port, path } if host.contains(':') => write!(f, "http://[{host}]:{port}{}", path.path()),
            Self::Http { host, port, path } => write!(f, "http://{host}:{port}{}", path.path()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, HookTargetError> {
        text.parse::<HookTarget>().map(|target| target.to_string())
    }

    #[test]
    fn commands_are_split_as_a_shell_splits_them() {
        let target: HookTarget = "/opt/a\\ hook --to 'some one' \"x y\"".parse().unwrap();
        let arguments = ["--to", "some one", "x y"].map(str::to_owned).to_vec();
        assert_eq!(target, HookTarget::Command { program: "/opt/a hook".into(), arguments });
        // A URL as an argument makes no URL of a command.
        assert_eq!(shown("curl https://example.org/secret").as_deref(), Ok("curl"));
        assert_eq!(shown("a 'b"), Err(HookTargetError::Words));
        for empty in ["", "  ", "''"] {
            assert_eq!(shown(empty), Err(HookTargetError::Empty), "{empty:?}");
        }
    }

    #[test]
    fn urls_are_plain_http() {
        assert_eq!(shown("http://127.0.0.1:9000/hook?token=secret").as_deref(), Ok("http://127.0.0.1:9000/hook"));
        assert_eq!(shown("HTTP://alerts.example").as_deref(), Ok("http://alerts.example:80/"));
        assert_eq!(shown("http://[::1]:81/a").as_deref(), Ok("http://[::1]:81/a"));
        assert_eq!(shown("https://alerts.example/"), Err(HookTargetError::Https));
        assert_eq!(shown("ftp://alerts.example/"), Err(HookTargetError::Scheme));
        assert_eq!(shown("http://me:word@alerts.example/"), Err(HookTargetError::User));
        for wrong in ["http://", "http://:80/", "http://host:99999/", "http://host:0/", "http://a b/"] {
            assert!(matches!(shown(wrong), Err(HookTargetError::Url(_))), "{wrong}");
        }
    }
}
