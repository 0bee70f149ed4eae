//! `assay-validator report`: a miner's receipts of a month, as figures for a lender.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use assay_api::{MAX_DOCUMENTS, ReceiptsQuery};
use assay_program::clock::unix_seconds;
use assay_program::exit::{Exit, Failure, print_document};
use assay_program::prefix::Prefix;
use assay_program::render::table::{self, Cell};
use assay_program::render::{Screen, units};
use assay_program::{file, utc};
use assay_receipts::{Claims, KeySet, PeriodReport, StatedRange};
use assay_work::text::printable;
use serde::Deserialize;
use serde_json::json;

use super::input;
use crate::cli::receipt::ReportArgs;
use crate::commands::records::ask;
use crate::place::ApiLocation;

/// Time before a month in which receipts are looked for that are in force in it.
const BEFORE_S: u64 = 7 * 86_400;
/// Digits shown of an id of a device or a receipt.
const SHORT: usize = 8;

/// A receipt's token, among the other fields of a row.
#[derive(Deserialize)]
struct ReceiptLine {
    token: String,
}

/// Reports on a month.
///
/// # Errors
/// No validator answers, a file, or no receipt.
pub fn execute(place: &ApiLocation, args: &ReportArgs) -> anyhow::Result<Exit> {
    let (from_s, end_s) = args.month;
    let now_s = unix_seconds();
    if from_s >= now_s {
        return Err(Failure::new(Exit::Usage, "--month: it has not begun").into());
    }
    if let Some(path) = &args.html {
        file::check_writable(path)?;
    }
    let sets = match &args.keys[..] {
        [] => vec![own_keys(place)?],
        paths => paths.iter().map(|path| input::keys(path)).collect::<Result<Vec<_>, _>>()?,
    };
    let tokens = match &args.receipts {
        Some(path) => of_file(path)?,
        None => of_validator(place, args, from_s.saturating_sub(BEFORE_S), end_s)?,
    };
    let (mut receipts, refused) = checked(&tokens, &sets, now_s);
    receipts.retain(|receipt| receipt.iat >= from_s.saturating_sub(BEFORE_S));
    if args.receipts.is_some() {
        about(&mut receipts, &args.miner)?;
    }
    if receipts.is_empty() {
        let refused = refused.iter().map(|(code, count)| format!("; {count} refused: {code}"));
        let message = format!("there is no receipt for it{}", refused.collect::<String>());
        return Err(Failure::new(Exit::Inconclusive, message).into());
    }
    // This second's receipts are in it.
    let report = PeriodReport::of(receipts, from_s, end_s.min(now_s + 1));
    if let Some(path) = &args.html {
        file::write_text(path, &assay_page::report(&report, &refused, now_s))?;
    }
    let mut document = json!(report);
    document["refused"] = json!(refused);
    Ok(print_document(&document, args.common.json, || text(&report, &refused, &Screen::stdout()))?)
}

fn own_keys(place: &ApiLocation) -> anyhow::Result<KeySet> {
    let set: serde_json::Value = ask(place, async |client| client.receipt_keys().await)?;
    KeySet::parse(&set.to_string()).context("the validator's keys of receipts")
}

fn of_validator(place: &ApiLocation, args: &ReportArgs, from_s: u64, end_s: u64) -> anyhow::Result<Vec<String>> {
    let ms = |seconds: u64| i64::try_from(seconds.saturating_mul(1000)).ok();
    let [miner] = &args.miner[..] else {
        return Err(Failure::new(Exit::Usage, "--miner: one key of the miner is enough for a validator").into());
    };
    let miner = miner.to_string();
    let query = ReceiptsQuery { miner, since: ms(from_s), until: ms(end_s), limit: None, cursor: None };
    let found: Vec<ReceiptLine> = ask(place, async |client| client.list("/receipts", &query, MAX_DOCUMENTS).await)?;
    if found.len() >= MAX_DOCUMENTS as usize {
        let message =
            format!("the month has more than {MAX_DOCUMENTS} receipts: export the records, and give --receipts");
        return Err(Failure::new(Exit::Data, message).into());
    }
    Ok(found.into_iter().map(|line| line.token).collect())
}

/// The tokens of a file: of exported rows, or bare ones.
fn of_file(path: &Path) -> Result<Vec<String>, Failure> {
    let mut tokens = Vec::new();
    for (number, line) in file::read_text(path)?.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('{') {
            let malformed = |error| Failure::new(Exit::Data, format!("{}:{}: {error}", path.display(), number + 1));
            tokens.push(serde_json::from_str::<ReceiptLine>(line).map_err(malformed)?.token);
        } else if !line.is_empty() {
            tokens.push(line.to_owned());
        }
    }
    Ok(tokens)
}

