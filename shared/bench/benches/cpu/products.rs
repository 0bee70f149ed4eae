//! Products and whole passes, as shares of the rate of `vpdpbusd` with all operands in registers.

use std::convert::Infallible;
use std::error::Error;

use assay_bench::median;
use assay_cpu::RegisterLoop;
use assay_device::bench::{Bench, BenchStage};

use crate::Settings;
use crate::peer::PeerProgram;

/// Prints the table.
pub fn section(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let mut peer = PeerProgram::start();
    println!(
        "\nproducts with their mixing, and whole passes (leaves, products, mixing, digests), {} slots",
        settings.slots
    );
    println!("limit: vpdpbusd in registers; peer: {}", peer.as_ref().map_or("none (ASSAY_PEER)", |_| "s8·s8→s32 GEMM"));
    println!("    n  threads  limit Gop/s   product      of limit   pass of limit   peer of limit   product / peer");
    for &n in &settings.n {
        for &threads in &settings.threads {
            row(settings, n, threads, peer.as_mut())?;
        }
    }
    Ok(())
}

fn row(settings: &Settings, n: u32, threads: usize, mut peer: Option<&mut PeerProgram>) -> Result<(), Box<dyn Error>> {
    // Few slots for large matrices: their memory is the limit here, not the time.
    let count = settings.slots.min((12_u64 << 30).div_ceil(u64::from(n).pow(2)) as u32).max(3);
    let gop = 2.0 * f64::from(n).powi(3) * f64::from(count - 2) / 1e9;
    let mut bench = settings.open(threads, u64::MAX)?;
    bench.prepare(n, count)?;
    let (mut limit, mut pass, mut product, mut peers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        for (stage, repeats, rates) in
            [(BenchStage::Pass, 1, &mut pass), (BenchStage::Product, count - 2, &mut product)]
        {
            limit.extend(limit_gops(settings, threads));
            let sample = || bench.sample(stage, settings.kernel.name(), repeats).map(drop);
            rates.push(gop / settings.clock.seconds(threads, sample)?);
        }
        peers.extend(peer.as_mut().and_then(|peer| peer.gops(n, threads)));
    }
    let [limit, pass, product, peer] = [limit, pass, product, peers].map(|rates| median(&rates));
    println!(
        "{n:5}  {threads:7}  {limit:11.0}  {product:8.0}  {:11.1} %  {:12.1} %  {:12.1} %  {:15.2}",
        100.0 * product / limit,
        100.0 * pass / limit,
        100.0 * peer / limit,
        product / peer,
    );
    Ok(())
}

/// Multiplications and additions a second, in Gop/s, that `threads` threads reach when nothing leaves the registers;
/// `None` where the processor has no `vpdpbusd`.
fn limit_gops(settings: &Settings, threads: usize) -> Option<f64> {
    let register_loop = RegisterLoop::of_this_processor()?;
    let mut operations = 0;
    let Ok(seconds) = settings.clock.seconds::<Infallible>(threads, || {
        operations = register_loop.run_on(threads);
        Ok(())
    });
    Some(operations as f64 / seconds / 1e9)
}
