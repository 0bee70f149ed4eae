//! `assay-miner run`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use assay_backends::BackendChoice;
use assay_device::backend::BackendKind;
use assay_observe::{ChallengeSpan, Traces, places, trace_id};
use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, chain, of_file_error};
use assay_program::lock::StateLock;
use assay_program::logging::quota::Quota;
use assay_program::manager::ServiceManager;
use assay_program::reload::Hangups;
use assay_program::render::units;
use assay_program::shutdown::Shutdown;
use assay_program::utc;
use assay_protocol::identity::Identity;
use assay_protocol::message::Stop;
use assay_protocol::verdict::{Outcome, Verdict};
use assay_transport::own_key;
use assay_work::text::quoted;
use assay_work::{Challenge, ChallengeId, ProbeStage, PublicKey};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::config::MinerConfig;
use crate::connection::{ConnectionError, Dial, serve};
use crate::driver::{ChallengePart, CompletedPart, Observer};
use crate::engine::Engine;
use crate::joining::{ENV_TOKEN, PendingJoinToken};
use crate::limits::SharedLimits;
use crate::metrics::MinerMetrics;
use crate::metrics_endpoint::{self, MetricsAddress};
use crate::reach::{self, Reach};
use crate::receipt::ReceiptFile;
use crate::reload::{MinerReloader, SettingsResolver};
use crate::status::file::{StatusWriter, path_of, read};
use crate::status::{DeviceWatch, MAX_REASONS, StatusBoard, VerdictStatus};
use crate::telemetry;
use crate::turns::Turns;

/// How long the collector of traces may take to have the last spans.
const TRACES_LIMIT: Duration = Duration::from_secs(2);
/// Lines about one validator's challenges in [`LINES_WINDOW`] that are logged: a validator that sends challenges and
/// verdicts without end does not fill a disk. A challenge takes about ten.
const MAX_LINES: u32 = 300;
/// Receipts of one validator in [`LINES_WINDOW`] that are kept though their challenge did not run here.
const MAX_OTHER_RECEIPTS: u32 = 20;
/// The time in which [`MAX_LINES`] lines are logged.
const LINES_WINDOW: Duration = Duration::from_secs(60);

/// Serves the validators until a signal, then drains. `resolve` reads the settings again on SIGHUP.
///
/// # Errors
/// Fails where the key, another miner with the same key, or the devices keep the miner from starting.
pub fn execute(config: &MinerConfig, resolve: SettingsResolver) -> anyhow::Result<Exit> {
    let had_key = config.key_file.exists();
    let variable = std::env::var(ENV_TOKEN).ok();
    // Before the key is made: a first start without its token is a first start once more.
    let joining = PendingJoinToken::take(config.join_token_file.as_deref(), variable.as_deref(), had_key)
        .map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    let identity = own_key::identity(&config.key_file)?;
    let key = identity.public_key();
    let _lock = StateLock::acquire(&config.key_file, &key.to_string()).map_err(Failure::from)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    // From now on, while the devices are opened too, SIGHUP does not end the miner.
    let hangups = runtime.block_on(async { Hangups::new() }).context("no signal handlers")?;
    let limits = SharedLimits::new(config.limits.clone());
    let manager = ServiceManager::of_process();
    let reloader = MinerReloader::new(resolve, limits.clone(), manager.clone())?;
    let reloading = runtime.spawn(reloader.run(hangups));
    let board = StatusBoard::new(&key, &addresses(config), limits.clone());
    let (shown, status_file) = (board.clone(), path_of(&config.key_file));
    // One that cannot be read is written anew.
    if let Ok(Some(earlier)) = read(&status_file) {
        board.recall(earlier);
    }
    let _status = StatusWriter::start(status_file, move || shown.get()).context("no thread for status")?;
    manager.status("opening the devices");
    let result = serve_with(config, (identity, joining), limits, &runtime, &board, &manager);
    if let Err(error) = &result {
        board.ended(&chain(error.as_ref()));
    }
    reloading.abort();
    // Without a wait for a driver that does not answer.
    runtime.shutdown_background();
    result
}

