//! Openings for the samples of a sweep.

use super::super::device::{SlotRange, SweepRounds};
use super::{Device, DeviceError, Handle, siblings_of};
use assay_work::probe::SweepSample;
use assay_work::segment::chunk_of;
use assay_work::tree::row_range_bytes;
use assay_work::{ChainingValue, Digest, OpenedRange, Opening, SweepOpenings};

/// The sweep that is opened; the last pass must be resident on the device as the sweep found it.
#[derive(Debug, Clone, Copy)]
pub struct SweptDevice<'a> {
    pub rounds: SweepRounds,
    /// The device's answer: a digest for each round.
    pub digests: &'a [Digest],
    /// The digests of the last pass: one for each slot.
    pub slot_digests: &'a [Digest],
}

/// The sums behind samples, and the siblings of their rows, which are read sample by sample.
#[derive(Debug, Clone)]
pub struct SumPlan {
    samples: Vec<(SweepSample, Opening, SlotRange, Vec<ChainingValue>)>,
}

impl SumPlan {
    /// Plans the openings of samples: sums each drawn round once more on the device.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when the sweep has no such sample, [`DeviceError::Sick`] when a round or a slot does
    /// not come out as before, and the device's own errors.
    pub fn new(
        device: &mut dyn Device,
        swept: &SweptDevice<'_>,
        samples: &[SweepSample],
        handle: &Handle,
    ) -> Result<Self, DeviceError> {
        let SweepRounds { n, count, rounds, .. } = swept.rounds;
        let fits = |sample: &SweepSample| sample.round < rounds && sample.slot < count && sample.row < n;
        if let Some(sample) = samples.iter().find(|sample| !fits(sample)) {
            return Err(DeviceError::Unsupported(format!("the sweep has no sample {sample:?}")));
        }
        let mut sums = vec![None; samples.len()];
        let mut by_round: Vec<usize> = (0..samples.len()).collect();
        by_round.sort_by_key(|&i| samples[i].round);
        for of_round in by_round.chunk_by(|&a, &b| samples[a].round == samples[b].round) {
            let at: Vec<_> = of_round.iter().map(|&i| chunk_of(samples[i].sum_byte(n))).collect();
            let round = samples[of_round[0]].round;
            let before = round.checked_sub(1).map_or(Digest::BEFORE_FIRST, |before| swept.digests[before as usize]);
            let opened = device.open_sums(&swept.rounds.round(round, &before), &at, handle)?;
            if opened.len() != at.len() {
                return Err(DeviceError::Sick(format!("{} sums opened, not {}", opened.len(), at.len())));
            }
            of_round.iter().zip(opened).for_each(|(&i, opening)| sums[i] = Some(opening));
        }
        let bytes = row_range_bytes(n);
        let range = |sample: &SweepSample| {
            let first_byte = u64::from(sample.row) * u64::from(n) / bytes * bytes;
            SlotRange { slot: sample.slot, first_byte, bytes }
        };
        let ranges: Vec<_> = samples.iter().map(range).collect();
        let siblings = siblings_of(device, n, swept.slot_digests, &ranges, handle)?;
        let planned = samples.iter().zip(sums.into_iter().flatten()).zip(ranges).zip(siblings);
        Ok(Self {
            samples: planned.map(|(((&sample, sum), range), siblings)| (sample, sum, range, siblings)).collect(),
        })
    }

    pub const fn len(&self) -> usize {
        self.samples.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Reads the row of sample `index`.
    ///
    /// # Panics
    /// When there is no such sample.
    pub fn open(&self, device: &mut dyn Device, index: usize) -> Result<SweepOpenings, DeviceError> {
        let (sample, sum, SlotRange { slot, first_byte, bytes }, siblings) = self.samples[index].clone();
        let mut row = vec![0; bytes as usize];
        device.read(slot, first_byte, &mut row)?;
        Ok(SweepOpenings { sample, sum, range: OpenedRange { slot, first_byte, bytes: row, siblings } })
    }
}

/// The openings of all drawn samples of a device's sweep: for openings that fit in memory at once.
///
/// # Errors
/// As [`SumPlan::new`], and [`DeviceError::Cancelled`].
pub fn open_sums(
    device: &mut dyn Device,
    swept: &SweptDevice<'_>,
    samples: &[SweepSample],
    handle: &Handle,
) -> Result<Vec<SweepOpenings>, DeviceError> {
    let plan = SumPlan::new(device, swept, samples, handle)?;
    let open = |index| handle.check().and_then(|()| plan.open(device, index));
    (0..plan.len()).map(open).collect()
}
