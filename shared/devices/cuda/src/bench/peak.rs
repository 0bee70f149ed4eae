//! The peak rates of a GPU: its units times its clock, as the driver states them.

use cudarc::driver::sys::CUdevice_attribute as Attribute;

use crate::describe::{self, Capability, DeviceDescription};
use crate::driver::attribute;
use assay_device::bench::PeakRates;

/// INT8 operations that the tensor cores of one multiprocessor do in a cycle, dense, from NVIDIA's architecture papers
/// (peak rate / multiprocessors / boost clock): T4 130 TOPS, A100 624, A10 250, RTX 4090 661, H100 SXM 1979, B200 4500,
/// RTX 5090 838. Nothing is known of other capabilities.
const fn operations_per_cycle(capability: Capability) -> Option<f64> {
    match (capability.major, capability.minor) {
        (7, 5) | (8, 6 | 7 | 9) | (12, 0 | 1) => Some(2048.0),
        (8, 0) => Some(4096.0),
        (9, 0) => Some(8192.0),
        (10, 0) => Some(16_384.0),
        _ => None,
    }
}

/// The peak rates of a device whose driver is loaded.
pub(super) fn of(device: &DeviceDescription) -> PeakRates {
    let number = |which| {
        let asked = describe::handle(device.ordinal).and_then(|handle| attribute(handle, which));
        asked.ok().filter(|value| *value > 0).map(f64::from)
    };
    let clock_hz = number(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).map(|khz| 1e3 * khz);
    let memory_hz = number(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE).map(|khz| 1e3 * khz);
    let bus_bits = number(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    let per_cycle = operations_per_cycle(device.capability);
    let rate = |clock_hz: f64| per_cycle.map(|per_cycle| per_cycle * f64::from(device.multiprocessors) * clock_hz);
    // Two transfers in a cycle of the memory's clock.
    let bytes = |hz: f64| bus_bits.map(|bits| 2.0 * hz * bits / 8.0);
    PeakRates {
        operations_per_s: clock_hz.and_then(rate),
        bytes_per_s: memory_hz.and_then(bytes),
        source: "tensor cores and memory bus at the highest clocks that the driver states; power may not allow them"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_peaks_come_out() {
        // Multiprocessors, boost clock in GHz, and the vendor's dense INT8 TOPS.
        for (major, minor, multiprocessors, ghz, tops) in [
            (7, 5, 40.0, 1.59, 130.0),
            (8, 0, 108.0, 1.41, 624.0),
            (8, 6, 72.0, 1.695, 250.0),
            (8, 9, 128.0, 2.52, 661.0),
            (9, 0, 132.0, 1.83, 1979.0),
            (12, 0, 170.0, 2.407, 838.0),
        ] {
            let peak = operations_per_cycle(Capability { major, minor }).unwrap() * multiprocessors * ghz * 1e9 / 1e12;
            assert!((peak / tops - 1.0).abs() < 0.01, "{major}.{minor}: {peak} and {tops}");
        }
        assert_eq!(operations_per_cycle(Capability { major: 10, minor: 3 }), None);
    }
}
