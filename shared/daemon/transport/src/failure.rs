//! The reasons for which a TLS connection fails, in sentences with the remedy.

use std::io;

use assay_program::utc;
use assay_work::PublicKey;
use assay_work::text::{printable, quoted};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use crate::trust::KeyRefusal;

/// Bytes of a name in a peer's certificate that are shown.
const MAX_NAME_BYTES: usize = 256;
/// Names of a peer's certificate that are shown.
const MAX_NAMES: usize = 8;

/// Why a TLS connection did not come about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsFailure {
    /// The certificate is of another key than the pinned one.
    #[error(
        "the validator's key is {found}, {expected} was expected: check the address, and the key with the validator's \
         operator (`assay-validator address` prints both)"
    )]
    WrongKey {
        /// The one that is accepted.
        expected: PublicKey,
        /// The one that was presented.
        found: PublicKey,
    },
    /// The certificate is not a validator's own.
    #[error(
        "the server presents no certificate of a validator's own key: check the address; where an authority issued its \
         certificate, or a proxy ends TLS, give --validator-ca"
    )]
    NotOwn,
    #[error("the server's certificate expired on {}: its operator has to renew it", utc::text(*.not_after_unix_seconds))]
    Expired {
        /// When, in seconds since 1970.
        not_after_unix_seconds: u64,
    },
    /// The certificate begins later.
    #[error(
        "the server's certificate is valid only from {}: check this machine's clock, or have its operator renew it",
        utc::text(*.not_before_unix_seconds)
    )]
    NotYetValid {
        /// From when it is, in seconds since 1970.
        not_before_unix_seconds: u64,
    },
    /// It is for other names.
    #[error(
        "the server's certificate is not for {expected}{}: dial a name that it is for, or have one issued for this name",
        names(.presented)
    )]
    WrongName {
        expected: String,
        /// The names of the certificate.
        presented: Vec<String>,
    },
    /// No authority that is trusted issued it.
    #[error(
        "no authority that is trusted here issued the server's certificate: add its authority's to the file of \
         validator_ca; where the validator has none, give its key (behind # in its address)"
    )]
    UnknownIssuer,
    /// Another fault of the certificate.
    #[error("the server's certificate is refused: {0}")]
    Certificate(String),
    /// The server does not speak TLS.
    #[error(
        "the server does not speak TLS: check the address and the port; a validator that is reached through a tunnel in \
         plaintext is dialled as http://host:port"
    )]
    NotTls,
    /// It speaks TLS 1.2 or older, or other algorithms.
    #[error(
        "the server does not speak TLS 1.3 with X25519: it is no validator, or a proxy that has to be set up for it"
    )]
    NothingInCommon,
    /// It does not speak HTTP/2.
    #[error(
        "the server speaks TLS but not HTTP/2 (ALPN h2): it is no validator, or a proxy that has to be set up for it"
    )]
    NotHttp2,
    /// The host's name cannot be the name of a certificate.
    #[error("{0} is no name that a certificate can be for")]
    Name(String),
    #[error("the server closed the connection in the TLS handshake: {0}")]
    Closed(String),
    #[error("the TLS handshake failed: {0}")]
    Handshake(String),
}

impl TlsFailure {
    /// Whether dialling again is pointless until an operator changes something.
    pub const fn needs_operator(&self) -> bool {
        matches!(self, Self::WrongKey { .. })
    }
}

/// The failure behind a handshake's error.
impl From<io::Error> for TlsFailure {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(inner) => inner.into(),
            None => Self::Closed(error.to_string()),
        }
    }
}

impl From<&Error> for TlsFailure {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(error) => error.into(),
            Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
                Self::NotTls
            }
            // With a pin, no scheme of the server's certificate was offered.
            Error::AlertReceived(AlertDescription::HandshakeFailure) => Self::NotOwn,
            Error::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::InsufficientSecurity)
            | Error::PeerIncompatible(_) => Self::NothingInCommon,
            Error::AlertReceived(AlertDescription::NoApplicationProtocol) | Error::NoApplicationProtocol => {
                Self::NotHttp2
            }
            error => Self::Handshake(error.to_string()),
        }
    }
}

impl From<&CertificateError> for TlsFailure {
    fn from(error: &CertificateError) -> Self {
        match error {
            CertificateError::ExpiredContext { not_after, .. } => {
                Self::Expired { not_after_unix_seconds: not_after.as_secs() }
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                Self::NotYetValid { not_before_unix_seconds: not_before.as_secs() }
            }
            CertificateError::NotValidForName => {
                Self::WrongName { expected: "the dialled host".into(), presented: Vec::new() }
            }
            CertificateError::NotValidForNameContext { expected, presented } => Self::WrongName {
                expected: expected.to_str().into_owned(),
                presented: presented.iter().take(MAX_NAMES).map(|name| printable(name, MAX_NAME_BYTES)).collect(),
            },
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::Other(other) => match other.0.downcast_ref::<KeyRefusal>() {
                Some(KeyRefusal::Other { expected, found }) => Self::WrongKey { expected: *expected, found: *found },
                Some(KeyRefusal::None) => Self::NotOwn,
                None if other.to_string().contains("CaUsedAsEndEntity") => Self::UnknownIssuer,
                None => Self::Certificate(other.to_string()),
            },
            error => Self::Certificate(error.to_string()),
        }
    }
}

fn names(presented: &[String]) -> String {
    if presented.is_empty() {
        return String::new();
    }
    // The server wrote them. rustls gives their debug form: `DnsName("a.example")`, `IpAddress(10.0.0.1)`.
    let plain = |name: &String| quoted(name.rsplit('(').next().unwrap_or(name).trim_matches(['"', ')'])).to_string();
    format!(", but for {}", presented.iter().map(plain).collect::<Vec<_>>().join(", "))
}
