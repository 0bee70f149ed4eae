//! `assay-miner devices`.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use assay_backends::registry::{built, cuda_version};
use assay_backends::start::DeviceSelection;
use assay_device::DeviceInfo;
use assay_device::backend::BackendKind;
use assay_device::host::DeviceReport;
use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, print};
use assay_program::render::Screen;
use assay_program::render::units::counted;
use assay_program::shutdown::Signals;
use assay_program::utc;
use assay_protocol::claims::HostClaims;
use assay_protocol::identity::Identity;
use assay_protocol::key_file::KeyFileError;
use assay_protocol::message::MATRIX_SIZES;
use assay_telemetry::HostClaimsError;
use assay_transport::own_key;
use assay_work::PublicKey;
use assay_work::text::printable;
use serde::Serialize;

use crate::cli::DevicesArgs;
use crate::config::MinerConfig;
use crate::driver_disagreements::{Disagreement, disagreements};
use crate::render::devices::{DeviceRow, SlotsThatFit, table};
use crate::render::{hardware, units};
use crate::telemetry;

/// The exit code that a shell reports for a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;
/// The longest time between two readings: an hour.
const MAX_WATCH_S: u32 = 3600;

/// Lists the devices that `run` would use, once or again and again.
///
/// # Errors
/// No device can be had, or standard output.
pub fn execute(config: &MinerConfig, args: &DevicesArgs) -> anyhow::Result<Exit> {
    if !MATRIX_SIZES.contains(&args.n) {
        let message = format!("--n {}: must be a power of two from 256 to 32768", args.n);
        return Err(Failure::new(Exit::Usage, message).into());
    }
    if args.watch.is_some_and(|seconds| !(1..=MAX_WATCH_S).contains(&seconds)) {
        return Err(Failure::new(Exit::Usage, format!("--watch: must be from 1 to {MAX_WATCH_S} seconds")).into());
    }
    // The driver may take seconds to answer, while the devices are opened.
    let sampler = telemetry::start(config.telemetry);
    // Device ids are derived from the key: the one that `run` uses.
    let identity = match Identity::load_or_create(&config.key_file) {
        Err(error @ KeyFileError::File { .. }) => {
            tracing::warn!("{error}; the ids of the devices are not those of run");
            None
        }
        found => Some(found.map_err(own_key::failure)?),
    };
    let key = identity.as_ref().map(Identity::public_key);
    let origin = identity.as_ref().map_or(PublicKey([0; 32]), Identity::origin);
    let chosen = config.devices.open(&origin).map_err(Failure::from)?;
    let off = || Err(HostClaimsError::NoSource("telemetry is off".into()));
    let facts = sampler.as_ref().map_or_else(off, |sampler| sampler.host_claims_within(telemetry::FACTS_LIMIT));
    let host = WatchedHost { key, chosen, facts };
    match args.watch {
        None => {
            let listing = host.list()?;
            // The rows have no place for findings about the host: these go to the log.
            if args.json {
                listing.host_wide().for_each(|told| tracing::warn!("{told}"));
            }
            print(&listing.shown(args, &Screen::stdout())?)?;
        }
        Some(seconds) => {
            watch(Duration::from_secs(seconds.into()), || host.list()?.shown(args, &Screen::stdout()), args)?
        }
    }
    Ok(Exit::Done)
}

/// Shows the devices until a signal comes or the reader closes its end. On a terminal each list takes the place of the
/// one before; elsewhere lists follow each other, JSON with one object a line.
fn watch(
    interval: Duration,
    mut list: impl FnMut() -> anyhow::Result<String>,
    args: &DevicesArgs,
) -> anyhow::Result<()> {
    let asked_to_end = signals()?;
    let in_place =
        !args.json && io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let mut is_first = true;
    loop {
        let text = list()?;
        let shown = if in_place {
            // Clears the screen once, then writes over it: line by line, so that nothing flickers.
            let clear = if is_first { "\x1b[2J" } else { "" };
            let at = utc::text(unix_seconds());
            let every = interval.as_secs();
            format!("{clear}\x1b[Hevery {every} s, {at}; Ctrl-C ends\n{text}").replace('\n', "\x1b[K\n")
                + "\x1b[K\n\x1b[J"
        } else if args.json {
            text + "\n"
        } else {
            let between = if is_first { "" } else { "\n" };
            format!("{between}{}\n{text}\n", utc::text(unix_seconds()))
        };
        is_first = false;
        let mut out = io::stdout().lock();
        match out.write_all(shown.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        drop(out);
        if asked_to_end.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
    }
}

/// Reports the first signal that asks to end; the second one ends the process at once.
fn signals() -> anyhow::Result<mpsc::Receiver<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::new().context("no signal handlers")?
    };
    let (tell, told) = mpsc::channel();
    let wait = move || {
        runtime.block_on(signals.next());
        // The receiver is gone where the command has ended already.
        let _ = tell.send(());
        runtime.block_on(signals.next());
        std::process::exit(INTERRUPTED);
    };
    thread::Builder::new().name("signals".into()).spawn(wait).context("no thread for signals")?;
    Ok(told)
}

