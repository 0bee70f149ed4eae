//! Arguments of `log`.

use std::path::PathBuf;

use assay_log::{NoteKey, Source};
use assay_program::span::Span;
use assay_work::PublicKey;
use clap::{Args, Subcommand};

/// Commands on logs of verdicts.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Check a whole log without its validator: every hash, tile and entry, and the signatures of its checkpoint
    ///
    /// Exit codes: 0 when it holds, 1 when it does not, 74 when it cannot be read.
    #[command(after_help = "Examples:
  assay-validator log verify /var/lib/assay/log/KEY --validator KEY
  assay-validator log verify https://validator.example:7480/log/KEY#KEY --validator KEY --witness VKEY")]
    Verify(LogArgs),
    /// Follow a log: keep its last checkpoint, and complain when a new one does not go on from there
    ///
    /// Exit codes: 1 at a rollback, a fork or a change; with --once 0 when all is well, 74 when it cannot be read.
    #[command(after_help = "Examples:
  assay-validator log watch https://validator.example:7480/log/KEY#KEY --validator KEY --state KEY.checkpoint")]
    Watch(WatchLogArgs),
    /// Cosign checkpoints of validators' logs as a witness (C2SP tlog-witness), until SIGTERM or SIGINT
    ///
    /// It refuses rollbacks and forks. Its key and the last checkpoint of each log are in the folder. It prints its
    /// address and key as validators take them in log_witnesses. It speaks plain HTTP: put a proxy with TLS before it.
    #[command(after_help = "Examples:
  assay-validator log witness --listen 127.0.0.1:7490 --state /var/lib/assay-witness --validator KEY")]
    Witness(WitnessArgs),
}

/// Which log, and who signs it.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// Log: its folder, or its URL
    #[arg(value_name = "FOLDER|URL")]
    pub log: Source,
    /// Public key of the validator whose log it is
    #[arg(long, value_name = "KEY")]
    pub validator: PublicKey,
    /// Verifier key of a witness that must have cosigned it; may be repeated
    #[arg(long, value_name = "VKEY", value_parser = NoteKey::witness)]
    pub witness: Vec<NoteKey>,
}

/// Arguments of `log watch`.
#[derive(Debug, Args)]
pub struct WatchLogArgs {
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
    /// File with the last checkpoint
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
    /// Check once, and end
    #[arg(long)]
    pub once: bool,
    /// Seconds, minutes or hours (s, m, h) between checks
    #[arg(long, value_name = "TIME", default_value = "1m", conflicts_with = "once")]
    pub every: Span,
}

/// Arguments of `log witness`.
#[derive(Debug, Args)]
pub struct WitnessArgs {
    /// Address to listen on: host:port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7490")]
    pub listen: String,
    /// Folder of its key and of the last checkpoints
    #[arg(long, value_name = "FOLDER")]
    pub state: PathBuf,
    /// Public key of a validator whose log it cosigns; may be repeated
    #[arg(long, value_name = "KEY", required = true)]
    pub validator: Vec<PublicKey>,
}
