//! Openings of a real pass and a real probe, made once, and drawn anew for each device.

use std::cell::RefCell;
use std::error::Error;
use std::sync::Arc;

use assay_cpu::{CpuConfig, devices};
use assay_device::open::{AuditedPass, ProbedDevice, SamplePlan, SegmentPlan};
use assay_device::run::{ShareResult, ShareTask};
use assay_device::{Device, Handle};
use assay_judge::entropy::SeededEntropy;
use assay_judge::verify::check::{Collector, TrustedValues};
use assay_judge::verify::draw;
use assay_protocol::message::{MinerMessage, OpenItem, OpenTarget, OpeningsChunk, OpeningsPart};
use assay_protocol::wire::bounded::SessionMessage;
use assay_protocol::wire::v1::SessionRequest;
use assay_work::commitment::Evidence;
use assay_work::probe::probe_key;
use assay_work::{Answer, Challenge, DeviceId, Probe, ProbeSeed, Root, UncheckedChallenge, UncheckedProbe};
use prost::Message;
use prost::bytes::Bytes;

use crate::VerifyOptions;

/// The device's id.
const DEVICE: DeviceId = DeviceId([3; 16]);
/// Walks of the probe: their states take 4 MiB.
const WALKS: u32 = 65_536;

/// A device with its pass and its probe. A host's devices are this one, each with draws of its own.
pub struct AuditedDevice {
    device: RefCell<Box<dyn Device>>,
    binding: TrustedValues,
    result: ShareResult,
    samples: u32,
    segments: u32,
}

/// Openings of one device.
pub struct DeviceOpenings {
    binding: TrustedValues,
    items: Vec<OpenItem>,
    /// The parts in their order.
    chunks: Vec<OpeningsChunk>,
}

impl AuditedDevice {
    /// Does the work and walks the probe.
    pub fn new(n: u32, settings: &VerifyOptions) -> Result<Self, Box<dyn Error>> {
        let config = CpuConfig { devices: 1, memory_bytes: vec![8 << 30], ..CpuConfig::default() };
        let mut device: Box<dyn Device> = Box::new(devices(&config)?.remove(0));
        let challenge = challenge(n, settings.slots)?;
        let (task, handle) = (ShareTask::of(&challenge).remove(0), Handle::default());
        let result = task.run(device.as_mut(), &handle)?;
        let seed = ProbeSeed([6; 32]);
        let probe = UncheckedProbe { seed, walks: WALKS, steps: settings.steps, rounds: 1, link: 0 };
        let probe = Probe::try_from(probe)?;
        let digests = task.run_probe(device.as_mut(), &probe, &result.roots[0], &handle)?;
        let binding = TrustedValues {
            evidence: Arc::new(Evidence::assemble(&challenge, vec![result.roots.clone()])),
            answer: Arc::new(Answer::assemble(&challenge, probe, vec![digests])),
            challenge: Arc::new(challenge),
            probe,
            linked: None,
            sweep: None,
        };
        let (samples, segments) = (settings.samples, settings.segments);
        Ok(Self { device: RefCell::new(device), binding, result, samples, segments })
    }

    /// Draws for one device, and opens the draws.
    ///
    /// # Panics
    /// When the device opens nothing.
    pub fn opened(&self, number: usize) -> DeviceOpenings {
        let TrustedValues { challenge, probe, .. } = &self.binding;
        let (count, n) = (self.result.last_digests.len() as u32, challenge.n());
        let mut entropy = SeededEntropy::new(number as u64);
        let samples = draw::samples(n, count, self.samples, &mut entropy).expect("a seed never ends");
        let segments = draw::segments(probe, self.segments, &mut entropy).expect("a seed never ends");
        let items = vec![
            OpenItem { device_id: DEVICE, what: OpenTarget::Segments(segments.clone()) },
            OpenItem { device_id: DEVICE, what: OpenTarget::Samples { iteration: 0, samples: samples.clone() } },
        ];
        let mut parts = self.segments(&segments);
        parts.extend(self.samples(&samples));
        let chunk = |(item, part)| OpeningsChunk { challenge_id: challenge.id(), item, part };
        let chunks = parts.into_iter().map(chunk).collect();
        DeviceOpenings { binding: self.binding.clone(), items, chunks }
    }

