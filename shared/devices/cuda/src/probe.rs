//! A round of a probe: start states, walk, hash (WORK.md, Residency probe); or of the sweep: weights, sums, hash (WORK.md,
//! Sweep).

use super::driver::{DeviceMemory, Stream};
use super::error::Fault;
use super::flow::{Flow, LaunchPurpose};
use super::kernels::Kernels;
use super::memory::Peers;
use super::pass::POISON;
use super::plan::{MemoryLayout, STATE_BYTES};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, ProbeRound, SweepRound};
use assay_work::probe::{SUM_BYTES, sums_bytes};

/// Steps, or slots, of the first launch, while the rate is not known.
const FIRST_PIECES: u32 = 1;

/// The work of a round.
#[derive(Clone, Copy)]
pub(super) enum RoundWork<'a> {
    Walks(&'a ProbeRound),
    /// Walks over the slots of all devices.
    LinkedWalks(&'a ProbeRound),
    Sums(&'a SweepRound),
}

impl RoundWork<'_> {
    /// Bytes of the states, or of the sums with the zeros behind them.
    pub(super) const fn bytes(&self) -> u64 {
        match self {
            Self::Walks(round) | Self::LinkedWalks(round) => round.walks as u64 * STATE_BYTES,
            Self::Sums(round) => sums_bytes(round.n, round.count),
        }
    }

    const fn key(&self) -> &[u8; 32] {
        match self {
            Self::Walks(round) | Self::LinkedWalks(round) => round.key.as_bytes(),
            Self::Sums(round) => round.key.as_bytes(),
        }
    }

    const fn kind(&self) -> (WorkKind, LaunchPurpose) {
        match self {
            Self::Walks(_) => (WorkKind::Probe, LaunchPurpose::Steps),
            Self::LinkedWalks(_) => (WorkKind::LinkedProbe, LaunchPurpose::Steps),
            Self::Sums(_) => (WorkKind::Sweep, LaunchPurpose::Sums),
        }
    }
}

/// A round over resident slots.
pub(super) struct ResidentRound<'a> {
    pub(super) work: RoundWork<'a>,
    pub(super) layout: &'a MemoryLayout,
    pub(super) kernels: &'a Kernels,
    pub(super) slots: &'a DeviceMemory,
    /// The memory for the round's digest, and for weights.
    pub(super) scratch: &'a DeviceMemory,
    /// The memory of states, or of sums.
    pub(super) states: &'a DeviceMemory,
    /// The slots of all devices, where the walks are over those.
    pub(super) peers: Option<&'a Peers>,
    /// Whether to overwrite the states first.
    pub(super) poison: bool,
}

impl ResidentRound<'_> {
    /// Walks or sums; the round's digest is in the scratch memory then, the states or sums stay. When it fails, no launch
    /// is pending, or the device is lost.
    pub(super) fn run(&self, flow: &mut Flow<'_>) -> Result<(), DeviceError> {
        match self.enqueue_all(flow).and_then(|()| flow.finish()) {
            Err(error) if !flow.is_lost() => flow.drain().and(Err(error)),
            other => other,
        }
    }

    fn enqueue_all(&self, flow: &mut Flow<'_>) -> Result<(), DeviceError> {
        flow.handle.check()?;
        let (bytes, (kind, purpose)) = (self.work.bytes(), self.work.kind());
        assert!(bytes <= self.states.bytes(), "states of this round");
        assert!(self.layout.slots_bytes() <= self.slots.bytes(), "slots of this layout");
        flow.compute(purpose, None, |stream| self.start(stream, bytes))?;
        self.launch_all(flow)?;
        let (layout, scratch) = (self.layout, self.scratch);
        let (partials, arrivals) = (layout.partials.address(scratch), layout.arrivals.address(scratch));
        let digest = layout.round_digest.address(scratch);
        flow.make_way(Workload { kind, units: 0 })?;
        flow.compute(purpose, None, |stream| {
            // SAFETY: all of it lies in memory that outlives the flow: it ends drained, or the context lost.
            unsafe { self.kernels.digest(stream, self.states.address(), bytes, partials, arrivals, digest) }
        })?;
        Ok(())
    }

    /// Enqueues start states, or weights and the zeros behind the sums.
    fn start(&self, stream: &Stream, bytes: u64) -> Result<(), Fault> {
        if self.poison {
            self.states.set(stream, 0, self.states.bytes(), POISON)?;
        }
        let (to, bytes) = match self.work {
            RoundWork::Sums(SweepRound { n, count, .. }) => {
                let summed_bytes = u64::from(*n) * u64::from(*count) * SUM_BYTES;
                if summed_bytes < bytes {
                    self.states.set(stream, summed_bytes, bytes - summed_bytes, 0)?;
                }
                (self.layout.values.address(self.scratch), (*n).into())
            }
            _ => (self.states.address(), bytes),
        };
        // SAFETY: states are as large as asserted, weights shorter than chaining values; both outlive the flow, as above.
        unsafe { self.kernels.keystream(stream, self.work.key(), 0, to, bytes) }
    }

    /// All steps of all walks, or the sums of all slots, in as many launches as their time asks for.
    fn launch_all(&self, flow: &mut Flow<'_>) -> Result<(), DeviceError> {
        let (kind, purpose) = self.work.kind();
        let (pieces, piece_units) = match self.work {
            RoundWork::Walks(round) | RoundWork::LinkedWalks(round) => (round.steps, round.walks.into()),
            RoundWork::Sums(_) => (self.layout.count, self.layout.slot_bytes()),
        };
        let mut done = 0;
        while done < pieces {
            let left = pieces - done;
            let units = piece_units * u64::from(flow.pieces(kind, left, piece_units, FIRST_PIECES));
            flow.make_way(Workload { kind, units })?;
            let cut = flow.pieces(kind, left, piece_units, FIRST_PIECES);
            let work = Workload { kind, units: piece_units * u64::from(cut) };
            flow.compute(purpose, Some(work), |stream| self.enqueue(stream, done, cut))?;
            done += cut;
        }
        Ok(())
    }

    /// Enqueues `cut` steps of all walks, or the sums of as many slots from slot `first` on.
    fn enqueue(&self, stream: &Stream, first: u32, cut: u32) -> Result<(), Fault> {
        let (slots, states) = (self.slots.address(), self.states.address());
        let MemoryLayout { n, count, .. } = *self.layout;
        match (self.work, self.peers) {
            (RoundWork::Sums(_), _) => {
                let weights = self.layout.values.address(self.scratch);
                let (slots, rows) =
                    (slots + u64::from(first) * self.layout.slot_bytes(), u64::from(first) * u64::from(n));
                // SAFETY: slots, weights and sums outlive the flow, as above; the last pass filled the slots.
                unsafe { self.kernels.sweep(stream, slots, weights, (n, cut), states + rows * SUM_BYTES) }
            }
            (RoundWork::Walks(round) | RoundWork::LinkedWalks(round), Some(peers)) => {
                let walks = (round.walks, cut);
                // SAFETY: states and mappings outlive the flow, as above; no device fills its slots before all have walked.
                unsafe { self.kernels.linked_probe(stream, peers, self.layout.slot_bytes(), walks, states) }
            }
            (RoundWork::Walks(round) | RoundWork::LinkedWalks(round), None) => {
                let (shape, walks) = ((count, self.layout.slot_bytes()), (round.walks, cut));
                // SAFETY: slots and states outlive the flow, as above; the last pass filled the slots.
                unsafe { self.kernels.probe(stream, slots, shape, walks, states) }
            }
        }
    }
}
