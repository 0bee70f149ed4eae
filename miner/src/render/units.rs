//! The self-test's findings about float units, as a table.

use super::devices::{DeviceRow, ids};
use assay_device::accumulator::UnitFinding;
use assay_program::render::Screen;
use assay_program::render::table::{self, Cell};

/// Stands for a number that the unit's operands do not determine.
const UNKNOWN: &str = "–";

/// A line for each finding, with whole ids; nothing when no device has one.
pub fn table(rows: &[DeviceRow], screen: &Screen) -> Option<String> {
    let mut table = table::new(screen, &["device", "kind", "unit", "bits kept", "bits out", "self-test"]);
    for (row, id) in rows.iter().zip(ids(rows, true)) {
        for finding in &row.units {
            table.add_row(std::iter::once(table::id(id.clone())).chain(cells(finding)));
        }
    }
    (table.row_count() > 0).then(|| table::text(&table))
}

fn cells(finding: &UnitFinding) -> [Cell; 5] {
    let bits = |bits: Option<u8>| table::figure(bits.map_or_else(|| UNKNOWN.to_owned(), |bits| bits.to_string()));
    let UnitFinding { unit, precision, bits_kept, output_bits, failed } = finding;
    let result = failed.as_ref().map_or_else(|| "exact".to_owned(), |why| format!("not used: {why}"));
    [precision.name().into(), unit.as_str().into(), bits(*bits_kept), bits(*output_bits), result.into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::devices::tests::info;
    use assay_device::DeviceInfo;
    use assay_work::Precision;

    #[test]
    fn each_finding_has_a_line() {
        let exact = UnitFinding {
            unit: "bf16-mma-sm80".into(),
            precision: Precision::F16,
            bits_kept: Some(24),
            output_bits: Some(23),
            failed: None,
        };
        let failed = Some("mixed signs 0 gave 54.999996, not 55".to_owned());
        let refused = UnitFinding { unit: "fp4-unit".into(), bits_kept: None, failed, ..exact.clone() };
        let row = DeviceRow::new(&DeviceInfo { units: vec![exact, refused], ..info() });
        let shown = table(std::slice::from_ref(&row), &Screen::FILE).unwrap();
        for part in ["bf16-mma-sm80", " 24 ", " 23 ", " exact", "f16", "–", "not used: mixed signs 0 gave 54.999996"]
        {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["units"][0]["bits_kept"], 24);
        assert_eq!((&json["units"][0]["precision"], &json["units"][0]["failed"]), (&2.into(), &None::<u8>.into()));
        assert_eq!(table(&[DeviceRow::new(&info())], &Screen::FILE), None);
    }
}
