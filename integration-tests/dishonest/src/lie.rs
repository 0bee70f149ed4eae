//! The lies of a dishonest miner, and their common state.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use assay_device::Pass;
use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_work::{Challenge, DeviceId, Precision, RoundKey};

/// How long a device waits for the slots that another one is to show it.
const BOARD_LIMIT: Duration = Duration::from_secs(30);

/// A lie in the work: the devices hold its results, and digests and openings agree with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkLie {
    /// Every twentieth element of a product is left zero.
    SkipElements,
    /// The leaves are zeros.
    ZeroLeaves,
    /// The leaves are those of the host's other device.
    OtherLeaves,
    /// These slots are zeros; the products after them are made from that.
    ZeroSlots(&'static [u32]),
    /// One element of the last slot, which no other slot follows from, is wrong.
    OneElement,
    /// In this iteration every slot is keystream, which can be computed line by line: no memory is needed.
    KeystreamIn(usize),
    /// Each of two devices does, and commits to, the other one's share.
    OtherShare,
    /// Every iteration is the first one again.
    FirstIterationAgain,
    /// The products are of another kind of work, which the device is faster at.
    OtherKind(Precision),
    /// The bits of products that no operand of FP8 depends on are cleared: a quarter of the memory would not be needed.
    DropIgnoredBits,
    /// Half of each row of y is left as it is, in place of its squarings.
    HalfOfSquarings,
    /// The noise is that of an earlier slot.
    EarlierNoise,
    /// The memory claimed is not there when it is needed.
    NoMemory,
    /// Nothing is wrong, but it takes so long.
    Slow(Duration),
}

/// A lie in the probe: the devices hold the right slots, but answer falsely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeLie {
    /// Other bytes were walked over than those held.
    OtherMemory,
    /// The slots from this one on are not in memory: zeros are read in their place.
    Spilled(u32),
    /// Every second walk is its neighbour's.
    MergedWalks,
    /// No round waits for the digest of the one before: all start as the first.
    RoundsAtOnce,
    /// The digest of the first round is made up, and the rounds after it start without it.
    InventedDigest,
    /// One line of the memory, on the way of walk 0, is read wrong.
    WrongLine,
    /// Nothing is wrong, but it takes so long.
    Slow(Duration),
}

/// A lie in the linked probe. The devices hold the right slots, and the probe of their own slots is right, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkLie {
    /// A step whose line is on another device reads zeros in its place.
    SkippedLines,
    /// Lines of other devices come from a copy that was made too early.
    StaleCopy,
    /// No round waits for the digests of the one before: all start as the first.
    RoundsAtOnce,
    /// The digests of the last device are never sent.
    WithheldDigests,
}

/// A lie in the sweep. The devices hold the right slots, and the probes are right, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepLie {
    /// Other bytes were summed than those held.
    OtherMemory,
    /// The weights of the first round serve all of them.
    SameWeights,
    /// The sums of every second row are left zero.
    HalfOfRows,
}

/// Rewrites outgoing messages: no message, one, or many in place of one.
pub type Outgoing = Box<dyn FnMut(MinerMessage) -> Vec<MinerMessage> + Send>;
/// Rewrites an incoming message before the miner's own session sees it.
pub type Incoming = Box<dyn FnMut(ValidatorMessage) -> ValidatorMessage + Send>;

/// The switches. An honest miner has none set.
#[derive(Default)]
pub struct Lies {
    pub(super) work: Mutex<Option<WorkLie>>,
    pub(super) probe: Mutex<Option<ProbeLie>>,
    pub(super) linked: Mutex<Option<LinkLie>>,
    pub(super) sweep: Mutex<Option<SweepLie>>,
    pub(super) link_bytes_per_s: Mutex<Option<u64>>,
    pub(super) opens_true_states: Mutex<bool>,
    pub(super) outgoing: Mutex<Option<Outgoing>>,
    pub(super) incoming: Mutex<Option<Incoming>>,
    pub(super) half_closes: Mutex<bool>,
    pub(super) board: Board,
}

impl Lies {
    /// Lies about the work from the next challenge on.
    pub fn in_work(&self, lie: WorkLie) {
        *lock(&self.work) = Some(lie);
    }

    /// Lies about the probe, and opens the states that go with the lie.
    pub fn in_probe(&self, lie: ProbeLie) {
        *lock(&self.probe) = Some(lie);
    }

    /// Lies about the linked probe, from the next challenge on.
    pub fn in_linked_probe(&self, lie: LinkLie) {
        *lock(&self.linked) = Some(lie);
    }

    /// Lies about the sweep, and opens the sums that go with the lie.
    pub fn in_sweep(&self, lie: SweepLie) {
        *lock(&self.sweep) = Some(lie);
    }

