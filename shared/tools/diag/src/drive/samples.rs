//! Samples of a resident pass, opened as in an audit and computed by the processor: a result on which two broken
//! devices agree is still wrong.

use std::collections::BTreeSet;

use assay_device::open::SamplePlan;
use assay_device::{Device, DeviceError, Pass};
use assay_work::fault::OpeningFault;
use assay_work::tree::{Tree, row_range_bytes};
use assay_work::{ChainingValue, Digest, FaultPlace, PassCheck, PassSample, Share};

use super::Drive;
use crate::finding::{Severity, Test, TestFinding};
use crate::locate::judge;

impl Drive<'_> {
    pub(super) fn samples(
        &mut self,
        device: &mut dyn Device,
        pass: &Pass,
        kernel: &str,
        digests: &[Digest],
    ) -> Result<(), DeviceError> {
        if self.run.plan.samples == 0 {
            self.not_done(Test::Samples, "none were asked for");
            return Ok(());
        }
        self.doing("checking samples");
        let mut draw = self.run.plan.seed.draw(self.round, self.pass);
        let samples = draw.samples(pass.n, pass.count, self.run.plan.samples);
        let handle = self.handle();
        let plan = match SamplePlan::of_pass(device, &pass.key, (pass.precision, pass.n), digests, &samples, &handle) {
            // That of the device itself leaves it with a fault.
            Err(DeviceError::Sick(why)) if device.fault().is_none() => {
                let slot = changed(device, pass, digests, &samples)?;
                return self.locate(device, pass, kernel, slot, &format!("memory changed after the pass: {why}"));
            }
            other => other?,
        };
        let share = Share { device_id: self.id, offset: pass.offset, count: pass.count };
        let mut check = PassCheck::of_pass(pass.precision, pass.n, share, pass.key, samples.clone(), digests.to_vec());
        for index in 0..plan.len() {
            handle.check()?;
            check.sample(&plan.open(device, index)?);
        }
        self.record(|record| record.count(Test::Samples, samples.len() as u64));
        let Err(fault) = check.finish() else { return Ok(()) };
        let what = format!("a sample is not what the processor computes ({fault})");
        self.locate(device, pass, kernel, refused(pass, &samples, &fault), &what)
    }

    fn locate(
        &mut self,
        device: &mut dyn Device,
        pass: &Pass,
        kernel: &str,
        slot: Option<u32>,
        what: &str,
    ) -> Result<(), DeviceError> {
        let judged =
            slot.map(|slot| judge(device, &pass.key, (pass.precision, pass.n), slot, &self.handle())).transpose()?;
        let location = judged.as_ref().and_then(|judged| judged.wrong);
        let text = location.map_or_else(|| what.to_owned(), |at| format!("{what}: {at}"));
        let kernel = Some(kernel.to_owned());
        self.find_more(TestFinding { kernel, location, ..TestFinding::new(Severity::Fail, Test::Samples, text) });
        Ok(())
    }
}

/// The slot of a sample that differs from the processor's.
fn refused(pass: &Pass, samples: &[PassSample], fault: &OpeningFault) -> Option<u32> {
    let (index, opening) = match fault.place {
        FaultPlace::Opening { sample, opening } => (sample, opening),
        FaultPlace::Sample { sample } => (sample, 0),
        _ => (0, 0),
    };
    let sample = samples.get(index)?;
    let ranges = assay_work::sample_ranges(pass.precision, &pass.key, pass.n, sample);
    Some(ranges.get(opening).map_or(sample.slot_and_row().0, |range| range.slot))
}

/// The first slot that no longer hashes to its digest: its memory changed after the pass.
fn changed(
    device: &mut dyn Device,
    pass: &Pass,
    digests: &[Digest],
    samples: &[PassSample],
) -> Result<Option<u32>, DeviceError> {
    let ranges = samples.iter().flat_map(|s| assay_work::sample_ranges(pass.precision, &pass.key, pass.n, s));
    let slots: BTreeSet<_> = ranges.map(|range| range.slot).collect();
    for slot in slots {
        let values = device.chaining_values(slot, row_range_bytes(pass.n))?;
        let tree = Tree::new(values.into_iter().map(ChainingValue).collect());
        if tree.digest() != digests[slot as usize] {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}
