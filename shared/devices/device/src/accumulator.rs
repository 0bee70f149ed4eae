//! The self-test of a matrix unit (WORK.md, Units that are exact): whether its sums of integers are exact.
//!
//! A unit with float sums computes a kind of work only after it has passed, on the same device, with the same kernel, in
//! the same process. Sums of random operands stay far below the limit of 2²⁴, so that they can certify no unit: the
//! [`rows`] reach it. A launch multiplies 256 rows by 256 rows; the backend writes their codes straight into the buffers
//! that its kernel reads operands from, and gives the bits of the unit's own sums, before any conversion.

mod format;
mod rows;

use std::fmt;

use assay_work::Precision;
use assay_work::text::printable;
use serde::{Deserialize, Serialize};

use crate::DeviceError;
pub use format::{OperandFormat, operands_of};
pub use rows::{FaultFamily, RequiredSum, TestRow, rows};

/// Rows of operands on each side of a launch.
pub const LAUNCH_ROWS: usize = 256;
/// The longest [`UnitFinding::unit`], in bytes.
pub const MAX_UNIT_NAME_BYTES: usize = 64;
/// The longest [`UnitFinding::failed`], in bytes.
pub const MAX_UNIT_FAILURE_BYTES: usize = 192;
/// The most findings of one device: four kinds of work, each on four units.
pub const MAX_UNITS: usize = 16;
/// Launches of random operands of the kind.
const RANDOM_LAUNCHES: usize = 3;
/// Launches of random small operands on a running sum; two are 131072 elements.
const RUNNING_SUM_LAUNCHES: usize = 2;
/// The largest operand of rows of mixed signs.
const SMALL: i32 = 12;

/// The format of a unit's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SumFormat {
    /// Signed 32-bit integers.
    Int32,
    /// IEEE single precision.
    Float32,
}

impl SumFormat {
    /// The value of a word, where the integer 1 is `2^step`.
    pub fn value(self, word: u32, step: i32) -> f64 {
        match self {
            Self::Int32 => f64::from(word as i32),
            Self::Float32 => f64::from(f32::from_bits(word)) / f64::powi(2.0, 2 * step),
        }
    }
}

/// A matrix unit as one kernel uses it for one kind of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    pub name: String,
    pub precision: Precision,
    pub format: OperandFormat,
    pub sums: SumFormat,
    /// K: the operands of a row of a launch, which is the kernel's longest chunk. At least 64, even.
    pub terms: u32,
}

/// A kernel on a device, as the self-test launches it.
pub trait SumsUnderTest {
    /// Multiplies the rows of `left` by those of `right`: [`LAUNCH_ROWS`] each, of [`Unit::row_bytes`] bytes of codes.
    /// Gives the unit's own bits of the sums, row-major, `LAUNCH_ROWS²` words: the sum of left row r and right row c at
    /// `r · LAUNCH_ROWS + c`.
    ///
    /// # Errors
    /// Any [`DeviceError`]: the launch failed, which says nothing about the unit.
    fn sums(&mut self, left: &[u8], right: &[u8]) -> Result<Vec<u32>, DeviceError>;
}

/// The self-test's result for a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitFinding {
    pub unit: String,
    /// The kind of work that it was to compute.
    pub precision: Precision,
    /// Fraction bits kept below the largest term of a sum, of 25 that the test looks for; `None` where the operands
    /// cannot show it.
    pub bits_kept: Option<u8>,
    /// Significant bits of a sum, of 24 that the test looks for; `None` where the operands cannot show it.
    pub output_bits: Option<u8>,
    /// The failure for which the unit is not used; `None` for an exact one.
    pub failed: Option<String>,
}

impl UnitFinding {
    /// Whether the unit may compute the kind of work.
    pub const fn is_exact(&self) -> bool {
        self.failed.is_none()
    }
}

impl fmt::Display for UnitFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: {}", self.precision, self.unit, if self.is_exact() { "exact" } else { "not used" })?;
        if let Some(bits) = self.bits_kept {
            write!(f, ", {bits} fraction bits kept")?;
        }
        if let Some(bits) = self.output_bits {
            write!(f, ", {bits} bits out")?;
        }
        self.failed.as_ref().map_or(Ok(()), |why| write!(f, "; {why}"))
    }
}

impl Unit {
    pub const fn row_bytes(&self) -> usize {
        self.format.row_bytes(self.terms)
    }