/// The host facts that each refresh reads again.
struct WatchedHost {
    /// `None` where it can be neither read nor made.
    key: Option<PublicKey>,
    chosen: DeviceSelection,
    facts: Result<HostClaims, HostClaimsError>,
}

/// The devices at a moment.
struct Listing<'a> {
    of: &'a WatchedHost,
    rows: Vec<DeviceRow>,
    found: Vec<Disagreement>,
    /// A sentence about each device that cannot be used now.
    faults: Vec<String>,
}

#[derive(Serialize)]
struct ListingJson<'a> {
    miner_key: Option<PublicKey>,
    backend: &'a str,
    devices: &'a [DeviceRow],
    /// Facts of the host on which CUDA and NVML differ.
    disagreements: Vec<String>,
}

impl WatchedHost {
    fn list(&self) -> anyhow::Result<Listing<'_>> {
        let reports = self.chosen.host.report(&MATRIX_SIZES)?;
        let known = self.facts.clone().unwrap_or_default();
        // Without facts there is nothing to compare.
        let found = self.facts.as_ref().map_or_else(|_| Vec::new(), |facts| differences(&reports, facts));
        let faults = reports.iter().filter_map(fault).collect();
        let rows = reports.into_iter().map(|report| {
            let id = report.info.id;
            let place = self.chosen.places.get(&id).cloned().unwrap_or_default();
            DeviceRow { index: self.chosen.indices.get(&id).copied(), ..row(report, &known, &found).at(&place) }
        });
        Ok(Listing { of: self, rows: rows.collect(), found, faults })
    }
}

impl Listing<'_> {
    /// Findings about the host, as opposed to those about a device in the list.
    fn host_wide(&self) -> impl Iterator<Item = String> {
        self.found.iter().filter(|found| found.device().is_none()).map(shown)
    }

    fn shown(&self, args: &DevicesArgs, screen: &Screen) -> anyhow::Result<String> {
        if !args.json {
            return Ok(self.text(args, screen));
        }
        let listing = ListingJson {
            miner_key: self.of.key,
            backend: &self.of.chosen.backend,
            devices: &self.rows,
            disagreements: self.host_wide().collect(),
        };
        let one_line = args.watch.is_some();
        Ok(if one_line { serde_json::to_string(&listing)? } else { serde_json::to_string_pretty(&listing)? })
    }

    fn text(&self, args: &DevicesArgs, screen: &Screen) -> String {
        let WatchedHost { key, chosen, facts } = self.of;
        let mut parts = vec![table(&self.rows, args.n, args.wide, screen)];
        parts.extend(self.faults.iter().cloned());
        parts.extend(hardware::table(&self.rows, args.wide, screen));
        parts.extend(args.wide.then(|| units::table(&self.rows, screen)).flatten());
        parts.extend(self.found.iter().map(shown));
        parts.push(format!("backend: {} ({})", chosen.backend, chosen.why));
        let built: Vec<_> = built().map(BackendKind::name).collect();
        parts.push(format!("this build's backends: {}", built.join(", ")));
        parts.push(format!("hardware: {}", summary(facts)));
        parts.extend(key.map(|key| format!("miner key: {key}")));
        parts.join("\n")
    }
}

/// A sentence about a device that cannot be used now.
fn fault(report: &DeviceReport) -> Option<String> {
    report.fault.as_ref().map(|fault| format!("device {} cannot be used now: {fault}", report.info.id))
}

/// One row for each device, with the slots of every matrix size.
fn row(mut report: DeviceReport, facts: &HostClaims, found: &[Disagreement]) -> DeviceRow {
    let id = report.info.id;
    if let Some(fault) = report.fault {
        report.info.detail = format!("cannot be used now: {fault}");
    }
    let slots = MATRIX_SIZES.iter().zip(report.slots).map(|(&n, slots)| SlotsThatFit { n, slots }).collect();
    let disagreements = found.iter().filter(|d| d.device() == Some(id)).map(shown).collect();
    let hardware = facts.of(id).cloned();
    DeviceRow { slots, hardware, disagreements, ..DeviceRow::new(&report.info) }
}

/// Where CUDA and NVML disagree, where there is a device of CUDA's at all: another backend may be chosen on purpose.
fn differences(reports: &[DeviceReport], facts: &HostClaims) -> Vec<Disagreement> {
    let devices: Vec<DeviceInfo> = reports.iter().map(|report| report.info.clone()).collect();
    if devices.iter().all(|device| device.backend != BackendKind::Cuda) {
        Vec::new()
    } else {
        disagreements(&devices, cuda_version(), facts)
    }
}

fn shown(disagreement: &Disagreement) -> String {
    printable(&disagreement.to_string(), usize::MAX)
}

fn summary(facts: &Result<HostClaims, HostClaimsError>) -> String {
    match facts {
        Ok(HostClaims { hardware, .. }) => {
            let count = hardware.iter().filter(|hardware| hardware.counts_as_device()).count();
            let driver = hardware.iter().find_map(|hardware| hardware.driver_version.as_deref()).unwrap_or("unknown");
            format!("NVML has {}, driver {}", counted(count as u64, "device"), printable(driver, usize::MAX))
        }
        Err(error) => error.to_string(),
    }
}
