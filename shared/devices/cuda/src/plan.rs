//! How a pass's memory is laid out, and how many slots fit.

use super::driver::DeviceMemory;
pub(super) use assay_device::resident::{HASH_BYTES, STATE_BYTES};
use assay_device::resident::{MAX_STATES_BYTES, SLOTS_PER_STATES, Slots, max_slots};
use assay_work::probe::sums_bytes;
pub(super) use assay_work::tree::CHUNK_BYTES;

/// Every piece starts at a multiple of this.
const ALIGNMENT: u64 = 256;
/// The driver gives memory in pages of this size.
const PAGE_BYTES: u64 = 2 << 20;
/// The most of free memory that is used, in percent: the driver takes some for itself as kernels run.
const MAX_PERCENT: u64 = 97;
/// A counter of arrivals.
pub(super) const COUNTER_BYTES: u64 = 4;
/// Values that a warp merges to one.
const MERGED: u64 = 32;
/// Chunks that a block of the digest kernel takes.
pub(super) const BLOCK_CHUNKS: u64 = 128;

/// A range of the scratch memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProductBand {
    /// The first byte, in the scratch memory.
    pub(super) first: u64,
    pub(super) bytes: u64,
}

impl ProductBand {
    /// Its address on the device.
    ///
    /// # Panics
    /// When it does not lie in `memory`.
    pub(super) fn address(self, memory: &DeviceMemory) -> u64 {
        assert!(self.first + self.bytes <= memory.bytes(), "a piece of the scratch memory");
        memory.address() + self.first
    }
}

/// The memory of products besides slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ProductRoom {
    /// Operands that are no bytes of slots: those of two slots, or of one.
    pub(super) operands_bytes: u64,
    /// Sums that are drained in the middle of a product.
    pub(super) sums_bytes: u64,
}

impl ProductRoom {
    /// Room for either product.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            operands_bytes: self.operands_bytes.max(other.operands_bytes),
            sums_bytes: self.sums_bytes.max(other.sums_bytes),
        }
    }
}

/// The memory of `count` n-by-n slots and of the buffers of a pass, openings and a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryLayout {
    pub(super) n: u32,
    pub(super) count: u32,
    /// The digests of all slots.
    pub(super) digests: ProductBand,
    /// The digest of a round of a probe, or of the sweep.
    pub(super) round_digest: ProductBand,
    /// The hashes that the digest kernel's blocks leave for one another, for a slot, for states or for sums.
    pub(super) partials: ProductBand,
    /// How many of its blocks have ended; behind that the counters of digests beside products.
    pub(super) arrivals: ProductBand,
    /// Chaining values of all chunks of a slot, or of those that a product's warps leave for one another; the weights of a
    /// round of the sweep, which are shorter: n ≤ n² / 32.
    pub(super) values: ProductBand,
    /// The expanded operands of two slots.
    pub(super) operands: ProductBand,
    pub(super) sums: ProductBand,
    pub(super) scratch_bytes: u64,
    /// The states that are taken with the slots, or the sums where these are longer.
    pub(super) states_bytes: u64,
}

impl MemoryLayout {
    /// The layout for `count` n-by-n slots and products that need `room`.
    pub(super) const fn new(n: u32, count: u32, room: ProductRoom) -> Self {
        let slots = Slots { n, count };
        let slot_bytes = slots.slot_bytes();
        // Sums take 4/n of the slots, and up to twice that with zeros: n ≥ 256, so 1/32 at most, and of the fewest slots
        // 4096 bytes of 3 · 2¹⁶. States take 1/8, but no more than the largest, which sums of small slots exceed from
        // 8 GiB of slots on.
        let (states, sums) = (least(MAX_STATES_BYTES, aligned(slots.bytes() / SLOTS_PER_STATES)), sums_bytes(n, count));
        let states_bytes = most(states, sums);
        let hashed_bytes = most(most(slot_bytes, MAX_STATES_BYTES), sums);
        let digests = ProductBand { first: 0, bytes: count as u64 * HASH_BYTES };
        let round_digest = after(digests, HASH_BYTES);
        let partials = after(round_digest, partials_bytes(hashed_bytes));
        let arrivals = after(partials, COUNTER_BYTES + counters_bytes(slot_bytes));
        let values = after(arrivals, slot_bytes / CHUNK_BYTES * HASH_BYTES);
        let operands = after(values, room.operands_bytes);
        let sums = after(operands, room.sums_bytes);
        let scratch_bytes = aligned(sums.first + sums.bytes);
        Self {
            n,
            count,
            digests,
            round_digest,
            partials,
            arrivals,
            values,
            operands,
            sums,
            scratch_bytes,
            states_bytes,
        }
    }

    pub(super) const fn slots(&self) -> Slots {
        Slots { n: self.n, count: self.count }
    }

    pub(super) const fn slot_bytes(&self) -> u64 {
        self.slots().slot_bytes()
    }

    pub(super) const fn slots_bytes(&self) -> u64 {
        self.slots().bytes()
    }

