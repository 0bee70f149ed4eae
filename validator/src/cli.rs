//! The command line, as typed.

use std::path::PathBuf;

use assay_devices::settings::LONG_VERSION;
use assay_devices::worker_command::WorkerArgs;
use assay_program::exit;
use assay_program::prefix::Prefix;
use assay_program::settings::{self, Flags};
use assay_program::span::Span;
use assay_protocol::verdict::Mode;
use assay_receipts::EatNonce;
use assay_work::PublicKey;
use clap::{Args, Parser, Subcommand};

use self::receipt::ReceiptArgs;
use self::records::{
    BackupArgs, DecideArgs, DevicesArgs, EnrollArgs, ExportArgs, HistoryArgs, LabelArgs, RoundArgs, VerdictsArgs,
};
use crate::config::{ControlFlags, LocalFlags, RawConfig, StoredFlags, WorkerFlags};
use crate::device_spec::DeviceSpec;
use crate::operations::parse_label;
use crate::policy::{MODES, mode_parser};

const ABOUT: &str = "Challenges miners to prove their compute and memory, and judges what they answer";

const LAYERS: &str = "Settings have four layers, each overriding the one before: defaults, the file given by --config (or \
     ASSAY_VALIDATOR_CONFIG, or else /etc/assay/validator.toml if it exists), environment variables, flags. --max-miners 9 is max_miners = 9 in the file and ASSAY_VALIDATOR_MAX_MINERS=9 in \
     the environment. Unknown keys are errors.";

const EXAMPLES: &str = "Examples:
  assay-validator serve
  assay-validator miners
  assay-validator status
  assay-validator challenge --miner only
  assay-validator challenge --devices 3x64 --miner-key KEY --out challenge.json
  assay-validator verify --challenge challenge.json --evidence evidence.json --mode replay
  assay-validator config show --config /etc/assay/validator.toml";

/// The validator's command line.
#[derive(Debug, Parser)]
#[command(name = "assay-validator", version, long_version = LONG_VERSION.as_str(), about = ABOUT, max_term_width = 120)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{LAYERS}\n\n{}", exit::HELP))]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// This process's command line.
    ///
    /// # Errors
    /// Clap's, which also stand for help and version.
    pub fn from_process() -> Result<Self, clap::Error> {
        settings::parse(std::env::args_os())
    }
}

