//! The most memory that a process had while a device filled its slots, over the slots themselves.

use std::error::Error;
use std::process::Command;

use assay_device::bench::{Bench, bench_pass};

use crate::CpuBenchOptions;

/// The section of the process that is measured: a fresh one for each row, as the peak never falls.
pub const CHILD: &str = "memory-child";

pub fn section(settings: &CpuBenchOptions) -> Result<(), Box<dyn Error>> {
    println!("\npeak resident memory of a process while it fills {} slots", settings.slots);
    println!("kind     n  threads   slots MiB    peak MiB   over by MiB   allowed MiB (5 % + 64)");
    for kind in settings.kinds.iter().map(|kind| kind.name()) {
        for n in settings.n.iter().map(u32::to_string) {
            for threads in settings.threads.iter().map(usize::to_string) {
                let (kernel, slots) = (settings.kernel.name(), settings.slots.to_string());
                let of_row = ["--kinds", kind, "--n", &n, "--threads", &threads];
                let arguments = [CHILD, "--kernel", kernel, "--slots", &slots].into_iter().chain(of_row);
                Command::new(std::env::current_exe()?).args(arguments).status()?;
            }
        }
    }
    Ok(())
}

/// One row, measured in this process.
pub fn child(settings: &CpuBenchOptions) -> Result<(), Box<dyn Error>> {
    let (kind, n, threads) = (settings.kinds[0], settings.n[0], settings.threads[0]);
    settings.open(threads, u64::MAX)?.prepare(kind, n, settings.slots)?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (slots, peak) = (mib(bench_pass(kind, n, settings.slots).bytes()), mib(peak_bytes()));
    println!(
        "{:4} {n:5}  {threads:7}  {slots:10.0}  {peak:10.1}  {:12.1}  {:12.1}",
        kind.name(),
        peak - slots,
        slots * 0.05 + 64.0
    );
    Ok(())
}

/// `VmHWM` of this process.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
