//! The peak rate: the multiply instruction with all operands in registers.

use assay_work::Precision;

/// Turns of the loops below: some tens of milliseconds.
#[cfg(target_arch = "x86_64")]
const TURNS: u64 = 5_000_000;

/// A loop that multiplies and adds without leaving the registers.
#[derive(Debug, Clone, Copy)]
pub struct RegisterLoop {
    pub instruction: &'static str,
    /// Multiplications and additions that one run does on one thread.
    pub operations: u64,
    /// One run on the calling thread: some tens of milliseconds.
    pub run: fn(),
}

impl RegisterLoop {
    /// The loop of this processor's widest vector instruction for a kind of work: `vpdpwssd` for F16, `vpdpbusd` for
    /// the others. `None` where it has neither.
    pub fn of_this_processor(precision: Precision) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return x86::of_this_processor(precision == Precision::F16);
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = precision;
            None
        }
    }

    /// Runs it on some threads at once and waits for all. Gives the operations done.
    pub fn run_on(&self, threads: usize) -> u64 {
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(self.run);
            }
            (self.run)();
        });
        threads as u64 * self.operations
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{_mm256_set1_epi8, _mm256_setzero_si256, _mm512_set1_epi8, _mm512_setzero_si512};

    use super::{RegisterLoop, TURNS};

    /// Sums of a loop on 512 bits: more than the instruction's latency times the units that a core has.
    const ZMM_SUMS: usize = 16;
    /// Sums of a loop on 256 bits.
    const YMM_SUMS: usize = 12;

    pub(super) fn of_this_processor(words: bool) -> Option<RegisterLoop> {
        let (instruction, run, sums, bytes): (_, fn(), usize, u64) = if is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the processor has the features.
            let (of_bytes, of_words): (fn(), fn()) = (|| unsafe { zmm_bytes() }, || unsafe { zmm_words() });
            (["vpdpbusd zmm", "vpdpwssd zmm"], if words { of_words } else { of_bytes }, ZMM_SUMS, 64)
        } else if is_x86_feature_detected!("avxvnni") {
            // SAFETY: the processor has the features.
            let (of_bytes, of_words): (fn(), fn()) = (|| unsafe { ymm_bytes() }, || unsafe { ymm_words() });
            (["vpdpbusd ymm", "vpdpwssd ymm"], if words { of_words } else { of_bytes }, YMM_SUMS, 32)
        } else {
            return None;
        };
        let operands = if words { bytes / 2 } else { bytes };
        let operations = TURNS * sums as u64 * operands * 2;
        Some(RegisterLoop { instruction: instruction[usize::from(words)], operations, run })
    }

    /// A loop over independent sums.
    macro_rules! register_loop {
        ($name:ident, $features:literal, $class:ident, $sums:expr, $set:ident, $zero:ident, $instruction:literal) => {
            #[target_feature(enable = $features)]
            unsafe fn $name() {
                let (a, b) = ($set(3), $set(-5));
                let mut sums = [$zero(); $sums];
                for _ in 0..TURNS {
                    for sum in &mut sums {
                        // SAFETY: only the registers named are read and written; the caller saw to the feature.
                        unsafe {
                            asm!($instruction, s = inout($class) *sum, a = in($class) a, b = in($class) b,
                                options(nomem, nostack, preserves_flags));
                        }
                    }
                }
                std::hint::black_box(sums);
            }
        };
    }

    register_loop!(
        zmm_bytes,
        "avx512f,avx512vnni",
        zmm_reg,
        ZMM_SUMS,
        _mm512_set1_epi8,
        _mm512_setzero_si512,
        "vpdpbusd {s}, {a}, {b}"
    );
    register_loop!(
        zmm_words,
        "avx512f,avx512vnni",
        zmm_reg,
        ZMM_SUMS,
        _mm512_set1_epi8,
        _mm512_setzero_si512,
        "vpdpwssd {s}, {a}, {b}"
    );
    register_loop!(
        ymm_bytes,
        "avx2,avxvnni",
        ymm_reg,
        YMM_SUMS,
        _mm256_set1_epi8,
        _mm256_setzero_si256,
        "{{vex}} vpdpbusd {s}, {a}, {b}"
    );
    register_loop!(
        ymm_words,
        "avx2,avxvnni",
        ymm_reg,
        YMM_SUMS,
        _mm256_set1_epi8,
        _mm256_setzero_si256,
        "{{vex}} vpdpwssd {s}, {a}, {b}"
    );
}
