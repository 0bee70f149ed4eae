//! `assay-validator serve`.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::Context;
use assay_device::machine::limit_freed_memory;
use assay_devices::BackendChoice;
use assay_devices::choice::ChooseError;
use assay_evidence::EvidenceStore;
use assay_observe::Traces;
use assay_program::address::Address;
use assay_program::exit::{Exit, Failure, chain};
use assay_program::lock::StateLock;
use assay_program::logging::list;
use assay_program::manager::ServiceManager;
use assay_program::reload::Hangups;
use assay_program::settings::Flags;
use assay_program::shutdown::Shutdown;
use assay_protocol::identity::Identity;
use assay_protocol::verdict::Mode;
use assay_records::{Location, Records, RecordsError};
use assay_transport::own_key;
use assay_transport::server::ServerTls;
use assay_work::{ChallengeId, PublicKey};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::allow::AllowList;
use crate::bounds::{MAX_ROUNDS_AT_ONCE, REPORT_INTERVAL};
use crate::case::upkeep;
use crate::clock::unix_seconds;
use crate::config::{RawConfig, ValidatorConfig, resolve};
use crate::drain::Drain;
use crate::expectations::Expectations;
use crate::fleet::{Fleet, sweep};
use crate::gate::Gate;
use crate::history::History;
use crate::history::devices::ReadBack;
use crate::http::{self, Web};
use crate::lag::Lag;
use crate::metrics::Metrics;
use crate::policy::Policy;
use crate::registry::Registry;
use crate::reload::Reloader;
use crate::running::Running;
use crate::server::{bind_control, check_unserved, serve_miners};
use crate::session::Admission;
use crate::sharing::leases::MinerLeases;
use crate::sharing::presence::Presence;
use crate::tls::warn_of_expiry;
use crate::validator::{Validator, VerdictCounts};
use crate::verdict_log::{OpenError, VerdictLog, tail};
use crate::verify::replay::Replayer;
use crate::verify::replay::pool::ReplayPool;
use crate::verify::replay::shared::SharedReplays;
use crate::waiting::WaitingKeys;
use crate::webhook::{self, Webhooks};
use crate::{port, preflight, receipt};

/// How long sessions may take to end what they stop, to log and send the verdicts and to say goodbye, and how long
/// their connections and those of operators may take after the last session.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// How long webhooks may take to have the last events.
const WEBHOOKS_LIMIT: Duration = Duration::from_secs(5);

/// How long the collector of traces may take to have the last spans.
const TRACES_LIMIT: Duration = Duration::from_secs(2);

/// Serves miners until a signal, then drains.
///
/// # Errors
/// What keeps the validator from starting: its key, its address, its socket, its devices where the mode needs them.
pub fn execute(flags: &Flags<RawConfig>) -> anyhow::Result<Exit> {
    let settings = resolve(flags)?;
    let config = ValidatorConfig::check(&settings)?;
    let config = config.log.start()?.keep_with(config);
    limit_freed_memory();
    preflight::check(&config)?;
    let identity = own_key::identity(&config.key_file)?;
    let tls = config.tls.server(&identity).map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    let key = identity.public_key();
    // Devices take long to open: what is in use is found before.
    drop(
        std::net::TcpListener::bind((config.listen.host.as_str(), config.listen.port))
            .map_err(|e| cannot_listen(&config, e))?,
    );
    check_unserved(&config.control_socket)?;
    // Held until the end.
    let _lock = StateLock::acquire(&config.key_file, &key.to_string()).map_err(Failure::from)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    // A reload that is asked for while devices are opened comes after that.
    let hangups = runtime.block_on(async { Hangups::new() }).context("no signal handlers")?;
    let expectations = Expectations::load(config.expectations.as_deref());
    let expectations = expectations.map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    let rules = config.fleet.load().map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    let signer = receipt::signer(&config).map_err(|error| Failure::new(Exit::Config, chain(&error)))?;
    let manager = ServiceManager::of_process();
    manager.status("opening the verdict log and the devices");
    let history = Arc::new(History::default());
    let verdicts = verdict_log(config.verdict_log.as_deref(), &history)?;
    let replayer = replayer(&config, &identity.origin())?;
    let evidence = EvidenceStore::open(&config.evidence.location, &config.evidence.outbox)
        .map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
    runtime.block_on(async {
        let shutdown = Shutdown::on_signals(config.drain_timeout).context("no signal handlers")?;
        let records = open_records(&config.records).await?;
        // Before the first event.
        webhook::keep(&records, config.on_event.as_ref()).await?;
        let fleet = Fleet::new(records.clone(), rules, signer);
        let kept = Kept { history, verdicts, evidence, expectations, tls, records, fleet };
        let validator = Arc::new(validator(&config, identity, replayer, kept, shutdown)?);
        let reloader = Arc::new(Reloader::new(flags.clone(), settings, validator.clone(), manager.clone()));
        let reloading = reloader.clone();
        tokio::spawn(async move { reloading.on_hangups(hangups).await });
        let served = tokio::select! {
            served = serve(&config, validator.clone(), reloader, &manager) => served,
            never = manager.attend(validator.shutdown.clone(), || validator.in_a_line()) => match never {},
        };
        manager.stopping();
        served
    })
}

