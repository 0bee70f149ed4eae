//! The most memory that a process had while a device filled its slots, over the slots themselves.

use std::process::Command;

use assay_device::{Device, Handle, Pass};
use assay_work::PassKey;

use crate::{Settings, device};

/// The section of the process that is measured: a fresh one for each row, as the peak never falls.
pub const CHILD: &str = "memory-child";

/// Prints the table.
pub fn section(settings: &Settings) {
    println!("\npeak resident memory of a process while it fills {} slots", settings.slots);
    println!("    n  threads   slots MiB    peak MiB   over by MiB   allowed MiB (5 % + 64)");
    for n in settings.sizes.iter().map(u32::to_string) {
        for threads in settings.threads.iter().map(usize::to_string) {
            let (kernel, slots) = (settings.kernel.name(), settings.slots.to_string());
            let Ok(program) = std::env::current_exe() else { return };
            let arguments = [CHILD, "--n", &n, "--threads", &threads, "--kernel", kernel, "--slots", &slots];
            if let Err(error) = Command::new(program).args(arguments).status() {
                eprintln!("{error}");
            }
        }
    }
}

/// One row, measured in this process.
pub fn child(settings: &Settings) {
    let (n, threads) = (settings.sizes[0], settings.threads[0]);
    let pass = Pass { key: PassKey([1; 32]), n, offset: 0, count: settings.slots };
    let mut device = device(settings, threads, u64::MAX);
    if let Err(error) = device.fill(&pass, &Handle::default()) {
        eprintln!("{error}");
        return;
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (slots, peak) = (mib(pass.bytes()), mib(peak_bytes()));
    println!("{n:5}  {threads:7}  {slots:10.0}  {peak:10.1}  {:12.1}  {:12.1}", peak - slots, slots * 0.05 + 64.0);
}

/// `VmHWM` of this process.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
