//! A load from its first connection to its figures, on a validator of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use assay_protocol::verdict::Outcome;
use assay_records::{Location, Records};
use tempfile::TempDir;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::devices::SharedDevices;
use super::figures::{IdleFigures, LoadedFigures, Percentiles};
use super::miner::{Common, Judged, LoadMiner, Traffic};
use super::page::Watched;
use crate::validator::{Policy, TestValidator};

/// Connections that are made at once.
const DIALLED_AT_ONCE: usize = 64;
/// How long connecting may stand still.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);

/// The parameters of a load on a validator.
#[derive(Debug, Clone)]
pub struct Load {
    pub miners: u32,
    /// Verdicts in a second, over all of them.
    pub verdicts_per_s: f64,
    pub n: u32,
    pub slots: u32,
    pub samples: u32,
    pub segments: u32,
    pub probe_steps: u32,
    /// Challenges that are worked on at once.
    pub devices: usize,
    /// How long it is watched before it is measured.
    pub settle: Duration,
    /// How long it is measured.
    pub time: Duration,
    /// Where the records are; `None`: a file of its own.
    pub records: Option<String>,
    /// Requests to its pages and its API in a second, beside the load.
    pub requests_per_s: f64,
    /// Further flags of the validator.
    pub flags: Vec<String>,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            miners: 2000,
            verdicts_per_s: 200.0,
            n: 1024,
            slots: 3,
            samples: 128,
            segments: 32,
            probe_steps: 8,
            devices: 32,
            settle: Duration::from_secs(5),
            time: Duration::from_secs(30),
            records: None,
            requests_per_s: 0.0,
            flags: Vec::new(),
        }
    }
}

/// A validator with its miners connected.
pub struct Loaded {
    pub validator: TestValidator,
    /// Verdicts as they come to miners.
    pub judged: mpsc::UnboundedReceiver<Judged>,
    /// How long it took until all were connected.
    pub connected_in: Duration,
    /// The validator's memory before the first miner.
    pub empty_bytes: u64,
    traffic: Arc<Traffic>,
    miners: JoinSet<Result<(), String>>,
    location: Location,
    _folder: TempDir,
}

