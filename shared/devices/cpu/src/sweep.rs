//! A round of the sweep on all threads of a device (WORK.md, Sweep).

use super::hash::SharedDigest;
use super::kernel::Kernel;
use super::row_sums::ROWS_AT_ONCE;
use super::thread_team::{EarlyExit, ThreadTeam};
use assay_device::{DeviceError, Handle, SweepRound};
use assay_work::Digest;
use assay_work::probe::{SUM_BYTES, sums_bytes, weights};

/// Bytes of the rows of one item, as far as each thread has some items: much less than a cancelled sweep may take.
const STRETCH_BYTES: usize = 1 << 20;
/// The fewest items for each thread that keep threads busy to the end.
const ITEMS_PER_THREAD: usize = 4;

/// A round over resident slots.
pub(super) struct SumRound<'a> {
    pub(super) round: &'a SweepRound,
    pub(super) kernel: &'static Kernel,
    pub(super) threads: usize,
    /// The first byte of slot 0; the slots are those of the round.
    pub(super) slots: *const u8,
    /// The first byte of the string of sums.
    pub(super) sums: *mut u8,
}

// SAFETY: the slots are only read, and which thread has which sums in which phase is decided by the queue.
unsafe impl Sync for SumRound<'_> {}

impl SumRound<'_> {
    /// Sums every row; the string of sums stays in `sums`.
    ///
    /// # Safety
    /// The slots are filled, `sums` has [`sums_bytes`] bytes, which nothing else uses, and the processor has the kernel's
    /// features.
    ///
    /// # Errors
    /// [`DeviceError::Cancelled`] and [`DeviceError::Sick`], as [`ThreadTeam::run`].
    pub(super) unsafe fn run(&self, handle: &Handle) -> Result<Digest, DeviceError> {
        let weights = weights(&self.round.key, self.round.n);
        let digest = SharedDigest::new(sums_bytes(self.round.n, self.round.count) as usize);
        ThreadTeam::run(self.threads, handle, |team, _| {
            self.sum(team, &weights)?;
            team.barrier()?;
            self.hash(team, &digest)
        })?;
        digest.take()
    }

    const fn rows(&self) -> usize {
        self.round.count as usize * self.round.n as usize
    }

    /// Sums all rows, a stretch of them an item.
    fn sum(&self, team: &ThreadTeam<'_>, weights: &[u8]) -> Result<(), EarlyExit> {
        let (n, rows) = (weights.len(), self.rows());
        let stretch =
            (STRETCH_BYTES / n).min(rows.div_ceil(ITEMS_PER_THREAD * self.threads)).next_multiple_of(ROWS_AT_ONCE);
        while let Some(item) = team.take(rows.div_ceil(stretch))? {
            let first = item * stretch;
            let count = stretch.min(rows - first);
            // SAFETY: the item's rows are filled, and its sums lie before the end of all; each item is taken once. The
            // processor has the features.
            unsafe {
                let rows = std::slice::from_raw_parts(self.slots.add(first * n), count * n);
                let sums =
                    std::slice::from_raw_parts_mut(self.sums.cast::<[u8; SUM_BYTES as usize]>().add(first), count);
                (self.kernel.sum_rows)(rows, weights, sums);
            }
        }
        Ok(())
    }

    /// Hashes the string of sums, a piece an item, each with zeros behind the sums.
    fn hash(&self, team: &ThreadTeam<'_>, digest: &SharedDigest) -> Result<(), EarlyExit> {
        let end = self.rows() * SUM_BYTES as usize;
        while let Some(item) = team.take(digest.items)? {
            let first = item * digest.piece;
            // SAFETY: the item's piece of the string; each item is taken once, and no thread sums in this phase.
            let piece = unsafe { std::slice::from_raw_parts_mut(self.sums.add(first), digest.piece) };
            piece[end.saturating_sub(first).min(digest.piece)..].fill(0);
            digest.put(item, piece);
        }
        Ok(())
    }
}
