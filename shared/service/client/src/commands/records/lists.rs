//! `assay-validator miners --all`, `devices` and `verdicts`.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::{DevicesQuery, MAX_DOCUMENTS, MinerOrder, MinersQuery, VerdictsQuery};
use assay_program::clock::unix_ms;
use assay_program::exit::Exit;
use assay_program::render::{Screen, short_ids, table, units};
use assay_work::text::printable;
use serde_json::Value;

use super::{NOTHING, claimed, follow, labels, list, moment, short, shown, text};
use crate::cli::records::{ListDevicesArgs, VerdictsArgs};
use crate::cli::running::MinersArgs;
use crate::place::ApiLocation;

/// The most bytes of a reason in a list.
const MAX_WHY_BYTES: usize = 256;

/// Lists the miners that the records know.
///
/// # Errors
/// No validator answers, or it refuses.
pub fn miners(place: &ApiLocation, args: &MinersArgs) -> anyhow::Result<Exit> {
    let labels: Vec<_> = args.label.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let query = MinersQuery {
        status: args.status,
        state: args.state.clone(),
        label: (!args.label.is_empty()).then(|| labels.join(",")),
        order: Some(MinerOrder::Trouble),
        ..MinersQuery::default()
    };
    let found = list(place, "/miners", &query, MAX_DOCUMENTS)?;
    shown(&found, args.common.json, "no such miner is known", |found, screen| miners_table(found, args.wide, screen))
}

/// Lists the devices that miners list.
///
/// # Errors
/// No validator answers, or it refuses.
pub fn devices(place: &ApiLocation, args: &ListDevicesArgs) -> anyhow::Result<Exit> {
    let query = DevicesQuery {
        miner: args.miner.clone(),
        device_id: args.device.clone(),
        model: args.model.clone(),
        gone: Some(args.gone),
        ..DevicesQuery::default()
    };
    shown(&list(place, "/devices", &query, args.limit)?, args.common.json, "no such device is known", devices_table)
}

/// Lists verdicts, or follows them.
///
/// # Errors
/// No validator answers, or it refuses.
pub fn verdicts(place: &ApiLocation, args: &VerdictsArgs) -> anyhow::Result<Exit> {
    if args.follow {
        return follow::execute(place, args.after);
    }
    let ago = |span: assay_program::span::Span| {
        unix_ms().saturating_sub(i64::try_from(span.seconds.saturating_mul(1000)).unwrap_or(i64::MAX))
    };
    let query = VerdictsQuery {
        miner: args.miner.clone(),
        outcome: args.outcome,
        code: args.code.clone(),
        since: args.since.map(ago),
        until: args.until.map(ago),
        ..VerdictsQuery::default()
    };
    shown(&list(place, "/verdicts", &query, args.limit)?, args.common.json, "there is no such verdict", verdicts_table)
}

/// Names for the ids of a field, as short as is unambiguous; repeated ids share a name.
fn ids(found: &[Value], field: &str) -> Vec<String> {
    let of = |document: &'_ Value| text(document, field).to_owned();
    let distinct: BTreeSet<_> = found.iter().map(of).collect();
    let names: BTreeMap<_, _> = distinct.iter().cloned().zip(short_ids(&distinct)).collect();
    found.iter().map(|document| names[&of(document)].clone()).collect()
}

/// One line per miner.
fn miners_table(found: &[Value], wide: bool, screen: &Screen) -> String {
    let mut header = vec!["miner", "status", "state", "labels", "seen (UTC)"];
    if wide {
        header.extend(["last verdict", "address", "software", "first seen (UTC)"]);
    }
    header.push("why");
    let mut table = table::new(screen, &header);
    for (miner, short_key) in found.iter().zip(ids(found, "key")) {
        let key = if wide { text(miner, "key").to_owned() } else { short_key };
        let seen =
            if miner["connected_to"].is_string() { "connected".to_owned() } else { moment(miner, "last_seen_ms") };
        let verdict = miner["last_verdict"]["outcome"].as_str().unwrap_or(NOTHING);
        let mut cells = vec![
            table::id(key),
            status(miner).into(),
            text(miner, "state").into(),
            labels(miner).into(),
            table::id(seen),
        ];
        if wide {
            let address = Some(text(miner, "address")).filter(|address| !address.is_empty()).unwrap_or(NOTHING);
            cells.extend([verdict.into(), table::id(address)]);
            cells.extend([claimed(miner, "software").into(), table::id(moment(miner, "first_seen_ms"))]);
        }
        let why =
            miner["reason"]["why"].as_str().map_or_else(|| NOTHING.to_owned(), |why| printable(why, MAX_WHY_BYTES));
        cells.push(why.into());
        table.add_row(cells);
    }
    table::text(&table)
}

