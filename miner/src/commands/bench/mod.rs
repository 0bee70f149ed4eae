//! `assay-miner bench`.

mod chart;
mod measure;
mod report;

use anyhow::Context;
use assay_device::backend::{Backend, Found, Preparing};
use assay_device::{Device, DeviceError};
use assay_devices::HostConfig;
use assay_devices::choice::{ChooseError, detect_all};
use assay_devices::merge::merge;
use assay_program::exit::{Exit, Failure, print};
use assay_program::render::Screen;
use assay_protocol::message::MATRIX_SIZES;
use assay_work::DeviceId;

use self::measure::{Plan, Progress, measure};
use self::report::{DeviceReport, Report};
use crate::cli::BenchArgs;
use crate::config::MinerConfig;

/// The sizes measured when none is named.
const DEFAULT_SIZES: std::ops::RangeInclusive<u32> = 1024..=16384;
/// The most rounds: more say nothing new.
const MAX_ROUNDS: u32 = 1000;

/// Measures each device, one after the other, in this process.
///
/// # Errors
/// No device can be had, a device fails, or standard output.
pub fn execute(config: &MinerConfig, args: &BenchArgs) -> anyhow::Result<Exit> {
    let plan = plan(args)?;
    let key = super::identity(&config.key_file)?.public_key();
    let (backends, found) =
        find(&config.devices.host(&key)).map_err(|error| Failure::because(Exit::Config, "devices", error))?;
    let wanted: Vec<&Found> = found.iter().filter(|found| is_wanted(args, found.info.id)).collect();
    if wanted.is_empty() {
        let all: Vec<String> = found.iter().map(|found| found.info.id.to_string()).collect();
        let message = format!("--device: no such device; there are {}", all.join(", "));
        return Err(Failure::new(Exit::Usage, message).into());
    }
    let mut devices = Vec::with_capacity(wanted.len());
    for found in wanted {
        let progress = Progress::new();
        let prepare = |preparing: Preparing| progress.preparing(&preparing);
        let absent = || DeviceError::Unsupported(format!("this build has no backend {}", found.info.backend));
        let backend = backends.iter().find(|backend| backend.kind() == found.info.backend).ok_or_else(absent)?;
        let mut device = backend.open(&found.spec, &prepare)?;
        devices.push(one(device.as_mut(), &plan, &progress)?);
    }
    let report = Report::new(devices);
    if let Some(path) = &args.svg {
        let chart = chart::draw(&report)?;
        std::fs::write(path, chart).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        print(&serde_json::to_string_pretty(&report)?)?;
    } else {
        print(&report.text(&Screen::stdout()))?;
    }
    Ok(Exit::Done)
}

fn plan(args: &BenchArgs) -> Result<Plan, Failure> {
    let wrong = |message: String| Failure::new(Exit::Usage, message);
    if let Some(n) = args.n.iter().find(|n| !MATRIX_SIZES.contains(n)) {
        return Err(wrong(format!("--n {n}: must be a power of two from 256 to 32768")));
    }
    if !(1..=MAX_ROUNDS).contains(&args.rounds) {
        return Err(wrong(format!("--rounds {}: must be from 1 to {MAX_ROUNDS}", args.rounds)));
    }
    let sizes = MATRIX_SIZES.into_iter().filter(|n| match args.n.is_empty() {
        true => DEFAULT_SIZES.contains(n),
        false => args.n.contains(n),
    });
    Ok(Plan {
        sizes: sizes.collect(),
        // What was asked for by name is measured, however long it takes.
        patient: !args.n.is_empty(),
        kernels: args.kernels.clone(),
        rounds: args.rounds,
    })
}

/// The devices that `run` would use. They are looked for in this process, without a worker: what crashes here takes
/// nothing along.
fn find(config: &HostConfig) -> Result<(Vec<Box<dyn Backend>>, Vec<Found>), ChooseError> {
    let mut passed_over = Vec::new();
    for stage in config.choice.stages(config.backends())? {
        let detect = |backend: &dyn Backend| backend.detect();
        let lists = detect_all(&config.choice, config.gpus_are_hidden, &stage, detect, &mut passed_over)?;
        let merged = merge(&lists);
        for left_out in &merged.left_out {
            tracing::info!("{left_out}");
        }
        for why in &passed_over {
            tracing::info!("{why}");
        }
        if !merged.devices.is_empty() {
            return Ok((stage, merged.devices));
        }
    }
    Err(ChooseError::None(passed_over.join("; ")))
}

fn is_wanted(args: &BenchArgs, id: DeviceId) -> bool {
    args.device.is_empty() || args.device.iter().any(|prefix| id.to_string().starts_with(&prefix.to_lowercase()))
}

/// One device's figures. Its memory is given back.
fn one(device: &mut dyn Device, plan: &Plan, progress: &Progress) -> Result<DeviceReport, DeviceError> {
    let info = device.info();
    let fits: Vec<u32> = plan.sizes.iter().map(|n| device.slots_that_fit(*n)).collect();
    let measured = device
        .measured()
        .ok_or_else(|| DeviceError::Unsupported(format!("{} has no stages to measure", info.name)))
        .and_then(|stages| measure(stages, info.backend, &fits, plan, progress));
    progress.finish();
    device.release();
    Ok(DeviceReport::new(&info, measured?))
}
