//! `assay-miner devices`.

use assay_shared::identity::Identity;
use assay_shared::message::MATRIX_SIZES;
use assay_shared::program::exit::{Exit, Failure, print};
use assay_shared::program::render::Screen;
use assay_shared::program::render::devices::{DeviceRow, SlotsThatFit, table};

use crate::cli::DevicesArgs;
use crate::config::MinerConfig;

/// Lists the devices that `run` would use.
///
/// # Errors
/// No device can be had, or standard output.
pub fn execute(config: &MinerConfig, args: &DevicesArgs) -> anyhow::Result<Exit> {
    if !MATRIX_SIZES.contains(&args.n) {
        let message = format!("--n {}: must be a power of two from 256 to 32768", args.n);
        return Err(Failure::new(Exit::Usage, message).into());
    }
    // Device ids are derived from the key: the one that `run` uses.
    let key = Identity::load_or_create(&config.key_file)?.public_key();
    let chosen = config.devices.open(&key).map_err(|e| Failure::because(Exit::Config, "devices", e))?;
    let rows: Vec<_> = chosen.host.report(&MATRIX_SIZES)?.into_iter().map(row).collect();
    if args.json {
        print(&serde_json::to_string_pretty(&rows)?)?;
    } else {
        print(&table(&rows, args.n, &Screen::stdout()))?;
        print(&format!("backend: {} ({})", chosen.backend, chosen.why))?;
        print(&format!("miner key: {key}"))?;
    }
    Ok(Exit::Done)
}

/// One row for each device, with the slots of every matrix size.
fn row(mut report: assay_shared::compute::host::DeviceReport) -> DeviceRow {
    if let Some(fault) = report.fault {
        report.info.detail = format!("cannot be used now: {fault}");
    }
    let slots = MATRIX_SIZES.iter().zip(report.slots).map(|(&n, slots)| SlotsThatFit { n, slots }).collect();
    DeviceRow { slots, ..DeviceRow::new(&report.info, &[], |_| 0) }
}
