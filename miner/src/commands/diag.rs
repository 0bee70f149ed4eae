//! `assay-miner diag`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use assay_device::DeviceError;
use assay_diag::{DiagPlan, DiagReport, Seed, Severity, StopRequest, TestLimits, chart};
use assay_program::exit::{Exit, Failure, print_document};
use assay_program::file;
use assay_program::render::Screen;
use assay_program::shutdown::Shutdown;
use assay_protocol::message::MATRIX_SIZES;
use assay_protocol::verdict::Outcome;
use assay_telemetry::{NoSensors, SensorWatch};
use assay_transport::own_key;

use crate::cli::{DiagArgs, Gravity};
use crate::config::MinerConfig;
use crate::telemetry;

/// How long a lost device is waited for: a worker that fails is started again after 1, 2, 4, … s.
const COMEBACK: Duration = Duration::from_secs(30);
/// Without a timeout only a second signal ends a run that the first one has not ended.
const NO_TIMEOUT: Duration = Duration::from_secs(365 * 86_400);

/// Burns the devices in, and reports.
///
/// # Errors
/// No device can be had, or standard output.
pub fn execute(config: &MinerConfig, args: &DiagArgs) -> anyhow::Result<Exit> {
    let plan = plan(args)?;
    args.svg.as_deref().map_or(Ok(()), file::check_writable)?;
    let asked = on_signals()?;
    // The driver may take seconds to answer, while the devices are opened.
    let sampler = telemetry::start(config.telemetry);
    let key = own_key::identity(&config.key_file)?.origin();
    super::warn_of_a_running_miner(config);
    let chosen = config.devices.open(&key).map_err(Failure::from)?;
    let sensors: Arc<dyn SensorWatch> = match sampler {
        Some(sampler) => {
            telemetry::announce(&sampler);
            Arc::new(sampler)
        }
        None => Arc::new(NoSensors),
    };
    let ended = assay_diag::run(&chosen.host, plan, sensors, &*asked)?;
    let report = DiagReport::new(super::PROGRAM.to_owned(), &ended, &chosen.unusable);
    if ended.hangs {
        // Its thread would be waited for; the process that drives the device ends with this one.
        std::mem::forget(chosen);
    }
    show(&report, args)
}

fn show(report: &DiagReport, args: &DiagArgs) -> anyhow::Result<Exit> {
    print_document(report, args.json, || report.text(&Screen::stdout()))?;
    if let Some(path) = &args.svg {
        match chart::draw(report) {
            Ok(chart) => std::fs::write(path, chart).with_context(|| format!("cannot write {}", path.display()))?,
            Err(error) => tracing::warn!("{}: {error}", path.display()),
        }
    }
    Ok(match report.verdict {
        Outcome::Pass => Exit::Done,
        Outcome::Fail => Exit::Fail,
        Outcome::Inconclusive => Exit::Inconclusive,
    })
}

fn plan(args: &DiagArgs) -> anyhow::Result<DiagPlan> {
    let wrong = |message: String| Failure::new(Exit::Usage, message);
    if let Some(n) = args.n.filter(|n| !MATRIX_SIZES.contains(n)) {
        return Err(wrong(format!("--n {n}: must be a power of two from 256 to 32768")).into());
    }
    let is_wrong = |value: &f64| !(value.is_finite() && *value > 0.0);
    if let Some(percent) = args.max_drift_percent.filter(is_wrong) {
        return Err(wrong(format!("--max-drift-percent {percent}: must be above 0")).into());
    }
    if let Some(tops) = args.min_tops.filter(is_wrong) {
        return Err(wrong(format!("--min-tops {tops}: must be above 0")).into());
    }
    let seed = match args.seed {
        Some(seed) => seed,
        None => Seed::random().map_err(|error| DeviceError::Lost(format!("no random seed: {error}")))?,
    };
    Ok(DiagPlan {
        time: Duration::from_secs(u64::from(args.minutes) * 60),
        rounds: args.rounds,
        n: args.n,
        share_percent: args.share,
        samples: args.samples,
        kernels: (!args.kernels.is_empty()).then(|| args.kernels.clone()),
        seed,
        stall: Duration::from_secs(args.stall_s),
        comeback: COMEBACK,
        limits: TestLimits {
            max_drift_percent: args.max_drift_percent,
            min_tops: args.min_tops,
            on_throttle: severity(args.on_throttle),
            on_corrected: severity(args.on_corrected_ecc),
        },
    })
}

const fn severity(gravity: Gravity) -> Severity {
    match gravity {
        Gravity::Warn => Severity::Warn,
        Gravity::Fail => Severity::Fail,
    }
}

/// Takes signals from now on: the first one ends the run with a report, a second one ends it at once.
fn on_signals() -> anyhow::Result<Box<dyn Fn() -> StopRequest>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("signals")?;
    let heard = Arc::new(AtomicU8::new(0));
    let (ready, is_ready) = sync_channel(1);
    let hears = heard.clone();
    let listen = async move {
        let listening = Shutdown::on_signals(NO_TIMEOUT);
        let mut shutdown = match listening {
            Ok(shutdown) => shutdown,
            Err(error) => return drop(ready.send(Err(error))),
        };
        // The receiver waits until this is sent.
        let _ = ready.send(Ok(()));
        shutdown.draining().await;
        hears.store(1, Ordering::Relaxed);
        shutdown.stopped().await;
        hears.store(2, Ordering::Relaxed);
    };
    thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(listen)).context("signals")?;
    is_ready.recv().context("signals")?.context("signals")?;
    Ok(Box::new(move || match heard.load(Ordering::Relaxed) {
        0 => StopRequest::Nothing,
        1 => StopRequest::End,
        _ => StopRequest::EndAtOnce,
    }))
}
