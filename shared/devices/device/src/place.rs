//! Where a device is, and whether two of them are one piece of hardware that two backends found.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// NVIDIA's number among PCI's vendors.
pub const NVIDIA: u32 = 0x10DE;
/// The last device on a bus.
pub const MAX_PCI_DEVICE: u8 = 31;
/// The last function of a device.
pub const MAX_PCI_FUNCTION: u8 = 7;

/// Where a device is, as far as its backend knows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DevicePlace {
    /// Its address on the PCI bus. The partitions of a GPU share it.
    pub pci_address: Option<PciAddress>,
    /// The driver's UUID of the hardware; NVIDIA's is the same in all its APIs.
    pub uuid: Option<[u8; 16]>,
    /// PCI's number of the vendor, or Khronos's for a vendor without one.
    pub vendor: Option<u32>,
}

impl DevicePlace {
    /// Whether this device is hardware that an earlier backend has already, in `earlier`.
    ///
    /// An address or a UUID identifies it. A device that has neither is taken for one of its vendor's: better one GPU
    /// too few than one that counts twice.
    pub fn is_known_as(&self, earlier: &Self) -> bool {
        let nameless = self.pci_address.is_none() && self.uuid.is_none();
        self.is_where(earlier) || (nameless && same(self.vendor.as_ref(), earlier.vendor.as_ref()))
    }

    /// Whether an address or a UUID shows two devices to be one piece of hardware.
    pub fn is_where(&self, other: &Self) -> bool {
        same(self.pci_address.as_ref(), other.pci_address.as_ref()) || same(self.uuid.as_ref(), other.uuid.as_ref())
    }
}

fn same<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> bool {
    a.is_some() && a == b
}

/// The vendor's name, or its number where it is not a common one.
pub fn vendor_name(vendor: u32) -> String {
    let name = match vendor {
        0x1002 | 0x1022 => "AMD",
        0x1010 => "Imagination",
        0x106B => "Apple",
        NVIDIA => "NVIDIA",
        0x13B5 => "Arm",
        0x1414 => "Microsoft",
        0x14E4 => "Broadcom",
        0x15AD => "VMware",
        0x1AF4 => "virtio",
        0x5143 => "Qualcomm",
        0x8086 => "Intel",
        // Khronos gives numbers to vendors without one of PCI's.
        0x1_0005 => "Mesa",
        _ => return format!("vendor {vendor:#06x}"),
    };
    name.into()
}

/// An address on the PCI bus. APIs write it with more or fewer digits, large or small: its numbers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PciAddress {
    /// The domain: 16 bits, but for those that a hypervisor or a controller makes up.
    pub domain: u32,
    pub bus: u8,
    /// The number on the bus, to [`MAX_PCI_DEVICE`].
    pub device: u8,
    /// The number in the device, to [`MAX_PCI_FUNCTION`].
    pub function: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an address on the PCI bus, such as 0000:02:00.0")]
pub struct NoPciAddress;

impl FromStr for PciAddress {
    type Err = NoPciAddress;

    fn from_str(text: &str) -> Result<Self, NoPciAddress> {
        let mut parts = text.trim().splitn(3, ':');
        let (domain, bus, rest) = (parts.next(), parts.next(), parts.next().and_then(|rest| rest.split_once('.')));
        let (device, function) = rest.ok_or(NoPciAddress)?;
        Ok(Self {
            domain: number(domain, 8, u32::MAX)?,
            bus: small(bus, 2, u8::MAX)?,
            device: small(Some(device), 2, MAX_PCI_DEVICE)?,
            function: small(Some(function), 1, MAX_PCI_FUNCTION)?,
        })
    }
}

/// A hexadecimal number of at most `digits` digits, and not above `max`.
fn number(text: Option<&str>, digits: usize, max: u32) -> Result<u32, NoPciAddress> {
    let text = text.filter(|text| text.len() <= digits && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let number = text.and_then(|text| u32::from_str_radix(text, 16).ok()).filter(|number| *number <= max);
    number.ok_or(NoPciAddress)
}

fn small(text: Option<&str>, digits: usize, max: u8) -> Result<u8, NoPciAddress> {
    u8::try_from(number(text, digits, max.into())?).map_err(|_| NoPciAddress)
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pci_address: Option<&str>, uuid: Option<u8>, vendor: u32) -> DevicePlace {
        let pci_address = pci_address.map(|address| address.parse().unwrap());
        DevicePlace { pci_address, uuid: uuid.map(|byte| [byte; 16]), vendor: Some(vendor) }
    }

    #[test]
    fn addresses_are_their_numbers() {
        let address = PciAddress { domain: 0, bus: 0xAF, device: 0x1C, function: 3 };
        for text in ["0000:af:1c.3", "0000:AF:1C.3", "00000000:AF:1C.3", " 0000:af:1c.3\n", "0:af:1c.3"] {
            assert_eq!(text.parse(), Ok(address), "{text:?}");
        }
        assert_eq!(address.to_string(), "0000:af:1c.3");
        let far = PciAddress { domain: 0xABCD_0001, bus: 1, device: 0, function: 0 };
        assert_eq!(far.to_string().parse(), Ok(far));
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in [
            "",
            "af:1c.3",
            "0000:af:1c",
            "0000:af:1c.8",
            "0000:af:20.0",
            "0000:100:00.0",
            "000000000:af:1c.3",
            "0000:+a:1c.3",
            "0000:af:1c.3.0",
            "0000:af:1c:3.0",
            "0000::1c.3",
            "GPU at 0000:af:1c.3",
        ] {
            assert_eq!(text.parse::<PciAddress>(), Err(NoPciAddress), "{text:?}");
        }
    }

    #[test]
    fn vendors_have_names_or_numbers() {
        assert_eq!([NVIDIA, 0x1_0005, 0xABC].map(vendor_name), ["NVIDIA", "Mesa", "vendor 0x0abc"]);
    }

    #[test]
    fn an_address_or_a_uuid_tells() {
        let cuda = place(Some("00000000:02:00.0"), Some(7), NVIDIA);
        assert!(place(Some("0000:02:00.0"), None, NVIDIA).is_known_as(&cuda));
        assert!(place(Some("0000:02:00.0"), Some(8), NVIDIA).is_known_as(&cuda), "a partition has a UUID of its own");
        assert!(place(None, Some(7), NVIDIA).is_known_as(&cuda));
        assert!(place(Some("0001:02:00.0"), Some(7), NVIDIA).is_known_as(&cuda), "a hypervisor makes domains up");
        for (address, uuid) in [(Some("0000:03:00.0"), None), (Some("0000:03:00.0"), Some(8)), (None, Some(8))] {
            assert!(!place(address, uuid, NVIDIA).is_known_as(&cuda), "{address:?}, {uuid:?}");
        }
    }

    #[test]
    fn without_either_the_vendor_does() {
        let cuda = place(Some("0000:02:00.0"), Some(7), NVIDIA);
        assert!(place(None, None, NVIDIA).is_known_as(&cuda));
        assert!(!place(None, None, 0x1002).is_known_as(&cuda));
        assert!(!DevicePlace::default().is_known_as(&DevicePlace::default()), "nothing known is nothing in common");
        assert!(!place(None, None, NVIDIA).is_known_as(&DevicePlace::default()));
    }
}
