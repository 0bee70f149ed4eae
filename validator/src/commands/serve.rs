//! `assay-validator serve`.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use assay_backends::BackendChoice;
use assay_backends::choice::ChooseError;
use assay_device::machine::limit_freed_memory;
use assay_evidence::EvidenceStore;
use assay_observe::Traces;
use assay_policy::Policy;
use assay_program::address::Address;
use assay_program::exit::{Exit, Failure, chain, of_file_error};
use assay_program::lock::StateLock;
use assay_program::logging::list;
use assay_program::manager::ServiceManager;
use assay_program::reload::Hangups;
use assay_program::settings::Flags;
use assay_program::shutdown::Shutdown;
use assay_program::utc;
use assay_protocol::identity::Identity;
use assay_protocol::verdict::Mode;
use assay_records::{Location, Records, RecordsError};
use assay_transport::own_key;
use assay_transport::server::ServerTls;
use assay_work::{ChallengeId, PublicKey};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::config::{RawConfig, ValidatorConfig, resolve};
use crate::reload::ValidatorReloader;
use crate::server::{bind_control, check_unserved, serve_miners};
use crate::{port, preflight, receipt};
use assay_judge::history::History;
use assay_judge::session::Admission;
use assay_keeper::allow::{AllowList, Enrolment};
use assay_keeper::drain::Drain;
use assay_keeper::evidence::upkeep;
use assay_keeper::fleet::Fleet;
use assay_keeper::fleet::rules;
use assay_keeper::metrics::ValidatorMetrics;
use assay_keeper::registry::Registry;
use assay_keeper::running::ReloadRequest;
use assay_keeper::running::RunningValidator;
use assay_keeper::sharing::leases::MinerLeases;
use assay_keeper::sharing::presence::{ValidatorPresence, wait_until_alone};
use assay_keeper::sweep;
use assay_keeper::validator::{Capacity, Listening, MinerAccess, Reports, Validator};
use assay_keeper::verdict_log::VerdictLog;
use assay_keeper::waiting::WaitingKeys;
use assay_listen::bounds::{MAX_ROUNDS_AT_ONCE, REPORT_INTERVAL};
use assay_listen::gate::Gate;
use assay_listen::lag::Lag;
use assay_listen::tls::warn_of_expiry;
use assay_program::clock::unix_seconds;
use assay_replay::Replayer;
use assay_replay::pool::ReplayPool;
use assay_replay::shared::SharedReplays;
use assay_web::{self as http, Web};
use assay_webhook::Webhooks;

/// Time for sessions to stop their work, log and send their verdicts and say goodbye, and for their connections and
/// those of operators after the last session.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// Time for the log to take the last verdicts.
const LOG_LIMIT: Duration = Duration::from_secs(5);

/// Time for webhooks to deliver the last events.
const WEBHOOKS_LIMIT: Duration = Duration::from_secs(5);

/// Time for the collector of traces to take the last spans.
const TRACES_LIMIT: Duration = Duration::from_secs(2);

/// Age from which a key was not made for a validator's first start.
const KEY_IS_OLD: Duration = Duration::from_secs(600);