fn serve_with(
    config: &MinerConfig,
    (identity, joining): (Identity, PendingJoinToken),
    limits: SharedLimits,
    runtime: &Runtime,
    board: &StatusBoard,
    manager: &ServiceManager,
) -> anyhow::Result<Exit> {
    let key = identity.public_key();
    // Devices take long to open: a file that cannot be used is found before.
    let reaches = reach::each(config).map_err(|error| Failure::new(of_file_error(&error), error.to_string()))?;
    // Before the devices: where no daemon of the driver does, its library keeps GPUs initialised between their workers.
    let sampler = telemetry::start(config.telemetry);
    let chosen = config.devices.open(&identity.origin()).map_err(Failure::from)?;
    let devices = chosen.host.len();
    let mut engine = Engine::new(chosen.host, identity.clone()).limited_by(limits.clone());
    let offered_bytes = engine.inventory(0).map(|offered| offered.devices.iter().map(|device| device.free_bytes).sum());
    match fallen_back(&config.devices.unseeded.choice, (&chosen.backend, &chosen.why), offered_bytes.unwrap_or(0)) {
        Some(warning) => tracing::warn!(%key, backend = chosen.backend, devices, "{warning}"),
        None => tracing::info!(%key, backend = chosen.backend, devices, "devices: {}", chosen.why),
    }
    if let Some(sampler) = sampler {
        telemetry::announce(&sampler);
        engine = engine.watched_by(sampler);
    }
    let engine = Arc::new(engine);
    let receipts = ReceiptFile::beside(&config.key_file);
    board.watch(DeviceWatch { engine: engine.clone(), workers: chosen.workers, indices: chosen.indices });
    let metrics = MinerMetrics::new()?;
    if let Some(VerdictStatus { outcome, at, .. }) = board.get().last_verdict {
        metrics.families.recall(&outcome, at);
    }
    if let Some(address) = &config.metrics {
        engine.watch_always().context("the devices do not answer")?;
        serve_metrics(address, runtime, &metrics, board)?;
    }
    let traces = runtime.block_on(async { traces(config, &metrics) })?;
    let watch = SessionTelemetry { metrics, traces };
    let turns = Turns::default();
    let dial = |(number, reach): (usize, Reach)| Dial {
        reach,
        identity: identity.clone(),
        // A token is of one validator: another one could use it in this miner's place.
        joining: if number == 0 { joining.clone() } else { PendingJoinToken::default() },
        idle_release: config.idle_release,
        backoff: config.reconnect,
        limits: limits.clone(),
        turns: turns.of(number),
    };
    let dials: Vec<_> = reaches.into_iter().enumerate().map(dial).collect();
    let cut_short = runtime.block_on(async {
        let shutdown = Shutdown::on_signals(config.drain_timeout).context("no signal handlers")?;
        manager.ready(format_args!("connecting to {}", addresses(config).join(", ")));
        let cut_short = tokio::select! {
            served = serve_each(dials, &engine, &shutdown, board, (&receipts, &watch)) => served?,
            never = manager.attend(shutdown.clone(), || board.get().in_a_line()) => match never {},
        };
        manager.stopping();
        watch.traces.finish(TRACES_LIMIT).await;
        Ok::<_, anyhow::Error>(cut_short.filter(|_| shutdown.was_cut_short()))
    })?;
    Ok(ended(cut_short, board))
}

/// The warning for the operator where no GPU can be used and the processor takes its place, perhaps by mistake.
fn fallen_back(choice: &BackendChoice, (backend, why): (&str, &str), offered_bytes: u64) -> Option<String> {
    let why =
        why.strip_prefix("auto; ").filter(|_| *choice == BackendChoice::Auto && backend == BackendKind::Cpu.name())?;
    let memory = units::gib(offered_bytes);
    Some(format!(
        "no GPU can be used: the processor attests in its place, and challenges fill up to {memory} GiB of this host's memory. \
         Where that is meant, set backend = cpu (and cpu_memory); else: {why}"
    ))
}

