//! The devices of this host: their health, their memory, and what their sensors say.

use assay_device::DeviceError;
use assay_observe::metrics::{MetricsError, add};
use assay_observe::prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use assay_telemetry::Reading;

use super::{advance, named};
use crate::status::SeenDevice;

/// The labels of every device: the index by which settings name it, and its model.
const DEVICE: [&str; 2] = ["device", "model"];
/// Kinds of faults, as a label.
const FAULTS: [&str; 5] = ["memory", "sick", "lost", "cancelled", "unsupported"];

/// The devices at a scrape.
pub(super) struct DeviceGauges {
    up: IntGaugeVec,
    fault: IntGaugeVec,
    restarts: IntCounterVec,
    total_bytes: IntGaugeVec,
    free_bytes: IntGaugeVec,
    offered_bytes: IntGaugeVec,
    sensors: Vec<Sensor>,
    throttled: IntGaugeVec,
}

/// A sensor, in base units.
struct Sensor {
    gauge: GaugeVec,
    read: fn(&Reading) -> Option<f64>,
}

impl DeviceGauges {
    pub(super) fn new(registry: &Registry) -> Result<Self, MetricsError> {
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            add(registry, IntGaugeVec::new(Opts::new(named(name), help), labels))
        };
        let of_fault = [DEVICE[0], DEVICE[1], "kind"];
        let restarts =
            Opts::new(named("device_worker_restarts_total"), "Workers that were started in place of lost ones.");
        Ok(Self {
            up: gauges("device_up", "1 where the device can take work.", &DEVICE)?,
            fault: gauges("device_fault", "1 for the kind of fault that keeps the device from work.", &of_fault)?,
            restarts: add(registry, IntCounterVec::new(restarts, &DEVICE))?,
            total_bytes: gauges("device_memory_bytes", "Memory of the device.", &DEVICE)?,
            free_bytes: gauges(
                "device_memory_free_bytes",
                "Memory that a challenge could take when last asked.",
                &DEVICE,
            )?,
            offered_bytes: gauges("device_memory_offered_bytes", "Memory that was offered to validators.", &DEVICE)?,
            sensors: sensors(registry)?,
            throttled: gauges("device_throttled", "1 where heat or power holds the clocks back.", &DEVICE)?,
        })
    }

    /// Notes how each device is. What a device had and has no more is gone with it.
    pub(super) fn read(&self, devices: &[SeenDevice]) {
        for gauge in [&self.up, &self.fault, &self.total_bytes, &self.free_bytes, &self.offered_bytes, &self.throttled]
        {
            gauge.reset();
        }
        for sensor in &self.sensors {
            sensor.gauge.reset();
        }
        for (position, device) in devices.iter().enumerate() {
            self.read_one(position, device);
        }
    }

    fn read_one(&self, position: usize, device: &SeenDevice) {
        let index = device.index.unwrap_or(position).to_string();
        let labels = [index.as_str(), device.name.as_str()];
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.up.with_label_values(&labels).set(device.fault.is_none().into());
        for kind in FAULTS {
            let is_it = device.fault.as_ref().is_some_and(|fault| fault_kind(fault) == kind);
            self.fault.with_label_values(&[labels[0], labels[1], kind]).set(is_it.into());
        }
        advance(&self.restarts.with_label_values(&labels), device.worker.as_ref().map_or(0, |worker| worker.restarts));
        self.total_bytes.with_label_values(&labels).set(bytes(device.total_bytes));
        self.free_bytes.with_label_values(&labels).set(bytes(device.free_bytes));
        self.offered_bytes.with_label_values(&labels).set(bytes(device.offered_bytes));
        let Some(reading) = &device.reading else { return };
        for Sensor { gauge, read } in &self.sensors {
            if let Some(value) = read(reading) {
                gauge.with_label_values(&labels).set(value);
            }
        }
        let is_throttled = reading.throttle_reasons.iter().any(|reason| reason.is_trouble());
        self.throttled.with_label_values(&labels).set(is_throttled.into());
    }
}

fn sensors(registry: &Registry) -> Result<Vec<Sensor>, MetricsError> {
    let sensor = |name: &str, help: &str, read: fn(&Reading) -> Option<f64>| {
        let gauge = add(registry, GaugeVec::new(Opts::new(named(name), help), &DEVICE))?;
        Ok::<_, MetricsError>(Sensor { gauge, read })
    };
    Ok(vec![
        sensor("device_temperature_celsius", "Temperature, by NVML.", |r| r.temperature_c.map(f64::from))?,
        sensor("device_power_watts", "Power draw, by NVML.", |r| r.power_mw.map(|milli| f64::from(milli) / 1e3))?,
        sensor("device_sm_clock_hertz", "Clock of the multiprocessors, by NVML.", |r| mega(r.sm_clock_mhz))?,
        sensor("device_memory_clock_hertz", "Clock of the memory, by NVML.", |r| mega(r.memory_clock_mhz))?,
        sensor("device_utilization_ratio", "Share of the time in which a kernel ran, by NVML.", |r| {
            r.gpu_utilisation_percent.map(|percent| f64::from(percent) / 100.0)
        })?,
        sensor("device_memory_used_bytes", "Memory in use, by NVML.", |r| {
            r.memory_used_bytes.map(|bytes| bytes as f64)
        })?,
    ])
}

fn mega(mhz: Option<u32>) -> Option<f64> {
    mhz.map(|mhz| f64::from(mhz) * 1e6)
}

const fn fault_kind(fault: &DeviceError) -> &'static str {
    match fault {
        DeviceError::Busy { .. } => FAULTS[0],
        DeviceError::Sick(_) => FAULTS[1],
        DeviceError::Lost(_) => FAULTS[2],
        DeviceError::Cancelled => FAULTS[3],
        DeviceError::Unsupported(_) => FAULTS[4],
    }
}
