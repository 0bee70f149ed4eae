//! The rows of the self-test: sums that an inexact unit gets wrong (`integration-tests/vectors/accumulator-tests.json`).

use super::format::OperandFormat;

/// The required sum of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredSum {
    /// Its exact sum.
    Equal,
    /// Another sum than the exact one, from a unit with FP32 sums.
    Differs,
    /// Any sum: the unit's own is reported.
    Report,
}

/// The fault that a test looks for. The order is that of diagnosis: a unit that negates wrongly fails rows of all other
/// families too, and one that keeps few bits fails sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultFamily {
    /// A product alone.
    Products,
    /// A sum of terms of both signs.
    MixedSigns,
    /// Products of zero between the terms.
    ZeroPartners,
    /// Terms far apart, which cancel.
    BitsKept,
    /// Sums of many bits.
    OutputBits,
    /// Sums that climb to the limit and down.
    Climb,
    /// Pairs that cancel.
    Cancel,
    /// Sums of integer units alone.
    Integers,
    /// A sum beyond the limit.
    Teeth,
    /// Random operands.
    Random,
}

/// One row: terms of a sum in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRow {
    /// Its name in the vectors.
    pub name: String,
    /// The fault that it looks for, in words.
    pub finds: &'static str,
    pub family: FaultFamily,
    /// The bits that it asks for, in the families that count bits.
    pub bits: u8,
    pub expect: RequiredSum,
    /// The formats that hold it.
    pub formats: Vec<OperandFormat>,
    /// Left operand, right operand, number of repeats.
    pub terms: Vec<(i32, i32, u32)>,
}

const FLOATS: &[OperandFormat] = &[OperandFormat::F16, OperandFormat::Bf16, OperandFormat::E4m3, OperandFormat::E2m1];

