//! The families of product kernels, and which of them a device gets.
//!
//! A new family is a file in `kernels/cuda/`, its PTX in `kernels/ptx/`, and a row here; nothing else names it but the
//! setting, [`KernelChoice`].

use super::config::KernelChoice;
use super::describe::Capability;
use assay_device::accumulator::{OperandFormat, SumFormat};
use assay_work::Precision;

/// The launch parameters of one family's product kernel. The numbers are constants of the kernel's file as well.
#[derive(Debug)]
pub(super) struct KernelFamily {
    pub(super) choice: KernelChoice,
    /// The kernel in the PTX that holds it.
    pub(super) entry: &'static str,
    /// Whether a device can run it.
    pub(super) runs_on: fn(Capability) -> bool,
    /// Its hardware requirement, for people.
    pub(super) needs: &'static str,
    pub(super) format: OperandFormat,
    /// The kinds of work whose operands it holds, and that it is used for.
    pub(super) computes: &'static [Precision],
    pub(super) threads: u32,
    /// Dynamic shared memory of a block.
    pub(super) shared_bytes: u32,
    pub(super) tile_rows: u32,
    pub(super) tile_columns: u32,
    /// Whether a block goes on with another tile, so that there are never more blocks than multiprocessors, and has warps that
    /// hash another slot meanwhile.
    pub(super) is_persistent: bool,
    /// Whether it takes tensor maps of its operands, for the tensor memory accelerator.
    pub(super) takes_tensor_maps: bool,
}

impl KernelFamily {
    pub(super) const fn tiles(&self, n: u32) -> u32 {
        (n / self.tile_rows) * (n / self.tile_columns)
    }

    pub(super) const fn tile_work(&self, precision: Precision, n: u32) -> u64 {
        self.tile_elements() * precision.terms(n) as u64
    }

    pub(super) const fn tile_elements(&self) -> u64 {
        self.tile_rows as u64 * self.tile_columns as u64
    }

    pub(super) const fn sums(&self) -> SumFormat {
        if matches!(self.format, OperandFormat::Int8) { SumFormat::Int32 } else { SumFormat::Float32 }
    }

    /// Whether it computes only after the self-test of its kernel: units with float sums, which may not be exact, and kernels
    /// of which no GPU has shown that they are right.
    pub(super) fn needs_test(&self) -> bool {
        self.sums() == SumFormat::Float32 || self.choice == KernelChoice::Tcgen05Int8Sm100a
    }

    /// Whether a slot's bytes are its operands as they are; those of E2M1 are then halves.
    pub(super) fn takes_slots(&self, precision: Precision) -> bool {
        let own = [(OperandFormat::Int8, Precision::Int8), (OperandFormat::E2m1, Precision::Fp4)];
        own.contains(&(self.format, precision))
    }

    /// Sides of a product whose operands are written out.
    pub(super) fn expanded_sides(&self, precision: Precision) -> u32 {
        match (self.takes_slots(precision), precision.has_rule()) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        }
    }

    /// Bytes of the operands of one byte of a slot.
    pub(super) const fn bytes_per_byte(&self, precision: Precision) -> u32 {
        precision.terms_per_byte() * self.format.bits() as u32 / 8
    }

    /// Operands of a row after which float sums are drained (docs/gpus.md): with operands as random as slots are, no
    /// sum then reaches 2²⁴.
    pub(super) const fn chunk_terms(&self, precision: Precision) -> u32 {
        match precision {
            Precision::F16 => 8192,
            Precision::Fp4 => 65_536,
            _ => 32_768,
        }
    }

    /// The same in bytes of a row of n-by-n operands, at most all of it.
    pub(super) fn chunk_bytes(&self, precision: Precision, n: u32) -> u32 {
        let depth = n * self.bytes_per_byte(precision);
        match self.sums() {
            SumFormat::Int32 => depth,
            SumFormat::Float32 => depth.min(self.format.row_bytes(self.chunk_terms(precision)) as u32),
        }
    }

    /// Whether sums are drained in the middle of a product.
    pub(super) fn drains(&self, precision: Precision, n: u32) -> bool {
        self.chunk_bytes(precision, n) < n * self.bytes_per_byte(precision)
    }

    pub(super) const fn name(&self) -> &'static str {
        self.choice.name()
    }

    /// The name of the PTX that holds it: the kernel's without `assay_`.
    pub(super) fn module(&self) -> &'static str {
        self.entry.trim_start_matches("assay_")
    }
}

