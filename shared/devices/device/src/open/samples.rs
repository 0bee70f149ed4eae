//! Openings for the samples of an audit.

use super::{Device, DeviceError, Handle, SlotRange, siblings_of};
use assay_work::keys::{parents, pass_key};
use assay_work::{
    ChainingValue, Challenge, DeviceId, Digest, OpenedRange, Parents, PassKey, PassOpenings, PassSample, Precision,
    RangeRequest, Root, SampleOpenings, sample_ranges,
};

/// The pass that is opened, which must be resident on the device.
#[derive(Debug, Clone, Copy)]
pub struct AuditedPass<'a> {
    pub challenge: &'a Challenge,
    /// The device, by its name in the challenge.
    pub device_id: DeviceId,
    /// The number of the resident iteration.
    pub iteration: u32,
    pub previous_root: Root,
    pub root: Root,
    /// The digests of the pass: one for each slot.
    pub slot_digests: &'a [Digest],
}

impl AuditedPass<'_> {
    /// An answer to the audit with everything but its samples.
    pub fn header(&self) -> PassOpenings {
        PassOpenings {
            challenge: self.challenge.fields().clone(),
            device_id: self.device_id,
            iteration: self.iteration,
            previous_root: self.previous_root,
            root: self.root,
            slot_digests: self.slot_digests.to_vec(),
            samples: Vec::new(),
            committed_roots: None,
        }
    }
}

/// The ranges behind samples with the siblings that go with them; the bytes are read sample by sample.
#[derive(Debug, Clone)]
pub struct SamplePlan {
    samples: Vec<PlannedSample>,
}

#[derive(Debug, Clone)]
struct PlannedSample {
    sample: PassSample,
    parents: Option<Parents>,
    ranges: Vec<(RangeRequest, Vec<ChainingValue>)>,
}

impl SamplePlan {
    /// Plans the openings of samples of a resident pass.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when the pass has no such sample, [`DeviceError::Sick`] when a slot no longer
    /// hashes to its digest, and the device's own errors.
    pub fn new(
        device: &mut dyn Device,
        pass: &AuditedPass<'_>,
        samples: &[PassSample],
        handle: &Handle,
    ) -> Result<Self, DeviceError> {
        let key = pass_key(pass.challenge.work_key(), pass.device_id, pass.iteration, &pass.previous_root);
        let kind = (pass.challenge.precision(), pass.challenge.n());
        Self::of_pass(device, &key, kind, pass.slot_digests, samples, handle)
    }

    /// As [`SamplePlan::new`], for a pass that belongs to no challenge: its key, kind of work, matrix size and digests.
    ///
    /// # Errors
    /// As [`SamplePlan::new`].
    pub fn of_pass(
        device: &mut dyn Device,
        key: &PassKey,
        (precision, n): (Precision, u32),
        slot_digests: &[Digest],
        samples: &[PassSample],
        handle: &Handle,
    ) -> Result<Self, DeviceError> {
        let count = slot_digests.len() as u32;
        if let Some(sample) = samples.iter().find(|s| !s.fits(n, count)) {
            return Err(DeviceError::Unsupported(format!("the pass has no sample {sample:?}")));
        }
        let requests: Vec<Vec<_>> = samples.iter().map(|s| sample_ranges(precision, key, n, s)).collect();
        let ranges: Vec<_> = requests.iter().flatten().map(slot_range).collect();
        let mut siblings = siblings_of(device, n, slot_digests, &ranges, handle)?.into_iter();
        let planned = samples.iter().zip(requests).map(|(&sample, requests)| PlannedSample {
            sample,
            parents: match sample {
                PassSample::Leaf { .. } => None,
                PassSample::Product { slot, .. } => {
                    let (earlier, previous) = parents(key, slot);
                    Some(Parents { earlier, previous })
                }
            },
            ranges: requests.into_iter().zip(&mut siblings).collect(),
        });
        Ok(Self { samples: planned.collect() })
    }

    pub const fn len(&self) -> usize {
        self.samples.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Reads the rows of sample `index`.
    ///
    /// # Panics
    /// When there is no such sample.
    pub fn open(&self, device: &mut dyn Device, index: usize) -> Result<SampleOpenings, DeviceError> {
        let PlannedSample { sample, parents, ranges } = &self.samples[index];
        let read = device.read_all(&ranges.iter().map(|(request, _)| slot_range(request)).collect::<Vec<_>>())?;
        let mut rest = &read[..];
        let mut openings = Vec::with_capacity(ranges.len());
        for (RangeRequest { slot, first_byte, len, .. }, siblings) in ranges {
            let (bytes, after) = rest.split_at((*len as usize).min(rest.len()));
            rest = after;
            let (bytes, siblings) = (bytes.to_vec(), siblings.clone());
            openings.push(OpenedRange { slot: *slot, first_byte: *first_byte, bytes, siblings });
        }
        Ok(SampleOpenings { sample: *sample, parents: *parents, openings })
    }
}

/// The whole answer to an audit of a resident pass: for answers that fit in memory at once.
///
/// # Errors
/// As [`SamplePlan::new`], and [`DeviceError::Cancelled`].
pub fn open_samples(
    device: &mut dyn Device,
    pass: &AuditedPass<'_>,
    samples: &[PassSample],
    handle: &Handle,
) -> Result<PassOpenings, DeviceError> {
    let plan = SamplePlan::new(device, pass, samples, handle)?;
    let mut openings = pass.header();
    for index in 0..plan.len() {
        handle.check()?;
        openings.samples.push(plan.open(device, index)?);
    }
    Ok(openings)
}

const fn slot_range(request: &RangeRequest) -> SlotRange {
    SlotRange { slot: request.slot, first_byte: request.first_byte, bytes: request.len }
}
