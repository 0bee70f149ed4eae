//! The devices of a host, as a table and as JSON.

use serde::Serialize;

use super::{Screen, table, units};
use crate::compute::device::DeviceInfo;
use crate::telemetry::Hardware;
use crate::work::DeviceId;

/// One device to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceRow {
    /// The device.
    pub device_id: DeviceId,
    /// The model.
    pub name: String,
    /// The backend's name.
    pub backend: String,
    /// What the backend chose for it.
    pub detail: String,
    /// All its memory.
    pub total_bytes: u64,
    /// What a challenge could take now.
    pub free_bytes: u64,
    /// How many slots fit now, for each matrix size of interest, smallest first.
    pub slots: Vec<SlotsThatFit>,
    /// What the management library says of it.
    pub hardware: Option<Hardware>,
    /// Where that library and the device's driver disagree about it, in sentences.
    pub disagreements: Vec<String>,
}

/// How many slots of one size fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SlotsThatFit {
    /// The matrix size.
    pub n: u32,
    /// How many slots.
    pub slots: u32,
}

impl DeviceRow {
    /// The row of a device; `slots_that_fit` gives its slots for each of `sizes`.
    #[must_use]
    pub fn new(info: &DeviceInfo, sizes: &[u32], slots_that_fit: impl Fn(u32) -> u32) -> Self {
        Self {
            device_id: info.id,
            name: info.name.clone(),
            backend: info.backend.to_owned(),
            detail: info.detail.clone(),
            total_bytes: info.total_bytes,
            free_bytes: info.free_bytes,
            slots: sizes.iter().map(|&n| SlotsThatFit { n, slots: slots_that_fit(n) }).collect(),
            hardware: None,
            disagreements: Vec::new(),
        }
    }
}

/// The devices as a table, with the slots of one matrix size.
#[must_use]
pub fn table(rows: &[DeviceRow], n: u32, screen: &Screen) -> String {
    let slots = format!("slots at n = {n}");
    let header = ["device", "backend", "name", "chosen", "memory GiB", "free GiB", &slots];
    let mut table = table::new(screen, &header);
    for row in rows {
        let slots = row.slots.iter().find(|s| s.n == n).map_or_else(|| "–".to_owned(), |s| s.slots.to_string());
        table.add_row([
            row.device_id.to_string().into(),
            row.backend.as_str().into(),
            row.name.as_str().into(),
            row.detail.as_str().into(),
            table::figure(units::gib(row.total_bytes)),
            table::figure(units::gib(row.free_bytes)),
            table::figure(slots),
        ]);
    }
    table::text(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_shown_with_their_slots() {
        let info = DeviceInfo {
            id: DeviceId([0xab; 16]),
            name: "A processor".to_owned(),
            backend: "cpu",
            detail: "avx2, 8 threads".to_owned(),
            total_bytes: 16 << 30,
            free_bytes: 3 << 30,
        };
        let row = DeviceRow::new(&info, &[1024, 2048], |n| (3 << 30) / (n * n));
        let shown = table(std::slice::from_ref(&row), 2048, &Screen::FILE);
        for part in ["abababab", "A processor", "avx2, 8 threads", "16.0", "3.00", "slots at n = 2048", "768"] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["slots"][1], serde_json::json!({ "n": 2048, "slots": 768 }));
        assert_eq!(json["device_id"], "ab".repeat(16));
    }
}
