//! `assay-miner config`.

use assay_program::exit::{Exit, Failure, print};
use assay_program::render::Screen;
use assay_program::settings::Settings;
use assay_transport::own_key;

use crate::config::{MinerConfig, RawConfig};
use crate::joining::PendingJoinToken;
use crate::reach;

/// Checks every setting, and the files that they name: the key where there is one, authorities, known validators, the
/// join token. It neither makes a file nor opens a device.
///
/// # Errors
/// A setting that is out of bounds, a file that `run` would refuse, or standard output.
pub fn check(settings: &Settings<RawConfig>) -> anyhow::Result<Exit> {
    let config = MinerConfig::check(settings)?;
    if config.key_file.exists() {
        own_key::identity(&config.key_file)?;
    }
    // Standard input is for `run`.
    let file = config.join_token_file.as_deref().filter(|file| file.as_os_str() != "-");
    PendingJoinToken::take(file, None, config.key_file.exists())
        .map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    config.log.check_file()?;
    reach::each(&config).map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    print(&settings.summary())?;
    Ok(Exit::Done)
}

/// Prints every setting with its origin, then checks them: settings that `run` would refuse are an error here too.
///
/// # Errors
/// A setting that is out of bounds, or standard output.
pub fn show(settings: &Settings<RawConfig>, as_json: bool) -> anyhow::Result<Exit> {
    print(&settings.text(as_json, &Screen::stdout())?)?;
    MinerConfig::check(settings)?;
    Ok(Exit::Done)
}
