//! The machine's limits: the rate of `vpdpbusd` with all operands in registers, and of random reads.

use crate::clock::Clock;

/// Turns of the loop below in one measurement: some tens of milliseconds.
const TURNS: u64 = 5_000_000;

/// Multiplications and additions a second, in Gop/s, that `threads` threads reach when nothing leaves the
/// registers; `None` where the processor has no `vpdpbusd`.
pub fn multiply_gops(clock: Clock, threads: usize) -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512vnni") {
            return Some(gops(clock, threads, 16.0 * 64.0 * 2.0, || {
                // SAFETY: the processor has the feature.
                unsafe { zmm_loop(TURNS) }
            }));
        }
        if is_x86_feature_detected!("avxvnni") {
            return Some(gops(clock, threads, 12.0 * 32.0 * 2.0, || {
                // SAFETY: the processor has the feature.
                unsafe { ymm_loop(TURNS) }
            }));
        }
    }
    let _ = (clock, threads);
    None
}

#[cfg(target_arch = "x86_64")]
fn gops(clock: Clock, threads: usize, operations: f64, body: impl Fn() + Sync) -> f64 {
    let seconds = clock.seconds(threads, || on_all(threads, |_| body()));
    threads as f64 * TURNS as f64 * operations / seconds / 1e9
}

/// Runs a body on some threads at once and waits for all.
pub fn on_all(threads: usize, body: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for thread in 1..threads {
            let body = &body;
            scope.spawn(move || body(thread));
        }
        body(0);
    });
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

/// Lines that the loop below asks for before it reads them.
const AHEAD: usize = 64;

/// GB/s of reading `lines` lines of 64 bytes at random places of `memory` on `threads` threads. Addresses do
/// not depend on what was read, and are asked for ahead, so that nothing but memory limits the rate.
pub fn random_read_gb_per_s(clock: Clock, memory: &[u8], lines: u64, threads: usize) -> f64 {
    let memory = memory.as_chunks::<64>().0;
    let turns = lines / threads as u64 / AHEAD as u64;
    let body = |thread: usize| {
        let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(thread as u64 + 1);
        let mut places = [0; AHEAD];
        let mut sums = [0_u64; 8];
        for _ in 0..turns {
            for place in &mut places {
                for (sum, word) in sums.iter_mut().zip(memory[*place].as_chunks::<8>().0) {
                    *sum ^= u64::from_le_bytes(*word);
                }
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                *place = (((random >> 32) * memory.len() as u64) >> 32) as usize;
                ask_for(&memory[*place]);
            }
        }
        std::hint::black_box(sums);
    };
    let seconds = clock.seconds(threads, || on_all(threads, body));
    (turns * (AHEAD * threads * 64) as u64) as f64 / seconds / 1e9
}

fn ask_for(line: &[u8; 64]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that every x86-64 has.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.as_ptr().cast());
    }
    let _ = line;
}
