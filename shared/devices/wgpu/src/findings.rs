//! The self-test's findings about products with float sums.

use super::shaders::Dot;
use assay_device::accumulator::{MAX_UNIT_FAILURE_BYTES, UnitFinding};
use assay_work::Precision;
use assay_work::text::printable;

/// The findings about every way to multiply with float sums, in each kind of work that it was examined for.
#[derive(Debug, Default)]
pub(super) struct FloatSums(Vec<(Dot, UnitFinding)>);

impl FloatSums {
    pub(super) fn note(&mut self, dot: Dot, finding: UnitFinding) {
        self.0.push((dot, finding));
    }

    /// Marks findings as failed: the way passed the self-test and failed elsewhere.
    pub(super) fn refute(&mut self, precision: Precision, dot: Dot, why: &str) {
        for (_, finding) in self.0.iter_mut().filter(|(way, found)| *way == dot && found.precision == precision) {
            finding.failed = Some(printable(why, MAX_UNIT_FAILURE_BYTES));
        }
    }

    pub(super) fn findings(&self) -> Vec<UnitFinding> {
        self.0.iter().map(|(_, finding)| finding.clone()).collect()
    }

    /// Of one way in one kind of work, a finding for each tile.
    pub(super) fn of(&self, precision: Precision, dot: Dot) -> impl Iterator<Item = &UnitFinding> {
        let is_of = move |found: &&(Dot, UnitFinding)| found.0 == dot && found.1.precision == precision;
        self.0.iter().filter(is_of).map(|(_, finding)| finding)
    }
}
