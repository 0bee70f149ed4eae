//! Arguments of `challenge` and `cancel`.

use std::path::PathBuf;

use assay_program::prefix::Prefix;
use assay_protocol::verdict::Mode;
use assay_receipts::EatNonce;
use assay_work::{Precision, PublicKey};
use clap::Args;

use super::records::CommonArgs;
use super::server::ValidatorFlags;
use crate::cli::mode_parser;
use crate::device_spec::DeviceSpec;

/// Selection of a connected miner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MinerChoice {
    /// The only connected one.
    Only,
    /// The one whose key starts with this prefix.
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
    /// The work.
    #[command(flatten)]
    pub work: WorkArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Of a connected miner.
    #[command(flatten)]
    pub live: LiveArgs,
    /// Of a challenge file.
    #[command(flatten)]
    pub file: FileArgs,
    /// Which validator.
    #[command(flatten)]
    pub at: ValidatorFlags,
}

/// The work of a challenge. Absent options follow the policy.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Kind of work: int8, f16, fp8, fp4, field or network [default: the one of the policy's kinds whose turn it is; int8 with --devices]
    #[arg(long)]
    pub kind: Option<Precision>,
    /// Matrix size, a power of two from 256 to 32768 [default: the policy's]
    #[arg(long)]
    pub n: Option<u32>,
    /// Number of passes, from 1 to 65536 [default: the policy's]
    #[arg(long, value_name = "COUNT")]
    pub iterations: Option<u32>,
}

/// What a challenge of a connected miner takes besides.
#[derive(Debug, Args)]
#[command(next_help_heading = "Of connected miners")]
pub struct LiveArgs {
    /// Verification mode [default: the policy's]
    #[arg(long, value_parser = mode_parser(&Mode::ALL), conflicts_with = "devices")]
    pub mode: Option<Mode>,
    /// Samples per device and iteration checked by audit [default: the policy's]
    #[arg(long, value_name = "COUNT", conflicts_with = "devices")]
    pub samples: Option<u32>,
    /// Percentage of the free memory to fill [default: the policy's]
    #[arg(long, value_name = "PERCENT", conflicts_with = "devices")]
    pub fill_percent: Option<u32>,
    /// Nonce of whoever the receipt is for, which is put into it: 9 to 64 bytes in base64url without padding
    #[arg(long, value_name = "TEXT", conflicts_with = "devices")]
    pub eat_nonce: Option<EatNonce>,
    /// File to write the signed receipt of the verdict to
    #[arg(long, value_name = "FILE", conflicts_with_all = ["devices", "all", "detach"])]
    pub receipt: Option<PathBuf>,
    /// Wait until the miner is connected and works on no other challenge, for at most so many seconds if given
    #[arg(long, value_name = "S", num_args = 0..=1, conflicts_with = "devices")]
    pub wait: Option<Option<u64>>,
    /// Print the challenge's id and return; the verdict goes to the validator's log
    #[arg(long, conflicts_with = "devices")]
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
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}
