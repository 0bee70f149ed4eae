//! What the management library says of devices, as a table.

use super::devices::DeviceRow;
use assay_program::render::{Screen, table, units};
use assay_protocol::claims::{ConfidentialComputing, Hardware};

const HEADER: [&str; 11] =
    ["device", "model", "UUID", "PCI", "serial", "driver", "VBIOS", "limit W", "MIG", "ECC", "confidential"];
/// What stands for what is not known.
const UNKNOWN: &str = "–";

/// The devices of which something is known, a line for each; nothing when there are none.
#[must_use]
pub fn table(rows: &[DeviceRow], screen: &Screen) -> Option<String> {
    let mut table = table::new(screen, &HEADER);
    for (row, hardware) in rows.iter().filter_map(|row| Some((row, row.hardware.as_ref()?))) {
        let [model, uuid, pci, serial, driver, vbios, limit, mig, ecc, confidential] = cells(hardware);
        let device = row.device_id.to_string();
        let mut cells: Vec<_> = [device, model, uuid, pci, serial, driver, vbios].map(Into::into).into();
        cells.push(table::figure(limit));
        cells.extend([mig, ecc, confidential].map(Into::into));
        table.add_row(cells);
    }
    (table.row_count() > 0).then(|| table::text(&table))
}

fn cells(hardware: &Hardware) -> [String; 10] {
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| UNKNOWN.to_owned(), units::printable);
    let switch = |on: Option<bool>| on.map_or(UNKNOWN, |on| if on { "on" } else { "off" }).to_owned();
    [
        text(&hardware.model),
        text(&hardware.uuid),
        text(&hardware.pci_address),
        text(&hardware.serial),
        text(&hardware.driver_version),
        text(&hardware.vbios_version),
        hardware.power_limit_mw.map_or_else(|| UNKNOWN.to_owned(), |mw| (mw / 1000).to_string()),
        switch(hardware.mig_enabled),
        switch(hardware.ecc_enabled),
        hardware.confidential_computing.map_or(UNKNOWN, ConfidentialComputing::name).to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_device::DeviceInfo;
    use assay_work::DeviceId;

    fn row(hardware: Option<Hardware>) -> DeviceRow {
        let info = DeviceInfo {
            id: DeviceId([0xab; 16]),
            name: "NVIDIA H200".to_owned(),
            backend: assay_device::backend::BackendKind::Cuda,
            detail: String::new(),
            total_bytes: 0,
            free_bytes: 0,
        };
        DeviceRow { hardware, ..DeviceRow::new(&info, &[], |_| 0) }
    }

    #[test]
    fn what_is_known_is_shown_and_the_rest_is_a_dash() {
        let hardware = Hardware {
            model: Some("NVIDIA H200".into()),
            serial: Some("132\x1b[2J".into()),
            power_limit_mw: Some(700_000),
            ecc_enabled: Some(true),
            confidential_computing: Some(ConfidentialComputing::DevTools),
            ..Hardware::default()
        };
        let shown = table(&[row(Some(hardware)), row(None)], &Screen::FILE).unwrap();
        for part in ["abababab", "NVIDIA H200", "132", "700", "on", "dev tools", UNKNOWN] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert!(!shown.contains('\x1b'), "{shown}");
        assert_eq!(shown.matches("abababab").count(), 4, "one line of 16 bytes:\n{shown}");
    }

    #[test]
    fn nothing_known_is_nothing_shown() {
        assert_eq!(table(&[row(None)], &Screen::FILE), None);
    }
}
