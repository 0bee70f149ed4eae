//! The rows against the vectors, the codes against the tables, and the self-test against models of units.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::*;
use units::{ModelUnderTest, UnitModel};

mod units;

/// Operands of a row where every element is computed by a model; longer rows have the diagonal alone.
const SHORT: u32 = 128;

fn vector(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../integration-tests/vectors").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn unit(precision: Precision, format: OperandFormat, terms: u32) -> Unit {
    let is_integer = matches!(format, OperandFormat::Int8 | OperandFormat::Int16);
    let sums = if is_integer { SumFormat::Int32 } else { SumFormat::Float32 };
    Unit { name: "a unit".into(), precision, format, sums, terms }
}

fn examined(model: UnitModel, unit: &Unit) -> UnitFinding {
    examine(unit, &mut ModelUnderTest::new(model, unit)).unwrap()
}

/// The rows alone, which may be as long as those of the largest matrix.
fn examined_rows(model: UnitModel, unit: &Unit) -> Option<String> {
    let under_test = &mut ModelUnderTest::new(model, unit).on_the_diagonal();
    let mut examination = Examination { unit, under_test, random: Random(1), failures: Vec::new() };
    examination.rows().unwrap();
    examination.verdict()
}

#[test]
fn the_rows_are_those_of_the_vectors() {
    let file = vector("accumulator-tests.json");
    let steps =
        OperandFormat::ALL.map(|format| (format.name().to_owned(), Value::from(f64::powi(2.0, format.row_step()))));
    let in_file = file["step"].as_object().unwrap();
    assert_eq!(in_file.len(), steps.len());
    for (name, step) in steps {
        assert_eq!(in_file[&name].as_f64(), step.as_f64(), "{name}");
    }
    let tests = file["tests"].as_array().unwrap();
    let rows = rows();
    assert_eq!(rows.len(), tests.len());
    for (row, test) in rows.iter().zip(tests) {
        let expect = match row.expect {
            RequiredSum::Equal => "equal",
            RequiredSum::Differs => "differs",
            RequiredSum::Report => "report",
        };
        let generated = serde_json::json!({
            "name": row.name,
            "finds": row.finds,
            "expect": expect,
            "formats": row.formats.iter().map(|format| format.name()).collect::<Vec<_>>(),
            "terms": row.terms,
            "length": row.length(),
            "sum": row.sum(),
        });
        assert_eq!(&generated, test, "{}", row.name);
    }
}

#[test]
fn codes_are_those_of_the_tables() {
    let formats = [OperandFormat::F16, OperandFormat::Bf16, OperandFormat::E4m3, OperandFormat::E2m1];
    let mut compared = 0;
    for kind in vector("operands.json")["kinds"].as_array().unwrap() {
        let precision: Precision = serde_json::from_value(kind["precision"].clone()).unwrap();
        for format in formats {
            let Some(codes) = kind.get(format.name()).and_then(Value::as_array) else { continue };
            for (operands, codes) in precision.table().iter().zip(codes) {
                let codes = codes.as_array().cloned().unwrap_or_else(|| vec![codes.clone()]);
                for (&operand, code) in operands.iter().zip(codes) {
                    // The sign of 0 is in the slot's nibble, and in no integer.
                    let expected = code.as_u64().unwrap() as u16 & if operand == 0 { 7 } else { u16::MAX };
                    assert_eq!(
                        format.code(operand.into(), format.kind_step()),
                        Some(expected),
                        "{precision} {operand}"
                    );
                    compared += 1;
                }
            }
        }
    }
    // F16 and BF16 of three kinds, E4M3 of one, two operands a byte of E2M1.
    assert_eq!(compared, 256 * (3 * 2 + 1 + 2));
}

#[test]
fn a_format_holds_what_its_bits_can_say() {
    let holds = |format: OperandFormat, range: std::ops::RangeInclusive<i32>| {
        range.filter(|&integer| format.holds(integer)).count()
    };
    assert_eq!(holds(OperandFormat::Int8, -300..=300), 256);
    assert_eq!(holds(OperandFormat::Int16, -40_000..=40_000), 65_536);
    // Up to 2048 all, then every second.
    assert_eq!(holds(OperandFormat::F16, 0..=4096), 2049 + 1024);
    assert_eq!(holds(OperandFormat::Bf16, 0..=512), 257 + 128);
    // A sixteenth of the integer: to 448 · 16.
    assert!(OperandFormat::E4m3.holds(7168) && !OperandFormat::E4m3.holds(7680) && !OperandFormat::E4m3.holds(17));
    let e2m1: Vec<i32> = (0..=100).filter(|&integer| OperandFormat::E2m1.holds(integer)).collect();
    assert_eq!(e2m1, [0, 1, 2, 3, 4, 6, 8, 12]);
}

