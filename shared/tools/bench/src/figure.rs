//! The rate of one stage of the work on a device.

use assay_device::bench::BenchStage;
use assay_work::Precision;
use serde::Serialize;

/// The rate of one stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageFigure {
    pub stage: BenchStage,
    /// The kind of work, by its number, where operations are counted.
    pub precision: Option<Precision>,
    /// The matrix size, where the rate depends on it.
    pub n: Option<u32>,
    /// The bytes of the slots, where the probe was measured over several sizes of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The product kernel, where the rate depends on it.
    pub kernel: Option<String>,
    /// The median, in operations a second where the stage counts operations, else in bytes a second.
    pub rate_per_s: f64,
    /// The rate of every sample.
    pub samples_per_s: Vec<f64>,
    /// The rate over the device's limit, where that is known.
    pub share_of_limit: Option<f64>,
    /// The rate over the vendor library's at the same n in the same run, where that was measured.
    pub ratio_to_peer: Option<f64>,
}
