//! Steps of probes: a round of the residency probe, from its start states to their hash, and one step of linked walks
//! (WORK.md, Residency probe and Linked probe).

use super::digest::DigestTree;
use super::flow::{Dispatch, Flow};
use super::kernels::{Kernels, Pipeline};
use super::memory::{Memory, SlotPiece};
use super::pass::{keystream, words_of};
use super::plan::{AdapterBounds, BufferLayout, STATE_BYTES};
use super::shaders::{self, PROBE_THREADS, ProbeShape, QUAD_LANES};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, LinkedShare, ProbeRound};

/// Walks of a dispatch: far below the most workgroups, with four lanes for each.
const MAX_WALKS: u64 = 1 << 18;

/// Walks over resident slots.
pub(super) struct ResidentWalks<'a> {
    /// The layout of the slots.
    pub(super) layout: BufferLayout,
    pub(super) bounds: &'a AdapterBounds,
    pub(super) kernels: &'a Kernels,
    pub(super) memory: &'a Memory,
}

/// The slots that walks are over: how many, and which of them is the device's first.
#[derive(Clone, Copy)]
struct WalkRange {
    total: u32,
    first_slot: u32,
}

/// Walks of one dispatch, and the states that they are in.
#[derive(Clone, Copy)]
struct DispatchWalks<'a> {
    states: SlotPiece<'a>,
    walks: u32,
}

impl<'a> ResidentWalks<'a> {
    /// Walks a round and leaves its digest in the scratch. Gives which of the two sets of states holds the last ones.
    /// When it fails, no submission is pending, or the device is lost.
    pub(super) fn round(&self, flow: &mut Flow<'a>, round: &ProbeRound) -> Result<usize, DeviceError> {
        let recorded = self.record_round(flow, round);
        flow.conclude(recorded)
    }

    fn record_round(&self, flow: &mut Flow<'a>, round: &ProbeRound) -> Result<usize, DeviceError> {
        let bytes = u64::from(round.walks) * STATE_BYTES;
        let states = self.memory.states(self.bounds, bytes);
        keystream(flow, self.kernels, states[0].iter().copied(), &words_of(round.key.as_bytes()), 0)?;
        let ground = WalkRange { total: self.layout.count, first_slot: 0 };
        let last = self.walk(flow, ground, &states.each_ref().map(|states| parts(states)), round.steps)?;
        let hashing = DigestTree { kernels: self.kernels, memory: self.memory, layout: self.layout };
        let digest = self.layout.round_digest.first;
        hashing.string(flow, states[last].iter().copied(), bytes, digest)?;
        Ok(last)
    }

    /// One step of `walks` linked walks, each of which names a line of this device. Gives the index of the set of
    /// stepped states that holds them then, of two.
    pub(super) fn step(&self, flow: &mut Flow<'a>, share: &LinkedShare, walks: usize) -> Result<usize, DeviceError> {
        let of_set = |buffers: &'a Vec<_>| {
            let mut left = walks as u64;
            let part = |buffer| {
                let states = SlotPiece::whole(buffer);
                let walks = left.min(states.bytes / STATE_BYTES);
                left -= walks;
                DispatchWalks { states, walks: walks as u32 }
            };
            buffers.iter().map(part).filter(|part| part.walks > 0).collect()
        };
        let ground = WalkRange { total: share.total, first_slot: share.offset };
        let last = self.walk(flow, ground, &self.memory.stepped().each_ref().map(of_set), 1)?;
        flow.finish()?;
        Ok(last)
    }

    /// All steps of all walks. Gives which states are the last.
    fn walk(
        &self,
        flow: &mut Flow<'a>,
        ground: WalkRange,
        parts: &[Vec<DispatchWalks<'a>>; 2],
        steps: u32,
    ) -> Result<usize, DeviceError> {
        let buffers = self.memory.slot_buffers(&self.layout).len() as u32;
        let shape = self.kernels.probe_shape(self.bounds, buffers);
        if shape.grouped {
            return self.walk_by_groups(flow, shape, ground, parts, steps);
        }
        let slots = self.bound(shape, 0);
        let walks = parts[0].iter().map(|part| u64::from(part.walks)).sum();
        let mut left = steps;
        while left > 0 {
            let steps = flow.pieces(WorkKind::Probe, left.into(), walks, 1).min(left.into()) as u32;
            for part in &parts[0] {
                let bindings: Vec<_> = [part.states].into_iter().chain(slots.iter().copied()).collect();
                self.dispatch(flow, (shape, ground), &bindings, part.walks, (steps, 0))?;
            }
            left -= steps;
        }
        Ok(0)
    }

    /// All steps of all walks, one at a time, and each for one group of slot buffers after the other. Gives which states
    /// are the last.
    fn walk_by_groups(
        &self,
        flow: &mut Flow<'a>,
        shape: ProbeShape,
        ground: WalkRange,
        parts: &[Vec<DispatchWalks<'a>>; 2],
        steps: u32,
    ) -> Result<usize, DeviceError> {
        let buffers = self.memory.slot_buffers(&self.layout).len() as u32;
        let mut from = 0;
        for _ in 0..steps {
            for first in (0..buffers).step_by(shape.buffers as usize) {
                let slots = self.bound(shape, first);
                for (part, next) in parts[from].iter().zip(&parts[1 - from]) {
                    let bindings: Vec<_> =
                        [part.states, next.states].into_iter().chain(slots.iter().copied()).collect();
                    self.dispatch(flow, (shape, ground), &bindings, part.walks, (1, first))?;
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
        (shape, ground): (ProbeShape, WalkRange),
        bindings: &[SlotPiece<'a>],
        walks: u32,
        (steps, first_buffer): (u32, u32),
    ) -> Result<(), DeviceError> {
        let pipeline: &'a Pipeline = self.kernels.probe(shape);
        let parameters = shaders::ProbeParams {
            total: ground.total,
            first_slot: ground.first_slot,
            lines_log2: (self.layout.slot_bytes() / STATE_BYTES).ilog2(),
            piece_lines_log2: (self.layout.piece_bytes / STATE_BYTES).ilog2(),
            pieces_per_buffer: self.layout.pieces_per_buffer as u32,
            walks,
            steps,
            first_buffer,
        };
        let lanes = walks * if shape.quads { QUAD_LANES } else { 1 };
        flow.dispatch(&Dispatch {
            pipeline,
            words: &parameters.words(),
            bindings,
            workgroups: lanes.div_ceil(PROBE_THREADS),
            work: Workload { kind: WorkKind::Probe, units: u64::from(walks) * u64::from(steps) },
        })
    }
}

/// All walks of states that fill their buffers, in parts that one dispatch takes.
fn parts<'a>(states: &[SlotPiece<'a>]) -> Vec<DispatchWalks<'a>> {
    let of_piece = |piece: &SlotPiece<'a>| {
        let (piece, bytes) = (*piece, piece.bytes.min(MAX_WALKS * STATE_BYTES));
        (0..piece.bytes / bytes).map(move |part| DispatchWalks {
            states: SlotPiece { first: piece.first + part * bytes, bytes, ..piece },
            walks: (bytes / STATE_BYTES) as u32,
        })
    };
    states.iter().flat_map(of_piece).collect()
}
