//! `assay-validator export` and `assay-validator backup`: the validator writes, on its machine and as its user.

use std::path::{Path, PathBuf};

use anyhow::Context;
use assay_api::{BackupRequest, ExportRequest, ProblemCode};
use assay_program::exit::{Exit, Failure, print_document};
use serde::Serialize;
use serde_json::Value;

use super::{ask, text};
use crate::cli::records::{BackupArgs, ExportArgs};
use crate::failure::ClientError;
use crate::place::ApiLocation;

/// Writes all records into a folder.
///
/// # Errors
/// No validator answers, or it cannot write there.
pub fn export(place: &ApiLocation, args: &ExportArgs) -> anyhow::Result<Exit> {
    let export = ExportRequest { folder: absolute(&args.folder)? };
    let made = written(place, "/export", &export)?;
    Ok(print_document(&made, args.common.json, || {
        let tables = made["tables"].as_object().into_iter().flatten();
        let rows: Vec<_> = tables.map(|(table, rows)| format!("{rows} {table}")).collect();
        let (folder, schema) = (text(&made, "folder"), &made["schema_version"]);
        format!("exported to {folder}, schema version {schema}: {}", rows.join(", "))
    })?)
}

/// Copies the records into a file.
///
/// # Errors
/// No validator answers, or it cannot write there.
pub fn backup(place: &ApiLocation, args: &BackupArgs) -> anyhow::Result<Exit> {
    let made = written(place, "/backup", &BackupRequest { file: absolute(&args.to)?, check: args.check })?;
    Ok(print_document(&made, args.common.json, || {
        format!("copied to {}: {} bytes", text(&made, "file"), made["bytes"])
    })?)
}

/// Refuses a validator of another machine.
///
/// # Errors
/// [`Exit::Usage`].
pub fn refuse_server(place: &ApiLocation) -> Result<(), Failure> {
    let message = "the validator writes into files of its own machine: run this command there, without --server (and \
                   without ASSAY_VALIDATOR_SERVER)";
    if place.is_socket() { Ok(()) } else { Err(Failure::new(Exit::Usage, message)) }
}

/// Has the validator write, without a time limit.
fn written(place: &ApiLocation, path: &str, what: &impl Serialize) -> anyhow::Result<Value> {
    refuse_server(place)?;
    ask(place, async |client| client.post_slow(path, what).await.map_err(not_written))
}

/// A copy that cannot be written ends as any other file does.
fn not_written(error: ClientError) -> ClientError {
    let is_refused = matches!(error.code(), Some(ProblemCode::NotPossible | ProblemCode::Records));
    if is_refused { ClientError::Failed(Failure { exit: Exit::Io, ..error.into() }) } else { error }
}

/// The absolute path, since the validator runs in another folder.
fn absolute(path: &Path) -> anyhow::Result<String> {
    let path: PathBuf = std::path::absolute(path).context("the path cannot be made absolute")?;
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}
