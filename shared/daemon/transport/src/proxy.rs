//! Proxies that pass bytes on: HTTP CONNECT, by the usual environment variables.

use std::io;

use assay_program::address::Address;
use assay_work::text::{printable, quoted};
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes of a proxy's answer: a status and a few headers.
const MAX_ANSWER_BYTES: usize = 8 << 10;
/// Bytes of a proxy's reason that are shown.
const MAX_REASON_BYTES: usize = 128;
/// The port of a proxy whose URL has none.
const DEFAULT_PORT: u16 = 80;

/// The proxies that the environment names.
#[derive(Debug)]
pub struct Proxies {
    matcher: Matcher,
    /// `NO_PROXY` is `*`.
    never: bool,
}

/// A proxy for a connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The address at which it listens.
    pub address: Address,
    /// Its user's name and password, as HTTP sends them.
    authorization: Option<String>,
}

/// The connection through a proxy failed. No text has a password in it.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The variable has no URL of a proxy.
    #[error("{0} is no URL of an HTTP proxy: expected http://host:port or http://user:password@host:port")]
    Variable(&'static str),
    /// The connection to the proxy broke.
    #[error("the proxy {proxy}: {source}")]
    Broken {
        proxy: Address,
        /// The system's error.
        source: io::Error,
    },
    /// The server does not answer as a proxy.
    #[error("the proxy {0} does not answer as an HTTP proxy does: check HTTPS_PROXY")]
    NotHttp(Address),
    /// It wants a user's name and password.
    #[error("the proxy {0} asks for a user name and a password: HTTPS_PROXY=http://user:password@{0}")]
    Unauthorized(Address),
    /// The proxy refuses the connection.
    #[error("the proxy {proxy} refuses to connect to {target} ({status}): {}", quoted(.reason))]
    Refused {
        proxy: Address,
        /// The target that it was asked for.
        target: Address,
        status: u16,
        reason: String,
    },
}

impl Proxies {
    /// Those of this process's environment: `HTTPS_PROXY`, `https_proxy`, else `ALL_PROXY`, `all_proxy`; without those
    /// that `NO_PROXY` or `no_proxy` takes out.
    pub fn from_environment() -> Result<Self, ProxyError> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// Those that these variables name, as [`Proxies::from_environment`] reads them.
    pub fn from_variables(read: impl Fn(&'static str) -> Option<String>) -> Result<Self, ProxyError> {
        let first = |names: [&'static str; 2]| names.into_iter().find_map(|name| Some((name, read(name)?)));
        let all = first(["ALL_PROXY", "all_proxy"]);
        let https = first(["HTTPS_PROXY", "https_proxy"]).filter(|(_, url)| !url.is_empty());
        let chosen = https.or(all).filter(|(_, url)| !url.is_empty());
        let excluded = first(["NO_PROXY", "no_proxy"]).map(|(_, list)| list).unwrap_or_default();
        let never = excluded.split(',').any(|entry| entry.trim() == "*");
        let Some((name, url)) = chosen else {
            return Ok(Self { matcher: Matcher::builder().build(), never });
        };
        let proxies = Self { matcher: Matcher::builder().https(url.clone()).no(excluded).build(), never };
        // Asked without exceptions: an unusable value is refused now, not passed over.
        Self { matcher: Matcher::builder().https(url).build(), never: false }
            .find("host.invalid", DEFAULT_PORT)
            .ok_or(ProxyError::Variable(name))?;
        Ok(proxies)
    }

    /// The proxy for an address; this machine is reached without one.
    pub fn for_address(&self, address: &Address) -> Option<Proxy> {
        if self.never || address.is_loopback() {
            return None;
        }
        let host = if address.host.contains(':') { format!("[{}]", address.host) } else { address.host.clone() };
        self.find(&host, address.port)
    }

    fn find(&self, host: &str, port: u16) -> Option<Proxy> {
        let intercept = self.matcher.intercept(&format!("https://{host}:{port}").parse().ok()?)?;
        let uri = intercept.uri();
        if uri.scheme_str() != Some("http") {
            return None;
        }
        let host = uri.host()?;
        let address = format!("{host}:{}", uri.port_u16().unwrap_or(DEFAULT_PORT)).parse().ok()?;
        let authorization = intercept.basic_auth().and_then(|value| value.to_str().ok()).map(str::to_owned);
        Some(Proxy { address, authorization })
    }
}

impl Proxy {
    /// Has the proxy connect a stream to it with a target; from then on it is a stream to the target.
    pub async fn connect<S>(&self, stream: &mut S, target: &Address) -> Result<(), ProxyError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let broken = |source| ProxyError::Broken { proxy: self.address.clone(), source };
        let authorization = self.authorization.as_ref();
        let authorization = authorization.map_or_else(String::new, |it| format!("Proxy-Authorization: {it}\r\n"));
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n");
        stream.write_all(request.as_bytes()).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        let answer = self.answer(stream).await?;
        let not_http = || ProxyError::NotHttp(self.address.clone());
        let (version, rest) = answer.split_once(' ').ok_or_else(not_http)?;
        let (status, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        let status = status.parse().ok().filter(|status| (100..600).contains(status)).ok_or_else(not_http)?;
        if !version.starts_with("HTTP/1.") {
            return Err(not_http());
        }
        match status {
            200..300 => Ok(()),
            407 => Err(ProxyError::Unauthorized(self.address.clone())),
            status => {
                let reason = printable(reason, MAX_REASON_BYTES);
                Err(ProxyError::Refused { proxy: self.address.clone(), target: target.clone(), status, reason })
            }
        }
    }

    /// The status line of the answer, whose headers are read to their end and no further.
    async fn answer<S: AsyncRead + Unpin>(&self, stream: &mut S) -> Result<String, ProxyError> {
        let mut answer = Vec::new();
        // One byte at a time: the bytes behind the empty line are the target's.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() == MAX_ANSWER_BYTES {
                return Err(ProxyError::NotHttp(self.address.clone()));
            }
            let byte = stream.read_u8().await;
            answer.push(byte.map_err(|source| ProxyError::Broken { proxy: self.address.clone(), source })?);
        }
        let text = String::from_utf8_lossy(&answer);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }
}

