//! Rounds of the residency probe next to plain random reads of the same memory.

use assay_work::Precision;
use std::convert::Infallible;
use std::error::Error;

use assay_bench::median;
use assay_device::bench::{Bench, PROBE_STEPS, bench_round, round_bytes};
use assay_device::{Device, Handle};

use crate::CpuBenchOptions;

const N: u32 = 2048;
/// 1 GiB of slots: far more than any cache.
const COUNT: u32 = 256;
const WALKS: u32 = 1 << 16;
/// Lines that plain reads ask for before they read them.
const AHEAD: usize = 64;

pub fn section(settings: &CpuBenchOptions) -> Result<(), Box<dyn Error>> {
    let gib = (u64::from(COUNT) * u64::from(N).pow(2)) >> 30;
    println!(
        "\nresidency probe, {WALKS} walks of {PROBE_STEPS} steps over {gib} GiB; plain: random reads of 64-byte lines"
    );
    println!("threads   plain GB/s   probe GB/s   probe / plain");
    for &threads in &settings.threads {
        let mut bench = settings.open(threads, u64::MAX)?;
        bench.prepare(Precision::Int8, N, COUNT)?;
        let (mut plain, mut probe) = (Vec::new(), Vec::new());
        for turn in 0..settings.rounds {
            plain.push(plain_gb_per_s(settings, bench.device.resident_bytes()?, threads));
            let round = bench_round(turn, WALKS);
            let walk = || bench.device.probe_round(&round, &Handle::default()).map(drop);
            probe.push(round_bytes(WALKS) as f64 / settings.clock.seconds(threads, walk)? / 1e9);
        }
        let (plain, probe) = (median(&plain), median(&probe));
        println!("{threads:7}  {plain:11.2}  {probe:11.2}  {:14.2}", probe / plain);
    }
    Ok(())
}

/// GB/s of reading as many lines as a round at random places of `memory` on `threads` threads. Addresses do not depend
/// on the lines read, and are asked for ahead, so that memory alone limits the rate.
fn plain_gb_per_s(settings: &CpuBenchOptions, memory: &[u8], threads: usize) -> f64 {
    let memory = memory.as_chunks::<64>().0;
    let turns = round_bytes(WALKS) / 64 / threads as u64 / AHEAD as u64;
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
                prefetch(&memory[*place]);
            }
        }
        std::hint::black_box(sums);
    };
    let Ok(seconds) = settings.clock.seconds::<Infallible>(threads, || {
        std::thread::scope(|scope| {
            for thread in 1..threads {
                let body = &body;
                scope.spawn(move || body(thread));
            }
            body(0);
        });
        Ok(())
    });
    (turns * (AHEAD * threads * 64) as u64) as f64 / seconds / 1e9
}

fn prefetch(line: &[u8; 64]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that every x86-64 has.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.as_ptr().cast());
    }
    let _ = line;
}
