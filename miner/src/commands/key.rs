//! `assay-miner key`.

use std::io::Write;

use assay_program::exit::{Exit, print};
use serde_json::json;

use crate::cli::KeyArgs;
use crate::config::MinerConfig;

/// Prints the public key, which is made on first use, and says on standard error how a validator comes to allow it.
///
/// # Errors
/// The key file, or standard output.
pub fn execute(config: &MinerConfig, args: &KeyArgs) -> anyhow::Result<Exit> {
    let key = super::identity(&config.key_file)?.public_key();
    if args.json {
        let key_file = config.key_file.display().to_string();
        print(&serde_json::to_string_pretty(&json!({ "miner_key": key, "key_file": key_file }))?)?;
        return Ok(Exit::Done);
    }
    print(&key.to_string())?;
    // Standard output has the key alone, for scripts. Nobody is left to tell when standard error is closed.
    let _ = writeln!(
        std::io::stderr(),
        "To allow this miner on a validator that takes only some:\n  \
         allowed_miners = [\"{key}\"]   in its configuration file, or\n  \
         --allowed-miners {key}"
    );
    Ok(Exit::Done)
}
