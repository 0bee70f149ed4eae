//! A device's hardware, as its management library describes it.

use serde::{Deserialize, Serialize};

use assay_work::DeviceId;

assay_work::names! {
    /// The confidential-computing mode of a machine: memory encrypted on the bus, measured firmware. Its names are for
    /// display.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum ConfidentialComputing {
        /// Disabled.
        Off = "off",
        /// Enabled.
        On = "on",
        /// Enabled, without the protection against debuggers.
        DevTools = "dev tools",
    }
}

/// One device's hardware: all of it a claim, `None` where it is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Hardware {
    /// The product name, such as `NVIDIA H200`.
    pub model: Option<String>,
    /// `GPU-` or, for a partition of a GPU, `MIG-`, and a UUID.
    pub uuid: Option<String>,
    /// The board's serial number.
    pub serial: Option<String>,
    /// `domain:bus:device.function` in hexadecimal.
    pub pci_address: Option<String>,
    /// The version of the kernel driver.
    pub driver_version: Option<String>,
    /// The version of the firmware.
    pub vbios_version: Option<String>,
    /// The total memory.
    pub memory_bytes: Option<u64>,
    /// The enforced power limit, in milliwatts.
    pub power_limit_mw: Option<u32>,
    /// Whether multi-instance GPU is enabled: work then runs on partitions only.
    pub mig_enabled: Option<bool>,
    /// Whether error correction of the memory is enabled.
    pub ecc_enabled: Option<bool>,
    /// The machine's mode.
    pub confidential_computing: Option<ConfidentialComputing>,
}

impl Hardware {
    /// The id of the device: its UUID, as the CUDA driver reports it.
    pub fn device_id(&self) -> Option<DeviceId> {
        device_id(self.uuid.as_deref()?)
    }

    /// Whether work can run on it: on a partitioned GPU it runs on the partitions only.
    #[must_use]
    pub fn counts_as_device(&self) -> bool {
        let is_partition = self.uuid.as_deref().is_some_and(|uuid| uuid.starts_with(PARTITION_PREFIX));
        is_partition || self.mig_enabled != Some(true)
    }
}

/// A management library's claims about a host, read once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostClaims {
    /// The devices in the library's order; a partitioned GPU is followed by its partitions.
    pub hardware: Vec<Hardware>,
    /// The newest CUDA version that the driver supports, 1000 · major + 10 · minor.
    pub cuda_version: Option<u32>,
}

impl HostClaims {
    /// The hardware of the device with an id.
    pub fn of(&self, id: DeviceId) -> Option<&Hardware> {
        self.hardware.iter().find(|hardware| hardware.device_id() == Some(id))
    }
}

const PARTITION_PREFIX: &str = "MIG-";
/// Positions of the dashes in a UUID as text.
const DASHES: [usize; 4] = [8, 13, 18, 23];
/// Characters of a UUID as text.
const UUID_CHARS: usize = 36;

/// The id in `GPU-01234567-89ab-cdef-0123-456789abcdef` or the same behind `MIG-`.
fn device_id(text: &str) -> Option<DeviceId> {
    let uuid = text.strip_prefix("GPU-").or_else(|| text.strip_prefix(PARTITION_PREFIX))?;
    if uuid.len() != UUID_CHARS || !DASHES.iter().all(|&at| uuid.as_bytes()[at] == b'-') {
        return None;
    }
    let digits: String = uuid.chars().filter(|c| *c != '-').collect();
    let bytes: [u8; DeviceId::LEN] = hex::decode(digits).ok()?.try_into().ok()?;
    Some(DeviceId(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_the_id_of_its_device() {
        let bytes = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe];
        for prefix in ["GPU", "MIG"] {
            let text = format!("{prefix}-01234567-89AB-cdef-1032-547698badcfe");
            assert_eq!(device_id(&text), Some(DeviceId(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_uuid_is_no_device() {
        for text in [
            "",
            "GPU-",
            "GPU-0123456789abcdef1032547698badcfe",
            "GPU-01234567-89ab-cdef-1032-547698badcf",
            "GPU-01234567-89ab-cdef-1032-547698badcfe0",
            "GPU-01234567-89ab-cdef-1032-547698badcfg",
            "GPU-0123456-789ab-cdef-1032-547698badcfe",
            "GPU-01234567-89ab-cdef-1032-5476-8badcfe",
            "XPU-01234567-89ab-cdef-1032-547698badcfe",
            // The name of a partition in drivers before 470.
            "MIG-GPU-01234567-89ab-cdef-1032-547698badcfe/1/0",
            "GPU-ßß234567-89ab-cdef-1032-547698badcfe",
        ] {
            assert_eq!(device_id(text), None, "{text:?}");
        }
    }
}
