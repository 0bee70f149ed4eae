//! The peak rate: the multiply instruction with all operands in registers.

/// Turns of the loops below: some tens of milliseconds.
#[cfg(target_arch = "x86_64")]
const TURNS: u64 = 5_000_000;

/// A loop that multiplies and adds without leaving the registers.
#[derive(Debug, Clone, Copy)]
pub struct RegisterLoop {
    /// The instruction.
    pub instruction: &'static str,
    /// Multiplications and additions that one run does on one thread.
    pub operations: u64,
    /// One run on the calling thread: some tens of milliseconds.
    pub run: fn(),
}

impl RegisterLoop {
    /// The loop of this processor's widest multiply instruction; `None` where it has no `vpdpbusd`.
    #[must_use]
    pub fn of_this_processor() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512vnni") {
                // SAFETY: the processor has the features.
                let run = || unsafe { zmm_loop(TURNS) };
                return Some(Self { instruction: "vpdpbusd zmm", operations: TURNS * 16 * 64 * 2, run });
            }
            if is_x86_feature_detected!("avxvnni") {
                // SAFETY: the processor has the features.
                let run = || unsafe { ymm_loop(TURNS) };
                return Some(Self { instruction: "vpdpbusd ymm", operations: TURNS * 12 * 32 * 2, run });
            }
        }
        None
    }

    /// Runs it on some threads at once and waits for all. Gives the operations done.
    #[must_use]
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

/// 16 independent sums: more than the instruction's latency times the units that a core has.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn zmm_loop(turns: u64) {
    use std::arch::x86_64::{_mm512_set1_epi8, _mm512_setzero_si512};
    let (a, b) = (_mm512_set1_epi8(3), _mm512_set1_epi8(-5));
    let mut sums = [_mm512_setzero_si512(); 16];
    for _ in 0..turns {
        for sum in &mut sums {
            // SAFETY: only the registers named are read and written; the caller saw to the feature.
            unsafe {
                std::arch::asm!("vpdpbusd {s}, {a}, {b}", s = inout(zmm_reg) *sum, a = in(zmm_reg) a, b = in(zmm_reg) b,
                    options(nomem, nostack, preserves_flags));
            }
        }
    }
    std::hint::black_box(sums);
}

/// As above, on half the width.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn ymm_loop(turns: u64) {
    use std::arch::x86_64::{_mm256_set1_epi8, _mm256_setzero_si256};
    let (a, b) = (_mm256_set1_epi8(3), _mm256_set1_epi8(-5));
    let mut sums = [_mm256_setzero_si256(); 12];
    for _ in 0..turns {
        for sum in &mut sums {
            // SAFETY: only the registers named are read and written; the caller saw to the feature.
            unsafe {
                std::arch::asm!("{{vex}} vpdpbusd {s}, {a}, {b}", s = inout(ymm_reg) *sum, a = in(ymm_reg) a,
                    b = in(ymm_reg) b, options(nomem, nostack, preserves_flags));
            }
        }
    }
    std::hint::black_box(sums);
}
