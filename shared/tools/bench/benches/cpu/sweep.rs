//! Rounds of the sweep next to plain reads of the same memory in order.

use std::error::Error;

use assay_bench::median;
use assay_device::bench::{Bench, bench_pass, bench_sweep};
use assay_device::{Device, Handle};
use assay_work::Precision;

use crate::CpuBenchOptions;

/// Bytes of the slots: far more than any cache.
const BYTES: u64 = 1 << 30;

pub fn section(settings: &CpuBenchOptions) -> Result<(), Box<dyn Error>> {
    println!("\nsweep over {} GiB; plain: the same memory read in order", BYTES >> 30);
    println!("    n  threads   plain GB/s   sweep GB/s   sweep / plain");
    for &n in &settings.n {
        let pass = bench_pass(Precision::Int8, n, u32::try_from(BYTES / u64::from(n).pow(2))?);
        for &threads in &settings.threads {
            let mut bench = settings.open(threads, u64::MAX)?;
            bench.prepare(Precision::Int8, n, pass.count)?;
            let (mut plain, mut swept) = (Vec::new(), Vec::new());
            let rate = |seconds: f64| pass.bytes() as f64 / seconds / 1e9;
            for turn in 0..settings.rounds {
                plain.push(rate(settings.clock.seconds(threads, || bench.read_in_order())?));
                let mut sweep = || bench.device.sweep_round(&bench_sweep(turn, &pass), &Handle::default());
                swept.push(rate(settings.clock.seconds(threads, || sweep().map(drop))?));
            }
            let (plain, sweep) = (median(&plain), median(&swept));
            println!("{n:5}  {threads:7}  {plain:11.2}  {sweep:11.2}  {:14.2}", sweep / plain);
        }
    }
    Ok(())
}
