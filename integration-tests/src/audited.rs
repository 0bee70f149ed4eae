//! One device's pass, done with or without a lie, and the validator's own check of samples that a test chooses.

use assay_work::rule::product_rows;
use std::sync::Arc;

use assay_device::open::{AuditedPass, SamplePlan};
use assay_device::run::ShareTask;
use assay_device::{Device, Handle};
use assay_judge::verify::check::{Collector, TrustedValues};
use assay_protocol::message::{OpenItem, OpenTarget, OpeningsChunk, OpeningsPart};
use assay_protocol::verdict::Reason;
use assay_work::commitment::Evidence;
use assay_work::keys::parents;
use assay_work::opening::PassSample;
use assay_work::rule::SlotRule;
use assay_work::{
    Answer, Challenge, DeviceId, Digest, Precision, Probe, ProbeSeed, Root, UncheckedChallenge, UncheckedProbe,
};

use crate::dishonest::{LyingDevice, SLOT_BYTES, SharedLies, WorkLie};

const N: u32 = 256;
const DEVICE: DeviceId = DeviceId([3; 16]);

/// A device with its pass, and all that binds it.
pub struct Audited {
    device: LyingDevice,
    task: ShareTask,
    digests: Vec<Digest>,
    binding: TrustedValues,
}

impl Audited {
    /// A pass of `count` slots of n = 256, the same for the same count.
    #[must_use]
    pub fn new(count: u32, lie: Option<WorkLie>) -> Self {
        let lies = SharedLies::default();
        if let Some(lie) = lie {
            lies.in_work(lie);
        }
        let mut device = LyingDevice::new(DEVICE, u64::from(count) * SLOT_BYTES, lies);
        let challenge = challenge(count);
        let task = ShareTask::of(&challenge).remove(0);
        let worked = task.run_pass(&mut device, 0, &Root::BEFORE_FIRST, &Handle::default());
        let (root, digests) = worked.expect("the device computes");
        let probe = UncheckedProbe { seed: ProbeSeed([6; 32]), walks: 64, steps: 1, rounds: 1, link: 0 };
        let probe = Probe::try_from(probe).expect("a probe within its bounds");
        let binding = TrustedValues {
            evidence: Arc::new(Evidence::assemble(&challenge, vec![vec![root]])),
            answer: Arc::new(Answer::assemble(&challenge, probe, vec![vec![Digest([0; 32])]])),
            challenge: Arc::new(challenge),
            probe,
            linked: None,
            sweep: None,
        };
        Self { device, task, digests, binding }
    }

    /// How many slots there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.task.share.count
    }

    /// The earlier and the previous slot of a product.
    #[must_use]
    pub fn parents(&self, u: u32) -> (u32, u32) {
        parents(&self.task.pass(0, &Root::BEFORE_FIRST).key, u)
    }

    /// Opens samples as the miner does and checks them as the validator does.
    pub fn check(&mut self, samples: Vec<PassSample>) -> Result<(), Reason> {
        let challenge = self.binding.challenge.clone();
        let pass = AuditedPass {
            challenge: &challenge,
            device_id: DEVICE,
            iteration: 0,
            previous_root: Root::BEFORE_FIRST,
            root: self.binding.evidence.devices[0].roots[0],
            slot_digests: &self.digests,
        };
        let plan = SamplePlan::new(&mut self.device, &pass, &samples, &Handle::default()).expect("a plan");
        let opened = (0..plan.len()).map(|i| OpeningsPart::Sample(plan.open(&mut self.device, i).expect("rows")));
        let digests = OpeningsPart::SlotDigests(self.digests.clone());
        let parts = std::iter::once(digests).chain(opened).chain([OpeningsPart::End]).collect::<Vec<_>>();
        let item = OpenItem { device_id: DEVICE, what: OpenTarget::Samples { iteration: 0, samples } };
        let mut collector = Collector::new(self.binding.clone(), vec![item]);
        for part in parts {
            let chunk = OpeningsChunk { challenge_id: challenge.id(), item: 0, part };
            if let Some(job) = collector.take(Arc::new(chunk))? {
                job.run()?;
            }
        }
        assert!(collector.is_complete(), "the last part ends the item");
        Ok(())
    }

    /// The probability that a sample touches a wrong element: the sampled one, or a factor that is a product's.
    #[must_use]
    pub fn touched(&mut self) -> f64 {
        let right: Vec<_> =
            (0..self.count()).map(|u| 1.0 - self.wrong_elements(u).len() as f64 / SLOT_BYTES as f64).collect();
        let seen = |u: u32| {
            let (earlier, previous) = self.parents(u);
            1.0 - right[u as usize] * right[earlier as usize] * right[previous as usize]
        };
        (2..self.count()).map(seen).sum::<f64>() / f64::from(self.count() - 2)
    }

    /// Row and column of one element that differs from its formula.
    #[must_use]
    pub fn wrong_element(&mut self, u: u32) -> (u32, u32) {
        let at = self.wrong_elements(u)[0];
        (at / N, at % N)
    }

    /// The elements of a slot that do not follow from the device's slots; leaves count as right.
    fn wrong_elements(&mut self, u: u32) -> Vec<u32> {
        if u < 2 {
            return Vec::new();
        }
        let (earlier, previous) = self.parents(u);
        let [held, earlier, previous] = [u, earlier, previous].map(|slot| self.slot(slot));
        let mut right = vec![0; held.len()];
        let rule = SlotRule::new(Precision::Int8, &self.task.pass(0, &Root::BEFORE_FIRST).key, N, u);
        product_rows(&rule, (&earlier, &previous), 0, &mut right);
        (0..N * N).filter(|&at| held[at as usize] != right[at as usize]).collect()
    }

    fn slot(&mut self, slot: u32) -> Vec<u8> {
        let mut bytes = vec![0; SLOT_BYTES as usize];
        self.device.read(slot, 0, &mut bytes).expect("the slot is resident");
        bytes
    }
}

fn challenge(count: u32) -> Challenge {
    Challenge::try_from(UncheckedChallenge::unasked(N, 1, [(DEVICE, count)])).expect("a valid challenge")
}
