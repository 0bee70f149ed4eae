//! The command line, as typed.

use assay_backends::settings::LONG_VERSION;
use assay_backends::worker_command::WorkerArgs;
use assay_program::settings::{KeyArgs, parse};
use assay_program::{exit, help};
use clap::{Parser, Subcommand};

use self::daemon::{RejudgeArgs, ReplayWorkerArgs, ServeArgs};
use self::files::{CheckOpeningsArgs, VerifyArgs};
use self::key::KeyCommand;
use self::log::LogCommand;
use self::settings::{ConfigCommand, PolicyCommand};
use self::try_host::TryArgs;
use crate::config::absent;
use assay_client::cli::access::{PageArgs, TokenCommand, WebhookCommand};
use assay_client::cli::challenge::{CancelArgs, ChallengeArgs};
use assay_client::cli::receipt::{ReceiptCommandArgs, ReportArgs};
use assay_client::cli::records::{
    BackupArgs, CommonArgs, DecideArgs, EnrollArgs, ExportArgs, HistoryArgs, LabelArgs, ListDevicesArgs, RoundArgs,
    ShowRecordArgs, VerdictsArgs,
};
use assay_client::cli::running::{ForgetArgs, MinersArgs, WatchArgs};
use assay_client::cli::server::ControlFlags;

const ABOUT: &str = "Challenges miners to prove their compute and memory, and judges what they answer";

const LAYERS: &str = "Settings have four layers, each overriding the one before: defaults, the file given by --config (or \
     ASSAY_VALIDATOR_CONFIG, or else /etc/assay/validator.toml if it exists), environment variables, flags. --max-miners 9 is max_miners = 9 in the file and ASSAY_VALIDATOR_MAX_MINERS=9 in \
     the environment. Unknown keys are errors.";

const EXAMPLES: &str = "Examples:
  assay-validator serve
  assay-validator miners
  assay-validator status
  assay-validator watch
  assay-validator challenge --miner only
  assay-validator challenge --devices 3x64 --miner-key KEY --out challenge.json
  assay-validator verify --challenge challenge.json --evidence evidence.json --mode replay
  assay-validator config show --config /etc/assay/validator.toml";

/// Groups of commands by purpose.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Run", &["serve", "replay-worker"]),
    ("Look", &["status", "watch", "page", "miners", "devices", "verdicts", "show", "history"]),
    ("Challenge", &["try", "challenge", "round", "cancel"]),
    (
        "Decide about miners",
        &["enroll", "approve", "suspend", "resume", "quarantine", "release", "revoke", "label", "forget"],
    ),
    ("Keys, tokens and receipts", &["address", "key", "receipt", "token", "webhook"]),
    ("Records, evidence and files", &["report", "export", "backup", "rejudge", "log", "verify", "check-openings"]),
    ("Configuration", &["config", "policy", "reload"]),
];

/// Settings shown by `serve -h`; `--help` shows all.
const FIRST: [&str; 12] = [
    "config",
    "listen",
    "advertise",
    "enrolment",
    "mode",
    "challenge_interval_s",
    "fleet_policy",
    "http_listen",
    "key_file",
    "records",
    "backend",
    "log",
];

/// The validator's command line.
#[derive(Debug, Parser)]
#[command(name = "assay-validator", version, long_version = LONG_VERSION.as_str(), about = ABOUT, max_term_width = 120)]
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
        parse(std::env::args_os(), absent)
    }
}

