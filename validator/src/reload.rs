//! A reload: the configuration is read again while the validator runs, on SIGHUP or on request.
//!
//! It is all or nothing. What can change does, in every session at once; a challenge that runs keeps the policy that it
//! began with. What cannot change without a restart is named.

use std::sync::Arc;

use assay_program::exit::chain;
use assay_program::logging::{self, list};
use assay_program::manager::ServiceManager;
use assay_program::reload::{Hangups, changed};
use assay_program::settings::{Flags, Settings, SettingsError};
use assay_protocol::verdict::Mode;
use assay_receipts::SignerError;
use assay_transport::certificate::{CertificateError, Issued};
use clap::Args;
use tokio::sync::Mutex;

use crate::config::{RawConfig, ValidatorConfig, resolve};
use crate::expectations::{Expectations, ExpectationsError};
use crate::fleet::rules::RulesError;
use crate::policy::{Policy, RawPolicy};
use crate::tls::warn_if_due;
use crate::validator::Validator;
use crate::verdict_log::OpenError;

/// The settings beside those of the policy that take effect without a restart.
const RELOADABLE: [&str; 10] = [
    "allowed_miners",
    "enrolment",
    "fleet_policy",
    "log",
    "log_file",
    "model_profiles",
    "on_event",
    "revoked_miners",
    "tls_cert",
    "tls_key",
];

/// The settings that name files, which are read again too.
const EXPECTATIONS: &str = "expectations";
const CERTIFICATE: &str = "tls_cert";
const FLEET_POLICY: &str = "fleet_policy";

/// Reads the configuration again.
pub struct Reloader {
    flags: Flags<RawConfig>,
    /// What the validator was started with.
    started: Settings<RawConfig>,
    /// What was read last and not refused.
    current: Mutex<Settings<RawConfig>>,
    validator: Arc<Validator>,
    manager: ServiceManager,
}

