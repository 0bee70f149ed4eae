//! The command line, as typed.

use std::path::PathBuf;

use assay_backends::settings::LONG_VERSION;
use assay_backends::worker_command::WorkerArgs;
use assay_diag::Seed;
use assay_program::settings::{self, CheckConfigArgs, Flags, KeyArgs, RotateArgs, ShowArgs};
use assay_program::span::Span;
use assay_program::{exit, help};
use assay_work::Precision;
use assay_work::size::Size;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{KeyFlags, LocalFlags, RawConfig, absent};

const ABOUT: &str = "Proves this machine's compute and memory to a validator";

const LAYERS: &str = "Settings have four layers, each overriding the one before: defaults, the file given by --config (or \
     ASSAY_MINER_CONFIG, or else /etc/assay/miner.toml if it exists), environment variables, flags. --cpu-devices 2 is cpu_devices = 2 in the file and ASSAY_MINER_CPU_DEVICES=2 in \
     the environment. Unknown keys are errors.";

const EXAMPLES: &str = "Examples:
  assay-miner devices
  assay-miner run --validator 127.0.0.1:7400
  assay-miner status
  assay-miner run --config /etc/assay/miner.toml --log-format json
  assay-miner work --challenge challenge.json --out evidence.json
  assay-miner bench --n 8192
  assay-miner diag --minutes 30
  assay-miner config show --config /etc/assay/miner.toml";

/// The commands, grouped by purpose.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Run", &["run"]),
    ("Look", &["status", "devices", "check", "receipt"]),
    ("Measure and compute", &["bench", "diag", "work"]),
    ("Configuration", &["key", "config"]),
];

/// The settings that `run -h` shows; `--help` has all.
const FIRST: [&str; 11] = [
    "config",
    "validator",
    "trust_on_first_use",
    "join_token_file",
    "key_file",
    "backend",
    "device",
    "cpu_memory",
    "drain_timeout_s",
    "metrics_listen",
    "log",
];

/// The miner's command line.
#[derive(Debug, Parser)]
#[command(name = "assay-miner", version, long_version = LONG_VERSION.as_str(), about = ABOUT, max_term_width = 120)]
#[command(help_template = help::template::<Command>(&GROUPS))]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{LAYERS}\n\n{}", exit::HELP))]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses this process's command line.
    ///
    /// # Errors
    /// Clap's, which also stand for help and version.
    pub fn from_process() -> Result<Self, clap::Error> {
        settings::parse(std::env::args_os(), absent)
    }
}

