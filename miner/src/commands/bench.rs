//! `assay-miner bench`.

use assay_backends::HostConfig;
use assay_backends::choice::BackendChoice;
use assay_backends::filter::DeviceFilter;
use assay_backends::registry::replace_ptx;
use assay_bench::link::{self, LinkBenchError, LinkPlan};
use assay_bench::{BenchPlan, BenchReport, chart};
use assay_device::backend::BackendKind;
use assay_program::exit::{Exit, Failure, print_document};
use assay_program::file;
use assay_program::render::Screen;
use assay_protocol::message::MATRIX_SIZES;
use assay_transport::own_key;
use assay_work::Precision;

use crate::cli::BenchArgs;
use crate::config::MinerConfig;

/// The sizes measured when none is named.
const DEFAULT_SIZES: std::ops::RangeInclusive<u32> = 1024..=16384;
/// The size at which operations are measured when none is named.
const OPERATIONS_SIZE: u32 = 2048;
/// The size at which linked devices are measured when none is named.
const DEFAULT_LINK_SIZE: u32 = 1024;
/// The most rounds: more say nothing new.
const MAX_ROUNDS: u32 = 1000;
/// The most slots, in GB, over which the probe is measured: more than the memory of any device.
const MAX_PROBE_GB: f64 = 4096.0;

/// Measures each device, one after the other, in this process; or all of them together, as the daemon opens them.
///
/// # Errors
/// No device can be had, a device fails, or standard output.
pub fn execute(config: &MinerConfig, args: &BenchArgs) -> anyhow::Result<Exit> {
    check(args)?;
    let report = if args.link { measure_link(config, args)? } else { measure(config, args)? };
    if let Some(path) = &args.svg {
        let chart = if args.operations { chart::draw_operations(&report)? } else { chart::draw(&report)? };
        file::write_text(path, &chart)?;
    }
    Ok(print_document(&report, args.json, || report.text(&Screen::stdout()))?)
}

fn measure(config: &MinerConfig, args: &BenchArgs) -> anyhow::Result<BenchReport> {
    let plan = plan(args);
    args.svg.as_deref().map_or(Ok(()), file::check_writable)?;
    super::warn_of_a_running_miner(config);
    let mut host = config.devices.host(&own_key::identity(&config.key_file)?.origin());
    if args.allocator.as_deref() == Some("plain") {
        host.use_plain_memory();
    }
    // Drivers work without these variables too, but print warnings or compile again code that a worker has compiled.
    if let Err(error) = assay_bench::environment::restart_with(&host) {
        tracing::warn!(%error, "cannot start again with the variables that drivers read");
    }
    if let Some(folder) = &args.ptx {
        let taken = replace_ptx(folder).map_err(|why| Failure::new(Exit::Usage, format!("--ptx {why}")))?;
        eprintln!("in place of the built-in modules: {}", taken.join(", "));
    }
    let detect = |host: &HostConfig| assay_bench::detect(host).map_err(Failure::from);
    let mut found = detect(&host)?;
    if args.operations && found.iter().all(|device| device.info.backend != BackendKind::Cpu) {
        let choice = BackendChoice::only(BackendKind::Cpu);
        found.extend(detect(&HostConfig { choice, filter: DeviceFilter::default(), ..host.clone() })?);
    }
    let devices = found.iter().map(|found| assay_bench::run(&host, found, &plan)).collect::<Result<_, _>>()?;
    Ok(BenchReport::new(super::PROGRAM.to_owned(), devices))
}

/// The devices in workers, as a linked probe finds them.
fn measure_link(config: &MinerConfig, args: &BenchArgs) -> anyhow::Result<BenchReport> {
    super::warn_of_a_running_miner(config);
    let origin = own_key::identity(&config.key_file)?.origin();
    let mut devices = config.devices.clone();
    if args.twice {
        devices.unseeded.use_gpus_twice();
    }
    let chosen = devices.open(&origin).map_err(Failure::from)?;
    let plan = LinkPlan { n: args.n.first().copied().unwrap_or(DEFAULT_LINK_SIZE), rounds: args.rounds };
    let link = link::measure(&chosen.host, &MATRIX_SIZES, &plan).map_err(|error| match error {
        LinkBenchError::TooFew(_) | LinkBenchError::NoRoom { .. } => {
            Failure::because(Exit::Config, "--link", error).into()
        }
        LinkBenchError::Device(error) => anyhow::Error::from(error),
    })?;
    Ok(BenchReport { program: super::PROGRAM.to_owned(), devices: Vec::new(), link: Some(link) })
}

fn check(args: &BenchArgs) -> Result<(), Failure> {
    let wrong = |message: String| Failure::new(Exit::Usage, message);
    if let Some(n) = args.n.iter().find(|n| !MATRIX_SIZES.contains(n)) {
        return Err(wrong(format!("--n {n}: must be a power of two from 256 to 32768")));
    }
    if !(1..=MAX_ROUNDS).contains(&args.rounds) {
        return Err(wrong(format!("--rounds {}: must be from 1 to {MAX_ROUNDS}", args.rounds)));
    }
    if let Some(gb) = args.probe_gb.iter().find(|gb| !(**gb > 0.0 && **gb <= MAX_PROBE_GB)) {
        return Err(wrong(format!("--probe-gb {gb}: must be above 0 and at most {MAX_PROBE_GB}")));
    }
    if args.link && args.n.len() > 1 {
        return Err(wrong("--link: measures at one --n".into()));
    }
    Ok(())
}

fn plan(args: &BenchArgs) -> BenchPlan {
    let sizes = MATRIX_SIZES.into_iter().filter(|n| match args.n.is_empty() {
        true if args.operations => *n == OPERATIONS_SIZE,
        true => DEFAULT_SIZES.contains(n),
        false => args.n.contains(n),
    });
    BenchPlan {
        sizes: sizes.collect(),
        // Sizes named by the operator are measured without a limit of time.
        patient: !args.n.is_empty() || args.operations,
        kernels: args.kernels.clone(),
        precisions: if args.operations { Precision::ALL.into() } else { distinct(&args.kinds) },
        rounds: args.rounds,
        sample_s: f64::from(args.sample_ms) / 1e3,
        slots: args.slots,
        // CAST: checked above.
        probe_bytes: args.probe_gb.iter().map(|gb| (gb * 1e9) as u64).collect(),
    }
}

/// Each kind of work once, in the order written.
fn distinct(kinds: &[Precision]) -> Vec<Precision> {
    let mut distinct = Vec::with_capacity(Precision::ALL.len());
    for kind in kinds {
        if !distinct.contains(kind) {
            distinct.push(*kind);
        }
    }
    distinct
}
