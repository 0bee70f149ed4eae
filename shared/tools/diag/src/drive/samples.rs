//! Samples of a resident pass, opened as in an audit and computed by the processor: a result on which two broken
//! devices agree is still wrong.

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
                return self.changed(device, pass, kernel, (digests, &samples), &why);
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
        match check.finish() {
            Ok(()) => Ok(()),
            Err(fault) => self.refused(device, pass, kernel, &samples, &fault),
        }
    }

    /// Reports a sample that differs from the processor's.
    fn refused(
        &mut self,
        device: &mut dyn Device,
        pass: &Pass,
        kernel: &str,
        samples: &[PassSample],
        fault: &OpeningFault,
    ) -> Result<(), DeviceError> {
        let (index, opening) = match fault.place {
            FaultPlace::Opening { sample, opening } => (sample, opening),
            FaultPlace::Sample { sample } => (sample, 0),
            _ => (0, 0),
        };
        let slot = samples.get(index).map(|sample| {
            let ranges = assay_work::sample_ranges(pass.precision, &pass.key, pass.n, sample);
            ranges.get(opening).map_or(sample.slot_and_row().0, |range| range.slot)
        });
        self.locate(device, pass, kernel, slot, &format!("a sample is not what the processor computes ({fault})"))
    }

    /// A slot no longer hashes to its digest: its memory changed after the pass.
    fn changed(
        &mut self,
        device: &mut dyn Device,
        pass: &Pass,
        kernel: &str,
        (digests, samples): (&[Digest], &[PassSample]),
        why: &str,
    ) -> Result<(), DeviceError> {
        let mut slots: Vec<u32> = samples
            .iter()
            .flat_map(|s| assay_work::sample_ranges(pass.precision, &pass.key, pass.n, s))
            .map(|r| r.slot)
            .collect();
        slots.sort_unstable();
        slots.dedup();
        let mut changed = None;
        for slot in slots {
            let values = device.chaining_values(slot, row_range_bytes(pass.n))?;
            let tree = Tree::new(values.into_iter().map(ChainingValue).collect());
            if tree.digest() != digests[slot as usize] {
                changed = Some(slot);
                break;
            }
        }
        self.locate(device, pass, kernel, changed, &format!("memory changed after the pass: {why}"))
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
        let text = match location {
            Some(at) => format!(
                "{what}: slot {}, row {}, column {}: bit {} is wrong (0x{:02x}, expected 0x{:02x}); {} bit(s) in {} \
                 byte(s) of the slot are wrong",
                at.slot, at.row, at.column, at.bit, at.found, at.expected, at.wrong_bits, at.wrong_bytes
            ),
            None => what.to_owned(),
        };
        let kernel = Some(kernel.to_owned());
        self.find_more(TestFinding { kernel, location, ..TestFinding::new(Severity::Fail, Test::Samples, text) });
        Ok(())
    }
}
