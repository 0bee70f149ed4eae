//! Records of a session: the miner, its devices, and the session's start and end.

use std::time::Duration;

use assay_policy::identity::Presence;
use assay_protocol::message::{DeviceClaim, Hello, Inventory};
use assay_records::{Approval, ConnectedSession, ListedDevice};
use serde_json::json;

use super::Driver;
use crate::unrecorded::SessionEnd;
use assay_judge::history::MinerHistory;
use assay_judge::history::devices::Difference;
use assay_program::clock::{self, unix_ms, unix_seconds};

/// The most that a session waits for the records to note a change of devices, or to return the miner's history.
const NOTE_LIMIT: Duration = Duration::from_secs(2);

impl Driver {
    pub(super) fn session_id(&self) -> String {
        self.session.nonce().map(|nonce| nonce.to_string()).unwrap_or_default()
    }

    /// The record of a miner that proved its key, without its keys, which follow from decisions.
    pub(super) fn connected_record(&self, hello: &Hello) -> ConnectedSession {
        let validator = &self.validator;
        ConnectedSession {
            session: self.session_id(),
            validator: validator.access.admission.identity.public_key().to_string(),
            instance: validator.instance.clone(),
            keys: Vec::new(),
            status: Approval::Pending,
            address: self.peer.as_ref().map(|peer| peer.address.ip().to_string()).unwrap_or_default(),
            software: hello.agent.clone(),
            devices: seen(&hello.inventory),
            inventory: String::new(),
            at_ms: unix_ms(),
        }
    }

    /// Records changes of the miner's devices. Free memory changes all the time, and is not recorded. Changes above the
    /// rate limit are recorded later, all at once.
    pub(super) async fn note_devices(&mut self, inventory: &Inventory) {
        let devices = seen(inventory);
        let Some(key) = self.key().filter(|_| devices != self.host.noted_devices) else { return };
        let (key, session) = (key.to_string(), self.session_id());
        self.host.has_unnoted_devices = self.device_changes.take(clock::now()).is_err();
        if self.host.has_unnoted_devices {
            return;
        }
        let noted = self.validator.records.devices_changed(&key, &session, &devices, unix_ms());
        match tokio::time::timeout(NOTE_LIMIT, noted).await {
            Ok(Ok(())) => {
                self.host.noted_devices = devices;
                self.look_for_missing().await;
                self.notice();
            }
            // The next inventory is compared with the last recorded one.
            Ok(Err(error)) => tracing::warn!(miner = key, "the records do not have the miner's devices: {error}"),
            Err(_) => tracing::warn!(miner = key, "the records do not have the miner's devices: no answer"),
        }
    }

    /// Reads the history of the miner.
    ///
    /// # Errors
    /// The reason why the records do not return it.
    pub(super) async fn history(&self) -> Result<MinerHistory, String> {
        let key = self.key().map(|key| key.to_string()).unwrap_or_default();
        match tokio::time::timeout(NOTE_LIMIT, self.validator.records.memory(&key)).await {
            Ok(Ok(memory)) => Ok(memory.into()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    /// Publishes the devices that the miner showed before and does not list now, as far as the records know them.
    pub(super) async fn look_for_missing(&self) {
        if let Ok(history) = self.history().await {
            self.note_missing(&history);
        }
    }

    pub(super) fn note_missing(&self, history: &MinerHistory) {
        let Some(inventory) = self.session.inventory() else { return };
        let missing = Difference::unlisted(&history.past.devices, inventory);
        self.update(|miner| miner.missing = missing);
    }

    /// Has the miner's devices and address compared with those of the other sessions.
    pub(super) fn notice(&self) {
        let (Some(record), Some(peer), Some(inventory)) = (&self.host.record, &self.peer, self.session.inventory())
        else {
            return;
        };
        let validator = self.validator.clone();
        let now = unix_seconds();
        // The time of a device's first work that held is in the records.
        let devices = inventory.devices.iter().map(|device| (device.id, None)).collect();
        let presence = Presence {
            miner: record.id.clone(),
            operator: validator.fleet.rules().policy.operator_of(&record.labels).map(str::to_owned),
            session: self.session_id(),
            address: peer.address.ip(),
            began_s: now,
            heard_s: now,
            is_replaced: false,
            devices,
        };
        validator.fleet.presences.note(&presence, &record.keys);
        let record = record.clone();
        tokio::spawn(async move {
            if let Err(error) = validator.fleet.notice(&record, &presence).await {
                tracing::warn!(miner = record.key, "what a miner's devices say is not in the records: {error}");
            }
        });
    }

    /// Records that a message came from the miner.
    pub(super) fn heard(&self) {
        self.validator.fleet.presences.heard(&self.session_id(), unix_seconds());
    }

    /// Records the end of the session, now or later, if the records have its start.
    pub(super) async fn note_left(&self, why: &str) {
        if self.host.record.is_some() {
            self.validator.registry.unrecorded.end(&self.validator.records, self.session_end(why)).await;
        }
    }

    /// The end of the session now.
    pub(super) fn session_end(&self, why: &str) -> SessionEnd {
        SessionEnd { session: self.session_id(), at_ms: unix_ms(), why: why.to_owned(), has_panicked: false }
    }
}

/// The properties that stay while the devices are the same.
fn seen(inventory: &Inventory) -> Vec<ListedDevice> {
    let device = |device: &DeviceClaim| {
        let DeviceClaim { id, name, backend, detail, total_bytes, claimed_hardware, .. } = device;
        ListedDevice {
            device_id: id.to_string(),
            name: name.clone(),
            model: device.claimed_model().to_owned(),
            memory_bytes: i64::try_from(*total_bytes).unwrap_or(i64::MAX),
            claims: json!({ "backend": backend, "detail": detail, "hardware": claimed_hardware }).to_string(),
        }
    };
    inventory.devices.iter().map(device).collect()
}