#[test]
fn rows_of_codes_are_read_as_written() {
    for format in OperandFormat::ALL {
        let mut row = vec![0; format.row_bytes(8)];
        let codes: Vec<u16> = [1, -1, 3, 0, 12, -12, 2, -4].map(|x| format.code(x, format.row_step()).unwrap()).into();
        codes.iter().enumerate().rev().for_each(|(place, &code)| format.put(&mut row, place, code));
        let read: Vec<u16> = (0..8).map(|place| format.get(&row, place)).collect();
        assert_eq!(read, codes, "{}", format.name());
    }
}

/// Units whose sums are exact, with the bits that they keep of those that the rows look for.
#[test]
fn exact_units_are_accepted() {
    use OperandFormat::{Bf16, E2m1, E4m3, F16};
    use Precision::{F16 as KindF16, Fp4, Fp8, Int8};
    let cases = [
        (units::V100, KindF16, F16, Some(23)),
        (units::A100, KindF16, Bf16, Some(24)),
        (units::A100, Int8, F16, Some(24)),
        (units::HOPPER, KindF16, Bf16, Some(25)),
        (units::B200, KindF16, F16, Some(25)),
        (units::B200_FP8, Fp8, E4m3, Some(24)),
        (units::B200_FP8, Fp4, E4m3, Some(24)),
        (units::B200_MXF4, Fp4, E2m1, None),
        (units::MI100, KindF16, F16, Some(25)),
        (units::MI200, KindF16, Bf16, Some(23)),
        (units::MI300, KindF16, Bf16, Some(24)),
        (units::MI300_FP8, Fp8, E4m3, Some(24)),
    ];
    for (model, precision, format, bits_kept) in cases {
        let found = examined(model, &unit(precision, format, SHORT));
        assert_eq!((&found.failed, found.bits_kept), (&None, bits_kept), "{} {precision}", model.name);
        assert_eq!(found.output_bits, bits_kept.map(|_| 24), "{}", model.name);
        // The row of 65536 terms where it is a kind's own.
        let terms = if format == E2m1 { 65_536 } else { 16_384 };
        let rows = examined_rows(model, &unit(precision, format, terms));
        assert_eq!(rows, None, "{} {precision}", model.name);
    }
    // Multiply-adds of integers in FP32, as shaders without matrix units have them.
    let fma = Unit { sums: SumFormat::Float32, ..unit(KindF16, OperandFormat::Int16, SHORT) };
    let found = examined(units::FP32_FMA, &fma);
    assert_eq!((&found.failed, found.output_bits), (&None, Some(24)), "fp32 multiply-adds");
    assert_eq!(examined_rows(units::FP32_FMA, &Unit { terms: 16_384, ..fma }), None);
    for (precision, format) in [(Int8, OperandFormat::Int8), (KindF16, OperandFormat::Int16)] {
        let found = examined(units::INTEGER, &unit(precision, format, SHORT));
        assert_eq!((found.failed, found.bits_kept, found.output_bits), (None, None, None), "{precision}");
        assert_eq!(examined_rows(units::INTEGER, &unit(precision, format, 32_768)), None, "{precision}");
    }
}

/// Each unit that is not exact, with the test that finds it.
#[test]
fn inexact_units_are_refused_for_the_right_reason() {
    use OperandFormat::{Bf16, E4m3, F16, Int8};
    let refused = |model: UnitModel, precision, format, terms| {
        let found = examined(model, &unit(precision, format, terms));
        let why = found.failed.clone().unwrap_or_default();
        (found, why)
    };
    for model in [units::HOPPER_FP8, units::ADA_FP8] {
        for precision in [Precision::Fp8, Precision::Fp4] {
            let (found, why) = refused(model, precision, E4m3, SHORT);
            assert_eq!((found.bits_kept, found.output_bits), (Some(13), Some(14)), "{}", model.name);
            assert!(why.starts_with("bits kept 14 gave 0, not 1 "), "{}: {why}", model.name);
        }
    }
    for format in [F16, Bf16] {
        let (_, why) = refused(units::RDNA35, Precision::F16, format, SHORT);
        assert!(why.starts_with("mixed signs 0 gave 54.99999"), "{why}");
        let (_, why) = refused(units::RDNA3, Precision::F16, format, SHORT);
        assert!(why.starts_with("zero partners 0 gave "), "{why}");
    }
    let why = examined_rows(units::INTEGER_IN_FP32, &unit(Precision::Int8, Int8, 32_768)).unwrap();
    assert!(why.starts_with("int32 odd gave 33564448, not 33564449"), "{why}");
}

