//! One launch of a product, as its kernel takes it.

/// The argument of every product kernel (docs/KERNELS.md, Kernel interfaces; `assay::Product` in
/// kernels/cuda/product.cuh). Addresses are of the device.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Product {
    /// Operands of the slot's parent, `[n][depth]` bytes.
    pub(super) left: u64,
    /// Operands of the slot before it, the same.
    pub(super) right: u64,
    /// The first byte of the computed slot.
    pub(super) slot: u64,
    /// Memory for raw sums and for the sums of chunks; 0 without either.
    pub(super) sums: u64,
    pub(super) n: u32,
    /// Bytes of a row of operands.
    pub(super) depth: u32,
    /// After how many bytes of the inner dimension float sums are drained. It divides `depth`.
    pub(super) chunk: u32,
    /// 1 to store the unit's own sums in place of the mixed slot.
    pub(super) raw: u32,
    pub(super) u: u32,
    pub(super) first_tile: u32,
    pub(super) tiles: u32,
    padding: u32,
    pub(super) hashed: HashedSlot,
}

/// A slot that idle warps of a product hash (kernels/cuda/beside.cuh): addresses, all 0 without one.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct HashedSlot {
    pub(super) slot: u64,
    /// 32 bytes for each 32768 of the slot.
    pub(super) partials: u64,
    /// A word that is 0 and that nothing else uses meanwhile.
    pub(super) arrivals: u64,
    pub(super) digest: u64,
}

/// The size that the kernel's file asserts as well.
const _: () = assert!(size_of::<Product>() == 96);

impl Product {
    /// All of slot `u`, from operands that are bytes of its parents' slots. Slot 0 starts at `slots`.
    pub(super) const fn of_slots(slots: u64, n: u32, (earlier, previous): (u32, u32), u: u32, tiles: u32) -> Self {
        let slot_bytes = n as u64 * n as u64;
        Self {
            left: slots + earlier as u64 * slot_bytes,
            right: slots + previous as u64 * slot_bytes,
            slot: slots + u as u64 * slot_bytes,
            sums: 0,
            n,
            depth: n,
            chunk: n,
            raw: 0,
            u,
            first_tile: 0,
            tiles,
            padding: 0,
            hashed: HashedSlot { slot: 0, partials: 0, arrivals: 0, digest: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_any_number_lie_one_behind_the_other() {
        let product = Product::of_slots(1 << 40, 32_768, (70, 9000), 9001, 1);
        let places = [product.left, product.right, product.slot].map(|address| (address - (1 << 40)) >> 30);
        assert_eq!(places, [70, 9000, 9001]);
    }
}
