//! A fleet to show.

use std::collections::BTreeMap;

use assay_api::record::{FullVerdict, MinerCount, MinerEvent, ModelCount};
use assay_api::{ChallengeProgress, Miner, MinerDetail, MinerSeries, Role, Round};
use assay_protocol::verdict::{Bound, Outcome, Reason, ReasonCode, Verdict, outcome_of};
use serde_json::{Value, json};

use super::HOSTILE;
use crate::{Frame, ListedVerdict, Names, Outcomes, Viewer};

pub(super) const NOW_MS: i64 = 1_795_370_400_000;

const STATES: [&str; 8] = ["passing", "passing", "passing", "failed", "passing", "suspect", "expired", "enrolled"];

fn key(index: u32) -> String {
    blake3::hash(&index.to_le_bytes()).to_hex().to_string()
}

fn id(index: u32) -> String {
    key(index)[..32].to_owned()
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

pub(super) fn frame() -> Frame<'static> {
    Frame {
        viewer: Some(Viewer { name: "north", role: Role::Admin, is_signed_in: true }),
        validator: "b94ec2860dd1c3ba05cceed2b94ec2860dd1c3ba05cceed2b94ec2860dd1c3ba",
        version: "0.1.0",
        now_ms: NOW_MS,
        last_event: 42,
        notice: None,
    }
}

pub(super) fn miner(index: u32) -> Miner {
    let state = STATES[index as usize % STATES.len()];
    let (outcome, reason) = match state {
        "passing" => ("pass", Value::Null),
        "failed" => ("fail", json!({ "why": "The last verdict failed.", "remedy": "Look at its verdict." })),
        "suspect" => {
            ("inconclusive", json!({ "why": "The connection broke.", "remedy": "Ask again when the miner is back." }))
        }
        _ => ("inconclusive", json!({ "why": "It owes 2 passes.", "remedy": "Wait for its next challenges." })),
    };
    let (name, labels) = match index % 5 {
        4 => (Value::Null, json!({})),
        3 => (json!(HOSTILE), json!({ "name": HOSTILE, "rack": "7" })),
        _ => (
            json!(format!("gpu-{index:03}")),
            json!({ "name": format!("gpu-{index:03}"), "rack": (index / 8).to_string(), "operator": "north" }),
        ),
    };
    let at_ms = NOW_MS - i64::from(index) * 97_000;
    read(&json!({
        "id": key(index), "key": key(index), "keys": [key(index)], "status": "approved", "labels": labels,
        "state": state,
        "standing": null, "first_seen_ms": NOW_MS - 8_000_000_000_i64, "last_seen_ms": at_ms,
        "address": format!("10.0.{index}.7"),
        "software": "assay-miner 0.1.0", "due": { "at_ms": NOW_MS + 600_000 + i64::from(index) * 1000,
        "kind": "light" },
        "last_verdict": { "challenge": id(index), "outcome": outcome, "at_ms": at_ms },
        "connected_to": if index % 7 == 6 { Value::Null } else { json!(key(999)) },
        "admitted": "approved", "name": name, "device_count": 8,
        "models": if index % 3 == 2 { json!(["NVIDIA H100 80GB HBM3",
        "NVIDIA H200"]) } else { json!(["NVIDIA H200"]) }, "reason": reason,
    }))
}

pub(super) fn counts(miners: &[Miner]) -> Vec<MinerCount> {
    let count = |miner: &Miner| MinerCount {
        status: miner.record.status,
        state: miner.record.state.clone(),
        outcome: None,
        miners: 1,
    };
    miners.iter().map(count).collect()
}

pub(super) fn models() -> Vec<ModelCount> {
    let model = |model: &str, devices, miners| ModelCount { model: model.to_owned(), devices, miners };
    vec![model("NVIDIA H200", 168, 21), model("NVIDIA H100 80GB HBM3", 64, 8), model(HOSTILE, 1, 1)]
}

