//! Attacks a validator that it starts on this machine, with an honest miner beside, and reports the cost.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use assay_integration_tests::attack::watch::{Measured, attack, policy};
use assay_integration_tests::attack::{Attack, Scale};
use assay_integration_tests::dialled::Target;
use assay_integration_tests::miner::TestMiner;
use clap::{Parser, ValueEnum};

/// The most that the validator's memory may grow for an attack.
const MAX_GROWN_BYTES: u64 = 128 << 20;
/// The most of a core that reconnects may cost.
const MAX_RECONNECT_CORE: f64 = 0.5;

/// Attacks a validator of its own on this machine, and ends with 1 when a bound is broken
#[derive(Debug, Parser)]
#[command(name = "assay-attack", version)]
struct Cli {
    /// Attacks to carry out [default: all]
    #[arg(value_enum)]
    attacks: Vec<Attack>,
    /// Speak TLS
    #[arg(long)]
    tls: bool,
    /// Thousandths of the full counts
    #[arg(long, default_value_t = Scale::FULL.thousandths)]
    thousandths: u32,
    /// Seconds that slow attacks go on
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Cli::parse()).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(broken) => {
            eprintln!("{broken} bounds are broken");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Carries the attacks out, each on a validator of its own; gives how many bounds did not hold.
async fn run(cli: &Cli) -> io::Result<u32> {
    let scale = Scale { thousandths: cli.thousandths, time: Duration::from_secs(cli.seconds) };
    let attacks = if cli.attacks.is_empty() { Attack::value_variants() } else { &cli.attacks[..] };
    print_row(["attack", "count", "s", "MiB", "CPU s", "passed", "longest s", "newcomers", "longest s", ""])?;
    let mut broken = 0;
    for of in attacks.iter().copied().filter(|attack| attack.fits(cli.tls)) {
        let (validator, miner) = TestMiner::with_validator(&policy(), 1, &["--cpu-memory=8MiB"]).await;
        let target = Target { address: validator.address, is_tls: cli.tls, from: [127, 0, 0, 2] };
        let measured = attack(&validator, miner.key, of, target, scale).await?;
        let problems = problems(of, &measured);
        broken += problems.len() as u32;
        let name = of.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
        let [entered, came] = measured.newcomers;
        print_row([
            &name,
            &measured.count.to_string(),
            &seconds(measured.time),
            &format!("{:.1}", measured.grown_bytes as f64 / f64::from(1 << 20)),
            &seconds(measured.cpu),
            &format!("{} of {}", measured.passed, measured.passed + measured.not_passed),
            &seconds(measured.longest_challenge),
            &format!("{entered} of {came}"),
            &seconds(measured.longest_newcomer),
            &problems.join(", "),
        ])?;
    }
    Ok(broken)
}

/// The bounds that did not hold.
fn problems(of: Attack, measured: &Measured) -> Vec<&'static str> {
    let core = measured.cpu.as_secs_f64() / measured.time.as_secs_f64();
    let [entered, came] = measured.newcomers;
    [
        (measured.grown_bytes > MAX_GROWN_BYTES, "memory"),
        (measured.passed == 0 || measured.not_passed > 0, "the honest miner"),
        (entered < came, "newcomers"),
        (of == Attack::Reconnects && core > MAX_RECONNECT_CORE, "CPU"),
    ]
    .into_iter()
    .filter_map(|(broken, what)| broken.then_some(what))
    .collect()
}

fn print_row(cells: [&str; 10]) -> io::Result<()> {
    let [name, count, time, memory, cpu, passed, longest, newcomers, longest_newcomer, problems] = cells;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{name:<18} {count:>7} {time:>6} {memory:>6} {cpu:>6} {passed:>9} {longest:>9} {newcomers:>9} \
         {longest_newcomer:>9}  {problems}"
    )?;
    out.flush()
}