/// The validator's commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve miners until SIGTERM or SIGINT, then drain; a second signal stops at once
    #[command(mut_args(|argument| help::first(argument, &FIRST)))]
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
  assay-validator challenge --devices 3x64 --miner-key KEY --out challenge.json
  assay-validator challenge --devices ID:64,ID:32 --n 1024 --iterations 2 --miner-key KEY")]
    Challenge(ChallengeArgs),
    /// Try a host over ssh: copy the miner there, audit it, print the verdict, and leave nothing behind
    ///
    /// Needs ssh here, sshd there, and no daemon or open port on either side: the miner dials a validator of this process
    /// through the ssh connection, with keys of this run alone. Exit codes are those of `challenge`; a host that cannot be
    /// tried ends with 2.
    #[command(after_help = "Examples:
  assay-validator try root@gpu7.example
  assay-validator try ssh://gpu7.example:2222 --kinds int8,f16 --seconds 600 --receipt gpu7.jwt
  assay-validator try gpu7 --miner-option=--backend=cuda --ssh-option IdentityFile=~/.ssh/gpu")]
    Try(TryArgs),
    /// Cancel challenges that run: their verdicts are inconclusive, and count against nobody
    #[command(after_help = "Examples:
  assay-validator cancel 1894846d
  assay-validator cancel --all")]
    Cancel(CancelArgs),
    /// Show what a running validator does: miners, challenges, verdicts, whether it records and drains
    ///
    /// Exit codes: 0 when it serves; 2 when it does not: verdicts cannot be written, or it drains; 74 when none answers.
    #[command(after_help = "Examples:
  assay-validator status
  assay-validator status --json | jq '.challenges[].challenge_id'")]
    Status(CommonArgs),
    /// Follow the fleet in the terminal: who passes and who does not, challenges that run, the last verdicts
    #[command(after_help = "Examples:
  assay-validator watch
  assay-validator watch --server https://validator.example:7480#KEY --token-file read.token --filter rack=7")]
    Watch(WatchArgs),
    /// Print what a miner needs to reach this validator, as one string: assay://HOST:PORT#KEY
    ///
    /// The key is that of the validator, which is made on first use; the address is `advertise`, else `listen`. A miner
    /// takes the string as its --validator. Beside a running validator, a --key-file with another key is refused.
    #[command(after_help = "Examples:
  assay-validator address
  assay-miner run --validator \"$(assay-validator address)\"")]
    Address(CommonArgs),
    /// Have a running validator read its configuration again, as SIGHUP does, and say what changed
    Reload(CommonArgs),
    /// Have a running validator forget the devices that a miner showed before, after it was rebuilt
    #[command(after_help = "Examples:
  assay-validator forget 7b41c09e")]
    Forget(ForgetArgs),
    /// Print the validator's public key, which is made on first use, or replace it
    #[command(after_help = "Examples:
  assay-validator key
  assay-validator key --json --key-file /var/lib/assay/validator.key
  assay-validator key rotate --overlap 30d")]
    Key(KeyArgs<ControlFlags, KeyCommand>),
    /// Show, check or manage receipts: signed results that others can check without this validator
    ///
    /// With an id, the receipt with that id or of that challenge is shown.
    #[command(after_help = "Examples:
  assay-validator receipt 1894846d
  assay-validator receipt 1894846d --token > receipt.jwt
  assay-validator receipt keys > keys.json
  assay-validator receipt verify receipt.jwt --keys keys.json --nonce 00112233445566778899aabbccddeeff
  assay-validator receipt rotate --overlap 30d")]
    Receipt(ReceiptCommandArgs),
    /// Report on a miner's month from its receipts: time with proof, capacity, devices, changes
    ///
    /// Every receipt's signature is checked, and figures name the receipts that they rest on. With --receipts no
    /// validator is asked.
    #[command(after_help = "Examples:
  assay-validator report --miner 7b41c09e --month 2026-11 --html report.html
  assay-validator report --miner 7b41c09e --month 2026-11 --receipts receipts.jsonl --keys keys.json --json")]
    Report(ReportArgs),
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
    /// Make, list and revoke tokens of the HTTP API, for programs and for commands with --server
    #[command(subcommand)]
    Token(TokenCommand),
    /// Add, list, remove and test webhooks: servers that are sent events
    #[command(subcommand)]
    Webhook(WebhookCommand),
    /// Print an address that opens the validator's page once, logged in
    #[command(after_help = "Examples:
  assay-validator page
  assay-validator page --role read")]
    Page(PageArgs),
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
    /// Set a miner apart until it is released: it is challenged, and its passes do not count
    Quarantine(DecideArgs),
    /// End a miner's quarantine; the passes that it owes stay owed
    Release(DecideArgs),
    /// Set labels of a miner, and take others away
    #[command(after_help = "Examples:
  assay-validator label 7b41c09e rack=7 operator=north -spare")]
    Label(LabelArgs),
    /// Challenge the members of a group in the same moment, so that one device cannot stand in for two
    ///
    /// Waits until the last one is judged, and says who did not start in time. Exit codes: 0 when all passed, 1 when one
    /// failed, 2 otherwise.
    #[command(after_help = "Examples:
  assay-validator round --group north --json")]
    Round(RoundArgs),
    /// List the devices that miners have listed
    #[command(after_help = "Examples:
  assay-validator devices --miner 7b41c09e
  assay-validator devices 1894846d --gone")]
    Devices(ListDevicesArgs),
    /// List verdicts, newest first
    #[command(after_help = "Examples:
  assay-validator verdicts --outcome fail --since 7d
  assay-validator verdicts --miner 7b41c09e --json | jq '.[].verdict.whole.tops'
  assay-validator verdicts --json --follow >> verdicts.jsonl")]
    Verdicts(VerdictsArgs),
    /// Show a challenge, miner, device, receipt or round with all that is behind it
    #[command(after_help = "Examples:
  assay-validator show 1894846d
  assay-validator show 7b41c09e --json | jq '.actions'")]
    Show(ShowRecordArgs),
    /// Show what happened to a miner, newest first
    History(HistoryArgs),
    /// Write all records into files of JSON Lines
    #[command(after_help = "Examples:
  assay-validator export /var/lib/assay/export")]
    Export(ExportArgs),
    /// Copy the records, as they are at one moment: into a file while the validator runs, or into PostgreSQL
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
    /// Check, follow or witness a validator's log of verdicts
    #[command(subcommand)]
    Log(LogCommand),
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
    /// Compute replays on this machine's devices for validators that share the records, until SIGTERM or SIGINT
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
    #[command(hide = true)]
    Worker(WorkerArgs),
}

pub mod daemon;
pub mod files;
pub mod key;
pub mod log;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod try_host;
