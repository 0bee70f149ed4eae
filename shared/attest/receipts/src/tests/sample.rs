//! Receipts for tests, as their JSON has them.

use assay_work::{DeviceId, PublicKey};
use serde_json::{Value, json};

use crate::claims::{Claims, EAR_PROFILE, SUBMODULE_PROFILE};

/// A device of a receipt: a number for its id, its claimed model, its bytes and its rate.
pub type SampleDevice = (u8, &'static str, u64, f64);

/// A receipt about the key of this number that is issued at `iat` and holds for a day.
pub fn receipt(number: u32, key: u8, iat: u64, status: &str, devices: &[SampleDevice]) -> Claims {
    edited(number, key, iat, status, devices, |_| ())
}

/// A receipt whose claims of the host are edited.
pub fn edited(
    number: u32,
    key: u8,
    iat: u64,
    status: &str,
    devices: &[SampleDevice],
    edit: impl FnOnce(&mut Value),
) -> Claims {
    let holds = matches!(status, "affirming" | "warning");
    let proven = |bytes: u64, tops: f64| json!({ "bytes": bytes, "tops": tops, "seconds": 3.0, "gb_per_s": tops * 2.0, "probe_seconds": 3.0 });
    let outcome = match status {
        "contraindicated" => "fail",
        "none" => "inconclusive",
        _ => "pass",
    };
    let miner = PublicKey([key; 32]);
    let mut host = json!({
        "outcome": outcome, "state": "passing", "group": "default", "challenge_id": format!("{number:032x}"),
        "challenged_at": iat, "miner_key": miner, "validator_key": PublicKey([9; 32]), "n": 2048, "iterations": 8,
        "iterations_checked": 8,
    });
    if holds {
        host["proven"] = proven(devices.iter().map(|one| one.2).sum(), devices.iter().map(|one| one.3).sum());
    }
    edit(&mut host);
    let appraisal = |result: Value, more: Value| {
        let mut appraisal = json!({
            "eat_profile": SUBMODULE_PROFILE, "ear_status": status, "ear_verifier_claims": result,
            "ear_trustworthiness_vector": { "hardware": 0 },
        });
        appraisal.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        appraisal
    };
    let mut submods = json!({ "host": appraisal(host, Value::Null) });
    for (id, model, bytes, tops) in devices {
        let result = if holds { json!({ "proven": proven(*bytes, *tops) }) } else { json!({}) };
        let label = crate::device_label(DeviceId([*id; 16]));
        submods[label] = appraisal(result, json!({ "ear_attester_claims": { "claimed_model": model } }));
    }
    let claims = json!({
        "eat_profile": EAR_PROFILE, "iss": PublicKey([9; 32]), "sub": miner, "jti": format!("r{number}"), "iat": iat,
        "exp": iat + 86_400, "ear_verifier_id": { "developer": "Assay", "build": "test" }, "ear_status": status,
        "submods": submods,
    });
    serde_json::from_value(claims).unwrap()
}