/// The miner's commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a validator until SIGTERM or SIGINT, then drain; a second signal stops at once
    #[command(mut_args(|argument| help::first(argument, &FIRST)))]
    #[command(after_help = "Examples:
  assay-miner run
  assay-miner run --validator validator.internal:7400 --insecure-allow-remote-plaintext
  ASSAY_MINER_CPU_MEMORY=2GiB assay-miner run --cpu-devices 2", after_long_help = LAYERS)]
    Run(RunArgs),
    /// List this machine's devices, their memory and the matrices that fit
    #[command(after_help = "Examples:
  assay-miner devices --wide
  assay-miner devices --watch 5
  assay-miner devices --device H200,^3
  assay-miner devices --json --cpu-devices 4 --cpu-memory 1GiB")]
    Devices(DevicesArgs),
    /// Say what the running miner does: validator, challenge, last verdict, devices and their workers
    ///
    /// The miner is found by its key file. Works beside a miner that runs and after one that ended. Exit codes: 0 when it
    /// runs, 2 when it does not.
    #[command(after_help = "Examples:
  assay-miner status
  assay-miner status --json --key-file /var/lib/assay/miner.key
  assay-miner status >/dev/null || systemctl restart assay-miner")]
    Status(StatusArgs),
    /// Check this machine for a cluster's scheduler: one line and an exit code, within the time given
    ///
    /// Beside a running miner its state is read; without one the devices are opened as run does, by a process that is
    /// killed when the time is over. A failed last verdict, a device with a fault and a miner that hangs are failures in any
    /// case. Exit codes: 0 when all is as expected, 1 when it is not, 2 when that cannot be said in time, 78 when the
    /// configuration is invalid.
    #[command(after_help = "Examples:
  assay-miner check
  assay-miner check --timeout 45s --devices 8 --min-memory 1000GiB
  assay-miner check --validator-connected --last-verdict-within 24h")]
    Check(CheckArgs),
    /// Print the receipt of the last verdict, which others can check (assay-validator receipt verify)
    ///
    /// It is the validator's signed result, as a JSON Web Token. Exit code 2: no verdict came with one yet.
    #[command(after_help = "Examples:
  assay-miner receipt > receipt.jwt")]
    Receipt(ReceiptArgs),
    /// Print this miner's public key, by which a validator allows it
    ///
    /// The key file is created if it is missing, as run does.
    #[command(after_help = "Examples:
  assay-miner key
  assay-miner key --json --key-file /var/lib/assay/miner.key
  assay-miner key rotate --overlap 30d")]
    Key(KeyArgs<KeyFlags, KeyCommand>),
    /// Compute the work of a challenge file, without a validator
    ///
    /// Every share is computed on the devices of this machine, whatever devices the challenge names. A linked probe needs a
    /// device for each share. The evidence is signed if the challenge names this miner's key.
    #[command(after_help = "Examples:
  assay-miner work --challenge challenge.json --out evidence.json
  assay-miner work --challenge challenge.json --probe probe.json --json")]
    Work(WorkArgs),
    /// Measure this machine's devices: products, passes, leaves, digests, probe, copies
    ///
    /// Each stage of the work is measured alone, beside the device's limits and, where the library is there, cuBLASLt's
    /// INT8 product. Everything of one kind of work and matrix size is measured in turn, round after round; figures are
    /// medians. Stop other work on the machine first: this command measures in its own process, and nothing keeps others
    /// off.
    ///
    /// With --link it measures instead how fast the devices reach one another's memory as a linked probe does: states that
    /// one device has stepped and another one steps, for each pair, and the probe over all devices.
    #[command(after_help = "Examples:
  assay-miner bench
  assay-miner bench --n 8192 --rounds 9 --json
  assay-miner bench --operations --svg operations.svg
  assay-miner bench --link
  assay-miner bench --backend cpu --kernels avx2,portable --svg chart.svg")]
    Bench(BenchArgs),
    /// Burn this machine's devices in: every pass compared exactly; passes or fails
    ///
    /// All devices work at once with their memory filled, for the time given and one round at least. Every product kernel
    /// that a device runs computes the same pass; results are compared with the device's own, with every equal device's
    /// and, by samples, with the processor's. Walks over all memory and copies are compared as well, sensors are read
    /// throughout, and rates are judged. The first wrong bit is located. Stop the miner first. Exit code 0: pass,
    /// 1: fail, 2: not one whole round.
    #[command(after_help = "Examples:
  assay-miner diag
  assay-miner diag --minutes 60 --svg burn-in.svg
  assay-miner diag --rounds 1 --json
  assay-miner diag --minutes 30 --min-tops 600 --max-drift-percent 5 --on-throttle fail")]
    Diag(DiagArgs),
    /// Inspect the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Internal: drive one device for another process of this program, over standard input and output
    ///
    /// Each device is driven by a worker process of its own, so that a crashing driver affects no other device. The
    /// worker exits when its standard input closes.
    #[command(hide = true)]
    Worker(WorkerArgs),
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<RawConfig>,
}

/// Arguments of `devices`.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Matrix size whose slots the table shows (JSON has all sizes)
    #[arg(long, default_value_t = 2048)]
    pub n: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show all columns and whole device ids
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
    /// Show the devices again every SECONDS (2 if omitted) until Ctrl-C, in place on a terminal
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    pub watch: Option<u32>,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<LocalFlags>,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<KeyFlags>,
}

