//! Samples for the tests of several modules.

use std::path::Path;
use std::time::Instant;

use assay_policy::FleetRules;
use assay_protocol::message::Inventory;
use assay_protocol::verdict::{Reason, ReasonCode, Verdict};
use assay_receipts::Signer;
use assay_records::{Approval, ChallengeStart, Conclusion, ConnectedSession, Location, Records, RoundRecord};
use assay_work::{ChallengeId, Nonce, PublicKey};

use crate::events::EventSession;
use crate::fleet::Fleet;
use crate::registry::ConnectedMiner;
use crate::takeover::SessionNonces;

/// A fleet without a policy, with its records in a folder.
pub async fn fleet(folder: &Path) -> Fleet {
    let records = Records::open(&Location::File(folder.join("validator.db"))).await.unwrap();
    let rules = FleetRules::parse("", "p.toml", None).unwrap();
    Fleet::new(records, rules, Signer::open(&folder.join("key"), "test").unwrap())
}

/// A miner that has just connected.
pub fn connected(key: PublicKey) -> ConnectedMiner {
    ConnectedMiner {
        who: EventSession { session: 0, miner: key, address: None, agent: "test".into(), since: Instant::now() },
        inventory: Inventory::default(),
        challenged: false,
        running: None,
        missing: Vec::new(),
        round_trip: None,
        resumption: SessionNonces::default(),
    }
}

/// The conclusion of a challenge that was lost.
pub fn conclusion(challenge_id: ChallengeId, miner_key: PublicKey, validator_key: PublicKey, at: u8) -> Conclusion {
    let reasons = vec![Reason::new(ReasonCode::ValidatorLost, "")];
    Conclusion {
        verdict: Verdict::without_work(challenge_id, miner_key, validator_key, reasons, at.into()),
        at_ms: at.into(),
        next_due: None,
        asked: "operator".into(),
        group: "default".into(),
        kind: "light".into(),
        round: None,
        session: String::new(),
        commitment: None,
        evidence: None,
        standing: None,
        shown: Vec::new(),
        findings: Vec::new(),
        receipt: None,
        device_ms: 0,
        operator: None,
    }
}

/// A session of a miner that an operator admitted, without devices.
pub fn session(nonce: Nonce, miner: PublicKey, validator: PublicKey) -> ConnectedSession {
    ConnectedSession {
        session: nonce.to_string(),
        validator: validator.to_string(),
        instance: "run".to_owned(),
        keys: vec![miner.to_string()],
        status: Approval::Approved,
        address: String::new(),
        software: String::new(),
        devices: Vec::new(),
        inventory: String::new(),
        at_ms: 1,
    }
}

/// A challenge that a run of a validator began.
pub fn begun(session: Nonce, miner: PublicKey, validator: PublicKey) -> ChallengeStart {
    ChallengeStart {
        challenge: ChallengeId([1; 16]).to_string(),
        miner: miner.to_string(),
        validator: validator.to_string(),
        instance: "run".to_owned(),
        session: session.to_string(),
        group: String::new(),
        kind: String::new(),
        asked: "schedule".to_owned(),
        round: None,
        begun_ms: 1,
        device_ms: 1,
    }
}

/// A round that runs.
pub fn round(id: &str, validator: PublicKey) -> RoundRecord {
    RoundRecord {
        id: id.to_owned(),
        group: "default".to_owned(),
        asked: "operator".to_owned(),
        validator: validator.to_string(),
        begun_ms: 1,
        ended_ms: None,
        detail: String::new(),
    }
}
