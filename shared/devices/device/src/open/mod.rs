//! Building openings (WORK.md, Openings) from any device, for a validator's draws.
//!
//! All kinds are built in two steps. Planning finds every range and its siblings, slot by slot, so that the
//! chaining values of a slot are computed once and those of one slot are held at a time. Opening then reads the
//! bytes of one sample or segment, so that a caller can send it before the next is read.

mod linked;
mod samples;
mod segments;
mod sums;

pub use linked::{LinkedPlan, LinkedSegment, OpenedLinkedProbe, SegmentPiece, join_segment};
pub use samples::{AuditedPass, SamplePlan, open_samples};
pub use segments::{ProbedDevice, SegmentPlan, open_segments};
pub use sums::{SumPlan, SweptDevice, open_sums};

use super::device::{Device, Handle, SlotRange};
use super::error::DeviceError;
use assay_work::tree::{CHUNK_BYTES, Tree};
use assay_work::{ChainingValue, Digest};

/// The siblings of each range, in the same order. The slots are gone through one by one; each must still hash to
/// its digest.
fn siblings_of(
    device: &mut dyn Device,
    n: u32,
    slot_digests: &[Digest],
    ranges: &[SlotRange],
    handle: &Handle,
) -> Result<Vec<Vec<ChainingValue>>, DeviceError> {
    let mut by_slot: Vec<usize> = (0..ranges.len()).collect();
    by_slot.sort_by_key(|&i| ranges[i].slot);
    let mut siblings = vec![Vec::new(); ranges.len()];
    for of_slot in by_slot.chunk_by(|&a, &b| ranges[a].slot == ranges[b].slot) {
        handle.check()?;
        let slot = ranges[of_slot[0]].slot;
        let shortest = of_slot.iter().map(|&i| ranges[i].bytes).min().unwrap_or(CHUNK_BYTES);
        let tree = slot_tree(device, (n, shortest), slot, &slot_digests[slot as usize])?;
        for &i in of_slot {
            let SlotRange { first_byte, bytes, .. } = ranges[i];
            let mut from_shortest = tree.siblings((first_byte / shortest) as usize);
            siblings[i] = from_shortest.split_off((bytes / shortest).ilog2() as usize);
        }
    }
    Ok(siblings)
}

/// The tree of a resident slot above its ranges of a length.
fn slot_tree(
    device: &mut dyn Device,
    (n, range_bytes): (u32, u64),
    slot: u32,
    digest: &Digest,
) -> Result<Tree, DeviceError> {
    let values: Vec<_> = device.chaining_values(slot, range_bytes)?.into_iter().map(ChainingValue).collect();
    let expected = u64::from(n) * u64::from(n) / range_bytes;
    if values.len() as u64 != expected {
        return Err(DeviceError::Sick(format!("slot {slot} gave {} chaining values, not {expected}", values.len())));
    }
    let tree = Tree::new(values);
    if tree.digest() != *digest {
        return Err(DeviceError::Sick(format!("slot {slot} no longer hashes to its digest")));
    }
    Ok(tree)
}