/// Arguments of `receipt`.
#[derive(Debug, Args)]
pub struct ReceiptArgs {
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<KeyFlags>,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// For how long at most the command runs
    #[arg(long, value_name = "TIME", default_value = "45s")]
    pub timeout: Span,
    /// How many devices must be usable, at least
    #[arg(long, value_name = "COUNT")]
    pub devices: Option<usize>,
    /// How much memory must be free on usable devices, at least and in all
    #[arg(long, value_name = "SIZE")]
    pub min_memory: Option<Size>,
    /// Require a miner that runs, such as for the health of a container
    #[arg(long)]
    pub running: bool,
    /// Require a session with a validator
    #[arg(long)]
    pub validator_connected: bool,
    /// Require that the last verdict is a pass and no older
    #[arg(long, value_name = "TIME")]
    pub last_verdict_within: Option<Span>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Open the devices in this process, and print them
    #[arg(long, hide = true)]
    pub open: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<LocalFlags>,
}

/// What else is done with the key.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Replace the key by a new one, for which the old one vouches for a while
    ///
    /// Validators that allow the old key allow the new one too until the overlap is over, and keep what they know of
    /// this miner. By then their operators put the new key in their lists. A running miner goes on with the old key until
    /// it is restarted. The old secret key is not kept.
    #[command(after_help = "Examples:
  assay-miner key rotate
  assay-miner key rotate --overlap 12h --key-file /var/lib/assay/miner.key")]
    Rotate(RotateArgs<KeyFlags>),
}

/// Arguments of `work`.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Challenge as JSON; - for standard input. Several, one after another, with --json
    #[arg(long, value_name = "FILE", required = true, action = clap::ArgAction::Append)]
    pub challenge: Vec<PathBuf>,
    /// Probe to answer after the work, as JSON
    #[arg(long, value_name = "FILE")]
    pub probe: Option<PathBuf>,
    /// Sweep to answer after the work and the probe, as JSON
    #[arg(long, value_name = "FILE")]
    pub sweep: Option<PathBuf>,
    /// Write the evidence to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the answer to the probe to this file
    #[arg(long, value_name = "FILE", requires = "probe")]
    pub answer_out: Option<PathBuf>,
    /// Slot of a challenge of one share to write to --slot-out after the work, on the first device, without its test at start
    #[arg(long, value_name = "SLOT", requires = "slot_out", conflicts_with_all = ["probe", "sweep"])]
    pub slot: Option<u32>,
    /// Write the bytes of --slot to this file
    #[arg(long, value_name = "FILE", requires = "slot")]
    pub slot_out: Option<PathBuf>,
    /// Write the sums of the product that made --slot to this file, as the kernel forms them, then as its operands give them;
    /// n = 256 on CUDA
    #[arg(long, value_name = "FILE", requires = "slot")]
    pub sums_out: Option<PathBuf>,
    /// Print JSON on one line, also when --out is given: `evidence`, `answer` when there was a probe, and
    /// `sweep_answer` when there was a sweep
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<LocalFlags>,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Matrix sizes, with commas between; without it from 1024 to 16384, but for what takes too long
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub n: Vec<u32>,
    /// Product kernels, with commas between; without it all of a GPU's, and the fastest of a processor's; ? lists them
    #[arg(long, value_delimiter = ',', value_name = "KERNEL")]
    pub kernels: Vec<String>,
    /// Kinds of work of products and passes, with commas between: int8, f16, fp8, fp4, field, network
    #[arg(long, value_delimiter = ',', value_name = "KIND", default_value = "int8")]
    pub kinds: Vec<Precision>,
    /// Measure every operation that challenges ask for, with all kinds of work, at n = 2048 if omitted, and the processor
    /// beside GPUs; --svg draws these
    #[arg(long, conflicts_with_all = ["kernels", "kinds", "link", "probe_gb"])]
    pub operations: bool,
    /// Measure how fast the devices reach one another, all of them together, in place of each by itself; one --n, 1024 if
    /// omitted
    #[arg(long, conflicts_with_all = ["kernels", "kinds", "svg", "slots", "sample_ms", "ptx", "probe_gb", "allocator"])]
    pub link: bool,
    /// With --link: take each GPU of CUDA for two devices, such that one GPU is enough
    #[arg(long, requires = "link")]
    pub twice: bool,
    /// Slots of a pass; without it 1 GiB of them, and on a GPU at least 128 from n = 8192 on, as far as they fit
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(3..=4096))]
    pub slots: Option<u32>,
    /// Length of a sample
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub sample_ms: u32,
    /// Use the PTX files of this folder in place of the built-in modules of the same names (product_wgmma_sm90a.ptx), untested
    #[arg(long, value_name = "FOLDER")]
    pub ptx: Option<PathBuf>,
    /// Measure only the probe, over slots of so many GB, with commas between
    #[arg(long, value_name = "GB", value_delimiter = ',', conflicts_with_all = ["n", "kinds", "slots", "svg"])]
    pub probe_gb: Vec<f64>,
    /// How slots are taken on CUDA devices: map (cuMemCreate, as the miner does) or plain (cuMemAlloc)
    #[arg(long, value_name = "WAY", value_parser = ["map", "plain"])]
    pub allocator: Option<String>,
    /// How many samples of each
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Print JSON, rates in operations and bytes a second
    #[arg(long)]
    pub json: bool,
    /// Draw products and passes over the matrix size, or operations, into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<LocalFlags>,
}