/// The validator's commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve miners until SIGTERM or SIGINT, then drain; a second signal stops at once
    #[command(after_help = "Examples:
  assay-validator serve
  assay-validator serve --config /etc/assay/validator.toml --log-format json
  ASSAY_VALIDATOR_MODE=audit assay-validator serve --challenge-interval-s 60", after_long_help = LAYERS)]
    Serve(ServeArgs),
    /// Challenge a connected miner now and print the verdict, or make a challenge file
    ///
    /// A running validator challenges the miner now: the one named with --miner, or the only one, or with --all every
    /// one. Options left out follow the validator's policy. Ctrl-C cancels the challenge and prints its verdict; a
    /// second Ctrl-C leaves at once. With --devices, a challenge for these devices is written to a file, for
    /// `assay-miner work`.
    #[command(after_help = "Examples:
  assay-validator challenge
  assay-validator challenge --miner 7b41c09e --mode audit --n 4096 --samples 512 --json
  assay-validator challenge --all --wait 60
  assay-validator challenge --miner 7b41c09e --repeat 20
  assay-validator challenge --devices 3x64 --miner-key KEY --out challenge.json
  assay-validator challenge --devices ID:64,ID:32 --n 1024 --iterations 2 --miner-key KEY")]
    Challenge(ChallengeArgs),
    /// Cancel challenges that run: their verdicts are inconclusive, and count against nobody
    #[command(after_help = "Examples:
  assay-validator cancel 1894846d
  assay-validator cancel --all")]
    Cancel(CancelArgs),
    /// Show what a running validator does: miners, challenges, verdicts, whether it records and drains
    #[command(after_help = "Examples:
  assay-validator status
  assay-validator status --json | jq '.challenges[].challenge_id'")]
    Status(StatusArgs),
    /// Print what a miner needs to reach this validator, as one string: assay://HOST:PORT#KEY
    ///
    /// The key is that of the validator, which is made on first use; the address is `advertise`, else `listen`. A miner
    /// takes the string as its --validator.
    #[command(after_help = "Examples:
  assay-validator address
  assay-miner run --validator \"$(assay-validator address)\"")]
    Address(StatusArgs),
    /// Have a running validator read its configuration again, as SIGHUP does, and say what changed
    Reload(StatusArgs),
    /// Have a running validator forget the devices that a miner showed before, after it was rebuilt
    #[command(after_help = "Examples:
  assay-validator forget 7b41c09e")]
    Forget(ForgetArgs),
    /// Print the validator's public key, which is made on first use, or replace it
    #[command(after_help = "Examples:
  assay-validator key
  assay-validator key --json --key-file /var/lib/assay/validator.key
  assay-validator key rotate --overlap 30d")]
    Key(KeyArgs),
    /// Show, check or manage receipts: signed results that others can check without this validator
    ///
    /// With an id, the receipt with that id or of that challenge is shown.
    #[command(after_help = "Examples:
  assay-validator receipt 1894846d
  assay-validator receipt 1894846d --token > receipt.jwt
  assay-validator receipt keys > keys.json
  assay-validator receipt verify receipt.jwt --keys keys.json --nonce 00112233445566778899aabbccddeeff
  assay-validator receipt rotate --overlap 30d")]
    Receipt(ReceiptArgs),
    /// List the miners connected to a running validator, or with --all those that its records know
    #[command(after_help = "Examples:
  assay-validator miners --wide
  assay-validator miners --json | jq -r '.[].miner_key'
  assay-validator miners --status pending
  assay-validator miners --all --label rack=7")]
    Miners(MinersArgs),
    /// Make a single-use token with which a new miner joins; it is printed once, and only its hash is kept
    ///
    /// A miner takes it at its first start, by --join-token-file or ASSAY_MINER_JOIN_TOKEN. The validator asks for one
    /// where its setting enrolment is token; elsewhere a token gives the miner its labels.
    #[command(after_help = "Examples:
  assay-validator enroll --label rack=7 --expires 1h
  assay-validator enroll | ssh miner-7 'assay-miner run --join-token-file -'
  assay-validator enroll --list")]
    Enroll(EnrollArgs),
    /// Let a miner in, from now on; it is noted with who did it
    #[command(after_help = "Examples:
  assay-validator miners --status pending
  assay-validator approve 7b41c09e")]
    Approve(DecideArgs),
    /// Keep a miner out until it is resumed; its session ends at once, with what runs
    Suspend(DecideArgs),
    /// Let a suspended miner in again
    Resume(DecideArgs),
    /// Keep a miner out for good; its session ends at once, with what runs, and its keys vouch for nobody
    Revoke(DecideArgs),
    /// Set labels of a miner, and take others away
    #[command(after_help = "Examples:
  assay-validator label 7b41c09e rack=7 operator=north -spare")]
    Label(LabelArgs),
    /// Challenge the members of a group in the same moment, so that one device cannot stand in for two
    ///
    /// Waits until the last one is judged, and says who did not start in time. Exit codes: 0 when all passed, 1 when one
    /// failed, 2 otherwise.
    #[command(after_help = "Examples:
  assay-validator round --group north
  assay-validator round --by operator --json")]
    Round(RoundArgs),
    /// List the devices that miners have listed
    #[command(after_help = "Examples:
  assay-validator devices --miner 7b41c09e
  assay-validator devices 1894846d --gone")]
    Devices(DevicesArgs),
    /// List verdicts, newest first
    #[command(after_help = "Examples:
  assay-validator verdicts --outcome fail --since 7d
  assay-validator verdicts --miner 7b41c09e --json | jq '.[].verdict.whole.tops'")]
    Verdicts(VerdictsArgs),
    /// Show a challenge, miner, device, receipt or round with all that is behind it
    #[command(after_help = "Examples:
  assay-validator show 1894846d
  assay-validator show 7b41c09e --json | jq '.actions'")]
    Show(records::ShowArgs),
    /// Show what happened to a miner, newest first
    History(HistoryArgs),
    /// Write all records into files: JSON Lines, or Parquet
    #[command(after_help = "Examples:
  assay-validator export /var/lib/assay/export
  assay-validator export /var/lib/assay/export --format parquet")]
    Export(ExportArgs),
    /// Copy the records, as they are at one moment, into a file; the validator goes on meanwhile
    Backup(BackupArgs),
    /// Judge stored evidence again, under the policy of its time or another one, and print what would change
    ///
    /// Reads the records and the evidence store; the validator may run meanwhile. Under the policy of the time every
    /// verdict must come out as it was given, to the bit: exit code 1 if one does not. Evidence that was changed is
    /// refused: exit code 65.
    #[command(after_help = "Examples:
  assay-validator rejudge 1894846d
  assay-validator rejudge --since 7d
  assay-validator rejudge --policy stricter.toml --since 7d --json | jq 'select(.changes)'")]
    Rejudge(RejudgeArgs),
    /// Check the evidence for a challenge file by recomputing the work
    #[command(after_help = "Examples:
  assay-validator verify --challenge challenge.json --evidence evidence.json --mode replay
  assay-validator verify --challenge challenge.json --evidence evidence.json --mode replay-sample --json")]
    Verify(VerifyArgs),
    /// Check the openings of a pass or of a probe in a file
    #[command(after_help = "Examples:
  assay-validator check-openings openings.json
  assay-validator check-openings - --json < openings.json")]
    CheckOpenings(CheckOpeningsArgs),
    /// Inspect the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Inspect the policy of a fleet
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Compute replays on this machine's devices for the validators that share the records, until SIGTERM or SIGINT
    ///
    /// Validators that keep their records in one PostgreSQL database submit replays there; each worker takes one at a
    /// time. A worker finishes what it computes before it ends; one that is killed loses its replay to another worker.
    /// It reads the settings `records`, those of devices and of the log.
    #[command(after_help = "Examples:
  assay-validator replay-worker --records postgres://assay@db.example/assay?sslmode=verify-full
  assay-validator replay-worker --config /etc/assay/validator.toml --backend cuda", after_long_help = LAYERS)]
    ReplayWorker(ReplayWorkerArgs),
    /// Internal: drive one device for another process of this program, over standard input and output
    ///
    /// Each device is driven by a worker process of its own, so that a crashing driver affects no other device. The
    /// worker exits when its standard input closes.
    Worker(WorkerArgs),
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<RawConfig>,
}

