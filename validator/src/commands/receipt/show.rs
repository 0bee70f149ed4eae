//! `assay-validator receipt ID`: a receipt from the records of a running validator.

use assay_program::exit::{Exit, Failure, print};
use assay_program::prefix::Prefix;
use assay_program::render::Screen;
use assay_receipts::read_trusted;
use serde_json::{Value, json};

use super::render;
use crate::cli::receipt::ShownArgs;
use crate::config::ValidatorConfig;

/// Shows a receipt.
///
/// # Errors
/// No validator on the socket, or nothing of that id.
pub fn execute(_config: &ValidatorConfig, id: &Prefix, _shown: &ShownArgs) -> anyhow::Result<Exit> {
    Err(Failure::new(Exit::Internal, format!("receipts cannot be looked up yet: {id}")).into())
}

/// Prints a receipt as the records have it: an object with the `token`.
///
/// # Errors
/// A record without a token, or standard output.
pub fn print_record(mut record: Value, shown: &ShownArgs) -> anyhow::Result<()> {
    let token = record["token"].as_str().unwrap_or_default().to_owned();
    if shown.token {
        return Ok(print(&token)?);
    }
    let claims = read_trusted(&token).map_err(|error| Failure::new(Exit::Data, error.to_string()))?;
    if shown.json {
        record["claims"] = json!(claims);
        return Ok(print(&format!("{record:#}"))?);
    }
    Ok(print(&render::text(&claims, &Screen::stdout()))?)
}
