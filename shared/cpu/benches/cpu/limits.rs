//! The machine's limits: the rate of `vpdpbusd` with all operands in registers, and of random reads.

use assay_cpu::RegisterLoop;

use crate::clock::Clock;

/// Multiplications and additions a second, in Gop/s, that `threads` threads reach when nothing leaves the
/// registers; `None` where the processor has no `vpdpbusd`.
pub fn multiply_gops(clock: Clock, threads: usize) -> Option<f64> {
    let register_loop = RegisterLoop::of_this_processor()?;
    let mut operations = 0;
    let seconds = clock.seconds(threads, || operations = register_loop.run_on(threads));
    Some(operations as f64 / seconds / 1e9)
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
