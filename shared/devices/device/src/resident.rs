//! The resident slots of a device: bookkeeping and checks that every backend shares.

use super::device::{MAX_LINKED_DEVICES, Pass, PeerSlots, ProbeRound, SlotRange, SweepRound};
use super::error::DeviceError;
use assay_work::challenge::MAX_TOTAL;
use assay_work::probe::{LINE_BYTES, MAX_WALKS};
use assay_work::tree::{self, CHUNK_BYTES};
use assay_work::{ChainingValue, Digest, Precision};

/// Bytes of a digest, and of a chaining value.
pub const HASH_BYTES: u64 = Digest::LEN as u64;
/// Bytes of a walk's state, and of a line.
pub const STATE_BYTES: u64 = LINE_BYTES as u64;
/// The states of the largest probe.
pub const MAX_STATES_BYTES: u64 = STATE_BYTES * MAX_WALKS as u64;
/// Policies ask for states of at most this part of the slots (WORK.md, Residency probe); GPUs take memory for those with
/// the slots, so that a probe need not take any.
pub const SLOTS_PER_STATES: u64 = 8;

/// Slots that lie on a device: how many, and how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    pub n: u32,
    pub count: u32,
}

impl From<&Pass> for Slots {
    fn from(pass: &Pass) -> Self {
        Self { n: pass.n, count: pass.count }
    }
}

impl Slots {
    pub const fn slot_bytes(&self) -> u64 {
        self.n as u64 * self.n as u64
    }

    pub const fn bytes(&self) -> u64 {
        self.count as u64 * self.slot_bytes()
    }

    /// Refuses bytes that are not those of a slot.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    pub fn check_range(&self, range: SlotRange) -> Result<(), DeviceError> {
        let SlotRange { slot, first_byte, bytes } = range;
        let is_inside = first_byte.checked_add(bytes).is_some_and(|end| end <= self.slot_bytes());
        if slot < self.count && is_inside {
            return Ok(());
        }
        let text = format!("slot {slot}, bytes {first_byte} + {bytes}: outside the {} resident slots", self.count);
        Err(DeviceError::Unsupported(text))
    }

    /// Refuses devices that do not make up a linked probe in which these slots, or the first of them, are one's own.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    pub fn check_peers(&self, peers: &[PeerSlots]) -> Result<(), DeviceError> {
        let (mut end, mut own) = (0, 0);
        let mut are_right = (2..=MAX_LINKED_DEVICES).contains(&peers.len());
        for PeerSlots { share, slots } in peers {
            share.check(0)?;
            let has_room = match slots {
                None => share.count <= self.count,
                Some(slots) => Self { n: share.n, count: share.count }.bytes() <= slots.bytes,
            };
            are_right &= has_room && share.offset == end && share.n == self.n;
            end = share.offset + share.count;
            own += u32::from(slots.is_none());
        }
        are_right &= own == 1 && peers.iter().all(|peer| peer.share.total == end);
        if are_right {
            return Ok(());
        }
        Err(DeviceError::Unsupported(format!(
            "{} devices around {self:?}, which are not those of a probe",
            peers.len()
        )))
    }

    /// Refuses a round of a sweep over other slots than these.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    pub fn check_sweep(&self, round: &SweepRound) -> Result<(), DeviceError> {
        if (round.n, round.count) == (self.n, self.count) {
            return Ok(());
        }
        Err(DeviceError::Unsupported(format!(
            "a sweep over {} slots of n = {}: {self:?} are resident",
            round.count, round.n
        )))
    }

    /// Refuses subtrees that a slot does not consist of.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    pub fn check_subtrees(&self, slot: u32, subtree_bytes: u64) -> Result<(), DeviceError> {
        let (count, slot_bytes) = (self.count, self.slot_bytes());
        let fits = subtree_bytes.is_power_of_two() && (CHUNK_BYTES..=slot_bytes / 2).contains(&subtree_bytes);
        if slot < count && fits {
            return Ok(());
        }
        let text = format!("subtrees of {subtree_bytes} bytes in slot {slot} of {count}, of {slot_bytes} bytes each");
        Err(DeviceError::Unsupported(text))
    }
}

/// A device's content: the layout `L` of the slots of its last pass, and the backend's record `W` of the last round of
/// the probe.
///
/// Every call that changes either begins here and ends here, so that after an error no slot counts as resident.
#[derive(Debug, Clone, Copy)]
pub struct Residency<L, W = u32> {
    layout: Option<L>,
    walked: Option<W>,
}

impl<L, W> Default for Residency<L, W> {
    fn default() -> Self {
        Self { layout: None, walked: None }
    }
}

