//! TLS of a validator: its own certificate for clients that pin its key, and one of an authority for all others.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ServerConfig, SignatureScheme};

use crate::certificate::IssuedCertificate;
use crate::provider::{ALPN, HTTP_ALPN, provider};

pub use crate::provider::channel_of;
/// A handshake under way, and a connection after it.
pub use tokio_rustls::Accept;
pub use tokio_rustls::server::TlsStream;

/// Accepts TLS connections. Clones share the certificates.
#[derive(Clone)]
pub struct ServerTls {
    acceptor: tokio_rustls::TlsAcceptor,
    certificates: Arc<Certificates>,
}

/// The certificates that are presented now.
struct Certificates {
    own: RwLock<Arc<CertifiedKey>>,
    issued: RwLock<Option<IssuedCertificate>>,
}

impl ServerTls {
    /// Presents the validator's own certificate, and the one of an authority where there is one.
    ///
    /// # Errors
    /// Rustls's, where its build lacks TLS 1.3.
    pub fn new(own: CertifiedKey, issued: Option<IssuedCertificate>) -> Result<Self, rustls::Error> {
        let certificates = Arc::new(Certificates { own: RwLock::new(Arc::new(own)), issued: RwLock::new(issued) });
        Self::presenting(certificates, &[ALPN])
    }

    /// The same certificates, also after one is replaced, for clients of HTTP: HTTP/2 or HTTP/1.1.
    ///
    /// # Errors
    /// Rustls's, where its build lacks TLS 1.3.
    pub fn for_http(&self) -> Result<Self, rustls::Error> {
        Self::presenting(self.certificates.clone(), &HTTP_ALPN)
    }

    fn presenting(certificates: Arc<Certificates>, protocols: &[&[u8]]) -> Result<Self, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Resolver(certificates.clone())));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        // Every session begins with a whole handshake: nothing is kept of one for the next.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok(Self { acceptor: Arc::new(config).into(), certificates })
    }

    /// A handshake on a connection; nothing happens before it is polled.
    pub fn accept<S>(&self, stream: S) -> Accept<S>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        self.acceptor.accept(stream)
    }

    /// Presents another certificate of an authority from now on, or none.
    pub fn set_issued(&self, issued: Option<IssuedCertificate>) {
        *self.certificates.issued.write() = issued;
    }

    /// The certificate of an authority that is presented.
    pub fn issued(&self) -> Option<IssuedCertificate> {
        self.certificates.issued.read().clone()
    }
}

struct Resolver(Arc<Certificates>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        // Who takes Ed25519 alone pins the validator's key. An authority's certificate has another kind of key mostly.
        let pins = schemes.iter().all(|scheme| *scheme == SignatureScheme::ED25519);
        let issued = self.0.issued.read();
        let issued = issued.as_ref().filter(|_| !pins).map(|issued| issued.certified.clone());
        Some(issued.unwrap_or_else(|| self.0.own.read().clone()))
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls")
    }
}
