//! Rounds of the residency probe next to plain random reads of the same memory.

use assay_device::{Device, Handle, Pass, ProbeRound};
use assay_work::{PassKey, RoundKey};

use crate::{Settings, device, limits, median};

const N: u32 = 2048;
/// 1 GiB of slots: far more than any cache.
const COUNT: u32 = 256;
const WALKS: u32 = 1 << 16;
const STEPS: u32 = 64;

/// Prints the table.
pub fn section(settings: &Settings) {
    let gib = (u64::from(COUNT) * u64::from(N).pow(2)) >> 30;
    println!("\nresidency probe, {WALKS} walks of {STEPS} steps over {gib} GiB; plain: random reads of 64-byte lines");
    println!("threads   plain GB/s   probe GB/s   probe / plain");
    for &threads in &settings.threads {
        let (mut plain, mut probe) = measure(settings, threads);
        let (plain, probe) = (median(&mut plain), median(&mut probe));
        println!("{threads:7}  {plain:11.2}  {probe:11.2}  {:14.2}", probe / plain);
    }
}

fn measure(settings: &Settings, threads: usize) -> (Vec<f64>, Vec<f64>) {
    let mut device = device(settings, threads, u64::MAX);
    let handle = Handle::default();
    // What the slots hold does not matter here; the leaves and products of a short pass would do as well.
    let pass = Pass { key: PassKey([1; 32]), n: N, offset: 0, count: COUNT };
    if let Err(error) = device.fill(&pass, &handle) {
        eprintln!("{error}");
        return (vec![f64::NAN], vec![f64::NAN]);
    }
    let lines = u64::from(WALKS) * u64::from(STEPS);
    let (mut plain, mut probe) = (Vec::new(), Vec::new());
    for round in 0..settings.rounds {
        if let Ok(memory) = device.resident_bytes() {
            plain.push(limits::random_read_gb_per_s(settings.clock, memory, lines, threads));
        }
        let round = ProbeRound { key: RoundKey([round as u8; 32]), walks: WALKS, steps: STEPS };
        let seconds = settings.clock.seconds(threads, || {
            if let Err(error) = device.probe_round(&round, &handle) {
                eprintln!("{error}");
            }
        });
        probe.push(lines as f64 * 64.0 / seconds / 1e9);
    }
    (plain, probe)
}
