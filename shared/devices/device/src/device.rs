//! One compute device, as everything above the backends sees it.
//!
//! A device is driven by one thread, which calls it one call at a time. Its memory is not the host's:
//! slots stay on the device between calls, and only digests, probe states and the ranges asked for come
//! back. Calls block until their result is there; inside, a backend enqueues as it likes, within the
//! bounds of prompt cancellation (200 ms). After an error other than [`DeviceError::Cancelled`] or
//! [`DeviceError::Busy`] a device may be gone: its caller releases it and asks its backend again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::accumulator::UnitFinding;
use crate::chunks::open_chunks;
use crate::copies::{self, Area, Areas, CopyReport, CopySource};
use crate::error::DeviceError;
use crate::kind::BackendKind;
use crate::shared_slots::SharedSlots;
use assay_work::challenge::{MAX_N, MAX_TOTAL, MIN_COUNT, MIN_N};
use assay_work::digest::slot_digest;
use assay_work::probe::{
    LINE_BYTES, MAX_STEPS, MAX_WALKS, MIN_WALKS, WalkState, position, round_key, row_sum, state_bytes,
    state_from_bytes, step, sums_bytes, sweep_round_key, weights,
};
use assay_work::tree::{CHUNK_BYTES, Tree, chaining_values};
use assay_work::{DeviceId, Digest, Opening, PassKey, Precision, ProbeKey, RoundKey};

/// The longest [`DeviceInfo::name`], in bytes.
pub const MAX_DEVICE_NAME_BYTES: usize = 128;
/// The longest [`DeviceInfo::detail`], in bytes.
pub const MAX_DEVICE_DETAIL_BYTES: usize = 256;

/// A device's description, and the memory it has now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Stable over restarts, distinct on one host.
    pub id: DeviceId,
    /// The model, as a person reads it.
    pub name: String,
    pub backend: BackendKind,
    /// The backend's choices for this device (kernel, threads), as a person reads them.
    pub detail: String,
    /// The kinds of work that it computes, ascending; a pass of another is refused.
    pub precisions: Vec<Precision>,
    /// The self-test's results for its float units, one for each unit and kind of work that it was for; empty for a
    /// device without such units, or one that was not opened.
    pub units: Vec<UnitFinding>,
    /// All the device's memory, in bytes.
    pub total_bytes: u64,
    /// Bytes that a challenge could take now; memory that this device object holds for slots counts as free.
    pub free_bytes: u64,
}

/// Progress out, cancellation in. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct Handle {
    cancelled: Arc<AtomicBool>,
    done_steps: Arc<AtomicU64>,
}

impl Handle {
    /// Asks the work to stop; it does within 200 ms and gives [`DeviceError::Cancelled`].
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether a caller asked the work to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Returns early when a caller asked to stop.
    ///
    /// # Errors
    /// [`DeviceError::Cancelled`] when [`Handle::cancel`] was called.
    pub fn check(&self) -> Result<(), DeviceError> {
        if self.is_cancelled() { Err(DeviceError::Cancelled) } else { Ok(()) }
    }

    /// A backend reports finished steps: one for each slot filled, one for each round of a probe.
    pub fn advance(&self, steps: u64) {
        self.done_steps.fetch_add(steps, Ordering::Relaxed);
    }

    /// Steps finished so far, over all calls that share this handle.
    pub fn done_steps(&self) -> u64 {
        self.done_steps.load(Ordering::Relaxed)
    }
}

/// One pass for one device (WORK.md, A pass): everything that its bits depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    pub precision: Precision,
    pub key: PassKey,
    /// The matrix size: a power of two, 256 … 32768.
    pub n: u32,
    /// The stream of leaf 0.
    pub offset: u32,
    /// Number of slots, at least 3.
    pub count: u32,
}

impl Pass {
    /// Bytes that the slots of this pass take: `count · n²`.
    pub const fn bytes(&self) -> u64 {
        self.count as u64 * self.slot_bytes()
    }

