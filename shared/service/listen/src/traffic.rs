//! Counters of connections and their bytes.

use assay_observe::metrics::show;
use assay_observe::prometheus::{IntCounter, IntCounterVec};

assay_work::names! {
    /// Result of a connection's first bytes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum HandshakeResult {
        Tls = "tls",
        TlsFailed = "tls_failed",
        /// Plaintext, where allowed.
        Plaintext = "plaintext",
        /// Plaintext, where refused.
        PlaintextRefused = "plaintext_refused",
    }
}

/// Counters of connections. A clone counts in the same place.
#[derive(Clone)]
pub struct Traffic {
    connections: IntCounterVec,
    /// Bytes of miners, without TLS.
    pub received_bytes: IntCounter,
    /// Bytes sent to miners, without TLS overhead.
    pub sent_bytes: IntCounter,
}

impl Traffic {
    /// Counts in these families: connections by outcome, bytes by direction.
    pub fn of(connections: &IntCounterVec, bytes: &IntCounterVec) -> Self {
        show(connections, HandshakeResult::ALL.map(|outcome| [outcome.name()]));
        let bytes = |direction| bytes.with_label_values(&[direction]);
        Self { connections: connections.clone(), received_bytes: bytes("receive"), sent_bytes: bytes("transmit") }
    }

    /// Counts the result of a connection's first bytes.
    pub fn handshake(&self, outcome: HandshakeResult) {
        self.connections.with_label_values(&[outcome.name()]).inc();
    }
}
