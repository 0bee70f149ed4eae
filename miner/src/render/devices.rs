//! The devices of a host, as a table and as JSON.

use serde::Serialize;

use assay_device::DeviceInfo;
use assay_device::accumulator::UnitFinding;
use assay_device::place::{DevicePlace, vendor_name};
use assay_program::render::{Screen, short_ids, table, units};
use assay_protocol::claims::Hardware;
use assay_work::DeviceId;
use assay_work::challenge::MIN_COUNT;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceRow {
    pub device_id: DeviceId,
    /// The index by which settings name it.
    pub index: Option<usize>,
    pub name: String,
    pub backend: String,
    /// Who made it, where the backend knows.
    pub vendor: Option<String>,
    /// Its address on the PCI bus, where the backend knows.
    pub pci_address: Option<String>,
    /// The backend's choices for the device.
    pub detail: String,
    /// The kinds of work that it computes.
    pub kinds: Vec<&'static str>,
    /// The self-test's findings about its float units.
    pub units: Vec<UnitFinding>,
    pub total_bytes: u64,
    /// Memory that a challenge could take now.
    pub free_bytes: u64,
    /// How many slots fit now, for each matrix size of interest, smallest first.
    pub slots: Vec<SlotsThatFit>,
    /// The management library's facts about it.
    pub hardware: Option<Hardware>,
    /// Where that library and the device's driver disagree about it, in sentences.
    pub disagreements: Vec<String>,
}

/// How many slots of one size fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SlotsThatFit {
    pub n: u32,
    pub slots: u32,
}

impl DeviceRow {
    /// The row of a device, without slots, place and hardware.
    pub fn new(info: &DeviceInfo) -> Self {
        Self {
            device_id: info.id,
            index: None,
            name: info.name.clone(),
            backend: info.backend.to_string(),
            vendor: None,
            pci_address: None,
            detail: info.detail.clone(),
            kinds: info.precisions.iter().map(|precision| precision.name()).collect(),
            units: info.units.clone(),
            total_bytes: info.total_bytes,
            free_bytes: info.free_bytes,
            slots: Vec::new(),
            hardware: None,
            disagreements: Vec::new(),
        }
    }

    /// The same with where the device is.
    pub fn at(self, place: &DevicePlace) -> Self {
        let (vendor, pci_address) =
            (place.vendor.map(vendor_name), place.pci_address.map(|address| address.to_string()));
        Self { vendor, pci_address, ..self }
    }

    /// The largest matrix size of which the smallest share fits.
    fn largest_n(&self) -> Option<u32> {
        self.slots.iter().rev().find(|fits| fits.slots >= MIN_COUNT).map(|fits| fits.n)
    }

    /// The model, with who made it where the model does not say so itself.
    fn title(&self) -> String {
        match &self.vendor {
            Some(vendor) if !self.name.to_lowercase().contains(&vendor.to_lowercase()) => {
                format!("{} ({vendor})", self.name)
            }
            _ => self.name.clone(),
        }
    }
}

/// The devices as a table, with the slots of one matrix size; `wide` with whole ids and all columns.
pub fn table(rows: &[DeviceRow], n: u32, wide: bool, screen: &Screen) -> String {
    let slots = format!("slots at n = {n}");
    let mut header = vec!["#", "device", "backend", "name", "memory GiB", "free GiB", &slots, "largest n"];
    if wide {
        header.extend(["kinds", "chosen"]);
    }
    let mut table = table::new(screen, &header);
    for (row, id) in rows.iter().zip(ids(rows, wide)) {
        let slots = row.slots.iter().find(|s| s.n == n).map_or_else(|| "–".to_owned(), |s| s.slots.to_string());
        let mut cells = vec![
            table::figure(row.index.map_or_else(|| "–".to_owned(), |index| index.to_string())),
            table::id(id),
            row.backend.as_str().into(),
            row.title().into(),
            table::figure(units::gib(row.total_bytes)),
            table::figure(units::gib(row.free_bytes)),
            table::figure(slots),
            table::figure(row.largest_n().map_or_else(|| "–".to_owned(), |n| n.to_string())),
        ];
        if wide {
            cells.extend([row.kinds.join(", ").into(), row.detail.as_str().into()]);
        }
        table.add_row(cells);
    }
    table::text(&table)
}