/// Faults that the teeth detect: a launch whose sums do not come from the unit, a longer sum than the kernel has, a
/// kernel that drops terms, one that swaps places, and a fault in one element.
#[test]
fn launches_that_miss_the_unit_are_refused() {
    struct Bent<F>(ModelUnderTest, F);
    impl<F: FnMut(&mut Vec<u8>, &mut Vec<u32>)> SumsUnderTest for Bent<F> {
        fn sums(&mut self, left: &[u8], right: &[u8]) -> Result<Vec<u32>, DeviceError> {
            let (mut left, mut words) = (left.to_vec(), Vec::new());
            (self.1)(&mut left, &mut words);
            let computed = self.0.sums(&left, right)?;
            words = computed;
            (self.1)(&mut left, &mut words);
            Ok(words)
        }
    }
    let unit = unit(Precision::F16, OperandFormat::Bf16, SHORT);
    let run = |bend: &mut dyn FnMut(&mut Vec<u8>, &mut Vec<u32>)| {
        let under_test = &mut Bent(ModelUnderTest::new(units::A100, &unit), bend);
        examine(&unit, under_test).unwrap().failed
    };
    assert_eq!(run(&mut |_, _| ()), None);
    // Nothing but the teeth reaches the limit.
    let teeth = run(&mut |_, words| {
        let is_limit = |word: &&mut u32| **word == 16_777_216_f32.to_bits();
        words.iter_mut().filter(is_limit).for_each(|word| *word -= 4);
    });
    assert!(teeth.as_ref().is_some_and(|why| why.contains("teeth")), "{teeth:?}");
    let last_dropped = run(&mut |left, words| {
        if words.is_empty() {
            left.chunks_mut(unit.row_bytes()).for_each(|row| row[unit.row_bytes() - 2..].fill(0));
        }
    });
    assert!(last_dropped.is_some());
    let one_element = run(&mut |_, words| {
        if let Some(word) = words.get_mut(77 * LAUNCH_ROWS + 200) {
            *word ^= 1;
        }
    });
    assert!(one_element.is_some());
    let integers = run(&mut |_, words| words.iter_mut().for_each(|word| *word = f32::from_bits(*word) as i32 as u32));
    assert!(integers.is_some());
    let short = run_error(&unit);
    assert!(matches!(short, DeviceError::Sick(_)), "{short}");
}

fn run_error(unit: &Unit) -> DeviceError {
    struct Short;
    impl SumsUnderTest for Short {
        fn sums(&mut self, _: &[u8], _: &[u8]) -> Result<Vec<u32>, DeviceError> {
            Ok(vec![0; 256])
        }
    }
    examine(unit, &mut Short).unwrap_err()
}

/// Why float sums are compared before any conversion: as integers, this unit's 54.999996 would be 55.
#[test]
fn the_wrong_adder_shows_in_the_float_alone() {
    struct Rounded(ModelUnderTest);
    impl SumsUnderTest for Rounded {
        fn sums(&mut self, left: &[u8], right: &[u8]) -> Result<Vec<u32>, DeviceError> {
            let rounded = |word: u32| f32::from_bits(word).round().to_bits();
            Ok(self.0.sums(left, right)?.into_iter().map(rounded).collect())
        }
    }
    let unit = unit(Precision::F16, OperandFormat::Bf16, SHORT);
    let found = examine(&unit, &mut Rounded(ModelUnderTest::new(units::RDNA35, &unit))).unwrap();
    assert!(!found.failed.unwrap_or_default().contains("mixed signs"));
}

/// Operands that do not fit are seen to fail, by the model, and kind 5 on units of 14 bits at every length.
#[test]
fn random_operands_alone_certify_no_unit() {
    let random_alone = |model, unit: &Unit| {
        let under_test = &mut ModelUnderTest::new(model, unit);
        let mut examination = Examination { unit, under_test, random: Random(1), failures: Vec::new() };
        examination.random().unwrap();
        examination.verdict()
    };
    // A unit that keeps 19 bits computes kind 2 at this length without a wrong element, and is refused all the same.
    let short = UnitModel { output_bits: 20, ..units::A100 };
    let kind_2 = unit(Precision::F16, OperandFormat::Bf16, 256);
    assert_eq!(random_alone(short, &kind_2), None);
    assert!(examined(short, &kind_2).failed.is_some_and(|why| why.starts_with("bits kept 20, terms apart ")));
    assert!(random_alone(units::HOPPER_FP8, &unit(Precision::Fp8, OperandFormat::E4m3, 64)).is_some());
}

#[test]
fn findings_are_told_in_a_line() {
    let exact = examined(units::A100, &unit(Precision::F16, OperandFormat::Bf16, 64));
    assert_eq!(exact.to_string(), "f16 on a unit: exact, 24 fraction bits kept, 24 bits out");
    let long = UnitFinding { failed: Some("teeth gave 3, not 4".into()), bits_kept: None, ..exact };
    assert_eq!(long.to_string(), "f16 on a unit: not used, 24 bits out; teeth gave 3, not 4");
}