impl<L: Copy, W: Copy> Residency<L, W> {
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// A pass begins: nothing is resident until [`Residency::filled`].
    ///
    /// # Errors
    /// As [`Pass::check`] and [`Pass::check_precision`].
    pub fn begin_fill(&mut self, pass: &Pass, offered: &[Precision]) -> Result<(), DeviceError> {
        self.clear();
        pass.check()?;
        pass.check_precision(offered)
    }

    /// A pass is done; its slots lie as `layout` says.
    pub fn filled(&mut self, layout: L) {
        *self = Self { layout: Some(layout), walked: None };
    }

    /// The layout of the resident slots.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when no pass is resident.
    pub fn layout(&self) -> Result<L, DeviceError> {
        self.layout.ok_or_else(|| DeviceError::Unsupported("no pass is resident on this device".into()))
    }

    /// A round of the probe begins: there are no states until [`Residency::walked`]. Gives the layout that it walks over.
    ///
    /// # Errors
    /// As [`ProbeRound::check`] and [`Residency::layout`].
    pub fn begin_round(&mut self, round: &ProbeRound) -> Result<L, DeviceError> {
        self.walked = None;
        round.check()?;
        self.layout()
    }

    /// A round of a sweep begins, which takes the place of the states. Gives the layout that it sums over.
    ///
    /// # Errors
    /// As [`Residency::layout`].
    pub fn begin_sweep(&mut self) -> Result<L, DeviceError> {
        self.walked = None;
        self.layout()
    }

    pub fn walked(&mut self, walked: W) {
        self.walked = Some(walked);
    }

    /// The backend's record of the last round of the probe.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] when no round was walked.
    pub fn states(&self) -> Result<W, DeviceError> {
        self.walked.ok_or_else(|| DeviceError::Unsupported("no round of the probe was walked".into()))
    }
}

/// The largest number of slots, up to a challenge's, that `fits`; 0 where not even one does.
pub fn max_slots(fits: impl Fn(u32) -> bool) -> u32 {
    let (mut fit, mut too_many) = (0, MAX_TOTAL as u32 + 1);
    while too_many - fit > 1 {
        let middle = fit + (too_many - fit) / 2;
        *(if fits(middle) { &mut fit } else { &mut too_many }) = middle;
    }
    fit
}

/// The digests or chaining values that bytes consist of.
pub fn hashes_of(bytes: &[u8]) -> impl Iterator<Item = [u8; HASH_BYTES as usize]> {
    bytes.as_chunks().0.iter().copied()
}

/// Chaining values of subtrees that are `2^levels` times as large. GPUs merge as many levels as one block of theirs can;
/// the host merges the rest, at most 16384 values of the largest slot.
pub fn merge_subtrees(mut values: Vec<ChainingValue>, levels: u32) -> Vec<[u8; 32]> {
    for _ in 0..levels {
        values = tree::parents(&values);
    }
    values.into_iter().map(|value| value.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::{PassKey, RoundKey};

    const OFFERED: [Precision; 1] = [Precision::Int8];
    const PASS: Pass = Pass { precision: Precision::Int8, key: PassKey([1; 32]), n: 256, offset: 0, count: 3 };
    const ROUND: ProbeRound = ProbeRound { key: RoundKey([2; 32]), walks: 64, steps: 1 };

    fn filled() -> Residency<Slots> {
        let mut residency = Residency::default();
        residency.begin_fill(&PASS, &OFFERED).unwrap();
        residency.filled(Slots::from(&PASS));
        residency
    }

    #[test]
    fn nothing_is_resident_after_a_refused_pass() {
        let mut residency = filled();
        residency.walked(64);
        assert_eq!(residency.states(), Ok(64));
        assert!(residency.begin_fill(&Pass { count: 2, ..PASS }, &OFFERED).is_err());
        assert!(residency.layout().is_err() && residency.states().is_err());
    }

    #[test]
    fn a_kind_of_work_that_is_not_offered_is_refused() {
        for precision in Precision::ALL {
            let begun = filled().begin_fill(&Pass { precision, ..PASS }, &OFFERED);
            assert_eq!(begun.is_ok(), precision == Precision::Int8, "{precision}");
        }
    }

    #[test]
    fn a_refused_round_leaves_slots_and_no_states() {
        let mut residency = filled();
        residency.walked(64);
        assert!(residency.begin_round(&ProbeRound { walks: 63, ..ROUND }).is_err());
        assert!(residency.layout().is_ok() && residency.states().is_err());
        assert!(residency.begin_round(&ROUND).is_ok());
        assert!(Residency::<Slots>::default().begin_round(&ROUND).is_err());
    }

    #[test]
    fn the_largest_number_that_fits_is_found() {
        for most in [0, 1, 2, 3, 1000, MAX_TOTAL as u32 - 1, MAX_TOTAL as u32] {
            assert_eq!(max_slots(|count| count <= most), most);
        }
        assert_eq!(max_slots(|_| true), MAX_TOTAL as u32);
    }
}
