//! A device that computes as the specification reads, in host memory, on one thread: the reference for tests of all
//! code above the backends.

use crate::naive;
use assay_device::backend::BackendKind;
use assay_device::{Device, DeviceError, DeviceInfo, Handle, Pass, ProbeRound, SweepRound};
use assay_work::digest::slot_digest;
use assay_work::keys::parents;
use assay_work::leaf::leaf;
use assay_work::rule::SlotRule;
use assay_work::rule::product_rows;
use assay_work::{DeviceId, Digest, Precision, tree};

/// Slots in host memory, one thread, no optimisation.
#[derive(Debug, Clone)]
pub struct ReferenceDevice {
    id: DeviceId,
    name: String,
    memory_bytes: u64,
    n: u32,
    slots: Vec<Vec<u8>>,
    states: Option<Vec<u8>>,
    flip: Option<BitFlip>,
}

/// Bytes that turn wrong in memory once their slot is computed: later slots follow from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitFlip {
    pub slot: u32,
    /// Offset of the first byte in the slot.
    pub byte: u64,
    pub bytes: u64,
    /// The bits to flip in each byte.
    pub mask: u8,
}

impl ReferenceDevice {
    /// A device that holds slots of up to `memory_bytes`, empty at first.
    pub fn new(id: DeviceId, name: impl Into<String>, memory_bytes: u64) -> Self {
        Self { id, name: name.into(), memory_bytes, n: 0, slots: Vec::new(), states: None, flip: None }
    }

    /// The same, with a fault in the memory of every pass. For tests.
    pub const fn with_flip(mut self, flip: BitFlip) -> Self {
        self.flip = Some(flip);
        self
    }

    fn slot(&self, slot: u32) -> Result<&[u8], DeviceError> {
        let resident = self.slots.get(slot as usize).map(Vec::as_slice);
        resident.ok_or_else(|| DeviceError::Unsupported(format!("slot {slot} is not resident")))
    }

    fn fill_slot(&self, pass: &Pass, u: u32, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        handle.check()?;
        let mut slot = vec![0; pass.slot_bytes() as usize];
        if u < 2 {
            leaf(&pass.key, pass.offset + u, 0, &mut slot);
            return Ok(slot);
        }
        let (earlier, previous) = parents(&pass.key, u);
        let rule = SlotRule::new(pass.precision, &pass.key, pass.n, u);
        let factors = (&self.slots[earlier as usize][..], &self.slots[previous as usize][..]);
        // A part of y is computed anew each time.
        let at_once = pass.n as usize / 8;
        for (r, rows) in (0..).step_by(at_once).zip(slot.chunks_mut(at_once * pass.n as usize)) {
            handle.check()?;
            product_rows(&rule, factors, r, rows);
        }
        Ok(slot)
    }

    fn fill_slots(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        let mut digests = Vec::with_capacity(pass.count as usize);
        for u in 0..pass.count {
            let mut slot = self.fill_slot(pass, u, handle)?;
            if let Some(flip) = self.flip.filter(|flip| flip.slot == u) {
                let turned = &mut slot[flip.byte as usize..][..flip.bytes as usize];
                turned.iter_mut().for_each(|byte| *byte ^= flip.mask);
            }
            digests.push(slot_digest(&slot));
            self.slots.push(slot);
            handle.advance(1);
        }
        Ok(digests)
    }
}