/// What a validator keeps, and what it was told of miners.
struct Kept {
    history: Arc<History>,
    verdicts: VerdictLog,
    evidence: EvidenceStore,
    expectations: Expectations,
    tls: ServerTls,
    records: Records,
    fleet: Fleet,
}

/// Opens the records, which are made where there are none.
///
/// # Errors
/// They cannot be opened, or are of a newer release.
pub(super) async fn open_records(location: &Location) -> Result<Records, Failure> {
    Records::open(location).await.map_err(|error| {
        let exit = if matches!(error, RecordsError::Newer { .. }) { Exit::Config } else { Exit::Io };
        Failure::new(exit, chain(&error))
    })
}

/// Opens the verdict log, and reads the devices of its miners back from it.
fn verdict_log(path: Option<&Path>, history: &History) -> Result<VerdictLog, Failure> {
    let Some(path) = path else { return Ok(VerdictLog::none()) };
    let log = VerdictLog::open(path).map_err(|error| match error {
        OpenError::File { .. } => Failure::new(Exit::Io, error.to_string()),
        OpenError::Locked(_) | OpenError::NoLines(_) => Failure::new(Exit::Config, error.to_string()),
    })?;
    match tail(path) {
        Ok(lines) => {
            let ReadBack { lines, devices, keys } = history.devices.read_back(&lines);
            tracing::info!(file = %path.display(), lines, miners = keys, devices, "known devices were read back");
        }
        // What is not known cannot be missed: no verdict is worse for it.
        Err(error) => tracing::warn!(file = %path.display(), %error, "the verdict log cannot be read back"),
    }
    Ok(log)
}

fn validator(
    config: &ValidatorConfig,
    identity: Identity,
    replayer: Option<Replayer>,
    kept: Kept,
    shutdown: Shutdown,
) -> anyhow::Result<Validator> {
    let Kept { history, verdicts, evidence, expectations, tls, records, fleet } = kept;
    let instance = Records::new_instance()?;
    let metrics = Metrics::new()?;
    let traces = traces(config, &instance, &metrics)?;
    // A file is this validator's alone.
    let is_shared = matches!(records.location(), Location::Postgres(_));
    let shared = is_shared.then(|| SharedReplays::new(records.clone(), instance.clone()));
    let leases = if is_shared { MinerLeases::shared(records.clone(), instance.clone()) } else { MinerLeases::alone() };
    let webhooks = Webhooks::start(records.clone(), instance.clone(), config.on_event.clone());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Validator {
        admission: Arc::new(Admission {
            identity,
            allowed: AllowList::new(config.miners.clone()),
            ping_interval: config.ping_interval,
            history,
        }),
        policies: watch::Sender::new(Arc::new(Policy {
            expectations: Arc::new(expectations),
            ..config.policy.clone()
        })),
        tls,
        gate: Arc::new(Gate::new(&config.bounds, Instant::now())),
        registry: Registry::new(config.bounds),
        challenges: Arc::new(Semaphore::new(config.bounds.max_challenges as usize)),
        rounds: Arc::new(Semaphore::new(MAX_ROUNDS_AT_ONCE)),
        replays: ReplayPool::new(replayer, shared),
        records,
        fleet,
        instance,
        leases,
        waiting: WaitingKeys::default(),
        following: tokio::sync::Mutex::new(()),
        lag: Arc::new(Lag::new(Instant::now())),
        checks: Semaphore::new(cores),
        verdicts,
        evidence,
        evidence_passes_percent: config.evidence.passes_percent,
        metrics,
        traces,
        verdict_counts: VerdictCounts::default(),
        webhooks,
        drain: Drain::new(shutdown.clone()),
        shutdown,
        next_session: AtomicU64::new(0),
    })
}

