//! The devices of a challenge file, as typed: `64`, `3x64` or `<device id>:64`, any number of them.

use std::fmt;
use std::str::FromStr;

use assay_device::backend::MAX_HOST_DEVICES;
use assay_work::challenge::{MAX_TOTAL, MIN_COUNT};
use assay_work::{DeviceId, Share};

/// The most devices of a challenge file: those of a host.
const MAX_DEVICES: u32 = MAX_HOST_DEVICES as u32;

/// Devices, with the number of matrices that each fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceSpec {
    /// `DEVICESxCOUNT`, or `COUNT` for one device. The ids are 1, 2, … over all such devices of the challenge.
    Numbered {
        /// Number of devices.
        devices: u32,
        /// Matrices of each device.
        count: u32,
    },
    /// `ID:COUNT`.
    Named {
        /// Id of the device.
        device_id: DeviceId,
        /// Number of matrices.
        count: u32,
    },
}

/// Reasons why a text is not a device specification, or its devices make no challenge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Not one of the three forms.
    #[error("expected COUNT, DEVICESxCOUNT or ID:COUNT, such as 64, 3x64 or {example}:64")]
    Form {
        /// An example id, to show its form.
        example: DeviceId,
    },
    /// Malformed id.
    #[error("malformed device id: {0}")]
    Id(String),
    /// Too few matrices.
    #[error("{0} matrices are too few: a device fills at least {MIN_COUNT}, two leaves and a product")]
    Count(u32),
    /// Too few or too many devices.
    #[error("{0} devices: a challenge has from 1 to {MAX_DEVICES}")]
    Devices(u64),
    /// A repeated id.
    #[error("device {0} is listed twice: give it one count")]
    Twice(DeviceId),
    /// Too many matrices.
    #[error("{0} matrices are too many: a challenge has at most {MAX_TOTAL}")]
    Total(u64),
}

impl FromStr for DeviceSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let form = || SpecError::Form { example: numbered_id(1) };
        let number = |text: &str| text.parse::<u32>().map_err(|_| form());
        if let Some((id, count)) = text.split_once(':') {
            let device_id = id.parse().map_err(|error| SpecError::Id(format!("{error}")))?;
            return Ok(Self::Named { device_id, count: check_count(number(count)?)? });
        }
        let (devices, count) = text.split_once('x').unwrap_or(("1", text));
        let devices = number(devices)?;
        if !(1..=MAX_DEVICES).contains(&devices) {
            return Err(SpecError::Devices(devices.into()));
        }
        Ok(Self::Numbered { devices, count: check_count(number(count)?)? })
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbered { devices, count } => write!(f, "{devices}x{count}"),
            Self::Named { device_id, count } => write!(f, "{device_id}:{count}"),
        }
    }
}

fn check_count(count: u32) -> Result<u32, SpecError> {
    if count < MIN_COUNT { Err(SpecError::Count(count)) } else { Ok(count) }
}

/// The id of the `number`th device without one of its own.
fn numbered_id(number: u32) -> DeviceId {
    DeviceId(u128::from(number).to_be_bytes())
}

/// The shares of a challenge over these devices: in order of id, one after the other.
///
/// # Errors
/// [`SpecError`] for no or too many devices or matrices, or a repeated id.
pub fn shares(specs: &[DeviceSpec]) -> Result<Vec<Share>, SpecError> {
    let devices: u64 =
        specs.iter().map(|s| if let DeviceSpec::Numbered { devices, .. } = s { u64::from(*devices) } else { 1 }).sum();
    if !(1..=u64::from(MAX_DEVICES)).contains(&devices) {
        return Err(SpecError::Devices(devices));
    }
    let mut numbers = 1..=MAX_DEVICES;
    let mut counts: Vec<(DeviceId, u32)> = Vec::new();
    for spec in specs {
        match *spec {
            DeviceSpec::Named { device_id, count } => counts.push((device_id, count)),
            DeviceSpec::Numbered { devices, count } => {
                counts.extend(numbers.by_ref().take(devices as usize).map(|number| (numbered_id(number), count)));
            }
        }
    }
    counts.sort_unstable();
    if let Some(twice) = counts.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(SpecError::Twice(twice[0].0));
    }
    let total: u64 = counts.iter().map(|(_, count)| u64::from(*count)).sum();
    if total > MAX_TOTAL {
        return Err(SpecError::Total(total));
    }
    let mut offset = 0;
    let share = |(device_id, count)| {
        let share = Share { device_id, offset, count };
        offset += count;
        share
    };
    Ok(counts.into_iter().map(share).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(text: &str) -> Vec<DeviceSpec> {
        text.split(',').map(|part| part.parse().unwrap()).collect()
    }

    #[test]
    fn shares_follow_one_another_in_order_of_id() {
        let id = |byte: u8| DeviceId([byte; 16]);
        let text = format!("{}:7,2x64,{}:5,3", id(9), id(0xff));
        let found: Vec<_> = shares(&specs(&text)).unwrap().iter().map(|s| (s.device_id, s.offset, s.count)).collect();
        assert_eq!(
            found,
            [
                (numbered_id(1), 0, 64),
                (numbered_id(2), 64, 64),
                (numbered_id(3), 128, 3),
                (id(9), 131, 7),
                (id(0xff), 138, 5),
            ]
        );
    }

    #[test]
    fn other_texts_are_refused() {
        let form = SpecError::Form { example: numbered_id(1) };
        for (text, error) in [
            ("", form.clone()),
            ("x64", form.clone()),
            ("3x", form.clone()),
            ("-3", form.clone()),
            ("0x64", SpecError::Devices(0)),
            ("65x64", SpecError::Devices(65)),
            ("2", SpecError::Count(2)),
            ("4x2", SpecError::Count(2)),
        ] {
            assert_eq!(text.parse::<DeviceSpec>(), Err(error), "{text}");
        }
        assert!(matches!("abc:64".parse::<DeviceSpec>(), Err(SpecError::Id(_))));
        assert!(format!("{}:2", numbered_id(1)).parse::<DeviceSpec>().is_err());
    }

    #[test]
    fn devices_that_make_no_challenge_are_refused() {
        assert_eq!(shares(&[]), Err(SpecError::Devices(0)));
        assert_eq!(shares(&specs("60x3,5x3")), Err(SpecError::Devices(65)));
        assert_eq!(shares(&specs(&format!("3,{}:3", numbered_id(1)))), Err(SpecError::Twice(numbered_id(1))));
        assert_eq!(shares(&specs("64x16385")), Err(SpecError::Total(64 * 16_385)));
        assert_eq!(shares(&specs("64x16384")).unwrap().len(), 64);
        assert!(matches!(shares(&specs("4294967295,4294967295")), Err(SpecError::Total(_))));
    }

    #[test]
    fn a_spec_reads_back_as_itself() {
        for text in ["3x64", &format!("{}:7", numbered_id(5))] {
            assert_eq!(text.parse::<DeviceSpec>().unwrap().to_string(), text);
        }
    }
}
