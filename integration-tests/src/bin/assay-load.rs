//! Puts load on a validator that it starts on this machine, and reports the cost.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use assay_integration_tests::load::cost::{costs, draw, table};
use assay_integration_tests::load::figures::Figures;
use assay_integration_tests::load::run::Load;
use clap::{Args, Parser};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Threads that move messages: devices compute on threads of their own.
const THREADS: usize = 2;

/// Puts load on a validator of its own on this machine, and shows what that costs
#[derive(Debug, Parser)]
#[command(name = "assay-load", version)]
enum Cli {
    /// Connect miners, have them audited, and measure both; the figures are JSON
    Run(Run),
    /// Draw what a miner costs in a day against the size of the fleet
    Draw(Draw),
}

#[derive(Debug, Args)]
struct Draw {
    /// Where the figure goes
    #[arg(long, value_name = "FILE.svg")]
    to: PathBuf,
    /// Audits of each miner in a day: one every ten minutes, as the settings have it
    #[arg(long, default_value_t = 144.0)]
    audits: f64,
    /// What the figure is called
    #[arg(long, default_value = "What a miner costs a validator in a day")]
    caption: String,
    /// Figures of fleets, as `run` prints them
    #[arg(required = true)]
    figures: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct Run {
    /// Miners
    #[arg(long, default_value_t = 2000)]
    miners: u32,
    /// Verdicts in a second, over all miners; 0: miners are not audited
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// Matrix size
    #[arg(long, default_value_t = 1024)]
    n: u32,
    /// Slots of a challenge
    #[arg(long, default_value_t = 3)]
    slots: u32,
    /// Samples of a challenge
    #[arg(long, default_value_t = 128)]
    samples: u32,
    /// Segments of a challenge
    #[arg(long, default_value_t = 32)]
    segments: u32,
    /// Steps of each segment
    #[arg(long, default_value_t = 8)]
    probe_steps: u32,
    /// Challenges that this program works on at once
    #[arg(long, default_value_t = 32)]
    devices: usize,
    /// Seconds before it is measured
    #[arg(long, default_value_t = 5)]
    settle: u64,
    /// Seconds that are measured
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// URL of a PostgreSQL database for the records [default: a file]
    #[arg(long)]
    records: Option<String>,
    /// Requests to the pages and the API in a second, on the control socket
    #[arg(long, default_value_t = 0.0)]
    requests: f64,
    /// Leave out what connected miners cost that are not audited
    #[arg(long)]
    no_idle: bool,
    /// Flags of the validator
    #[arg(last = true)]
    flags: Vec<String>,
}

fn main() -> ExitCode {
    let done = match Cli::parse() {
        Cli::Run(cli) => raise_file_limit().and_then(|()| run(&cli)),
        Cli::Draw(cli) => draw_figure(&cli),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn draw_figure(cli: &Draw) -> io::Result<()> {
    let read = |path: &PathBuf| Ok(serde_json::from_slice(&std::fs::read(path)?)?);
    let figures = cli.figures.iter().map(read).collect::<io::Result<Vec<Figures>>>()?;
    let costs = costs(&figures, cli.audits);
    let svg = draw(&costs, &cli.caption).map_err(|error| io::Error::other(error.to_string()))?;
    std::fs::write(&cli.to, svg)?;
    write!(io::stdout().lock(), "{}", table(&costs))
}

fn run(cli: &Run) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let figures = runtime.block_on(measure(cli)).map_err(io::Error::other)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string_pretty(&figures)?)
}

async fn measure(cli: &Run) -> Result<Figures, String> {
    let load = Load {
        miners: cli.miners,
        verdicts_per_s: cli.rate,
        n: cli.n,
        slots: cli.slots,
        samples: cli.samples,
        segments: cli.segments,
        probe_steps: cli.probe_steps,
        devices: cli.devices,
        settle: Duration::from_secs(cli.settle),
        time: Duration::from_secs(cli.seconds),
        records: cli.records.clone(),
        requests_per_s: cli.requests,
        flags: cli.flags.clone(),
    };
    let idle = if cli.no_idle { None } else { Some(load.idle().await?) };
    let audited = if cli.rate > 0.0 { Some(load.audited().await?) } else { None };
    Ok(Figures { idle, audited })
}

/// As many open files as the system allows, for this program and the validator that it starts.
fn raise_file_limit() -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}
