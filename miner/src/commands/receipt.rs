//! `assay-miner receipt`.

use std::io::Write;

use assay_program::exit::{Exit, Failure, print};

use crate::config::MinerConfig;
use crate::receipt::{path_of, read};
use crate::status::{UNKNOWN, VerdictStatus, file};

/// Prints the receipt of the last verdict. Ends with 2 where the miner has no receipt.
///
/// # Errors
/// The file, or standard output.
pub fn execute(config: &MinerConfig) -> anyhow::Result<Exit> {
    let path = path_of(&config.key_file);
    let found =
        read(&path).map_err(|error| Failure::because(Exit::Io, format!("cannot read {}", path.display()), error))?;
    let none =
        || Failure::new(Exit::Inconclusive, "no verdict came with a receipt yet, or the last one could not be kept");
    let receipt = found.ok_or_else(none)?;
    let last = file::read(&file::path_of(&config.key_file)).ok().flatten().and_then(|status| status.last_verdict);
    if let Some(VerdictStatus { challenge_id, .. }) = last.filter(|last| last.outcome == UNKNOWN) {
        // The line cannot be shown when standard error is closed.
        let _ = writeln!(
            std::io::stderr(),
            "warning: the session ended before the verdict on challenge {challenge_id}: this is the receipt of an earlier one"
        );
    }
    print(&receipt)?;
    Ok(Exit::Done)
}
