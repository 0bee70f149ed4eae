//! Arguments of `try`.

use std::path::PathBuf;

use assay_work::Precision;
use clap::Args;

/// Arguments of `try`.
#[derive(Debug, Args)]
pub struct TryArgs {
    /// Host to try, as ssh names it: host, user@host, a Host of ~/.ssh/config, or ssh://user@host:port
    #[arg(value_name = "HOST", value_parser = destination)]
    pub host: String,
    /// Kinds of work, as a comma-separated list of int8, f16, fp8, fp4, field and network: one challenge of each [default: the policy's]
    #[arg(long, value_delimiter = ',')]
    pub kinds: Vec<Precision>,
    /// Challenge again, in turn, for so many seconds or until a verdict is no pass
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seconds: u32,
    /// Matrix size, a power of two from 256 to 32768 [default: the policy's]
    #[arg(long)]
    pub n: Option<u32>,
    /// Number of passes of a challenge, from 1 to 65536 [default: the policy's]
    #[arg(long, value_name = "COUNT")]
    pub iterations: Option<u32>,
    /// Percentage of the free memory to fill
    #[arg(long, value_name = "PERCENT")]
    pub fill_percent: Option<u32>,
    /// Fields of the policy, as `policy_fields` has them
    #[arg(long, value_name = "FIELDS")]
    pub policy_fields: Option<String>,
    /// File to write the signed receipt of the last verdict to; the keys that check it, of this run alone, go into FILE.keys.json
    #[arg(long, value_name = "FILE")]
    pub receipt: Option<PathBuf>,
    /// The miner's program for the host [default: assay-miner beside this program]
    #[arg(long, value_name = "FILE")]
    pub miner_program: Option<PathBuf>,
    /// Option of the miner, such as --backend=cuda or --device=0; several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, value_parser = miner_option)]
    pub miner_option: Vec<String>,
    /// Option of ssh, as its -o takes it; several times
    #[arg(long, value_name = "OPTION")]
    pub ssh_option: Vec<String>,
    /// Print JSON, a document for each challenge
    #[arg(long)]
    pub json: bool,
}

/// A destination that ssh cannot take for an option.
fn destination(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("ssh://").unwrap_or(text);
    if name.is_empty() || text.starts_with('-') || name.starts_with('-') {
        return Err("expected [user@]host or ssh://[user@]host[:port]".to_owned());
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("a host has no spaces".to_owned());
    }
    Ok(text.to_owned())
}

/// An option that the host's shell leaves as it is.
fn miner_option(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%^".contains(c);
    if text.starts_with("--") && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err("expected --NAME=VALUE, of letters, digits and - _ = . , : / % ^".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_no_option_of_ssh() {
        for good in ["gpu7", "root@10.0.0.1", "ssh://root@gpu7:2222", "ssh://[fe80::1]:22"] {
            assert_eq!(destination(good).unwrap(), good);
        }
        for bad in ["", "ssh://", "-oProxyCommand=id", "ssh://-oProxyCommand=id", "a b", "a\nb"] {
            assert!(destination(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_option_of_the_miner_says_nothing_to_a_shell() {
        for good in ["--backend=cuda", "--device=^0,1", "--cpu-memory=64MiB"] {
            assert_eq!(miner_option(good).unwrap(), good);
        }
        for bad in ["", "backend", "--backend=$(id)", "--backend=a b", "--backend=`id`", "--log=*;id", "--device=\"0\""]
        {
            assert!(miner_option(bad).is_err(), "{bad:?}");
        }
    }
}
