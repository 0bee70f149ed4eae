//! `assay-validator history`.

use assay_program::exit::Exit;
use assay_program::render::{Screen, table, units};
use assay_work::text::{printable, quoted};
use serde_json::Value;

use super::lists::reasons;
use super::{claimed, list, minute, short, text};
use crate::cli::records::HistoryArgs;
use crate::escaped;
use crate::place::ApiLocation;

/// The most bytes of a line: longer ones are for programs.
const MAX_WHAT_BYTES: usize = 1024;

/// Shows the events of a miner.
///
/// # Errors
/// No validator answers, or the miner is unknown.
pub fn execute(place: &ApiLocation, args: &HistoryArgs) -> anyhow::Result<Exit> {
    let path = format!("/miners/{}/history", escaped(&args.miner));
    let events = list(place, &path, &(), args.limit)?;
    super::shown(&events, args.common.json, "nothing has happened to this miner", shown)
}

/// One line per event.
pub(super) fn shown(events: &[Value], screen: &Screen) -> String {
    let mut table = table::new(screen, &["at (UTC)", "event", "what"]);
    for event in events {
        let at_ms = event["at_ms"].as_i64().or_else(|| event["connected_ms"].as_i64());
        table.add_row([
            table::id(at_ms.map(minute).unwrap_or_default()),
            table::id(text(event, "event")),
            printable(&what(event), MAX_WHAT_BYTES).into(),
        ]);
    }
    table::text(&table)
}

/// Describes an event in one line.
fn what(event: &Value) -> String {
    match text(event, "event") {
        "session" => {
            let end = match event["disconnected_ms"].as_i64() {
                Some(at_ms) => format!(", until {}: {}", minute(at_ms), quoted(text(event, "why"))),
                None => ", still open".to_owned(),
            };
            format!("connected from {} with {}{end}", text(event, "address"), claimed(event, "software"))
        }
        "verdict" => {
            let verdict = &event["verdict"];
            let tops = verdict["whole"]["tops"].as_f64().filter(|tops| *tops > 0.0);
            let tops = tops.map_or_else(String::new, |tops| format!(", {} TOPS", units::figures(tops)));
            let why = if text(event, "outcome") == "pass" { String::new() } else { format!(": {}", reasons(verdict)) };
            format!("{} of challenge {}{tops}{why}", text(event, "outcome"), short(text(event, "challenge")))
        }
        "transition" => {
            let (from, to) = (text(event, "from"), text(event, "to"));
            let detail = Some(text(event, "detail")).filter(|detail| !detail.is_empty());
            let detail = detail.map_or_else(String::new, |detail| format!(" ({detail})"));
            format!("{from} → {to}: {}{detail}", text(event, "why"))
        }
        "finding" => {
            let counts = if event["enforced"] == true { "" } else { ", not enforced" };
            format!("{}{counts}: {}", text(event, "code"), text(event, "detail"))
        }
        "device" => {
            let other =
                event["other_miner"].as_str().map_or_else(String::new, |other| format!(" (miner {})", short(other)));
            let (device, detail) = (short(text(event, "device_id")), quoted(text(event, "detail")));
            format!("device {device} {}{other}: {detail}", text(event, "what"))
        }
        "action" => {
            let actor = &event["actor"];
            let uid = actor["uid"].as_u64().map_or_else(String::new, |uid| format!(" (user id {uid})"));
            format!("{} by {}{uid}: {}", text(event, "action"), text(actor, "name"), text(event, "detail"))
        }
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_event_is_a_line() {
        let (at, id) = (1_767_225_599_000_i64, "ab".repeat(16));
        let events = [
            json!({ "event": "action", "at_ms": at, "action": "suspend", "detail": "approved → suspended",
                    "actor": { "name": "root", "uid": 0 } }),
            json!({ "event": "action", "at_ms": at, "action": "label", "detail": "{\"rack\":\"7\u{202e}\u{200b}\"}",
                    "actor": { "name": "token a\u{2066}b", "uid": null } }),
            json!({ "event": "session", "connected_ms": at, "disconnected_ms": at, "address": "10.0.0.7",
                    "software": "assay-miner/9", "why": "drained\u{1b}" }),
            json!({ "event": "verdict", "at_ms": at, "outcome": "fail", "challenge": id,
                    "verdict": { "reasons": [{ "code": "commitment_late" }], "whole": { "tops": 0.0 } } }),
            json!({ "event": "device", "at_ms": at, "device_id": id, "what": "elsewhere", "other_miner": "cd".repeat(32),
                    "detail": "the other miner lists it" }),
            json!({ "event": "transition", "at_ms": at, "from": "passing", "to": "failed", "why": "verdict", "detail": "" }),
            json!({ "event": "finding", "at_ms": at, "code": "device_moved", "detail": "…", "enforced": false }),
        ];
        let plain = shown(&events, &Screen::FILE);
        for part in [
            "suspend by root (user id 0): approved → suspended",
            "connected from 10.0.0.7",
            "fail of challenge abababab: commitment_late",
            "device abababab elsewhere (miner cdcdcdcd)",
            "passing → failed: verdict",
            "device_moved, not enforced",
            "2025-12-31 23:59",
        ] {
            assert!(plain.contains(part), "{part} in\n{plain}");
        }
        assert!(!plain.contains(['\u{1b}', '\u{202e}', '\u{200b}', '\u{2066}']) && plain.lines().count() == 8);
        let narrow = shown(&events, &Screen { width: Some(80), colour: false });
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }
}