    /// Whether a row of the vectors is for this unit. An FP32 unit that takes integers has the rows of floats that its
    /// operands hold.
    fn takes(&self, row: &TestRow) -> bool {
        let is_integer = matches!(self.format, OperandFormat::Int8 | OperandFormat::Int16);
        let formats = match (is_integer, self.sums) {
            (true, SumFormat::Float32) => {
                let held = |&(a, b, _): &(i32, i32, u32)| self.format.holds(a) && self.format.holds(b);
                row.formats.contains(&OperandFormat::Bf16) && row.terms.iter().all(held)
            }
            _ => row.formats.contains(&self.format),
        };
        formats && row.length() <= self.terms
    }

    /// Whether a word of the unit is an exact sum, bit for bit; a zero may have a sign.
    fn gave(&self, word: u32, sum: i64, step: i32) -> bool {
        match self.sums {
            SumFormat::Int32 => word == sum as u32,
            // Converted without loss, or no FP32 sum is the exact one.
            SumFormat::Float32 => {
                let wanted = sum as f64 * f64::powi(2.0, 2 * step);
                let bits = (wanted as f32).to_bits();
                f64::from(wanted as f32) == wanted && (word == bits || (sum == 0 && word << 1 == 0))
            }
        }
    }
}

/// Examines a unit. The operands are the same in every run.
///
/// # Errors
/// As [`SumsUnderTest::sums`].
pub fn examine(unit: &Unit, under_test: &mut dyn SumsUnderTest) -> Result<UnitFinding, DeviceError> {
    let mut examination = Examination { unit, under_test, random: Random(0x41CC_7E57), failures: Vec::new() };
    let (bits_kept, output_bits) = examination.rows()?;
    examination.products()?;
    for launch in 0..RUNNING_SUM_LAUNCHES {
        examination.running_sums(launch == 0)?;
    }
    for _ in 0..RANDOM_LAUNCHES {
        examination.random()?;
    }
    let failed = examination.verdict();
    Ok(UnitFinding { unit: unit.name.clone(), precision: unit.precision, bits_kept, output_bits, failed })
}

/// A launch of random operands of a unit's kind of work, the same in every run.
#[derive(Debug)]
pub struct RandomLaunch {
    /// Codes of the left rows.
    pub left: Vec<u8>,
    /// Codes of the right rows.
    pub right: Vec<u8>,
    drawn: Vec<Vec<i16>>,
}

impl RandomLaunch {
    /// Draws the operands of [`LAUNCH_ROWS`] rows on each side.
    pub fn new(unit: &Unit) -> Self {
        let (OperandCodes { left, right, .. }, drawn) = OperandCodes::random(unit, &mut Random(0x0D4A_14ED));
        Self { left, right, drawn }
    }

    /// The exact sum of left row `row` and right row `column`; fits in 32 bits for every kind.
    pub fn sum(&self, row: usize, column: usize) -> i32 {
        dot(&self.drawn, row, column)
    }
}

/// How the terms of a row lie in a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TermLayout {
    /// One after another from the first place on.
    AsItStands,
    /// In order, at random places.
    Apart,
    /// In order, at random places, with an operand beside the zero of products between them.
    BesidePartners,
}

/// A test that failed. The order is that of diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TestFailure {
    beside_partners: bool,
    family: FaultFamily,
    text: String,
}

struct Examination<'a> {
    unit: &'a Unit,
    under_test: &'a mut dyn SumsUnderTest,
    random: Random,
    failures: Vec<TestFailure>,
}

