//! The CPU backend as the registry sees it.

use std::error::Error;

use assay_device::backend::{Absence, Backend, BackendKind, DetectedDevice, OpenResult, StartupObserver};
use assay_device::place::DevicePlace;

use crate::config::{CpuConfig, CpuSpec, specs};
use crate::device::CpuDevice;
use assay_device::{Device, DeviceError};

impl Backend for CpuConfig {
    fn kind(&self) -> BackendKind {
        BackendKind::Cpu
    }

    fn settings(&self) -> String {
        // A struct of plain fields: turning it into text cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn detect(&self) -> Result<Vec<DetectedDevice>, Absence> {
        let specs = specs(self).map_err(|error| error.to_string())?;
        if specs.is_empty() {
            return Err("no device is asked for: set cpu_devices to 1 or more".into());
        }
        let found = |spec: &CpuSpec| {
            let info = spec.open().map_err(|error| error.to_string())?.info();
            let spec = serde_json::to_string(spec).map_err(|error| error.to_string())?;
            Ok(DetectedDevice {
                info,
                place: DevicePlace::default(),
                integrated: true,
                refusal: None,
                forbidden: false,
                spec,
            })
        };
        specs.iter().map(found).collect::<Result<_, String>>().map_err(Absence::from)
    }

    fn open(&self, spec: &str, _prepare: StartupObserver<'_>) -> OpenResult {
        Ok(Box::new(device(spec)?))
    }

    #[cfg(feature = "bench")]
    fn open_bench(&self, spec: &str, _prepare: StartupObserver<'_>) -> assay_device::bench::OpenedBench {
        Ok(Box::new(crate::bench::CpuBench::new(device(spec)?)))
    }
}

/// The device that [`Backend::detect`] described.
pub(super) fn device(spec: &str) -> Result<CpuDevice, DeviceError> {
    let unsupported = |error: &dyn Error| DeviceError::Unsupported(format!("no CPU device: {error}"));
    let spec: CpuSpec = serde_json::from_str(spec).map_err(|error| unsupported(&error))?;
    spec.open().map_err(|error| unsupported(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detected_device_opens_as_it_was_found() {
        let config = CpuConfig { devices: 2, memory_bytes: vec![1 << 24, 1 << 25], ..CpuConfig::default() };
        let found = config.detect().unwrap();
        assert_eq!(found.len(), 2);
        for found in found {
            let info = config.open(&found.spec, &|_| ()).unwrap().info();
            assert_eq!((info.id, info.backend), (found.info.id, BackendKind::Cpu));
            assert_eq!((info.name, info.total_bytes), (found.info.name, found.info.total_bytes));
            assert_eq!(info.detail, found.info.detail);
        }
    }

    #[test]
    fn an_unknown_spec_does_not_open() {
        for spec in ["", "{}", "null", r#"{"id":"00"}"#] {
            let opened = CpuConfig::default().open(spec, &|_| ());
            assert!(matches!(opened, Err(DeviceError::Unsupported(_))), "{spec}");
        }
        assert!(CpuConfig::default().detect().unwrap_err().why.contains("cpu_devices"));
    }
}
