//! `assay-miner devices`.

use assay_shared::program::exit::{Exit, Failure, print};
use assay_shared::program::render::Screen;
use assay_shared::program::render::devices::{DeviceRow, table};

use crate::cli::DevicesArgs;
use crate::config::MinerConfig;

/// Lists the devices that `run` would use.
///
/// # Errors
/// No device can be had, or standard output.
pub fn execute(config: &MinerConfig, args: &DevicesArgs) -> anyhow::Result<Exit> {
    let rows = rows(config)?;
    if args.json {
        print(&serde_json::to_string_pretty(&rows)?)?;
    } else {
        print(&table(&rows, args.n, &Screen::stdout()))?;
    }
    Ok(Exit::Done)
}

/// One row for each device, in order of id, with the slots of every matrix size.
fn rows(_config: &MinerConfig) -> anyhow::Result<Vec<DeviceRow>> {
    Err(Failure::new(Exit::Internal, "this build has no devices").into())
}