    /// Bytes that all of it takes of the device, in whole pages.
    pub(super) const fn total_bytes(&self) -> u64 {
        paged(self.slots_bytes()) + paged(self.scratch_bytes) + paged(self.states_bytes)
    }
}

/// How many n-by-n slots fit into `free_bytes`, of which a share stays unused, beside `room`.
pub(super) fn slots_that_fit(n: u32, room: ProductRoom, free_bytes: u64) -> u32 {
    let usable = usable_bytes(free_bytes);
    max_slots(|count| MemoryLayout::new(n, count, room).total_bytes() <= usable)
}

/// The part of free memory that is used at most.
pub(super) const fn usable_bytes(free_bytes: u64) -> u64 {
    free_bytes / 100 * MAX_PERCENT
}

/// Bytes that memory of this size takes of the device.
pub(super) const fn paged(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// Bytes of the counters of a digest beside a product (`beside.cuh`): one for every 32 values of each level, of which the
/// first has one for every 32 chunks.
const fn counters_bytes(slot_bytes: u64) -> u64 {
    let mut counters = 0;
    let mut values = slot_bytes / CHUNK_BYTES / MERGED;
    while values > 1 {
        values = values.div_ceil(MERGED);
        counters += values;
    }
    counters * COUNTER_BYTES
}

/// Bytes of the hashes that the digest kernel's blocks leave, for a string of this size.
const fn partials_bytes(string_bytes: u64) -> u64 {
    string_bytes.div_ceil(CHUNK_BYTES * BLOCK_CHUNKS) * HASH_BYTES
}

const fn after(piece: ProductBand, bytes: u64) -> ProductBand {
    ProductBand { first: aligned(piece.first + piece.bytes), bytes }
}

const fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

const fn least(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

const fn most(a: u64, b: u64) -> u64 {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::challenge::MAX_TOTAL;

    fn room(n: u32) -> ProductRoom {
        ProductRoom { operands_bytes: 4 * u64::from(n) * u64::from(n), sums_bytes: 40 << 20 }
    }

    #[test]
    fn digests_beside_products_have_a_counter_for_every_32_values() {
        let counters = |n: u64| counters_bytes(n * n) / COUNTER_BYTES;
        let expected = [1, 1, 1, 4 + 1, 16 + 1, 64 + 2 + 1, 256 + 8 + 1, 1024 + 32 + 1];
        assert_eq!([256, 512, 1024, 2048, 4096, 8192, 16384, 32768].map(counters), expected);
    }

    #[test]
    fn pieces_follow_one_another_and_stay_inside() {
        for (n, count) in [(256, 3), (256, 1 << 20), (8192, 1000), (32_768, 3)] {
            let layout = MemoryLayout::new(n, count, room(n));
            let MemoryLayout { digests, round_digest, partials, arrivals, values, operands, sums, .. } = layout;
            let pieces = [digests, round_digest, partials, arrivals, values, operands, sums];
            for pair in pieces.windows(2) {
                assert!(pair[0].first + pair[0].bytes <= pair[1].first, "{layout:?}");
                assert!(pair[1].first.is_multiple_of(ALIGNMENT));
            }
            assert!(layout.sums.first + layout.sums.bytes <= layout.scratch_bytes);
            assert_eq!(layout.digests.bytes, u64::from(count) * 32);
            assert!(layout.values.bytes >= u64::from(n), "weights");
            assert!(layout.states_bytes >= sums_bytes(n, count), "sums");
            // 8 words for each block, for a slot, for the largest states and for the sums.
            assert!(layout.partials.bytes >= sums_bytes(n, count) / 131_072 * 32);
            assert!(layout.partials.bytes >= layout.slot_bytes() / 131_072 * 32);
            assert!(layout.partials.bytes >= MAX_STATES_BYTES / 131_072 * 32);
        }
    }

    #[test]
    fn what_fits_fits_and_one_more_does_not() {
        for n in [256, 1024, 8192, 32_768] {
            for free in [16 << 20, 200 << 20, 8 << 30, 80 << 30, 180_u64 << 30] {
                let fit = slots_that_fit(n, room(n), free);
                let total = |count| MemoryLayout::new(n, count, room(n)).total_bytes();
                assert!(fit == 0 || total(fit) <= usable_bytes(free), "n = {n}, {free}");
                assert!(fit == MAX_TOTAL as u32 || total(fit + 1) > usable_bytes(free), "n = {n}, {free}");
            }
        }
        assert_eq!(slots_that_fit(256, room(256), 0), 0);
        assert_eq!(slots_that_fit(256, room(256), u64::MAX), MAX_TOTAL as u32);
    }

    #[test]
    fn most_of_a_large_device_goes_to_slots() {
        // The expanded operands of a product and of the next one take room for some slots, which few large ones feel.
        for (n, percent) in [(1024, 96), (8192, 96), (16_384, 95)] {
            let slots = u64::from(slots_that_fit(n, room(n), 80 << 30)) * u64::from(n) * u64::from(n);
            assert!(slots >= (80_u64 << 30) / 100 * percent, "n = {n}: {slots}");
        }
    }
}
