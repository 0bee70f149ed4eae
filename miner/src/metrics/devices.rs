//! The devices of this host: their health, their memory, and their sensor readings.

use assay_device::DeviceError;
use assay_observe::metrics::advance;
use assay_observe::prometheus::GaugeVec;
use assay_telemetry::Reading;

use super::Families;
use crate::status::SeenDevice;

/// A device can take work, or why it cannot, as a label.
const STATES: [&str; 7] = ["up", "memory", "sick", "lost", "cancelled", "unsupported", "unavailable"];

impl Families {
    /// Sets the gauges of each device. A series that a device had and no longer has is removed.
    pub(super) fn read_devices(&self, devices: &[SeenDevice]) {
        for gauge in [&self.device_state, &self.device_memory_bytes, &self.device_throttled] {
            gauge.reset();
        }
        for gauge in [
            &self.device_temperature_celsius,
            &self.device_power_watts,
            &self.device_clock_hertz,
            &self.device_utilization_ratio,
        ] {
            gauge.reset();
        }
        for (position, device) in devices.iter().enumerate() {
            // The index by which settings name it.
            let index = device.index.unwrap_or(position).to_string();
            let labels = [index.as_str(), device.name.as_str()];
            self.read_health(labels, device);
            if let Some(reading) = &device.reading {
                self.read_sensors(labels, reading);
            }
        }
    }

    fn read_health(&self, labels: [&str; 2], device: &SeenDevice) {
        let [index, model] = labels;
        for state in STATES {
            let is_it = state == state_name(device.fault.as_ref());
            self.device_state.with_label_values(&[index, model, state]).set(is_it.into());
        }
        let restarts = device.worker.as_ref().map_or(0, |worker| worker.restarts);
        advance(&self.device_worker_restarts_total.with_label_values(&labels), restarts);
        let used = device.reading.as_ref().and_then(|reading| reading.memory_used_bytes);
        for (kind, bytes) in [
            ("total", Some(device.total_bytes)),
            ("free", Some(device.free_bytes)),
            ("offered", Some(device.offered_bytes)),
            ("used", used),
        ] {
            if let Some(bytes) = bytes {
                let gauge = self.device_memory_bytes.with_label_values(&[index, model, kind]);
                gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
            }
        }
    }

    fn read_sensors(&self, labels: [&str; 2], reading: &Reading) {
        let [index, model] = labels;
        let set = |gauge: &GaugeVec, labels: &[&str], value: Option<u32>, base: fn(f64) -> f64| {
            if let Some(value) = value {
                gauge.with_label_values(labels).set(base(f64::from(value)));
            }
        };
        set(&self.device_temperature_celsius, &labels, reading.temperature_c, |celsius| celsius);
        set(&self.device_power_watts, &labels, reading.power_mw, |milli| milli / 1e3);
        set(&self.device_clock_hertz, &[index, model, "sm"], reading.sm_clock_mhz, |mega| mega * 1e6);
        set(&self.device_clock_hertz, &[index, model, "memory"], reading.memory_clock_mhz, |mega| mega * 1e6);
        set(&self.device_utilization_ratio, &labels, reading.gpu_utilisation_percent, |percent| percent / 100.0);
        let is_throttled = reading.throttle_reasons.iter().any(|reason| reason.is_trouble());
        self.device_throttled.with_label_values(&labels).set(is_throttled.into());
    }
}

const fn state_name(fault: Option<&DeviceError>) -> &'static str {
    match fault {
        None => STATES[0],
        Some(DeviceError::Busy { .. } | DeviceError::NoMemory(_)) => STATES[1],
        Some(DeviceError::Sick(_)) => STATES[2],
        Some(DeviceError::Lost(_)) => STATES[3],
        Some(DeviceError::Cancelled) => STATES[4],
        Some(DeviceError::Unsupported(_)) => STATES[5],
        // Another process has it, or the system is not ready.
        Some(DeviceError::NotNow(_)) => STATES[6],
    }
}
