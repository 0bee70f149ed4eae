//! `assay-validator show`: the item with an id, for a person.

use std::fmt::Write;

use assay_api::record::{ChallengeRecord, FindingRecord, FullVerdict};
use assay_api::{MinerDetail, SearchResult, VerdictsQuery, verdict_of};
use assay_policy::state::{QuarantineEnd, State};
use assay_program::exit::{Exit, Failure, print};
use assay_program::render::Screen;
use assay_program::utc;
use assay_work::text::{printable, quoted};
use serde_json::Value;
use serde_json::value::RawValue;

use super::history::shown as events_table;
use super::lists::{devices_table, verdicts_table};
use super::{found, labels, list, minute, round, text};
use crate::cli::records::ShowRecordArgs;
use crate::commands::receipt;
use crate::place::ApiLocation;
use crate::render;

/// The most verdicts and findings of a miner shown.
const NEWEST: usize = 8;

/// Shows the only item with an id.
///
/// # Errors
/// No validator answers, or the id is unknown or ambiguous.
pub fn execute(place: &ApiLocation, args: &ShowRecordArgs) -> anyhow::Result<Exit> {
    // Some numbers of a verdict exceed the range of a `Value`.
    let raw: Box<RawValue> = found(place, &args.id)?;
    let document: Value = serde_json::from_str(raw.get())?;
    if args.common.json {
        print(&serde_json::to_string_pretty(&document)?)?;
        return Ok(Exit::Done);
    }
    let screen = Screen::stdout();
    let unknown =
        |error| Failure::because(Exit::Data, "it is of a release that this one does not know: see --json", error);
    print(&match serde_json::from_str(raw.get()).map_err(unknown)? {
        SearchResult::Verdict(full) => verdict(&full, &screen).map_err(unknown)?,
        SearchResult::Challenge(record) => challenge(&record),
        SearchResult::Miner(detail) => {
            let query = VerdictsQuery { miner: Some(detail.miner.record.id.clone()), ..VerdictsQuery::default() };
            miner(&detail, &document, &list(place, "/verdicts", &query, NEWEST as u32)?, &screen)
        }
        SearchResult::Device(_) => device(&document, &screen),
        SearchResult::Receipt(found) => receipt::text(&found.record.token, &screen)?,
        SearchResult::Round(found) => round::recorded(place, &found, &screen)?,
    })?;
    Ok(Exit::Done)
}

/// A line with a name and a value.
fn line(out: &mut String, name: &str, value: &str) {
    // Writing into memory cannot fail.
    let _ = write!(out, "\n  {name:<10} {}", printable(value, usize::MAX));
}

/// A time, to the second.
fn at(unix_ms: i64) -> String {
    utc::text(u64::try_from(unix_ms / 1000).unwrap_or_default())
}

/// The output of `challenge`, with the records' further data.
fn verdict(full: &FullVerdict, screen: &Screen) -> serde_json::Result<String> {
    let record = &full.record;
    let verdict = verdict_of(record)?;
    let mut out = render::text(&verdict, screen);
    out.push('\n');
    for finding in full.findings.iter().filter(|finding| !finding.enforced) {
        line(&mut out, "recorded", &said(finding));
    }
    line(&mut out, "sent", &utc::text(verdict.unix_seconds));
    line(&mut out, "judged", &at(record.at_ms));
    line(&mut out, "asked by", &format!("{}, kind {}, group {}", record.asked, record.kind, quoted(&record.group)));
    if let Some(round) = &record.round {
        line(&mut out, "round", round);
    }
    if let Some(kept) = &full.evidence {
        let removed = kept.dropped_ms.map_or_else(String::new, |ms| format!(", removed on {}", at(ms)));
        line(&mut out, "evidence", &format!("{}{removed}", kept.evidence.digest));
    }
    if let Some(receipt) = full.receipts.last() {
        let hint =
            format!("{}: `assay-validator receipt {}`, and its token with --token", receipt.id, record.challenge);
        line(&mut out, "receipt", &hint);
    }
    Ok(out)
}

/// A challenge without a verdict.
fn challenge(record: &ChallengeRecord) -> String {
    let begun = &record.begun;
    let state =
        record.ended_ms.map_or_else(|| "not judged yet".to_owned(), |ms| format!("no verdict, ended {}", at(ms)));
    let mut out = format!("challenge {}: {state}\n", begun.challenge);
    line(&mut out, "miner", &begun.miner);
    line(&mut out, "validator", &begun.validator);
    line(&mut out, "began", &at(begun.begun_ms));
    line(&mut out, "asked by", &format!("{}, kind {}, group {}", begun.asked, begun.kind, quoted(&begun.group)));
    if let Some(round) = &begun.round {
        line(&mut out, "round", round);
    }
    out
}

