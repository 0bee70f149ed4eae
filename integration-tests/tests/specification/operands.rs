//! The operands of every byte, against the table of the specification.

use crate::files::vector;
use assay_work::Precision;
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Operands {
    #[serde(rename = "_comment")]
    _comment: IgnoredAny,
    kinds: Vec<Kind>,
}

/// One kind of work. The codes are the inputs of 16-, 8- and 4-bit float units.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    precision: Precision,
    name: String,
    operands: Vec<OfByte>,
    #[serde(default)]
    f16: Vec<u16>,
    #[serde(default)]
    bf16: Vec<u16>,
    #[serde(default)]
    e4m3: Vec<u8>,
    #[serde(default)]
    e2m1: Vec<[u8; 2]>,
}

/// The integers of a byte: one, or for FP4 two.
#[derive(Deserialize)]
#[serde(untagged)]
enum OfByte {
    One(i16),
    Two([i16; 2]),
}

/// The value of a float code with `exponent_bits` and `mantissa_bits`.
fn value(code: u16, exponent_bits: u32, mantissa_bits: u32) -> f64 {
    let mantissa = f64::from(code & ((1 << mantissa_bits) - 1));
    let exponent = i32::from(code >> mantissa_bits & ((1 << exponent_bits) - 1));
    let negative = code >> (mantissa_bits + exponent_bits) & 1 == 1;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let scale = 2_f64.powi(exponent.max(1) - bias - mantissa_bits as i32);
    let implicit = if exponent == 0 { 0.0 } else { f64::from(1_u32 << mantissa_bits) };
    let magnitude = (mantissa + implicit) * scale;
    if negative { -magnitude } else { magnitude }
}

#[test]
pub(super) fn every_byte_stands_for_the_operands_of_the_table() {
    let file: Operands = vector("operands");
    assert_eq!(file.kinds.iter().map(|kind| kind.precision).collect::<Vec<_>>(), Precision::OF_BYTES);
    for kind in &file.kinds {
        assert_eq!(kind.name.to_lowercase(), kind.precision.name());
        assert_eq!(kind.operands.len(), 256);
        for (byte, expected) in (0..=255).zip(&kind.operands) {
            let expected = match *expected {
                OfByte::One(operand) => [operand, 0],
                OfByte::Two(operands) => operands,
            };
            assert_eq!(kind.precision.operands(byte), expected, "{} {byte}", kind.name);
        }
    }
}

/// The codes that a matrix unit is given stand for the operands, E2M1 for half of them.
#[test]
fn the_codes_of_the_table_are_exact() {
    let file: Operands = vector("operands");
    for kind in &file.kinds {
        let operand = |byte: usize, at: usize| f64::from(kind.precision.operands(byte as u8)[at]);
        let lists: [(&str, Vec<f64>); 3] = [
            ("f16", kind.f16.iter().map(|code| value(*code, 5, 10)).collect()),
            ("bf16", kind.bf16.iter().map(|code| value(*code, 8, 7)).collect()),
            ("e4m3", kind.e4m3.iter().map(|code| value(u16::from(*code), 4, 3)).collect()),
        ];
        let mut found = Vec::new();
        for (format, values) in lists.iter().filter(|(_, values)| !values.is_empty()) {
            assert_eq!(values.len(), 256, "{} {format}", kind.name);
            values.iter().enumerate().for_each(|(byte, value)| assert_eq!(*value, operand(byte, 0), "{format} {byte}"));
            found.push(*format);
        }
        for (byte, codes) in kind.e2m1.iter().enumerate() {
            let values = codes.map(|code| 2.0 * value(u16::from(code), 2, 1));
            assert_eq!(values, [operand(byte, 0), operand(byte, 1)], "e2m1 {byte}");
        }
        let expected: &[&str] = match kind.precision {
            Precision::Fp8 => &["f16", "bf16", "e4m3"],
            Precision::Fp4 => &[],
            _ => &["f16", "bf16"],
        };
        assert_eq!(found, expected, "{}", kind.name);
        assert_eq!(kind.e2m1.len(), if kind.precision == Precision::Fp4 { 256 } else { 0 });
    }
}
