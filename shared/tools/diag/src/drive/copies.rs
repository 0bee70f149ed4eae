//! Copies to the device, within it, back, and of a neighbour's bytes.

use assay_device::copies::{CopyDifference, CopyLeg, CopyReport, CopySource};
use assay_device::{Device, DeviceError, Pass};

use super::{Drive, rate};
use crate::finding::{Severity, Test, TestFinding};
use crate::record::Measure;

impl Drive<'_> {
    pub(super) fn copies(&mut self, device: &mut dyn Device, pass: &Pass) -> Result<(), DeviceError> {
        self.doing("copying");
        let source = CopySource::Keystream { key: self.run.plan.seed.copy_key(self.round), bytes: self.area_bytes };
        let Some(report) = self.copy(device, &source, "")? else { return Ok(()) };
        let measures = [Measure::HostToDevice, Measure::WithinDevice, Measure::DeviceToHost];
        for (measure, took) in measures.into_iter().zip(report.took) {
            self.rate(measure, "", rate(self.area_bytes.into(), took));
        }
        self.neighbours(device, pass)
    }

    /// Bytes of an equal device's memory, which must be those of this one's, and go through this one's.
    fn neighbours(&self, device: &mut dyn Device, pass: &Pass) -> Result<(), DeviceError> {
        let Some(neighbour) = self.run.neighbour(self.id) else { return Ok(()) };
        let given = self.run.blocks.lock().get(&neighbour).cloned();
        let Some((_, bytes)) = given.filter(|(id, _)| *id == (self.round, pass.n)) else { return Ok(()) };
        let own = device.read_all(&[self.block(pass)])?;
        self.record(|record| record.count(Test::Copies, bytes.len() as u64));
        if let Some(first) = own.iter().zip(&bytes).position(|(a, b)| a != b) {
            let text = format!(
                "byte {first} of slot {} reads 0x{:02x} here and 0x{:02x} on device {neighbour}",
                self.block(pass).slot,
                own[first],
                bytes[first]
            );
            self.find(Severity::Fail, Test::Copies, text);
        }
        let whole = bytes.len() - bytes.len() % 1024;
        let source = CopySource::Bytes(bytes[..whole].to_vec());
        self.copy(device, &source, &format!(" of bytes from device {neighbour}")).map(drop)
    }

    /// Returns `None` where the device has no copies.
    fn copy(
        &self,
        device: &mut dyn Device,
        source: &CopySource,
        whose: &str,
    ) -> Result<Option<CopyReport>, DeviceError> {
        let report = match self.call(|| device.test_copies(source)) {
            Err(DeviceError::Unsupported(why)) => {
                self.not_done(Test::Copies, &why);
                return Ok(None);
            }
            // The areas stand beside the slots; a full device has the next round.
            Err(DeviceError::Busy { .. } | DeviceError::NoMemory(_)) => {
                self.not_done(Test::Copies, "no memory was left beside the slots");
                return Ok(None);
            }
            other => other?,
        };
        self.record(|record| record.count(Test::Copies, source.len() * CopyLeg::ALL.len() as u64));
        if let Some(difference) = report.difference {
            self.find_more(TestFinding::new(Severity::Fail, Test::Copies, sentence(&difference, whose)));
        }
        Ok(Some(report))
    }
}

fn sentence(difference: &CopyDifference, whose: &str) -> String {
    let CopyDifference { leg, first_byte, expected, found, wrong_bytes } = difference;
    let bit = (expected ^ found).trailing_zeros();
    format!(
        "a copy {}{whose}: byte {first_byte}, bit {bit} is wrong (0x{found:02x}, expected 0x{expected:02x}); \
         {wrong_bytes} byte(s) are wrong",
        leg.name()
    )
}