impl TestRow {
    /// A row for those of `formats` that hold its operands.
    fn new(
        name: impl Into<String>,
        (family, finds): (FaultFamily, &'static str),
        formats: &[OperandFormat],
        terms: &[(i32, i32, u32)],
    ) -> Self {
        let held = |format: &&OperandFormat| terms.iter().all(|&(a, b, _)| format.holds(a) && format.holds(b));
        let formats = formats.iter().filter(held).copied().collect();
        Self { name: name.into(), finds, family, bits: 0, expect: RequiredSum::Equal, formats, terms: terms.to_vec() }
    }

    pub fn length(&self) -> u32 {
        self.terms.iter().map(|&(.., times)| times).sum()
    }

    /// The exact sum, in integers.
    pub fn sum(&self) -> i64 {
        self.terms.iter().map(|&(a, b, times)| i64::from(a) * i64::from(b) * i64::from(times)).sum()
    }
}

/// Every row, in the order of the vectors.
pub fn rows() -> Vec<TestRow> {
    let parts = [bits_kept(), output_bits(), climbs(), mixed_signs(), zero_partners(), cancels(), teeth(), integers()];
    parts.into_iter().flatten().collect()
}

/// Two factors of 2^p, about equal.
const fn factors(p: u8) -> (i32, i32) {
    (1 << p.div_ceil(2), 1 << (p / 2))
}

fn bits_kept() -> Vec<TestRow> {
    let row = |p| {
        let ((a, b), finds) = (factors(p), "fraction bits kept when terms are aligned");
        let expect = if p <= 23 { RequiredSum::Equal } else { RequiredSum::Report };
        let terms = [(a, b, 1), (1, 1, 1), (-a, b, 1)];
        TestRow {
            bits: p,
            expect,
            ..TestRow::new(format!("bits kept {p}"), (FaultFamily::BitsKept, finds), FLOATS, &terms)
        }
    };
    (10..=25).map(row).collect()
}

fn output_bits() -> Vec<TestRow> {
    let row = |p| {
        let ((a, b), what) = (factors(p), (FaultFamily::OutputBits, "significant bits of a sum"));
        TestRow { bits: p + 1, ..TestRow::new(format!("output bits {p}"), what, FLOATS, &[(a, b, 1), (1, 1, 1)]) }
    };
    (10..=23).map(row).collect()
}

fn climbs() -> Vec<TestRow> {
    const BOTH: (FaultFamily, &str) = (FaultFamily::Climb, "both, in the kernel's order");
    const SHORT: (FaultFamily, &str) = (FaultFamily::Climb, "both, in few terms");
    let up_and_down = |sign: i32| {
        let row = |name: &str, what, up: &[(i32, i32, u32)], down: &[(i32, i32, u32)]| {
            let up = up.iter().map(|&(a, b, times)| (a, sign * b, times));
            let down = down.iter().map(|&(a, b, times)| (-a, sign * b, times));
            let terms: Vec<_> = up.chain(down).collect();
            TestRow::new(format!("climb {name}, {sign:+}"), what, &OperandFormat::ALL, &terms)
        };
        [
            row("kind 1", BOTH, &[(-128, -128, 1023), (127, 127, 1), (127, 2, 1)], &[(128, 127, 1032)]),
            row("kind 2", BOTH, &[(-192, -192, 455), (45, 91, 1)], &[(192, 190, 459)]),
            row("kind 5", BOTH, &[(120, 120, 1165), (9, 9, 15)], &[(120, 120, 1165), (9, 9, 14)]),
            row("kind 6", BOTH, &[(12, 12, 4000), (3, 3, 4000), (1, 1, 1)], &[(12, 12, 4000), (3, 3, 4000)]),
            row("9 bits", SHORT, &[(255, 255, 258), (255, 3, 1)], &[(255, 255, 258), (255, 2, 1)]),
            row(
                "E4M3",
                SHORT,
                &[(256, 256, 255), (15, 15, 291), (15, 4, 1)],
                &[(256, 256, 255), (15, 15, 291), (15, 3, 1)],
            ),
        ]
    };
    let largest = (FaultFamily::Climb, "the largest sum of FP4");
    let longest = TestRow::new("climb kind 6, n = 32768", largest, &OperandFormat::ALL, &[(12, 12, 65_535), (1, 1, 1)]);
    [1, -1].into_iter().flat_map(up_and_down).chain([longest]).collect()
}

fn mixed_signs() -> Vec<TestRow> {
    const ADDER: (FaultFamily, &str) = (FaultFamily::MixedSigns, "an adder that negates without the +1");
    let terms = [(-1, 1, 1), (3, 8, 1), (8, 4, 1)];
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let in_order = |(i, order): (usize, [usize; 3])| {
        TestRow::new(format!("mixed signs {i}"), ADDER, &OperandFormat::ALL, &order.map(|place| terms[place]))
    };
    let on_a_sum = |sign: i32| {
        let [x, y, z] = terms;
        let turned = terms.map(|(a, b, times)| (-sign * a, b, times));
        let after = [(12, sign, 1), x, y, z, (1, -8, 1)];
        let [p, q, r] = turned;
        let (running, turned) = ((FaultFamily::MixedSigns, "the same, on a running sum"), [p, q, r, (1, 3 * sign, 2)]);
        [
            TestRow::new(format!("mixed signs after a sum of {:+}", 12 * sign), running, &OperandFormat::ALL, &after),
            TestRow::new(
                format!("mixed signs, {sign:+}"),
                (FaultFamily::MixedSigns, "the same, all signs turned"),
                &OperandFormat::ALL,
                &turned,
            ),
        ]
    };
    orders.into_iter().enumerate().map(in_order).chain([1, -1].into_iter().flat_map(on_a_sum)).collect()
}

fn zero_partners() -> Vec<TestRow> {
    let what = (FaultFamily::ZeroPartners, "rounding that depends on zero products");
    let between = [
        [(-1, 1, 1), (0, 12, 1), (3, 8, 1), (-12, 0, 2), (8, 4, 1), (0, 0, 3)],
        [(0, 12, 7), (-1, 1, 1), (0, -12, 8), (3, 8, 1), (12, 0, 5), (8, 4, 1)],
    ];
    let row = |(i, terms)| TestRow::new(format!("zero partners {i}"), what, &OperandFormat::ALL, terms);
    between.iter().map(<[_; 6]>::as_slice).enumerate().map(row).collect()
}

fn cancels() -> Vec<TestRow> {
    let rows = |x: i32| {
        let what = (FaultFamily::Cancel, "guard and sticky bits");
        // The seventeenth of the squares in turn is a lone 1.
        let in_turn = (0..33).map(|i| if i == 16 { (1, 1, 1) } else { (if i % 2 == 0 { x } else { -x }, x, 1) });
        let in_turn: Vec<_> = in_turn.chain([(-1, 2, 1)]).collect();
        let apart = [(x, x, 100), (1, -1, 1), (-x, x, 100)];
        [
            TestRow::new(format!("cancel {x}"), what, &OperandFormat::ALL, &in_turn),
            TestRow::new(format!("cancel {x}, far apart"), what, &OperandFormat::ALL, &apart),
        ]
    };
    [12, 120, 192].into_iter().flat_map(rows).collect()
}

fn teeth() -> Vec<TestRow> {
    let what = (FaultFamily::Teeth, "that the tests reach the limit of FP32 sums");
    let climbed = [(120, 120, 1165), (9, 9, 15), (1, 1, 1), (1, 1, 1)];
    [
        TestRow::new("teeth", what, FLOATS, &[(4096, 4096, 1), (1, 1, 1)]),
        TestRow::new("teeth, climbed", what, FLOATS, &climbed),
    ]
    .map(|row| TestRow { expect: RequiredSum::Differs, ..row })
    .into()
}

fn integers() -> Vec<TestRow> {
    use OperandFormat::{Int8, Int16};
    let row =
        |name, finds, formats: &[_], terms: &[_]| TestRow::new(name, (FaultFamily::Integers, finds), formats, terms);
    vec![
        row("int32 odd", "an integer unit with FP32 sums", &[Int8], &[(127, 127, 2081)]),
        row("int32 large", "sums of fewer than 31 bits", &[Int8], &[(-128, -128, 32_768)]),
        row("int16 pairs", "saturation at 16 bits", &[Int8, Int16], &[(-128, -128, 2), (127, -128, 3)]),
        row("int32 kind 2", "sums of fewer than 32 bits", &[Int16], &[(-192, -192, 32_768)]),
    ]
}
