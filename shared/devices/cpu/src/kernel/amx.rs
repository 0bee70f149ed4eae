//! The kernel for AMX: `tdpbssd`, 16 × 16 sums and 16,384 multiply-accumulates an instruction. F16 is computed as by
//! the kernel for AVX-512.
//!
//! Formula: `tdpbssd` multiplies signed by signed bytes, so nothing is corrected.
//! Layout: a panel of X is `[κ / 64][32][64]` bytes, one of Y `[κ / 4][32][4]`, as AVX-512's: a tile register of X holds
//! 16 rows of 64 bytes, one of Y 16 groups of 4 operands of 16 columns.
//! Tile: 32 × 32, 4 tile registers of sums, 2 of X and 2 of Y: 4 loads for 4 `tdpbssd`.
//! Exact: |C| ≤ κ · P < 2³¹ fits a sum, and so does every partial sum; the mixing step wraps mod 2³².
//!
//! Tile registers are configured and released within one block of assembly: the compiler knows nothing of them, and a
//! thread that is not multiplying has no tile state to be saved.
//!
//! Written against Intel's manual (volume 1, chapter 18; `tdpbssd`, `ldtilecfg`) and Linux's
//! Documentation/arch/x86/xstate.rst. No processor that has AMX has run it yet: it is used where it
//! [qualifies](super::qualify).

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::OnceLock;

use super::super::{row_sums, walk};
use super::avx512::{self, PLAIN};
use super::{FP4, FP8, INT8, Kernel, KernelKind, PackX, ROW_GROUP, Tile, TileKernel, pack};

const ROWS: usize = 32;
const COLUMNS: usize = 32;
/// Operands of a row that a tile register of X holds.
const STEP: usize = 64;

const _: () = assert!(ROW_GROUP == ROWS && ROW_GROUP == COLUMNS);

pub(super) const KERNEL: Kernel = Kernel {
    kind: KernelKind::AmxInt8,
    products: [of_bytes::<INT8>(), avx512::F16_PRODUCT, of_bytes::<FP8>(), of_bytes::<FP4>()],
    walk: walk::avx512,
    sum_rows: row_sums::avx512,
};

const fn of_bytes<const KIND: usize>() -> TileKernel {
    TileKernel::of_bytes(KIND, [ROWS, COLUMNS], pack_x::<KIND>, avx512::pack_y::<KIND, PLAIN>, tile)
}

/// Whether the processor has AMX for bytes, and the system lets this process use it. Asked of the system once: it then
/// saves 8 KiB more for each thread that uses tiles.
pub(super) fn is_available() -> bool {
    /// Bits of EDX of CPUID leaf 7: AMX-TILE and AMX-INT8.
    const TILE_AND_INT8: u32 = 1 << 24 | 1 << 25;
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        #[allow(unused_unsafe)] // the intrinsic is safe in newer versions of Rust
        // SAFETY: every x86-64 has CPUID, and one with AVX-512 has leaf 7.
        let features = || unsafe { __cpuid_count(7, 0) }.edx;
        avx512::is_available() && features() & TILE_AND_INT8 == TILE_AND_INT8 && permitted()
    })
}

/// Asks Linux for the state of tiles. It refuses when the processor or the kernel does not support them.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call takes two numbers and no memory.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// # Safety
/// The processor has the features; as [`PackX`] says of its fields.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn pack_x<const KIND: usize>(p: &PackX) {
    // SAFETY: the caller's promises, passed on.
    unsafe { pack::pack_x::<u8, KIND, STEP, false>(p) };
}

/// The operand of `ldtilecfg`.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Bytes of a row of each tile register; 8 of 16 exist.
    row_bytes: [u16; 16],
    /// Rows of each tile register.
    rows: [u8; 16],
}

const _: () = assert!(size_of::<TileConfig>() == 64);

/// Eight tile registers of 16 rows of 64 bytes.
static CONFIG: TileConfig = TileConfig {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// # Safety
/// The processor has the features, and the system permits tiles; as [`Tile`] says of its fields.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn tile(t: &Tile) {
    debug_assert_eq!(t.rows, ROWS, "row blocks are multiples of 32");
    let mut sums = [[_mm512_setzero_si512(); 2]; ROWS];
    // SAFETY: both panels have 2048 bytes for each of the steps, at least one; the sums are 32 rows of 128 bytes. Tile
    // registers are used within the block alone.
    unsafe {
        asm!(
            "ldtilecfg [{config}]",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{x} + {x_stride}*1]",
            "tileloadd tmm6, [{y} + {y_stride}*1]",
            "tileloadd tmm7, [{y} + {y_stride}*1 + 64]",
            "tdpbssd tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{x} + {x_stride}*1 + 1024]",
            "tdpbssd tmm1, tmm4, tmm7",
            "tdpbssd tmm2, tmm5, tmm6",
            "tdpbssd tmm3, tmm5, tmm7",
            "add {x}, 2048",
            "add {y}, 2048",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{sums} + {y_stride}*1], tmm0",
            "tilestored [{sums} + {y_stride}*1 + 64], tmm1",
            "tilestored [{sums} + {y_stride}*1 + 2048], tmm2",
            "tilestored [{sums} + {y_stride}*1 + 2112], tmm3",
            "tilerelease",
            config = in(reg) &raw const CONFIG,
            x = inout(reg) t.x => _,
            y = inout(reg) t.y => _,
            steps = inout(reg) t.length / STEP => _,
            x_stride = in(reg) STEP,
            // Of a group of 4 operands of 32 columns, and of a row of 32 sums.
            y_stride = in(reg) 128_usize,
            sums = in(reg) &raw mut sums,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
        avx512::finish(t, &sums);
    }
}
