//! TLS of a client: a handshake with the servers that it trusts, and the connection from then on.

use std::sync::Arc;

use assay_protocol::channel::Channel;
use assay_work::PublicKey;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::certificate::Facts;
use crate::failure::TlsFailure;
use crate::provider::{ALPN, ALPN_HTTP1, channel_of, provider};
use crate::trust::Trust;

/// A connection's stream after the handshake.
pub use tokio_rustls::client::TlsStream;

/// A TLS connection whose other end is trusted.
#[derive(Debug)]
pub struct SecuredStream<S> {
    /// The encrypted stream.
    pub stream: TlsStream<S>,
    /// The channel that the session's signatures cover.
    pub channel: Channel,
    /// The key of the certificate, where it is a validator's own: only the holder of this key may sign the session.
    pub key: Option<PublicKey>,
}

/// A TLS connection of an HTTP client, whose other end is trusted.
#[derive(Debug)]
pub struct SecuredHttp<S> {
    /// The encrypted stream.
    pub stream: TlsStream<S>,
    /// Whether the server speaks HTTP/2; else HTTP/1.1.
    pub is_http2: bool,
}

/// The handshake on a connection to a host, for a session.
pub async fn secure<S>(stream: S, host: &str, trust: &Trust) -> Result<SecuredStream<S>, TlsFailure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = handshake(stream, host, trust, &[ALPN]).await?;
    let (_, connection) = stream.get_ref();
    if connection.alpn_protocol() != Some(ALPN) {
        return Err(TlsFailure::NotHttp2);
    }
    let channel = channel_of(connection).map_err(|error| TlsFailure::from(&error))?;
    let certificate = connection.peer_certificates().and_then(|chain| chain.first());
    let key = match trust {
        Trust::Authorities(_) => None,
        Trust::Key(_) | Trust::FirstUse => {
            Some(certificate.and_then(|certificate| Facts::of(certificate)?.key).ok_or(TlsFailure::NotOwn)?)
        }
    };
    Ok(SecuredStream { stream, channel, key })
}

/// The handshake on a connection to a host, for HTTP of any version: a proxy in front of a validator may speak the
/// older one alone.
pub async fn secure_http<S>(stream: S, host: &str, trust: &Trust) -> Result<SecuredHttp<S>, TlsFailure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = handshake(stream, host, trust, &[ALPN, ALPN_HTTP1]).await?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(ALPN);
    Ok(SecuredHttp { stream, is_http2 })
}

/// The handshake on a connection to a host, for HTTP/1.1 alone.
pub(crate) async fn secure_http1<S>(stream: S, host: &str, trust: &Trust) -> Result<TlsStream<S>, TlsFailure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    handshake(stream, host, trust, &[ALPN_HTTP1]).await
}

async fn handshake<S>(stream: S, host: &str, trust: &Trust, protocols: &[&[u8]]) -> Result<TlsStream<S>, TlsFailure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsFailure::Name(host.to_owned()))?;
    let config = config(trust, protocols)?;
    Ok(tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

fn config(trust: &Trust, protocols: &[&[u8]]) -> Result<ClientConfig, TlsFailure> {
    let verifier = trust.verifier().map_err(TlsFailure::Certificate)?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| TlsFailure::from(&error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.resumption = Resumption::disabled();
    // A pinned key has no name: the host's name need not be shown on the network.
    config.enable_sni = matches!(trust, Trust::Authorities(_));
    Ok(config)
}