/// Time for the records to close: their write-ahead log is merged into the file.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Serves miners until a signal, then drains.
///
/// # Errors
/// Reasons that keep the validator from starting: its key, its address, its socket, its devices where the mode needs
/// them.
pub fn execute(flags: &Flags<RawConfig>) -> anyhow::Result<Exit> {
    let settings = resolve(flags)?;
    let config = ValidatorConfig::check(&settings)?;
    let config = config.log.start()?.keep_with(config);
    limit_freed_memory();
    preflight::check(&config)?;
    let identity = own_key::identity(&config.key_file)?;
    let tls = config.tls.server(&identity).map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    let key = identity.public_key();
    // Devices take long to open: an address in use is reported first.
    drop(
        std::net::TcpListener::bind((config.listen.host.as_str(), config.listen.port))
            .map_err(|e| cannot_listen(&config, e))?,
    );
    check_unserved(&config.control_socket)?;
    // Held until the end.
    let _lock = StateLock::acquire(&config.key_file, &key.to_string()).map_err(Failure::from)?;
    let _records = lock_records(&config.records, key)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    // A reload requested while devices are opened follows that.
    let hangups = runtime.block_on(async { Hangups::new() }).context("no signal handlers")?;
    let rules = rules::read(config.fleet_policy.as_deref(), Some(&config.policy));
    let rules = rules.map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    let signer = receipt::signer(&config).map_err(|error| Failure::new(of_file_error(&error), chain(&error)))?;
    let manager = ServiceManager::of_process();
    manager.status("opening the devices");
    let replayer = replayer(&config, &identity.origin())?;
    let evidence = EvidenceStore::open(&config.evidence.location, &config.evidence.outbox)
        .map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
    let ended = runtime.block_on(async {
        let shutdown = Shutdown::on_signals(config.drain_timeout).context("no signal handlers")?;
        let records = open_records(&config.records).await?;
        if records.is_new()
            && let Some(since) = key_age(&config.key_file, SystemTime::now())
        {
            let since = utc::text(since);
            let effect = match config.miners.enrolment {
                Enrolment::Open => "whom earlier ones kept out is let in again",
                _ => "whom earlier ones let in is refused",
            };
            tracing::warn!(
                records = %config.records,
                "new records were made, though this key is from {since}: {effect}. Where there were some, stop the \
                 validator and restore them"
            );
        }
        wait_until_alone(&records, key).await.map_err(unusable)?.map_err(Failure::from)?;
        let fleet = Fleet::new(records, rules, signer);
        let validator = Arc::new(validator(&config, identity, replayer, (evidence, tls, fleet), shutdown)?);
        let reloader =
            ValidatorReloader::new(flags.clone(), (settings, config.log.clone()), validator.clone(), manager.clone());
        let (reloads, requests) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        tasks.spawn(reloader.run(hangups, requests));
        let served = tokio::select! {
            served = serve(&config, validator.clone(), reloads, &manager, tasks) => served,
            never = manager.attend(validator.shutdown.clone(), || validator.in_a_line()) => match never {},
        };
        manager.stopping();
        served
    });
    // A replay or a file of a lost disk is not awaited.
    runtime.shutdown_timeout(STOP_LIMIT);
    ended
}

/// Opens the records; creates them if missing.
///
/// # Errors
/// They cannot be opened, or are of a newer release.
pub(super) async fn open_records(location: &Location) -> Result<Records, Failure> {
    Records::open(location).await.map_err(|error| not_permitted(location).unwrap_or_else(|| unusable(error)))
}

/// The failure of a user who may not read and write the file of records, such as one that root restored.
fn not_permitted(location: &Location) -> Option<Failure> {
    let Location::File(path) = location else { return None };
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let error = opened.err().filter(|error| error.kind() == io::ErrorKind::PermissionDenied)?;
    let owner = std::fs::metadata(path).map(|file| format!(", of user {},", file.uid())).unwrap_or_default();
    let message = format!(
        "the records {}{owner} are not this user's to read and write: chown them to the validator's user, chmod 600 them",
        path.display()
    );
    Some(Failure::because(Exit::Config, message, error))
}