impl Examination<'_> {
    fn fail(&mut self, layout: TermLayout, family: FaultFamily, name: &str, got: f64, wanted: &str) {
        let how = match layout {
            TermLayout::AsItStands => "",
            TermLayout::Apart => ", terms apart",
            TermLayout::BesidePartners => ", beside zero partners",
        };
        let text = format!("{name}{how} gave {got}, not {wanted}");
        self.failures.push(TestFailure { beside_partners: layout == TermLayout::BesidePartners, family, text });
    }

    /// The failure that says most about the unit, and the number of all failures.
    fn verdict(&mut self) -> Option<String> {
        self.failures.sort();
        let first = self.failures.first()?;
        let others = match self.failures.len() - 1 {
            0 => String::new(),
            others => format!(" ({others} more)"),
        };
        Some(printable(&format!("{}{others}", first.text), MAX_UNIT_FAILURE_BYTES))
    }

    /// The rows of the vectors, on the diagonal of one launch, each in every layout. Gives the bits kept and the bits of
    /// sums.
    fn rows(&mut self) -> Result<(Option<u8>, Option<u8>), DeviceError> {
        let rows: Vec<TestRow> = rows().into_iter().filter(|row| self.unit.takes(row)).collect();
        let layouts = [TermLayout::AsItStands, TermLayout::Apart, TermLayout::BesidePartners];
        let cases: Vec<(TermLayout, &TestRow)> = layouts
            .into_iter()
            .flat_map(|layout| rows.iter().map(move |row| (layout, row)))
            .take(LAUNCH_ROWS)
            .collect();
        let mut operands = OperandCodes::new(self.unit, self.unit.format.row_step());
        for (i, (layout, row)) in cases.iter().enumerate() {
            self.lay_out(&mut operands, i, *layout, row);
        }
        let words = self.launch(&operands)?;
        let (mut kept, mut output) = (BitCount::default(), BitCount::default());
        for (i, (layout, row)) in cases.iter().enumerate() {
            let word = words[i * (LAUNCH_ROWS + 1)];
            let passed = self.judge(word, *layout, row);
            if *layout == TermLayout::AsItStands {
                match row.family {
                    FaultFamily::BitsKept => kept.count(row.bits, passed),
                    FaultFamily::OutputBits => output.count(row.bits, passed),
                    _ => {}
                }
            }
        }
        Ok((kept.found, output.found))
    }

    /// Whether a row gave its sum; a failure is noted where it had to.
    fn judge(&mut self, word: u32, layout: TermLayout, row: &TestRow) -> bool {
        let step = self.unit.format.row_step();
        let equal = self.unit.gave(word, row.sum(), step);
        let value = self.unit.sums.value(word, step);
        // The sum's neighbours in FP32: anything else did not come from a sum of these terms.
        let is_near = (value - row.sum() as f64).abs() <= 2.0;
        match row.expect {
            RequiredSum::Equal if !equal => self.fail(layout, row.family, &row.name, value, &row.sum().to_string()),
            RequiredSum::Differs if equal || !is_near => {
                self.fail(layout, row.family, &row.name, value, "a neighbour of 16777217")
            }
            _ => {}
        }
        equal
    }

    fn lay_out(&mut self, operands: &mut OperandCodes<'_>, i: usize, layout: TermLayout, row: &TestRow) {
        let terms = row.terms.iter().flat_map(|&(a, b, times)| (0..times).map(move |_| (a, b)));
        let mut terms = terms.peekable();
        let (mut left, all) = (row.length(), self.unit.terms);
        for place in 0..all {
            let taken = layout == TermLayout::AsItStands || self.random.below(all - place) < left;
            if let Some((a, b)) = terms.next_if(|_| taken) {
                left -= 1;
                operands.put(Side::Left, i, place, a);
                operands.put(Side::Right, i, place, b);
            } else if layout == TermLayout::BesidePartners {
                let side = if self.random.below(2) == 0 { Side::Left } else { Side::Right };
                operands.put(side, i, place, SMALL);
            } else if layout == TermLayout::AsItStands && left == 0 {
                return;
            }
        }
    }

    /// Every pair of the kind's operands alone in a row.
    fn products(&mut self) -> Result<(), DeviceError> {
        let kind = operands_of(self.unit.precision);
        let place = self.random.below(self.unit.terms);
        let mut operands = OperandCodes::new(self.unit, self.unit.format.kind_step());
        for row in 0..LAUNCH_ROWS {
            operands.put(Side::Left, row, place, kind[row % kind.len()]);
            operands.put(Side::Right, row, place, kind[row % kind.len()]);
        }
        let words = self.launch(&operands)?;
        let product = |row: usize, column: usize| -> i64 {
            i64::from(kind[row % kind.len()]) * i64::from(kind[column % kind.len()])
        };
        self.compare(&words, operands.step, FaultFamily::Products, "a product alone", product);
        Ok(())
    }

    /// Four products of small operands on a running sum, together or at random places.
    fn running_sums(&mut self, together: bool) -> Result<(), DeviceError> {
        const TERMS: u32 = 5;
        let all = self.unit.terms;
        // The sum runs before the four; together, they come in the middle.
        let mut places = vec![0];
        let mut place = 1;
        while places.len() < TERMS as usize {
            let needed = TERMS - places.len() as u32;
            if if together { place >= all / 2 } else { self.random.below(all - place) < needed } {
                places.push(place);
            }
            place += 1;
        }
        let step = self.unit.format.row_step();
        // Products of 0 have rows of their own.
        let small = (-SMALL..=SMALL).filter(|&x| x != 0 && self.unit.format.code(x, step).is_some());
        let small: Vec<i32> = small.collect();
        let mut operands = OperandCodes::new(self.unit, step);
        let drawn = operands.draw(&mut self.random, &small, &places);
        let words = self.launch(&operands)?;
        self.compare(&words, step, FaultFamily::MixedSigns, "mixed signs at random", |row, column| {
            dot(&drawn, row, column).into()
        });
        Ok(())
    }

    /// Operands of the kind at every place.
    fn random(&mut self) -> Result<(), DeviceError> {
        let (operands, drawn) = OperandCodes::random(self.unit, &mut self.random);
        let words = self.launch(&operands)?;
        let step = operands.step;
        self.compare(&words, step, FaultFamily::Random, "random operands", |row, column| {
            dot(&drawn, row, column).into()
        });
        Ok(())
    }

    fn launch(&mut self, operands: &OperandCodes<'_>) -> Result<Vec<u32>, DeviceError> {
        let words = self.under_test.sums(&operands.left, &operands.right)?;
        if words.len() == LAUNCH_ROWS * LAUNCH_ROWS {
            return Ok(words);
        }
        Err(DeviceError::Sick(format!("a launch of the self-test gave {} sums", words.len())))
    }

    /// Compares every element; the first that is wrong is the failure.
    fn compare(
        &mut self,
        words: &[u32],
        step: i32,
        family: FaultFamily,
        name: &str,
        wanted: impl Fn(usize, usize) -> i64,
    ) {
        let sum_of = |i: usize| wanted(i / LAUNCH_ROWS, i % LAUNCH_ROWS);
        let wrong = (0..words.len()).find(|&i| !self.unit.gave(words[i], sum_of(i), step));
        if let Some(i) = wrong {
            let value = self.unit.sums.value(words[i], step);
            self.fail(TermLayout::AsItStands, family, name, value, &sum_of(i).to_string());
        }
    }
}