/// How grave something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Gravity {
    /// A warning; the device passes.
    Warn,
    /// The device fails.
    Fail,
}

/// Arguments of `diag`.
#[derive(Debug, Args)]
pub struct DiagArgs {
    /// For how long, in minutes; one round is made in any case
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=10_080))]
    pub minutes: u32,
    /// Make so many rounds, in place of a time
    #[arg(long, value_name = "COUNT", conflicts_with = "minutes", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Matrix size; without it by memory and speed, at most 8192
    #[arg(long)]
    pub n: Option<u32>,
    /// Percentage of the free memory to fill
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub share: u32,
    /// Samples of each pass that the processor computes
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=4096))]
    pub samples: u32,
    /// Product kernels, with commas between; without it all that a device runs
    #[arg(long, value_delimiter = ',', value_name = "KERNEL")]
    pub kernels: Vec<String>,
    /// Repeat the passes of another run, by the seed in its report
    #[arg(long, value_name = "SEED")]
    pub seed: Option<Seed>,
    /// Fail a device whose passes or probe slow down by more, from the first quarter of the time to the last
    #[arg(long, value_name = "PERCENT")]
    pub max_drift_percent: Option<f64>,
    /// Fail a device whose passes with its fastest kernel reach less: 10^12 operations a second
    #[arg(long, value_name = "TOPS")]
    pub min_tops: Option<f64>,
    /// What clocks reduced for heat or power are
    #[arg(long, value_enum, value_name = "GRAVITY", default_value = "warn")]
    pub on_throttle: Gravity,
    /// What memory errors that a device corrected are; uncorrected ones always fail it
    #[arg(long, value_enum, value_name = "GRAVITY", default_value = "warn")]
    pub on_corrected_ecc: Gravity,
    /// Seconds without progress after which a device counts as hung
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub stall_s: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Draw rates, temperature and power over time into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<LocalFlags>,
}

