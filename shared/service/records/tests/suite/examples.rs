//! The rows that the tests write.

use assay_policy::DeviceRate;
use assay_protocol::claims::Telemetry;
use assay_protocol::verdict::{Bound, DeviceWork, Hiding, Mode, Outcome, Reason, ReasonCode, Verdict, Work};
use assay_records::{
    Approval, ChallengeStart, CommitmentRecord, Conclusion, ConnectedSession, EvidenceRecord, FindingRecord,
    ListedDevice, MinerChange, MinerEvent, ReceiptRecord, Records, RoundMember, RoundRecord, StandingChange,
    Transition,
};
use assay_work::{ChallengeId, DeviceId, Precision, PublicKey};

/// When the examples happen: milliseconds since 1970.
pub const THEN_MS: i64 = 1_790_000_000_000;

/// The key of a miner, in hexadecimal.
pub fn key(number: u8) -> String {
    PublicKey([number; 32]).to_string()
}

/// The id of a challenge, in hexadecimal.
pub fn challenge(number: u32) -> String {
    challenge_id(number).to_string()
}

fn challenge_id(number: u32) -> ChallengeId {
    let mut id = [0xc0; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    ChallengeId(id)
}

pub fn device_id(number: u8) -> String {
    DeviceId([number; 16]).to_string()
}

/// A verdict about a miner with one device of its own, `seconds` after [`THEN_MS`].
pub fn verdict(number: u32, miner: u8, codes: &[ReasonCode], seconds: u64) -> Verdict {
    let reasons: Vec<_> = codes.iter().map(|code| Reason::new(*code, "what: \"12\" of 3 ✓")).collect();
    let work = Work {
        matrices: 100,
        bytes_held: 1 << 40,
        multiply_accumulates: u128::from(u64::MAX) * 3,
        seconds: 1.25,
        tops: 1234.5678901234567,
        probe_bytes: 1 << 33,
        probe_seconds: 0.1,
        probe_gb_per_s: 3456.7,
        samples: 128,
        segments: 16,
        claimed_seconds: Some(1.2),
    };
    let hiding = Hiding { rate_per_s: 1e15, computed: 0.001, over_buses: 0.002, share: 0.003, ..Hiding::default() };
    let device = DeviceWork {
        device_id: DeviceId([miner; 16]),
        name: "NVIDIA H200".to_owned(),
        work: work.clone(),
        claimed_telemetry: Some(Telemetry { samples: 7, ecc_corrected: Some(3), ..Telemetry::default() }),
        hiding: Some(hiding),
        rates: Vec::new(),
        sweep: None,
    };
    let keys = (PublicKey([miner; 32]), PublicKey([0xee; 32]));
    Verdict {
        mode: Some(Mode::Audit),
        n: 8192,
        iterations: 3,
        iterations_checked: 1,
        devices: vec![device],
        whole: work,
        work_bounds: vec![Bound { fraction: 0.01, log2_probability: -1.85 }],
        probe_bounds: vec![Bound { fraction: 0.05, log2_probability: -12.5 }],
        round_trip_ms: Some(0.25),
        roots_ms: Some(1.5),
        recent_challenges: 20,
        ..Verdict::without_work(challenge_id(number), keys.0, keys.1, reasons, THEN_MS as u64 / 1000 + seconds)
    }
}

/// A verdict with everything that can become known with it.
pub fn conclusion(number: u32, miner: u8, codes: &[ReasonCode], seconds: u64) -> Conclusion {
    let verdict = verdict(number, miner, codes, seconds);
    let at_ms = THEN_MS + seconds as i64 * 1000;
    let state = if verdict.outcome == Outcome::Pass { "passing" } else { "failed" };
    Conclusion {
        at_ms,
        asked: "schedule".to_owned(),
        group: "default".to_owned(),
        kind: "light".to_owned(),
        round: None,
        session: format!("{number:032x}"),
        commitment: Some(CommitmentRecord {
            checksum: "11".repeat(32),
            signature: "22".repeat(64),
            probe_checksum: Some("33".repeat(32)),
            probe_signature: None,
        }),
        evidence: Some(EvidenceRecord {
            digest: format!("{number:064x}"),
            bytes: 60 << 20,
            stored_bytes: 20 << 20,
            why: "fail".to_owned(),
        }),
        standing: Some(StandingChange {
            before: None,
            after: format!("{{\"last\":{number}}}"),
            transition: Some(transition(miner, at_ms, "enrolled", state)),
        }),
        shown: if verdict.outcome == Outcome::Pass { vec![shown(miner, verdict.precision, at_ms)] } else { Vec::new() },
        findings: vec![FindingRecord {
            code: "too_slow".to_owned(),
            miner: key(miner),
            other_miner: None,
            device_id: Some(device_id(miner)),
            detail: "12 of 34 TOPS".to_owned(),
            enforced: false,
        }],
        receipt: Some(ReceiptRecord {
            id: format!("e{number:031x}"),
            key_id: "2026-11".to_owned(),
            issued_s: at_ms / 1000,
            expires_s: at_ms / 1000 + 3600,
            nonce: Some("renter's".to_owned()),
            token: "eyJhbGciOiJFZERTQSJ9.e30.AA".to_owned(),
        }),
        next_due: Some((at_ms + 60_000, "heavy".to_owned())),
        device_ms: 2500,
        operator: Some("acme".to_owned()),
        verdict,
    }
}

pub fn transition(miner: u8, at_ms: i64, from: &str, to: &str) -> Transition {
    Transition {
        miner: key(miner),
        at_ms,
        from: from.to_owned(),
        to: to.to_owned(),
        why: "verdict".to_owned(),
        detail: "the first one".to_owned(),
    }
}

/// An operator's change of a status alone.
pub const fn status_change(action: &'static str, status: Approval) -> MinerChange {
    MinerChange { action, status: Some(status), standing: None }
}

/// A device's results in a kind of work.
pub fn shown(device: u8, precision: Precision, at_ms: i64) -> DeviceRate {
    DeviceRate {
        device_id: device_id(device),
        precision,
        name: "NVIDIA H200".to_owned(),
        bytes: 100 << 26,
        macs_per_s: 6.2e14,
        tops: 1234.5,
        probe_bytes_per_s: 3.4e12,
        linked_bytes_per_s: 0.0,
        at_ms,
    }
}

pub fn begun(number: u32, miner: u8, instance: &str) -> ChallengeStart {
    ChallengeStart {
        challenge: challenge(number),
        miner: key(miner),
        validator: PublicKey([0xee; 32]).to_string(),
        instance: instance.to_owned(),
        session: format!("{number:032x}"),
        group: "default".to_owned(),
        kind: "light".to_owned(),
        asked: "schedule".to_owned(),
        round: None,
        begun_ms: THEN_MS,
        device_ms: 4000,
    }
}

/// A miner with devices connects, under the keys of a chain.
pub fn connected(session: u32, chain: &[u8], devices: &[u8], at_ms: i64) -> ConnectedSession {
    let seen = |number: &u8| ListedDevice {
        device_id: device_id(*number),
        name: "NVIDIA H200".to_owned(),
        model: "H200".to_owned(),
        memory_bytes: 141 << 30,
        claims: "{\"driver_version\":\"580\"}".to_owned(),
    };
    ConnectedSession {
        session: format!("{session:032x}"),
        validator: PublicKey([0xee; 32]).to_string(),
        instance: "run-1".to_owned(),
        keys: chain.iter().map(|number| key(*number)).collect(),
        status: Approval::Pending,
        address: "192.0.2.1".to_owned(),
        software: "assay-miner 0.1.0".to_owned(),
        devices: devices.iter().map(seen).collect(),
        inventory: "{\"cuda\":13000}".to_owned(),
        at_ms,
    }
}

/// A round that goes on since [`THEN_MS`].
pub fn round(id: &str) -> RoundRecord {
    RoundRecord {
        id: id.to_owned(),
        group: "default".to_owned(),
        asked: "operator".to_owned(),
        validator: "ee".repeat(32),
        begun_ms: THEN_MS,
        ended_ms: None,
        detail: String::new(),
    }
}

/// A miner that is invited to a round.
pub fn invited(miner: u8) -> RoundMember {
    RoundMember {
        miner: key(miner),
        state: "invited".to_owned(),
        challenge: None,
        at_ms: THEN_MS,
        detail: String::new(),
    }
}

/// All events of the miner with this key, newest first.
pub async fn events_of(records: &Records, number: u8) -> Vec<MinerEvent> {
    records.history(&key(number), None, 100).await.unwrap().into_iter().map(|(_, event)| event).collect()
}
