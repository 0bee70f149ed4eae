//! `assay-miner check`: one line and an exit code for schedulers of clusters.
//!
//! Beside a running miner its status file is read. Without one the devices are opened, by a process of its own: a
//! driver that hangs is left to that process, which is killed when the time is over.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, print};
use assay_program::lock::StateLock;
use assay_protocol::message::MATRIX_SIZES;
use assay_transport::own_key;
use assay_work::PublicKey;
use assay_work::text::quoted;

use crate::cli::CheckArgs;
use crate::config::MinerConfig;
use crate::health::{FoundDevice, HealthFacts, HealthReport, HealthRequirements};
use crate::status::file::{path_of, read, touched};

/// The longest time to check: schedulers ask again long before.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// How often the process that opens the devices is looked at.
const NAP: Duration = Duration::from_millis(10);
/// How long a process that was killed is waited for. One that hangs in a driver stays until the driver lets it go.
const KILL_LIMIT: Duration = Duration::from_millis(200);
/// Bound of the kept output of that process: 64 devices take some KiB.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// Checks this machine, within the time given.
///
/// # Errors
/// Standard output; with `--open`, the devices.
pub fn execute(config: &MinerConfig, args: &CheckArgs) -> anyhow::Result<Exit> {
    let limit = Duration::from(args.timeout);
    if limit > MAX_TIMEOUT {
        return Err(Failure::new(Exit::Usage, "--timeout: at most an hour").into());
    }
    if args.open {
        return open(config, limit);
    }
    let expected = HealthRequirements {
        devices: args.devices,
        min_memory: args.min_memory,
        running: args.running,
        connected: args.validator_connected,
        verdict_within: args.last_verdict_within,
    };
    let (health, exit) = match find(&config.key_file, Instant::now() + limit) {
        Ok(found) => {
            let health = found.judge(&expected, unix_seconds());
            let exit = match (health.healthy, health.is_known) {
                (true, _) => Exit::Done,
                (false, true) => Exit::Fail,
                (false, false) => Exit::Inconclusive,
            };
            (health, exit)
        }
        // A miner that cannot be judged is not healthy, but may be in a minute.
        Err(why) => {
            let health = HealthReport { healthy: false, is_known: false, problems: vec![why], found: Vec::new() };
            (health, Exit::Inconclusive)
        }
    };
    print(&if args.json { serde_json::to_string(&health)? } else { health.line() })?;
    Ok(exit)
}

/// The miner, its status and the devices.
///
/// # Errors
/// Why the devices cannot be had in time.
fn find(key_file: &Path, until: Instant) -> Result<HealthFacts, String> {
    let miner = StateLock::holder(key_file).map(|holder| holder.pid);
    let path = path_of(key_file);
    let status = read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    // The status of an earlier process does not apply to this one.
    let status = status.filter(|status| miner.is_none_or(|miner| miner == status.pid));
    let devices = match &miner {
        Some(_) => status.as_ref().and_then(HealthFacts::devices_of),
        None => Some(devices_by_then(until)?),
    };
    Ok(HealthFacts { miner, status, touched: touched(&path), devices })
}

/// Opens the devices and prints them; drivers may hang in this part of the process.
fn open(config: &MinerConfig, limit: Duration) -> anyhow::Result<Exit> {
    // The parent process may be killed first.
    let end = move || {
        thread::sleep(limit);
        std::process::exit(Exit::Inconclusive as i32);
    };
    thread::Builder::new().name("limit".into()).spawn(end).context("no thread for the limit")?;
    // A check makes no key: whose it would be depends on who checks. Only the ids of devices follow from it.
    let key =
        if config.key_file.exists() { own_key::identity(&config.key_file)?.public_key() } else { PublicKey([0; 32]) };
    let chosen = config.devices.open(&key).map_err(Failure::from)?;
    let device = |report: assay_device::host::DeviceReport| FoundDevice {
        name: report.info.name,
        device_id: report.info.id.to_string(),
        free_bytes: report.info.free_bytes,
        fault: report.fault.map(|fault| fault.to_string()),
    };
    let devices: Vec<_> = chosen.host.report(&MATRIX_SIZES)?.into_iter().map(device).collect();
    print(&serde_json::to_string(&devices)?)?;
    Ok(Exit::Done)
}

/// The devices, opened by this program in another process, with the same flags.
fn devices_by_then(until: Instant) -> Result<Vec<FoundDevice>, String> {
    let mut child = start().map_err(|error| format!("cannot start a process to open the devices: {error}"))?;
    let output = child.stdout.take().map(collect);
    let errors = child.stderr.take().map(collect);
    let status = loop {
        match child.try_wait() {
            // It ended by its own limit, before this one was looked at again.
            Ok(Some(status)) if !status.success() && Instant::now() >= until => return Err(kill(&mut child)),
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => thread::sleep(NAP),
            Ok(None) => return Err(kill(&mut child)),
            Err(error) => return Err(format!("the process that opens the devices is lost: {error}")),
        }
    };
    let text =
        |pipe: Option<Receiver<String>>| pipe.and_then(|pipe| pipe.recv_timeout(KILL_LIMIT).ok()).unwrap_or_default();
    if !status.success() {
        let errors = text(errors);
        let why = errors.lines().rev().find_map(|line| line.strip_prefix("error: ")).unwrap_or("no reason given");
        return Err(format!("the devices cannot be opened: {}", quoted(why)));
    }
    serde_json::from_str(&text(output)).map_err(|error| format!("the devices are not told: {error}"))
}

fn start() -> std::io::Result<Child> {
    let own = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let mut command = Command::new(own);
    command.args(std::env::args_os().skip(1)).arg("--open");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Ends the process, and with it the workers that it started.
fn kill(child: &mut Child) -> String {
    let told = format!("the devices were not open in time: a driver may hang, process {}", child.id());
    let until = Instant::now() + KILL_LIMIT;
    // The process may have ended already, which is as good.
    let _ = child.kill();
    while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(NAP);
    }
    told
}

/// Reads a pipe to its end on a thread, which a process that hangs may hold for ever.
fn collect(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    let read = move || {
        let mut text = String::new();
        // Output that is not UTF-8 does not count as a report.
        let _ = pipe.take(MAX_OUTPUT_BYTES).read_to_string(&mut text);
        let _ = send.send(text);
    };
    // Where no thread can be had, nothing is received.
    let _ = thread::Builder::new().name("pipe".into()).spawn(read);
    receive
}
