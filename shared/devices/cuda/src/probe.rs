//! A round of the residency probe: start states, walk, hash (WORK.md, Residency probe).

use super::driver::{DeviceMemory, Stream};
use super::flow::{Flow, LaunchPurpose};
use super::kernels::Kernels;
use super::memory::Peers;
use super::pass::POISON;
use super::plan::{MemoryLayout, STATE_BYTES};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, ProbeRound};

/// Steps of the first launch, while the rate is not known.
const FIRST_STEPS: u32 = 1;

/// A round over resident slots.
pub(super) struct ResidentRound<'a> {
    pub(super) round: &'a ProbeRound,
    pub(super) layout: &'a MemoryLayout,
    pub(super) kernels: &'a Kernels,
    pub(super) slots: &'a DeviceMemory,
    /// The memory for the round's digest.
    pub(super) scratch: &'a DeviceMemory,
    pub(super) states: &'a DeviceMemory,
    /// The slots of all devices, where the walks are over those.
    pub(super) peers: Option<&'a Peers>,
    /// Whether to overwrite the states first.
    pub(super) poison: bool,
}

impl ResidentRound<'_> {
    /// Walks the round; its digest is in the scratch memory then, the states stay. When it fails, no launch is pending,
    /// or the device is lost.
    pub(super) fn run(&self, flow: &mut Flow<'_>) -> Result<(), DeviceError> {
        match self.enqueue_all(flow).and_then(|()| flow.finish()) {
            Err(DeviceError::Cancelled) => flow.drain().and(Err(DeviceError::Cancelled)),
            other => other,
        }
    }

    fn enqueue_all(&self, flow: &mut Flow<'_>) -> Result<(), DeviceError> {
        flow.handle.check()?;
        let (key, bytes) = (self.round.key.as_bytes(), self.states_bytes());
        assert!(bytes <= self.states.bytes(), "states of this round");
        flow.compute(LaunchPurpose::Steps, None, |stream| {
            if self.poison {
                self.states.set(stream, 0, self.states.bytes(), POISON)?;
            }
            // SAFETY: the states are as large as asserted, and outlive the flow: it ends drained, or the context lost.
            unsafe { self.kernels.keystream(stream, key, 0, self.states.address(), bytes) }
        })?;
        self.walk(flow)?;
        let (layout, scratch) = (self.layout, self.scratch);
        let (partials, arrivals) = (layout.partials.address(scratch), layout.arrivals.address(scratch));
        let digest = layout.round_digest.address(scratch);
        flow.make_way(Workload { kind: self.kind(), units: 0 })?;
        flow.compute(LaunchPurpose::Steps, None, |stream| {
            // SAFETY: all of it lies in memory that outlives the flow, as above.
            unsafe { self.kernels.digest(stream, self.states.address(), bytes, partials, arrivals, digest) }
        })?;
        Ok(())
    }

    /// All steps of all walks, in as many launches as their time asks for.
    fn walk(&self, flow: &mut Flow<'_>) -> Result<(), DeviceError> {
        let walks = u64::from(self.round.walks);
        let kind = self.kind();
        assert!(self.layout.slots_bytes() <= self.slots.bytes(), "slots of this layout");
        let mut left = self.round.steps;
        while left > 0 {
            let units = walks * u64::from(flow.pieces(kind, left, walks, FIRST_STEPS));
            flow.make_way(Workload { kind, units })?;
            let cut = flow.pieces(kind, left, walks, FIRST_STEPS);
            let work = Workload { kind, units: walks * u64::from(cut) };
            let enqueue = |stream: &Stream| {
                let (slots, states) = (self.slots.address(), self.states.address());
                let shape = (self.layout.count, self.layout.slot_bytes());
                let walks = (self.round.walks, cut);
                match self.peers {
                    // SAFETY: states and mappings outlive the flow, as above; no device fills its slots before all have
                    // walked.
                    Some(peers) => unsafe { self.kernels.linked_probe(stream, peers, shape.1, walks, states) },
                    // SAFETY: slots and states outlive the flow, as above; the last pass filled the slots.
                    None => unsafe { self.kernels.probe(stream, slots, shape, walks, states) },
                }
            };
            flow.compute(LaunchPurpose::Steps, Some(work), enqueue)?;
            left -= cut;
        }
        Ok(())
    }

    const fn kind(&self) -> WorkKind {
        if self.peers.is_some() { WorkKind::LinkedProbe } else { WorkKind::Probe }
    }

    const fn states_bytes(&self) -> u64 {
        self.round.walks as u64 * STATE_BYTES
    }
}
