//! `assay-miner run`.

use std::sync::Arc;

use anyhow::Context;
use assay_program::exit::{Exit, Failure};
use assay_program::lock::StateLock;
use assay_program::shutdown::Shutdown;
use assay_protocol::verdict::{Outcome, Verdict};
use assay_work::text::quoted;
use assay_work::{Challenge, ChallengeId, PublicKey};

use crate::config::MinerConfig;
use crate::connection::{ConnectionError, Dial, serve};
use crate::driver::Observer;
use crate::engine::Engine;
use crate::limits::SharedLimits;
use crate::telemetry;

/// Serves the validator until a signal, then drains.
///
/// # Errors
/// What keeps the miner from starting: its key, its devices.
pub fn execute(config: &MinerConfig) -> anyhow::Result<Exit> {
    let identity = super::identity(&config.key_file)?;
    let key = identity.public_key();
    let _lock = StateLock::acquire(&config.key_file, &key.to_string()).map_err(Failure::from)?;
    let chosen = config.devices.open(&key).map_err(|e| Failure::because(Exit::Config, "devices", e))?;
    tracing::info!(%key, backend = chosen.backend, devices = chosen.host.len(), "{}", chosen.why);
    let limits = SharedLimits::new(config.limits.clone());
    let mut engine = Engine::new(chosen.host, identity.clone()).limited_by(limits.clone());
    if let Some(sampler) = telemetry::start(config.telemetry) {
        telemetry::announce(&sampler);
        engine = engine.watched_by(sampler);
    }
    let engine = Arc::new(engine);
    let dial = Dial {
        validator: config.validator.clone(),
        pinned: config.validator_key,
        identity,
        idle_release: config.idle_release,
        backoff: (config.reconnect_min, config.reconnect_max),
        limits,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let (served, cut_short) = runtime.block_on(async {
        let shutdown = Shutdown::on_signals(config.drain_timeout).context("no signal handlers")?;
        let mut log = Log::default();
        let served = serve(dial, engine, shutdown.clone(), &mut log).await;
        Ok::<_, anyhow::Error>((served, log.challenge.filter(|_| shutdown.was_cut_short())))
    })?;
    match served {
        Ok(()) => Ok(ended(cut_short)),
        Err(error @ (ConnectionError::Operator(_) | ConnectionError::Address(_))) => {
            Err(Failure::because(Exit::Config, "the miner cannot serve this validator", error).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// The exit code of a miner that was asked to stop, and broke off this challenge.
fn ended(cut_short: Option<ChallengeId>) -> Exit {
    match cut_short {
        None => {
            tracing::info!("drained");
            Exit::Done
        }
        Some(challenge) => {
            tracing::warn!(%challenge, "stopped before it was drained: the challenge was broken off");
            Exit::CutShort
        }
    }
}

/// Shows a session in the log.
#[derive(Debug, Default)]
struct Log {
    /// The challenge that is under way.
    challenge: Option<ChallengeId>,
    all_slots: u64,
}

impl Observer for Log {
    fn established(&mut self, validator_key: PublicKey) {
        // One that a lost connection took with it is over.
        self.challenge = None;
        tracing::info!(validator = %validator_key, "connected: waiting for challenges");
    }

    fn challenged(&mut self, challenge: &Challenge) {
        let slots: u64 = challenge.shares().iter().map(|s| u64::from(s.count)).sum();
        self.challenge = Some(challenge.id());
        self.all_slots = slots * u64::from(challenge.iterations());
        tracing::info!(
            challenge = %challenge.id(), n = challenge.n(), iterations = challenge.iterations(),
            devices = challenge.shares().len(), slots, "working"
        );
    }

    fn progress(&mut self, done_slots: u64) {
        tracing::debug!("{done_slots} of {} slots", self.all_slots);
    }

    fn verdict(&mut self, verdict: &Verdict) {
        self.challenge = None;
        let (challenge, tops) = (verdict.challenge_id, format!("{:.3}", verdict.whole.tops));
        match verdict.outcome {
            Outcome::Pass => tracing::info!(%challenge, tops, "verdict: pass"),
            outcome => {
                for reason in &verdict.reasons {
                    let (code, class) = (reason.code.name(), reason.code.class().name());
                    tracing::warn!(%challenge, code, class, "verdict: {outcome}: {}", quoted(&reason.detail));
                }
            }
        }
    }
}
