//! The findings of a burn-in, their places, and their severity.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// An operator should look at it; the device passes.
    Warn,
    Fail,
}

assay_work::names! {
    /// A test of a burn-in.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Test {
        /// The device, its driver and the process that drives it stay up.
        Device = "device",
        /// Passes give the same bits again, with every kernel, and on every other device.
        Passes = "passes",
        /// Samples of passes are equal to the processor's.
        Samples = "samples",
        /// Walks over all memory give the same digests again, and those that the processor walks.
        Probe = "probe",
        /// Bytes are the same after copies to the device, within it, back, and between devices.
        Copies = "copies",
        /// Heat, power, memory errors, the bus.
        Sensors = "sensors",
        /// Rates: against limits, against equal devices, and from the first to the last minutes.
        Speed = "speed",
    }
}

/// The result of computing a wrong pass again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecheckResult {
    Right,
    SameWrong,
    OtherWrong,
}

impl RecheckResult {
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Right => "computed again it is right",
            Self::SameWrong => "computed again it is wrong in the same way",
            Self::OtherWrong => "computed again it is wrong in another way",
        }
    }
}

/// The first wrong bit of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BitLocation {
    /// The slot: the first one of the pass that is wrong.
    pub slot: u32,
    pub row: u32,
    pub column: u32,
    /// The byte of the slot, `row · n + column`.
    pub byte: u64,
    /// The lowest wrong bit of the byte, 0 to 7.
    pub bit: u32,
    pub expected: u8,
    pub found: u8,
    /// Wrong bytes in the slot.
    pub wrong_bytes: u64,
    /// Wrong bits in the slot.
    pub wrong_bits: u64,
}

impl std::fmt::Display for BitLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { slot, row, column, bit, expected, found, wrong_bytes, wrong_bits, .. } = self;
        write!(
            f,
            "slot {slot}, row {row}, column {column}: bit {bit} is wrong (0x{found:02x}, expected 0x{expected:02x}); \
             {wrong_bits} bit(s) in {wrong_bytes} byte(s) of the slot are wrong"
        )
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestFinding {
    pub severity: Severity,
    pub test: Test,
    /// Seconds since the start.
    pub at_s: f64,
    /// The round, from 1.
    pub round: Option<u32>,
    /// The pass of the device, counted from 1 over all rounds.
    pub pass: Option<u64>,
    pub kernel: Option<String>,
    /// The device's temperature at that time.
    pub temperature_c: Option<u32>,
    /// The first wrong bit, where it could be located.
    pub location: Option<BitLocation>,
    /// Number of slots of the pass that differ from the right ones: those after the first one follow from it.
    pub slots_that_differ: Option<u32>,
    /// The result when it was computed again.
    pub again: Option<RecheckResult>,
    /// The finding in a sentence or two.
    pub text: String,
}

impl TestFinding {
    /// A finding with nothing but its text.
    pub fn new(severity: Severity, test: Test, text: impl Into<String>) -> Self {
        Self {
            severity,
            test,
            at_s: 0.0,
            round: None,
            pass: None,
            kernel: None,
            temperature_c: None,
            location: None,
            slots_that_differ: None,
            again: None,
            text: text.into(),
        }
    }
}
