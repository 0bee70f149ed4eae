//! SIGHUP: the settings are read again. Log and limits change at once; other changes are named.

use assay_program::exit::chain;
use assay_program::logging::{self, list};
use assay_program::manager::ServiceManager;
use assay_program::reload::{Hangups, changed};
use assay_program::settings::Settings;

use crate::config::{MinerConfig, RawConfig};
use crate::limits::SharedLimits;

/// The settings that take effect without a restart.
const RELOADED: [&str; 4] = ["log", "log_file", "max_memory_percent", "max_challenge_s"];

/// Reads all layers again: the file and the environment anew, the flags as they were typed.
pub type SettingsResolver = Box<dyn Fn() -> anyhow::Result<Settings<RawConfig>> + Send + Sync>;

/// Applies changed settings.
pub struct MinerReloader {
    resolve: SettingsResolver,
    /// The settings at the start: changes that need a restart are found against these.
    started: Settings<RawConfig>,
    last: Settings<RawConfig>,
    limits: SharedLimits,
    manager: ServiceManager,
}

impl MinerReloader {
    /// One that changes these limits.
    ///
    /// # Errors
    /// The settings cannot be read.
    pub fn new(resolve: SettingsResolver, limits: SharedLimits, manager: ServiceManager) -> anyhow::Result<Self> {
        let started = resolve()?;
        Ok(Self { resolve, last: started.clone(), started, limits, manager })
    }

    /// Reloads on each SIGHUP, for ever.
    pub async fn run(mut self, mut hangups: Hangups) {
        loop {
            hangups.next().await;
            self.manager.reloading();
            let reloaded = self.reload();
            self.manager.reloaded();
            match reloaded {
                Ok(()) => {}
                Err(error) => {
                    tracing::error!("SIGHUP: nothing was changed: {}", chain(error.as_ref()));
                    // A log that was renamed is opened anew all the same.
                    if let Ok(config) = MinerConfig::check(&self.last)
                        && let Err(error) = logging::reload(&config.log)
                    {
                        tracing::error!("SIGHUP: the log goes on as before: {error}");
                    }
                }
            }
        }
    }

    fn reload(&mut self) -> anyhow::Result<()> {
        let settings = (self.resolve)()?;
        let config = MinerConfig::check(&settings)?;
        logging::reload(&config.log).map_err(anyhow::Error::msg)?;
        self.limits.set(config.limits);
        let is_reloaded = |key: &String| RELOADED.contains(&key.as_str());
        let (applied, _): (Vec<_>, Vec<_>) = changed(&self.last, &settings).into_iter().partition(is_reloaded);
        let (_, waiting): (Vec<_>, Vec<_>) = changed(&self.started, &settings).into_iter().partition(is_reloaded);
        tracing::info!(changed = list(&applied), "SIGHUP: the settings were read again");
        if !waiting.is_empty() {
            tracing::warn!(settings = list(&waiting), "SIGHUP: these changes need a restart of the miner");
        }
        self.last = settings;
        Ok(())
    }
}
