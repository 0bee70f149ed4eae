//! The CPU backend next to this machine's limits, measured in the same run: `cargo bench --bench cpu`.
//!
//! Sections: `products`, `probe`, `memory`; all of them when none is named. Settings, after `--`:
//! `--kernel NAME` (auto), `--n 2048,4096`, `--threads 1,2`, `--rounds 7`, `--slots 48`. The machine's speed drifts, so that
//! everything compared is measured in turn, round after round, and the medians are compared. On a machine
//! that others use as well, `--clock cpu` counts this process's processor time instead of the time that
//! passes; that is fair to one thread, and only to one: threads that wait for each other count as working.
//! With `ASSAY_PEER` naming a program (benchmarks/onednn.sh builds one), its GEMM is measured in turn as well.

mod clock;
mod limits;
mod memory;
mod peer;
mod probe;
mod products;

use assay_cpu::{CpuConfig, CpuDevice, KernelKind, devices};
use assay_device::Device;

/// What was asked for on the command line.
struct Settings {
    kernel: KernelKind,
    sizes: Vec<u32>,
    threads: Vec<usize>,
    rounds: usize,
    slots: u32,
    clock: clock::Clock,
    sections: Vec<String>,
}

fn main() {
    let settings = match settings() {
        Ok(settings) => settings,
        Err(reason) => {
            eprintln!("{reason}");
            std::process::exit(2);
        }
    };
    if settings.sections.iter().any(|s| s == memory::CHILD) {
        return memory::child(&settings);
    }
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let info = device(&settings, all, 1 << 30).info();
    println!("machine: {}, {all} threads; {}", info.name.trim_end_matches(", CPU device 0"), info.detail);
    let wants = |section: &str| settings.sections.is_empty() || settings.sections.iter().any(|s| s == section);
    if wants("products") {
        products::section(&settings);
    }
    if wants("probe") {
        probe::section(&settings);
    }
    if wants("memory") {
        memory::section(&settings);
    }
}

fn settings() -> Result<Settings, String> {
    let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut settings = Settings {
        kernel: KernelKind::Auto,
        sizes: vec![2048, 4096],
        threads: if all == 1 { vec![1] } else { vec![1, all] },
        rounds: 7,
        slots: 48,
        clock: clock::Clock::Wall,
        sections: Vec::new(),
    };
    // Cargo itself passes `--bench`.
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--kernel" => settings.kernel = value()?.parse().map_err(|e| format!("{e}"))?,
            "--n" => settings.sizes = list(&value()?)?,
            "--threads" => settings.threads = list(&value()?)?,
            "--rounds" => settings.rounds = value()?.parse().map_err(|e| format!("--rounds: {e}"))?,
            "--slots" => settings.slots = value()?.parse().map_err(|e| format!("--slots: {e}"))?,
            "--clock" => settings.clock = value()?.parse()?,
            section => settings.sections.push(section.to_owned()),
        }
    }
    Ok(settings)
}

fn list<T: std::str::FromStr>(text: &str) -> Result<Vec<T>, String> {
    text.split(',').map(|item| item.parse().map_err(|_| format!("{item:?} is no number"))).collect()
}

fn device(settings: &Settings, threads: usize, memory_bytes: u64) -> CpuDevice {
    let config = CpuConfig {
        devices: 1,
        memory_bytes: vec![memory_bytes],
        threads: vec![threads],
        kernel: settings.kernel,
        ..CpuConfig::default()
    };
    match devices(&config) {
        Ok(mut devices) => devices.remove(0),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}

/// The middle one of some measurements.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