    /// Refuses a matrix size or a number of slots that WORK.md does not allow.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    pub fn check(&self) -> Result<(), DeviceError> {
        check_size(self.n)?;
        if self.count < MIN_COUNT || u64::from(self.count) > MAX_TOTAL {
            return Err(DeviceError::Unsupported(format!("{} slots: from {MIN_COUNT} to {MAX_TOTAL}", self.count)));
        }
        Ok(())
    }

    /// Refuses a kind of work that the device does not compute.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    pub fn check_precision(&self, offered: &[Precision]) -> Result<(), DeviceError> {
        if offered.contains(&self.precision) {
            return Ok(());
        }
        Err(DeviceError::Unsupported(format!("this device does not compute work of kind {}", self.precision)))
    }

    pub const fn slot_bytes(&self) -> u64 {
        self.n as u64 * self.n as u64
    }

    pub const fn multiply_accumulates_of_product(&self) -> u64 {
        self.precision.multiply_accumulates_of_product(self.n)
    }
}

/// One round of the residency probe over the resident slots (WORK.md, Residency probe).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRound {
    pub key: RoundKey,
    /// How many walks W, a power of two from 64.
    pub walks: u32,
    /// Number of steps T of each walk.
    pub steps: u32,
}

/// All rounds of one device's residency probe (WORK.md, Residency probe).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRounds {
    /// The key that every round's key is derived from.
    pub key: ProbeKey,
    /// How many walks W, a power of two from 64.
    pub walks: u32,
    /// How many steps T each walk makes in a round.
    pub steps: u32,
    /// How many rounds R, each after the digest of the one before.
    pub rounds: u32,
}

impl ProbeRounds {
    /// Round `round`, after one that ended in `previous`.
    pub fn round(&self, round: u32, previous: &Digest) -> ProbeRound {
        ProbeRound { key: round_key(&self.key, round, previous), walks: self.walks, steps: self.steps }
    }
}

/// One round of the sweep over the resident slots (WORK.md, Sweep).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepRound {
    pub key: RoundKey,
    /// Matrix size of the resident slots.
    pub n: u32,
    /// Number of resident slots.
    pub count: u32,
}

/// All rounds of one device's sweep (WORK.md, Sweep).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepRounds {
    /// The key that every round's key is derived from.
    pub key: ProbeKey,
    /// Matrix size of the resident slots.
    pub n: u32,
    /// Number of resident slots.
    pub count: u32,
    /// How many rounds R, each after the digest of the one before.
    pub rounds: u32,
}

impl SweepRounds {
    /// Round `round`, after one that ended in `previous`.
    pub fn round(&self, round: u32, previous: &Digest) -> SweepRound {
        SweepRound { key: sweep_round_key(&self.key, round, previous), n: self.n, count: self.count }
    }
}

/// The state of a walk, as it stands in `out[r]`: little-endian words.
pub type StateBytes = [u8; LINE_BYTES];

/// The most states of one [`Device::step_states`]: 2 MiB of them, which no device takes 100 ms for.
pub const MAX_STEPPED_STATES: usize = 1 << 15;

/// Where a device's resident slots are among those of all devices (WORK.md, Linked probe).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkedShare {
    pub n: u32,
    /// The place of the device's first slot in the whole challenge.
    pub offset: u32,
    pub count: u32,
    /// Number of slots of all devices together.
    pub total: u32,
}

impl LinkedShare {
    /// Refuses a share that WORK.md does not allow, and more states than a device takes at once.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    pub fn check(&self, states: usize) -> Result<(), DeviceError> {
        check_size(self.n)?;
        let end = u64::from(self.offset) + u64::from(self.count);
        let fits = self.count > 0 && end <= u64::from(self.total) && u64::from(self.total) <= MAX_TOTAL;
        if fits && states <= MAX_STEPPED_STATES {
            return Ok(());
        }
        Err(DeviceError::Unsupported(format!("{states} states over {self:?}")))
    }

    /// The line of this device that a walk in this state reads next.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for the line of another device.
    pub fn line_of(&self, state: &WalkState) -> Result<SlotRange, DeviceError> {
        let (place, line) = position(state, self.total, self.n);
        let slot = place.checked_sub(self.offset).filter(|slot| *slot < self.count);
        let slot = slot.ok_or_else(|| DeviceError::Unsupported(format!("slot {place} is another device's")))?;
        let first_byte = u64::from(line) * LINE_BYTES as u64;
        Ok(SlotRange { slot, first_byte, bytes: LINE_BYTES as u64 })
    }
}

