//! `assay-validator config`.

use assay_program::exit::{Exit, print};
use assay_program::render::Screen;
use assay_program::settings::Settings;

use crate::config::{RawConfig, ValidatorConfig};
use crate::preflight;

/// Checks every setting, and the files that `serve` would use. It neither makes a file nor opens a device.
///
/// # Errors
/// A setting that is out of bounds, a file that cannot be used, or standard output.
pub fn check(settings: &Settings<RawConfig>) -> anyhow::Result<Exit> {
    if let Some(warning) = preflight::check(&ValidatorConfig::check(settings)?)? {
        assay_program::standard_error::print(&format!("warning: {warning}"));
    }
    print(&settings.summary())?;
    Ok(Exit::Done)
}

/// Prints every setting with its origin, then checks them: errors of `serve` are errors here too. It neither makes a
/// file nor opens a device.
///
/// # Errors
/// A setting that is out of bounds, a file that cannot be used, or standard output.
pub fn show(settings: &Settings<RawConfig>, as_json: bool) -> anyhow::Result<Exit> {
    print(&settings.text(as_json, &Screen::stdout())?)?;
    preflight::check(&ValidatorConfig::check(settings)?)?;
    Ok(Exit::Done)
}
