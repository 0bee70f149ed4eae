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
    /// The kernel's struct ends at a multiple of its alignment.
    padding: u32,
}

/// The size that the kernel's file asserts as well.
const _: () = assert!(size_of::<Product>() == 64);

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
