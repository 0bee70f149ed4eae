//! `assay-validator serve`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use assay_device::machine::limit_freed_memory;
use assay_program::exit::{Exit, Failure};
use assay_program::shutdown::Shutdown;
use assay_protocol::identity::Identity;
use assay_protocol::verdict::Mode;
use assay_work::{ChallengeId, PublicKey};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::config::ValidatorConfig;
use crate::drain::Drain;
use crate::registry::Registry;
use crate::server::{bind_control, serve_control, serve_miners};
use crate::session::Admission;
use crate::validator::{Validator, VerdictLog};
use crate::verify::replay::Replayer;
use crate::verify::turns::ReplayTurns;

/// How long sessions may take to end what they stop, to log and send the verdicts and to say goodbye, and how long their
/// connections and those of operators may take after the last session.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// Serves miners until a signal, then drains.
///
/// # Errors
/// What keeps the validator from starting: its key, its address, its socket, its devices where the mode needs them.
pub fn execute(config: &ValidatorConfig) -> anyhow::Result<Exit> {
    limit_freed_memory();
    let identity = super::identity(&config.key_file)?;
    let key = identity.public_key();
    let replayer = replayer(config, &key)?.map(Arc::new);
    let verdicts = match &config.verdict_log {
        Some(path) => VerdictLog::open(path).with_context(|| format!("verdict log {}", path.display()))?,
        None => VerdictLog::default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let shutdown = Shutdown::on_signals(config.drain_timeout).context("no signal handlers")?;
        let validator = validator(config, identity, replayer, verdicts, shutdown);
        serve(config, Arc::new(validator), &key).await
    })
}

fn validator(
    config: &ValidatorConfig,
    identity: Identity,
    replayer: Option<Arc<Replayer>>,
    verdicts: VerdictLog,
    shutdown: Shutdown,
) -> Validator {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let allowed = config.allowed_miners.iter().copied().collect();
    Validator {
        admission: Arc::new(Admission {
            identity,
            allowed,
            ping_interval: config.ping_interval,
            history: Arc::default(),
        }),
        policy: Arc::new(config.policy.clone()),
        registry: Registry::new(config.max_miners as usize),
        replayer,
        checks: Semaphore::new(cores),
        turns: ReplayTurns::default(),
        verdicts,
        drain: Drain::new(shutdown.clone()),
        shutdown,
        next_session: AtomicU64::new(0),
    }
}

async fn serve(config: &ValidatorConfig, validator: Arc<Validator>, key: &PublicKey) -> anyhow::Result<Exit> {
    let host = (config.listen.host.as_str(), config.listen.port);
    let cannot = |error: io::Error| Failure::because(Exit::Io, format!("cannot listen on {}", config.listen), error);
    let listener = TcpListener::bind(host).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let control = bind_control(&config.control_socket)?;
    let socket = config.control_socket.display();
    tracing::info!(%address, control_socket = %socket, %key, "listening");
    let miners = serve_miners(validator.clone(), listener, config.reflection, config.max_miners as usize);
    let control = serve_control(validator.clone(), control, &config.control_socket);
    let both = async { tokio::try_join!(miners, control) };
    tokio::select! {
        served = both => served.map(|_| ())?,
        // Connections that never end, such as a health check's, are not waited for.
        () = async {
            over(&validator).await;
            tokio::time::sleep(STOP_LIMIT).await;
        } => {}
    }
    Ok(ended(&validator.drain.cut_short()))
}

/// Waits until the last session has ended, or until there is no time left for it.
async fn over(validator: &Validator) {
    let mut stopping = validator.shutdown.clone();
    tokio::select! {
        () = stopping.stopped() => {}
        () = validator.drain.over() => {}
    }
}

/// The exit code of a validator that was asked to stop, and ended these challenges for it.
fn ended(cut_short: &[ChallengeId]) -> Exit {
    if cut_short.is_empty() {
        tracing::info!("drained");
        return Exit::Done;
    }
    let ids: Vec<_> = cut_short.iter().map(ToString::to_string).collect();
    tracing::warn!(challenges = ids.join(", "), "stopped before it was drained: {} cut short", ids.len());
    Exit::CutShort
}

/// The devices that replay, when there are any. A mode that needs them does not start without.
fn replayer(config: &ValidatorConfig, key: &PublicKey) -> anyhow::Result<Option<Replayer>> {
    let needed = matches!(config.policy.mode, Some(Mode::Replay | Mode::ReplaySample));
    let found = config.devices.open(key).map_err(anyhow::Error::from).and_then(|chosen| {
        tracing::info!(backend = chosen.backend, devices = chosen.host.len(), "devices for replay: {}", chosen.why);
        Ok(Replayer::new(chosen.host)?)
    });
    match found {
        Ok(replayer) => Ok(Some(replayer)),
        Err(error) if needed => {
            let mode = config.policy.mode.map_or("auto", Mode::name);
            let message = format!("mode {mode} needs a device of this validator: use mode audit, or fix the device");
            Err(error.context(Failure::new(Exit::Config, message)))
        }
        Err(error) => {
            tracing::warn!("no devices for replay, audits only: {error:#}");
            Ok(None)
        }
    }
}