    fn segments(&self, segments: &[assay_work::Segment]) -> Vec<(u32, OpeningsPart)> {
        let TrustedValues { challenge, probe, answer, .. } = &self.binding;
        let device = &mut **self.device.borrow_mut();
        let probed = ProbedDevice {
            challenge,
            probe,
            device_id: DEVICE,
            probe_key: &probe_key(probe, challenge.work_key(), DEVICE, &self.result.roots[0]),
            digests: &answer.devices[0].digests,
            slot_digests: &self.result.last_digests,
        };
        let plan = SegmentPlan::new(device, &probed, segments, &Handle::default()).expect("a plan");
        let digests = OpeningsPart::SlotDigests(self.result.last_digests.clone());
        let opened = (0..plan.len()).map(|at| OpeningsPart::Segment(plan.open(device, at).expect("lines")));
        std::iter::once(digests).chain(opened).chain([OpeningsPart::End]).map(|part| (0, part)).collect()
    }

    fn samples(&self, samples: &[assay_work::PassSample]) -> Vec<(u32, OpeningsPart)> {
        let device = &mut **self.device.borrow_mut();
        let pass = AuditedPass {
            challenge: &self.binding.challenge,
            device_id: DEVICE,
            iteration: 0,
            previous_root: Root::BEFORE_FIRST,
            root: self.result.roots[0],
            slot_digests: &self.result.last_digests,
        };
        let plan = SamplePlan::new(device, &pass, samples, &Handle::default()).expect("a plan");
        let digests = OpeningsPart::SlotDigests(self.result.last_digests.clone());
        let opened = (0..plan.len()).map(|at| OpeningsPart::Sample(plan.open(device, at).expect("rows")));
        std::iter::once(digests).chain(opened).chain([OpeningsPart::End]).map(|part| (1, part)).collect()
    }
}

impl DeviceOpenings {
    /// The collector before the first part, and the parts, in memory that was not read before.
    pub fn arriving(&self) -> (Collector, Vec<OpeningsChunk>) {
        (Collector::new(self.binding.clone(), self.items.clone()), self.chunks.clone())
    }

    /// Bytes that are hashed: ranges, states, and the siblings up to a digest.
    pub fn bytes(&self) -> u64 {
        let opened = |bytes: usize, siblings: usize| (bytes + 64 * siblings) as u64;
        let of_part = |chunk: &OpeningsChunk| match &chunk.part {
            OpeningsPart::Sample(sample) => {
                sample.openings.iter().map(|it| opened(it.bytes.len(), it.siblings.len())).sum()
            }
            OpeningsPart::Segment(segment) => {
                let lines = segment.lines.iter().map(|it| opened(it.bytes.len(), it.siblings.len()));
                lines.sum::<u64>() + opened(segment.state.bytes.len(), segment.state.siblings.len())
            }
            OpeningsPart::SlotDigests(digests) => 32 * digests.len() as u64,
            // The miners of this benchmark are asked for no sweep.
            OpeningsPart::Sum(_) | OpeningsPart::End => 0,
        };
        self.chunks.iter().map(of_part).sum()
    }

    /// The parts as they are sent.
    pub fn encoded(&self) -> Vec<Bytes> {
        let encoded = |chunk: &OpeningsChunk| {
            SessionRequest::from(MinerMessage::OpeningsChunk(chunk.clone())).encode_to_vec().into()
        };
        self.chunks.iter().map(encoded).collect()
    }
}

/// A message from its wire form.
pub fn decoded(bytes: Bytes) -> Result<MinerMessage, Box<dyn Error>> {
    let request = SessionRequest::from_wire(bytes)?;
    MinerMessage::try_from(request).map_err(|error| error.to_string().into())
}

fn challenge(n: u32, count: u32) -> Result<Challenge, Box<dyn Error>> {
    Ok(Challenge::try_from(UncheckedChallenge::unasked(n, 1, [(DEVICE, count)]))?)
}