/// Leaves the password out.
impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proxy({})", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&'static str, &str)]) -> Result<Proxies, ProxyError> {
        Proxies::from_variables(|name| {
            variables.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn proxy_for(variables: &[(&'static str, &str)], target: &str) -> Option<String> {
        let proxy = proxies(variables).unwrap().for_address(&target.parse().unwrap());
        proxy.map(|proxy| proxy.address.to_string())
    }

    #[test]
    fn the_usual_variables_name_the_proxy() {
        let proxy = |variables: &[(&'static str, &str)]| proxy_for(variables, "validator.example:7400");
        assert_eq!(proxy(&[]), None);
        assert_eq!(proxy(&[("HTTP_PROXY", "http://p:1")]), None, "it is for another protocol");
        assert_eq!(proxy(&[("https_proxy", "http://p:1")]).as_deref(), Some("p:1"));
        assert_eq!(proxy(&[("HTTPS_PROXY", "p:1"), ("ALL_PROXY", "http://q:2")]).as_deref(), Some("p:1"));
        assert_eq!(proxy(&[("HTTPS_PROXY", ""), ("all_proxy", "http://q")]).as_deref(), Some("q:80"));
        assert_eq!(proxy(&[("HTTPS_PROXY", "http://[2001:db8::5]:3128/")]).as_deref(), Some("[2001:db8::5]:3128"));
    }

    #[test]
    fn some_addresses_need_none() {
        let all =
            |no: &'static str, target: &str| proxy_for(&[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", no)], target);
        assert_eq!(all("", "10.0.0.1:1").as_deref(), Some("p:1"));
        assert_eq!(all("", "127.0.0.1:1"), None);
        assert_eq!(all("", "[::1]:1"), None);
        assert_eq!(all("*", "10.0.0.1:1"), None);
        assert_eq!(all("10.0.0.0/8", "10.0.0.1:1"), None);
        assert_eq!(all("10.0.0.0/8", "11.0.0.1:1").as_deref(), Some("p:1"));
        assert_eq!(all("2001:db8::/32", "[2001:db8::1]:1"), None);
        assert_eq!(all(".example, other", "validator.example:1"), None);
        assert_eq!(all("example", "notexample:1").as_deref(), Some("p:1"));
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_refused_without_its_password() {
        for url in ["https://u:secret@p:1", "socks5://u:secret@p:1", "http://u:secret@:1", "http://u:sec ret@p"] {
            let error = proxies(&[("HTTPS_PROXY", url)]).unwrap_err().to_string();
            assert!(error.contains("HTTPS_PROXY") && !error.contains("secret"), "{error}");
        }
        let proxy = proxies(&[("ALL_PROXY", "http://u:secret@p:1")]).unwrap();
        let proxy = proxy.for_address(&"a:1".parse().unwrap()).unwrap();
        assert_eq!(format!("{proxy:?}"), "Proxy(p:1)");
    }

    /// The result of an answer, and the request to the proxy.
    async fn connect(answer: &[u8]) -> (Result<(), ProxyError>, String, Vec<u8>) {
        let (mut here, mut there) = tokio::io::duplex(1 << 16);
        there.write_all(answer).await.unwrap();
        let proxy = proxies(&[("ALL_PROXY", "http://Aladdin:opensesame@p:1")]).unwrap();
        let target = "[2001:db8::1]:7400".parse().unwrap();
        let proxy = proxy.for_address(&target).unwrap();
        let result = proxy.connect(&mut here, &target).await;
        drop(there.shutdown().await);
        let mut asked = vec![0; 4096];
        let bytes = there.read(&mut asked).await.unwrap();
        let mut rest = Vec::new();
        here.read_to_end(&mut rest).await.unwrap();
        (result, String::from_utf8_lossy(&asked[..bytes]).into_owned(), rest)
    }

    #[tokio::test]
    async fn what_follows_the_answer_is_the_targets() {
        let (result, asked, rest) = connect(b"HTTP/1.1 200 Connection established\r\nVia: p\r\n\r\nhello").await;
        result.unwrap();
        assert_eq!(rest, b"hello");
        let expected = "CONNECT [2001:db8::1]:7400 HTTP/1.1\r\nHost: [2001:db8::1]:7400\r\n\
                        Proxy-Authorization: Basic QWxhZGRpbjpvcGVuc2VzYW1l\r\n\r\n";
        assert_eq!(asked, expected);
    }

    #[tokio::test]
    async fn other_answers_say_what_to_do() {
        let refused = connect(b"HTTP/1.1 403 Not\x1b[31m here\r\n\r\n").await.0.unwrap_err().to_string();
        assert!(refused.contains("(403)") && refused.contains("[2001:db8::1]:7400"), "{refused}");
        assert!(!refused.contains('\x1b'));
        let error = connect(b"HTTP/1.1 407 x\r\n\r\n").await.0.unwrap_err();
        assert!(matches!(error, ProxyError::Unauthorized(_)), "{error}");
        let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &[b'a'; 9000]].concat();
        for answer in [&b"SSH-2.0-OpenSSH\r\n\r\n"[..], b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n", &endless] {
            assert!(matches!(connect(answer).await.0, Err(ProxyError::NotHttp(_))));
        }
    }
}
