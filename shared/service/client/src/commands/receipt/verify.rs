//! `assay-validator receipt verify`.

use assay_log::{LogError, MAX_PROOF_BYTES, NoteKey, ReceiptProof, log_key};
use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, print, print_document};
use assay_program::file;
use assay_program::render::Screen;
use assay_receipts::{Claims, ReceiptError, ReceiptExpectations, Tier, verify};
use serde_json::json;

use super::input::LEEWAY_S;
use super::{input, render};
use crate::cli::receipt::VerifyReceiptArgs;

/// Checks a receipt.
///
/// # Errors
/// An unreadable file; without `--json` also a set without keys, or a refused receipt.
pub fn execute(args: &VerifyReceiptArgs) -> anyhow::Result<Exit> {
    let (claims, logged) = match checked(args) {
        Ok(checked) => checked,
        Err(ReceiptRefusal { code, failure }) if args.json && failure.exit == Exit::Data => {
            print(&format!("{:#}", json!({ "valid": false, "code": code, "error": failure.message })))?;
            return Ok(Exit::Data);
        }
        Err(ReceiptRefusal { failure, .. }) => return Err(failure.into()),
    };
    let mut document = json!({ "valid": true, "claims": claims });
    let mut log = String::new();
    if let Some(LoggedReceipt { index, size }) = logged {
        let witnesses: Vec<_> = args.witness.iter().map(ToString::to_string).collect();
        log = match witnesses.is_empty() {
            true => "no witness was named: a log made for this receipt alone passes too".to_owned(),
            false => format!("cosigned by {}", witnesses.join(", ")),
        };
        log = format!("\n{size} entries are in the log, this receipt at index {index}; {log}");
        document["log"] = json!({ "index": index, "size": size, "witnesses": witnesses });
    }
    print_document(&document, args.json, || format!("VALID  {}{log}", render::text(&claims, &Screen::stdout())))?;
    Ok(exit_of(claims.ear_status))
}

/// A refused receipt: a stable code, and the command's failure.
struct ReceiptRefusal {
    code: &'static str,
    failure: Failure,
}

/// The place of a receipt in the log of its validator.
struct LoggedReceipt {
    index: u64,
    size: u64,
}

fn checked(args: &VerifyReceiptArgs) -> Result<(Claims, Option<LoggedReceipt>), ReceiptRefusal> {
    let of_keys = |failure| ReceiptRefusal { code: "key_set", failure };
    let keys = input::keys(&args.keys).map_err(of_keys)?;
    let token = input::token(&args.receipt).map_err(|failure| ReceiptRefusal { code: "too_large", failure })?;
    let expect = ReceiptExpectations {
        nonce: args.nonce.as_ref(),
        miner: args.miner,
        validator: args.validator,
        min_bytes: 0,
        may_have_expired: args.past,
        now_s: unix_seconds(),
        leeway_s: LEEWAY_S,
    };
    let refused = |error: ReceiptError| ReceiptRefusal {
        code: error.code(),
        failure: Failure::new(Exit::Data, format!("the receipt is refused: {error}")),
    };
    let claims = verify(token.trim(), &keys, &expect).map_err(refused)?;
    let host = &claims.submods.host.ear_verifier_claims;
    let (expected, found) = (u64::from(args.min_gib) << 30, host.proven.map_or(0, |proven| proven.bytes));
    // A fail proves no memory: its status says more.
    if found < expected && matches!(claims.ear_status, Tier::Affirming | Tier::Warning) {
        return Err(refused(ReceiptError::TooLittleMemory { expected, found }));
    }
    let mut of_receipt = None;
    if let Some(proof) = &args.proof {
        let of_log = |failure| ReceiptRefusal { code: "log_proof", failure };
        let proof = file::read_at_most(proof, MAX_PROOF_BYTES as u64).map_err(of_log)?;
        let refused = |error: LogError| of_log(Failure::new(Exit::Data, format!("the proof is refused: {error}")));
        of_receipt = Some(logged(&proof, token.trim(), &claims, &args.witness).map_err(refused)?);
    }
    Ok((claims, of_receipt))
}

/// Checks that the log of the receipt's validator has it.
fn logged(proof: &str, token: &str, claims: &Claims, witnesses: &[NoteKey]) -> Result<LoggedReceipt, LogError> {
    let challenge = claims.submods.host.ear_verifier_claims.challenge_id;
    let proof = proof.parse::<ReceiptProof>()?;
    let signed = proof.check((challenge, token), &log_key(claims.iss), witnesses)?;
    Ok(LoggedReceipt { index: proof.index, size: signed.checkpoint.size })
}

const fn exit_of(status: Tier) -> Exit {
    match status {
        Tier::Affirming => Exit::Done,
        Tier::Contraindicated => Exit::Fail,
        Tier::None | Tier::Warning => Exit::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use assay_receipts::{KeySet, MAX_KEY_SET_BYTES, MAX_TOKEN_BYTES};

    use super::*;

    #[test]
    fn what_is_refused_before_its_signature_has_a_code_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let set = file("set", &KeySet::of([(assay_work::PublicKey([7; 32]), None)]).to_json().to_string());
        let code = |receipt: &str, keys: &std::path::PathBuf| {
            let (receipt, keys) = (receipt.to_owned(), keys.clone());
            let args = VerifyReceiptArgs {
                receipt,
                keys,
                nonce: None,
                miner: None,
                validator: None,
                min_gib: 0,
                past: false,
                proof: None,
                witness: Vec::new(),
                json: true,
            };
            let Err(ReceiptRefusal { code, failure }) = checked(&args) else { panic!() };
            (code, failure.exit)
        };
        let large = file("large", &"e".repeat(MAX_TOKEN_BYTES + 3));
        assert_eq!(code(large.to_str().unwrap(), &set), ("too_large", Exit::Data));
        assert_eq!(code("eyJ.a.b", &set), ("not_a_token", Exit::Data));
        for none in ["{", r#"{"keys":[]}"#, &" ".repeat(MAX_KEY_SET_BYTES + 1)] {
            assert_eq!(code("eyJ.a.b", &file("none", none)), ("key_set", Exit::Data));
        }
        assert_eq!(code("eyJ.a.b", &folder.path().join("absent")), ("key_set", Exit::Io));
    }
}