/// Where spans go, where they are wanted.
fn traces(config: &ValidatorConfig, instance: &str, metrics: &Metrics) -> anyhow::Result<Traces> {
    let Some(endpoint) = &config.traces else { return Ok(Traces::off()) };
    let (service, version) = ("assay-validator", env!("CARGO_PKG_VERSION"));
    let traces = Traces::start(endpoint, service, version, instance.to_owned(), metrics.traces.clone());
    Ok(traces.map_err(|error| Failure::new(Exit::Config, error.to_string()))?)
}

async fn serve(
    config: &ValidatorConfig,
    validator: Arc<Validator>,
    reloader: Arc<Reloader>,
    manager: &ServiceManager,
) -> anyhow::Result<Exit> {
    let cannot = |error: io::Error| cannot_listen(config, error);
    let host = (config.listen.host.as_str(), config.listen.port);
    let listener = TcpListener::bind(host).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let control = bind_control(&config.control_socket)?;
    let http = http::listener::bind(&config.http).await.map_err(|error| cannot_serve(config, error))?;
    // Before the first miner: who is kept out is refused from the first moment.
    validator.follow_decisions().await.context("the records do not say who is let in")?;
    let socket = config.control_socket.display();
    let key = validator.admission.identity.public_key();
    let (records, instance) = (validator.records.clone(), validator.instance.clone());
    let presence = Arc::new(Presence::enter(records, key, instance, address.to_string()).await?);
    let target = config.tls.target(&bound(config, address), key);
    tracing::info!(%address, control_socket = %socket, %key, %target, "listening");
    tokio::spawn(warn_of_expiry(validator.tls.clone()));
    manager.ready(format_args!("listening on {address}"));
    preflight::warn_of_few_files(&config.bounds);
    tokio::spawn(report(validator.gate.clone()));
    tokio::spawn(validator.lag.clone().watch());
    tokio::spawn(upkeep::deliver(validator.evidence.clone(), validator.metrics.storage.evidence_failures.clone()));
    let (evidence, records) = (validator.evidence.clone(), validator.records.clone());
    tokio::spawn(upkeep::sweep_at_intervals(evidence, records, config.evidence.limits));
    share(&validator, presence.clone());
    let running = Running {
        validator: validator.clone(),
        reloader,
        address,
        target,
        verdict_log: config.verdict_log.clone(),
        max_miners: config.bounds.max_miners,
        since: Instant::now(),
        started_unix_seconds: unix_seconds(),
    };
    let (plaintext, bounds) = (config.tls.plaintext, config.bounds);
    let miners = serve_miners(validator.clone(), listener, plaintext, config.reflection, bounds);
    let web = Web::new(Arc::new(running), config.http.clone());
    let operators = http::serve(&web, control, &config.control_socket, http);
    let both = async { tokio::try_join!(miners, operators) };
    tokio::select! {
        served = both => served.map(|_| ())?,
        // Connections that never end, such as a health check's, are not waited for.
        () = async {
            over(&validator).await;
            tokio::time::sleep(STOP_LIMIT).await;
        } => {}
    }
    validator.verdicts.finish().await;
    presence.leave().await;
    validator.traces.finish(TRACES_LIMIT).await;
    let mut stopped = validator.shutdown.clone();
    tokio::select! {
        () = validator.webhooks.finish(WEBHOOKS_LIMIT) => {}
        () = async {
            stopped.stopped().await;
            tokio::time::sleep(STOP_LIMIT).await;
        } => {}
    }
    let exit = ended(&validator.drain.cut_short());
    if validator.fleet.finish() > 0 {
        let message = "the records lack verdicts: the log of this program has them whole";
        return Err(Failure::new(Exit::Io, message).into());
    }
    if validator.verdicts.check().is_err() {
        return Err(
            Failure::new(Exit::Io, "the verdict log lacks verdicts: the log of this program has them whole").into()
        );
    }
    Ok(exit)
}

/// Does for ever what validators do that share records, and what one alone does as if others were there.
fn share(validator: &Arc<Validator>, presence: Arc<Presence>) {
    let (leases, sharing) = (validator.leases.clone(), validator.clone());
    tokio::spawn(async move { leases.keep().await });
    tokio::spawn(async move {
        if let Some(shared) = sharing.replays.shared() {
            shared.watch().await;
        }
    });
    let following = validator.clone();
    tokio::spawn(async move { following.follow_operators().await });
    tokio::spawn(sweep::keep(validator.clone()));
    let telling = validator.clone();
    tokio::spawn(async move { presence.keep(|verdict| telling.concluded_lost(verdict)).await });
}

