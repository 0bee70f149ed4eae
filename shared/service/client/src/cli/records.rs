//! The command line of enrolment and records.

use std::path::PathBuf;

use assay_api::{LabelError, MAX_DOCUMENTS, parse_label, parse_name};
use assay_program::span::Span;
use assay_protocol::verdict::Outcome;
use clap::Args;
use clap::builder::NonEmptyStringValueParser as NonEmpty;

use super::one_of;
use super::server::ValidatorFlags;

/// How each of these commands reaches a validator, and prints.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Which validator.
    #[command(flatten)]
    pub at: ValidatorFlags,
}

/// Arguments of `enroll`.
#[derive(Debug, Args)]
pub struct EnrollArgs {
    /// Label of the miner that joins with the token, such as rack=7; several are given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Seconds, minutes, hours, days or weeks (s, m, h, d, w) for which the token can be used
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub expires: Span,
    /// List the tokens that were made, and by whom they were used; none is made
    #[arg(long, conflicts_with_all = ["label", "expires"])]
    pub list: bool,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of the decisions about a miner.
#[derive(Debug, Args)]
pub struct DecideArgs {
    /// Miner: the first digits of one of its keys, or a whole key that never came
    #[arg(value_name = "KEY", value_parser = NonEmpty::new())]
    pub miner: String,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// A change of a label, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelEdit {
    /// `rack=7`.
    Set(String, String),
    /// `-rack`.
    Remove(String),
}

impl std::str::FromStr for LabelEdit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("--") {
            return Err("options come before the miner's key".to_owned());
        }
        let edit = match text.strip_prefix('-') {
            Some(name) => parse_name(name).map(Self::Remove),
            None => parse_label(text).map(|(name, value)| Self::Set(name, value)),
        };
        edit.map_err(|error: LabelError| error.to_string())
    }
}

/// Arguments of `label`.
#[derive(Debug, Args)]
pub struct LabelArgs {
    /// Miner: the first digits of one of its keys
    #[arg(value_name = "KEY", value_parser = NonEmpty::new())]
    pub miner: String,
    /// Labels to set (NAME=VALUE) and to take away (-NAME)
    #[arg(value_name = "NAME=VALUE|-NAME", required = true, allow_hyphen_values = true)]
    pub edits: Vec<LabelEdit>,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `devices`.
#[derive(Debug, Args)]
pub struct ListDevicesArgs {
    /// Device: the first digits of its id
    #[arg(value_name = "ID", value_parser = NonEmpty::new())]
    pub device: Option<String>,
    /// Devices of one miner: the first digits of one of its keys
    #[arg(long, value_name = "KEY", value_parser = NonEmpty::new())]
    pub miner: Option<String>,
    /// Devices of a product, by its whole name
    #[arg(long, value_name = "NAME", value_parser = NonEmpty::new())]
    pub model: Option<String>,
    /// Also devices that their miner does not list any more
    #[arg(long)]
    pub gone: bool,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = MAX_DOCUMENTS, hide_default_value = true)]
    pub limit: u32,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `verdicts`.
#[derive(Debug, Args)]
pub struct VerdictsArgs {
    /// Verdicts on one miner: the first digits of one of its keys
    #[arg(long, value_name = "KEY", value_parser = NonEmpty::new())]
    pub miner: Option<String>,
    /// Verdicts with this outcome
    #[arg(long, value_name = "OUTCOME", value_parser = one_of(Outcome::ALL, Outcome::name))]
    pub outcome: Option<Outcome>,
    /// Verdicts with a reason of this code
    #[arg(long, value_name = "CODE", value_parser = NonEmpty::new())]
    pub code: Option<String>,
    /// Verdicts of the last seconds, minutes, hours, days or weeks (s, m, h, d, w)
    #[arg(long, value_name = "TIME")]
    pub since: Option<Span>,
    /// Verdicts that are older than this
    #[arg(long, value_name = "TIME")]
    pub until: Option<Span>,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub limit: u32,
    /// Print every verdict of the last days, oldest first, then each new one, as a JSON object a line, until it is stopped
    #[arg(long, requires = "json", conflicts_with_all = ["miner", "outcome", "code", "since", "until", "limit"])]
    pub follow: bool,
    /// Follow from the verdict behind this `sequence` of a line on
    #[arg(long, value_name = "SEQUENCE", requires = "follow", default_value_t = 0, hide_default_value = true,
        value_parser = clap::value_parser!(i64).range(0..))]
    pub after: i64,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub struct ShowRecordArgs {
    /// Challenge, miner, device, receipt or round: the first digits of its id or key, or a miner's label `name`
    #[arg(value_name = "ID", value_parser = NonEmpty::new())]
    pub id: String,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `history`.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Miner: the first digits of one of its keys, or its label `name`
    #[arg(value_name = "MINER", value_parser = NonEmpty::new())]
    pub miner: String,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    pub limit: u32,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `round`.
#[derive(Debug, Args)]
pub struct RoundArgs {
    /// Group of the fleet's policy [default: all miners]
    #[arg(long, value_name = "NAME", value_parser = NonEmpty::new())]
    pub group: Option<String>,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Folder to write to, which is made; the validator's user needs to be able to
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Arguments of `backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// File to write, which is not there yet; the validator's user needs to be able to. Or the URL of an empty PostgreSQL
    /// database, postgres://user@host/database, to go on there, while the validator is stopped
    #[arg(value_name = "FILE|URL")]
    pub to: PathBuf,
    /// Check the records first, with their indices, and copy nothing where they are damaged
    #[arg(long)]
    pub check: bool,
    /// What all have.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl BackupArgs {
    /// The URL, where the copy is for a database.
    pub fn url(&self) -> Option<&str> {
        self.to.to_str().filter(|to| to.contains("://"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::super::running::MinersArgs;
    use super::*;

    #[derive(Debug, Parser)]
    struct Line<A: Args> {
        #[command(flatten)]
        args: A,
    }

    fn refusal<A: Args>(line: &[&str]) -> Option<ErrorKind> {
        Line::<A>::try_parse_from(["x"].iter().chain(line)).err().map(|error| error.kind())
    }

    /// Regression test: an empty value of a script's unset variable selected all miners, and `round` challenged them.
    #[test]
    fn an_empty_value_does_not_select_everything() {
        let empty = Some(ErrorKind::InvalidValue);
        assert_eq!(refusal::<RoundArgs>(&["--group", ""]), empty);
        assert_eq!(refusal::<ShowRecordArgs>(&[""]), empty);
        assert_eq!(refusal::<HistoryArgs>(&[""]), empty);
        assert_eq!(refusal::<DecideArgs>(&[""]), empty);
        assert_eq!(refusal::<LabelArgs>(&["", "rack=7"]), empty);
        for line in [&["--miner", ""][..], &["--model", ""], &[""]] {
            assert_eq!(refusal::<ListDevicesArgs>(line), empty, "{line:?}");
        }
        for line in [["--miner", ""], ["--code", ""]] {
            assert_eq!(refusal::<VerdictsArgs>(&line), empty, "{line:?}");
        }
        assert_eq!(refusal::<MinersArgs>(&["--state", ""]), empty);
        assert_eq!(refusal::<RoundArgs>(&["--group", "rented"]), None);
        assert_eq!(refusal::<RoundArgs>(&[]), None);
    }
}
