//! The families of product kernels, and which of them a device gets.
//!
//! A new family is a file in `kernels/cuda/`, its PTX in `kernels/ptx/`, and a row here; nothing else names it but the
//! setting, [`KernelChoice`].

use super::config::KernelChoice;
use super::describe::Capability;

/// The launch parameters of one family's product kernel. The numbers are constants of the kernel's file as well.
#[derive(Debug)]
pub(super) struct Family {
    /// Its name in the settings.
    pub(super) choice: KernelChoice,
    /// The PTX that holds it.
    pub(super) module: &'static str,
    /// The kernel in it.
    pub(super) entry: &'static str,
    /// Whether a device can run it.
    pub(super) runs_on: fn(Capability) -> bool,
    /// Its hardware requirement, for people.
    pub(super) needs: &'static str,
    /// Threads of a block.
    pub(super) threads: u32,
    /// Dynamic shared memory of a block.
    pub(super) shared_bytes: u32,
    /// Rows of a tile.
    pub(super) tile_rows: u32,
    /// Columns of a tile.
    pub(super) tile_columns: u32,
    /// Whether a block goes on with another tile, so that there are never more blocks than multiprocessors.
    pub(super) is_persistent: bool,
    /// Whether it takes tensor maps of its operands, for the tensor memory accelerator.
    pub(super) takes_tensor_maps: bool,
}

impl Family {
    /// Tiles of an n-by-n product.
    pub(super) const fn tiles(&self, n: u32) -> u32 {
        (n / self.tile_rows) * (n / self.tile_columns)
    }

    /// Multiply-accumulates of a tile.
    pub(super) const fn tile_work(&self, n: u32) -> u64 {
        self.tile_rows as u64 * self.tile_columns as u64 * n as u64
    }

    /// Whether a multiprocessor holds a block of the digest beside one of this product, if it has the most shared memory
    /// that it can have (kernels/cuda/digest.cu): on an A100 97 + 13 of 164 KiB. Where there are 100 KiB, nothing helps.
    pub(super) fn shares_multiprocessor(&self, capability: Capability) -> bool {
        self.choice == KernelChoice::MmaSm80 && capability == Capability { major: 8, minor: 0 }
    }

    /// Its name.
    pub(super) const fn name(&self) -> &'static str {
        self.choice.name()
    }
}

/// All families, the fastest first.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        choice: KernelChoice::WgmmaSm90a,
        module: "product_wgmma_sm90a",
        entry: "assay_product_wgmma_sm90a",
        // PTX for sm_90a runs on no other architecture, later ones included.
        runs_on: |capability| capability == Capability { major: 9, minor: 0 },
        needs: "compute capability 9.0 exactly",
        threads: 384,
        shared_bytes: 196_608,
        tile_rows: 128,
        tile_columns: 256,
        is_persistent: true,
        takes_tensor_maps: true,
    },
    Family {
        choice: KernelChoice::MmaSm80,
        module: "product_mma_sm80",
        entry: "assay_product_mma_sm80",
        runs_on: |capability| capability.major >= 8,
        needs: "compute capability 8.0 or higher",
        threads: 256,
        shared_bytes: 98_304,
        tile_rows: 128,
        tile_columns: 256,
        is_persistent: false,
        takes_tensor_maps: false,
    },
    Family {
        choice: KernelChoice::MmaSm75,
        module: "product_mma_sm75",
        entry: "assay_product_mma_sm75",
        runs_on: |_| true,
        needs: "compute capability 7.5 or higher",
        threads: 256,
        shared_bytes: 32_768,
        tile_rows: 128,
        tile_columns: 128,
        is_persistent: false,
        takes_tensor_maps: false,
    },
    Family {
        choice: KernelChoice::Dp4a,
        module: "product_dp4a",
        entry: "assay_product_dp4a",
        runs_on: |_| true,
        needs: "compute capability 7.5 or higher",
        threads: 256,
        shared_bytes: 0,
        tile_rows: 128,
        tile_columns: 128,
        is_persistent: false,
        takes_tensor_maps: false,
    },
];

/// The families to try on a device, the best first: for `auto` all that it can run, else the one asked for.
pub(super) fn candidates(choice: KernelChoice, capability: Capability) -> Vec<&'static Family> {
    let wanted = |family: &&Family| match choice {
        KernelChoice::Auto => (family.runs_on)(capability),
        asked => family.choice == asked,
    };
    FAMILIES.iter().filter(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::challenge::{MAX_N, MIN_N};

    fn names(choice: KernelChoice, major: u32, minor: u32) -> Vec<&'static str> {
        candidates(choice, Capability { major, minor }).into_iter().map(Family::name).collect()
    }

    #[test]
    fn each_architecture_gets_its_own_and_falls_back_to_the_plain_one() {
        let auto = KernelChoice::Auto;
        assert_eq!(names(auto, 7, 5), ["mma-sm75", "dp4a"]);
        for (major, minor) in [(8, 0), (8, 6), (8, 9), (10, 0), (10, 3), (12, 0), (12, 1)] {
            assert_eq!(names(auto, major, minor), ["mma-sm80", "mma-sm75", "dp4a"], "{major}.{minor}");
        }
        assert_eq!(names(auto, 9, 0), ["wgmma-sm90a", "mma-sm80", "mma-sm75", "dp4a"]);
    }

    #[test]
    fn a_family_asked_for_is_the_only_one() {
        assert_eq!(names(KernelChoice::Dp4a, 9, 0), ["dp4a"]);
        assert_eq!(names(KernelChoice::MmaSm75, 12, 0), ["mma-sm75"]);
        // It will be refused with what it needs, not replaced.
        assert_eq!(names(KernelChoice::WgmmaSm90a, 8, 0), ["wgmma-sm90a"]);
    }

    #[test]
    fn tiles_fill_every_matrix() {
        for family in FAMILIES {
            let mut n = MIN_N;
            while n <= MAX_N {
                assert!(n.is_multiple_of(family.tile_rows) && n.is_multiple_of(family.tile_columns), "{family:?}");
                let work = u64::from(family.tiles(n)) * family.tile_work(n);
                assert_eq!(work, u64::from(n).pow(3), "{family:?}");
                n *= 2;
            }
        }
    }

    /// A block's threads and shared memory are within what each architecture allows (CUDA's programming guide, table
    /// of technical specifications).
    #[test]
    fn blocks_fit_their_architecture() {
        for family in FAMILIES {
            let most = if (family.runs_on)(Capability { major: 7, minor: 5 }) {
                64 << 10
            } else if (family.runs_on)(Capability { major: 8, minor: 6 }) {
                99 << 10
            } else {
                227 << 10
            };
            assert!(family.shared_bytes <= most && family.threads <= 1024, "{family:?}");
        }
    }
}
