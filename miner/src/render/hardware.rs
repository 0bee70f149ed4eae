//! The management library's facts about devices, as a table.

use super::devices::{DeviceRow, ids};
use assay_program::render::Screen;
use assay_program::render::table::{self, Cell};
use assay_protocol::claims::{ConfidentialComputing, Hardware};
use assay_work::text::printable;

/// The columns, and whether they are shown on a narrow screen.
const COLUMNS: [(&str, bool); 11] = [
    ("device", true),
    ("model", false),
    ("UUID", false),
    ("PCI", true),
    ("serial", false),
    ("driver", true),
    ("VBIOS", false),
    ("limit W", true),
    ("MIG", true),
    ("ECC", true),
    ("confidential", true),
];
/// Stands for an unknown value.
const UNKNOWN: &str = "–";

/// The devices with known facts, a line for each; `None` without any. `wide` with whole ids and all columns.
pub fn table(rows: &[DeviceRow], wide: bool, screen: &Screen) -> Option<String> {
    let is_shown = |index: &usize| wide || COLUMNS[*index].1;
    let header: Vec<_> = (0..COLUMNS.len()).filter(is_shown).map(|index| COLUMNS[index].0).collect();
    let mut table = table::new(screen, &header);
    for (row, id) in rows.iter().zip(ids(rows, wide)) {
        let Some(hardware) = &row.hardware else { continue };
        let cells: Vec<Cell> = std::iter::once(table::id(id)).chain(cells(hardware)).collect();
        table.add_row(cells.into_iter().enumerate().filter(|(index, _)| is_shown(index)).map(|(_, cell)| cell));
    }
    (table.row_count() > 0).then(|| table::text(&table))
}

fn cells(hardware: &Hardware) -> [Cell; 10] {
    let text =
        |text: &Option<String>| text.as_deref().map_or_else(|| UNKNOWN.to_owned(), |text| printable(text, usize::MAX));
    let switch = |on: Option<bool>| on.map_or(UNKNOWN, |on| if on { "on" } else { "off" });
    [
        text(&hardware.model).into(),
        table::id(text(&hardware.uuid)),
        table::id(text(&hardware.pci_address)),
        table::id(text(&hardware.serial)),
        text(&hardware.driver_version).into(),
        text(&hardware.vbios_version).into(),
        table::figure(hardware.power_limit_mw.map_or_else(|| UNKNOWN.to_owned(), |mw| (mw / 1000).to_string())),
        switch(hardware.mig_enabled).into(),
        switch(hardware.ecc_enabled).into(),
        hardware.confidential_computing.map_or(UNKNOWN, ConfidentialComputing::name).into(),
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
            precisions: vec![assay_work::Precision::Int8],
            units: Vec::new(),
            total_bytes: 0,
            free_bytes: 0,
        };
        DeviceRow { hardware, ..DeviceRow::new(&info) }
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
        let shown = table(&[row(Some(hardware)), row(None)], true, &Screen::FILE).unwrap();
        for part in ["abababab", "NVIDIA H200", "132", "700", "on", "dev tools", UNKNOWN] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert!(!shown.contains('\x1b'), "{shown}");
        assert_eq!(shown.matches("abababab").count(), 4, "one line of 16 bytes:\n{shown}");
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let text = |text: &str| Some(text.to_owned());
        let hardware = Hardware {
            model: text("NVIDIA H100 80GB HBM3 MIG 1g.10gb"),
            uuid: text("MIG-ab01cd23-ab01-cd23-ab01-cd23ab01cd23"),
            pci_address: text("00000000:1B:00.0"),
            serial: text("1320000000001"),
            driver_version: text("580.95.05"),
            vbios_version: text("96.00.BC.00.01"),
            power_limit_mw: Some(700_000),
            mig_enabled: Some(true),
            ecc_enabled: Some(true),
            confidential_computing: Some(ConfidentialComputing::DevTools),
            ..Hardware::default()
        };
        let one = |id| DeviceRow { device_id: DeviceId([id; 16]), ..row(Some(hardware.clone())) };
        let screen = Screen { width: Some(100), colour: false };
        let shown = table(&(0..64).map(one).collect::<Vec<_>>(), false, &screen).unwrap();
        assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
        assert_eq!(shown.lines().count(), 64 + 4, "each device on a line of its own:\n{shown}");
    }

    #[test]
    fn nothing_known_is_nothing_shown() {
        assert_eq!(table(&[row(None)], false, &Screen::FILE), None);
    }
}
