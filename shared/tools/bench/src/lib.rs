//! Measures the devices of a host stage by stage, in this process, and reports that as tables, JSON and a chart; and
//! the rates at which the devices reach one another ([`link`]), as the daemon opens them.
//!
//! A crash here harms nothing else, so there is no worker. [`environment`] prepares the process, [`detect`] finds
//! devices, [`run`] measures one.

#![forbid(unsafe_code)]

pub mod chart;
pub mod environment;
mod figure;
pub mod link;
pub mod operations;
pub mod report;
mod runner;

use assay_backends::HostConfig;
use assay_backends::choice::{ChooseError, detect_all};
use assay_backends::merge::merge;
use assay_device::DeviceError;
use assay_device::backend::{Backend, DetectedDevice};

pub use figure::StageFigure;
pub use report::{BenchReport, DeviceFigures, KindLimit, LinkFigures};
pub use runner::{BenchPlan, SAMPLE_S, median};

/// The devices that a daemon would use.
///
/// # Errors
/// [`ChooseError`] when there are no devices.
pub fn detect(config: &HostConfig) -> Result<Vec<DetectedDevice>, ChooseError> {
    let mut passed_over = Vec::new();
    for stage in config.choice.stages(config.backends())? {
        let detect = |backend: &dyn Backend| backend.detect();
        let lists = detect_all(&config.choice, config.gpus_are_hidden, &stage, detect, &mut passed_over)?;
        let used = config.select(merge(&lists))?;
        for left_out in &used.left_out {
            tracing::info!("{left_out}");
        }
        for why in &passed_over {
            tracing::info!("{why}");
        }
        if !used.devices.is_empty() {
            return Ok(used.devices);
        }
    }
    Err(ChooseError::None(passed_over.join("; ")))
}

/// Opens a device, measures it and gives its memory back.
pub fn run(config: &HostConfig, found: &DetectedDevice, plan: &BenchPlan) -> Result<DeviceFigures, DeviceError> {
    let progress = runner::BenchProgress::new();
    let mut bench = config.open_bench(found, &|preparing| progress.preparing(&preparing))?;
    let device = bench.device();
    let (info, fits) = (device.info(), plan.sizes.iter().map(|n| device.slots_that_fit(*n)).collect::<Vec<_>>());
    runner::measure(bench.as_mut(), &info, &fits, plan, &progress)
}
