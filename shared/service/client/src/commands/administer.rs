//! `assay-validator reload` and `assay-validator forget`: changes to a running validator.

use assay_api::{ForgottenDevices, ProblemCode, ReloadResult};
use assay_program::exit::{Exit, Failure, print, print_document};
use assay_program::render::units::counted;
use assay_work::text::printable;

use super::records::ask;
use crate::cli::records::CommonArgs;
use crate::cli::running::ForgetArgs;
use crate::place::ApiLocation;
use crate::{Client, ClientError};

/// Bytes of a key in hexadecimal.
const MAX_KEY_BYTES: usize = 64;
/// The most bytes shown of a validator's sentence about its configuration.
const MAX_SENTENCE_BYTES: usize = 4096;

/// Has a running validator reload its configuration, and prints the changes.
///
/// # Errors
/// No validator answers, or it refuses the configuration.
pub fn reload(place: &ApiLocation, args: &CommonArgs) -> anyhow::Result<Exit> {
    let answer: ReloadResult = crate::block_on(async {
        Ok(Client::of(place).act("/reload").await.map_err(|error| match error {
            ClientError::Refused(problem) if problem.code == ProblemCode::Configuration => {
                Failure::new(Exit::Config, printable(&problem.detail, MAX_SENTENCE_BYTES))
            }
            other => other.into(),
        })?)
    })?;
    Ok(print_document(&answer, args.json, || {
        let mut shown = match answer.changed.as_slice() {
            [] => "no setting in effect has changed; log files are reopened".to_owned(),
            changed => format!("in effect now: {}", changed.join(", ")),
        };
        if !answer.need_restart.is_empty() {
            shown += &format!("\ntake a restart: {}", answer.need_restart.join(", "));
        }
        shown
    })?)
}

/// Has a running validator forget the devices that a miner showed.
///
/// # Errors
/// No validator answers, or no miner has the key.
pub fn forget(place: &ApiLocation, args: &ForgetArgs) -> anyhow::Result<Exit> {
    let path = format!("/miners/{}/known-devices", args.miner);
    let ForgottenDevices { miner, devices } = ask(place, async |client| client.delete(&path).await)?;
    if args.common.json {
        print(&serde_json::json!({ "miner_key": miner, "devices": devices }).to_string())?;
    } else {
        print(&format!("forgot {} of miner {}", counted(devices.into(), "device"), printable(&miner, MAX_KEY_BYTES)))?;
    }
    Ok(Exit::Done)
}
