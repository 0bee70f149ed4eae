//! The wgpu backend over a software Vulkan driver: whatever the limits and the shaders, the bits that all backends give.

#![cfg(feature = "wgpu")]

mod common;

use assay_shared::compute::device::{Device, DeviceError, Handle, Pass, ProbeRound};
use assay_shared::compute::reference::ReferenceDevice;
use assay_shared::compute::wgpu::{DotChoice, WgpuConfig, WgpuDevice, detect, open};
use assay_shared::work::{DeviceId, Digest, PassKey, RoundKey, reference};
use common::vectors::{check_vector, vectors};

/// Enough for every vector and little of a machine.
const MEMORY_BYTES: u64 = 256 << 20;

fn config() -> WgpuConfig {
    WgpuConfig { memory_bytes: Some(MEMORY_BYTES), ..WgpuConfig::default() }
}

fn device(config: WgpuConfig) -> WgpuDevice {
    let found = detect(b"tests").unwrap_or_else(|error| panic!("{error}"));
    let software = found.iter().find(|adapter| adapter.software);
    let software = software.expect("a software Vulkan driver: install mesa-vulkan-drivers");
    open(software.id, b"tests", config, &mut |_| ()).unwrap()
}

fn pass(n: u32, count: u32, seed: u8) -> Pass {
    Pass { key: PassKey([seed; 32]), n, offset: u32::from(seed), count }
}

#[test]
fn every_vector() {
    let start = std::time::Instant::now();
    let mut device = device(config());
    for (name, vector) in vectors() {
        check_vector(&name, &vector, &mut device);
        println!("{name} {:?}", start.elapsed());
    }
}