    /// Has the memory of the first device behind a link of `bytes_per_s`, as if it were in another host.
    pub fn behind_a_link(&self, bytes_per_s: u64) {
        *lock(&self.link_bytes_per_s) = Some(bytes_per_s);
    }

    /// Lies about the probe, but opens the states that it should have answered.
    pub fn in_probe_only(&self, lie: ProbeLie) {
        *lock(&self.opens_true_states) = true;
        self.in_probe(lie);
    }

    pub fn in_what_goes_out(&self, rewrite: impl FnMut(MinerMessage) -> Vec<MinerMessage> + Send + 'static) {
        *lock(&self.outgoing) = Some(Box::new(rewrite));
    }

    /// Rewrites incoming messages, so that the miner honestly does other work than the validator asked for.
    pub fn in_what_comes_in(&self, rewrite: impl FnMut(ValidatorMessage) -> ValidatorMessage + Send + 'static) {
        *lock(&self.incoming) = Some(Box::new(rewrite));
    }

    /// Closes its half of the stream behind the last of the openings of a challenge of one device.
    pub fn in_half_closing(&self) {
        *lock(&self.half_closes) = true;
    }

    pub fn stop(&self) {
        *lock(&self.work) = None;
        *lock(&self.probe) = None;
        *lock(&self.linked) = None;
        *lock(&self.sweep) = None;
        *lock(&self.link_bytes_per_s) = None;
        *lock(&self.opens_true_states) = false;
        *lock(&self.outgoing) = None;
        *lock(&self.incoming) = None;
        *lock(&self.half_closes) = false;
    }
}

/// The states that a device answered its rounds with, in the order of the rounds.
type Outs = Vec<(RoundKey, Vec<u8>)>;

/// The data that the devices of one host show one another and the filter.
#[derive(Debug, Default)]
pub(super) struct Board {
    passes: Mutex<BTreeMap<DeviceId, Pass>>,
    shown: Condvar,
    outs: Mutex<BTreeMap<DeviceId, Outs>>,
    challenge: Mutex<Option<Arc<Challenge>>>,
    slots: Mutex<BTreeMap<DeviceId, Vec<Vec<u8>>>>,
}

impl Board {
    /// Shows a device's pass and waits for another device's.
    pub fn exchange(&self, device_id: DeviceId, pass: Pass) -> Option<Pass> {
        let mut passes = lock(&self.passes);
        passes.insert(device_id, pass);
        self.shown.notify_all();
        let alone = |passes: &mut BTreeMap<DeviceId, Pass>| passes.keys().all(|id| *id == device_id);
        let (passes, _) =
            self.shown.wait_timeout_while(passes, BOARD_LIMIT, alone).unwrap_or_else(PoisonError::into_inner);
        passes.iter().find(|(id, _)| **id != device_id).map(|(_, pass)| *pass)
    }

    /// Notes the states that a device answered a round with; rounds come in order the first time.
    pub fn note_out(&self, device_id: DeviceId, key: RoundKey, out: Vec<u8>) {
        let mut outs = lock(&self.outs);
        let of_device = outs.entry(device_id).or_default();
        if of_device.iter().all(|(known, _)| *known != key) {
            of_device.push((key, out));
        }
    }

    /// The states that a device answered a round with.
    pub fn out(&self, device_id: DeviceId, round: u32) -> Option<Vec<u8>> {
        lock(&self.outs).get(&device_id)?.get(round as usize).map(|(_, out)| out.clone())
    }

    /// The key that a device's first round had.
    pub fn first_key(&self, device_id: DeviceId) -> Option<RoundKey> {
        lock(&self.outs).get(&device_id)?.first().map(|(key, _)| *key)
    }

    /// Notes the challenge that runs.
    pub fn note_challenge(&self, challenge: &Challenge) {
        *lock(&self.challenge) = Some(Arc::new(challenge.clone()));
    }

    pub fn challenge(&self) -> Option<Arc<Challenge>> {
        lock(&self.challenge).clone()
    }

    /// Notes the slots of a device after a pass.
    pub fn note_slots(&self, device_id: DeviceId, slots: &[Vec<u8>]) {
        lock(&self.slots).insert(device_id, slots.to_vec());
    }

    /// The slots of a challenge's devices, in the order of the shares.
    pub fn slots(&self, challenge: &Challenge) -> Vec<Vec<Vec<u8>>> {
        let slots = lock(&self.slots);
        challenge.shares().iter().filter_map(|share| slots.get(&share.device_id).cloned()).collect()
    }

    /// Forgets a device's challenge.
    pub fn clear(&self, device_id: DeviceId) {
        lock(&self.slots).remove(&device_id);
        lock(&self.passes).remove(&device_id);
        lock(&self.outs).remove(&device_id);
    }
}

/// The switches, shared by the devices, the filter and the test.
pub type SharedLies = Arc<Lies>;

/// A lock that another test's panic does not poison.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
