//! The command line of `receipt`.

use std::path::PathBuf;

use assay_log::NoteKey;
use assay_program::prefix::Prefix;
use assay_program::settings::Flags;
use assay_program::span::Span;
use assay_program::utc;
use assay_receipts::EatNonce;
use assay_work::PublicKey;
use clap::{Args, Subcommand};

use super::records::CommonArgs;
use crate::cli::server::ControlFlags;

/// Arguments of `receipt`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct ReceiptCommandArgs {
    /// What to do, beside showing one.
    #[command(subcommand)]
    pub command: Option<ReceiptCommand>,
    /// Receipt or challenge: its id, or the first digits of it
    #[arg(value_name = "ID")]
    pub id: Option<Prefix>,
    /// How it is shown.
    #[command(flatten)]
    pub shown: ShownArgs,
}

/// What else is done with receipts.
#[derive(Debug, Subcommand)]
pub enum ReceiptCommand {
    /// Check a receipt with nothing but the validator's public keys, and print what it states
    ///
    /// Nothing is asked of a validator. Exit codes: 0 when the receipt is valid and its status is affirming, 1 when it is
    /// valid and contraindicated, 2 when it is valid and anything else, 65 when it is refused.
    #[command(after_help = "Examples:
  assay-validator receipt verify receipt.jwt --keys keys.json
  assay-validator receipt verify - --keys keys.json --nonce 00112233445566778899aabbccddeeff < receipt.jwt")]
    Verify(VerifyReceiptArgs),
    /// Compare two receipts of a host, one before and one after: devices, memory, rates, and whose doing a difference is
    ///
    /// Both signatures are checked; that a receipt has expired is no matter. Exit codes: 0 when nothing is worse, 1 when
    /// the host shows less by its own doing, 2 when a receipt does not show enough to say, 65 when one is refused.
    #[command(after_help = "Examples:
  assay-validator receipt compare before.jwt after.jwt --keys keys.json --nonce 00112233445566778899aabbccddeeff
  assay-validator receipt compare monday.jwt today.jwt --keys keys.json --by-model --json")]
    Compare(CompareReceiptsArgs),
    /// Print the public keys that receipts are checked with, as a JWK set
    ///
    /// The signing key is made on first use. Keys before the last rotation are in the set while their overlap lasts.
    #[command(after_help = "Examples:
  assay-validator receipt keys > keys.json")]
    Keys(ReceiptKeysArgs),
    /// Replace the signing key by a new one; the public half of the old one stays in the JWK set for a while
    ///
    /// The validator on the control socket reloads its settings and signs with the new key; with --overlap 0 the exit code
    /// is 2 where it does not. The old secret key is not kept.
    #[command(after_help = "Examples:
  assay-validator receipt rotate
  assay-validator receipt rotate --overlap 0")]
    Rotate(RotateReceiptArgs),
}

/// How a receipt is shown.
#[derive(Debug, Args)]
pub struct ShownArgs {
    /// Print the token alone
    #[arg(long, conflicts_with = "json")]
    pub token: bool,
    /// Print the proof that the validator's log has it (C2SP tlog-proof)
    #[arg(long, conflicts_with_all = ["json", "token"])]
    pub proof: bool,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `receipt verify`.
#[derive(Debug, Args)]
pub struct VerifyReceiptArgs {
    /// Receipt: the token itself, a file with it, or - for standard input
    #[arg(value_name = "TOKEN|FILE", default_value = "-")]
    pub receipt: String,
    /// JWK set of the validator that is trusted
    #[arg(long, value_name = "FILE")]
    pub keys: PathBuf,
    /// Nonce that the receipt must have
    #[arg(long, value_name = "TEXT")]
    pub nonce: Option<EatNonce>,
    /// Public key of the miner that the receipt must be about
    #[arg(long, value_name = "KEY")]
    pub miner: Option<PublicKey>,
    /// Public key of the validator that must have judged
    #[arg(long, value_name = "KEY")]
    pub validator: Option<PublicKey>,
    /// Least memory that the receipt must prove, in GiB
    #[arg(long, value_name = "GIB", default_value_t = 0)]
    pub min_gib: u32,
    /// Accept a receipt that has expired: it states the past
    #[arg(long)]
    pub past: bool,
    /// Proof that the log of the receipt's validator has it, a file
    #[arg(long, value_name = "FILE")]
    pub proof: Option<PathBuf>,
    /// Verifier key of a witness that must have cosigned the log in the proof; may be repeated
    #[arg(long, value_name = "VKEY", requires = "proof", value_parser = NoteKey::witness)]
    pub witness: Vec<NoteKey>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `receipt compare`.
#[derive(Debug, Args)]
pub struct CompareReceiptsArgs {
    /// Earlier receipt: the token itself, or a file with it
    #[arg(value_name = "BEFORE")]
    pub before: String,
    /// Later receipt: the token itself, a file with it, or - for standard input
    #[arg(value_name = "AFTER", default_value = "-")]
    pub after: String,
    /// JWK set of the validators that are trusted; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    pub keys: Vec<PathBuf>,
    /// Nonce that the later receipt must have; without it a host may give an older receipt
    #[arg(long, value_name = "TEXT")]
    pub nonce: Option<EatNonce>,
    /// Compare hosts without a common key, such as those of two tries: devices are matched by the models that they claim
    #[arg(long)]
    pub by_model: bool,
    /// Percent by which a rate may fall
    #[arg(long, value_name = "PERCENT", default_value_t = 15, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub tolerance: u8,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Miner: the first digits of one of its keys; with --receipts each of its keys, given several times
    #[arg(long, value_name = "KEY", required = true)]
    pub miner: Vec<Prefix>,
    /// Month, in UTC
    #[arg(long, value_name = "YYYY-MM", value_parser = utc::month)]
    pub month: (u64, u64),
    /// File with a receipt on each line, as `export` writes them (receipts.jsonl): no validator is asked
    #[arg(long, value_name = "FILE", requires = "keys")]
    pub receipts: Option<PathBuf>,
    /// JWK set of the validators that are trusted, instead of the validator's own; may be repeated
    #[arg(long, value_name = "FILE")]
    pub keys: Vec<PathBuf>,
    /// Also write the report as a page to print
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `receipt keys`.
#[derive(Debug, Args)]
pub struct ReceiptKeysArgs {
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}

/// Arguments of `receipt rotate`.
#[derive(Debug, Args)]
pub struct RotateReceiptArgs {
    /// Seconds, minutes, hours, days or weeks (s, m, h, d, w) that receipts signed with the old key can be checked; 0:
    /// they are given up
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub overlap: Span,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<ControlFlags>,
}
