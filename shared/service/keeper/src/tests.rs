//! Samples for the tests of several modules.

use std::time::Instant;

use assay_protocol::message::Inventory;
use assay_records::RoundRecord;
use assay_work::PublicKey;

use crate::registry::ConnectedMiner;
use crate::takeover::SessionNonces;

/// A miner that has just connected.
pub fn connected(key: PublicKey) -> ConnectedMiner {
    ConnectedMiner {
        key,
        agent: "test".into(),
        address: None,
        inventory: Inventory::default(),
        challenged: false,
        running: None,
        since: Instant::now(),
        missing: Vec::new(),
        round_trip: None,
        resumption: SessionNonces::default(),
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
