//! `assay-miner config show`.

use assay_program::exit::{Exit, print};
use assay_program::render::Screen;
use assay_program::settings::Settings;

use crate::cli::ShowArgs;
use crate::config::{MinerConfig, RawConfig};

/// Prints every setting with its origin, then checks them: what `run` would refuse is an error here too.
///
/// # Errors
/// A setting that is out of bounds, or standard output.
pub fn show(settings: &Settings<RawConfig>, args: &ShowArgs) -> anyhow::Result<Exit> {
    let shown = settings.shown();
    if args.json {
        print(&serde_json::to_string_pretty(&shown.json())?)?;
    } else {
        print(&shown.table(&Screen::stdout()))?;
    }
    MinerConfig::check(settings)?;
    Ok(Exit::Done)
}
