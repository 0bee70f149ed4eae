//! `assay-validator backup URL`: the records go into a database of PostgreSQL while no validator writes them.

use anyhow::Context;
use assay_client::cli::records::BackupArgs;
use assay_client::commands::records::copies::refuse_server;
use assay_client::place::ApiLocation;
use assay_program::exit::{Exit, Failure, chain, print_document};
use assay_records::{Location, RecordsError};

use super::serve::{lock_records, open_records};
use crate::config::ValidatorConfig;
use crate::{preflight, records_setting};

/// Copies the records of a validator that is stopped, so that none are missing in the copy.
///
/// # Errors
/// A validator has the records open, they are not in a file, or the database is not an empty one.
pub fn execute(config: &ValidatorConfig, url: &str, args: &BackupArgs) -> anyhow::Result<Exit> {
    refuse_server(&ApiLocation::of(&config.control_socket, &args.common.at.server)?)?;
    let to: Location = url.parse().map_err(|error| Failure::new(Exit::Usage, format!("{error}")))?;
    if matches!(to, Location::File(_)) {
        return Err(Failure::new(Exit::Usage, "not the URL of a database").into());
    }
    if let Some(why) = records_setting::problem(url) {
        return Err(Failure::new(Exit::Usage, why).into());
    }
    if matches!(&config.records, Location::File(path) if !path.exists()) {
        return Err(Failure::new(Exit::Io, format!("there are no records at {}", config.records)).into());
    }
    let key = preflight::own_identity(config)?.public_key();
    let _lock = lock_records(&config.records, key)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let copied = runtime.block_on(async {
        let records = open_records(&config.records).await?;
        let failed = |error: RecordsError| Failure::new(Exit::Io, chain(&error));
        if args.check {
            records.refuse_damage().await.map_err(failed)?;
        }
        let copied = records.copy_into(&to).await.map_err(failed);
        records.close().await;
        copied
    })?;
    Ok(print_document(&copied, args.common.json, || {
        format!(
            "copied to {to}: {} rows; set records to this URL before the validator starts again",
            copied.tables.values().sum::<u64>()
        )
    })?)
}
