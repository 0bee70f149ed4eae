//! What the records are told of a session: who connected, with which devices, and when it left.

use std::time::Duration;

use assay_fleet::identity::Presence;
use assay_protocol::message::{DeviceClaim, Hello, Inventory};
use assay_protocol::successor::{Lineage, Successor};
use assay_records::{Connected, DeviceSeen, Status};
use serde_json::json;

use super::Driver;
use crate::clock::{unix_millis, unix_seconds};

/// How long the records may take to note a change of devices, or the end of a session: the session waits for them.
const NOTE_LIMIT: Duration = Duration::from_secs(2);

impl Driver {
    /// The session's id in the records.
    pub(super) fn session_id(&self) -> String {
        self.session.nonce().map(|nonce| nonce.to_string()).unwrap_or_default()
    }

    /// A miner that proved its key, for the records.
    pub(super) fn connected_record(&self, miner: &Lineage, hello: &Hello) -> Connected {
        let (validator, now) = (&self.validator, unix_seconds());
        let stands = |s: &Successor| s.is_current(now) && !validator.admission.allowed.is_barred(&s.old_key);
        let older = miner.standing(stands).into_iter().rev().map(|statement| statement.old_key);
        let keys = older.chain([miner.key()]).map(|key| key.to_string()).collect();
        Connected {
            session: self.session_id(),
            validator: validator.admission.identity.public_key().to_string(),
            instance: validator.instance.clone(),
            keys,
            status: Status::Pending,
            address: self.peer.as_ref().map(|peer| peer.address.ip().to_string()).unwrap_or_default(),
            software: hello.agent.clone(),
            devices: seen(&hello.inventory),
            inventory: String::new(),
            at_ms: unix_millis(),
        }
    }

    /// Notes that the miner's devices changed. What is free of them changes all the time, and is not noted.
    pub(super) async fn note_devices(&mut self, inventory: &Inventory) {
        let devices = seen(inventory);
        let Some(key) = self.key().filter(|_| devices != self.noted_devices) else { return };
        let (key, session) = (key.to_string(), self.session_id());
        let noted = self.validator.records.devices_changed(&key, &session, &devices, unix_millis());
        match tokio::time::timeout(NOTE_LIMIT, noted).await {
            Ok(Ok(())) => {
                self.noted_devices = devices;
                self.notice();
            }
            // The next inventory is held against what was noted last.
            Ok(Err(error)) => tracing::warn!(miner = key, "the records do not have the miner's devices: {error}"),
            Err(_) => tracing::warn!(miner = key, "the records do not have the miner's devices: no answer"),
        }
    }

    /// Has what the miner's devices and address say held against the others that are there.
    pub(super) fn notice(&self) {
        let (Some(record), Some(peer), Some(inventory)) = (&self.record, &self.peer, self.session.inventory()) else {
            return;
        };
        let validator = self.validator.clone();
        let now = unix_seconds();
        // When it first showed a device in work that held is what the records know best.
        let devices = inventory.devices.iter().map(|device| (device.id, None)).collect();
        let presence = Presence {
            miner: record.id.clone(),
            operator: validator.fleet.rules().policy.operator_of(&record.labels).map(str::to_owned),
            session: self.session_id(),
            address: peer.address.ip(),
            began_s: now,
            heard_s: now,
            devices,
        };
        let record = record.clone();
        tokio::spawn(async move {
            if let Err(error) = validator.fleet.notice(&record, presence).await {
                tracing::warn!(miner = record.key, "what a miner's devices say is not in the records: {error}");
            }
        });
    }

    /// Something came from the miner.
    pub(super) fn heard(&self) {
        if let (Some(record), Some(peer)) = (&self.record, &self.peer) {
            self.validator.fleet.presences.heard(&record.id, peer.address.ip(), unix_seconds());
        }
    }

    /// Notes the end of the session, where the records have its begin.
    pub(super) async fn note_left(&self, why: &str) {
        let Some(record) = &self.record else { return };
        let session = self.session_id();
        let noted = self.validator.records.disconnected(&session, unix_millis(), why);
        if !matches!(tokio::time::timeout(NOTE_LIMIT, noted).await, Ok(Ok(()))) {
            // The session counts as open until this validator's process has ended.
            tracing::warn!(miner = record.key, session, "the records do not have the end of a session");
        }
    }
}

/// What does not change while the devices are the same.
fn seen(inventory: &Inventory) -> Vec<DeviceSeen> {
    let device = |device: &DeviceClaim| {
        let DeviceClaim { id, name, backend, detail, total_bytes, claimed_hardware, .. } = device;
        DeviceSeen {
            device_id: id.to_string(),
            name: name.clone(),
            model: device.claimed_model().to_owned(),
            memory_bytes: i64::try_from(*total_bytes).unwrap_or(i64::MAX),
            claims: json!({ "backend": backend, "detail": detail, "hardware": claimed_hardware }).to_string(),
        }
    };
    inventory.devices.iter().map(device).collect()
}
