//! `assay-miner receipt`.

use assay_program::exit::{Exit, Failure, print};

use crate::config::MinerConfig;
use crate::receipt::{path_of, read};

/// Prints the receipt of the last verdict. Ends with 2 where the miner has no receipt.
///
/// # Errors
/// The file, or standard output.
pub fn execute(config: &MinerConfig) -> anyhow::Result<Exit> {
    let path = path_of(&config.key_file);
    let found =
        read(&path).map_err(|error| Failure::because(Exit::Io, format!("cannot read {}", path.display()), error))?;
    let none = || Failure::new(Exit::Inconclusive, "no verdict came with a receipt yet");
    print(&found.ok_or_else(none)?)?;
    Ok(Exit::Done)
}
