//! The kinds of work: the integers that a byte of a slot stands for in a product (WORK.md, Kinds of work).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Field operations of a byte of y in [`Precision::Field`].
pub const FIELD_OPERATIONS_PER_BYTE: u32 = 2;

/// The operands of products. Slots hold bytes in every kind, and sums are exact integers.
///
/// Its serde form is the number that stands for it in a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(into = "u32", try_from = "u32")]
pub enum Precision {
    /// A signed byte.
    #[default]
    Int8,
    /// A signed byte and its half: 9-bit integers, which 16-bit floats hold.
    F16,
    /// Integers of 4 significant bits and 2 bits of exponent, which E4M3 holds; two bits of a byte do not count.
    Fp8,
    /// Two E2M1 codes, each twice its value.
    Fp4,
    /// Signed bytes; those of y are squared in a field of 254 bits first.
    Field,
    /// Signed bytes; those of x come from a convolution, a softmax or noise.
    Network,
}

/// A number or name that stands for no [`Precision`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no kind of work; int8, f16, fp8, fp4, field and network (1, 2, 5, 6, 7 and 8) are")]
pub struct UnknownPrecision(String);

/// A row of the table of kinds (WORK.md, Kinds of work); rules are code ([`crate::rule`]).
struct Kind {
    precision: Precision,
    code: u32,
    name: &'static str,
    terms_per_byte: u32,
    largest_detour: f64,
}

const KINDS: [Kind; 6] = {
    use Precision::{F16, Field, Fp4, Fp8, Int8, Network};
    const fn kind(
        precision: Precision,
        code: u32,
        name: &'static str,
        terms_per_byte: u32,
        largest_detour: f64,
    ) -> Kind {
        Kind { precision, code, name, terms_per_byte, largest_detour }
    }
    [
        kind(Int8, 1, "int8", 1, 1.0),
        // Two INT8 products and one of 1 bit, on a GeForce.
        kind(F16, 2, "f16", 1, 1.9),
        kind(Fp8, 5, "fp8", 1, 1.0),
        kind(Fp4, 6, "fp4", 2, 1.0),
        kind(Field, 7, "field", 1, 1.0),
        // Winograd's convolutions in FP16, on a B300.
        kind(Network, 8, "network", 1, 1.25),
    ]
};

impl Precision {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; KINDS.len()] = {
        let mut all = [Self::Int8; KINDS.len()];
        let mut place = 0;
        while place < KINDS.len() {
            all[place] = KINDS[place].precision;
            place += 1;
        }
        all
    };

    /// The kinds that take bytes of both slots one by one: [`Self::of_bytes`] gives one of these.
    pub const OF_BYTES: [Self; 4] = [Self::Int8, Self::F16, Self::Fp8, Self::Fp4];

    const fn kind(self) -> &'static Kind {
        &KINDS[self as usize]
    }

    /// The number that stands for it in a challenge. 3 and 4 are reserved.
    pub const fn code(self) -> u32 {
        self.kind().code
    }

    /// The kind that a number stands for.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|precision| precision.code() == code)
    }

    /// Its name in settings, policies and tables.
    pub const fn name(self) -> &'static str {
        self.kind().name
    }

    /// Integers that a byte stands for.
    pub const fn terms_per_byte(self) -> u32 {
        self.kind().terms_per_byte
    }

    /// κ: the terms of the sum behind an element of an n-by-n product.
    pub const fn terms(self, n: u32) -> u32 {
        n * self.terms_per_byte()
    }

    /// Multiply-accumulates of one n-by-n product: `n² · κ`.
    pub const fn multiply_accumulates_of_product(self, n: u32) -> u64 {
        n as u64 * n as u64 * self.terms(n) as u64
    }

    /// Whether operands of one side of a product follow a rule, and are no bytes of a slot ([`crate::rule`]).
    #[must_use]
    pub const fn has_rule(self) -> bool {
        self.of_bytes() as usize != self as usize
    }

    /// Field operations of a row of y: 2 · n in [`Self::Field`], which an n-by-n product has n of, and an element one.
    pub const fn field_operations_of_row(self, n: u32) -> u32 {
        if matches!(self, Self::Field) { FIELD_OPERATIONS_PER_BYTE * n } else { 0 }
    }

    /// Field operations per second at a rate of multiply-accumulates: an n-by-n product has n rows of y.
    pub fn field_operations_per_s(self, n: u32, multiply_accumulates_per_s: f64) -> f64 {
        let of_product = f64::from(self.field_operations_of_row(n)) * f64::from(n);
        multiply_accumulates_per_s * of_product / self.multiply_accumulates_of_product(n) as f64
    }

    /// The factor by which the fastest known detour over another unit beats the unit made for the kind (WORK.md, Kinds
    /// of work): 1 or more. A rate is divided by it before it is compared with the device's claim.
    pub const fn largest_detour(self) -> f64 {
        self.kind().largest_detour
    }

    /// The kind that takes bytes one by one as this one does once its rules are applied ([`crate::rule`]).
    pub const fn of_bytes(self) -> Self {
        match self {
            Self::Field | Self::Network => Self::Int8,
            kind => kind,
        }
    }

    /// The integers that a byte stands for, in order; the second is 0 where there is one.
    pub const fn operands(self, byte: u8) -> [i16; 2] {
        let signed = byte as i8 as i16;
        match self.of_bytes() {
            // The shift rounds towards -∞.
            Self::F16 => [signed + (signed >> 1), 0],
            Self::Fp8 => {
                let magnitude = (8 + (byte % 8) as i16) << (byte / 8 % 4);
                [if byte >= 128 { -magnitude } else { magnitude }, 0]
            }
            Self::Fp4 => [fp4_operand(byte % 16), fp4_operand(byte / 16)],
            _ => [signed, 0],
        }
    }

    /// The operands of a row of bytes.
    pub fn operands_of(self, bytes: &[u8]) -> Vec<i16> {
        let table = self.table();
        match self.of_bytes() {
            Self::F16 | Self::Fp8 => bytes.iter().map(|&byte| table[usize::from(byte)][0]).collect(),
            Self::Fp4 => bytes.iter().flat_map(|&byte| table[usize::from(byte)]).collect(),
            _ => bytes.iter().map(|&byte| i16::from(byte as i8)).collect(),
        }
    }

    /// The operands of every byte.
    pub const fn table(self) -> &'static [[i16; 2]; 256] {
        const TABLES: [[[i16; 2]; 256]; 4] =
            [table_of(Precision::Int8), table_of(Precision::F16), table_of(Precision::Fp8), table_of(Precision::Fp4)];
        &TABLES[self.of_bytes() as usize]
    }
}