/// Where the validator listens, by the name that the operator gave it.
fn bound(config: &ValidatorConfig, address: SocketAddr) -> Address {
    Address { host: config.listen.host.clone(), port: address.port() }
}

/// Tells the operator at intervals what was turned away, for ever.
async fn report(gate: Arc<Gate>) {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        gate.report().tell();
    }
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
    let challenges = list(cut_short);
    tracing::warn!(challenges, "stopped before it was drained: {} cut short", cut_short.len());
    Exit::CutShort
}

/// Why the address cannot be listened on, and who has it, where that can be seen.
fn cannot_listen(config: &ValidatorConfig, error: io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => {
            // The files of a validator of the same user cannot be looked at, but the lock of its key can.
            let daemon = || StateLock::holder(&config.key_file).map(|holder| (holder.pid, holder.program));
            let holder = port::holder(config.listen.port).map(|holder| (holder.process, holder.name)).or_else(daemon);
            let holder = holder
                .map_or_else(|| "another program".to_owned(), |(process, name)| format!("{name} (process {process})"));
            format!(": {holder} listens there; stop it, or give another --listen")
        }
        io::ErrorKind::AddrNotAvailable => ": no interface of this machine has that address".to_owned(),
        io::ErrorKind::PermissionDenied => ": ports below 1024 take a privilege; give another --listen".to_owned(),
        _ => String::new(),
    };
    Failure::because(Exit::Io, format!("cannot listen on {}{why}", config.listen), error)
}

/// The same of the address that somebody chose for the HTTP API.
fn cannot_serve(config: &ValidatorConfig, error: io::Error) -> Failure {
    let listen = config.http.listen.as_ref().map_or_else(String::new, ToString::to_string);
    let remedy = "give another http_listen, or leave it empty for none";
    Failure::because(Exit::Io, format!("cannot serve the HTTP API on {listen}: {remedy}"), error)
}

/// The mode needs what the other settings exclude.
fn no_replays(config: &ValidatorConfig) -> Failure {
    let mode = config.policy.mode.map_or("auto", Mode::name);
    let message = format!(
        "mode {mode} with replay_locally = false needs replay workers: set records to the URL of the PostgreSQL database \
         that they share"
    );
    Failure::new(Exit::Config, message)
}

/// The devices that replay, when there are any. The validator does not start without those of a backend that was asked
/// for, nor without any in a mode that needs them.
fn replayer(config: &ValidatorConfig, key: &PublicKey) -> anyhow::Result<Option<Replayer>> {
    let asked_for = config.devices.unseeded.choice != BackendChoice::Auto;
    let workers_may_come = matches!(config.records, Location::Postgres(_));
    let needed = matches!(config.policy.mode, Some(Mode::Replay | Mode::ReplaySample)) && !workers_may_come;
    if !config.replays_locally {
        return if needed { Err(no_replays(config).into()) } else { Ok(None) };
    }
    let found = config.devices.open(key).map_err(anyhow::Error::from).and_then(|chosen| {
        tracing::info!(backend = chosen.backend, devices = chosen.host.len(), "devices for replay: {}", chosen.why);
        Ok(Replayer::new(chosen.host)?)
    });
    match found {
        Ok(replayer) => Ok(Some(replayer)),
        Err(error) if needed => {
            let mode = config.policy.mode.map_or("auto", Mode::name);
            let message = format!("mode {mode} needs a device of this validator: use mode audit, or fix the device");
            Err(Failure::because(Exit::Config, message, error).into())
        }
        Err(error) if asked_for => {
            let message = "the backend that was asked for gives no device: fix it, or set backend = auto, with which a \
                           validator without devices only audits";
            Err(Failure::because(Exit::Config, message, error).into())
        }
        Err(error) if matches!(error.downcast_ref(), Some(ChooseError::Filter(_))) => {
            Err(Failure::because(Exit::Config, "include_device or exclude_device", error).into())
        }
        Err(error) => {
            let who = if workers_may_come { "replay workers alone replay" } else { "audits only" };
            tracing::warn!("no devices for replay, {who}: {error:#}");
            Ok(None)
        }
    }
}
