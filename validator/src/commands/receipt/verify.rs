//! `assay-validator receipt verify`.

use std::path::Path;

use assay_program::exit::{Exit, Failure, print};
use assay_program::file;
use assay_program::render::Screen;
use assay_receipts::{Expect, KeySet, MAX_KEY_SET_BYTES, MAX_TOKEN_BYTES, ReceiptError, Tier, verify};
use serde_json::json;

use super::render;
use crate::cli::receipt::VerifyReceiptArgs;
use crate::clock::unix_seconds;

/// Seconds that the validator's clock may differ from this one.
const LEEWAY_S: u64 = 60;

/// Checks a receipt.
///
/// # Errors
/// A file that cannot be read, a set without keys; without `--json`, a receipt that is refused.
pub fn execute(args: &VerifyReceiptArgs) -> anyhow::Result<Exit> {
    let set = file::read_at_most(&args.keys, MAX_KEY_SET_BYTES as u64)?;
    let keys =
        KeySet::parse(&set).map_err(|error| Failure::new(Exit::Data, format!("{}: {error}", args.keys.display())))?;
    let token = token(&args.receipt)?;
    let expect = Expect { nonce: args.nonce.as_ref(), now_s: unix_seconds(), leeway_s: LEEWAY_S };
    let claims = match verify(token.trim(), &keys, &expect) {
        Ok(claims) => claims,
        Err(error) => return refused(&error, args.json),
    };
    if args.json {
        print(&format!("{:#}", json!({ "valid": true, "claims": claims })))?;
    } else {
        print(&format!("VALID  {}", render::text(&claims, &Screen::stdout())))?;
    }
    Ok(exit_of(claims.ear_status))
}

fn refused(error: &ReceiptError, as_json: bool) -> anyhow::Result<Exit> {
    if !as_json {
        return Err(Failure::new(Exit::Data, format!("the receipt is refused: {error}")).into());
    }
    print(&format!("{:#}", json!({ "valid": false, "code": error.code(), "error": error.to_string() })))?;
    Ok(Exit::Data)
}

/// The token itself, or the content of a file. Names of files have no two dots after `eyJ`, as every token has.
fn token(argument: &str) -> Result<String, Failure> {
    if argument.starts_with("eyJ") && argument.matches('.').count() == 2 {
        return Ok(argument.to_owned());
    }
    // A line's end after the largest token.
    file::read_at_most(Path::new(argument), MAX_TOKEN_BYTES as u64 + 2)
}

const fn exit_of(status: Tier) -> Exit {
    match status {
        Tier::Affirming => Exit::Done,
        Tier::Contraindicated => Exit::Fail,
        Tier::None | Tier::Warning => Exit::Inconclusive,
    }
}