/// Kinds of work whose operands fit INT8. Those with a rule are computed by these families alone, whose sums are exact: their
/// expand kernels write INT8.
const BY_INT8: [Precision; 5] = [Precision::Int8, Precision::Fp8, Precision::Fp4, Precision::Field, Precision::Network];

/// Whether a device is data-centre Blackwell, for which PTX of the family sm_100f is.
const fn has_tcgen05(capability: Capability) -> bool {
    capability.major == 10 && matches!(capability.minor, 0 | 3)
}

/// The common values of the families of data-centre Blackwell.
const TCGEN05: KernelFamily = KernelFamily {
    choice: KernelChoice::Tcgen05Bf16Sm100f,
    entry: "assay_product_tcgen05_bf16_sm100f",
    runs_on: has_tcgen05,
    needs: "compute capability 10.0 or 10.3",
    format: OperandFormat::Bf16,
    computes: &[Precision::Int8, Precision::F16],
    threads: 288,
    shared_bytes: 196_608,
    tile_rows: 128,
    tile_columns: 256,
    is_persistent: true,
    takes_tensor_maps: true,
};

/// The common values of the families of Hopper.
const WGMMA: KernelFamily = KernelFamily {
    choice: KernelChoice::WgmmaSm90a,
    entry: "assay_product_wgmma_sm90a",
    // PTX for sm_90a runs on no other architecture, later ones included.
    runs_on: |capability| capability == Capability { major: 9, minor: 0 },
    needs: "compute capability 9.0 exactly",
    format: OperandFormat::Int8,
    computes: &BY_INT8,
    threads: 384,
    shared_bytes: 196_608,
    tile_rows: 128,
    tile_columns: 256,
    is_persistent: true,
    takes_tensor_maps: true,
};

/// The common values of the families by `mma.sync` of 16 rows.
const MMA_SM80: KernelFamily = KernelFamily {
    choice: KernelChoice::MmaSm80,
    entry: "assay_product_mma_sm80",
    runs_on: |capability| capability.major >= 8,
    needs: "compute capability 8.0 or higher",
    format: OperandFormat::Int8,
    computes: &BY_INT8,
    threads: 256,
    shared_bytes: 98_304,
    tile_rows: 128,
    tile_columns: 256,
    is_persistent: false,
    takes_tensor_maps: false,
};

/// The common values of the families for any GPU.
const MMA_SM75: KernelFamily = KernelFamily {
    choice: KernelChoice::MmaSm75,
    entry: "assay_product_mma_sm75",
    runs_on: |_| true,
    needs: "compute capability 7.5 or higher",
    format: OperandFormat::Int8,
    computes: &BY_INT8,
    threads: 256,
    shared_bytes: 32_768,
    tile_rows: 128,
    tile_columns: 128,
    is_persistent: false,
    takes_tensor_maps: false,
};

