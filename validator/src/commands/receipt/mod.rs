//! `assay-validator receipt`.

mod keys;
mod render;
mod show;
mod verify;

use assay_program::exit::{Exit, Failure};
use assay_receipts::SignerError;
use assay_transport::own_key;

pub use self::show::text;
use super::{configure, place};
use crate::cli::receipt::{ReceiptArgs, ReceiptCommand};

/// Runs `assay-validator receipt`.
///
/// # Errors
/// The failure of the command. With `--json` a refused receipt is a result, not an error.
pub fn execute(args: ReceiptArgs) -> anyhow::Result<Exit> {
    match (args.command, args.id) {
        (Some(ReceiptCommand::Show(args)), _) => show::execute(&*place(&args.shown.at)?, &args.id, &args.shown),
        (Some(ReceiptCommand::Verify(args)), _) => verify::execute(&args),
        (Some(ReceiptCommand::Keys(args)), _) => keys::print_set(&*configure(&args.settings)?),
        (Some(ReceiptCommand::Rotate(args)), _) => keys::rotate(&*configure(&args.settings)?, &args),
        (None, Some(id)) => show::execute(&*place(&args.shown.at)?, &id, &args.shown),
        (None, None) => Err(Failure::new(Exit::Usage, "name a receipt or a challenge by its id").into()),
    }
}

/// The failure when the signing key cannot be used.
pub fn failure(error: SignerError) -> Failure {
    match error {
        SignerError::Key(error) => own_key::failure(error),
        error @ SignerError::KeySet { .. } => {
            let message = error.to_string();
            Failure::because(Exit::Io, message, error)
        }
    }
}