/// The exact sum of a left and a right row of the drawn integers; fits in 32 bits for every kind.
fn dot(drawn: &[Vec<i16>], row: usize, column: usize) -> i32 {
    let (left, right) = (&drawn[row], &drawn[LAUNCH_ROWS + column]);
    left.iter().zip(right).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

/// The largest of the bits asked for in ascending order, up to which every row passed.
#[derive(Default)]
struct BitCount {
    found: Option<u8>,
    has_failed: bool,
}

impl BitCount {
    fn count(&mut self, bits: u8, passed: bool) {
        self.has_failed |= !passed;
        let so_far = self.found.unwrap_or(0);
        self.found = Some(if self.has_failed { so_far } else { bits });
    }
}

#[derive(Debug, Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// The codes of a launch; zeros where nothing was written.
struct OperandCodes<'a> {
    unit: &'a Unit,
    step: i32,
    left: Vec<u8>,
    right: Vec<u8>,
}

impl<'a> OperandCodes<'a> {
    fn new(unit: &'a Unit, step: i32) -> Self {
        let zeros = || vec![0; LAUNCH_ROWS * unit.row_bytes()];
        Self { unit, step, left: zeros(), right: zeros() }
    }

    /// The code of an operand; 0, which the comparison of sums finds, where the format does not hold it.
    fn code(&self, integer: i32) -> u16 {
        self.unit.format.code(integer, self.step).unwrap_or(0)
    }

    /// Operands of the kind at every place; gives the drawn ones too.
    fn random(unit: &'a Unit, random: &mut Random) -> (Self, Vec<Vec<i16>>) {
        let places: Vec<u32> = (0..unit.terms).collect();
        let mut operands = Self::new(unit, unit.format.kind_step());
        let drawn = operands.draw(random, &operands_of(unit.precision), &places);
        (operands, drawn)
    }

    /// Random ones of `choice` at these places of every row; gives them, the left rows first.
    fn draw(&mut self, random: &mut Random, choice: &[i32], places: &[u32]) -> Vec<Vec<i16>> {
        let codes: Vec<u16> = choice.iter().map(|&integer| self.code(integer)).collect();
        let mut drawn = Vec::with_capacity(2 * LAUNCH_ROWS);
        for side in [Side::Left, Side::Right] {
            for row in 0..LAUNCH_ROWS {
                let integers = places.iter().map(|&place| {
                    let which = random.below(choice.len() as u32) as usize;
                    self.put_code(side, row, place, codes[which]);
                    choice[which] as i16
                });
                drawn.push(integers.collect());
            }
        }
        drawn
    }

    fn put(&mut self, side: Side, row: usize, place: u32, integer: i32) {
        self.put_code(side, row, place, self.code(integer));
    }

    fn put_code(&mut self, side: Side, row: usize, place: u32, code: u16) {
        let codes = match side {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        };
        let bytes = self.unit.row_bytes();
        self.unit.format.put(&mut codes[row * bytes..][..bytes], place as usize, code);
    }
}

/// SplitMix64: the operands need no secret, and are to be the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        ((u64::from(z as u32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests;