/// A device of a linked probe, as one of them sees it.
#[derive(Debug)]
pub struct PeerSlots {
    /// Where its slots are among those of all.
    pub share: LinkedShare,
    /// Its slots; `None` for those of the walking device.
    pub slots: Option<SharedSlots>,
}

/// The most devices of a linked probe that walk over one another's memory: those of a host.
pub const MAX_LINKED_DEVICES: usize = 64;

/// A range of a resident slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRange {
    pub slot: u32,
    pub first_byte: u64,
    pub bytes: u64,
}

impl ProbeRound {
    /// Refuses a round that WORK.md does not allow.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    pub fn check(&self) -> Result<(), DeviceError> {
        let walks_fit = self.walks.is_power_of_two() && (MIN_WALKS..=MAX_WALKS).contains(&self.walks);
        if walks_fit && (1..=MAX_STEPS).contains(&self.steps) {
            Ok(())
        } else {
            Err(DeviceError::Unsupported(format!("a round of {} walks, {} steps each", self.walks, self.steps)))
        }
    }
}

/// Refuses a matrix size that WORK.md does not allow.
///
/// # Errors
/// [`DeviceError::Unsupported`].
pub fn check_size(n: u32) -> Result<(), DeviceError> {
    if n.is_power_of_two() && (MIN_N..=MAX_N).contains(&n) {
        Ok(())
    } else {
        Err(DeviceError::Unsupported(format!("n = {n} is not a power of two from {MIN_N} to {MAX_N}")))
    }
}

/// A device that holds slots and works on them.
pub trait Device: Send {
    /// The device's description, with its memory as it is now.
    fn info(&self) -> DeviceInfo;

    /// The fault that keeps the device from work now; `None` when it can work. A device with a fault is in no
    /// inventory.
    fn fault(&self) -> Option<DeviceError> {
        None
    }

    /// The resident slots are not the device's work any more, by a check outside of it: a device in a worker gets a new
    /// worker, which is tested before it works.
    fn distrust(&mut self, _why: &DeviceError) {}

    /// Number of n-by-n slots that fit now, beside the backend's own needs.
    fn slots_that_fit(&self, n: u32) -> u32;

    /// Fills slots `0 … count-1` of a pass and gives their digests in order. The slots stay on the
    /// device until the next `fill` or `release`. Advances the handle by one for each slot.
    ///
    /// # Errors
    /// Any [`DeviceError`]; after one, no slot counts as resident.
    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError>;

    /// Walks one round of the probe over the resident slots and gives `probe_digest`, BLAKE3 over the W
    /// states, which stay on the device until the next round. Advances the handle by one.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] when no pass is resident.
    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError>;

    /// Walks all rounds of a probe one after another, and gives the digest of each. Advances the handle by one for each.
    ///
    /// # Errors
    /// As [`Device::probe_round`].
    fn probe_rounds(&mut self, probe: &ProbeRounds, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        let mut digests = Vec::with_capacity(probe.rounds as usize);
        let mut before = Digest::BEFORE_FIRST;
        for round in 0..probe.rounds {
            before = self.probe_round(&probe.round(round, &before), handle)?;
            digests.push(before);
        }
        Ok(digests)
    }

    /// Moves walks of a linked probe on by one step each, over lines of the resident slots, which are at `share` among
    /// those of all devices. At most [`MAX_STEPPED_STATES`] at once.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] when the slots are not resident, or a state names another
    /// device's line. The states are undefined then.
    fn step_states(&mut self, share: &LinkedShare, states: &mut [StateBytes]) -> Result<(), DeviceError> {
        share.check(states.len())?;
        let ranges: Result<Vec<_>, _> = states.iter().map(|state| share.line_of(&state_from_bytes(state))).collect();
        let lines = self.read_all(&ranges?)?;
        let (lines, rest) = lines.as_chunks::<LINE_BYTES>();
        if lines.len() != states.len() || !rest.is_empty() {
            return Err(DeviceError::Sick(format!("{} lines read for {} states", lines.len(), states.len())));
        }
        for (bytes, line) in states.iter_mut().zip(lines) {
            let mut state = state_from_bytes(bytes);
            step(&mut state, line);
            *bytes = state_bytes(&state);
        }
        Ok(())
    }

