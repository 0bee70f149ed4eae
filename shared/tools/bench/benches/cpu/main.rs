//! The CPU backend next to this machine's limits, measured in the same run: `cargo bench -p assay-bench --bench cpu`.
//!
//! The machine's speed drifts, so that everything compared is measured in turn, round after round, and the medians are
//! compared. With `ASSAY_PEER` naming a program (benchmarks/onednn.sh builds one), its GEMM is measured in turn as well.

mod clock;
mod memory;
mod peer;
mod probe;
mod products;
mod sweep;

use std::error::Error;

use assay_cpu::{CpuBench, CpuConfig, CpuConfigError, KernelKind, devices};
use assay_device::Device;
use assay_device::machine::parallelism;
use assay_work::Precision;
use clap::Parser;

/// What was asked for on the command line.
#[derive(Parser)]
struct CpuBenchOptions {
    /// Sections: products, probe, sweep, memory; all of them when none is named
    sections: Vec<String>,
    /// Which kernel multiplies
    #[arg(long, default_value_t)]
    kernel: KernelKind,
    /// Kinds of work
    #[arg(long, value_delimiter = ',', default_value = "int8,f16,fp8,fp4")]
    kinds: Vec<Precision>,
    /// Fail when a product is below this share of its limit
    #[arg(long, value_name = "SHARE")]
    bar: Option<f64>,
    /// Matrix sizes
    #[arg(long, value_delimiter = ',', default_value = "2048,4096")]
    n: Vec<u32>,
    /// Numbers of threads; without it one, and all that the machine has
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// How often each is measured
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// How many slots
    #[arg(long, default_value_t = 48)]
    slots: u32,
    /// Whose time counts
    #[arg(long, default_value = "wall")]
    clock: clock::Clock,
    /// Cargo passes it
    #[arg(long, hide = true)]
    bench: bool,
}

impl CpuBenchOptions {
    fn open(&self, threads: usize, memory_bytes: u64) -> Result<CpuBench, CpuConfigError> {
        let (memory_bytes, threads) = (vec![memory_bytes], vec![threads]);
        let config = CpuConfig { devices: 1, memory_bytes, threads, kernel: self.kernel, ..CpuConfig::default() };
        Ok(CpuBench { device: devices(&config)?.remove(0) })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let all = parallelism();
    let mut settings = CpuBenchOptions::parse();
    if settings.threads.is_empty() {
        settings.threads = if all == 1 { vec![1] } else { vec![1, all] };
    }
    if settings.sections.iter().any(|section| section == memory::CHILD) {
        return memory::child(&settings);
    }
    let info = settings.open(all, 1 << 30)?.device.info();
    println!("machine: {}, {all} threads; {}", info.name.trim_end_matches(", CPU device 0"), info.detail);
    let wants = |name: &str| settings.sections.is_empty() || settings.sections.iter().any(|section| section == name);
    for (name, section) in [
        ("products", products::section as fn(&CpuBenchOptions) -> Result<(), Box<dyn Error>>),
        ("probe", probe::section),
        ("sweep", sweep::section),
        ("memory", memory::section),
    ] {
        if wants(name) {
            section(&settings)?;
        }
    }
    Ok(())
}
