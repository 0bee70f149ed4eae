//! Records that were filled with a large fleet, of which some miners have hostile names.

use std::collections::BTreeMap;
use std::path::Path;

use assay_records::{Actor, Approval, ConnectedSession, ListedDevice, Location, Records, StandingChange, Transition};

pub const MINERS: u32 = 1000;
/// One miner in this count is hostile.
const STEP: u32 = 97;
/// A text that would run as a script, would steer a terminal, and turns the direction of writing.
const HOSTILE: &str =
    "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">\u{1b}[2J\u{202e}gnirts";

/// Some miners have nothing but hostile texts: this one, over and over.
fn long() -> String {
    HOSTILE.repeat((64 << 10) / HOSTILE.len())
}

/// Fills the records of a validator, while it runs, as another validator that shares them would.
pub async fn fill(file: &Path) {
    let records = Records::open(&Location::File(file.to_owned())).await.expect("the records");
    for index in 0..MINERS {
        let key = blake3::hash(&index.to_le_bytes()).to_hex().to_string();
        let is_hostile = index % STEP == 0;
        let name = if is_hostile { long() } else { format!("gpu-{index:04}") };
        records.connected(&connected(&key, index, is_hostile)).await.expect("a session");
        if index % 4 == 0 || is_hostile {
            let labels =
                BTreeMap::from([("name".to_owned(), Some(name)), ("rack".to_owned(), Some((index / 40).to_string()))]);
            records.set_labels(&key, &labels, &Actor::validator()).await.expect("labels");
        }
        if index % 10 == 0 {
            records.change_standing(&key, &failed(&key, is_hostile)).await.expect("a state");
        }
    }
}

fn connected(key: &str, index: u32, is_hostile: bool) -> ConnectedSession {
    let name = if is_hostile { long() } else { "NVIDIA H200".to_owned() };
    let device = ListedDevice {
        device_id: key[..32].to_owned(),
        name: name.clone(),
        model: name,
        memory_bytes: 150_754_820_096,
        claims: String::new(),
    };
    ConnectedSession {
        session: blake3::hash(key.as_bytes()).to_hex()[..32].to_owned(),
        validator: "another".to_owned(),
        instance: "another".to_owned(),
        keys: vec![key.to_owned()],
        status: Approval::Approved,
        address: format!("10.0.{}.{}", index / 256, index % 256),
        software: if is_hostile { long() } else { "assay-miner 0.1.0".to_owned() },
        devices: vec![device],
        inventory: "{}".to_owned(),
        at_ms: 1_795_370_000_000 + i64::from(index),
    }
}

fn failed(key: &str, is_hostile: bool) -> StandingChange {
    let transition = Transition {
        miner: key.to_owned(),
        at_ms: 1_795_370_100_000,
        from: "enrolled".to_owned(),
        to: "failed".to_owned(),
        why: "failed".to_owned(),
        detail: if is_hostile { long() } else { "a challenge was failed".to_owned() },
    };
    StandingChange { before: None, after: r#"{"state":"failed"}"#.to_owned(), transition: Some(transition) }
}