fn device(index: u32) -> Value {
    json!({
        "miner": key(1), "device_id": id(100 + index), "name": if index == 3 { HOSTILE } else { "NVIDIA H200" },
        "model": "NVIDIA H200",
        "memory_bytes": 150_754_820_096_i64, "claims": {}, "first_seen_ms": NOW_MS - 8_000_000_000_i64,
        "last_seen_ms": NOW_MS - 60_000,
        "gone_ms": if index == 3 { json!(NOW_MS - 7_200_000) } else { Value::Null }, "last_challenge": id(1),
        "last_pass_ms": NOW_MS - 97_000, "also_at": if index == 2 { json!([key(5)]) } else { json!([]) },
    })
}

pub(super) fn detail() -> MinerDetail {
    let mut document = serde_json::to_value(miner(1)).unwrap();
    let session = |index: u32, end: Value| {
        json!({
            "id": id(200 + index), "miner": key(1), "key": key(1), "validator": key(999), "instance": "a",
            "address": "10.0.1.7",
            "software": "assay-miner 0.1.0", "inventory": {},
            "connected_ms": NOW_MS - i64::from(index + 1) * 9_000_000,
            "disconnected_ms": end, "why": if end.is_null() { Value::Null } else { json!("the stream ended") },
        })
    };
    let more = json!({
        "group": "default", "delayed": "duty_percent = 1 of group default allows 864 s of device time in 24 hours",
        "devices": (0..4).map(device).collect::<Vec<_>>(),
        "sessions": [session(0, Value::Null), session(1, json!(NOW_MS - 9_500_000))],
        "findings": [{
            "id": "f1", "at_ms": NOW_MS - 97_000, "challenge": id(1), "code": "too_slow", "miner": key(1),
            "other_miner": null,
            "device_id": id(100),
            "detail": "812.4 TOPS were shown, H200 shows 989.5 at least, of a peak of 1979.0", "enforced": false,
        }],
        "actions": [],
        "connection": {
            "miner_key": key(1), "agent": "assay-miner 0.1.0", "address": "10.0.1.7", "devices": 4,
            "claimed_devices": [],
            "free_bytes": 1, "challenged_now": false, "challenge": null, "connected_seconds": 60,
            "missing_devices": [],
            "round_trip_ms": 1.25,
        },
    });
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    read(&document)
}

pub(super) fn running() -> ChallengeProgress {
    read(&json!({
        "challenge_id": id(7), "miner_key": key(1), "phase": "work", "done_slots": 37, "all_slots": 96, "seconds": 4,
    }))
}

pub(super) fn series() -> MinerSeries {
    let wave = |step: u32, of: u32| f64::from((step * 7 + of * 13) % 11) / 11.0;
    let point = |step: u32, of: u32| {
        let outcome = if step == 17 {
            "fail"
        } else if step == 9 {
            "inconclusive"
        } else {
            "pass"
        };
        json!({
            "challenge": id(step), "device_id": id(100 + of), "model": "NVIDIA H200",
            "at_ms": NOW_MS - i64::from(30 - step) * 3_600_000,
            "outcome": outcome, "work_held": outcome == "pass", "precision": 1, "n": 4096,
            "tops": 1500.0 + 120.0 * wave(step, of) - if step == 17 { 700.0 } else { 0.0 },
            "bytes_held": 139_000_000_000_i64, "gb_per_s": 4100.0 + 200.0 * wave(step, of),
            "temperature_c": 58.0 + 9.0 * wave(step, of), "power_w": 610.0 + 60.0 * wave(step, of),
        })
    };
    let points: Vec<_> = (0..30).flat_map(|step| (0..3).map(move |of| point(step, of))).collect();
    let band = |quantity: &str, low: f64, high: Value, by: &str| {
        json!({ "model": "NVIDIA H200", "precision": 1, "n": null,
    "quantity": quantity, "low": low, "middle": null, "high": high, "by": by })
    };
    read(&json!({
        "points": points,
        "bands": [
            band("tops", 989.5, json!(2077.9), "profile"), band("tops", 1350.0, json!(1720.0), "fleet"),
            band("gb_per_s", 3900.0, json!(4800.0), "fleet"), band("bytes_held", 1.26e11, Value::Null, "profile"),
        ],
    }))
}