impl Device for ReferenceDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: self.id,
            name: self.name.clone(),
            backend: BackendKind::Cpu,
            detail: "one thread".into(),
            precisions: Precision::ALL.into(),
            units: Vec::new(),
            total_bytes: self.memory_bytes,
            free_bytes: self.memory_bytes,
        }
    }

    fn slots_that_fit(&self, n: u32) -> u32 {
        let slots = self.memory_bytes / (u64::from(n) * u64::from(n));
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
        self.release();
        if pass.bytes() > self.memory_bytes {
            return Err(DeviceError::Busy { needed_bytes: pass.bytes(), free_bytes: self.memory_bytes });
        }
        self.n = pass.n;
        self.fill_slots(pass, handle).inspect_err(|_| self.release())
    }

    fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
        self.states = None;
        if self.slots.is_empty() {
            return Err(DeviceError::Unsupported("no pass is resident to probe".into()));
        }
        let mut out = Vec::new();
        for walk in 0..round.walks {
            handle.check()?;
            out.extend(naive::walk(&self.slots, self.n, &round.key, walk, round.steps));
        }
        let digest = slot_digest(&out);
        self.states = Some(out);
        handle.advance(1);
        Ok(digest)
    }

    fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
        self.states.clone().ok_or_else(|| DeviceError::Unsupported("no round of a probe was walked".into()))
    }

    fn sweep_sums(&mut self, round: &SweepRound, handle: &Handle) -> Result<Vec<u8>, DeviceError> {
        handle.check()?;
        self.states = None;
        if self.n != round.n || self.slots.len() != round.count as usize || self.slots.is_empty() {
            return Err(DeviceError::Unsupported(format!("{} slots of {} are not resident", round.count, round.n)));
        }
        Ok(naive::sweep_round(&self.slots, self.n, &round.key))
    }

    fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let bytes = self.slot(slot)?;
        let end = usize::try_from(first_byte).ok().and_then(|first| first.checked_add(out.len()));
        let range = end.and_then(|end| bytes.get(end - out.len()..end));
        let outside = || DeviceError::Unsupported(format!("{} bytes from {first_byte} leave the slot", out.len()));
        let range = range.ok_or_else(outside)?;
        out.copy_from_slice(range);
        Ok(())
    }

    fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
        let values = tree::chaining_values(self.slot(slot)?, subtree_bytes);
        Ok(values.into_iter().map(|value| value.0).collect())
    }

    fn release(&mut self) {
        self.slots = Vec::new();
        self.states = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::{PassKey, RoundKey};

    const PASS: Pass = Pass { precision: Precision::Int8, key: PassKey([1; 32]), n: 256, offset: 5, count: 3 };
    const ROUND: ProbeRound = ProbeRound { key: RoundKey([2; 32]), walks: 64, steps: 2 };

    fn device() -> ReferenceDevice {
        ReferenceDevice::new(DeviceId([3; 16]), "under test", PASS.bytes())
    }

    fn is_unsupported<T: std::fmt::Debug>(result: Result<T, DeviceError>) -> bool {
        matches!(result, Err(DeviceError::Unsupported(_)))
    }

    #[test]
    fn a_pass_that_does_not_fit_finds_it_busy() {
        let pass = Pass { count: 4, ..PASS };
        let busy = DeviceError::Busy { needed_bytes: 4 << 16, free_bytes: 3 << 16 };
        assert_eq!(device().fill(&pass, &Handle::default()), Err(busy));
        assert_eq!(device().slots_that_fit(256), 3);
        assert_eq!(device().slots_that_fit(512), 0);
    }

    #[test]
    fn nothing_is_resident_before_a_pass_after_a_cancelled_one_or_after_release() {
        let mut device = device();
        let handle = Handle::default();
        let nothing = |device: &mut ReferenceDevice| {
            is_unsupported(device.read(0, 0, &mut [0]))
                && is_unsupported(device.chaining_values(0, 1024))
                && is_unsupported(device.probe_round(&ROUND, &Handle::default()))
                && is_unsupported(device.probe_states())
        };
        assert!(nothing(&mut device));
        device.fill(&PASS, &handle).unwrap();
        device.probe_round(&ROUND, &handle).unwrap();
        assert_eq!(handle.done_steps(), 4);
        assert_eq!(device.probe_states().unwrap().len(), 64 * 64);
        handle.cancel();
        assert_eq!(device.fill(&PASS, &handle), Err(DeviceError::Cancelled));
        assert!(nothing(&mut device));
        device.fill(&PASS, &Handle::default()).unwrap();
        assert!(is_unsupported(device.probe_states()), "the states went with the pass before");
        device.release();
        assert!(nothing(&mut device));
    }

    #[test]
    fn reads_stay_inside_the_slot() {
        let mut device = device();
        device.fill(&PASS, &Handle::default()).unwrap();
        let mut out = [0; 16];
        device.read(2, (1 << 16) - 16, &mut out).unwrap();
        assert_eq!(out, device.slots[2][(1 << 16) - 16..]);
        for (slot, first_byte) in [(3, 0), (2, (1 << 16) - 15), (2, 1 << 16), (0, u64::MAX), (0, u64::MAX - 15)] {
            assert!(is_unsupported(device.read(slot, first_byte, &mut out)), "slot {slot}, byte {first_byte}");
        }
    }
}
