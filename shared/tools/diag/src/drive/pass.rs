//! A pass with one kernel, compared with the device's own other passes of the round and with those of all others.

use std::sync::Arc;

use assay_device::{Device, DeviceError, Pass, SlotRange};
use assay_work::{Digest, Precision};

use super::{Drive, choose, rate};
use crate::board::{Dispute, ResultOrigin, differences};
use crate::finding::{RecheckResult, Severity, Test, TestFinding};
use crate::locate::{ComparedSlot, judge};
use crate::plan::pass_operations;
use crate::record::{KernelPlan, Measure};

/// Wrong passes of a device that are located; more are only counted.
const MAX_LOCATED: u32 = 8;
/// How often a pass is held against the others before it is left at that.
const MAX_DISPUTES: u32 = 4;
/// Bytes that a device gives its neighbour to copy.
const BLOCK_BYTES: u64 = 64 << 10;
/// For about how long products alone are timed, in seconds.
const PRODUCTS_S: f64 = 0.3;

impl Drive<'_> {
    /// One pass of the round and all that goes with it.
    pub(super) fn pass(&mut self, device: &mut dyn Device) -> Result<(), DeviceError> {
        let KernelPlan { name, slots } = self.kernels[self.step as usize % self.kernels.len()].clone();
        choose(device, &name)?;
        let pass = Pass { precision: Precision::Int8, key: self.key(), n: self.n, offset: 0, count: slots };
        let (digests, took) = self.fill(device, &pass, &name)?;
        let per_s = rate(pass_operations(pass.n, pass.count), took);
        self.rate(Measure::Passes, &name, per_s);
        if self.step == 0 {
            self.give_block(device, &pass)?;
        }
        let digests = self.settle(device, &pass, &name, digests)?;
        if self.step == 0 {
            self.probe(device, &pass, &digests, took)?;
            self.copies(device, &pass)?;
        }
        self.products(device, &pass, &name, per_s)?;
        self.samples(device, &pass, &name, &digests)
    }

    /// Puts the start of a slot where the neighbour finds it.
    fn give_block(&mut self, device: &mut dyn Device, pass: &Pass) -> Result<(), DeviceError> {
        let range = self.block(pass);
        let bytes = device.read_all(&[range])?;
        self.run.blocks.lock().insert(self.id, ((self.round, pass.n), bytes));
        Ok(())
    }

    /// The part of the round's pass that neighbours exchange: of another slot each round, among those of every device.
    pub(super) const fn block(&self, pass: &Pass) -> SlotRange {
        SlotRange { slot: self.round % 3, first_byte: 0, bytes: min(BLOCK_BYTES, pass.slot_bytes()) }
    }

    /// Compares a resident pass with all others of its key, and finds the device at fault and the place. Gives the
    /// digests of the slots that are resident after it.
    pub(super) fn settle(
        &mut self,
        device: &mut dyn Device,
        pass: &Pass,
        kernel: &str,
        digests: Vec<Digest>,
    ) -> Result<Arc<Vec<Digest>>, DeviceError> {
        let mut digests = Arc::new(digests);
        let (id, who) = ((self.round, pass.n), self.who());
        self.run.passes.post(id, who, digests.clone());
        if self.round > 0 {
            self.arrive((self.round, self.step));
        }
        self.doing("comparing");
        let witnesses = self.run.passes.witnesses(id, who) as u64;
        self.record(|record| record.count(Test::Passes, witnesses * u64::from(pass.count)));
        for _ in 0..MAX_DISPUTES {
            let Some(dispute) = self.run.passes.dispute(id, who) else { break };
            if self.located >= MAX_LOCATED {
                let text = format!("slot {} differs again; it is not looked for any more", dispute.index);
                self.find(Severity::Fail, Test::Passes, text);
                break;
            }
            let judged = judge(device, &pass.key, (pass.precision, pass.n), dispute.index, &self.handle())?;
            let is_right = judged.wrong.is_none() && judged.read == digests[dispute.index as usize];
            if is_right {
                if !self.blame_others(pass, &dispute) {
                    break;
                }
                continue;
            }
            self.located += 1;
            self.run.passes.reject(id, who);
            let (wrong, number) = (digests, self.pass);
            digests = Arc::new(self.fill(device, pass, kernel)?.0);
            let finding = self.blame_this(kernel, &dispute, &judged, &wrong, &digests);
            self.find_more(TestFinding { pass: Some(number), ..finding });
            if digests[dispute.index as usize] != judged.truth {
                break;
            }
            self.run.passes.post(id, who, digests.clone());
        }
        Ok(digests)
    }

    /// Reports those whose pass is wrong and no longer in their memory; the others find it themselves, since they wait at
    /// this step. Whether any was reported.
    fn blame_others(&self, pass: &Pass, dispute: &Dispute) -> bool {
        let mut reported = false;
        for other in &dispute.others {
            let waits = other.device != self.id && self.group.is_at((self.round, other.step), other.device);
            if waits && other.step == self.step {
                continue;
            }
            if !self.run.passes.reject((self.round, pass.n), *other) {
                continue;
            }
            reported = true;
            let which = if other.device == self.id { "this device".to_owned() } else { format!("device {}", self.id) };
            let text = format!(
                "the pass with the device's kernel number {} of round {} is wrong from slot {} on: the processor \
                 confirms what {which} computed later. The wrong bytes were overwritten before anyone could compare",
                other.step + 1,
                self.round,
                dispute.index
            );
            let finding = TestFinding {
                round: Some(self.round),
                slots_that_differ: Some(dispute.differ),
                again: (other.device == self.id).then_some(RecheckResult::Right),
                ..TestFinding::new(Severity::Fail, Test::Passes, text)
            };
            self.run.find(other.device, finding);
        }
        reported
    }

    /// The finding of a slot of this device that differs from the processor's.
    fn blame_this(
        &self,
        kernel: &str,
        dispute: &Dispute,
        judged: &ComparedSlot,
        wrong: &[Digest],
        again: &[Digest],
    ) -> TestFinding {
        let slot = dispute.index as usize;
        let again_is = match again[slot] {
            right if right == judged.truth => RecheckResult::Right,
            same if same == wrong[slot] => RecheckResult::SameWrong,
            _ => RecheckResult::OtherWrong,
        };
        let against = against(dispute, self.who());
        let text = match &judged.wrong {
            Some(at) => {
                format!("{at}; {} slot(s) differ from {against}; {}", dispute.differ, again_is.sentence())
            }
            None => format!(
                "the digest of slot {slot} is wrong, and differs from {against}, though the bytes that were read are \
                 right: hashing or its copy to the host failed; {}",
                again_is.sentence()
            ),
        };
        TestFinding {
            kernel: Some(kernel.to_owned()),
            location: judged.wrong,
            // Against the second result, where that one is right.
            slots_that_differ: Some(match again_is {
                RecheckResult::Right => differences(wrong, again),
                _ => dispute.differ,
            }),
            again: Some(again_is),
            ..TestFinding::new(Severity::Fail, Test::Passes, text)
        }
    }

    fn products(
        &mut self,
        device: &mut dyn Device,
        pass: &Pass,
        kernel: &str,
        pass_per_s: f64,
    ) -> Result<(), DeviceError> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let products = (PRODUCTS_S * pass_per_s / pass_operations(pass.n, 3) as f64) as u32;
        let products = products.clamp(1, pass.count - 2);
        self.doing("timing products");
        match self.call(|| device.time_products(products)) {
            Ok(took) => {
                self.rate(Measure::Products, kernel, rate(pass_operations(pass.n, products + 2), took));
                Ok(())
            }
            Err(DeviceError::Unsupported(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The contradicting devices, for people.
fn against(dispute: &Dispute, own: ResultOrigin) -> String {
    let name = |who: &ResultOrigin| match who.device == own.device {
        true => format!("this device's pass {} of the round", who.step + 1),
        false => format!("device {}", &who.device.to_string()[..8]),
    };
    let mut names: Vec<_> = dispute.others.iter().take(3).map(name).collect();
    if dispute.others.len() > names.len() {
        names.push(format!("{} more", dispute.others.len() - names.len()));
    }
    names.dedup();
    names.join(", ")
}

const fn min(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}