/// Keeps the receipts about these keys alone. The miner that a row names is not signed.
fn about(receipts: &mut Vec<Claims>, keys: &[Prefix]) -> Result<(), Failure> {
    let digits: Vec<_> = keys.iter().map(ToString::to_string).collect();
    receipts.retain(|receipt| digits.iter().any(|digits| receipt.sub.to_string().starts_with(digits)));
    let found: BTreeSet<_> = receipts.iter().map(|receipt| receipt.sub.to_string()).collect();
    if found.len() <= keys.len() {
        return Ok(());
    }
    let found: Vec<_> = found.into_iter().collect();
    Err(Failure::new(Exit::Data, format!("--miner: the receipts are about {}: name one host's keys", found.join(", "))))
}

/// The receipts whose signatures hold, and the codes of the others.
fn checked(tokens: &[String], sets: &[KeySet], now_s: u64) -> (Vec<Claims>, BTreeMap<String, u64>) {
    let (mut receipts, mut refused) = (Vec::new(), BTreeMap::new());
    for token in tokens {
        match input::verify_past(token, sets, None, now_s) {
            Ok(claims) => receipts.push(claims),
            Err(error) => *refused.entry(error.code().to_owned()).or_insert(0) += 1,
        }
    }
    (receipts, refused)
}

fn text(report: &PeriodReport, refused: &BTreeMap<String, u64>, screen: &Screen) -> String {
    let hours = |hours: f64| format!("{hours:.1} h");
    let mut lines = vec![format!("{} to {}", utc::text(report.from_s), utc::text(report.until_s)), String::new()];
    let mut line = |name: &str, value: String| lines.push(format!("  {name:<15} {value}"));
    for key in &report.keys {
        line("miner", format!("{}, since {} ({})", key.key, utc::text(key.since_s), short(&key.receipt)));
    }
    let statuses = report.receipts.iter().map(|(status, count)| format!("{count} {}", printable(status, 32)));
    line("receipts", statuses.collect::<Vec<_>>().join(", "));
    line("days proven", format!("{} of {}", report.days_proven, report.days.len()));
    line("with proof", hours(report.hours_proven));
    line("without proof", hours(report.hours_without_proof));
    if let Some(gap) = &report.longest_gap {
        let length = hours((gap.until_s - gap.from_s) as f64 / 3600.0);
        line("longest without", format!("{length}, from {} to {}", utc::text(gap.from_s), utc::text(gap.until_s)));
    }
    if let Some(bytes) = &report.bytes {
        line("memory", range(bytes, "GiB", |bytes| units::gib(*bytes)));
    }
    for rate in &report.rates {
        line(rate.precision.name(), range(&rate.tops, "TOPS", |tops| units::figures(*tops)));
    }
    if let Some(rate) = &report.probe_gb_per_s {
        line("probe", range(rate, "GB/s", |rate| units::figures(*rate)));
    }
    let mut out = lines.join("\n");
    if !report.devices.is_empty() {
        let mut rows = table::new(screen, &["device", "claimed model", "receipts", "least GiB", "median GiB", "last"]);
        for device in &report.devices {
            let [least, median] = device.bytes.as_ref().map_or_else(
                || ["–"; 2].map(str::to_owned),
                |bytes| [&bytes.least, &bytes.median].map(|stated| units::gib(stated.value)),
            );
            rows.add_row([
                table::id(short(device.device.trim_start_matches("device-"))),
                Cell::new(printable(&device.claimed_model, 96)),
                table::figure(device.receipts.to_string()),
                table::figure(least),
                table::figure(median),
                table::id(utc::text(device.last.value)),
            ]);
        }
        out += &format!("\n\n{}", table::text(&rows));
    }
    for change in &report.changes {
        let detail = printable(&change.detail, 256);
        out += &format!(
            "\n{}  {}: {detail} ({})",
            utc::text(change.at_s),
            change.what.replace('_', " "),
            short(&change.receipt)
        );
    }
    for unproven in &report.unproven {
        let reasons: Vec<_> = unproven.reasons.iter().map(|reason| printable(reason, 96)).collect();
        let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
        out +=
            &format!("\n{}  {}{why} ({})", utc::text(unproven.at_s), unproven.status.name(), short(&unproven.receipt));
    }
    let left_out = report.changes_left_out + report.unproven_left_out;
    if left_out > 0 {
        out += &format!("\nand {left_out} more: see `assay-validator history`");
    }
    for (code, count) in refused {
        out += &format!("\nNOT COUNTED  {}: {}", units::counted(*count, "refused receipt"), printable(code, 64));
    }
    out
}

fn range<T>(range: &StatedRange<T>, unit: &str, shown: impl Fn(&T) -> String) -> String {
    let stated =
        |stated: &assay_receipts::Stated<T>| format!("{} {unit} ({})", shown(&stated.value), short(&stated.receipt));
    format!("least {}, median {}", stated(&range.least), stated(&range.median))
}

fn short(id: &str) -> String {
    printable(id, 64).chars().take(SHORT).collect()
}
