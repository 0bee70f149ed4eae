//! `assay-validator export` and `assay-validator backup`: the validator writes, on its machine and as its user.

use std::path::{Path, PathBuf};

use anyhow::Context;
use assay_program::exit::{Exit, print};
use assay_protocol::wire::v1::change_request::Change;
use assay_protocol::wire::v1::{BackupChange, ExportChange, ExportFormat};

use super::{make, text};
use crate::cli::records::{BackupArgs, ExportArgs};
use crate::config::ValidatorConfig;

/// Writes all records into a folder.
///
/// # Errors
/// No validator answers on the socket, or it cannot write there.
pub fn export(config: &ValidatorConfig, args: &ExportArgs) -> anyhow::Result<Exit> {
    let (folder, format) = (absolute(&args.folder)?, ExportFormat::from(args.format).into());
    let made = make(config, Change::Export(ExportChange { folder, format }))?;
    if args.common.json {
        print(&serde_json::to_string_pretty(&made)?)?;
        return Ok(Exit::Done);
    }
    let tables = made["tables"].as_object().into_iter().flatten();
    let rows: Vec<_> = tables.map(|(table, rows)| format!("{rows} {table}")).collect();
    let (folder, schema) = (text(&made, "folder"), &made["schema_version"]);
    print(&format!("exported to {folder}, schema version {schema}: {}", rows.join(", ")))?;
    Ok(Exit::Done)
}

/// Copies the records into a file.
///
/// # Errors
/// No validator answers on the socket, or it cannot write there.
pub fn backup(config: &ValidatorConfig, args: &BackupArgs) -> anyhow::Result<Exit> {
    let made = make(config, Change::Backup(BackupChange { file: absolute(&args.file)? }))?;
    if args.common.json {
        print(&serde_json::to_string_pretty(&made)?)?;
    } else {
        print(&format!("copied to {}: {} bytes", text(&made, "file"), made["bytes"]))?;
    }
    Ok(Exit::Done)
}

/// The path as the validator has to see it, which runs in another folder.
fn absolute(path: &Path) -> anyhow::Result<String> {
    let path: PathBuf = std::path::absolute(path).context("the path cannot be made absolute")?;
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}
