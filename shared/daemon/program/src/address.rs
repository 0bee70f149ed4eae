//! Where a validator is: a host and a port, and whether that leaves this machine.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
}

/// A text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// A scheme other than `http`.
    #[error("expected host:port or http://host:port; `{0}://` is not supported")]
    Scheme(String),
    /// A path, a query or a user.
    #[error("expected host:port or http://host:port, with nothing after the port and no user before the host")]
    Extra,
    /// The port is missing or not a number.
    #[error("expected host:port, such as 127.0.0.1:7400, with a port from 0 to 65535")]
    Port,
    /// The host is empty, or an IPv6 address without brackets.
    #[error("expected host:port, with an IPv6 address in brackets, such as [::1]:7400")]
    Host,
}

impl Address {
    /// Whether it can only mean this machine: 127.0.0.0/8, ::1 or `localhost`.
    pub fn is_loopback(&self) -> bool {
        let named = self.host.eq_ignore_ascii_case("localhost");
        named || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
    }

    /// Whether it means every address of this machine: it can be listened on, not dialled.
    pub fn is_unspecified(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_unspecified())
    }

    /// Whether both cannot be listened on: the same port, but 0, of one host or of all.
    pub fn overlaps(&self, other: &Self) -> bool {
        let is_v6 = |address: &Self| address.host.contains(':');
        let covers = |all: &Self, one: &Self| all.is_unspecified() && (is_v6(all) || !is_v6(one));
        let same_host = self.host == other.host || covers(self, other) || covers(other, self);
        self.port == other.port && self.port != 0 && same_host
    }

    /// The address as a URL for plaintext HTTP/2.
    pub fn url(&self) -> String {
        format!("http://{self}")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest.strip_suffix('/').unwrap_or(rest),
            Some((scheme, _)) => return Err(AddressError::Scheme(scheme.to_owned())),
            None => text,
        };
        if rest.contains(['/', '?', '#', '@']) || rest.contains(char::is_whitespace) {
            return Err(AddressError::Extra);
        }
        let (host, port) = rest.rsplit_once(':').ok_or(AddressError::Port)?;
        let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = match bracketed {
            Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
            None if !host.is_empty() && !host.contains([':', '[', ']']) => host,
            _ => return Err(AddressError::Host),
        };
        // u16's parser takes a sign.
        let port = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok()).flatten();
        Ok(Self { host: host.to_owned(), port: port.ok_or(AddressError::Port)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_urls_are_read() {
        for (text, shown) in [
            ("127.0.0.1:7400", "127.0.0.1:7400"),
            ("http://127.0.0.1:7400", "127.0.0.1:7400"),
            ("http://validator.example:1/", "validator.example:1"),
            ("[::1]:0", "[::1]:0"),
            ("localhost:65535", "localhost:65535"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, error) in [
            ("https://127.0.0.1:7400", AddressError::Scheme("https".to_owned())),
            ("http://a:1/path", AddressError::Extra),
            ("user@a:1", AddressError::Extra),
            ("a", AddressError::Port),
            ("a:", AddressError::Port),
            ("a:65536", AddressError::Port),
            ("a:+1", AddressError::Port),
            (":1", AddressError::Host),
            ("::1:7400", AddressError::Host),
            ("[a]:1", AddressError::Host),
        ] {
            assert_eq!(text.parse::<Address>(), Err(error), "{text}");
        }
    }

    #[test]
    fn loopback_is_this_machine_only() {
        for text in ["127.0.0.1:1", "127.255.0.9:1", "[::1]:1", "localhost:1", "LOCALHOST:1", "[::ffff:127.0.0.1]:1"] {
            assert!(text.parse::<Address>().unwrap().is_loopback(), "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "localhost.example:1", "128.0.0.1:1"] {
            assert!(!text.parse::<Address>().unwrap().is_loopback(), "{text}");
        }
    }
}
