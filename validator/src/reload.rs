//! A reload: the configuration is read again while the validator runs, on SIGHUP or on request.
//!
//! It is all or nothing. Reloadable settings change in every session at once; a running challenge keeps its policy.
//! Settings that need a restart are named.

use std::sync::Arc;

use assay_api::ReloadResult;
use assay_keeper::fleet::rules::{self, RulesError};
use assay_keeper::running::ReloadRequest;
use assay_keeper::validator::Validator;
use assay_listen::tls::warn_if_due;
use assay_policy::Policy;
use assay_program::exit::chain;
use assay_program::logging::{self, LogConfig, list};
use assay_program::manager::ServiceManager;
use assay_program::reload::{Hangups, changed};
use assay_program::settings::{Flags, Settings, SettingsError};
use assay_protocol::verdict::Mode;
use assay_receipts::SignerError;
use assay_transport::certificate::{CertificateError, IssuedCertificate};
use clap::Args;
use tokio::sync::mpsc;

use crate::config::{RawConfig, ValidatorConfig, resolve};
use crate::policy::RawPolicy;

/// Settings, beside those of the policy, that take effect without a restart.
const RELOADABLE: [&str; 8] =
    ["allowed_miners", "enrolment", "fleet_policy", "log", "log_file", "revoked_miners", "tls_cert", "tls_key"];

/// Settings that name files, which are read again too.
const CERTIFICATE: &str = "tls_cert";
const FLEET_POLICY: &str = "fleet_policy";
/// Name under which a reload reports a new receipt key, which is not a setting.
pub const RECEIPT_KEY: &str = "receipt_key";

/// Reloads the configuration.
pub struct ValidatorReloader {
    flags: Flags<RawConfig>,
    /// Settings at the start.
    started: Settings<RawConfig>,
    /// The last accepted settings.
    current: Settings<RawConfig>,
    /// The log of those.
    log: LogConfig,
    validator: Arc<Validator>,
    manager: ServiceManager,
}

/// Reasons to refuse a reload.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration is invalid, as at the start.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The new mode needs devices, which are opened only at the start.
    #[error("mode {} needs a device of this validator, which it opens when it starts: restart it", .0.name())]
    NoDevices(Mode),
    #[error(transparent)]
    Receipts(#[from] SignerError),
    /// The policy of the fleet is invalid.
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The log cannot be changed.
    #[error("the log: {0}")]
    Log(String),
}

impl ValidatorReloader {
    /// Creates the reloader of a validator started with these settings, and with this log by them.
    pub fn new(
        flags: Flags<RawConfig>,
        (settings, log): (Settings<RawConfig>, LogConfig),
        validator: Arc<Validator>,
        manager: ServiceManager,
    ) -> Self {
        Self { flags, started: settings.clone(), current: settings, log, validator, manager }
    }

    /// Reloads on each SIGHUP and on request, for ever.
    pub async fn run(mut self, mut hangups: Hangups, mut requests: mpsc::Receiver<ReloadRequest>) {
        loop {
            tokio::select! {
                // The outcome is logged.
                () = hangups.next() => drop(self.reload()),
                Some(answer) = requests.recv() => {
                    // The requester may have left.
                    let _ = answer.send(self.reload().map_err(|error| chain(&error)));
                }
            }
        }
    }

    /// Reads the configuration again, and applies the reloadable changes; logs the result.
    fn reload(&mut self) -> Result<ReloadResult, ReloadError> {
        self.manager.reloading();
        let result = self.apply();
        if result.is_err() {
            // A log that was renamed is opened anew all the same.
            let _ = logging::reload(&self.log);
        }
        self.manager.reloaded();
        match &result {
            Ok(ReloadResult { changed, need_restart }) => {
                if !need_restart.is_empty() {
                    tracing::warn!(settings = list(need_restart), "changed settings that take a restart");
                }
                tracing::info!(changed = list(changed), "configuration reloaded, log files reopened");
            }
            Err(error) => tracing::error!("configuration not reloaded, nothing has changed: {}", chain(error)),
        }
        result
    }

    fn apply(&mut self) -> Result<ReloadResult, ReloadError> {
        let settings = resolve(&self.flags)?;
        let config = ValidatorConfig::check(&settings)?;
        let mode = config.policy.mode.filter(|mode| matches!(mode, Mode::Replay | Mode::ReplaySample));
        if let Some(mode) = mode.filter(|_| !self.validator.capacity.replays.can_replay()) {
            return Err(ReloadError::NoDevices(mode));
        }
        let rules = rules::read(config.fleet_policy.as_deref(), Some(&config.policy))?;
        let issued = config.tls.issued()?;
        let receipt_key = self.validator.fleet.signer.read_again()?;
        // The last that may fail: a failure leaves everything as it was.
        logging::reload(&config.log).map_err(ReloadError::Log)?;
        self.log = config.log;
        let policy = Policy { expectations: rules.expectations.clone(), ..config.policy };
        self.validator.policies.send_if_modified(|current| replace(current, policy));
        // Files are compared by their content.
        let another_key = self.validator.fleet.signer.sign_with(receipt_key);
        let other_rules = self.validator.fleet.set_rules(rules);
        let another_certificate = self.present(issued);
        self.validator.access.allowed.replace(config.miners);
        let is_reloadable = |name: &String| reloadable().any(|reloadable| reloadable == *name);
        let mut changed_now: Vec<_> = changed(&self.current, &settings).into_iter().filter(is_reloadable).collect();
        let files = [(CERTIFICATE, another_certificate), (FLEET_POLICY, other_rules), (RECEIPT_KEY, another_key)];
        for (name, _) in files.iter().filter(|file| file.1) {
            if !changed_now.iter().any(|changed| changed == name) {
                changed_now.push((*name).to_owned());
            }
        }
        let need_restart = changed(&self.started, &settings).into_iter().filter(|name| !is_reloadable(name)).collect();
        self.current = settings;
        Ok(ReloadResult { changed: changed_now, need_restart })
    }

    /// Presents this certificate from now on; returns whether it differs from the previous one.
    fn present(&self, issued: Option<IssuedCertificate>) -> bool {
        let chain = |issued: &Option<IssuedCertificate>| issued.as_ref().map(|issued| issued.certified.cert.clone());
        let is_another = chain(&self.validator.listening.tls.issued()) != chain(&issued);
        if let Some(issued) = &issued {
            warn_if_due(issued);
        }
        self.validator.listening.tls.set_issued(issued);
        is_another
    }
}

/// Names of the settings that take effect without a restart.
fn reloadable() -> impl Iterator<Item = String> {
    let policy = RawPolicy::augment_args(clap::Command::new("policy"));
    let names: Vec<_> = policy.get_arguments().map(|argument| argument.get_id().to_string()).collect();
    names.into_iter().chain(RELOADABLE.map(str::to_owned))
}

/// Replaces a differing policy; returns whether it differed.
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
        assert!(names.contains(&"policy_fields".to_owned()));
        assert!(names.len() > 15 && names.contains(&"samples".to_owned()) && !names.contains(&"listen".to_owned()));
    }
}