impl Load {
    /// Starts a validator, and connects every miner to it; miners are audited where `audits`.
    ///
    /// # Errors
    /// Why not all came to be connected.
    pub async fn begin(&self, audits: bool) -> Result<Loaded, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let records = self.records.clone().unwrap_or_else(|| folder.path().join("load.db").display().to_string());
        let location: Location = records.parse().map_err(|error| format!("{error}"))?;
        let validator = TestValidator::start(&self.policy(audits, &records)).await;
        let empty_bytes = validator.daemon.memory().now_bytes;
        let memory_bytes = u64::from(self.slots) * u64::from(self.n) * u64::from(self.n);
        // A device needs some memory beside its slots.
        let devices = SharedDevices::new(self.devices, memory_bytes + (64 << 20)).map_err(|error| error.to_string())?;
        let (sender, judged) = mpsc::unbounded_channel();
        let traffic = Arc::new(Traffic::default());
        let common = Common {
            address: validator.address,
            validator_key: validator.key,
            devices,
            memory_bytes,
            traffic: traffic.clone(),
            judged: sender,
        };
        let began = Instant::now();
        let miners = connect(&common, self.miners).await?;
        let connected_in = began.elapsed();
        Ok(Loaded { validator, judged, connected_in, empty_bytes, traffic, miners, location, _folder: folder })
    }

    fn policy(&self, audits: bool, records: &str) -> Policy {
        // The mean of the miners' pauses after a verdict.
        let interval = if audits { (f64::from(self.miners) / self.verdicts_per_s).round().max(1.0) } else { 0.0 };
        let mut flags = vec![
            "--mode=audit".to_owned(),
            "--http-listen=".to_owned(),
            "--replay-locally=false".to_owned(),
            "--log=info".to_owned(),
            "--ping-interval-ms=5000".to_owned(),
            format!("--challenge-interval-s={interval}"),
            format!("--max-miners={}", self.miners.max(256)),
            format!("--records={records}"),
        ];
        flags.extend(self.flags.iter().cloned());
        Policy {
            n: self.n,
            max_matrices: self.slots,
            samples: self.samples,
            segments: self.segments,
            probe_steps: self.probe_steps,
            flags,
            ..Policy::default()
        }
    }

    /// Connects miners that are not audited, and measures their cost.
    pub async fn idle(&self) -> Result<IdleFigures, String> {
        let mut loaded = self.begin(false).await?;
        tokio::time::sleep(self.settle).await;
        let (began, cpu, bytes) = (Instant::now(), loaded.validator.daemon.cpu_time(), loaded.network_bytes());
        tokio::time::sleep(self.time).await;
        let seconds = began.elapsed().as_secs_f64();
        if let Some(lost) = loaded.miners.try_join_next() {
            return Err(format!("a session ended: {lost:?}"));
        }
        let idle_bytes = loaded.validator.daemon.memory().now_bytes;
        Ok(IdleFigures {
            miners: self.miners,
            connect_s: loaded.connected_in.as_secs_f64(),
            empty_bytes: loaded.empty_bytes,
            idle_bytes,
            bytes_per_miner: idle_bytes.saturating_sub(loaded.empty_bytes) / u64::from(self.miners),
            seconds,
            validator_cores: loaded.validator.daemon.cpu_time().saturating_sub(cpu).as_secs_f64() / seconds,
            network_bytes_per_s: (loaded.network_bytes() - bytes) as f64 / seconds,
        })
    }

    /// Connects miners, has them audited, and measures that.
    ///
    /// # Errors
    /// As [`Load::begin`], and records that cannot be read.
    pub async fn audited(&self) -> Result<LoadedFigures, String> {
        let mut loaded = self.begin(true).await?;
        tokio::time::sleep(self.settle).await;
        while loaded.judged.try_recv().is_ok() {}
        let socket = loaded.validator.socket.clone();
        let watched = (self.requests_per_s > 0.0).then(|| Watched::begin(socket, self.requests_per_s));
        let before = Counters::of(&loaded);
        let began = Instant::now();
        tokio::time::sleep(self.time).await;
        let (seconds, after) = (began.elapsed().as_secs_f64(), Counters::of(&loaded));
        let page = match watched {
            Some(watched) => Some(watched.figures().await?),
            None => None,
        };
        let mut judged = Vec::new();
        while let Ok(one) = loaded.judged.try_recv() {
            judged.push(one);
        }
        let not_in_records = loaded.not_in_records(&judged).await?;
        let sessions_lost = std::iter::from_fn(|| loaded.miners.try_join_next()).count() as u32;
        let verdicts = judged.len().max(1) as f64;
        let each = |of: fn(&Counters) -> f64| (of(&after) - of(&before)) / verdicts;
        let memory = loaded.validator.daemon.memory();
        Ok(LoadedFigures {
            miners: self.miners,
            slots: self.slots,
            n: self.n,
            samples: self.samples,
            segments: self.segments,
            probe_steps: self.probe_steps,
            seconds,
            outcomes: outcomes(&judged),
            verdicts_per_s: judged.len() as f64 / seconds,
            asked_per_s: self.verdicts_per_s,
            since_commitment: Percentiles::of(judged.iter().filter_map(|judged| judged.since_commitment)),
            since_openings: Percentiles::of(judged.iter().filter_map(|judged| judged.since_openings)),
            validator_ms_per_verdict: each(|it| it.validator_s) * 1e3,
            generator_ms_per_verdict: each(|it| it.generator_s) * 1e3,
            validator_cores: (after.validator_s - before.validator_s) / seconds,
            generator_cores: (after.generator_s - before.generator_s) / seconds,
            resident_bytes: memory.now_bytes,
            peak_bytes: memory.peak_bytes,
            records_bytes_per_verdict: each(|it| it.records_bytes),
            written_bytes_per_verdict: each(|it| it.written_bytes),
            sent_bytes_per_verdict: each(|it| it.sent_bytes),
            received_bytes_per_verdict: each(|it| it.received_bytes),
            sessions_lost,
            not_in_records,
            page,
        })
    }
}

