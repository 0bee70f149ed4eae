//! Checking samples of a sweep: single rows, summed again (WORK.md, Sweep).

use super::bytes::{DeviceId, Digest, ProbeKey, Root};
use super::challenge::{Challenge, Share};
use super::fault::{FaultKind, FaultPlace, OpeningFault};
use super::opening::{ExpectedRange, OpenedRange};
use super::probe::{Sweep, SweepSample, row_sum, sums_bytes, sweep_key, sweep_round_key_after, weights};
use super::segment::{Opening, are_of_pass, check_opening, chunk_of};
use super::tree::{CHUNK_BYTES, row_range_bytes};

/// The openings of one sample of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepOpenings {
    /// The sample answered.
    pub sample: SweepSample,
    /// The 1024 bytes of `sums[r]` that hold the sum.
    pub sum: Opening,
    /// The range of the slot that holds the row.
    pub range: OpenedRange,
}

/// The validator's own knowledge of a device's sweep; nothing in it comes from the openings.
#[derive(Debug, Clone)]
pub struct SweepAudit<'a> {
    n: u32,
    share: Share,
    sweep_key: ProbeKey,
    last_root: Root,
    digests: &'a [Digest],
    samples: &'a [SweepSample],
}

impl<'a> SweepAudit<'a> {
    /// An audit of the samples of one device: `last_root` is its commitment for the last iteration, `digests` its answer.
    ///
    /// # Panics
    /// When the challenge has no share for the device, there is not a digest for every round, or the sweep has no such
    /// sample: the answer was checked and the samples were drawn before.
    pub fn new(
        challenge: &Challenge,
        sweep: &Sweep,
        device_id: DeviceId,
        last_root: Root,
        digests: &'a [Digest],
        samples: &'a [SweepSample],
    ) -> Self {
        let Some(&share) = challenge.share(device_id) else { panic!("device {device_id} has no share") };
        let n = challenge.n();
        assert_eq!(digests.len(), sweep.rounds() as usize, "a digest for every round");
        assert!(samples.iter().all(|sample| sample.fits(sweep, n, share.count)), "samples of the sweep");
        let sweep_key = sweep_key(sweep, challenge.work_key(), device_id, &last_root);
        Self { n, share, sweep_key, last_root, digests, samples }
    }
}

/// A check that takes the samples one by one, in the order drawn, so that no more than one need be in memory.
///
/// It keeps the samples drawn and the digests of the last pass, but no part of a sample.
#[derive(Debug)]
pub struct SweepCheck {
    n: u32,
    share: Share,
    drawn: Vec<SweepSample>,
    /// Digest of the sums of each round.
    sums_digests: Vec<Digest>,
    sweep_key: ProbeKey,
    /// Weights of the round that was checked last.
    weights: Option<(u32, Vec<u8>)>,
    slot_digests: Vec<Digest>,
    seen: usize,
}

impl SweepCheck {
    /// Checks the digests of the last pass, which the rows lead to.
    ///
    /// # Errors
    /// `digests`.
    pub fn begin(audit: &SweepAudit<'_>, slot_digests: Vec<Digest>) -> Result<Self, OpeningFault> {
        let SweepAudit { n, share, sweep_key, digests, samples, .. } = *audit;
        if !are_of_pass(&slot_digests, &share, &audit.last_root) {
            let place = FaultPlace::Answer;
            return Err(OpeningFault { kind: FaultKind::Digests, device_id: share.device_id, place });
        }
        let (drawn, sums_digests) = (samples.to_vec(), digests.to_vec());
        Ok(Self { n, share, drawn, sums_digests, sweep_key, weights: None, slot_digests, seen: 0 })
    }

    /// Checks that the next sample is the one drawn, and that its ranges are those that hold its sum and its row: a few
    /// comparisons, which keep nothing.
    ///
    /// # Errors
    /// `rows`, `range` or `siblings`.
    pub fn check_shape(&self, given: &SweepOpenings) -> Result<(), OpeningFault> {
        self.shape(given).map_err(|kind| self.fault(self.seen, kind))
    }