/// The failure of a start whose records cannot be read or written.
fn unusable(error: RecordsError) -> Failure {
    use RecordsError::{Exposed, Foreign, Newer};
    let is_setting = match &error {
        RecordsError::File { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
        error => matches!(error, Newer { .. } | Exposed { .. } | Foreign { .. }),
    };
    let exit = if is_setting { Exit::Config } else { Exit::Io };
    let is_disk = matches!(
        error,
        RecordsError::Open { location: Location::File(_), .. }
            | RecordsError::Migrate { location: Location::File(_), .. }
    );
    let remedy = if is_disk || error.is_trouble() { ": mend their disk or database, then start again" } else { "" };
    Failure::new(exit, chain(&error) + remedy)
}

/// Locks a file of records against another validator; a database is shared. Aliases of a file share the lock.
pub(super) fn lock_records(location: &Location, key: PublicKey) -> Result<Option<StateLock>, Failure> {
    let Location::File(path) = location else { return Ok(None) };
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    Ok(Some(StateLock::acquire_for("records", &path, &key.to_string())?))
}

/// Creation time of a key that was not made for this start, in seconds since 1970.
fn key_age(key_file: &Path, now: SystemTime) -> Option<u64> {
    let made = std::fs::metadata(key_file).ok()?.modified().ok()?;
    let is_old = now.duration_since(made).is_ok_and(|age| age >= KEY_IS_OLD);
    is_old.then(|| made.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

fn validator(
    config: &ValidatorConfig,
    identity: Identity,
    replayer: Option<Replayer>,
    (evidence, tls, fleet): (EvidenceStore, ServerTls, Fleet),
    shutdown: Shutdown,
) -> anyhow::Result<Validator> {
    let (records, instance) = (fleet.records.clone(), Records::new_instance()?);
    let metrics = ValidatorMetrics::new()?;
    let traces = traces(config, &instance, &metrics)?;
    // A file belongs to this validator alone.
    let is_shared = records.is_shared();
    let shared = is_shared.then(|| SharedReplays::new(records.clone(), instance.clone()));
    let leases = if is_shared { MinerLeases::shared(records.clone(), instance.clone()) } else { MinerLeases::alone() };
    let webhooks = Webhooks::new(records.clone(), instance.clone());
    let log = VerdictLog::new(records.clone(), config.log_folder(), identity.clone(), config.log_witnesses.clone());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let allowed = AllowList::new(config.miners.clone());
    let admission = Admission {
        identity,
        access: Arc::new(allowed.clone()),
        ping_interval: config.ping_interval,
        history: Arc::<History>::default(),
    };
    Ok(Validator {
        access: MinerAccess {
            admission: Arc::new(admission),
            allowed,
            waiting: WaitingKeys::default(),
            following: tokio::sync::Mutex::new(()),
        },
        policies: watch::Sender::new(Arc::new(Policy {
            expectations: fleet.rules().expectations.clone(),
            ..config.policy.clone()
        })),
        listening: Listening {
            tls,
            gate: Arc::new(Gate::new(&config.bounds, Instant::now())),
            lag: Arc::new(Lag::new(Instant::now())),
        },
        registry: Registry::new(config.bounds),
        records,
        fleet,
        instance,
        leases,
        capacity: Capacity {
            replays: ReplayPool::new(replayer, shared),
            challenges: Arc::new(Semaphore::new(config.bounds.max_challenges as usize)),
            rounds: Arc::new(Semaphore::new(MAX_ROUNDS_AT_ONCE)),
            disputes: Semaphore::new(MAX_ROUNDS_AT_ONCE),
            checks: Semaphore::new(cores),
        },
        evidence,
        reports: Reports { metrics, traces, webhooks, log: Arc::new(log) },
        drain: Drain::new(shutdown.clone()),
        shutdown,
    })
}

/// Sets up the export of spans, if configured.
fn traces(config: &ValidatorConfig, instance: &str, metrics: &ValidatorMetrics) -> anyhow::Result<Traces> {
    let Some(endpoint) = &config.traces else { return Ok(Traces::off()) };
    let (service, version) = ("assay-validator", env!("CARGO_PKG_VERSION"));
    let spans = &metrics.families.trace_spans_total;
    let traces = Traces::start(endpoint, service, version, instance.to_owned(), spans);
    Ok(traces.map_err(|error| Failure::new(Exit::Config, error.to_string()))?)
}

async fn serve(
    config: &ValidatorConfig,
    validator: Arc<Validator>,
    reloads: mpsc::Sender<ReloadRequest>,
    manager: &ServiceManager,
    mut tasks: JoinSet<()>,
) -> anyhow::Result<Exit> {
    let cannot = |error: io::Error| cannot_listen(config, error);
    let host = (config.listen.host.as_str(), config.listen.port);
    let listener = TcpListener::bind(host).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let control = bind_control(&config.control_socket)?;
    let http = http::listener::bind(&config.http).await.map_err(|error| cannot_serve(config, error))?;
    // Before the first miner: excluded miners are refused from the start.
    validator.follow_decisions().await.map_err(unusable)?;
    let key = validator.access.admission.identity.public_key();
    let (records, instance) = (validator.records.clone(), validator.instance.clone());
    let presence = ValidatorPresence::enter(records, key, instance, address.to_string()).await.map_err(unusable)?;
    // The bound address, with the host that the operator configured.
    let target = config.tls.target(&Address { port: address.port(), ..config.listen.clone() }, key);
    tracing::info!(%address, control_socket = %config.control_socket.display(), %key, %target, "listening");
    manager.ready(format_args!("listening on {address}"));
    preflight::warn_of_few_files(&config.bounds);
    start_tasks(config, &validator, &mut tasks);
    let running = RunningValidator {
        validator: validator.clone(),
        reloads,
        address,
        http: http.as_ref().map(TcpListener::local_addr).transpose()?,
        control_socket: config.control_socket.clone(),
        target,
        max_miners: config.bounds.max_miners,
        since: Instant::now(),
        started_unix_seconds: unix_seconds(),
    };
    let (plaintext, bounds) = (config.tls.plaintext, config.bounds);
    let miners = serve_miners(validator.clone(), listener, plaintext, bounds);
    let web = Web::new(Arc::new(running), config.http.clone());
    let operators = http::serve(&web, control, &config.control_socket, http);
    let both = async { tokio::try_join!(miners, async { Ok(operators.await?) }) };
    let failure = tokio::select! {
        served = both => served.map(|_| None)?,
        failure = presence.keep(&validator.registry, |verdict| validator.concluded_lost(&verdict)) => Some(failure),
        failure = first_end(&mut tasks) => Some(failure),
        // Endless connections, such as a health check's, are not awaited.
        () = async {
            over(&validator).await;
            tokio::time::sleep(STOP_LIMIT).await;
        } => None,
    };
    if let Some(failure) = failure {
        validator.fleet.finish();
        return Err(failure.into());
    }
    presence.leave().await;
    validator.reports.traces.finish(TRACES_LIMIT).await;
    let mut stopped = validator.shutdown.clone();
    tokio::select! {
        () = async {
            let Reports { log, webhooks, .. } = &validator.reports;
            tokio::join!(log.finish(LOG_LIMIT), webhooks.finish(WEBHOOKS_LIMIT));
        } => {}
        () = async {
            stopped.stopped().await;
            tokio::time::sleep(STOP_LIMIT).await;
        } => {}
    }
    // SQLite then leaves one file, without a log beside it. Remaining readers are not awaited.
    let _ = tokio::time::timeout(CLOSE_LIMIT, validator.records.close()).await;
    let exit = ended(&validator.drain.cut_short());
    if validator.fleet.finish() > 0 {
        let message = "the records lack verdicts: the log of this program has them whole";
        return Err(Failure::new(Exit::Io, message).into());
    }
    if let (true, Some(why)) = (validator.records.is_damaged(), validator.records.trouble()) {
        return Err(Failure::new(Exit::Io, why).into());
    }
    Ok(exit)
}

/// Starts the background tasks, each of which runs for ever.
fn start_tasks(config: &ValidatorConfig, validator: &Arc<Validator>, tasks: &mut JoinSet<()>) {
    let Validator { evidence, records, reports, listening, .. } = &**validator;
    tasks.spawn(warn_of_expiry(listening.tls.clone()));
    tasks.spawn(report(listening.gate.clone()));
    tasks.spawn(listening.lag.clone().watch());
    let failures = reports.metrics.families.evidence_failures_total.with_label_values(&["upload"]);
    tasks.spawn(upkeep::deliver(evidence.clone(), failures));
    evidence.limit(config.evidence.limits.max_bytes);
    tasks.spawn(upkeep::remove_strangers(evidence.clone(), records.clone()));
    tasks.spawn(records.clone().watch_file());
    tasks.spawn(records.clone().watch_server());
    tasks.spawn(upkeep::sweep_at_intervals(evidence.clone(), records.clone(), config.evidence.clone()));
    tasks.spawn(reports.log.clone().run());
    tasks.spawn(reports.webhooks.clone().keep());
    tasks.spawn(validator.leases.clone().keep());
    tasks.extend(validator.capacity.replays.shared().map(|shared| shared.clone().watch()));
    tasks.spawn(validator.clone().follow_operators());
    tasks.spawn(sweep::keep(validator.clone()));
}

/// Waits for the first end of a background task: it panicked, and the validator would go on without its work.
async fn first_end(tasks: &mut JoinSet<()>) -> Failure {
    let why = tasks.join_next().await.and_then(Result::err).map(|error| format!(": {error}")).unwrap_or_default();
    Failure::new(Exit::Internal, format!("a background task of the validator ended{why}"))
}

/// Logs the counts of refused connections at intervals, for ever.
async fn report(gate: Arc<Gate>) {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        gate.report().tell();
    }
}

/// Waits until the last session has ended, or until the time for draining is over.
async fn over(validator: &Validator) {
    let mut stopping = validator.shutdown.clone();
    tokio::select! {
        () = stopping.stopped() => {}
        () = validator.drain.over() => {}
        // No further verdict is written.
        () = async {
            validator.shutdown.clone().draining().await;
            validator.records.damaged().await;
        } => {}
    }
}

/// The exit code after a request to stop, with the challenges that it cut short.
fn ended(cut_short: &[ChallengeId]) -> Exit {
    if cut_short.is_empty() {
        tracing::info!("drained");
        return Exit::Done;
    }
    let challenges = list(cut_short);
    tracing::warn!(challenges, "stopped before it was drained: {} cut short", cut_short.len());
    Exit::CutShort
}

/// The failure to listen on the address, with its current user if visible.
fn cannot_listen(config: &ValidatorConfig, error: io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => {
            // Files of another process of the same user may be unreadable, but the lock of its key is not.
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

/// The failure to listen on the configured address of the HTTP API.
fn cannot_serve(config: &ValidatorConfig, error: io::Error) -> Failure {
    let listen = config.http.listen.as_ref().map_or_else(String::new, ToString::to_string);
    let remedy = "give another http_listen, or leave it empty for none";
    Failure::because(Exit::Io, format!("cannot serve the HTTP API on {listen}: {remedy}"), error)
}

/// Opens the devices that replay, if there are any. The validator does not start without the devices of a requested
/// backend, nor without any in a mode that needs them.
fn replayer(config: &ValidatorConfig, key: &PublicKey) -> anyhow::Result<Option<Replayer>> {
    let asked_for = config.devices.unseeded.choice != BackendChoice::Auto;
    let workers_may_come = matches!(config.records, Location::Postgres(_));
    let needed = matches!(config.policy.mode, Some(Mode::Replay | Mode::ReplaySample)) && !workers_may_come;
    if !config.replays_locally {
        return Ok(None);
    }
    let found = config.devices.open(key).map_err(anyhow::Error::from).and_then(|chosen| {
        tracing::info!(backend = chosen.backend, devices = chosen.host.len(), "devices for replay: {}", chosen.why);
        Ok(Replayer::new(chosen.host)?)
    });
    let chosen = |error: &anyhow::Error| error.downcast_ref().map_or(Exit::Config, ChooseError::exit);
    match found {
        Ok(replayer) => Ok(Some(replayer)),
        Err(error) if needed => {
            let mode = config.policy.mode.map_or("auto", Mode::name);
            let message = format!("mode {mode} needs a device of this validator: use mode audit, or fix the device");
            Err(Failure::because(chosen(&error), message, error).into())
        }
        Err(error) if asked_for => {
            let message = "the backend that was asked for gives no device: fix it, or set backend = auto, with which a \
                           validator without devices only audits";
            Err(Failure::because(chosen(&error), message, error).into())
        }
        Err(error) if matches!(error.downcast_ref(), Some(ChooseError::Filter(_))) => {
            Err(Failure::because(Exit::Config, "the devices for replay", error).into())
        }
        Err(error) => {
            let who = if workers_may_come { "replay workers alone replay" } else { "audits only" };
            tracing::warn!("no devices for replay, {who}: {error:#}");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_records_has_one_validator_whatever_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("validator.db"), folder.path().join("link.db"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let lock = lock_records(&Location::File(file), PublicKey([1; 32])).unwrap();
        let error = lock_records(&Location::File(link), PublicKey([2; 32])).unwrap_err();
        let said = error.to_string();
        assert!(error.exit == Exit::Config && said.contains("validator.db") && said.contains("process"), "{said}");
        let shared = Location::Postgres("postgres://assay@localhost/assay".to_owned());
        assert!(lock_records(&shared, PublicKey([2; 32])).unwrap().is_none(), "a database is shared");
        drop(lock);
    }

    /// Regression test: with 74 systemd started the validator again without end.
    #[tokio::test]
    async fn records_of_another_program_are_for_the_operator() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("validator.db");
        std::fs::write(&file, "a file of another program").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let refused = open_records(&Location::File(file)).await.expect_err("it is no database");
        assert!(refused.exit == Exit::Config && refused.message.contains("has no records of assay"), "{refused}");
        let full = RecordsError::File { path: "validator.db".into(), source: io::ErrorKind::StorageFull.into() };
        assert_eq!(unusable(full).exit, Exit::Io);
        let closed = RecordsError::File { path: "validator.db".into(), source: io::ErrorKind::PermissionDenied.into() };
        assert_eq!(unusable(closed).exit, Exit::Config);
    }

    /// Regression test: the validator went on without the task.
    #[tokio::test]
    async fn a_background_task_that_panics_ends_the_validator() {
        let mut tasks = JoinSet::new();
        tasks.spawn(std::future::pending());
        tasks.spawn(async { panic!("for a test") });
        let failure = tokio::time::timeout(Duration::from_secs(10), first_end(&mut tasks)).await.unwrap();
        assert!(failure.exit == Exit::Internal && failure.message.contains("for a test"), "{failure}");
    }

    #[test]
    fn a_key_of_before_is_told_from_one_of_this_start() {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("validator.key");
        assert_eq!(key_age(&key_file, SystemTime::now()), None);
        let file = std::fs::File::create(&key_file).unwrap();
        assert_eq!(key_age(&key_file, SystemTime::now()), None);
        file.set_modified(UNIX_EPOCH + Duration::from_secs(7)).unwrap();
        assert_eq!(key_age(&key_file, SystemTime::now()), Some(7));
    }
}