/// Serves the page of metrics beside everything else.
fn serve_metrics(
    address: &MetricsAddress,
    runtime: &Runtime,
    metrics: &Arc<MinerMetrics>,
    board: &StatusBoard,
) -> anyhow::Result<()> {
    let bound = runtime.block_on(address.bind());
    let (listener, bound) = bound.map_err(|error| {
        Failure::new(Exit::Io, format!("metrics_listen: cannot listen on {address}: {error}: give another"))
    })?;
    tracing::info!(address = %bound, "metrics are served at http://{bound}/metrics");
    let (metrics, board) = (metrics.clone(), board.clone());
    runtime.spawn(metrics_endpoint::serve(listener, Arc::new(move || metrics.page(&board))));
    Ok(())
}

/// Where spans go, where they are wanted. Called in the runtime.
fn traces(config: &MinerConfig, metrics: &MinerMetrics) -> anyhow::Result<Traces> {
    let Some(endpoint) = &config.traces else { return Ok(Traces::off()) };
    // This run: a process id comes again.
    let instance = format!("{}-{}", std::process::id(), unix_seconds());
    let spans = &metrics.families.trace_spans_total;
    let traces = Traces::start(endpoint, "assay-miner", env!("CARGO_PKG_VERSION"), instance, spans);
    Ok(traces.map_err(|error| Failure::new(Exit::Config, error.to_string()))?)
}