    /// Checks the next sample whole.
    ///
    /// # Errors
    /// The sample's first [`OpeningFault`], which is the answer's: later samples need no check.
    pub fn sample(&mut self, given: &SweepOpenings) -> Result<(), OpeningFault> {
        let index = self.seen;
        let checked = self.check_sample(given);
        self.seen += 1;
        checked.map_err(|kind| self.fault(index, kind))
    }

    /// Returns the verdict over all samples.
    ///
    /// # Errors
    /// `rows` when a sample was left out.
    pub fn finish(self) -> Result<(), OpeningFault> {
        if self.seen < self.drawn.len() { Err(self.fault(self.seen, FaultKind::Rows)) } else { Ok(()) }
    }

    const fn fault(&self, sample: usize, kind: FaultKind) -> OpeningFault {
        OpeningFault { kind, device_id: self.share.device_id, place: FaultPlace::Sample { sample } }
    }

    fn drawn(&self, given: &SweepOpenings) -> Result<SweepSample, FaultKind> {
        let drawn = self.drawn.get(self.seen).filter(|drawn| **drawn == given.sample);
        drawn.copied().ok_or(FaultKind::Rows)
    }

    fn shape(&self, given: &SweepOpenings) -> Result<(), FaultKind> {
        let drawn = self.drawn(given)?;
        let (sum, row) = (self.expected_sum(&drawn), self.expected_row(&drawn));
        sum.check_range(given.sum.first_byte, &given.sum.bytes)?;
        sum.check_siblings(&given.sum.siblings)?;
        self.check_row_range(&drawn, &row, &given.range)
    }

    fn check_row_range(
        &self,
        drawn: &SweepSample,
        row: &ExpectedRange<'_>,
        given: &OpenedRange,
    ) -> Result<(), FaultKind> {
        if given.slot != drawn.slot {
            return Err(FaultKind::Range);
        }
        row.check_range(given.first_byte, &given.bytes)?;
        row.check_siblings(&given.siblings)
    }

    fn check_sample(&mut self, given: &SweepOpenings) -> Result<(), FaultKind> {
        let drawn = self.drawn(given)?;
        check_opening(&self.expected_sum(&drawn), &given.sum)?;
        let row = self.expected_row(&drawn);
        self.check_row_range(&drawn, &row, &given.range)?;
        row.check_path(&given.range.bytes, &given.range.siblings)?;
        let in_chunk = (drawn.sum_byte(self.n) - given.sum.first_byte) as usize;
        let in_range = (u64::from(drawn.row) * u64::from(self.n) - given.range.first_byte) as usize;
        let row = &given.range.bytes[in_range..][..self.n as usize];
        let sum = row_sum(row, self.weights_of(drawn.round));
        if given.sum.bytes[in_chunk..].starts_with(&sum.to_le_bytes()) { Ok(()) } else { Err(FaultKind::Sum) }
    }

    fn weights_of(&mut self, round: u32) -> &[u8] {
        let (n, key, digests) = (self.n, &self.sweep_key, &self.sums_digests);
        let kept = self.weights.take().filter(|(of, _)| *of == round);
        let weights = kept.unwrap_or_else(|| (round, weights(&sweep_round_key_after(key, round, digests), n)));
        &self.weights.insert(weights).1
    }

    /// The place where a sum is opened.
    fn expected_sum(&self, drawn: &SweepSample) -> ExpectedRange<'_> {
        ExpectedRange {
            first_byte: chunk_of(drawn.sum_byte(self.n)),
            range_bytes: CHUNK_BYTES,
            total_bytes: sums_bytes(self.n, self.share.count),
            digest: &self.sums_digests[drawn.round as usize],
        }
    }

    /// The place where a row is opened.
    fn expected_row(&self, drawn: &SweepSample) -> ExpectedRange<'_> {
        let (n, range_bytes) = (u64::from(self.n), row_range_bytes(self.n));
        ExpectedRange {
            first_byte: u64::from(drawn.row) * n / range_bytes * range_bytes,
            range_bytes,
            total_bytes: n * n,
            digest: &self.slot_digests[drawn.slot as usize],
        }
    }
}