/// Commands about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check all settings, and say where they come from; nothing is started
    ///
    /// Checks what `run` checks before it makes a file or opens a device: the configuration file, the environment and
    /// the flags. Exit codes: 0 when the configuration is valid, 78 when it is not.
    #[command(after_help = "Examples:
  assay-miner config check
  assay-miner config check --config new.toml && mv new.toml /etc/assay/miner.toml")]
    Check(CheckConfigArgs<RawConfig>),
    /// Check all settings and print each with its value and origin
    Show(ShowArgs<RawConfig>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    /// Common options are on the full help page alone.
    #[test]
    fn short_help_shows_what_a_beginner_needs() {
        let help = help::short::<Cli>(&["run"]);
        for flag in FIRST.map(|id| format!("--{}", id.replace('_', "-"))) {
            assert!(help.contains(&flag), "{flag} in\n{help}");
        }
        assert!(help.contains("see more with '--help'") && help.lines().count() < 70, "{help}");
        let help = help::short::<Cli>(&["status"]);
        assert!(help.contains("--json") && !help.contains("Secret key file"), "{help}");
        let help = help::short::<Cli>(&[]);
        assert!(help.contains("\nLook:\n  status ") && !help.contains("worker"), "{help}");
    }

    #[test]
    fn commands_parse() {
        for line in [
            "run",
            "run --config a.toml --validator [::1]:7400 --cpu-devices 2 --log-format json",
            "run --insecure-allow-remote-plaintext --validator a:1",
            "devices --json --cpu-memory 1GiB",
            "devices --wide --n 4096",
            "devices --watch --json",
            "devices --watch 5 --device 0,abcd --device H200,^3",
            "status --json --key-file a.key",
            "key --json --key-file a.key",
            "check",
            "check --timeout 45s --devices 8 --min-memory 1TiB --validator-connected --last-verdict-within 24h --json",
            "work --challenge c.json --probe p.json --answer-out a.json --out e.json --json",
            "bench --n 1024,2048 --kernels portable --device ab --rounds 3 --json --svg a.svg",
            "bench --link --n 2048 --rounds 3 --json --cpu-devices 2",
            "diag",
            "diag --minutes 0 --n 256 --share 50 --samples 0 --kernels portable,avx2 --device ab --json --svg a.svg",
            "diag --rounds 2 --max-drift-percent 5 --min-tops 1.5 --on-throttle fail --on-corrected-ecc fail --stall-s 9",
            "config show --json --log debug",
            "config check --config a.toml --log debug",
            "worker",
            "worker --log debug",
        ] {
            let line = format!("assay-miner {line}");
            Cli::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for (line, kind) in [
            ("", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
            ("mine", ErrorKind::InvalidSubcommand),
            ("check --timeout 45", ErrorKind::ValueValidation),
            ("check --min-memory 45", ErrorKind::ValueValidation),
            ("work", ErrorKind::MissingRequiredArgument),
            ("work --challenge c --answer-out a", ErrorKind::MissingRequiredArgument),
            ("run --cpu-devices two", ErrorKind::ValueValidation),
            ("bench --n large", ErrorKind::ValueValidation),
            ("bench --link --kernels portable", ErrorKind::ArgumentConflict),
            ("bench --link --kinds int8", ErrorKind::ArgumentConflict),
            ("bench --link --svg a.svg", ErrorKind::ArgumentConflict),
            ("diag --rounds 0", ErrorKind::ValueValidation),
            ("diag --rounds 1 --minutes 1", ErrorKind::ArgumentConflict),
            ("diag --share 101", ErrorKind::ValueValidation),
            ("diag --seed 00", ErrorKind::ValueValidation),
            ("run --backend tpu", ErrorKind::InvalidValue),
            ("run --validater a:1", ErrorKind::UnknownArgument),
            ("devices --validator a:1", ErrorKind::UnknownArgument),
        ] {
            let line = format!("assay-miner {line}");
            assert_eq!(Cli::try_parse_from(line.split_whitespace()).unwrap_err().kind(), kind, "{line}");
        }
    }

    #[test]
    fn a_mistyped_flag_is_corrected() {
        let error = Cli::try_parse_from(["assay-miner", "run", "--validater", "a:1"]).unwrap_err();
        assert!(error.to_string().contains("--validator"), "{error}");
    }
}
