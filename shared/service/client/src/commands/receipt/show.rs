//! `assay-validator receipt ID`: a receipt from the records of a running validator.

use assay_program::exit::{Exit, Failure, print};
use assay_program::prefix::Prefix;
use assay_program::render::Screen;
use assay_receipts::{Claims, read_trusted};
use serde_json::{Value, json};

use super::render;
use crate::cli::receipt::ShownArgs;
use crate::commands::records::{ask, found};
use crate::escaped;
use crate::place::ApiLocation;

/// Shows the receipt with this id, or the receipt of the challenge with this id.
///
/// # Errors
/// No validator answers, or it has no receipt of that id.
pub fn execute(place: &ApiLocation, id: &Prefix, shown: &ShownArgs) -> anyhow::Result<Exit> {
    let mut record = receipt_of(found(place, &id.to_string())?).ok_or_else(|| {
        Failure::new(Exit::Inconclusive, format!("{id} is no receipt, and no challenge that has one: see `show {id}`"))
    })?;
    let token = record["token"].as_str().unwrap_or_default().to_owned();
    if record["log_proof"].is_null() && (shown.proof || shown.common.json) {
        // A challenge's receipt comes without.
        let of = record["id"].as_str().unwrap_or_default();
        record = ask(place, async |client| client.get(&format!("/receipts/{}", escaped(of))).await)?;
    }
    if shown.proof {
        let later = || {
            Failure::new(
                Exit::Inconclusive,
                "the receipt is not in this validator's log yet, or is another validator's",
            )
        };
        print(record["log_proof"].as_str().ok_or_else(later)?.trim_end_matches('\n'))?;
        return Ok(Exit::Done);
    }
    if shown.token {
        print(&token)?;
        return Ok(Exit::Done);
    }
    if shown.common.json {
        record["claims"] = json!(claims(&token)?);
        print(&format!("{record:#}"))?;
    } else {
        print(&text(&token, &Screen::stdout())?)?;
    }
    Ok(Exit::Done)
}

/// The text of a recorded receipt.
///
/// # Errors
/// The token is malformed.
pub fn text(token: &str, screen: &Screen) -> Result<String, Failure> {
    Ok(render::text(&claims(token)?, screen))
}

fn claims(token: &str) -> Result<Claims, Failure> {
    read_trusted(token).map_err(|error| Failure::new(Exit::Data, error.to_string()))
}

/// The receipt in a document: itself, or the last one of a challenge.
fn receipt_of(mut found: Value) -> Option<Value> {
    if found["token"].is_string() {
        return Some(found);
    }
    found.get_mut("receipts")?.as_array_mut()?.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_found_by_its_id_or_its_challenges() {
        let receipt = json!({ "id": "a", "token": "a.b.c" });
        assert_eq!(receipt_of(receipt.clone()), Some(receipt.clone()));
        assert_eq!(receipt_of(json!({ "found": "challenge", "receipts": [1, receipt] })), Some(receipt));
        for other in [json!({ "found": "miner" }), json!({ "receipts": [] }), Value::Null] {
            assert_eq!(receipt_of(other), None);
        }
    }
}
