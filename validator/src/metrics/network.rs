//! What is counted of connections and sessions.

use assay_observe::metrics::{MetricsError, add};
use assay_observe::prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use super::named;
use crate::takeover::EnterError;

/// What became of a connection's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// TLS stands.
    Tls,
    /// TLS failed.
    TlsFailed,
    /// No TLS, and none is needed.
    Plaintext,
    /// No TLS, which is refused.
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

/// What is counted of connections and sessions. A clone counts in the same place.
#[derive(Clone)]
pub struct NetworkMetrics {
    handshakes: IntCounterVec,
    /// Bytes of miners, without TLS.
    pub received_bytes: IntCounter,
    /// Bytes to miners, without TLS.
    pub sent_bytes: IntCounter,
    /// Miners that proved their key and were entered.
    pub sessions: IntCounter,
    refused: IntCounterVec,
}

/// Why a miner that proved its key is not entered, as a label.
const REFUSALS: [&str; 8] =
    ["full", "address_full", "too_often", "in_challenge", "not_allowed", "waiting", "too_many_waiting", "no_records"];

impl NetworkMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, MetricsError> {
        let counter = |name: &str, help: &str| add(registry, IntCounter::new(named(name), help));
        let counters = |name: &str, help: &str, label: &str| {
            add(registry, IntCounterVec::new(Opts::new(named(name), help), &[label]))
        };
        let metrics = Self {
            handshakes: counters("handshakes_total", "Connections of miners by what they spoke.", "outcome")?,
            received_bytes: counter("network_receive_bytes_total", "Bytes received from miners, inside TLS.")?,
            sent_bytes: counter("network_transmit_bytes_total", "Bytes sent to miners, inside TLS.")?,
            sessions: counter("sessions_total", "Miners that proved their key and were let in.")?,
            refused: counters("sessions_refused_total", "Miners that proved their key and were not let in.", "cause")?,
        };
        for outcome in Handshake::ALL {
            metrics.handshakes.with_label_values(&[outcome.name()]);
        }
        for cause in REFUSALS {
            metrics.refused.with_label_values(&[cause]);
        }
        Ok(metrics)
    }

    /// A connection's first bytes are through.
    pub fn handshake(&self, outcome: Handshake) {
        self.handshakes.with_label_values(&[outcome.name()]).inc();
    }

    /// A miner that proved its key is not entered.
    pub fn refused(&self, error: &EnterError) {
        self.refused.with_label_values(&[cause(error)]).inc();
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
