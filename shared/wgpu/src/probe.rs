//! A round of the residency probe: start states, walk, hash (WORK.md, Residency probe).

use super::digest::Hashing;
use super::flow::{Dispatch, Flow};
use super::kernels::{Kernels, Pipeline};
use super::memory::{Memory, SlotPiece};
use super::pass::{keystream, words_of};
use super::plan::{Bounds, Layout, STATE_BYTES};
use super::shaders::{self, PROBE_THREADS, ProbeShape, QUAD_LANES};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, ProbeRound};

/// Walks of a dispatch: far below the most workgroups, with four lanes for each.
const MAX_WALKS: u64 = 1 << 18;

/// A round over resident slots.
pub(super) struct Walking<'a> {
    /// What to walk.
    pub(super) round: ProbeRound,
    /// Where the slots lie.
    pub(super) layout: Layout,
    /// What the adapter allows.
    pub(super) bounds: &'a Bounds,
    /// With what.
    pub(super) kernels: &'a Kernels,
    /// Slots, states, scratch.
    pub(super) memory: &'a Memory,
}

impl<'a> Walking<'a> {
    /// Walks the round and leaves its digest in the scratch. Gives which of the two sets of states holds the last ones.
    /// When it fails, no submission is pending, or the device is lost.
    pub(super) fn run(&self, flow: &mut Flow<'a>) -> Result<usize, DeviceError> {
        match self.record_all(flow).and_then(|last| flow.finish().and(Ok(last))) {
            Err(DeviceError::Cancelled) => flow.abandon().and(Err(DeviceError::Cancelled)),
            other => other,
        }
    }

    fn record_all(&self, flow: &mut Flow<'a>) -> Result<usize, DeviceError> {
        let bytes = u64::from(self.round.walks) * STATE_BYTES;
        let states = self.memory.states(self.bounds, bytes);
        keystream(flow, self.kernels, states[0].iter().copied(), &words_of(self.round.key.as_bytes()), 0)?;
        let buffers = self.memory.slot_buffers(&self.layout).len() as u32;
        let shape = self.kernels.probe_shape(self.bounds, buffers);
        let last = if shape.grouped {
            self.walk_by_groups(flow, shape, buffers, &states)?
        } else {
            self.walk(flow, shape, &states[0])?;
            0
        };
        let hashing = Hashing { kernels: self.kernels, memory: self.memory, layout: self.layout };
        let digest = self.layout.round_digest.first;
        hashing.string(flow, states[last].iter().copied(), bytes, digest)?;
        Ok(last)
    }

    /// All steps of all walks, where every slot is bound.
    fn walk(&self, flow: &mut Flow<'a>, shape: ProbeShape, states: &[SlotPiece<'a>]) -> Result<(), DeviceError> {
        let slots = self.bound(shape, 0);
        let mut left = self.round.steps;
        while left > 0 {
            let steps = flow.pieces(WorkKind::Probe, left.into(), self.round.walks.into(), 1).min(left.into()) as u32;
            for part in parts(states) {
                let bindings: Vec<_> = [part].into_iter().chain(slots.iter().copied()).collect();
                self.dispatch(flow, shape, &bindings, (steps, 0))?;
            }
            left -= steps;
        }
        Ok(())
    }

    /// All steps of all walks, one at a time, and each for one group of slot buffers after the other. Gives which states
    /// are the last.
    fn walk_by_groups(
        &self,
        flow: &mut Flow<'a>,
        shape: ProbeShape,
        buffers: u32,
        states: &[Vec<SlotPiece<'a>>; 2],
    ) -> Result<usize, DeviceError> {
        let mut from = 0;
        for _ in 0..self.round.steps {
            for first in (0..buffers).step_by(shape.buffers as usize) {
                let slots = self.bound(shape, first);
                for (part, next) in parts(&states[from]).zip(parts(&states[1 - from])) {
                    let bindings: Vec<_> = [part, next].into_iter().chain(slots.iter().copied()).collect();
                    self.dispatch(flow, shape, &bindings, (1, first))?;
                }
            }
            from = 1 - from;
        }
        Ok(from)
    }

    /// As many slot buffers as the shape binds, from the first on; the last one fills unused bindings.
    fn bound(&self, shape: ProbeShape, first: u32) -> Vec<SlotPiece<'a>> {
        let buffers = self.memory.slot_buffers(&self.layout);
        let last = buffers.len() - 1;
        let bound = (first as usize..).take(shape.buffers as usize);
        bound.map(|number| SlotPiece::whole(&buffers[number.min(last)])).collect()
    }

    fn dispatch(
        &self,
        flow: &mut Flow<'a>,
        shape: ProbeShape,
        bindings: &[SlotPiece<'a>],
        (steps, first_buffer): (u32, u32),
    ) -> Result<(), DeviceError> {
        let pipeline: &'a Pipeline = self.kernels.probe(shape);
        let walks = bindings[0].bytes / STATE_BYTES;
        let parameters = shaders::ProbeParams {
            count: self.layout.count,
            lines_log2: (self.layout.slot_bytes() / STATE_BYTES).ilog2(),
            piece_lines_log2: (self.layout.piece_bytes / STATE_BYTES).ilog2(),
            pieces_per_buffer: self.layout.pieces_per_buffer as u32,
            walks: walks as u32,
            steps,
            first_buffer,
        };
        let lanes = walks * if shape.quads { QUAD_LANES.into() } else { 1 };
        flow.dispatch(&Dispatch {
            pipeline,
            words: &parameters.words(),
            bindings,
            workgroups: lanes.div_ceil(PROBE_THREADS.into()) as u32,
            work: Workload { kind: WorkKind::Probe, units: walks * u64::from(steps) },
        })
    }
}

/// States in parts that one dispatch takes.
fn parts<'p, 'a: 'p>(states: &'p [SlotPiece<'a>]) -> impl Iterator<Item = SlotPiece<'a>> + use<'p, 'a> {
    states.iter().flat_map(|piece| {
        let bytes = piece.bytes.min(MAX_WALKS * STATE_BYTES);
        (0..piece.bytes / bytes).map(move |part| SlotPiece { first: piece.first + part * bytes, bytes, ..*piece })
    })
}
