//! `assay-validator receipt compare`.

use assay_policy::policy::BandPolicy;
use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, print_document};
use assay_program::render::table::{self, Cell};
use assay_program::render::{Screen, units};
use assay_receipts::{
    Claims, ComparedItem, ComparedRow, ComparedValue, Comparison, ComparisonResult, ComparisonRules, EatNonce,
};
use assay_work::text::printable;
use serde_json::json;

use super::input;
use crate::cli::receipt::CompareReceiptsArgs;

/// The share by which memory may fall: a driver of another version keeps a little more for itself.
const MEMORY_TOLERANCE: f64 = 0.05;
/// Bytes shown of a name or a sentence.
const MAX_TEXT_BYTES: usize = 256;

/// Compares two receipts, and prints the rows that count.
///
/// # Errors
/// A file, a refused receipt, or receipts that do not compare.
pub fn execute(args: &CompareReceiptsArgs) -> anyhow::Result<Exit> {
    let sets = args.keys.iter().map(|path| input::keys(path)).collect::<Result<Vec<_>, _>>()?;
    let read = |name: &str, argument: &str, nonce: Option<&EatNonce>| -> Result<Claims, Failure> {
        let refused = |error| Failure::new(Exit::Data, format!("the receipt {name} is refused: {error}"));
        input::verify_past(&input::token(argument)?, &sets, nonce, unix_seconds()).map_err(refused)
    };
    let (before, after) = (read("before", &args.before, None)?, read("after", &args.after, args.nonce.as_ref())?);
    let rules = ComparisonRules {
        by_model: args.by_model,
        rate_tolerance: f64::from(args.tolerance) / 100.0,
        memory_tolerance: MEMORY_TOLERANCE,
        least_seconds: BandPolicy::default().least_seconds,
    };
    let compared = assay_receipts::compare(&before, &after, &rules);
    let compared = compared.map_err(|error| Failure::new(Exit::Data, error.to_string()))?;
    let side = |claims: &Claims| {
        let host = &claims.submods.host.ear_verifier_claims;
        json!({ "receipt": claims.jti, "miner_key": claims.sub, "challenged_at": host.challenged_at })
    };
    let mut document = json!(compared);
    (document["before"], document["after"]) = (side(&before), side(&after));
    print_document(&document, args.json, || text(&compared, &Screen::stdout()))?;
    Ok(match compared.result {
        ComparisonResult::Same => Exit::Done,
        ComparisonResult::Worse => Exit::Fail,
        ComparisonResult::Undecided => Exit::Inconclusive,
    })
}

/// The result in words, and the rows that are not as before.
fn text(compared: &Comparison, screen: &Screen) -> String {
    let meaning = match compared.result {
        ComparisonResult::Same => "SAME  nothing is worse than before",
        ComparisonResult::Worse => "WORSE  the host shows less than before, by its own doing",
        ComparisonResult::Undecided => "UNDECIDED  one of the receipts does not show enough",
    };
    let mut out = meaning.to_owned();
    if !compared.same_key {
        out += "\nThe receipts are about two keys: devices are matched by the models that they claim.";
    }
    let (shown, others): (Vec<_>, Vec<_>) = compared.rows.iter().partition(|row| differs(row));
    if !shown.is_empty() {
        let mut rows = table::new(screen, &["what", "device", "before", "after", "change", "result"]);
        for row in &shown {
            let change = row.rise.map_or_else(|| "–".to_owned(), |rise| format!("{:+.1} %", rise * 100.0));
            rows.add_row([
                Cell::new(named(row)),
                table::id(device(row)),
                Cell::new(value(row, row.before.as_ref())),
                Cell::new(value(row, row.after.as_ref())),
                table::figure(change),
                Cell::new(verdict(row)),
            ]);
        }
        out += &format!("\n\n{}", table::text(&rows));
    }
    let others = others.len() as u64;
    if others > 0 {
        out + &format!("\n\n{} within the tolerance.", units::counted(others, "other figure"))
    } else {
        out
    }
}

/// Whether a row is worth reading: it counts, or its value is another one.
fn differs(row: &ComparedRow) -> bool {
    let is_other = match (&row.before, &row.after) {
        (Some(ComparedValue::Text(before)), Some(ComparedValue::Text(after))) => before != after,
        (Some(ComparedValue::Figure(_)), Some(ComparedValue::Figure(_))) => false,
        _ => true,
    };
    is_other || row.result != ComparisonResult::Same
}

fn named(row: &ComparedRow) -> &'static str {
    match row.item {
        ComparedItem::Status => "status",
        ComparedItem::Device if row.before.is_none() => "new device",
        ComparedItem::Device if row.result == ComparisonResult::Undecided => "not challenged",
        ComparedItem::Device => "device gone",
        ComparedItem::Model => "claimed model",
        ComparedItem::MemoryBytes => "memory held",
        ComparedItem::HiddenShare => "hidden at most",
        ComparedItem::Tops => "work",
        ComparedItem::ProbeGbPerS => "probe",
        ComparedItem::SweepGbPerS => "sweep",
        ComparedItem::LinkedGbPerS => "linked probe",
        ComparedItem::Reason => "reason",
        ComparedItem::Finding => "finding",
    }
}

/// The first digits of a device's id.
fn device(row: &ComparedRow) -> String {
    let label = row.device.as_deref().unwrap_or("–");
    printable(label.trim_start_matches("device-"), MAX_TEXT_BYTES).chars().take(8).collect()
}

fn value(row: &ComparedRow, value: Option<&ComparedValue>) -> String {
    match value {
        None => "–".to_owned(),
        Some(ComparedValue::Text(text)) => printable(text, MAX_TEXT_BYTES),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes that were a whole number")]
        Some(ComparedValue::Figure(bytes)) if row.item == ComparedItem::MemoryBytes => {
            format!("{} GiB", units::gib(*bytes as u64))
        }
        Some(ComparedValue::Figure(share)) if row.item == ComparedItem::HiddenShare => units::percent(*share),
        Some(ComparedValue::Figure(tops)) if row.item == ComparedItem::Tops => {
            format!("{} TOPS", units::figures(*tops))
        }
        Some(ComparedValue::Figure(rate)) => format!("{} GB/s", units::figures(*rate)),
    }
}

/// The result of a row, with whose doing a reason is.
fn verdict(row: &ComparedRow) -> String {
    let word = match row.result {
        ComparisonResult::Same => "same",
        ComparisonResult::Worse => "worse",
        ComparisonResult::Undecided => "undecided",
    };
    match &row.class {
        Some(class) => format!("{word} ({})", printable(class, MAX_TEXT_BYTES)),
        None => word.to_owned(),
    }
}
