//! What a validator asks of a miner, and how long it waits.

use std::time::Duration;

use assay_shared::verdict::Mode;

/// How the mode of verification is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModeChoice {
    /// Replay when the validator's own devices can do it within the budget, else an audit.
    Auto,
    /// Always this one.
    Fixed(Mode),
}

/// A validator's policy, every value within its bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// How the work is checked.
    pub mode: ModeChoice,
    /// What a replay may take for [`ModeChoice::Auto`] to choose it.
    pub replay_budget: Duration,
    /// The matrix size; halved until every device has at least 3 slots.
    pub n: u32,
    /// Passes: 1 proves speed, more prove duration.
    pub iterations: u32,
    /// The share of each device's free memory to fill, in percent.
    pub fill_percent: u32,
    /// A cap on the slots of all devices together.
    pub max_matrices: Option<u32>,
    /// Samples of each device and drawn iteration, in an audit.
    pub samples: u32,
    /// Segments of each device's probe, in every mode.
    pub segments: u32,
    /// Iterations of each device drawn, in an audit or a sampled replay.
    pub sampled_iterations: u32,
    /// How long the work may take.
    pub commit_deadline: Duration,
    /// How long a probe of the expected bandwidth takes.
    pub probe_target: Duration,
    /// The bandwidth expected of each device, in bytes a second.
    pub probe_expect_bytes_per_s: f64,
    /// Walks of each device; fewer where they would take more than an eighth of the slots.
    pub probe_walks: u32,
    /// Steps of each walk in a round.
    pub probe_steps: u32,
    /// How long the probe may take.
    pub probe_deadline: Duration,
    /// How long the openings may take, and the roots and digests behind a checksum.
    pub openings_deadline: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: ModeChoice::Auto,
            replay_budget: Duration::from_secs(60),
            n: 2048,
            iterations: 1,
            fill_percent: 90,
            max_matrices: None,
            samples: 128,
            segments: 32,
            sampled_iterations: 1,
            commit_deadline: Duration::from_secs(600),
            probe_target: Duration::from_millis(250),
            probe_expect_bytes_per_s: 4e9,
            probe_walks: 1 << 18,
            probe_steps: 64,
            probe_deadline: Duration::from_millis(2500),
            openings_deadline: Duration::from_secs(120),
        }
    }
}
