//! `assay-miner devices`.

use assay_device::DeviceInfo;
use assay_device::backend::BackendKind;
use assay_device::host::DeviceReport;
use assay_devices::registry::{built, cuda_version};
use assay_program::exit::{Exit, Failure, print};
use assay_program::render::Screen;
use assay_protocol::claims::HostClaims;
use assay_protocol::message::MATRIX_SIZES;
use assay_telemetry::HostClaimsError;
use assay_work::text::printable;

use crate::cli::DevicesArgs;
use crate::config::MinerConfig;
use crate::drivers::{Disagreement, disagreements};
use crate::render::devices::{DeviceRow, SlotsThatFit, table};
use crate::render::hardware;
use crate::telemetry;

/// Lists the devices that `run` would use.
///
/// # Errors
/// No device can be had, or standard output.
pub fn execute(config: &MinerConfig, args: &DevicesArgs) -> anyhow::Result<Exit> {
    if !MATRIX_SIZES.contains(&args.n) {
        let message = format!("--n {}: must be a power of two from 256 to 32768", args.n);
        return Err(Failure::new(Exit::Usage, message).into());
    }
    // The driver may take seconds to answer, while the devices are opened.
    let sampler = telemetry::start(config.telemetry);
    // Device ids are derived from the key: the one that `run` uses.
    let key = super::identity(&config.key_file)?.public_key();
    let chosen = config.devices.open(&key).map_err(|e| Failure::because(Exit::Config, "devices", e))?;
    let reports = chosen.host.report(&MATRIX_SIZES)?;
    let off = || Err(HostClaimsError::NoSource("telemetry is off".into()));
    let facts = sampler.as_ref().map_or_else(off, |sampler| sampler.host_claims_within(telemetry::FACTS_LIMIT));
    let known = facts.clone().unwrap_or_default();
    // Without facts there is nothing to compare.
    let found = facts.as_ref().map_or_else(|_| Vec::new(), |facts| differences(&reports, facts));
    let place = |report: &DeviceReport| chosen.places.get(&report.info.id).cloned().unwrap_or_default();
    let faults: Vec<_> = reports.iter().filter_map(fault).collect();
    let rows: Vec<_> = reports
        .into_iter()
        .map(|report| {
            let place = place(&report);
            row(report, &known, &found).at(&place)
        })
        .collect();
    if args.json {
        print(&serde_json::to_string_pretty(&rows)?)?;
        // What is about no device in the list has no place in it.
        found.iter().filter(|d| d.device().is_none()).for_each(|d| tracing::warn!("{}", shown(d)));
        return Ok(Exit::Done);
    }
    print(&table(&rows, args.n, args.wide, &Screen::stdout()))?;
    faults.iter().try_for_each(|fault| print(fault))?;
    if let Some(table) = hardware::table(&rows, args.wide, &Screen::stdout()) {
        print(&table)?;
    }
    found.iter().try_for_each(|disagreement| print(&shown(disagreement)))?;
    print(&format!("backend: {} ({})", chosen.backend, chosen.why))?;
    let built: Vec<_> = built().map(BackendKind::name).collect();
    print(&format!("this build's backends: {}", built.join(", ")))?;
    print(&format!("hardware: {}", summary(&facts)))?;
    print(&format!("miner key: {key}"))?;
    Ok(Exit::Done)
}

/// A sentence about a device that cannot be used now.
fn fault(report: &DeviceReport) -> Option<String> {
    report.fault.as_ref().map(|fault| format!("device {} cannot be used now: {fault}", report.info.id))
}

/// One row for each device, with the slots of every matrix size.
fn row(mut report: DeviceReport, facts: &HostClaims, found: &[Disagreement]) -> DeviceRow {
    let id = report.info.id;
    if let Some(fault) = report.fault {
        report.info.detail = format!("cannot be used now: {fault}");
    }
    let slots = MATRIX_SIZES.iter().zip(report.slots).map(|(&n, slots)| SlotsThatFit { n, slots }).collect();
    let disagreements = found.iter().filter(|d| d.device() == Some(id)).map(shown).collect();
    let hardware = facts.of(id).cloned();
    DeviceRow { slots, hardware, disagreements, ..DeviceRow::new(&report.info) }
}

/// Where CUDA and NVML disagree, where there is a device of CUDA's at all: another backend may be chosen on purpose.
fn differences(reports: &[DeviceReport], facts: &HostClaims) -> Vec<Disagreement> {
    let devices: Vec<DeviceInfo> = reports.iter().map(|report| report.info.clone()).collect();
    if devices.iter().all(|device| device.backend != BackendKind::Cuda) {
        Vec::new()
    } else {
        disagreements(&devices, cuda_version(), facts)
    }
}

fn shown(disagreement: &Disagreement) -> String {
    printable(&disagreement.to_string(), usize::MAX)
}

fn summary(facts: &Result<HostClaims, HostClaimsError>) -> String {
    match facts {
        Ok(HostClaims { hardware, .. }) => {
            let count = hardware.iter().filter(|hardware| hardware.counts_as_device()).count();
            let driver = hardware.iter().find_map(|hardware| hardware.driver_version.as_deref()).unwrap_or("unknown");
            format!("NVML has {count} device(s), driver {}", printable(driver, usize::MAX))
        }
        Err(error) => error.to_string(),
    }
}