/// The state of a miner, its reason and remedy, the next challenge, and the facts behind it.
fn miner(detail: &MinerDetail, document: &Value, verdicts: &[Value], screen: &Screen) -> String {
    let (record, known, standing) = (&detail.miner.record, &detail.miner.known, detail.miner.record.standing());
    let mut out = format!(
        "miner {}{}\n",
        record.id,
        known.name.iter().map(|name| format!(" ({})", quoted(name))).collect::<String>()
    );
    let about = State::named(&record.state).map_or("", State::meaning);
    line(&mut out, "state", &format!("{}: {about}", record.state));
    if !standing.because.is_empty() {
        line(&mut out, "cause", &standing.because);
    }
    if let Some(reason) = &known.reason {
        line(&mut out, "why", &reason.why);
        line(&mut out, "remedy", &reason.remedy);
    }
    match standing.quarantine {
        Some(QuarantineEnd::Time(until_s)) => line(&mut out, "quarantine", &format!("until {}", utc::text(until_s))),
        Some(QuarantineEnd::Release) => line(&mut out, "quarantine", "until an operator releases it"),
        None => {}
    }
    let next = record.due.as_ref().map_or_else(|| "–".to_owned(), |due| format!("{}, {}", at(due.at_ms), due.kind));
    let delayed = detail.delayed.iter().map(|why| format!("; not made yet: {why}")).collect::<String>();
    line(&mut out, "next", &format!("{next}{delayed}"));
    line(&mut out, "last pass", &standing.last_pass_s.map_or_else(|| "none".to_owned(), utc::text));
    line(&mut out, "group", &quoted(&detail.group).to_string());
    line(&mut out, "status", &format!("{}, admitted: {}", record.status.name(), known.admitted));
    line(&mut out, "labels", &labels(document));
    let here = detail.connection.as_ref().map(|connection| format!("connected, with {}", quoted(&connection.agent)));
    let away = || match &record.connected_to {
        Some(validator) => format!("connected to {validator}"),
        None => format!("seen {}", at(record.last_seen_ms)),
    };
    line(&mut out, "presence", &format!("{}, from {}", here.unwrap_or_else(away), record.address));
    if record.key != record.id {
        line(&mut out, "newest key", &record.key);
    }
    for noted in detail.findings.iter().take(NEWEST) {
        line(&mut out, "finding", &format!("{} {}", minute(noted.at_ms), said(&noted.finding)));
    }
    for (title, rows, table) in [
        ("Devices", rows(document, "devices"), devices_table as fn(&[Value], &Screen) -> String),
        ("Last verdicts", verdicts, verdicts_table),
    ] {
        if !rows.is_empty() {
            let _ = write!(out, "\n\n{title}\n{}", table(rows, screen));
        }
    }
    out
}

/// A finding, and whether it is enforced.
fn said(finding: &FindingRecord) -> String {
    let FindingRecord { code, other_miner, device_id, detail, enforced, .. } = finding;
    let device = device_id.iter().map(|id| format!(", device {id}")).collect::<String>();
    let other = other_miner.iter().map(|id| format!(", other miner {id}")).collect::<String>();
    format!("{code}{}{device}{other}: {detail}", if *enforced { "" } else { ", not enforced" })
}

/// Miners that list a device, and its changes.
fn device(document: &Value, screen: &Screen) -> String {
    let mut out = format!("device {}\n{}", text(document, "device_id"), devices_table(rows(document, "at"), screen));
    let events = rows(document, "events").iter().cloned().map(|mut event| {
        event["event"] = "device".into();
        event
    });
    let events: Vec<_> = events.collect();
    if !events.is_empty() {
        let _ = write!(out, "\n\n{}", events_table(&events, screen));
    }
    out
}

