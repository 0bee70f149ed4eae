//! History of a miner, as the records return it and verdicts update it.

use assay_protocol::verdict::{ReasonCode, Verdict};
use assay_work::Precision;
use serde::{Deserialize, Serialize};

/// The most ends of challenges remembered for a miner.
pub const MAX_ENDS: u32 = 20;

assay_work::names! {
    /// End of a challenge, as far as it counts among the last ones of a miner: one that named no positions left the
    /// miner no choice, and displaces no other. Its name is that in the store.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum End {
        /// Judged, or ended by the validator or without fault.
        Other = "other",
        /// The miner broke it off after positions were named.
        Abandoned = "abandoned",
        /// The miner did not read. The first one in the window may be the link's fault.
        NotReading = "not_reading",
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct MinerMemory {
    /// The key and its predecessors, nearest first.
    pub lineage: Vec<String>,
    /// Ends of its last challenges that count, with their times in ms, latest first; at most [`MAX_ENDS`].
    pub ends: Vec<(End, i64)>,
    /// Results of its devices, in order of device and kind of work.
    pub shown: Vec<DeviceRate>,
}

/// Results of a device in a kind of work, in the last challenge that it passed.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRate {
    pub device_id: String,
    pub precision: Precision,
    /// Name given by the miner: a claim.
    pub name: String,
    /// Bytes of the largest share of slots in work that held; 0 without such work.
    pub bytes: i64,
    /// Multiply-accumulates per second.
    pub macs_per_s: f64,
    /// TOPS, as verdicts state it; 0 where the last challenge of this kind was not passed.
    pub tops: f64,
    /// Bytes per second read by the probe.
    pub probe_bytes_per_s: f64,
    /// Bytes per second read by the last linked probe; 0 without one.
    pub linked_bytes_per_s: f64,
    /// Sending time of the challenge.
    pub at_ms: i64,
}

impl End {
    /// The end that a verdict records; `None` where it does not count.
    pub fn of(verdict: &Verdict) -> Option<Self> {
        let has = |code| verdict.reasons.iter().any(|reason| reason.code == code);
        // Verdicts state the mode only after positions were named.
        let is_named = verdict.mode.is_some();
        if has(ReasonCode::Abandoned) || (is_named && has(ReasonCode::AbandonedRepeatedly)) {
            Some(Self::Abandoned)
        } else if has(ReasonCode::NotReading) || has(ReasonCode::AbandonedRepeatedly) {
            Some(Self::NotReading)
        } else {
            is_named.then_some(Self::Other)
        }
    }
}