pub(super) fn verdict(codes: &[ReasonCode]) -> Verdict {
    let reasons: Vec<_> = codes
        .iter()
        .map(|code| Reason::on_device(*code, id(100).parse().unwrap(), format!("sample 7, opening 0: {HOSTILE}")))
        .collect();
    let work = json!({
        "matrices": 4410, "bytes_held": 142_200_000_000_u64, "multiply_accumulates": 302_800_000_000_000_u64,
        "seconds": 0.391,
        "tops": 1548.9, "probe_bytes": 1_073_741_824_u64, "probe_seconds": 0.2511, "probe_gb_per_s": 4276.1,
        "samples": 128,
        "segments": 32, "claimed_seconds": 0.38,
    });
    let device = |index: u32| {
        let mut device = work.clone();
        let more = json!({
            "device_id": id(100 + index), "name": if index == 2 { HOSTILE } else { "NVIDIA H200" },
            "claimed_telemetry": {
                "samples": 12, "temperature_c": { "min": 51, "mean": 61, "max": 66 },
                "power_mw": { "min": 120_000, "mean": 642_500, "max": 700_100 },
                "sm_clock_mhz": null, "memory_clock_mhz": null, "gpu_utilisation_percent": null,
                "memory_utilisation_percent": null,
                "memory_used_max_bytes": null,
                "throttle_reasons": if index == 1 { json!(["sw_thermal"]) } else { json!([]) }, "ecc_corrected": null,
                "ecc_uncorrected": null, "xids": [],
            },
            "hiding": { "rate_per_s": 1.5e15, "rate_is_shown_only": index == 1, "computed": 0.021,
            "over_buses": 0.0125, "share": 0.0335, "rule": 2 },
        });
        device.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        device
    };
    let bounds = |of: [f64; 3]| {
        [0.01, 0.05, 0.1]
            .into_iter()
            .zip(of)
            .map(|(fraction, log2)| json!({ "fraction": fraction, "log2_probability": log2 }))
            .collect::<Vec<_>>()
    };
    let mut verdict: Verdict = read(&json!({
        "challenge_id": id(1), "miner_key": key(1), "validator_key": key(999), "outcome": "pass", "reasons": [],
        "mode": "audit",
        "n": 4096, "iterations": 1, "iterations_checked": 1, "devices": (0..3).map(device).collect::<Vec<_>>(),
        "whole": work,
        "work_bounds": bounds([-1.855, -9.47, -19.45]), "iteration_bounds": [],
        "probe_bounds": bounds([-9.5, -47.9, -98.1]),
        "link": {
            "seconds": 0.21, "step_seconds": 0.000_041, "crossed_bytes": 70_000_000_000_u64, "gb_per_s": 41.7,
            "half_gb_per_s": 83.4, "least_gb_per_s": 83.4, "segments": 32, "bounds": bounds([-29.7, -151.5, -311.3]),
        },
        "round_trip_ms": 1.25, "handover_ms": 0.46, "roots_ms": 3.1, "digests_ms": 12.8,
        "not_challenged": [{ "device_id": id(109), "name": HOSTILE, "slots": 2 }],
        "missing_devices": [{ "device_id": id(103), "name": "NVIDIA H200" }], "new_devices": [],
        "abandoned_recently": 1,
        "recent_challenges": 20, "unix_seconds": NOW_MS / 1000 - 97,
    }));
    verdict.outcome = outcome_of(&reasons);
    verdict.reasons = reasons;
    assert_eq!(verdict.work_bounds[0], Bound { fraction: 0.01, log2_probability: -1.855 });
    verdict
}

