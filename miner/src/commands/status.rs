//! `assay-miner status`.

use std::io;
use std::path::Path;

use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, print_document};
use assay_program::lock::StateLock;
use assay_program::render::Screen;
use serde_json::json;

use crate::cli::StatusArgs;
use crate::config::MinerConfig;
use crate::render::status::{KeyStatus, text};
use crate::status::file::{path_of, read, touched};

/// Prints the state of the miner with this key file. Ends with 0 when it runs, with 2 when it does not, or hangs.
///
/// # Errors
/// Its files cannot be read, or standard output.
pub fn execute(config: &MinerConfig, args: &StatusArgs) -> anyhow::Result<Exit> {
    let found = find(&config.key_file)?;
    let holder = found.holder.as_ref();
    let (pid, since) = (holder.map(|holder| holder.pid), holder.map(|holder| holder.started));
    let shown = json!({ "running": holder.is_some(), "pid": pid, "since": since, "status": found.status });
    let now_s = unix_seconds();
    print_document(&shown, args.json, || text(&found, &config.key_file, now_s, &Screen::stdout()))?;
    let is_well = found.holder.is_some() && found.silent(now_s).is_none();
    Ok(if is_well { Exit::Done } else { Exit::Inconclusive })
}

fn find(key_file: &Path) -> Result<KeyStatus, Failure> {
    let path = path_of(key_file);
    let status = read(&path).map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied => ": run this as the miner's user, or name another --key-file",
            io::ErrorKind::InvalidData => ": it is not of this version of the miner, or was changed",
            _ => "",
        };
        Failure::because(Exit::Io, format!("cannot read {}{remedy}", path.display()), error)
    })?;
    let holder = StateLock::holder(key_file);
    // The status of an earlier process does not apply to this one.
    let status = status.filter(|status| holder.as_ref().is_none_or(|holder| holder.pid == status.pid));
    Ok(KeyStatus { holder, status, touched: touched(&path) })
}
