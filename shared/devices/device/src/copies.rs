//! Copies between host and device whose bytes are compared: a burn-in's third part, beside passes and probes.
//!
//! A device that takes part keeps two areas of memory besides its slots, near and far. Bytes go from the host to the
//! near area, from there to the far one, and come back from either.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::DeviceError;
use assay_work::leaf::keystream;

/// The most bytes of one area.
pub const MAX_COPY_BYTES: u64 = 64 << 20;
/// The least bytes of one area: a chunk.
pub const MIN_COPY_BYTES: u64 = 1024;

/// The bytes that are copied: between [`MIN_COPY_BYTES`] and [`MAX_COPY_BYTES`], a multiple of 1024.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopySource {
    /// The start of `KEYSTREAM(key, 0)`.
    Keystream {
        key: [u8; 32],
        /// Length in bytes.
        bytes: u64,
    },
    /// Given bytes, such as another device's.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
}

impl CopySource {
    pub const fn len(&self) -> u64 {
        match self {
            Self::Keystream { bytes, .. } => *bytes,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Whether the length is 0, which [`CopySource::check`] refuses.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses a length out of bounds.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    pub fn check(&self) -> Result<(), DeviceError> {
        let bytes = self.len();
        if (MIN_COPY_BYTES..=MAX_COPY_BYTES).contains(&bytes) && bytes.is_multiple_of(MIN_COPY_BYTES) {
            return Ok(());
        }
        Err(DeviceError::Unsupported(format!("a copy of {bytes} bytes")))
    }

    /// The bytes themselves.
    pub fn data(&self) -> Vec<u8> {
        match self {
            Self::Keystream { key, bytes } => {
                let mut data = vec![0; *bytes as usize];
                keystream(key, 0, 0, &mut data);
                data
            }
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

assay_work::names! {
    /// One leg of a copy.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum CopyLeg {
        /// From the host's memory to the device's.
        HostToDevice = "host to device",
        /// Within the device's memory.
        WithinDevice = "within the device",
        /// From the device's memory to the host's.
        DeviceToHost = "device to host",
    }
}

/// Where bytes that were copied differ from those that were to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyDifference {
    /// The leg at fault: a second reading tells a wrong byte in memory from a wrong read.
    pub leg: CopyLeg,
    /// Offset of the first wrong byte.
    pub first_byte: u64,
    pub expected: u8,
    pub found: u8,
    pub wrong_bytes: u64,
}

/// The result of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyReport {
    /// How long each way took, in the order of [`CopyLeg::ALL`], by the device's clock where it has one.
    pub took: [Duration; 3],
    pub difference: Option<CopyDifference>,
}

/// The two areas of a device, as [`test()`] uses them.
pub trait Areas {
    /// Copies bytes from the host to the near area; both become as long.
    fn write(&mut self, data: &[u8]) -> Result<Duration, DeviceError>;

    /// Copies the near area to the far one.
    fn copy(&mut self) -> Result<Duration, DeviceError>;

    /// Copies an area to the host.
    fn read(&mut self, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError>;
}

/// Sends bytes to the device, reads them back, copies them within the device, reads them back again, and compares both
/// with the source.
///
/// # Errors
/// [`DeviceError::Unsupported`] where the device has no areas, or for a length out of bounds; the device's others.
pub fn test(device: &mut dyn Areas, source: &CopySource) -> Result<CopyReport, DeviceError> {
    source.check()?;
    let expected = source.data();
    let mut found = vec![0; expected.len()];
    let in_ = device.write(&expected)?;
    let out = device.read(Area::Near, &mut found)?;
    let mut difference = compare(device, Area::Near, CopyLeg::HostToDevice, &expected, &found)?;
    let within = device.copy()?;
    if difference.is_none() {
        device.read(Area::Far, &mut found)?;
        difference = compare(device, Area::Far, CopyLeg::WithinDevice, &expected, &found)?;
    }
    Ok(CopyReport { took: [in_, within, out], difference })
}

/// One of the two areas of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// The one that the host writes.
    Near,
    /// The one that the near one is copied to.
    Far,
}

/// The difference between the bytes sent and those read from an area; `written` is the copy that wrote it.
fn compare(
    device: &mut dyn Areas,
    area: Area,
    written: CopyLeg,
    expected: &[u8],
    found: &[u8],
) -> Result<Option<CopyDifference>, DeviceError> {
    let Some(first) = expected.iter().zip(found).position(|(a, b)| a != b) else { return Ok(None) };
    let wrong = expected.iter().zip(found).filter(|(a, b)| a != b).count();
    let mut again = vec![0; expected.len()];
    device.read(area, &mut again)?;
    let leg = if again == expected { CopyLeg::DeviceToHost } else { written };
    Ok(Some(CopyDifference {
        leg,
        first_byte: first as u64,
        expected: expected[first],
        found: found[first],
        wrong_bytes: wrong as u64,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::reference::ReferenceDevice;
    use assay_work::DeviceId;

    const SOURCE: CopySource = CopySource::Keystream { key: [3; 32], bytes: 4096 };

    /// Two areas, and the way on which a byte turns wrong.
    struct Faulty {
        near: Vec<u8>,
        far: Vec<u8>,
        wrong: Option<CopyLeg>,
        reads: u32,
    }

    impl Areas for Faulty {
        fn write(&mut self, data: &[u8]) -> Result<Duration, DeviceError> {
            self.near = data.to_vec();
            if self.wrong == Some(CopyLeg::HostToDevice) {
                self.near[7] ^= 0x10;
            }
            Ok(Duration::from_secs(1))
        }

        fn copy(&mut self) -> Result<Duration, DeviceError> {
            self.far.clone_from(&self.near);
            if self.wrong == Some(CopyLeg::WithinDevice) {
                self.far[4095] ^= 1;
            }
            Ok(Duration::from_secs(2))
        }

        fn read(&mut self, area: Area, out: &mut [u8]) -> Result<Duration, DeviceError> {
            out.copy_from_slice(if area == Area::Near { &self.near } else { &self.far });
            self.reads += 1;
            if self.wrong == Some(CopyLeg::DeviceToHost) && self.reads == 1 {
                out[100] = !out[100];
                out[200] = !out[200];
            }
            Ok(Duration::from_secs(3))
        }
    }

    fn report(wrong: Option<CopyLeg>) -> CopyReport {
        test(&mut Faulty { near: vec![], far: vec![], wrong, reads: 0 }, &SOURCE).unwrap()
    }

    #[test]
    fn honest_copies_differ_nowhere() {
        let took = [1, 2, 3].map(Duration::from_secs);
        assert_eq!(report(None), CopyReport { took, difference: None });
    }

    #[test]
    fn each_way_is_told_from_the_others() {
        let data = SOURCE.data();
        for (leg, first, mask, wrong) in [
            (CopyLeg::HostToDevice, 7, 0x10, 1),
            (CopyLeg::WithinDevice, 4095, 1, 1),
            (CopyLeg::DeviceToHost, 100, 0xFF, 2),
        ] {
            let found = report(Some(leg)).difference.expect("a byte is wrong");
            let expected = data[first];
            let first_byte = first as u64;
            assert_eq!(found, CopyDifference { leg, first_byte, expected, found: expected ^ mask, wrong_bytes: wrong });
        }
    }

    #[test]
    fn a_device_without_areas_and_a_length_out_of_bounds_are_unsupported() {
        let mut reference = ReferenceDevice::new(DeviceId([1; 16]), "no areas", 0);
        assert!(matches!(reference.test_copies(&SOURCE), Err(DeviceError::Unsupported(_))));
        for bytes in [0, 1023, 1025, MAX_COPY_BYTES + 1024] {
            let source = CopySource::Keystream { key: [0; 32], bytes };
            assert!(source.check().is_err(), "{bytes}");
        }
        assert!(CopySource::Bytes(vec![1; 2048]).check().is_ok());
    }
}
