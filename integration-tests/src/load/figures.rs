//! The results of a load, in figures that go into a file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    /// Of miners that are connected only.
    pub idle: Option<IdleFigures>,
    /// Of miners that are audited.
    pub audited: Option<LoadedFigures>,
}

/// The cost of connected miners that are not audited.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IdleFigures {
    pub miners: u32,
    /// How long it took until all were.
    pub connect_s: f64,
    /// The validator's resident memory before the first.
    pub empty_bytes: u64,
    /// With all of them.
    pub idle_bytes: u64,
    /// The difference for each miner.
    pub bytes_per_miner: u64,
    /// For how long the rest was measured.
    pub seconds: f64,
    /// The share of one core that the validator took.
    pub validator_cores: f64,
    /// Bytes of all connections in a second, both ways.
    pub network_bytes_per_s: f64,
}

/// The cost of audits of connected miners.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadedFigures {
    pub miners: u32,
    /// Slots of each challenge, of n-by-n matrices.
    pub slots: u32,
    pub n: u32,
    pub samples: u32,
    pub segments: u32,
    pub probe_steps: u32,
    /// How long it was measured.
    pub seconds: f64,
    /// Verdicts by outcome, and by the first reason of those that are no pass.
    pub outcomes: BTreeMap<String, u32>,
    /// Verdicts that miners were given in a second.
    pub verdicts_per_s: f64,
    /// As the policy has miners audited.
    pub asked_per_s: f64,
    /// From the commitment to the verdict.
    pub since_commitment: Percentiles,
    /// From the last opening to the verdict: the last checks, judging, the disk.
    pub since_openings: Percentiles,
    /// CPU time of the validator for a verdict, all else that it did meanwhile included.
    pub validator_ms_per_verdict: f64,
    /// The same of this program.
    pub generator_ms_per_verdict: f64,
    /// Cores that the validator took.
    pub validator_cores: f64,
    /// Cores that this program took.
    pub generator_cores: f64,
    /// The validator's resident memory at the end.
    pub resident_bytes: u64,
    /// The most that it had.
    pub peak_bytes: u64,
    /// By how much the records grew for a verdict, free pages and the log included.
    pub records_bytes_per_verdict: f64,
    /// The bytes that the validator's process had written to the disk for a verdict, by the system's count.
    pub written_bytes_per_verdict: f64,
    /// Bytes to the validator for a verdict, TLS and pings included.
    pub sent_bytes_per_verdict: f64,
    /// Bytes from it.
    pub received_bytes_per_verdict: f64,
    /// Sessions that ended meanwhile.
    pub sessions_lost: u32,
    /// Verdicts that were given out, and are not in the records.
    pub not_in_records: u32,
    /// Requests to the pages and the API meanwhile, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<PageFigures>,
}

/// How long pages took beside a load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PageFigures {
    /// Requests in a second.
    pub requests_per_s: f64,
    /// Requests that did not get the document.
    pub failed: u32,
    /// By the path.
    pub times: BTreeMap<String, Percentiles>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Percentiles {
    pub count: u32,
    /// Half are shorter.
    pub p50_ms: f64,
    /// 99 of 100 are.
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Percentiles {
    /// The percentiles of these times.
    #[must_use]
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_unstable();
        let Some(last) = times.len().checked_sub(1) else { return Self::default() };
        // The nearest rank: the least time that is not exceeded by this share.
        let at = |share: f64| ms(times[((times.len() as f64 * share).ceil() as usize).clamp(1, last + 1) - 1]);
        Self { count: times.len() as u32, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: ms(times[last]) }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