/// All families, for each kind of work the fastest first, by the makers' figures (docs/gpus.md). Data-centre
/// Blackwell has its rates with `tcgen05` alone. B300 has no INT8 by it, and INT8 by `mma.sync` at a fifteenth of the
/// rate of BF16. FP8 units of cards have no family: none is faster than the card's INT8, and those before Blackwell are not
/// exact.
pub(super) const FAMILIES: &[KernelFamily] = &[
    KernelFamily {
        choice: KernelChoice::Tcgen05Fp4Sm100f,
        entry: "assay_product_tcgen05_fp4_sm100f",
        format: OperandFormat::E2m1,
        computes: &[Precision::Fp4],
        ..TCGEN05
    },
    KernelFamily {
        choice: KernelChoice::Tcgen05Fp8Sm100f,
        entry: "assay_product_tcgen05_fp8_sm100f",
        format: OperandFormat::E4m3,
        computes: &[Precision::Fp8, Precision::Fp4],
        ..TCGEN05
    },
    KernelFamily {
        choice: KernelChoice::Tcgen05Int8Sm100a,
        entry: "assay_product_tcgen05_int8_sm100a",
        // PTX for sm_100a runs on no other architecture.
        runs_on: |capability| capability == Capability { major: 10, minor: 0 },
        needs: "compute capability 10.0 exactly",
        format: OperandFormat::Int8,
        computes: &BY_INT8,
        ..TCGEN05
    },
    TCGEN05,
    KernelFamily {
        choice: KernelChoice::MmaFp4Sm120f,
        entry: "assay_product_mma_fp4_sm120f",
        runs_on: |capability| capability.major == 12,
        needs: "compute capability 12.0 to 12.9",
        format: OperandFormat::E2m1,
        computes: &[Precision::Fp4],
        ..MMA_SM80
    },
    WGMMA,
    MMA_SM80,
    MMA_SM75,
    KernelFamily { choice: KernelChoice::Dp4a, entry: "assay_product_dp4a", shared_bytes: 0, ..MMA_SM75 },
    KernelFamily {
        choice: KernelChoice::WgmmaBf16Sm90a,
        entry: "assay_product_wgmma_bf16_sm90a",
        format: OperandFormat::Bf16,
        computes: &[Precision::F16],
        ..WGMMA
    },
    KernelFamily {
        choice: KernelChoice::MmaBf16Sm80,
        entry: "assay_product_mma_bf16_sm80",
        format: OperandFormat::Bf16,
        computes: &[Precision::F16],
        ..MMA_SM80
    },
    KernelFamily {
        choice: KernelChoice::MmaF16Sm75,
        entry: "assay_product_mma_f16_sm75",
        format: OperandFormat::F16,
        computes: &[Precision::F16],
        ..MMA_SM75
    },
];

/// Whether a multiprocessor holds a block of the digest beside one of a product, if it has the most shared memory that it can
/// have (kernels/cuda/digest.cu): on an A100 97 + 13 of 164 KiB. Where there are 100 KiB, nothing helps.
pub(super) fn shares_multiprocessors(capability: Capability) -> bool {
    capability == Capability { major: 8, minor: 0 }
}

