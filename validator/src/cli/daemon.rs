//! Arguments of the daemons, `serve` and `replay-worker`, and of `rejudge`, which reads the stored evidence.

use std::path::PathBuf;

use assay_program::prefix::Prefix;
use assay_program::settings::Flags;
use assay_program::span::Span;
use clap::Args;

use crate::config::{RawConfig, StoredFlags, WorkerFlags};

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The settings.
    #[command(flatten)]
    pub settings: Flags<RawConfig>,
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
