//! A round of the residency probe on all threads of a device, and single steps of a linked one (WORK.md, Residency probe,
//! Linked probe).

use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::hash::SharedDigest;
use super::kernel::Kernel;
use super::thread_team::{EarlyExit, ThreadTeam};
use super::walk::{BATCH, LINE_BYTES, LineState, WalkBatch};
use assay_device::{DeviceError, Handle, LinkedShare, ProbeRound, StateBytes};
use assay_work::Digest;
use assay_work::probe::{state_bytes, state_from_bytes};

/// A round over resident slots.
pub(super) struct WalkRound<'a> {
    pub(super) round: &'a ProbeRound,
    pub(super) kernel: &'static Kernel,
    pub(super) threads: usize,
    /// The first byte of slot 0.
    pub(super) slots: *const u8,
    pub(super) count: u32,
    pub(super) slot_bytes: u64,
    /// The first state, aligned to 64; `walks` of them.
    pub(super) states: *mut LineState,
}

// SAFETY: the slots are only read, and which thread has which states in which phase is decided by the queue.
unsafe impl Sync for WalkRound<'_> {}

impl WalkRound<'_> {
    /// Walks the round; the states after it stay in `states`.
    ///
    /// # Safety
    /// The memory behind the pointers is as large as the fields say, the slots are filled, nothing else uses the
    /// states.
    ///
    /// # Errors
    /// [`DeviceError::Cancelled`] and [`DeviceError::Sick`], as [`ThreadTeam::run`].
    pub(super) unsafe fn run(&self, handle: &Handle) -> Result<Digest, DeviceError> {
        let digest = SharedDigest::new(self.round.walks as usize * LINE_BYTES);
        ThreadTeam::run(self.threads, handle, |team, _| {
            self.start(team, digest.items, digest.piece)?;
            team.barrier()?;
            self.walk(team)?;
            team.barrier()?;
            let piece = digest.piece;
            while let Some(item) = team.take(digest.items)? {
                // SAFETY: the item's states, which no thread writes in this phase.
                let part = unsafe { std::slice::from_raw_parts(self.states.cast::<u8>().add(item * piece), piece) };
                digest.put(item, part);
            }
            Ok(())
        })?;
        digest.take()
    }

    /// Starts the states: the keystream of the round's key.
    fn start(&self, team: &ThreadTeam<'_>, items: usize, piece: usize) -> Result<(), EarlyExit> {
        while let Some(item) = team.take(items)? {
            let start = item * piece;
            let mut stream = ChaCha8Rng::from_seed(*self.round.key.as_bytes());
            // A word is 4 bytes.
            stream.set_word_pos((start / 4) as u128);
            // SAFETY: the item's states; each item is taken once.
            let states = unsafe { std::slice::from_raw_parts_mut(self.states.cast::<u8>().add(start), piece) };
            stream.fill_bytes(states);
            #[cfg(target_endian = "big")]
            compile_error!("states are kept in memory as the little-endian words that they are hashed as");
        }
        Ok(())
    }

    /// Moves every walk all its steps, a batch an item.
    fn walk(&self, team: &ThreadTeam<'_>) -> Result<(), EarlyExit> {
        let walks = self.round.walks as usize;
        let batch = BATCH.min(walks / self.threads.next_power_of_two()).max(4);
        while let Some(item) = team.take(walks / batch)? {
            let batch = WalkBatch {
                slots: self.slots,
                count: self.count,
                slot_bytes: self.slot_bytes,
                states: self.states.wrapping_add(item * batch),
                walks: batch,
                steps: self.round.steps,
            };
            // SAFETY: the item's states, each item taken once; the slots are filled; the processor has the features.
            unsafe { (self.kernel.walk)(&batch) };
        }
        Ok(())
    }
}

/// One step of walks of a linked probe, over lines of this device.
pub(super) struct LinkedStep<'a> {
    /// Where the device's slots are among those of all devices.
    pub(super) share: &'a LinkedShare,
    pub(super) kernel: &'static Kernel,
    pub(super) threads: usize,
    /// The first byte of the device's first slot.
    pub(super) slots: *const u8,
}

// SAFETY: the slots are only read.
unsafe impl Sync for LinkedStep<'_> {}

/// States of a batch, aligned as the kernels want them.
#[repr(align(64))]
struct BatchStates([LineState; BATCH]);

impl LinkedStep<'_> {
    /// Moves every state on by one step.
    ///
    /// # Safety
    /// The share's slots are filled, from `slots` on.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for the line of another device, [`DeviceError::Sick`] as [`ThreadTeam::run`].
    pub(super) unsafe fn run(&self, states: &mut [StateBytes]) -> Result<(), DeviceError> {
        let batches: Vec<_> = states.chunks_mut(BATCH).map(Mutex::new).collect();
        let refused = Mutex::new(None);
        // Few enough states that cancelling can wait for them.
        let done = ThreadTeam::run(self.threads.min(batches.len()).max(1), &Handle::default(), |team, _| {
            while let Some(item) = team.take(batches.len())? {
                // SAFETY: the caller's promise.
                if let Err(error) = unsafe { self.step(&mut batches[item].lock()) } {
                    *refused.lock() = Some(error);
                    return Err(EarlyExit);
                }
            }
            Ok(())
        });
        refused.into_inner().map_or(done, Err)
    }

    /// The same for one batch.
    ///
    /// # Safety
    /// As [`LinkedStep::run`].
    unsafe fn step(&self, states: &mut [StateBytes]) -> Result<(), DeviceError> {
        let mut batch = BatchStates([[0; 16]; BATCH]);
        for (state, bytes) in batch.0.iter_mut().zip(&*states) {
            *state = state_from_bytes(bytes);
            self.share.line_of(state)?;
        }
        // The kernels take whole groups of 4: the last one is filled up with walks whose lines are here as well.
        let walks = states.len().next_multiple_of(4);
        let first = batch.0[0];
        batch.0[states.len()..walks].fill(first);
        let slot_bytes = u64::from(self.share.n) * u64::from(self.share.n);
        let walk = WalkBatch {
            slots: self.slots.wrapping_sub((u64::from(self.share.offset) * slot_bytes) as usize),
            count: self.share.total,
            slot_bytes,
            states: batch.0.as_mut_ptr(),
            walks,
            steps: 1,
        };
        // SAFETY: `line_of` found every line of the step in the share, whose slots are filled; the states are this
        // batch's alone; the processor has the features.
        unsafe { (self.kernel.walk)(&walk) };
        for (bytes, state) in states.iter_mut().zip(&batch.0) {
            *bytes = state_bytes(state);
        }
        Ok(())
    }
}
