//! The cryptography of every connection: TLS 1.3 with X25519, by ring.

use std::sync::Arc;

use assay_protocol::channel::Channel;
use rustls::ConnectionCommon;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{default_provider, kx_group};

/// The protocol that both sides name in TLS: gRPC needs HTTP/2.
pub const ALPN: &[u8] = b"h2";
/// The protocols of the HTTP API, the preferred one first.
pub const HTTP_ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// The protocol that an HTTP client takes too, where there is no gRPC.
pub const ALPN_HTTP1: &[u8] = b"http/1.1";
/// The label of RFC 9266.
const EXPORTER: &[u8] = b"EXPORTER-Channel-Binding";

pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { kx_groups: vec![kx_group::X25519], ..default_provider() })
}

/// The channel of a connection whose handshake is done.
///
/// # Errors
/// Rustls's, which a handshake that is done does not give.
pub fn channel_of<Data>(connection: &ConnectionCommon<Data>) -> Result<Channel, rustls::Error> {
    connection.export_keying_material([0; 32], EXPORTER, Some(&[])).map(Channel::Tls)
}
