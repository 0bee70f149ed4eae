//! The CPU backend meets the requirements on every device.

use assay_cpu::{CpuConfig, CpuDevice, devices};
use assay_work::Precision;

fn device() -> CpuDevice {
    let config = CpuConfig { devices: 1, memory_bytes: vec![1 << 28], threads: vec![2], ..CpuConfig::default() };
    devices(&config).unwrap().remove(0)
}

assay_kits::device_conformance!(Precision::ALL, device());