/// Arguments of `rejudge`.
#[derive(Debug, Args)]
pub struct RejudgeArgs {
    /// Challenges: ids or their first digits, or names of objects in the evidence store [default: all that are kept]
    #[arg(value_name = "ID")]
    pub ids: Vec<Prefix>,
    /// Only challenges of the last seconds, minutes, hours, days or weeks (s, m, h, d, w)
    #[arg(long, value_name = "TIME", conflicts_with = "ids")]
    pub since: Option<Span>,
    /// Judge by this fleet policy instead of the policy of the time; what it does not say stays
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Print JSON: one object per line for each challenge
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<StoredFlags>,
}

/// Arguments of `replay-worker`.
#[derive(Debug, Args)]
pub struct ReplayWorkerArgs {
    /// Name under which validators and operators see it [default: the machine's]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<WorkerFlags>,
}

/// Which connected miner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MinerChoice {
    /// The only one that is connected.
    Only,
    /// The one whose key starts with this.
    Key(Prefix),
}

impl std::str::FromStr for MinerChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "only" {
            return Ok(Self::Only);
        }
        text.parse().map(Self::Key).map_err(|_| "expected a miner's key or its first digits, or `only`".to_owned())
    }
}

/// Arguments of `challenge`, in both of its forms.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("form").args(["miner", "all", "devices"])))]
pub struct ChallengeArgs {
    /// Connected miner to challenge: its key or the first digits of it (see `assay-validator miners`), or `only` if
    /// there is one [default: only, without --devices]
    #[arg(long, value_name = "KEY|only")]
    pub miner: Option<MinerChoice>,
    /// Challenge every connected miner, all at once
    #[arg(long)]
    pub all: bool,
    /// Devices of the challenge with their number of matrices, as a comma-separated list: 64 is one device with 64
    /// matrices, 3x64 three devices with 64 each, ID:64 the device of this id (see `assay-miner devices --wide`).
    /// Devices without an id get 00…01, 00…02 and so on
    #[arg(long, value_name = "SPEC", num_args = 1.., value_delimiter = ',', requires = "miner_key")]
    pub devices: Vec<DeviceSpec>,
    /// Matrix size, a power of two from 256 to 32768 [default: the policy's]
    #[arg(long)]
    pub n: Option<u32>,
    /// Number of passes, from 1 to 65536 [default: the policy's]
    #[arg(long, value_name = "COUNT")]
    pub iterations: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Of a connected miner.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Of a challenge file.
    #[command(flatten)]
    pub file: FileArgs,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// What a challenge of a connected miner takes besides.
#[derive(Debug, Args)]
#[command(next_help_heading = "Of connected miners")]
pub struct LiveArgs {
    /// Verification mode [default: the policy's]
    #[arg(long, value_parser = mode_parser(&MODES), conflicts_with = "devices")]
    pub mode: Option<Mode>,
    /// Samples per device and iteration checked by audit [default: the policy's]
    #[arg(long, value_name = "COUNT", conflicts_with = "devices")]
    pub samples: Option<u32>,
    /// Percentage of the free memory to fill [default: the policy's]
    #[arg(long, value_name = "PERCENT", conflicts_with = "devices")]
    pub fill_percent: Option<u32>,
    /// Nonce of whoever the receipt is for, which is put into it: 8 to 64 bytes in base64url without padding
    #[arg(long, value_name = "TEXT", conflicts_with = "devices")]
    pub eat_nonce: Option<EatNonce>,
    /// File to write the signed receipt of the verdict to
    #[arg(long, value_name = "FILE", conflicts_with_all = ["devices", "all", "repeat", "detach"])]
    pub receipt: Option<PathBuf>,
    /// Wait until the miner is connected and works on no other challenge, for at most so many seconds if given
    #[arg(long, value_name = "S", num_args = 0..=1, conflicts_with = "devices")]
    pub wait: Option<Option<u64>>,
    /// Challenge so many times, one after the other, and end with a summary
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=MAX_REPEAT),
        hide_default_value = true,
        conflicts_with = "devices"
    )]
    pub repeat: u32,
    /// Print the challenge's id and return; the verdict goes to the validator's log
    #[arg(long, conflicts_with_all = ["devices", "repeat"])]
    pub detach: bool,
}