/// Connects `count` miners, and waits until the validator has accepted all.
async fn connect(common: &Common, count: u32) -> Result<JoinSet<Result<(), String>>, String> {
    let (established, mut standing) = mpsc::unbounded_channel();
    let (mut miners, at_once) = (JoinSet::new(), Arc::new(Semaphore::new(DIALLED_AT_ONCE)));
    for number in 0..count {
        let place = at_once.clone().acquire_owned().await.map_err(|error| error.to_string())?;
        let (miner, established) = (LoadMiner::new(common.clone(), number), established.clone());
        miners.spawn(async move {
            let (own, mut stands) = mpsc::unbounded_channel();
            tokio::spawn(async move {
                // One that did not come to stand gives its place too.
                if let Some(number) = stands.recv().await {
                    let _ = established.send(number);
                }
                drop(place);
            });
            miner.run(own).await
        });
    }
    drop(established);
    for connected in 0..count {
        tokio::select! {
            stands = tokio::time::timeout(CONNECT_LIMIT, standing.recv()) => {
                stands.map_err(|_| format!("only {connected} of {count} miners came to be connected"))?;
            }
            Some(ended) = miners.join_next() => return Err(format!("a session ended: {ended:?}")),
        }
    }
    Ok(miners)
}

impl Loaded {
    fn network_bytes(&self) -> u64 {
        self.traffic.sent.load(Ordering::Relaxed) + self.traffic.received.load(Ordering::Relaxed)
    }

    /// The records that the validator writes, to read.
    pub async fn records(&self) -> Result<Records, String> {
        Records::open(&self.location).await.map_err(|error| error.to_string())
    }

    /// How many of these verdicts the records do not have.
    async fn not_in_records(&self, judged: &[Judged]) -> Result<u32, String> {
        let records = self.records().await?;
        let mut missing = 0;
        for one in judged {
            let found = records.verdict(&one.challenge.to_string()).await.map_err(|error| error.to_string())?;
            missing += u32::from(found.is_none());
        }
        records.close().await;
        Ok(missing)
    }
}

fn outcomes(judged: &[Judged]) -> BTreeMap<String, u32> {
    let mut outcomes = BTreeMap::new();
    for one in judged {
        let name = match (one.outcome, one.reason) {
            (Outcome::Pass, _) => "pass".to_owned(),
            (outcome, reason) => format!("{outcome}: {}", reason.unwrap_or("no reason")),
        };
        *outcomes.entry(name).or_insert(0) += 1;
    }
    outcomes
}

struct Counters {
    validator_s: f64,
    generator_s: f64,
    records_bytes: f64,
    written_bytes: f64,
    sent_bytes: f64,
    received_bytes: f64,
}

impl Counters {
    fn of(loaded: &Loaded) -> Self {
        let process = loaded.validator.daemon.id();
        Self {
            validator_s: loaded.validator.daemon.cpu_time().as_secs_f64(),
            generator_s: own_cpu_time().as_secs_f64(),
            records_bytes: records_bytes(&loaded.location) as f64,
            written_bytes: written_bytes(process) as f64,
            sent_bytes: loaded.traffic.sent.load(Ordering::Relaxed) as f64,
            received_bytes: loaded.traffic.received.load(Ordering::Relaxed) as f64,
        }
    }
}

/// The time of this process's threads on cores.
fn own_cpu_time() -> Duration {
    let seconds = |time: rustix::time::Timespec| Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32);
    seconds(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime))
}

/// The file of the records and its log; nothing is known of a server's.
fn records_bytes(location: &Location) -> u64 {
    let Location::File(path) = location else { return 0 };
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    bytes(path) + bytes(&path.with_extension("db-wal"))
}

fn written_bytes(process: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    written.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}
