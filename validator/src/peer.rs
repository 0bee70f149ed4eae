//! The other end of a connection: what the listener knows of it, and what its session tells the listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where it dialled from.
    pub address: SocketAddr,
    /// Whether a miner has proved its key on it.
    pub proved: Arc<AtomicBool>,
}
