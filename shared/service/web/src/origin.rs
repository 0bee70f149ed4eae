//! Origin of a request.

use std::net::{IpAddr, SocketAddr};

use assay_records::Actor;
use assay_transport::origin::origin;

use crate::user;

/// Origin of a request: set by the listener that accepted its connection, never by the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOrigin {
    /// The control socket, which only the daemon's user can open.
    Socket(Actor),
    /// The network.
    Network {
        /// Address of the peer.
        peer: SocketAddr,
        /// Whether the caller uses TLS: to the validator, or to the operator's proxy.
        is_encrypted: bool,
    },
}

impl RequestOrigin {
    /// Identifies the process at the other end of the control socket.
    pub fn of_socket(stream: &tokio::net::UnixStream) -> Self {
        let uid = stream.peer_cred().ok().map(|peer| peer.uid());
        let name = uid.map_or_else(|| "unknown".to_owned(), |uid| user::name(uid).unwrap_or_else(|| uid.to_string()));
        Self::Socket(Actor { name, uid })
    }

    /// The address for rate limits; `None` for the control socket.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Socket(_) => None,
            Self::Network { peer, .. } => Some(origin(peer.ip())),
        }
    }

    /// Whether the caller uses TLS.
    pub const fn is_encrypted(&self) -> bool {
        matches!(self, Self::Network { is_encrypted: true, .. })
    }

    pub const fn is_socket(&self) -> bool {
        matches!(self, Self::Socket(_))
    }
}
