//! Metrics of connections and sessions.

use assay_observe::metrics::show;
use assay_observe::prometheus::{IntCounter, IntCounterVec};

use super::Families;
use crate::takeover::EnterError;

/// Result of a connection's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    Tls,
    TlsFailed,
    /// Plaintext, where allowed.
    Plaintext,
    /// Plaintext, where refused.
    PlaintextRefused,
}

impl Handshake {
    const ALL: [Self; 4] = [Self::Tls, Self::TlsFailed, Self::Plaintext, Self::PlaintextRefused];

    const fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::TlsFailed => "tls_failed",
            Self::Plaintext => "plaintext",
            Self::PlaintextRefused => "plaintext_refused",
        }
    }
}

/// Counters of connections and sessions. A clone counts in the same place.
#[derive(Clone)]
pub struct NetworkMetrics {
    connections: IntCounterVec,
    sessions: IntCounterVec,
    /// Bytes of miners, without TLS.
    pub received_bytes: IntCounter,
    /// Bytes sent to miners, without TLS overhead.
    pub sent_bytes: IntCounter,
}

/// A miner that proved its key is entered, as a label.
const ENTERED: &str = "entered";
/// Why it is not.
const REFUSALS: [&str; 8] =
    ["full", "address_full", "too_often", "in_challenge", "not_allowed", "waiting", "too_many_waiting", "no_records"];

impl NetworkMetrics {
    pub(super) fn of(families: &Families) -> Self {
        show(&families.connections_total, Handshake::ALL.map(|outcome| [outcome.name()]));
        show(&families.sessions_total, REFUSALS.into_iter().chain([ENTERED]).map(|outcome| [outcome]));
        let bytes = |direction| families.network_bytes_total.with_label_values(&[direction]);
        Self {
            connections: families.connections_total.clone(),
            sessions: families.sessions_total.clone(),
            received_bytes: bytes("receive"),
            sent_bytes: bytes("transmit"),
        }
    }

    /// Counts the result of a connection's first bytes.
    pub fn handshake(&self, outcome: Handshake) {
        self.connections.with_label_values(&[outcome.name()]).inc();
    }

    /// A miner that proved its key is entered.
    pub fn entered(&self) {
        self.sessions.with_label_values(&[ENTERED]).inc();
    }

    /// Counts a miner that proved its key and is not entered.
    pub fn refused(&self, error: &EnterError) {
        self.sessions.with_label_values(&[cause(error)]).inc();
    }
}

const fn cause(error: &EnterError) -> &'static str {
    match error {
        EnterError::Full => REFUSALS[0],
        EnterError::AddressFull(_) => REFUSALS[1],
        EnterError::TooOften(_) => REFUSALS[2],
        EnterError::InChallenge(_) => REFUSALS[3],
        EnterError::NotAllowed(_) => REFUSALS[4],
        EnterError::Waiting(_) => REFUSALS[5],
        EnterError::TooManyWaiting => REFUSALS[6],
        EnterError::NoRecords => REFUSALS[7],
    }
}
