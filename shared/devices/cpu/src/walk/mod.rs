//! Walks of the residency probe (WORK.md, Residency probe): many at once, so that memory is never idle.
//!
//! A step needs one line at an address that the state before it gives: alone, a walk waits for memory at
//! every step. A batch takes each of its walks one step further in turn and asks for the next line at
//! once; that line arrives while the others move.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::avx2;
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::avx512;

/// The state of one walk: as large as a line.
pub(super) type LineState = [u32; 16];

pub(super) use assay_work::probe::LINE_BYTES;
/// The most walks of a batch: enough lines in flight, and their states and lines still fit the first-level cache.
pub(super) const BATCH: usize = 128;

const FIRST_FACTOR: u32 = 0x9E37_79B1;
const SECOND_FACTOR: u32 = 0x85EB_CA6B;

/// Walks to move together.
pub(super) struct WalkBatch {
    /// The first byte of slot 0; slots follow one another. Where only some of them are in memory, as for one step of a
    /// linked probe, it is where slot 0 would be.
    pub(super) slots: *const u8,
    /// How many slots there are to walk over.
    pub(super) count: u32,
    /// Bytes of a slot, a power of two.
    pub(super) slot_bytes: u64,
    /// The first state, aligned to 64.
    pub(super) states: *mut LineState,
    /// How many walks: a multiple of 4, at most [`BATCH`].
    pub(super) walks: usize,
    /// Steps that each makes, at least 1.
    pub(super) steps: u32,
}

/// # Safety
/// Every line that the walks come to is readable, as all are when `count · slot_bytes` bytes from `slots` on are, and
/// nothing else uses the states.
pub(super) unsafe fn portable(batch: &WalkBatch) {
    // SAFETY: the caller's promise: the states are `walks` states that only this batch uses.
    let states = unsafe { std::slice::from_raw_parts_mut(batch.states, batch.walks) };
    let mut lines = [batch.slots; BATCH];
    for (state, line) in states.iter().zip(&mut lines) {
        *line = batch.slots.wrapping_add(offset(state, batch));
        prefetch(*line);
    }
    for _ in 0..batch.steps {
        for (state, line) in states.iter_mut().zip(&mut lines) {
            // SAFETY: `offset` is a line that the caller promised.
            step(state, unsafe { &*line.cast::<[u8; LINE_BYTES]>() });
            *line = batch.slots.wrapping_add(offset(state, batch));
            prefetch(*line);
        }
    }
}

/// Where the line lies that a state names: a multiple of 64 below `count · slot_bytes`.
#[inline(always)]
fn offset(state: &LineState, batch: &WalkBatch) -> usize {
    let (mut a, mut b) = (0, 0_u32);
    for (k, &word) in state.iter().enumerate() {
        a ^= word.rotate_left(2 * k as u32);
        b = b.wrapping_add(word);
    }
    let slot = (u64::from(a) * u64::from(batch.count)) >> 32;
    let line = (u64::from(b) * (batch.slot_bytes / LINE_BYTES as u64)) >> 32;
    (slot * batch.slot_bytes) as usize + line as usize * LINE_BYTES
}

#[inline(always)]
fn step(state: &mut LineState, line: &[u8; LINE_BYTES]) {
    let mut t = [0_u32; 16];
    for (k, t) in t.iter_mut().enumerate() {
        let word = u32::from_le_bytes([line[4 * k], line[4 * k + 1], line[4 * k + 2], line[4 * k + 3]]);
        let x = (state[k] ^ word).wrapping_mul(FIRST_FACTOR);
        *t = x ^ (x >> 15);
    }
    for (k, s) in state.iter_mut().enumerate() {
        *s = t[k].wrapping_mul(SECOND_FACTOR).wrapping_add(t[(k + 1) % 16].rotate_left(7));
    }
}

/// Asks for the line at `address` to be brought near; any address is allowed.
#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that faults on no address, and every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch is a hint that faults on no address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