    /// The resident slots, for other devices to walk over; `None` where no other device can. The memory stays allocated
    /// for as long as a handle of it is open; its content is that of the slots until the next `fill` or `release`.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] when no pass is resident.
    fn share_slots(&mut self) -> Result<Option<SharedSlots>, DeviceError> {
        Ok(None)
    }

    /// Maps the slots of all devices of a linked probe, in the order of the shares; whether this device reaches them.
    /// They stay mapped until `unmap_peers`, `fill` or `release`.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] for devices that do not make up a linked probe.
    fn map_peers(&mut self, peers: &[PeerSlots]) -> Result<bool, DeviceError> {
        let _ = peers;
        Ok(false)
    }

    /// Walks one round of a linked probe over the slots of all devices, which are mapped, and gives `probe_digest`; its
    /// states take the place of an earlier round's. Advances the handle by one.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] when no devices are mapped.
    fn linked_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let _ = (round, handle);
        Err(DeviceError::Unsupported("no other device's slots are mapped".into()))
    }

    /// Lets go of the slots of other devices.
    fn unmap_peers(&mut self) {}

    /// The states after the last `probe_round` or `linked_round`: `64 · W` bytes, in the order of the walks.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] when no round was walked.
    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError>;

    /// Sums every row of the resident slots, which are those of `round`, and gives `sweep_digest`, BLAKE3 over the sums.
    /// Advances the handle by one. The states of an earlier round of a probe are gone.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] when other slots are resident.
    fn sweep_round(&mut self, round: &SweepRound, handle: &Handle) -> Result<Digest, DeviceError> {
        let digest = slot_digest(&self.sweep_sums(round, handle)?);
        handle.advance(1);
        Ok(digest)
    }

    /// The sums of a round, `sums[r]`, as [`Device::sweep_round`] hashes them.
    ///
    /// # Errors
    /// As [`Device::sweep_round`].
    fn sweep_sums(&mut self, round: &SweepRound, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        let SweepRound { key, n, count } = *round;
        check_size(n)?;
        let mut slot = vec![0; n as usize * n as usize];
        self.read(0, slot.len() as u64 - 1, &mut [0])?;
        if count == 0 || self.read(0, slot.len() as u64, &mut [0]).is_ok() || self.read(count, 0, &mut [0]).is_ok() {
            return Err(DeviceError::Unsupported(format!("more than {count} slots of n = {n} are resident")));
        }
        let weights = weights(&key, n);
        let mut sums = Vec::new();
        for u in 0..count {
            handle.check()?;
            self.read(u, 0, &mut slot)?;
            sums.extend(slot.chunks_exact(n as usize).flat_map(|row| row_sum(row, &weights).to_le_bytes()));
        }
        sums.resize(sums_bytes(n, count) as usize, 0);
        Ok(sums)
    }

    /// Sums all rounds of a sweep one after another, and gives the digest of each. Advances the handle by one for each.
    ///
    /// # Errors
    /// As [`Device::sweep_round`].
    fn sweep_rounds(&mut self, sweep: &SweepRounds, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        let mut digests = Vec::with_capacity(sweep.rounds as usize);
        let mut before = Digest::BEFORE_FIRST;
        for round in 0..sweep.rounds {
            before = self.sweep_round(&sweep.round(round, &before), handle)?;
            digests.push(before);
        }
        Ok(digests)
    }

    /// Sums a round again, and opens the chunks of its sums that begin at these bytes.
    ///
    /// # Errors
    /// As [`Device::sweep_round`]; [`DeviceError::Unsupported`] for a byte that begins no chunk of the sums.
    fn open_sums(&mut self, round: &SweepRound, at: &[u64], handle: &Handle) -> Result<Vec<Opening>, DeviceError> {
        let sums = self.sweep_sums(round, handle)?;
        open_chunks(&sums, &Tree::new(chaining_values(&sums, CHUNK_BYTES)), at)
    }

    /// Reads `out.len()` bytes of a resident slot from `first_byte` on.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] when the range is not resident.
    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError>;

    /// Reads ranges of resident slots, one after another into one string. A caller that knows many ranges asks for them
    /// in one call: a device may be in another process.
    ///
    /// # Errors
    /// As [`Device::read`].
    fn read_all(&mut self, ranges: &[SlotRange]) -> Result<Vec<u8>, DeviceError> {
        let mut all = Vec::new();
        for range in ranges {
            let start = all.len();
            all.resize(start + range.bytes as usize, 0);
            self.read(range.slot, range.first_byte, &mut all[start..])?;
        }
        Ok(all)
    }

    /// Chaining values of the BLAKE3 subtrees of `subtree_bytes` each (a power of two from 1024, at most
    /// half a slot) that a resident slot consists of, in order. Openings are built from them.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] when the slot is not resident.
    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError>;

    /// Gives all memory back; nothing is resident after it.
    fn release(&mut self);

    /// The product kernels that this device runs for a kind of work, the one in use first; empty where it has only one
    /// without a name, or cannot compute the kind.
    fn kernels(&self, _precision: Precision) -> Vec<String> {
        Vec::new()
    }

    /// Multiplies with another of [`Device::kernels`] of a kind of work from now on. The slots stay resident.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for one that the device does not run.
    fn choose_kernel(&mut self, precision: Precision, kernel: &str) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported(format!("this device has no kernel {kernel} for {precision}")))
    }

    /// Makes the first `products` products of the resident pass again, and nothing else: they write the bytes that are
    /// there already. Gives their time, by the device's clock where it has one. For burn-ins.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] when no pass is resident, or the device cannot do it.
    fn time_products(&mut self, products: u32) -> Result<Duration, DeviceError> {
        Err(DeviceError::Unsupported(format!("{products} products alone")))
    }

    /// Copies bytes from the host to the near area, which becomes as long as they are, as does the far one
    /// ([`copies`]). The slots stay resident. Gives the time.
    ///
    /// # Errors
    /// Any [`DeviceError`]; [`DeviceError::Unsupported`] where the device has no areas.
    fn write_area(&mut self, _data: &[u8]) -> Result<Duration, DeviceError> {
        Err(DeviceError::Unsupported("no copies besides those of slots".into()))
    }

    /// Copies the near area to the far one. Gives the time.
    ///
    /// # Errors
    /// As [`Device::write_area`]; [`DeviceError::Unsupported`] before the first of those.
    fn copy_area(&mut self) -> Result<Duration, DeviceError> {
        Err(DeviceError::Unsupported("no copies besides those of slots".into()))
    }

    /// Copies an area to the host: as many bytes as were written. Gives the time.
    ///
    /// # Errors
    /// As [`Device::copy_area`].
    fn read_area(&mut self, _area: Area, _out: &mut [u8]) -> Result<Duration, DeviceError> {
        Err(DeviceError::Unsupported("no copies besides those of slots".into()))
    }

    /// Copies bytes to the device, within it and back, and compares them in the device's own process.
    ///
    /// # Errors
    /// As [`copies::test`].
    fn test_copies(&mut self, source: &CopySource) -> Result<CopyReport, DeviceError> {
        copies::test(&mut AreasOf(self), source)
    }
}

struct AreasOf<'a, D: ?Sized>(&'a mut D);

impl<D: Device + ?Sized> Areas for AreasOf<'_, D> {
    fn write(&mut self, data: &[u8]) -> Result<Duration, DeviceError> {
        self.0.write_area(data)
    }

    fn copy(&mut self) -> Result<Duration, DeviceError> {
        self.0.copy_area()
    }

    fn read(&mut self, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
        self.0.read_area(area, out)
    }
}
