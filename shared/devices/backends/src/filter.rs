//! Which of a machine's devices a program uses: the setting `device`.

use assay_device::backend::DetectedDevice;
use assay_work::DeviceId;

use crate::choice::ChooseError;

/// The most digits of an index: a host has at most 64 devices.
const MAX_INDEX_DIGITS: usize = 2;
/// Sign before a device that is not used.
const NOT: char = '^';
/// The fewest digits of an id that name a device.
const MIN_ID_DIGITS: usize = 4;
/// Of a whole id.
const ID_DIGITS: usize = 32;

/// The devices that are used, and those that are not. The default uses all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceFilter {
    /// Selectors of the devices to use; all devices when empty.
    pub include: Vec<DeviceSelector>,
    /// Selectors of the devices not to use.
    pub exclude: Vec<DeviceSelector>,
}

/// A selector of devices, as written: an index, the first digits of an id, or a part of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSelector(String);

impl DeviceSelector {
    /// Reads a selector, without the white space around it.
    ///
    /// # Errors
    /// A sentence, for an empty text.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() { Err("expected an id, an index or a part of a name".into()) } else { Ok(Self(text.into())) }
    }

    /// The devices that it selects, as places in the list.
    ///
    /// # Errors
    /// A sentence: it selects no device, or its digits are those of several.
    fn find(&self, devices: &[&DetectedDevice]) -> Result<Vec<usize>, String> {
        let text = &self.0;
        if text.len() <= MAX_INDEX_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let index = text.parse().ok().filter(|index| *index < devices.len());
            return index.map(|index| vec![index]).ok_or_else(|| format!("no device has the index {text}"));
        }
        let digits = id_digits(text);
        let with = |is_named: &dyn Fn(&DetectedDevice) -> bool| {
            devices.iter().enumerate().filter(|(_, found)| is_named(found)).map(|(place, _)| place).collect::<Vec<_>>()
        };
        let by_id = digits.map(|digits| with(&|found| found.info.id.to_string().starts_with(&digits)));
        match by_id.unwrap_or_default()[..] {
            [one] => return Ok(vec![one]),
            [] => {}
            _ => return Err(format!("the ids of several devices begin with {text:?}: give more digits")),
        }
        let wanted = text.to_lowercase();
        let by_name = with(&|found| found.info.name.to_lowercase().contains(&wanted));
        if by_name.is_empty() && id_digits(text).is_some_and(|digits| digits.len() == ID_DIGITS) {
            // A card that fell off the bus leaves the others to work.
            tracing::warn!("device: no device has the id {text:?}");
        } else if by_name.is_empty() {
            return Err(format!("no device has an id that begins with {text:?}, or a name with it"));
        }
        Ok(by_name)
    }
}

/// The digits of an id, as tables show it or as a UUID.
fn id_digits(text: &str) -> Option<String> {
    let text = text.to_lowercase();
    let uuid = ["gpu-", "mig-"].iter().find_map(|kind| text.strip_prefix(kind)).map(|uuid| uuid.replace('-', ""));
    let digits = uuid.unwrap_or(text);
    (digits.len() >= MIN_ID_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digits)
}

impl DeviceFilter {
    /// Reads selectors; those of devices not to use have a `^` before them.
    ///
    /// # Errors
    /// A sentence, for an empty selector.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        let mut filter = Self::default();
        for text in texts {
            match text.trim().strip_prefix(NOT) {
                Some(text) => filter.exclude.push(DeviceSelector::new(text)?),
                None => filter.include.push(DeviceSelector::new(text)?),
            }
        }
        Ok(filter)
    }

    pub fn is_all(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// The devices to use among those found.
    ///
    /// # Errors
    /// [`ChooseError::Filter`], which lists the devices: a selector matches no device, or no device is left.
    pub fn apply(&self, found: Vec<DetectedDevice>) -> Result<Vec<DetectedDevice>, ChooseError> {
        let listed = in_order(&found);
        let refused = |why: &str| {
            let lines: Vec<_> = listed.iter().enumerate().map(|(index, found)| line(index, found)).collect();
            ChooseError::Filter(format!("device: {why}; the devices are {}", lines.join("; ")))
        };
        let named = |selectors: &[DeviceSelector]| {
            let places = selectors.iter().map(|selector| selector.find(&listed).map_err(|why| refused(&why)));
            let places: Vec<_> = places.collect::<Result<_, _>>()?;
            Ok(places.concat().into_iter().map(|place| listed[place].info.id).collect::<Vec<DeviceId>>())
        };
        let included = named(&self.include)?;
        let excluded = named(&self.exclude)?;
        let is_used = |id: DeviceId| (self.include.is_empty() || included.contains(&id)) && !excluded.contains(&id);
        let used: Vec<_> = found.iter().filter(|found| is_used(found.info.id)).cloned().collect();
        if used.is_empty() && !found.is_empty() {
            return Err(refused("no device is left"));
        }
        Ok(used)
    }
}

