//! The formats in which a matrix unit takes its operands, and the codes of integers in them.

use assay_work::Precision;

assay_work::names! {
    /// A format, by its name in the vectors and in findings, in the order of the vectors' `step`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum OperandFormat {
        /// Signed bytes.
        Int8 = "int8",
        /// Signed 16-bit integers, little-endian.
        Int16 = "int16",
        /// IEEE half precision, little-endian.
        F16 = "f16",
        /// The upper half of IEEE single precision, little-endian.
        Bf16 = "bf16",
        /// FP8 of 4 exponent and 3 fraction bits, as the Open Compute Project defines it.
        E4m3 = "e4m3",
        /// FP4 of 2 exponent bits and 1 fraction bit; the operand of even place in the low half of a byte.
        E2m1 = "e2m1",
    }
}

/// A small float: its fraction bits, the bias of its exponent, its largest finite code and the code of its sign.
struct SmallFloat {
    fraction_bits: i32,
    bias: i32,
    largest: u16,
    sign: u16,
}

impl OperandFormat {
    pub const fn bits(self) -> usize {
        match self {
            Self::Int16 | Self::F16 | Self::Bf16 => 16,
            Self::Int8 | Self::E4m3 => 8,
            Self::E2m1 => 4,
        }
    }

    pub const fn row_bytes(self, terms: u32) -> usize {
        terms as usize * self.bits() / 8
    }

    /// The operand that the integer 1 of a test row stands for, as an exponent of two (the vectors' `step`).
    pub const fn row_step(self) -> i32 {
        match self {
            Self::E4m3 => -4,
            _ => self.kind_step(),
        }
    }

    /// The operand that the integer 1 of a kind of work stands for, as an exponent of two: E2M1 holds half of it.
    pub const fn kind_step(self) -> i32 {
        match self {
            Self::E2m1 => -1,
            _ => 0,
        }
    }

    /// The code of `integer · 2^step`; `None` where the format does not hold it.
    pub fn code(self, integer: i32, step: i32) -> Option<u16> {
        match self {
            Self::Int8 if step == 0 => i8::try_from(integer).ok().map(|code| u16::from(code as u8)),
            Self::Int16 if step == 0 => i16::try_from(integer).ok().map(|code| code as u16),
            Self::Int8 | Self::Int16 => None,
            Self::F16 => SmallFloat { fraction_bits: 10, bias: 15, largest: 0x7BFF, sign: 0x8000 }.code(integer, step),
            Self::Bf16 => SmallFloat { fraction_bits: 7, bias: 127, largest: 0x7F7F, sign: 0x8000 }.code(integer, step),
            Self::E4m3 => SmallFloat { fraction_bits: 3, bias: 7, largest: 0x7E, sign: 0x80 }.code(integer, step),
            Self::E2m1 => SmallFloat { fraction_bits: 1, bias: 1, largest: 7, sign: 8 }.code(integer, step),
        }
    }

    /// Whether a test row's integer can be written in it.
    pub fn holds(self, integer: i32) -> bool {
        self.code(integer, self.row_step()).is_some()
    }

    /// Writes a code to its place in a row.
    ///
    /// # Panics
    /// When the row ends before that place.
    pub fn put(self, row: &mut [u8], place: usize, code: u16) {
        match self.bits() {
            16 => row[2 * place..2 * place + 2].copy_from_slice(&code.to_le_bytes()),
            8 => row[place] = code as u8,
            _ => {
                let shift = 4 * (place % 2);
                let byte = &mut row[place / 2];
                *byte = (*byte & !(0xF << shift)) | ((code as u8) << shift);
            }
        }
    }

    /// The code at a place of a row.
    ///
    /// # Panics
    /// When the row ends before that place.
    pub fn get(self, row: &[u8], place: usize) -> u16 {
        match self.bits() {
            16 => u16::from_le_bytes([row[2 * place], row[2 * place + 1]]),
            8 => row[place].into(),
            _ => (row[place / 2] >> (4 * (place % 2)) & 0xF).into(),
        }
    }
}

impl SmallFloat {
    fn code(&self, integer: i32, step: i32) -> Option<u16> {
        let magnitude = u64::from(integer.unsigned_abs());
        if magnitude == 0 {
            return Some(0);
        }
        // Below the smallest normal number the exponent stays, and the leading 1 is no longer implied.
        let exponent = (magnitude.ilog2() as i32 + step).max(1 - self.bias);
        let shift = step - exponent + self.fraction_bits;
        let units = if shift >= 0 { magnitude << shift } else { magnitude.checked_shr(shift.unsigned_abs())? };
        let is_exact = shift >= 0 || units.checked_shl(shift.unsigned_abs()) == Some(magnitude);
        let code = (i64::from(exponent + self.bias) << self.fraction_bits) + units as i64 - (1 << self.fraction_bits);
        let code = u16::try_from(code).ok().filter(|&code| is_exact && code <= self.largest)?;
        Some(if integer < 0 { code | self.sign } else { code })
    }
}

/// The distinct operands of a kind of work, ascending.
pub fn operands_of(precision: Precision) -> Vec<i32> {
    let per_byte = precision.terms_per_byte() as usize;
    let table = precision.table().iter().flat_map(|operands| &operands[..per_byte]);
    let mut distinct: Vec<i32> = table.map(|&operand| operand.into()).collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}
