//! The record of a device while the burn-in runs: kept outside its thread, so that a lost thread loses none of it.

use std::collections::BTreeMap;

use assay_telemetry::Wear;
use serde::Serialize;

use crate::finding::{Severity, Test, TestFinding};
use crate::stats::Series;

/// Findings kept of a device: the first ones say most.
const MAX_FINDINGS: usize = 64;

assay_work::names! {
    /// The measured quantity of a rate.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Measure {
        Products = "products",
        /// Passes: leaves, products and digests.
        Passes = "passes",
        Probe = "probe",
        HostToDevice = "host to device",
        /// Copies within the device, bytes read and written counted once.
        WithinDevice = "within the device",
        DeviceToHost = "device to host",
    }
}

impl Measure {
    /// Whether it is in operations a second, else in bytes.
    pub const fn counts_operations(self) -> bool {
        matches!(self, Self::Products | Self::Passes)
    }
}

/// A kernel, and how much of the memory its passes fill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelPlan {
    /// Its name; empty where the device has one without a name.
    pub name: String,
    pub slots: u32,
}

#[derive(Debug, Clone, Default)]
pub struct RunRecord {
    pub n: u32,
    pub fits: u32,
    /// The kernels, the first one over all memory.
    pub kernels: Vec<KernelPlan>,
    pub rounds: u32,
    pub passes: u64,
    /// Number of comparisons, by test.
    pub checked: BTreeMap<Test, u64>,
    /// The reason that a test was not done.
    pub not_done: BTreeMap<Test, String>,
    /// Rates, by quantity and kernel.
    pub rates: BTreeMap<(Measure, String), Series>,
    /// Findings in order, at most `MAX_FINDINGS`.
    pub findings: Vec<TestFinding>,
    /// Number of findings left out.
    pub more_findings: u64,
    /// Temperature in degrees Celsius over time.
    pub temperature: Series,
    pub power: Series,
    /// The counters of wear, first and last.
    pub wear: Option<(Wear, Wear)>,
    /// Its current step, for the progress line.
    pub doing: String,
    /// Whether the device is in a call that is to make progress.
    pub in_call: bool,
    /// Whether it is done, one way or the other.
    pub ended: bool,
}

impl RunRecord {
    /// Keeps a finding, or counts it when there are too many.
    pub fn find(&mut self, finding: TestFinding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
            // A finding that fails the device is not lost among warnings.
            if finding.severity == Severity::Fail {
                let warning = self.findings.iter_mut().rev().find(|kept| kept.severity == Severity::Warn);
                if let Some(kept) = warning {
                    *kept = finding;
                }
            }
        }
    }

    /// Adds to the number of comparisons.
    pub fn count(&mut self, test: Test, checked: u64) {
        *self.checked.entry(test).or_default() += checked;
    }

    pub fn rate(&mut self, measure: Measure, kernel: &str, at_s: f64, per_s: f64) {
        if per_s.is_finite() {
            self.rates.entry((measure, kernel.to_owned())).or_default().push(at_s, per_s);
        }
    }

    /// The gravest finding of a test.
    pub fn worst(&self, test: Test) -> Option<Severity> {
        self.findings.iter().filter(|finding| finding.test == test).map(|finding| finding.severity).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_bounded_and_a_failure_is_never_lost() {
        let mut record = RunRecord::default();
        (0..200).for_each(|i| record.find(TestFinding::new(Severity::Warn, Test::Speed, i.to_string())));
        assert_eq!((record.findings.len(), record.more_findings), (MAX_FINDINGS, 136));
        record.find(TestFinding::new(Severity::Fail, Test::Passes, "a wrong bit"));
        assert_eq!(record.findings.len(), MAX_FINDINGS);
        assert_eq!(
            (record.worst(Test::Passes), record.worst(Test::Speed)),
            (Some(Severity::Fail), Some(Severity::Warn))
        );
        assert_eq!(record.worst(Test::Probe), None);
    }
}
