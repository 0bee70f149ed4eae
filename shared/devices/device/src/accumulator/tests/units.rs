//! Models of matrix units in integers, from published findings, for tests of the self-test.
//!
//! Sources: MMA-Sim (arXiv 2511.10909), the models of Khattak and Mikaitis (arXiv 2512.07004), and for RDNA 3.5 the
//! report github.com/ROCm/rocm-systems/issues/12056. How RDNA 3 treats the operand beside a zero is not published: its
//! model raises the exponent that the terms are aligned to.

use crate::DeviceError;
use crate::accumulator::{LAUNCH_ROWS, OperandFormat, SumsUnderTest, Unit};

/// Fraction bits of the models' fixed-point numbers: below every bit that a unit keeps of the products here.
const POINT: i32 = 32;
/// Fraction bits of an operand: E4M3 ends at 2⁻⁹.
const OPERAND_POINT: i32 = 9;
/// The exponent of a product of zero.
const NO_EXPONENT: i32 = i32::MIN;

/// The rounding of bits that are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Towards zero.
    Truncate,
    /// Towards −∞.
    Floor,
    /// To the nearest, to even in the middle.
    Nearest,
}

/// How the products of a group and the running sum are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addition {
    /// All aligned to the largest exponent, with this many fraction bits kept, then added at once.
    Aligned(i32, Rounding),
    /// The products exactly, to a float; then that to the running sum.
    Floats,
    /// In integers of 32 bits.
    Integers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitFault {
    None,
    /// A term whose sign is not the largest one's is negated without the +1.
    NegatesWithoutOne,
    /// An operand beside a zero takes part in the alignment.
    MindsZeroPartners,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitModel {
    pub name: &'static str,
    /// Products added together with the running sum.
    pub group: usize,
    pub addition: Addition,
    pub output_bits: u32,
    pub rounding: Rounding,
    pub fault: UnitFault,
}

const fn aligned(name: &'static str, group: usize, fraction_bits: i32, output_bits: u32) -> UnitModel {
    let addition = Addition::Aligned(fraction_bits, Rounding::Truncate);
    UnitModel { name, group, addition, output_bits, rounding: Rounding::Truncate, fault: UnitFault::None }
}

const fn floats(name: &'static str, group: usize) -> UnitModel {
    let (addition, rounding) = (Addition::Floats, Rounding::Nearest);
    UnitModel { name, group, addition, output_bits: 24, rounding, fault: UnitFault::None }
}

const fn mi300(name: &'static str, group: usize) -> UnitModel {
    let addition = Addition::Aligned(24, Rounding::Floor);
    UnitModel { name, group, addition, output_bits: 24, rounding: Rounding::Nearest, fault: UnitFault::None }
}

/// V100, FP16.
pub const V100: UnitModel = aligned("v100", 4, 23, 24);
/// T4, A100, Ada: FP16, BF16.
pub const A100: UnitModel = aligned("a100", 8, 24, 24);
/// H100, H200: FP16, BF16.
pub const HOPPER: UnitModel = aligned("hopper", 16, 25, 24);
/// Hopper's FP8.
pub const HOPPER_FP8: UnitModel = aligned("hopper-fp8", 32, 13, 14);
/// Ada's FP8.
pub const ADA_FP8: UnitModel = aligned("ada-fp8", 16, 13, 14);
/// B200: FP16, BF16.
pub const B200: UnitModel = aligned("b200", 16, 25, 24);
/// B200: FP8.
pub const B200_FP8: UnitModel = aligned("b200-fp8", 32, 25, 24);
/// B200: FP4 with scales of 1.
pub const B200_MXF4: UnitModel = aligned("b200-mxf4", 16, 35, 24);
/// MI100: FP16.
pub const MI100: UnitModel = floats("mi100", 4);
/// MI200: FP16, BF16.
pub const MI200: UnitModel = floats("mi200", 2);
/// MI300: FP16, BF16.
pub const MI300: UnitModel = mi300("mi300", 8);
/// MI300: FP8.
pub const MI300_FP8: UnitModel = mi300("mi300-fp8", 16);
/// FP32 multiply-adds.
pub const FP32_FMA: UnitModel = floats("fp32-fma", 1);
/// RDNA 3.5: FP16, BF16.
pub const RDNA35: UnitModel = UnitModel { fault: UnitFault::NegatesWithoutOne, ..aligned("rdna35", 2, 24, 24) };
/// RDNA 3: FP16, BF16.
pub const RDNA3: UnitModel = UnitModel { fault: UnitFault::MindsZeroPartners, ..aligned("rdna3", 2, 24, 24) };
/// INT8 or INT16 with sums of 32 bits.
pub const INTEGER: UnitModel =
    UnitModel { addition: Addition::Integers, output_bits: 32, ..aligned("integer", 4, 32, 32) };
/// An integer unit whose sums are FP32.
pub const INTEGER_IN_FP32: UnitModel = UnitModel { addition: Addition::Integers, ..floats("integer-in-fp32", 4) };

impl UnitModel {
    /// The running sum after a group of products: value and exponent of each.
    fn add(&self, running: i64, products: &[(i64, i32)]) -> i64 {
        match self.addition {
            Addition::Aligned(fraction_bits, how) => {
                let exponents = products.iter().map(|&(_, exponent)| exponent);
                let Some(largest) = exponents.chain([exponent_of(running, POINT)]).max().filter(|&e| e != NO_EXPONENT)
                else {
                    return running;
                };
                let dropped = (POINT + largest - fraction_bits).max(0) as u32;
                self.rounded(self.aligned_sum(running, products, dropped, how))
            }
            Addition::Floats => {
                let group = self.rounded(products.iter().map(|&(value, _)| value).sum());
                self.rounded(running + group)
            }
            Addition::Integers => self.rounded(running + products.iter().map(|&(value, _)| value).sum::<i64>()),
        }
    }

    fn aligned_sum(&self, running: i64, products: &[(i64, i32)], dropped: u32, how: Rounding) -> i64 {
        let terms = || products.iter().map(|&(value, _)| value).chain([running]);
        let is_negative = terms().max_by_key(|term| term.unsigned_abs()).is_some_and(i64::is_negative);
        let kept = |term: i64| {
            let kept = shortened(term, dropped, how);
            let turned = term != 0 && term.is_negative() != is_negative;
            match self.fault {
                // The bits of the magnitude flipped: one less than its negation, in the last place kept.
                UnitFault::NegatesWithoutOne if turned => kept + if is_negative { 1 } else { -1 } * (1 << dropped),
                _ => kept,
            }
        };
        terms().map(kept).sum()
    }

    /// A result with its significant bits.
    fn rounded(&self, value: i64) -> i64 {
        let bits = u64::BITS - value.unsigned_abs().leading_zeros();
        if self.output_bits == 32 {
            // An integer wraps.
            return i64::from((value >> POINT) as i32) << POINT;
        }
        shortened(value, bits.saturating_sub(self.output_bits), self.rounding)
    }
}

/// A number without its last `dropped` bits, which are zero then.
fn shortened(value: i64, dropped: u32, how: Rounding) -> i64 {
    if dropped >= u64::BITS - 1 {
        return 0;
    }
    let down = value >> dropped;
    let rest = value - (down << dropped);
    let up = match how {
        Rounding::Floor => false,
        Rounding::Truncate => value < 0 && rest != 0,
        Rounding::Nearest => 2 * rest > 1 << dropped || (2 * rest == 1 << dropped && down % 2 != 0),
    };
    (down + i64::from(up)) << dropped
}

/// The exponent of a number with `point` fraction bits.
fn exponent_of(value: i64, point: i32) -> i32 {
    if value == 0 { NO_EXPONENT } else { value.unsigned_abs().ilog2() as i32 - point }
}

/// A model at work on one format of operands.
#[derive(Debug, Clone)]
pub struct ModelUnderTest {
    model: UnitModel,
    unit: Unit,
    /// Whether sums off the diagonal are left out.
    diagonal: bool,
}

/// An operand: its value with [`OPERAND_POINT`] fraction bits, and its exponent.
type Operand = (i32, i32);

impl ModelUnderTest {
    pub fn new(model: UnitModel, unit: &Unit) -> Self {
        Self { model, unit: unit.clone(), diagonal: false }
    }

    /// The same with nothing but the sums on the diagonal, for long rows; the others are 0.
    pub fn on_the_diagonal(self) -> Self {
        Self { diagonal: true, ..self }
    }

    /// One row of a side.
    fn decoded(&self, side: &[u8], row: usize) -> Vec<Operand> {
        let bytes = self.unit.row_bytes();
        let operand = |place| {
            let code = self.unit.format.get(&side[row * bytes..][..bytes], place);
            let value = value_of(self.unit.format, code);
            (value, exponent_of(value.into(), OPERAND_POINT))
        };
        (0..self.unit.terms as usize).map(operand).collect()
    }

    fn sum(&self, left: &[Operand], right: &[Operand], groups: &[usize]) -> i64 {
        let size = self.model.group;
        let mut products = vec![(0, NO_EXPONENT); size];
        groups.iter().fold(0, |running, &group| {
            let places = group * size..((group + 1) * size).min(left.len());
            products.truncate(places.len());
            for (product, place) in products.iter_mut().zip(places) {
                *product = self.product(left[place], right[place]);
            }
            self.model.add(running, &products)
        })
    }

    /// The groups of a left row that count: one of zeros leaves the sum as it is, but in the unit that minds partners.
    fn groups(&self, row: &[Operand]) -> Vec<usize> {
        let counts = |group: &[Operand]| group.iter().any(|&(value, _)| value != 0);
        let groups = row.chunks(self.model.group).enumerate();
        let counting = groups.filter(|(_, group)| self.model.fault == UnitFault::MindsZeroPartners || counts(group));
        counting.map(|(group, _)| group).collect()
    }

    fn product(&self, (a, a_exponent): Operand, (b, b_exponent): Operand) -> (i64, i32) {
        let exponent = match (a, b) {
            (0, 0) => NO_EXPONENT,
            (0, _) | (_, 0) if self.model.fault == UnitFault::MindsZeroPartners => a_exponent.max(b_exponent) + 24,
            (0, _) | (_, 0) => NO_EXPONENT,
            _ => a_exponent + b_exponent,
        };
        ((i64::from(a) * i64::from(b)) << (POINT - 2 * OPERAND_POINT), exponent)
    }

    fn bits(&self, sum: i64) -> u32 {
        match self.model.addition {
            Addition::Integers => (sum >> POINT) as u32,
            _ => ((sum as f64 / f64::powi(2.0, POINT)) as f32).to_bits(),
        }
    }
}

impl SumsUnderTest for ModelUnderTest {
    fn sums(&mut self, left: &[u8], right: &[u8]) -> Result<Vec<u32>, DeviceError> {
        let mut sums = vec![0; LAUNCH_ROWS * LAUNCH_ROWS];
        if self.diagonal {
            for row in 0..LAUNCH_ROWS {
                let operands = self.decoded(left, row);
                let groups = self.groups(&operands);
                let sum = self.sum(&operands, &self.decoded(right, row), &groups);
                sums[row * (LAUNCH_ROWS + 1)] = self.bits(sum);
            }
            return Ok(sums);
        }
        let columns: Vec<_> = (0..LAUNCH_ROWS).map(|column| self.decoded(right, column)).collect();
        for (row, sums) in sums.chunks_mut(LAUNCH_ROWS).enumerate() {
            let operands = self.decoded(left, row);
            let groups = self.groups(&operands);
            for (sum, column) in sums.iter_mut().zip(&columns) {
                *sum = self.bits(self.sum(&operands, column, &groups));
            }
        }
        Ok(sums)
    }
}

/// The value of a code, with [`OPERAND_POINT`] fraction bits.
///
/// # Panics
/// When it is not a multiple of 2⁻⁹ of at most 2²¹, or not a number.
fn value_of(format: OperandFormat, code: u16) -> i32 {
    let small = |fraction_bits: u32, bias: i32, bits: u32| {
        let magnitude = i64::from(code) & ((1 << (bits - 1)) - 1);
        if magnitude == 0 {
            return 0;
        }
        let (exponent, fraction) = (magnitude >> fraction_bits, magnitude & ((1 << fraction_bits) - 1));
        let leading = if exponent == 0 { 0 } else { 1 << fraction_bits };
        let shift = (exponent.max(1) as i32) - bias - fraction_bits as i32 + OPERAND_POINT;
        let units = fraction + leading;
        let value = if shift >= 0 { units << shift } else { units >> -shift };
        assert!(shift >= 0 || value << -shift == units, "{code:#x} of {} is too fine", format.name());
        if code >> (bits - 1) == 0 { value } else { -value }
    };
    let value = match format {
        OperandFormat::Int8 => i64::from(code as u8 as i8) << OPERAND_POINT,
        OperandFormat::Int16 => i64::from(code as i16) << OPERAND_POINT,
        OperandFormat::F16 => small(10, 15, 16),
        OperandFormat::Bf16 => small(7, 127, 16),
        OperandFormat::E4m3 => small(3, 7, 8),
        OperandFormat::E2m1 => small(1, 1, 4),
    };
    i32::try_from(value).expect("an operand of a test")
}