/// The families to try on a device for a kind of work, the best first: the one asked for, if it computes that kind, else
/// all that the device can run.
pub(super) fn candidates(
    precision: Precision,
    choice: KernelChoice,
    capability: Capability,
) -> Vec<&'static KernelFamily> {
    let of_kind = || FAMILIES.iter().filter(|family| family.computes.contains(&precision));
    match of_kind().find(|family| family.choice == choice) {
        Some(asked) => vec![asked],
        None => of_kind().filter(|family| (family.runs_on)(capability)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::challenge::{MAX_N, MIN_N};

    fn names_of(precision: Precision, choice: KernelChoice, major: u32, minor: u32) -> Vec<&'static str> {
        candidates(precision, choice, Capability { major, minor }).into_iter().map(KernelFamily::name).collect()
    }

    fn names(choice: KernelChoice, major: u32, minor: u32) -> Vec<&'static str> {
        names_of(Precision::Int8, choice, major, minor)
    }

    #[test]
    fn each_kind_of_work_has_units_that_hold_its_operands() {
        let auto = KernelChoice::Auto;
        assert_eq!(names_of(Precision::F16, auto, 7, 5), ["mma-f16-sm75"]);
        assert_eq!(names_of(Precision::F16, auto, 8, 9), ["mma-bf16-sm80", "mma-f16-sm75"]);
        assert_eq!(names_of(Precision::F16, auto, 9, 0), ["wgmma-bf16-sm90a", "mma-bf16-sm80", "mma-f16-sm75"]);
        for precision in [Precision::Fp8, Precision::Fp4] {
            // Never the FP8 units of Ada and Hopper.
            assert_eq!(names_of(precision, auto, 8, 9), names(auto, 8, 9));
            assert_eq!(names_of(precision, auto, 9, 0), names(auto, 9, 0));
            let own: &[_] = if precision == Precision::Fp4 { &["mma-fp4-sm120f"] } else { &[] };
            assert_eq!(names_of(precision, auto, 12, 0), [own, &["mma-sm80", "mma-sm75", "dp4a"]].concat());
        }
        for minor in [0, 3] {
            // Only the first of the two has INT8 in tcgen05.
            let own: &[_] = if minor == 0 { &["tcgen05-int8-sm100a"] } else { &[] };
            let plain: &[_] = &["mma-sm80", "mma-sm75", "dp4a"];
            let of = |precision| names_of(precision, auto, 10, minor);
            assert_eq!(of(Precision::Int8), [own, &["tcgen05-bf16-sm100f"], plain].concat());
            assert_eq!(of(Precision::F16), ["tcgen05-bf16-sm100f", "mma-bf16-sm80", "mma-f16-sm75"]);
            assert_eq!(of(Precision::Field), [own, plain].concat());
            assert_eq!(of(Precision::Network), [own, plain].concat());
            assert_eq!(of(Precision::Fp8), [&["tcgen05-fp8-sm100f"], own, plain].concat());
            assert_eq!(of(Precision::Fp4), [&["tcgen05-fp4-sm100f", "tcgen05-fp8-sm100f"], own, plain].concat());
        }
        // A family asked for leaves the kinds that it does not compute to the others.
        assert_eq!(names_of(Precision::F16, KernelChoice::Dp4a, 8, 0), ["mma-bf16-sm80", "mma-f16-sm75"]);
        assert_eq!(names(KernelChoice::MmaBf16Sm80, 8, 0), ["mma-sm80", "mma-sm75", "dp4a"]);
    }

    #[test]
    fn chunks_divide_the_rows_of_operands() {
        let mut n = MIN_N;
        while n <= MAX_N {
            for family in FAMILIES {
                for precision in family.computes {
                    let (chunk, depth) = (family.chunk_bytes(*precision, n), n * family.bytes_per_byte(*precision));
                    assert!(depth.is_multiple_of(chunk) && chunk.is_multiple_of(256), "{family:?}, {n}");
                    assert_eq!(
                        family.drains(*precision, n),
                        *precision == Precision::F16 && n > 8192,
                        "{family:?}, {n}"
                    );
                    // Offsets within a matrix have 32 bits.
                    assert!(u64::from(n) * u64::from(depth) <= 1 << 31);
                }
            }
            n *= 2;
        }
    }

    #[test]
    fn each_architecture_gets_its_own_and_falls_back_to_the_plain_one() {
        let auto = KernelChoice::Auto;
        assert_eq!(names(auto, 7, 5), ["mma-sm75", "dp4a"]);
        // Neighbours of 10.0 and 10.3 whose tensor cores have no tests here.
        for (major, minor) in [(8, 0), (8, 6), (8, 9), (10, 1), (11, 0), (12, 0), (12, 1)] {
            assert_eq!(names(auto, major, minor), ["mma-sm80", "mma-sm75", "dp4a"], "{major}.{minor}");
        }
        assert_eq!(names(auto, 9, 0), ["wgmma-sm90a", "mma-sm80", "mma-sm75", "dp4a"]);
    }

    #[test]
    fn a_family_asked_for_is_the_only_one() {
        assert_eq!(names(KernelChoice::Dp4a, 9, 0), ["dp4a"]);
        assert_eq!(names(KernelChoice::MmaSm75, 12, 0), ["mma-sm75"]);
        // It will be refused with its hardware requirement, not replaced.
        assert_eq!(names(KernelChoice::WgmmaSm90a, 8, 0), ["wgmma-sm90a"]);
    }

    #[test]
    fn tiles_fill_every_matrix() {
        for family in FAMILIES {
            let mut n = MIN_N;
            while n <= MAX_N {
                assert!(n.is_multiple_of(family.tile_rows) && n.is_multiple_of(family.tile_columns), "{family:?}");
                for precision in Precision::OF_BYTES {
                    let work = u64::from(family.tiles(n)) * family.tile_work(precision, n);
                    assert_eq!(work, precision.multiply_accumulates_of_product(n), "{family:?}");
                }
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
