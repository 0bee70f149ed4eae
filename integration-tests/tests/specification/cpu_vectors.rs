//! Every kernel of the CPU backend that this processor runs gives the vectors of every kind of work, as the reference
//! does.

use assay_cpu::{CpuConfig, KernelKind, devices};
use assay_device::Device;
use assay_kits::vectors::{check_vector, vectors};
use assay_work::Precision;

fn device(kernel: KernelKind, threads: usize) -> impl Device {
    let config =
        CpuConfig { devices: 1, memory_bytes: vec![1 << 29], threads: vec![threads], kernel, ..CpuConfig::default() };
    devices(&config).unwrap().remove(0)
}

#[test]
fn every_kernel_gives_every_vector() {
    let vectors = vectors(&Precision::ALL);
    for (rank, kernel) in KernelKind::available().enumerate() {
        // The fastest alone and with company; the others, which take longer, with company.
        for threads in if rank == 0 { vec![1, 2] } else { vec![2] } {
            let mut device = device(kernel, threads);
            for (name, vector) in &vectors {
                check_vector(name, vector, &mut device);
            }
        }
    }
}
