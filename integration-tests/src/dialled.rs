//! Connections to a validator that anything may be said on.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use assay_protocol::channel::Channel;
use assay_transport::client::secure;
use assay_transport::trust::Trust;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};

/// Whom it is aimed at, and how.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub address: SocketAddr,
    /// Whether the attacker speaks TLS.
    pub is_tls: bool,
    /// Where the attacker dials from, where it is one address.
    pub from: [u8; 4],
}

/// A connection's stream, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection to a validator that anything may be said on.
pub struct Wire {
    pub stream: Box<dyn Stream>,
    /// The channel that a handshake's signatures cover.
    pub channel: Channel,
}

/// Dials a TCP connection from an address of this machine.
pub async fn dial(address: SocketAddr, from: [u8; 4]) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    let stream = tokio::time::timeout(Duration::from_secs(20), socket.connect(address)).await??;
    stream.set_nodelay(true)?;
    // Thousands of connections would each keep a port for a minute.
    stream.set_zero_linger()?;
    Ok(stream)
}

/// Dials, and brings TLS up where the attacker speaks it.
pub async fn connect(target: Target, from: [u8; 4]) -> io::Result<Wire> {
    let stream = dial(target.address, from).await?;
    if !target.is_tls {
        return Ok(Wire { stream: Box::new(stream), channel: Channel::Plaintext });
    }
    let secured = tokio::time::timeout(Duration::from_secs(20), secure(stream, "localhost", &Trust::FirstUse)).await?;
    let secured = secured.map_err(io::Error::other)?;
    Ok(Wire { stream: Box::new(secured.stream), channel: secured.channel })
}