/// What `challenge --devices` takes besides.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --devices")]
pub struct FileArgs {
    /// Public key of the miner that will do the work
    #[arg(long, value_name = "KEY", requires = "devices")]
    pub miner_key: Option<PublicKey>,
    /// Public key of the validator [default: this validator's, from its key file]
    #[arg(long, value_name = "KEY", requires = "devices")]
    pub validator_key: Option<PublicKey>,
    /// Write the challenge to this file instead of standard output
    #[arg(long, value_name = "FILE", requires = "devices")]
    pub out: Option<PathBuf>,
}

/// The most challenges of one command.
const MAX_REPEAT: i64 = 100_000;

/// Arguments of `cancel`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["target", "all"])))]
pub struct CancelArgs {
    /// Challenge to cancel: its id, its miner's key, or the first digits of either (see `assay-validator status`)
    #[arg(value_name = "ID|KEY")]
    pub target: Option<Prefix>,
    /// Cancel every challenge that runs
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// Arguments of `forget`.
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// The miner's key; the first digits suffice while it is connected
    #[arg(value_name = "KEY")]
    pub miner: Prefix,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// Arguments of `key`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct KeyArgs {
    /// What to do, beside showing the key.
    #[command(subcommand)]
    pub command: Option<KeyCommand>,
    /// Print JSON, with the path of the key file
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// What else is done with the key.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Replace the key by a new one, for which the old one vouches for a while
    ///
    /// Miners that pin the old key follow it to the new one until the overlap is over. By then give them the new key. A
    /// running validator goes on with the old key until it is restarted. The old secret key is not kept.
    #[command(after_help = "Examples:
  assay-validator key rotate
  assay-validator key rotate --overlap 12h --key-file /var/lib/assay/validator.key")]
    Rotate(RotateArgs),
}