/// The decision about a miner; without one, or where the settings differ, the current admission.
fn status(miner: &Value) -> &str {
    match (text(miner, "status"), text(miner, "admitted")) {
        (_, "revoked") => "revoked",
        ("pending", admitted) if !admitted.is_empty() => admitted,
        (status, _) => status,
    }
}

/// One line per device.
pub(super) fn devices_table(found: &[Value], screen: &Screen) -> String {
    let header = ["device", "miner", "name", "GiB", "seen (UTC)", "last held (UTC)", "notes"];
    let mut table = table::new(screen, &header);
    table.leave_out_where_narrow(&["seen (UTC)", "GiB"]);
    let (devices, miners) = (ids(found, "device_id"), ids(found, "miner"));
    for ((device, id), miner) in found.iter().zip(devices).zip(miners) {
        let name = if text(device, "model").is_empty() { "name" } else { "model" };
        let memory = device["memory_bytes"].as_u64().filter(|bytes| *bytes > 0);
        table.add_row([
            table::id(id),
            table::id(miner),
            claimed(device, name).into(),
            table::figure(memory.map_or_else(|| NOTHING.to_owned(), units::gib)),
            table::id(moment(device, "last_seen_ms")),
            table::id(moment(device, "last_pass_ms")),
            notes(device).into(),
        ]);
    }
    table::text(&table)
}