fn rows<'a>(document: &'a Value, field: &str) -> &'a [Value] {
    document[field].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use assay_protocol::verdict::{Reason, ReasonCode};
    use serde_json::json;

    use super::*;

    const AT_MS: i64 = 1_767_225_599_000;

    fn narrow() -> Screen {
        Screen { width: Some(80), colour: false }
    }

    #[test]
    fn a_verdict_is_shown_as_challenge_prints_it() {
        let verdict = render::tests::verdict(vec![Reason::new(ReasonCode::CommitmentLate, "7 s")]);
        let id = verdict.challenge_id.to_string();
        let document = json!({
            "found": "challenge", "challenge": id, "miner": "ab".repeat(32), "at_ms": AT_MS, "outcome": "fail",
            "group": "default", "kind": "light", "asked": "operator", "round": null, "device_ms": 1, "verdict": verdict,
            "session": "s", "commitment": null,
            "evidence": { "challenge": id, "at_ms": AT_MS, "digest": "cd".repeat(32), "bytes": 1, "stored_bytes": 1,
                          "why": "fail", "dropped_ms": AT_MS },
            "findings": [{ "code": "too_slow", "miner": "a", "other_miner": null, "device_id": null,
                           "detail": "fleet\u{1b}", "enforced": false }],
            "receipts": [{ "id": "r1", "key_id": "k", "issued_s": 1, "expires_s": 2, "nonce": null, "token": "t".repeat(2258) }],
        });
        let SearchResult::Verdict(full) = serde_json::from_str(&document.to_string()).unwrap() else { panic!() };
        let shown = super::verdict(&full, &narrow()).unwrap();
        let (printed, behind) = shown.split_at(render::text(&verdict, &narrow()).len());
        assert_eq!(printed, render::text(&verdict, &narrow()));
        assert!(printed.starts_with("FAIL") && printed.contains(ReasonCode::CommitmentLate.advice()), "{printed}");
        for part in [
            "recorded   too_slow, not enforced: fleet",
            &format!("sent       {}", utc::text(verdict.unix_seconds)),
            "judged     2025-12-31 23:59:59 UTC",
            "removed on 2025-12-31 23:59:59 UTC",
            &format!("receipt    r1: `assay-validator receipt {id}`"),
        ] {
            assert!(behind.contains(part), "{part} in\n{behind}");
        }
        assert!(!shown.contains(['\u{1b}', '{']) && !shown.contains("ttt"), "{shown}");
    }

    #[test]
    fn a_miner_is_shown_by_its_state_why_and_what_to_do() {
        let (quarantine, because) = (json!({ "time": AT_MS / 1000 }), "audit_element: 3 fails within 7 days");
        let standing =
            json!({ "state": "quarantined", "quarantine": quarantine, "last_pass_s": 0, "because": because });
        let document = json!({
            "found": "miner", "id": "ab".repeat(32), "key": "ab".repeat(32), "keys": ["ab".repeat(32)],
            "status": "approved", "labels": { "rack": "7\u{202e}" }, "state": "quarantined", "standing": standing,
            "first_seen_ms": AT_MS, "last_seen_ms": AT_MS, "address": "10.0.0.7", "software": "assay-miner/9",
            "due": { "at_ms": AT_MS, "kind": "light" }, "last_verdict": null, "connected_to": null, "admitted": "approved",
            "name": "node-07\u{1b}", "device_count": 1, "models": [],
            "reason": { "why": "it is in quarantine\u{200b}", "remedy": "look at its verdicts" }, "group": "default",
            "delayed": "duty_percent is used up",
            "devices": [{ "miner": "ab".repeat(32), "device_id": "cd".repeat(16), "name": "GPU\u{1b}", "model": "", "claims": {},
                          "memory_bytes": 0, "first_seen_ms": AT_MS, "last_seen_ms": AT_MS, "gone_ms": null,
                          "last_challenge": null, "last_pass_ms": null, "also_at": [] }],
            "sessions": [], "findings": [], "actions": [], "connection": null,
        });
        let detail: MinerDetail = serde_json::from_str(&document.to_string()).unwrap();
        let verdict = json!({ "challenge": "ef".repeat(16), "miner": "ab".repeat(32), "at_ms": AT_MS, "outcome": "pass", "verdict": {} });
        let shown = miner(&detail, &document, &[verdict], &narrow());
        assert!(shown.starts_with(&format!("miner {} (\"node-07", "ab".repeat(32))), "{shown}");
        for part in [
            "state      quarantined: Not attested",
            "cause      audit_element: 3 fails within 7 days",
            "why        it is in quarantine",
            "remedy     look at its verdicts",
            "quarantine until 2025-12-31 23:59:59 UTC",
            "next       2025-12-31 23:59:59 UTC, light; not made yet: duty_percent is used up",
            "group      \"default\"",
            "status     approved, admitted: approved",
            "presence   seen 2025-12-31 23:59:59 UTC, from 10.0.0.7",
            "Devices\n",
            "cdcdcdcd",
            "Last verdicts\n",
            "efefefef",
        ] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{200b}', '{']), "{shown}");
    }

    #[test]
    fn a_challenge_without_a_verdict_begins_with_what_became_of_it() {
        let shown_of = |ended_ms: Option<i64>| {
            let document = json!({
                "challenge": "ab".repeat(16), "miner": "m", "validator": "v", "instance": "i", "session": "s", "group": "g",
                "kind": "light", "asked": "schedule", "round": null, "begun_ms": AT_MS, "device_ms": 1, "ended_ms": ended_ms,
            });
            challenge(&serde_json::from_value(document).unwrap())
        };
        let shown = shown_of(None);
        assert!(shown.starts_with(&format!("challenge {}: not judged yet\n", "ab".repeat(16))), "{shown}");
        assert!(shown.contains("asked by   schedule, kind light, group \"g\""), "{shown}");
        assert!(shown_of(Some(AT_MS)).contains(": no verdict, ended 2025-12-31 23:59:59 UTC\n"));
    }

    #[test]
    fn a_device_is_shown_at_each_miner_with_its_changes() {
        let event = json!({ "at_ms": AT_MS, "device_id": "cd".repeat(16), "what": "gone", "other_miner": null, "detail": "H\u{1b}" });
        let at =
            json!({ "device_id": "cd".repeat(16), "miner": "ab".repeat(32), "model": "H200", "last_seen_ms": AT_MS });
        let shown = device(&json!({ "device_id": "cd".repeat(16), "at": [at], "events": [event] }), &Screen::FILE);
        assert!(shown.contains("abababab") && shown.contains("device cdcdcdcd gone: \"H \""), "{shown}");
    }
}