/// Arguments of `key rotate`.
#[derive(Debug, Args)]
pub struct RotateArgs {
    /// Seconds, minutes, hours, days or weeks (s, m, h, d, w) that the old key vouches for the new one; 0: it does not
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub overlap: Span,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// Arguments of commands about the whole validator.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// Arguments of `miners`.
#[derive(Debug, Args)]
pub struct MinersArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show all columns and whole keys
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
    /// List all miners that the records know, connected or not
    #[arg(long)]
    pub all: bool,
    /// Of these, those with a label; several are given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Of these, those with a status
    #[arg(long, value_parser = ["pending", "approved", "suspended", "revoked"])]
    pub status: Option<String>,
    /// Of these, those in an attestation state
    #[arg(long)]
    pub state: Option<String>,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// The modes of `verify`: those that need no miner to answer.
const FILE_MODES: [Mode; 2] = [Mode::Replay, Mode::ReplaySample];

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Challenge as JSON
    #[arg(long, value_name = "FILE")]
    pub challenge: PathBuf,
    /// Evidence as JSON
    #[arg(long, value_name = "FILE")]
    pub evidence: PathBuf,
    /// Verification mode
    #[arg(long, value_parser = mode_parser(&FILE_MODES))]
    pub mode: Mode,
    /// Iterations per device checked by replay-sample [default: the policy's]
    #[arg(long, value_name = "COUNT")]
    pub sampled_iterations: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<LocalFlags>,
}

/// What is asked about the policy of a fleet.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check a policy file: every problem with its line and field, or the groups that it has
    #[command(after_help = "Examples:
  assay-validator policy check /etc/assay/fleet.toml
  assay-validator policy check fleet.toml --json | jq '.groups[].name'")]
    Check(PolicyCheckArgs),
}

/// Arguments of `policy check`.
#[derive(Debug, Args)]
pub struct PolicyCheckArgs {
    /// Policy file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `check-openings`.
#[derive(Debug, Args)]
pub struct CheckOpeningsArgs {
    /// Openings as JSON; - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Commands about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check all settings, and say where they come from; nothing is started
    ///
    /// Checks what `serve` checks before it makes a file or opens a device: the configuration file, the environment and
    /// the flags. Exit codes: 0 when the configuration is valid, 78 when it is not.
    #[command(after_help = "Examples:
  assay-validator config check
  assay-validator config check --config new.toml && mv new.toml /etc/assay/validator.toml")]
    Check(CheckConfigArgs),
    /// Check all settings and print each with its value and origin
    Show(ShowArgs),
}

/// Arguments of `config check`.
#[derive(Debug, Args)]
pub struct CheckConfigArgs {
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<RawConfig>,
}

/// Arguments of `config show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<RawConfig>,
}

pub mod receipt;
pub mod records;
#[cfg(test)]
mod tests;