const fn fp4_operand(code: u8) -> i16 {
    const MAGNITUDES: [i16; 8] = [0, 1, 2, 3, 4, 6, 8, 12];
    let magnitude = MAGNITUDES[(code % 8) as usize];
    if code >= 8 { -magnitude } else { magnitude }
}

const fn table_of(precision: Precision) -> [[i16; 2]; 256] {
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = precision.operands(byte as u8);
        byte += 1;
    }
    table
}

impl From<Precision> for u32 {
    fn from(precision: Precision) -> Self {
        precision.code()
    }
}

impl TryFrom<u32> for Precision {
    type Error = UnknownPrecision;

    fn try_from(code: u32) -> Result<Self, UnknownPrecision> {
        Self::from_code(code).ok_or_else(|| UnknownPrecision(code.to_string()))
    }
}

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(name: &str) -> Result<Self, UnknownPrecision> {
        let found = Self::ALL.into_iter().find(|precision| precision.name() == name);
        found.ok_or_else(|| UnknownPrecision(name.to_owned()))
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formulas of WORK.md in wide integers and explicit rounding.
    fn by_formula(precision: Precision, byte: u8) -> [i64; 2] {
        let b = i64::from(byte);
        let s = if b >= 128 { b - 256 } else { b };
        let fp4 = |c: i64| [0, 1, 2, 3, 4, 6, 8, 12][(c % 8) as usize] * if c >= 8 { -1 } else { 1 };
        match precision {
            Precision::F16 => [s + (s as f64 / 2.0).floor() as i64, 0],
            Precision::Fp8 => [(8 + b % 8) * 2_i64.pow((b / 8 % 4) as u32) * if b >= 128 { -1 } else { 1 }, 0],
            Precision::Fp4 => [fp4(b % 16), fp4(b / 16)],
            Precision::Int8 | Precision::Field | Precision::Network => [s, 0],
        }
    }

    #[test]
    fn every_byte_stands_for_what_the_formula_says() {
        for precision in Precision::ALL {
            for byte in 0..=255 {
                let operands = precision.operands(byte).map(i64::from);
                assert_eq!(operands, by_formula(precision, byte), "{precision} {byte}");
                assert_eq!(precision.table()[byte as usize].map(i64::from), operands, "{precision} {byte}");
            }
        }
    }

    #[test]
    fn the_largest_product_is_reached_and_its_sum_fits_32_bits() {
        // P of each kind (WORK.md, Kinds of work).
        let products = [1 << 14, 192 * 192, 120 * 120, 12 * 12, 1 << 14, 127 * 128];
        for (precision, largest_product) in Precision::ALL.into_iter().zip(products) {
            let magnitudes = precision.table().iter().flatten().map(|x| x.unsigned_abs());
            let largest = magnitudes.max().unwrap();
            // The operands of x are at most 127 in a network.
            let of_x = if precision == Precision::Network { 127 } else { largest };
            assert_eq!(u32::from(largest) * u32::from(of_x), largest_product, "{precision}");
            let sum = u64::from(precision.terms(32_768)) * u64::from(largest_product);
            assert!(sum < 1 << 31, "{precision}");
        }
    }

    #[test]
    fn numbers_and_names_stand_for_kinds() {
        assert_eq!(Precision::ALL.map(Precision::code), [1, 2, 5, 6, 7, 8]);
        assert!(Precision::ALL.into_iter().enumerate().all(|(place, precision)| precision as usize == place));
        for precision in Precision::ALL {
            assert_eq!(Precision::try_from(precision.code()), Ok(precision));
            assert_eq!(precision.to_string().parse(), Ok(precision));
            assert_eq!(serde_json::to_string(&precision).unwrap(), precision.code().to_string());
        }
        for code in [0, 3, 4, 9, u32::MAX] {
            assert_eq!(Precision::from_code(code), None, "{code}");
            assert!(serde_json::from_str::<Precision>(&code.to_string()).is_err(), "{code}");
        }
        assert_eq!("bf16".parse::<Precision>().unwrap_err().to_string().split(' ').next(), Some("bf16"));
    }
}
