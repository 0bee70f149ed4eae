//! The keys that a miner takes for its validator's: a configured key, one with a certificate of an authority, or the
//! first one.

use std::sync::Arc;

use assay_protocol::successor::follow;
use assay_work::PublicKey;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, PeerIncompatible, RootCertStore, SignatureScheme,
};

use crate::certificate::Facts;
use crate::provider::provider;

/// Whom a miner takes for its validator.
#[derive(Debug, Clone)]
pub enum Trust {
    /// The holder of this key, or of one that follows it.
    Key(PublicKey),
    /// The holder of the first key, which is kept from then on.
    FirstUse,
    /// The holder of a certificate of one of these authorities for the host's name.
    Authorities(Arc<RootCertStore>),
}

/// Why a certificate of a validator's own key is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefusal {
    /// The certificate is another validator's.
    #[error("the certificate has the key {found}, {expected} is expected")]
    Other {
        /// The one that is accepted.
        expected: PublicKey,
        /// The one that was presented.
        found: PublicKey,
    },
    /// It has no key of a validator.
    #[error("the certificate has no Ed25519 key")]
    None,
}

impl Trust {
    /// The verifier of the server's certificate.
    ///
    /// # Errors
    /// The list of authorities is empty.
    pub fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, String> {
        Ok(match self {
            Self::Key(key) => Arc::new(OwnKey { expected: Some(*key), provider: provider() }),
            Self::FirstUse => Arc::new(OwnKey { expected: None, provider: provider() }),
            Self::Authorities(roots) => WebPkiServerVerifier::builder_with_provider(roots.clone(), provider())
                .build()
                .map_err(|error| error.to_string())?,
        })
    }
}

/// Accepts certificates by their key alone. Their names, dates and signatures prove nothing: the holder of the key can
/// make any. The handshake's signature proves possession of the key.
#[derive(Debug)]
struct OwnKey {
    /// `None`: any.
    expected: Option<PublicKey>,
    provider: Arc<CryptoProvider>,
}

impl OwnKey {
    fn check(&self, certificate: &[u8], now_unix_seconds: u64) -> Result<(), KeyRefusal> {
        let facts = Facts::of(certificate);
        let Some((found, facts)) = facts.and_then(|facts| Some((facts.key?, facts))) else {
            return Err(KeyRefusal::None);
        };
        match self.expected {
            Some(expected) if found != expected && !follow(&expected, &found, &facts.successors, now_unix_seconds) => {
                Err(KeyRefusal::Other { expected, found })
            }
            _ => Ok(()),
        }
    }
}

impl ServerCertVerifier for OwnKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity, now.as_secs())
            .map(|()| ServerCertVerified::assertion())
            .map_err(|why| Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why)))))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    /// Ed25519 alone: a validator that has a certificate of an authority too takes this as the sign to present its own.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