pub(super) fn full(verdict: &Verdict) -> FullVerdict {
    read(&json!({
        "challenge": id(1), "miner": key(1), "at_ms": NOW_MS - 97_000, "outcome": verdict.outcome,
        "group": "h200", "kind": "heavy",
        "asked": "schedule", "round": id(300), "device_ms": 2056, "verdict": verdict, "session": id(200),
        "commitment": { "checksum": key(401), "signature": key(402).repeat(2), "probe_checksum": key(403),
        "probe_signature": key(404).repeat(2) },
        "evidence": {
            "challenge": id(1), "at_ms": NOW_MS - 97_000, "digest": key(405), "bytes": 48_318_382,
            "stored_bytes": 31_004_118, "why": "drawn",
            "dropped_ms": null,
        },
        "findings": [{
            "code": "device_moved", "miner": key(1), "other_miner": key(5), "device_id": id(100),
            "detail": HOSTILE, "enforced": false,
        }],
        "receipts": [{
            "id": id(406), "key_id": key(407), "issued_s": NOW_MS / 1000 - 96, "expires_s": NOW_MS / 1000 + 3504,
            "nonce": null,
            "token": format!("eyJhbGciOiJFZERTQSJ9.{}.{}", key(408).repeat(6), key(409)),
        }],
    }))
}

pub(super) fn listed() -> Vec<ListedVerdict> {
    let codes = |index: u32| match index {
        3 => vec![ReasonCode::AuditElement, ReasonCode::TooSlow],
        5 | 9 => vec![ReasonCode::Disconnected],
        _ => Vec::new(),
    };
    let listed = |index: u32| {
        let verdict = verdict(&codes(index));
        let mut record = full(&verdict).record;
        record.challenge = id(index);
        record.at_ms = NOW_MS - i64::from(index + 1) * 3_600_000;
        ListedVerdict { record, verdict: Some(verdict), miner_name: Some("gpu-001".to_owned()) }
    };
    (0..16).map(listed).collect()
}

pub(super) fn history() -> Vec<MinerEvent> {
    read(&json!([
        { "event": "action", "id": "a1", "at_ms": NOW_MS - 60_000, "actor": { "name": HOSTILE, "uid": 1000 },
        "action": "label",
          "miner": key(1), "detail": "{\"rack\":\"7\"}" },
        { "event": "transition", "id": "t1", "challenge": id(1), "miner": key(1), "at_ms": NOW_MS - 97_000,
        "from": "enrolled",
          "to": "passing", "why": "passed", "detail": "2 passes in a row" },
        { "event": "device", "id": "d1", "miner": key(1), "device_id": id(103), "at_ms": NOW_MS - 7_200_000,
        "what": "gone",
          "other_miner": null, "session": id(200), "detail": "" },
    ]))
}

pub(super) fn rounds() -> (Vec<Round>, Names, Outcomes) {
    let states = ["judged", "judged", "absent", "judged", "late", "started"];
    let round = |index: u32| {
        let member = |at: u32| {
            let state = states[(at + index) as usize % states.len()];
            let challenge = if state == "judged" { json!(id(500 + index * 10 + at)) } else { Value::Null };
            json!({ "miner": key(at), "state": state, "challenge": challenge,
            "at_ms": NOW_MS - i64::from(index) * 7_200_000 + i64::from(at) * 137, "detail": "" })
        };
        json!({
            "id": id(300 + index), "group": "h200", "asked": "schedule", "validator": key(999),
            "begun_ms": NOW_MS - i64::from(index) * 7_200_000,
            "ended_ms": NOW_MS, "detail": "{\"probed_ms\":1200,\"probed_together\":2}",
            "members": (0..9).map(member).collect::<Vec<_>>(),
        })
    };
    let rounds: Vec<Round> = (0..6).map(|index| read(&round(index))).collect();
    let challenges = rounds.iter().flat_map(|round| &round.members).filter_map(|member| member.challenge.clone());
    let outcomes: BTreeMap<_, _> =
        challenges.enumerate().map(|(at, id)| (id, if at % 7 == 5 { Outcome::Fail } else { Outcome::Pass })).collect();
    let names = (0..6).map(|index| (key(index), format!("gpu-{index:03}"))).collect();
    (rounds, names, outcomes)
}