/// Serves each validator in a session of its own, until all have ended; gives the challenge that was under way then. An
/// end that only an operator can resolve does not disturb the other sessions.
async fn serve_each(
    dials: Vec<Dial>,
    engine: &Arc<Engine>,
    shutdown: &Shutdown,
    board: &StatusBoard,
    (receipts, watch): (&ReceiptFile, &SessionTelemetry),
) -> anyhow::Result<Option<ChallengeId>> {
    let is_only_one = dials.len() == 1;
    let mut sessions = JoinSet::new();
    for (number, dial) in dials.into_iter().enumerate() {
        let address = dial.reach.address().to_string();
        let validator = (!is_only_one).then(|| address.clone());
        let mut log = SessionLog::new(board.of(number), receipts.clone(), validator, watch.clone());
        let (engine, shutdown) = (engine.clone(), shutdown.clone());
        sessions.spawn(async move {
            let served = serve(dial, engine, shutdown, &mut log).await;
            (served, log, address)
        });
    }
    let (mut has_drained, mut cut_short, mut failed) = (false, None, Vec::new());
    while let Some(session) = sessions.join_next().await {
        let (served, mut log, address) = session.context("a session failed")?;
        let running = log.challenge;
        log.lose_verdict();
        match served {
            Ok(()) => {
                has_drained = true;
                cut_short = cut_short.or(running);
            }
            Err(error @ (ConnectionError::Operator(_) | ConnectionError::Untrusted(_))) => {
                if !is_only_one {
                    tracing::error!(validator = address, "not served any more: {}", chain(&error));
                }
                log.board.not_served(&chain(&error));
                failed.push((address, error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    match failed.into_iter().next() {
        Some((address, error)) if !has_drained => {
            let what = if is_only_one {
                "the miner cannot serve this validator".to_owned()
            } else {
                format!("the miner can serve none of its validators; {address}, the first that ended")
            };
            Err(Failure::because(Exit::Config, what, error).into())
        }
        _ => Ok(cut_short),
    }
}

fn addresses(config: &MinerConfig) -> Vec<String> {
    config.validators.iter().map(|validator| validator.target.to_string()).collect()
}

/// The exit code of a miner that was asked to stop, and broke off this challenge.
fn ended(cut_short: Option<ChallengeId>, board: &StatusBoard) -> Exit {
    match cut_short {
        None => {
            tracing::info!("drained");
            board.ended("drained");
            Exit::Done
        }
        Some(challenge) => {
            tracing::warn!(%challenge, "stopped before it was drained: the challenge was broken off");
            board.ended("stopped before it was drained");
            Exit::CutShort
        }
    }
}

/// The metrics, and the destination of spans.
#[derive(Clone)]
struct SessionTelemetry {
    metrics: Arc<MinerMetrics>,
    traces: Traces,
}

/// Shows a session in the log, and notes it for `status`.
struct SessionLog {
    board: StatusBoard,
    watch: SessionTelemetry,
    receipts: ReceiptFile,
    /// The validator's address, where there are several validators.
    validator: Option<String>,
    /// The challenge that is under way.
    challenge: Option<ChallengeId>,
    all_slots: u64,
    since: Option<Instant>,
    /// Of the lines about challenges.
    quota: Quota,
    /// Of the receipts of challenges that did not run here, as of declined ones: each is written to the disk.
    other_receipts: Quota,
}

impl SessionLog {
    const fn new(
        board: StatusBoard,
        receipts: ReceiptFile,
        validator: Option<String>,
        watch: SessionTelemetry,
    ) -> Self {
        let quota = Quota::new(MAX_LINES, LINES_WINDOW);
        let other_receipts = Quota::new(MAX_OTHER_RECEIPTS, LINES_WINDOW);
        Self { board, watch, receipts, validator, challenge: None, all_slots: 0, since: None, quota, other_receipts }
    }

    /// Whether to log another line about a challenge.
    fn may_log(&mut self) -> bool {
        let (may_log, left_out) = self.quota.take(Instant::now());
        self.report_left_out(left_out);
        may_log
    }

    fn report_left_out(&self, lines: u64) {
        if lines > 0 {
            let validator = self.validator.as_deref();
            tracing::warn!(validator, "{lines} lines about the validator's challenges were left out");
        }
    }

    /// The reasons of a verdict that is no pass, a line each.
    fn log_reasons(&mut self, verdict: &Verdict, seconds: Option<f64>) {
        let (challenge, outcome) = (verdict.challenge_id, verdict.outcome);
        let trace_id = trace_id(challenge);
        for reason in verdict.reasons.iter().take(MAX_REASONS) {
            if self.may_log() {
                let (code, class) = (reason.code.name(), reason.code.class().name());
                let (detail, validator) = (quoted(&reason.detail), self.validator.as_deref());
                tracing::warn!(%challenge, trace_id, validator, code, class, seconds, "verdict: {outcome}: {detail}");
            }
        }
        let more = verdict.reasons.len().saturating_sub(MAX_REASONS);
        if more > 0 && self.may_log() {
            tracing::warn!(%challenge, trace_id, validator = self.validator.as_deref(), "verdict: {outcome}: {more} more reasons");
        }
    }

    /// The verdict on a challenge that a lost connection took with it does not come.
    fn lose_verdict(&mut self) {
        if let Some(challenge) = self.challenge.take() {
            self.board.lost_verdict(challenge);
        }
    }

    fn seconds(&self) -> f64 {
        (self.since.map_or(0.0, |since| since.elapsed().as_secs_f64()) * 1000.0).round() / 1000.0
    }
}

impl Drop for SessionLog {
    fn drop(&mut self) {
        let left_out = self.quota.left_out();
        self.report_left_out(left_out);
    }
}

impl Observer for SessionLog {
    fn established(&mut self, validator_key: PublicKey) {
        self.lose_verdict();
        self.board.connected(&validator_key);
        let address = self.validator.as_deref();
        tracing::info!(validator = %validator_key, address, "connected: waiting for challenges");
    }

    fn followed(&mut self, pinned: PublicKey, until_unix_seconds: u64) {
        let until = utc::text(until_unix_seconds);
        tracing::warn!(
            %pinned, until,
            "the validator has a new key, which its old one vouches for: put the new one in this miner's settings by then"
        );
    }

    fn disconnected(&mut self, why: &str, again_in: Duration) {
        self.board.disconnected(why, again_in);
        self.lose_verdict();
        let validator = self.validator.as_deref();
        tracing::info!(validator, "connecting again in {:.1} s", again_in.as_secs_f64());
    }

    fn challenged(&mut self, challenge: &Challenge) {
        self.challenge = Some(challenge.id());
        self.all_slots = challenge.filled_slots();
        self.since = Some(Instant::now());
        self.board.challenged(challenge);
        self.watch.metrics.families.started();
        if !self.may_log() {
            return;
        }
        tracing::info!(
            challenge = %challenge.id(), trace_id = trace_id(challenge.id()), validator = self.validator.as_deref(), n = challenge.n(), iterations = challenge.iterations(),
            devices = challenge.shares().len(), slots = challenge.slots(), "working"
        );
    }

    fn progress(&mut self, done_slots: u64) {
        self.board.progress(done_slots);
        tracing::debug!("{done_slots} of {} slots", self.all_slots);
    }

    fn part_began(&mut self, part: ChallengePart) {
        let (name, about) = part.about();
        self.board.stage(name);
        if !self.may_log() {
            return;
        }
        let (challenge, trace_id) = (self.challenge.map(tracing::field::display), self.challenge.and_then(trace_id));
        let validator = self.validator.as_deref();
        tracing::info!(challenge, trace_id, validator, seconds = self.seconds(), "{about}");
    }

    fn stopped(&mut self, stop: &Stop) {
        self.board.stopped(stop);
        self.watch.metrics.families.stopped(stop);
        if !self.may_log() {
            return;
        }
        let trace_id = trace_id(stop.challenge_id);
        let (challenge, validator) = (stop.challenge_id, self.validator.as_deref());
        if self.challenge == Some(challenge) {
            let seconds = self.seconds();
            tracing::warn!(%challenge, trace_id, validator, code = ?stop.code, seconds, "broke the challenge off: {}", stop.detail);
        } else {
            tracing::info!(%challenge, trace_id, validator, code = ?stop.code, "declined a challenge: {}", stop.detail);
        }
    }

    fn released(&mut self) {
        self.board.released();
    }

    fn part_ended(&mut self, ended: &CompletedPart<'_>) {
        let CompletedPart { challenge, part, began, devices, error } = ended;
        let (challenge, began, now) = (*challenge, *began, Instant::now());
        self.watch.metrics.families.part(*part, now.saturating_duration_since(began), error.is_some());
        let place = match part {
            ChallengePart::Fill => &places::FILL,
            ChallengePart::Probe(ProbeStage::Own) => &places::WALK,
            ChallengePart::Probe(ProbeStage::Linked) => &places::LINKED_WALK,
            ChallengePart::Probe(ProbeStage::Sweep) => &places::SUM,
            ChallengePart::Open => &places::OPEN,
        };
        let traces = &self.watch.traces;
        traces.add(|| {
            let span = ChallengeSpan::new(challenge, place, began, now);
            match error {
                Some(error) => span.failed(&error.to_string()),
                None => span.ok(),
            }
        });
        for (device, took) in (0..).zip(devices) {
            traces.add(|| ChallengeSpan::new(challenge, place, began, now.min(began + *took)).of_device(device));
        }
    }

    fn verdict(&mut self, verdict: &Verdict) {
        // A verdict of another challenge leaves the running one as it is.
        let is_own = self.challenge.take_if(|running| *running == verdict.challenge_id).is_some();
        let seconds = is_own.then(|| self.seconds());
        self.board.verdict(verdict);
        self.watch.metrics.families.verdict(verdict, unix_seconds());
        if let Some(token) = &verdict.receipt
            && (is_own || self.other_receipts.take(Instant::now()).0)
        {
            self.receipts.keep(token);
        }
        if verdict.outcome != Outcome::Pass {
            self.log_reasons(verdict, seconds);
        } else if self.may_log() {
            let validator = self.validator.as_deref();
            let (challenge, tops) = (verdict.challenge_id, (verdict.whole.tops * 1000.0).round() / 1000.0);
            tracing::info!(%challenge, trace_id = trace_id(challenge), validator, tops, seconds, "verdict: pass");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use assay_protocol::message::StopCode;
    use assay_protocol::wire::v1;

    use super::*;

    #[test]
    fn a_processor_in_the_place_of_gpus_is_warned_of() {
        let why = "auto; cuda: no NVIDIA driver: install one; wgpu: it has no device";
        let said = fallen_back(&BackendChoice::Auto, ("cpu", why), 15 << 30).unwrap();
        assert!(said.contains("no GPU can be used") && said.contains("up to 15.0 GiB"), "{said}");
        assert!(said.ends_with("cuda: no NVIDIA driver: install one; wgpu: it has no device"), "{said}");
        // It was asked for, GPUs are used, or this build has nothing else.
        assert_eq!(fallen_back(&BackendChoice::only(BackendKind::Cpu), ("cpu", "as set by backend"), 1), None);
        assert_eq!(fallen_back(&BackendChoice::Auto, ("cuda", "auto; wgpu: it has no device"), 1), None);
        assert_eq!(fallen_back(&BackendChoice::Auto, ("cpu", "auto: all that this build can use"), 1), None);
    }

    thread_local! {
        /// The lines that this thread has logged.
        static LINES: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts the lines of each thread.
    struct LineCounter;

    impl tracing::Subscriber for LineCounter {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.is_event()
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
            tracing::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

        fn event(&self, _: &tracing::Event<'_>) {
            LINES.set(LINES.get() + 1);
        }

        fn enter(&self, _: &tracing::Id) {}

        fn exit(&self, _: &tracing::Id) {}
    }

    /// The number of lines that are logged meanwhile.
    fn lines_of(work: impl FnOnce()) -> usize {
        // For the process: with one for a thread alone, another test's thread can turn the same lines off.
        if tracing::subscriber::set_global_default(LineCounter).is_ok() {
            tracing::callsite::rebuild_interest_cache();
        }
        let before = LINES.get();
        work();
        LINES.get() - before
    }

    fn session_log(folder: &std::path::Path) -> SessionLog {
        let board = StatusBoard::new(&PublicKey([7; 32]), &["a:1".to_owned()], SharedLimits::default());
        let watch = SessionTelemetry { metrics: MinerMetrics::new().unwrap(), traces: Traces::off() };
        SessionLog::new(board, ReceiptFile::beside(&folder.join("miner.key")), None, watch)
    }

    /// A failed one with this number of reasons, as a validator can send at any time.
    fn failed(challenge: u8, reasons: usize) -> Verdict {
        let reason = v1::Reason { code: "protocol".into(), class: "forged".into(), ..v1::Reason::default() };
        let verdict = v1::Verdict {
            challenge_id: vec![challenge; 16],
            miner_key: vec![2; 32],
            validator_key: vec![3; 32],
            outcome: v1::Outcome::Fail.into(),
            reasons: vec![reason; reasons],
            whole: Some(v1::Work::default()),
            receipt: Some(format!("receipt-{challenge}")),
            ..v1::Verdict::default()
        };
        verdict.try_into().unwrap()
    }

    #[test]
    fn a_validator_fills_no_disk_with_verdicts_and_declined_challenges() {
        let folder = tempfile::tempdir().unwrap();
        let most_of_one = lines_of(|| session_log(folder.path()).verdict(&failed(1, 256)));
        assert_eq!(most_of_one, MAX_REASONS + 1, "the last line has the number of the others");
        let verdicts = lines_of(|| {
            let mut log = session_log(folder.path());
            (0..10_000).for_each(|_| log.verdict(&failed(1, 256)));
        });
        assert_eq!(verdicts, MAX_LINES as usize + 1, "and one with the number of those left out");
        let stop = Stop { challenge_id: ChallengeId([1; 16]), code: StopCode::Busy, detail: String::new() };
        let declined = lines_of(|| {
            let mut log = session_log(folder.path());
            (0..10_000).for_each(|_| log.stopped(&stop));
        });
        assert_eq!(declined, MAX_LINES as usize + 1);
    }

    /// A validator may send a verdict of any challenge at any time.
    #[test]
    fn a_verdict_of_another_challenge_leaves_the_running_one_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = session_log(folder.path());
        let running = ChallengeId([2; 16]);
        log.challenge = Some(running);
        log.verdict(&failed(1, 1));
        assert_eq!(log.challenge, Some(running), "a stop still cuts it short");
        log.verdict(&failed(2, 1));
        assert_eq!(log.challenge, None);
    }

    #[test]
    fn receipts_of_challenges_that_did_not_run_are_kept_within_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let file = crate::receipt::path_of(&folder.path().join("miner.key"));
        let kept = || crate::receipt::read(&file).unwrap().unwrap();
        let mut log = session_log(folder.path());
        for challenge in 1..=MAX_OTHER_RECEIPTS as u8 + 9 {
            log.verdict(&failed(challenge, 1));
        }
        assert_eq!(kept(), format!("receipt-{MAX_OTHER_RECEIPTS}"));
        log.challenge = Some(ChallengeId([200; 16]));
        log.verdict(&failed(200, 1));
        assert_eq!(kept(), "receipt-200", "that of the challenge that ran is kept always");
    }
}