/// Notable facts about a device.
fn notes(device: &Value) -> String {
    let gone = device["gone_ms"].is_i64().then(|| format!("gone since {}", moment(device, "gone_ms")));
    let others = device["also_at"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let others: Vec<_> = others.map(short).collect();
    let also = (!others.is_empty()).then(|| format!("also at {}", others.join(", ")));
    let notes: Vec<_> = gone.into_iter().chain(also).collect();
    if notes.is_empty() { NOTHING.to_owned() } else { notes.join("; ") }
}

/// One line per verdict.
pub(super) fn verdicts_table(found: &[Value], screen: &Screen) -> String {
    let header = ["challenge", "at (UTC)", "miner", "outcome", "mode", "n", "TOPS", "GB/s", "reasons"];
    let mut table = table::new(screen, &header);
    table.leave_out_where_narrow(&["n", "mode", "GB/s", "TOPS"]);
    let (challenges, miners) = (ids(found, "challenge"), ids(found, "miner"));
    for ((record, challenge), miner) in found.iter().zip(challenges).zip(miners) {
        let verdict = &record["verdict"];
        let figure = |value: &Value| {
            let value = value.as_f64().filter(|value| *value > 0.0);
            table::figure(value.map_or_else(|| NOTHING.to_owned(), units::figures))
        };
        table.add_row([
            table::id(challenge),
            table::id(moment(record, "at_ms")),
            table::id(miner),
            text(record, "outcome").into(),
            verdict["mode"].as_str().unwrap_or(NOTHING).into(),
            table::figure(&verdict["n"]),
            figure(&verdict["whole"]["tops"]),
            figure(&verdict["whole"]["probe_gb_per_s"]),
            reasons(verdict).into(),
        ]);
    }
    table::text(&table)
}

/// The codes of a verdict's reasons.
pub(super) fn reasons(verdict: &Value) -> String {
    let reasons = verdict["reasons"].as_array().into_iter().flatten();
    let codes: Vec<_> = reasons.filter_map(|reason| reason["code"].as_str()).collect();
    if codes.is_empty() { NOTHING.to_owned() } else { codes.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const AT_MS: i64 = 1_767_225_599_000;

    fn key(byte: &str) -> String {
        byte.repeat(32)
    }

    fn fits(shown: &str, width: usize) {
        assert!(shown.lines().all(|line| line.chars().count() <= width), "{shown}");
    }

    fn screens() -> impl Iterator<Item = (Screen, usize)> {
        [80, 100].into_iter().map(|width| (Screen { width: Some(width), colour: false }, usize::from(width)))
    }

    #[test]
    fn an_id_that_comes_twice_stays_short() {
        let found = ["ab", "cd", "ab"].map(|byte| json!({ "miner": key(byte) }));
        assert_eq!(ids(&found, "miner"), ["abababab", "cdcdcdcd", "abababab"]);
    }

    #[test]
    fn known_miners_fit_a_terminal_and_are_plain_in_a_pipe() {
        let miner = |byte: &str, status: &str| {
            json!({
                "id": key(byte), "key": key(byte), "status": status, "admitted": status, "state": "inconclusive_too_often",
                "labels": { "rack": "7", "operator": "north" }, "last_seen_ms": AT_MS, "first_seen_ms": AT_MS,
                "address": "2001:db8:1234:5678:9abc:def0:1234:5678", "software": "assay-miner/9\u{1b}",
                "reason": { "why": "it is in quarantine until an operator releases it\u{1b}", "remedy": "…" },
                "connected_to": null, "last_verdict": { "outcome": "inconclusive", "challenge": key("ee"), "at_ms": AT_MS },
            })
        };
        let found = [miner("ab", "suspended"), miner("cd", "pending")];
        for (screen, width) in screens() {
            fits(&miners_table(&found, false, &screen), width);
        }
        let plain = miners_table(&found, true, &Screen::FILE);
        let lines: Vec<_> = plain.lines().collect();
        assert_eq!(lines.len(), 3, "{plain}");
        for part in
            [&key("ab"), "suspended", "rack=7", "2025-12-31 23:59", "inconclusive", "2001:db8", "it is in quarantine"]
        {
            assert!(lines[1].contains(part), "{part} in {plain}");
        }
        assert!(!plain.contains('\u{1b}'));
    }

    #[test]
    fn a_miner_that_any_key_is_let_in_with_is_not_pending() {
        for (decided, admitted, shown) in [
            ("pending", "open", "open"),
            ("pending", "pending", "pending"),
            ("approved", "open", "approved"),
            ("approved", "revoked", "revoked"),
            ("suspended", "suspended", "suspended"),
        ] {
            assert_eq!(status(&json!({ "status": decided, "admitted": admitted })), shown);
        }
    }

    #[test]
    fn devices_say_what_is_odd_about_them() {
        let device = json!({
            "device_id": "cd".repeat(16), "miner": key("ab"), "name": "a name", "model": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "memory_bytes": 80_u64 << 30, "last_seen_ms": AT_MS, "last_pass_ms": null, "gone_ms": AT_MS,
            "also_at": [key("ef")],
        });
        for (screen, width) in screens() {
            fits(&devices_table(std::slice::from_ref(&device), &screen), width);
        }
        let plain = devices_table(&[device], &Screen::FILE);
        for part in [
            "cdcdcdcd",
            "\"NVIDIA H100 80GB HBM3 MIG 1g.10gb\"",
            "80.0",
            "gone since 2025-12-31 23:59; also at efefefef",
        ] {
            assert!(plain.contains(part), "{part} in {plain}");
        }
    }

    #[test]
    fn verdicts_have_their_figures_and_reasons() {
        let reason = |code: &str| json!({ "code": code, "class": "late", "detail": "…" });
        let record = json!({
            "challenge": "1894846d".repeat(4), "miner": key("ab"), "at_ms": AT_MS, "outcome": "inconclusive",
            "verdict": {
                "mode": "replay-sample", "n": 32768, "reasons": [reason("commitment_late"), reason("device_missing")],
                "whole": { "tops": 1234.5, "probe_gb_per_s": 0.0 },
            },
        });
        for (screen, width) in screens() {
            let shown = verdicts_table(std::slice::from_ref(&record), &screen);
            fits(&shown, width);
            assert!(shown.contains('─') && shown.contains("GB/s") == (width > 80), "no blocks: {shown}");
        }
        let plain = verdicts_table(&[record], &Screen::FILE);
        for part in ["1894846d", "replay-sample", "32768", "commitment_late, device_missing"] {
            assert!(plain.contains(part), "{part} in {plain}");
        }
        assert!(plain.lines().nth(1).is_some_and(|line| line.contains("1234") || line.contains("1235")), "{plain}");
    }
}