/// What a reload found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reloaded {
    /// Settings that have changed and are in effect.
    pub changed: Vec<String>,
    /// Settings that differ from those in effect, and take a restart.
    pub need_restart: Vec<String>,
}

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration is refused, as it would be at the start.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The new mode needs what the validator was started without.
    #[error("mode {} needs a device of this validator, which it opens when it starts: restart it", .0.name())]
    NoDevices(Mode),
    /// The expectations are refused.
    #[error(transparent)]
    Expectations(#[from] ExpectationsError),
    /// The key of receipts is refused.
    #[error(transparent)]
    Receipts(#[from] SignerError),
    /// The policy of the fleet or the profiles are refused.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The certificate is refused.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The verdict log cannot be opened anew.
    #[error(transparent)]
    VerdictLog(#[from] OpenError),
    /// The program's log cannot be changed.
    #[error("the log: {0}")]
    Log(String),
}

impl Reloader {
    /// For a validator that was started with these settings.
    #[must_use]
    pub fn new(
        flags: Flags<RawConfig>,
        settings: Settings<RawConfig>,
        validator: Arc<Validator>,
        manager: ServiceManager,
    ) -> Self {
        Self { flags, started: settings.clone(), current: Mutex::new(settings), validator, manager }
    }

    /// Reloads on each SIGHUP, for ever.
    pub async fn on_hangups(&self, mut hangups: Hangups) {
        loop {
            hangups.next().await;
            // The outcome is in the log.
            let _ = self.reload().await;
        }
    }

    /// Reads the configuration again, and puts what can change into effect; logs what came of it.
    ///
    /// # Errors
    /// [`ReloadError`]: nothing has changed.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        // One at a time.
        let mut current = self.current.lock().await;
        self.manager.reloading();
        let result = self.apply(&mut current).await;
        self.manager.reloaded();
        match &result {
            Ok(Reloaded { changed, need_restart }) => {
                if !need_restart.is_empty() {
                    tracing::warn!(settings = list(need_restart), "changed settings that take a restart");
                }
                tracing::info!(changed = list(changed), "configuration reloaded, log files reopened");
            }
            Err(error) => tracing::error!("configuration not reloaded, nothing has changed: {}", chain(error)),
        }
        result
    }

    async fn apply(&self, current: &mut Settings<RawConfig>) -> Result<Reloaded, ReloadError> {
        let settings = resolve(&self.flags)?;
        let config = ValidatorConfig::check(&settings)?;
        let mode = config.policy.mode.filter(|mode| matches!(mode, Mode::Replay | Mode::ReplaySample));
        if let Some(mode) = mode.filter(|_| !self.validator.replays.can_replay()) {
            return Err(ReloadError::NoDevices(mode));
        }
        let expectations = Arc::new(Expectations::load(config.expectations.as_deref())?);
        let rules = config.fleet.load()?;
        let issued = config.tls.issued()?;
        self.reopen(&config).await?;
        // Of a file, what is in it counts.
        let expects_more = self.validator.policy().expectations != expectations;
        let policy = Policy { expectations, ..config.policy };
        self.validator.policies.send_if_modified(|current| replace(current, policy));
        if self.validator.fleet.signer().reload()? {
            tracing::info!("receipts are signed with another key");
        }
        let other_rules = self.validator.fleet.set_rules(rules);
        self.validator.webhooks.set(config.on_event);
        let another_certificate = self.present(issued);
        self.validator.admission.allowed.replace(config.miners);
        let is_reloadable = |name: &String| reloadable().any(|reloadable| reloadable == *name);
        let mut changed_now: Vec<_> = changed(current, &settings).into_iter().filter(is_reloadable).collect();
        let files = [(EXPECTATIONS, expects_more), (CERTIFICATE, another_certificate), (FLEET_POLICY, other_rules)];
        for (name, _) in files.iter().filter(|file| file.1) {
            if !changed_now.iter().any(|changed| changed == name) {
                changed_now.push((*name).to_owned());
            }
        }
        let need_restart = changed(&self.started, &settings).into_iter().filter(|name| !is_reloadable(name)).collect();
        *current = settings;
        Ok(Reloaded { changed: changed_now, need_restart })
    }

    /// Presents this certificate from now on; says whether it is another one.
    fn present(&self, issued: Option<Issued>) -> bool {
        let chain = |issued: &Option<Issued>| issued.as_ref().map(|issued| issued.certified.cert.clone());
        let is_another = chain(&self.validator.tls.issued()) != chain(&issued);
        if let Some(issued) = &issued {
            warn_if_due(issued);
        }
        self.validator.tls.set_issued(issued);
        is_another
    }

    /// Opens the files of the verdicts and of the log anew: what fails here leaves everything as it was.
    async fn reopen(&self, config: &ValidatorConfig) -> Result<(), ReloadError> {
        self.validator.reopen_verdict_log().await?;
        logging::reload(&config.log).map_err(ReloadError::Log)
    }
}

/// The names of the settings that take effect without a restart.
fn reloadable() -> impl Iterator<Item = String> {
    let policy = RawPolicy::augment_args(clap::Command::new("policy"));
    let names: Vec<_> = policy.get_arguments().map(|argument| argument.get_id().to_string()).collect();
    names.into_iter().chain(RELOADABLE.map(str::to_owned))
}

/// Puts another policy in the place of one that differs; says whether it did.
fn replace(policy: &mut Arc<Policy>, new: Policy) -> bool {
    let differs = **policy != new;
    if differs {
        *policy = Arc::new(new);
    }
    differs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reloadable_is_a_setting() {
        let all = RawConfig::augment_args(clap::Command::new("all"));
        let all: Vec<_> = all.get_arguments().map(|argument| argument.get_id().to_string()).collect();
        let names: Vec<_> = reloadable().collect();
        assert!(names.iter().all(|name| all.contains(name)), "{names:?}");
        assert!(names.contains(&EXPECTATIONS.to_owned()));
        assert!(names.len() > 20 && names.contains(&"samples".to_owned()) && !names.contains(&"listen".to_owned()));
    }
}
