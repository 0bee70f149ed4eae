//! A round of the sweep: weights, sums, their hash (WORK.md, Sweep).

use std::iter::once;
use std::ops::Range;

use super::digest::DigestTree;
use super::flow::{Dispatch, Flow};
use super::memory::SlotPiece;
use super::pass::{keystream, words_of};
use super::plan::{HASH_BYTES, MAX_WORKGROUPS, Region};
use super::probe::ResidentWalks;
use super::shaders::{SWEEP_ROWS, SweepParams};
use assay_device::pace::{WorkKind, Workload};
use assay_device::{DeviceError, SweepRound};
use assay_work::probe::SUM_BYTES;

/// Bytes of rows of the first dispatch, while the rate is not known.
const FIRST_BYTES: u64 = 1 << 20;
/// Bytes of a vector of a shader.
const VECTOR_BYTES: u64 = 16;

impl<'a> ResidentWalks<'a> {
    /// Sums all rows and leaves the round's digest in the scratch; the sums stay where states are. When it fails, no
    /// submission is pending, or the device is lost.
    pub(super) fn sweep(&self, flow: &mut Flow<'a>, round: &SweepRound) -> Result<(), DeviceError> {
        let recorded = self.record_sweep(flow, round);
        flow.conclude(recorded)
    }

    fn record_sweep(&self, flow: &mut Flow<'a>, round: &SweepRound) -> Result<(), DeviceError> {
        let layout = self.layout;
        let (row_bytes, bytes) = (u64::from(layout.n), layout.sums_bytes());
        keystream(flow, self.kernels, once(self.weights()), &words_of(round.key.as_bytes()), 0)?;
        let [sums, _] = self.memory.states(self.bounds, bytes);
        let rows = row_bytes * u64::from(layout.count);
        let slots = self.memory.slot_buffers(&layout);
        for (first, buffer) in (0..rows).step_by(layout.buffer_rows() as usize).zip(slots) {
            let here = first..rows.min(first + layout.buffer_rows());
            self.sum_rows(flow, &sums, SlotPiece::whole(buffer), row_bytes / VECTOR_BYTES, here)?;
        }
        // The zeros behind the sums are those of rows of nothing.
        self.sum_rows(flow, &sums, SlotPiece::whole(&slots[0]), 0, rows..bytes / SUM_BYTES)?;
        let hashing = DigestTree { kernels: self.kernels, memory: self.memory, layout };
        hashing.string(flow, sums.into_iter(), bytes, layout.round_digest.first)
    }

    /// The weights, where the chaining values of the sums come after them.
    fn weights(&self) -> SlotPiece<'a> {
        let Region { first, .. } = self.layout.values;
        self.memory.values(&self.layout, Region { first, values: u64::from(self.layout.n) / HASH_BYTES })
    }

    /// Records the sums of rows that are all of a buffer of slots: a multiple of a workgroup's, in as many dispatches as
    /// their time and the buffers of sums ask for.
    fn sum_rows(
        &self,
        flow: &mut Flow<'a>,
        sums: &[SlotPiece<'a>],
        slots: SlotPiece<'a>,
        row_vectors: u64,
        rows: Range<u64>,
    ) -> Result<(), DeviceError> {
        let group_rows = u64::from(SWEEP_ROWS);
        // Rows of nothing are written all the same.
        let group_bytes = group_rows * (row_vectors * VECTOR_BYTES).max(SUM_BYTES);
        let buffer_sums = sums[0].bytes / SUM_BYTES;
        let mut row = rows.start;
        while row < rows.end {
            let (buffer, first_sum) = (row / buffer_sums, row % buffer_sums);
            let left = (rows.end - row).min(buffer_sums - first_sum) / group_rows;
            let groups = flow.pieces(WorkKind::Sweep, left, group_bytes, (FIRST_BYTES / group_bytes).max(1));
            let groups = groups.min(left).min(MAX_WORKGROUPS.into());
            let first_row = if row_vectors == 0 { 0 } else { (row - rows.start) as u32 };
            let parameters = SweepParams { row_vectors: row_vectors as u32, first_row, first_sum: first_sum as u32 };
            flow.dispatch(&Dispatch {
                pipeline: self.kernels.sweep(),
                words: &parameters.words(),
                bindings: &[slots, self.weights(), sums[buffer as usize]],
                workgroups: groups as u32,
                work: Workload { kind: WorkKind::Sweep, units: groups * group_bytes },
            })?;
            row += groups * group_rows;
        }
        Ok(())
    }
}
