//! The exact place of a wrong bit: a slot computed again by the processor, from its parents as the device holds them.
//!
//! The slot is the first one that differs from the others' results, so that its parents are equal to theirs. The
//! reference's product of them shows whether this device is wrong or the others, and which bytes are.

use assay_work::rule::product_rows;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use assay_device::{Device, DeviceError, Handle, SlotRange, machine};
use assay_work::digest::slot_digest;
use assay_work::keys::parents;
use assay_work::leaf::leaf;
use assay_work::rule::SlotRule;
use assay_work::{Digest, PassKey, Precision};
use parking_lot::Mutex;

use crate::finding::BitLocation;

/// A slot compared with the processor's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedSlot {
    /// The first wrong bit, with the number of wrong bits; `None`: the slot is right.
    pub wrong: Option<BitLocation>,
    /// The digest that the slot should have.
    pub truth: Digest,
    /// The digest of the bytes that were read: another one than the device gave means that they changed since.
    pub read: Digest,
}

/// Computes a resident slot again and compares it.
///
/// # Errors
/// The device's, and [`DeviceError::Cancelled`].
pub fn judge(
    device: &mut dyn Device,
    key: &PassKey,
    (precision, n): (Precision, u32),
    slot: u32,
    handle: &Handle,
) -> Result<ComparedSlot, DeviceError> {
    let found = whole(device, n, slot)?;
    let expected = if slot < 2 {
        let mut expected = vec![0; found.len()];
        leaf(key, slot, 0, &mut expected);
        expected
    } else {
        let (earlier, previous) = parents(key, slot);
        let (earlier, previous) = (whole(device, n, earlier)?, whole(device, n, previous)?);
        product(&SlotRule::new(precision, key, n, slot), &earlier, &previous, handle)?
    };
    let wrong = difference(&expected, &found, n, slot);
    Ok(ComparedSlot { wrong, truth: slot_digest(&expected), read: slot_digest(&found) })
}

fn whole(device: &mut dyn Device, n: u32, slot: u32) -> Result<Vec<u8>, DeviceError> {
    device.read_all(&[SlotRange { slot, first_byte: 0, bytes: u64::from(n) * u64::from(n) }])
}

/// A slot from its parents, on all cores.
fn product(rule: &SlotRule, earlier: &[u8], previous: &[u8], handle: &Handle) -> Result<Vec<u8>, DeviceError> {
    let mut out = vec![0; earlier.len()];
    let (n, at_once) = (rule.n() as usize, rule.n() as usize / 8);
    let parts: Vec<_> = (0..).step_by(at_once).zip(out.chunks_mut(at_once * n)).map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while !handle.is_cancelled() {
            let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let (r, rows) = &mut *part.lock();
            product_rows(rule, (earlier, previous), *r, rows);
        }
    };
    thread::scope(|scope| (0..machine::parallelism()).for_each(|_| drop(scope.spawn(work))));
    handle.check()?;
    drop(parts);
    Ok(out)
}

/// The first wrong bit of a slot.
fn difference(expected: &[u8], found: &[u8], n: u32, slot: u32) -> Option<BitLocation> {
    let byte = expected.iter().zip(found).position(|(a, b)| a != b)?;
    let wrong = || expected.iter().zip(found).map(|(a, b)| a ^ b);
    let width = u64::from(n);
    let at = byte as u64;
    Some(BitLocation {
        slot,
        // CAST: a slot has n rows of n bytes.
        row: (at / width) as u32,
        column: (at % width) as u32,
        byte: at,
        bit: (expected[byte] ^ found[byte]).trailing_zeros(),
        expected: expected[byte],
        found: found[byte],
        wrong_bytes: wrong().filter(|bits| *bits != 0).count() as u64,
        wrong_bits: wrong().map(|bits| u64::from(bits.count_ones())).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_device::Pass;
    use assay_kits::reference::{BitFlip, ReferenceDevice};
    use assay_work::DeviceId;

    const KEY: PassKey = PassKey([4; 32]);
    const N: u32 = 256;

    fn filled(flip: Option<BitFlip>) -> ReferenceDevice {
        let mut device = ReferenceDevice::new(DeviceId([1; 16]), "under test", 8 << 16);
        if let Some(flip) = flip {
            device = device.with_flip(flip);
        }
        device
            .fill(&Pass { precision: Precision::Int8, key: KEY, n: N, offset: 0, count: 8 }, &Handle::default())
            .unwrap();
        device
    }

    #[test]
    fn an_honest_slot_is_right() {
        let mut device = filled(None);
        for slot in [0, 1, 2, 7] {
            let judged = judge(&mut device, &KEY, (Precision::Int8, N), slot, &Handle::default()).unwrap();
            assert_eq!((judged.wrong, judged.truth), (None, judged.read), "slot {slot}");
        }
    }

    #[test]
    fn a_flipped_bit_is_found_where_it_is_in_a_product_and_in_a_leaf() {
        let truth = filled(None);
        for (slot, row, column, mask) in [(5, 17, 201, 0x20), (0, 255, 255, 0x81)] {
            let byte = u64::from(row * N + column);
            let mut device = filled(Some(BitFlip { slot, byte, bytes: 1, mask }));
            let location = judge(&mut device, &KEY, (Precision::Int8, N), slot, &Handle::default())
                .unwrap()
                .wrong
                .expect("it is wrong");
            let mut expected = [0];
            truth.clone().read(slot, byte, &mut expected).unwrap();
            assert_eq!((location.slot, location.row, location.column, location.byte), (slot, row, column, byte));
            assert_eq!((location.expected, location.found), (expected[0], expected[0] ^ mask));
            assert_eq!(location.bit, mask.trailing_zeros());
            assert_eq!((location.wrong_bytes, location.wrong_bits), (1, u64::from(mask.count_ones())));
        }
    }

    /// A slot that follows from a wrong one is right given its parents: the first one is to blame.
    #[test]
    fn a_slot_after_the_wrong_one_is_right_given_its_parents() {
        let mut device = filled(Some(BitFlip { slot: 5, byte: 9, bytes: 1, mask: 1 }));
        assert_eq!(judge(&mut device, &KEY, (Precision::Int8, N), 6, &Handle::default()).unwrap().wrong, None);
    }

    #[test]
    fn a_cancelled_comparison_ends() {
        let handle = Handle::default();
        handle.cancel();
        assert_eq!(judge(&mut filled(None), &KEY, (Precision::Int8, N), 3, &handle), Err(DeviceError::Cancelled));
    }
}