/// The ids of devices as tables show them, the same in each table.
pub(super) fn ids(rows: &[DeviceRow], wide: bool) -> Vec<String> {
    let ids = rows.iter().map(|row| row.device_id);
    if wide { ids.map(|id| id.to_string()).collect() } else { short_ids(ids) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::render) fn info() -> DeviceInfo {
        DeviceInfo {
            id: DeviceId([0xab; 16]),
            name: "A processor".to_owned(),
            backend: assay_device::backend::BackendKind::Cpu,
            detail: "avx2, 8 threads".to_owned(),
            precisions: vec![assay_work::Precision::Int8, assay_work::Precision::Fp8],
            units: Vec::new(),
            total_bytes: 16 << 30,
            free_bytes: 3 << 30,
        }
    }

    #[test]
    fn devices_are_shown_with_their_slots() {
        let slots = [1024_u32, 2048].map(|n| SlotsThatFit { n, slots: (3 << 30) / (n * n) }).into();
        let row = DeviceRow { slots, ..DeviceRow::new(&info()) };
        let narrow = table(std::slice::from_ref(&row), 2048, false, &Screen::FILE);
        assert!(narrow.contains(" abababab ") && !narrow.contains("avx2"), "{narrow}");
        let shown = table(std::slice::from_ref(&row), 2048, true, &Screen::FILE);
        for part in
            ["abababab", "A processor", "avx2, 8 threads", "16.0", "3.00", "int8, fp8", "slots at n = 2048", "768"]
        {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["slots"][1], serde_json::json!({ "n": 2048, "slots": 768 }));
        assert_eq!(json["device_id"], "ab".repeat(16));
        assert_eq!(json["kinds"], serde_json::json!(["int8", "fp8"]));
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb".to_owned();
        let row = |id| DeviceRow {
            device_id: DeviceId([id; 16]),
            slots: vec![SlotsThatFit { n: 32_768, slots: 1_048_576 }],
            total_bytes: 1 << 40,
            free_bytes: 1 << 40,
            vendor: Some("a vendor of a long name".to_owned()),
            name: name.clone(),
            ..DeviceRow::new(&info())
        };
        let screen = Screen { width: Some(100), colour: false };
        let shown = table(&(0..64).map(row).collect::<Vec<_>>(), 32_768, false, &screen);
        assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    }

    #[test]
    fn the_largest_n_is_the_last_of_which_a_share_fits() {
        let largest = |slots: [u32; 3]| {
            let fits = [256, 512, 1024].into_iter().zip(slots).map(|(n, slots)| SlotsThatFit { n, slots }).collect();
            DeviceRow { slots: fits, ..DeviceRow::new(&info()) }.largest_n()
        };
        assert_eq!(largest([48, 12, 3]), Some(1024));
        assert_eq!(largest([32, 8, 2]), Some(512));
        assert_eq!(largest([2, 0, 0]), None);
    }

    #[test]
    fn a_vendor_is_shown_where_the_model_does_not_name_it() {
        let place = DevicePlace { pci_address: "0:3:0.0".parse().ok(), vendor: Some(0x1002), uuid: None };
        let named = |name: &str| DeviceRow { name: name.into(), ..DeviceRow::new(&info()) }.at(&place);
        assert_eq!(named("Radeon RX 7900 XTX").title(), "Radeon RX 7900 XTX (AMD)");
        assert_eq!(named("AMD Instinct MI300X").title(), "AMD Instinct MI300X");
        let json = serde_json::to_value(named("Radeon")).unwrap();
        assert_eq!((&json["vendor"], &json["pci_address"]), (&"AMD".into(), &"0000:03:00.0".into()));
        assert_eq!(DeviceRow::new(&info()).at(&DevicePlace::default()).title(), "A processor");
    }
}
