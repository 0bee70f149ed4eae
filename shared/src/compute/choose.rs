//! Choosing a backend at run time, and saying which and why.

use super::cpu::{self, CpuConfig, CpuConfigError};
use super::device::Device;
use super::host::Host;

/// Which backends may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// The fastest that works here.
    #[default]
    Auto,
    /// The processor.
    Cpu,
}

/// What every backend is asked with.
#[derive(Debug, Clone, Default)]
pub struct HostConfig {
    /// Which backends may be used.
    pub choice: BackendChoice,
    /// The processor's devices.
    pub cpu: CpuConfig,
    /// What device ids are derived from where hardware has none: the daemon's public key, say.
    pub seed: Vec<u8>,
}

/// The devices found, and how they were chosen.
pub struct Chosen {
    /// The devices, each on its thread.
    pub host: Host,
    /// The backend.
    pub backend: &'static str,
    /// Why this one, in one sentence.
    pub why: String,
}

/// Why there are no devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// The settings of the processor's devices do not hold.
    #[error(transparent)]
    Cpu(#[from] CpuConfigError),
    /// No backend found a device.
    #[error("no device: {0}")]
    None(String),
}

type Detected = Result<Vec<Box<dyn Device>>, ChooseError>;

/// One backend: its name, and how it finds its devices. What it cannot do now, it says in one sentence.
struct Backend {
    name: &'static str,
    choice: BackendChoice,
    detect: fn(&HostConfig) -> Detected,
}

/// All backends of this build, the fastest first.
const BACKENDS: &[Backend] = &[Backend { name: "cpu", choice: BackendChoice::Cpu, detect: detect_cpu }];

/// Finds the devices of the backend chosen; for `auto`, those of the first backend that has any.
///
/// # Errors
/// [`ChooseError`]: why the backend asked for, or each one there is, gives no device.
pub fn choose(config: &HostConfig) -> Result<Chosen, ChooseError> {
    let asked = |backend: &&Backend| config.choice == BackendChoice::Auto || config.choice == backend.choice;
    let mut passed_over = Vec::new();
    for backend in BACKENDS.iter().filter(asked) {
        let devices = (backend.detect)(config)?;
        if devices.is_empty() {
            passed_over.push(format!("{} has no device", backend.name));
            continue;
        }
        let why = match (config.choice, passed_over.is_empty()) {
            (BackendChoice::Auto, true) => "auto: the fastest backend of this build".into(),
            (BackendChoice::Auto, false) => format!("auto: {}", passed_over.join(", ")),
            _ => "asked for".into(),
        };
        return Ok(Chosen { host: Host::new(devices), backend: backend.name, why });
    }
    Err(ChooseError::None(passed_over.join(", ")))
}

fn detect_cpu(config: &HostConfig) -> Detected {
    let devices = cpu::detect(&config.cpu, &config.seed)?;
    Ok(devices.into_iter().map(|device| Box::new(device) as Box<dyn Device>).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_takes_what_works_and_says_why() {
        let cpu = CpuConfig { devices: 2, memory_bytes: vec![1 << 24], ..CpuConfig::default() };
        let chosen = choose(&HostConfig { cpu, ..HostConfig::default() }).unwrap();
        assert_eq!((chosen.host.len(), chosen.backend), (2, "cpu"));
        assert!(chosen.why.starts_with("auto"), "{}", chosen.why);
    }

    #[test]
    fn no_device_is_said_by_each_backend() {
        let none = HostConfig { choice: BackendChoice::Cpu, ..HostConfig::default() };
        assert_eq!(choose(&none).err(), Some(ChooseError::None("cpu has no device".into())));
    }
}