/// The devices as `devices` numbers them: by their ids.
pub fn in_order(found: &[DetectedDevice]) -> Vec<&DetectedDevice> {
    let mut listed: Vec<_> = found.iter().collect();
    listed.sort_by_key(|found| found.info.id);
    listed
}

fn line(index: usize, found: &DetectedDevice) -> String {
    format!("{index}: {} ({})", &found.info.id.to_string()[..8], found.info.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_device::DeviceInfo;
    use assay_device::backend::BackendKind;

    /// In another order than that of the ids.
    fn found() -> Vec<DetectedDevice> {
        let device = |id: u8, name: &str| {
            let id = DeviceId([id; 16]);
            let (backend, detail) = (BackendKind::Cpu, String::new());
            let info = DeviceInfo {
                id,
                name: name.into(),
                backend,
                detail,
                precisions: vec![assay_work::Precision::Int8],
                units: Vec::new(),
                total_bytes: 1,
                free_bytes: 1,
            };
            DetectedDevice {
                info,
                place: Default::default(),
                integrated: false,
                refusal: None,
                forbidden: false,
                spec: String::new(),
            }
        };
        vec![device(0xcc, "NVIDIA RTX 4090"), device(0xab, "NVIDIA H200"), device(0x11, "NVIDIA H200")]
    }

    fn filter(texts: &[&str]) -> DeviceFilter {
        DeviceFilter::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn used(texts: &[&str]) -> Result<Vec<u8>, String> {
        let used = filter(texts).apply(found()).map_err(|error| error.to_string())?;
        Ok(used.iter().map(|found| found.info.id.0[0]).collect())
    }

    #[test]
    fn devices_are_named_by_index_id_and_name() {
        for (include, expected) in [
            (&[][..], &[0xcc, 0xab, 0x11][..]),
            (&["0"], &[0x11]),
            (&["2"], &[0xcc]),
            (&["abab"], &[0xab]),
            (&["ABABAB"], &[0xab]),
            (&["GPU-abababab-abab"], &[0xab]),
            (&["h200"], &[0xab, 0x11]),
            // Four hex digits that no id begins with.
            (&["4090"], &[0xcc]),
            (&["abab", "rtx"], &[0xcc, 0xab]),
        ] {
            assert_eq!(used(include).unwrap(), expected, "{include:?}");
        }
        assert_eq!(used(&["^h200"]).unwrap(), [0xcc]);
        assert_eq!(used(&["h200", " ^0"]).unwrap(), [0xab]);
        // A card that is gone.
        let gone = "GPU-dddddddd-dddd-dddd-dddd-dddddddddddd";
        assert_eq!(used(&["abab", gone]).unwrap(), [0xab]);
        assert_eq!(used(&["rtx", &format!("^{gone}")]).unwrap(), [0xcc]);
    }

    #[test]
    fn what_names_nothing_is_refused_with_the_devices() {
        for (texts, part) in [
            (&["H100"][..], "device: no device has an id that begins with \"H100\""),
            (&["3"], "device: no device has the index 3"),
            (&["^H100"], "device: no device has an id"),
            (&["^nvidia"], "device: no device is left"),
            (&["0", "^1111"], "no device is left"),
            (&["GPU-dddddddd-dddd-dddd-dddd-dddddddddddd"], "no device is left"),
            (&["GPU-dddddddd-dddd"], "device: no device has an id"),
        ] {
            let error = used(texts).unwrap_err();
            for part in [part, "0: 11111111 (NVIDIA H200); 1: abababab (NVIDIA H200); 2: cccccccc (NVIDIA RTX 4090)"] {
                assert!(error.contains(part), "{part} in {error}");
            }
        }
        assert!(["", " ", "^"].into_iter().all(|text| DeviceFilter::parse(&[text.to_owned()]).is_err()));
    }

    #[test]
    fn digits_of_several_ids_are_refused() {
        let mut found = found();
        (found[0].info.id.0, found[1].info.id.0) = ([0xab; 16], [0xab; 16]);
        found[1].info.id.0[15] = 0;
        let error = filter(&["abab"]).apply(found).unwrap_err().to_string();
        assert!(error.contains("several devices"), "{error}");
    }
}
