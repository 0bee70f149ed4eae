//! Products and whole passes of each kind of work, as shares of the rate of the processor's multiply instruction with all
//! operands in registers: `vpdpwssd` for F16, `vpdpbusd` for the others. Operations are those that a product needs,
//! `2 · n² · κ`.

use std::convert::Infallible;
use std::error::Error;

use assay_bench::median;
use assay_cpu::RegisterLoop;
use assay_device::bench::{Bench, BenchStage, product_operations};
use assay_work::Precision;

use crate::CpuBenchOptions;
use crate::peer::PeerProgram;

pub fn section(settings: &CpuBenchOptions) -> Result<(), Box<dyn Error>> {
    let mut peer = PeerProgram::start();
    println!(
        "\nproducts with their mixing, and whole passes (leaves, products, mixing, digests), {} slots",
        settings.slots
    );
    println!(
        "limit: vpdpbusd in registers, of f16 vpdpwssd; peer: {}",
        peer.as_ref().map_or("none (ASSAY_PEER)", |_| "s8·s8→s32 GEMM")
    );
    println!(
        "kind     n  threads  limit Gop/s   product      of limit   pass of limit   peer of limit   product / peer"
    );
    let mut below = Vec::new();
    for &precision in &settings.kinds {
        for &n in &settings.n {
            for &threads in &settings.threads {
                let share = row(settings, precision, n, threads, peer.as_mut())?;
                // A share without a limit is NaN, and below no bar.
                if settings.bar.is_some_and(|bar| share < bar) {
                    below.push(format!("{precision} at n = {n} on {threads} threads: {share:.3}"));
                }
            }
        }
    }
    if below.is_empty() { Ok(()) } else { Err(format!("products below the bar: {}", below.join(", ")).into()) }
}

/// Prints a row, and gives the product's share of the limit.
fn row(
    settings: &CpuBenchOptions,
    precision: Precision,
    n: u32,
    threads: usize,
    mut peer: Option<&mut PeerProgram>,
) -> Result<f64, Box<dyn Error>> {
    // Few slots for large matrices: their memory is the limit here, not the time.
    let count = settings.slots.min((12_u64 << 30).div_ceil(u64::from(n).pow(2)) as u32).max(3);
    let gop = product_operations(precision, n) as f64 * f64::from(count - 2) / 1e9;
    let mut bench = settings.open(threads, u64::MAX)?;
    bench.prepare(precision, n, count)?;
    let (mut limit, mut pass, mut product, mut peers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        for (stage, repeats, rates) in
            [(BenchStage::Pass, 1, &mut pass), (BenchStage::Product, count - 2, &mut product)]
        {
            limit.extend(limit_gops(settings, precision, threads));
            let sample = || bench.sample(stage, settings.kernel.name(), repeats).map(drop);
            rates.push(gop / settings.clock.seconds(threads, sample)?);
        }
        if precision == Precision::Int8 {
            peers.extend(peer.as_mut().and_then(|peer| peer.gops(n, threads)));
        }
    }
    let [limit, pass, product, peer] = [limit, pass, product, peers].map(|rates| median(&rates));
    println!(
        "{:4} {n:5}  {threads:7}  {limit:11.0}  {product:8.0}  {:11.1} %  {:12.1} %  {:12.1} %  {:15.2}",
        precision.name(),
        100.0 * product / limit,
        100.0 * pass / limit,
        100.0 * peer / limit,
        product / peer,
    );
    Ok(product / limit)
}

/// Multiplications and additions a second, in Gop/s, that `threads` threads reach when nothing leaves the registers;
/// `None` where the processor has neither instruction.
fn limit_gops(settings: &CpuBenchOptions, precision: Precision, threads: usize) -> Option<f64> {
    let register_loop = RegisterLoop::of_this_processor(precision)?;
    let mut operations = 0;
    let Ok(seconds) = settings.clock.seconds::<Infallible>(threads, || {
        operations = register_loop.run_on(threads);
        Ok(())
    });
    Some(operations as f64 / seconds / 1e9)
}
