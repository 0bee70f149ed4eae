//! Where a request comes from.

use std::net::{IpAddr, SocketAddr};

use assay_records::Actor;

use crate::gate;
use crate::user;

/// Where a request comes from: set by whoever accepted its connection, never by the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOrigin {
    /// The control socket, which only the daemon's user can open.
    Socket(Actor),
    /// The network.
    Network {
        /// The address of the other end.
        peer: SocketAddr,
        /// Whether what is sent is encrypted.
        is_encrypted: bool,
    },
}

impl RequestOrigin {
    /// The process at the other end of the control socket.
    #[must_use]
    pub fn of_socket(stream: &tokio::net::UnixStream) -> Self {
        let uid = stream.peer_cred().ok().map(|peer| peer.uid());
        let name = uid.map_or_else(|| "unknown".to_owned(), |uid| user::name(uid).unwrap_or_else(|| uid.to_string()));
        Self::Socket(Actor { name, uid })
    }

    /// What counts as one address; `None` for the control socket.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Socket(_) => None,
            Self::Network { peer, .. } => Some(gate::origin(peer.ip())),
        }
    }

    /// Whether it is the control socket.
    #[must_use]
    pub const fn is_socket(&self) -> bool {
        matches!(self, Self::Socket(_))
    }
}
