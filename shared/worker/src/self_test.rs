//! A small known pass and probe, before a device is offered: one that gives other bits is sick.
//!
//! What is expected was computed by the reference (`assay_device::reference`) once and stands here, so that the test
//! takes a device milliseconds and the processor nothing. It touches every function that a challenge uses; it is no
//! test of a backend (those run over all sizes), and no burn-in.

use assay_device::{Device, DeviceError, Handle, Pass, ProbeRounds};
use assay_work::digest::pass_root;
use assay_work::{PassKey, ProbeKey};

/// Six slots, four of them products: both parents differ from slot to slot.
const PASS: Pass = Pass { key: PassKey([0xa5; 32]), n: 256, offset: 3, count: 6 };
/// Two rounds, so that the second starts from the digest of the first.
const PROBE: ProbeRounds = ProbeRounds { key: ProbeKey([0x5a; 32]), walks: 256, steps: 8, rounds: 2 };
/// The slot that is read, and from where on.
const READ: (u32, u64) = (5, 4096);

/// What the reference gives, each as BLAKE3 of the bytes.
const EXPECTED: [(&str, &str); 5] = [
    ("the slots", "a01434769bcc797eb5c2f71225316cf57f2bb99c63707aefc949e9fe64ab6284"),
    ("the probe", "7514e2bf3443d4738c0bb74a9efb00c37f849b25683c152421429c0f7745d4ea"),
    ("the states of the probe", "6265175ba16342de50cb9d197bc22e4058ea909e13c99e272debf418475c5ed0"),
    ("the bytes read", "2434fd41ebf5fa6c49dd32500507c768dd33c625cc66690be80739a1d1e4e005"),
    ("the chaining values", "d7a1ffaa42fe15e1837d1ca22cb38395f48bd8ed115bb336ba9923c5dd123782"),
];

/// Compares a device with known bits. Nothing is resident after it.
///
/// # Errors
/// [`DeviceError::Sick`] when the bits are others, and only then; [`DeviceError::Lost`] when the device or its driver
/// failed, which another process may mend; [`DeviceError::Busy`] when there is no room for six small slots; and what else
/// the device gives.
pub fn self_test(device: &mut dyn Device, handle: &Handle) -> Result<(), DeviceError> {
    let found = run(device, handle).map_err(|error| match error {
        DeviceError::Sick(why) => DeviceError::Lost(format!("in its self-test: {why}")),
        other => other,
    });
    device.release();
    for ((what, expected), found) in EXPECTED.iter().zip(found?) {
        if *expected != found {
            return Err(DeviceError::Sick(format!("its self-test gives other bits for {what} than the reference")));
        }
    }
    Ok(())
}

fn run(device: &mut dyn Device, handle: &Handle) -> Result<[String; 5], DeviceError> {
    let digests = device.fill(&PASS, handle)?;
    let root = pass_root(&digests);
    let rounds = device.probe_rounds(&PROBE, handle)?;
    let rounds: Vec<u8> = rounds.iter().flat_map(|digest| digest.0).collect();
    let states = device.probe_states()?;
    let mut bytes = vec![0; 1024];
    let (slot, first_byte) = READ;
    device.read(slot, first_byte, &mut bytes)?;
    let values = device.chaining_values(slot, 1024)?.concat();
    let hash = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    Ok([hash(&root.0), hash(&rounds), hash(&states), hash(&bytes), hash(&values)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_cpu::CpuConfig;
    use assay_device::reference::ReferenceDevice;
    use assay_device::{DeviceInfo, ProbeRound};
    use assay_work::{DeviceId, Digest};

    fn reference() -> ReferenceDevice {
        ReferenceDevice::new(DeviceId([1; 16]), "the reference", PASS.bytes())
    }

    #[test]
    fn what_is_expected_is_what_the_reference_gives() {
        let found = run(&mut reference(), &Handle::default()).unwrap();
        assert_eq!(EXPECTED.map(|(_, expected)| expected.to_owned()), found);
    }

    #[test]
    fn a_processor_passes_and_holds_nothing_after() {
        let config = CpuConfig { devices: 1, memory_bytes: vec![8 << 20], ..CpuConfig::default() };
        let mut device = assay_cpu::devices(&config).unwrap().remove(0);
        self_test(&mut device, &Handle::default()).unwrap();
        assert!(matches!(device.read(0, 0, &mut [0]), Err(DeviceError::Unsupported(_))));
    }

    #[test]
    fn a_device_without_room_is_busy_and_not_sick() {
        let mut small = ReferenceDevice::new(DeviceId([1; 16]), "small", PASS.bytes() - 1);
        assert!(matches!(self_test(&mut small, &Handle::default()), Err(DeviceError::Busy { .. })));
    }

    /// The reference with one bit wrong, in the answer to one function.
    struct OneBit(ReferenceDevice, &'static str);

    impl OneBit {
        fn flip(&self, what: &str, byte: &mut u8) {
            *byte ^= u8::from(self.1 == what);
        }
    }

    impl Device for OneBit {
        fn info(&self) -> DeviceInfo {
            self.0.info()
        }
        fn slots_that_fit(&self, n: u32) -> u32 {
            self.0.slots_that_fit(n)
        }
        fn fill(&mut self, pass: &Pass, handle: &Handle) -> Result<Vec<Digest>, DeviceError> {
            let mut digests = self.0.fill(pass, handle)?;
            self.flip("the slots", &mut digests[5].0[31]);
            Ok(digests)
        }
        fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
            let mut digest = self.0.probe_round(round, handle)?;
            self.flip("the probe", &mut digest.0[0]);
            Ok(digest)
        }
        fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
            let mut states = self.0.probe_states()?;
            self.flip("the states of the probe", &mut states[77]);
            Ok(states)
        }
        fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
            self.0.read(slot, first_byte, out)?;
            self.flip("the bytes read", &mut out[9]);
            Ok(())
        }
        fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
            let mut values = self.0.chaining_values(slot, subtree_bytes)?;
            self.flip("the chaining values", &mut values[63][31]);
            Ok(values)
        }
        fn release(&mut self) {
            self.0.release();
        }
    }

    #[test]
    fn one_wrong_bit_anywhere_is_sick() {
        self_test(&mut OneBit(reference(), "nothing"), &Handle::default()).unwrap();
        for (what, _) in EXPECTED {
            let Err(DeviceError::Sick(said)) = self_test(&mut OneBit(reference(), what), &Handle::default()) else {
                panic!("a wrong bit in {what} passes");
            };
            assert!(said.contains(what), "{said}");
        }
    }

    /// The reference, whose driver fails at one function.
    struct Failing(ReferenceDevice);

    impl Device for Failing {
        fn info(&self) -> DeviceInfo {
            self.0.info()
        }

        fn slots_that_fit(&self, n: u32) -> u32 {
            self.0.slots_that_fit(n)
        }

        fn fill(&mut self, _: &Pass, _: &Handle) -> Result<Vec<Digest>, DeviceError> {
            Err(DeviceError::Sick("the launch timed out".into()))
        }

        fn probe_round(&mut self, round: &ProbeRound, handle: &Handle) -> Result<Digest, DeviceError> {
            self.0.probe_round(round, handle)
        }

        fn probe_states(&mut self) -> Result<Vec<u8>, DeviceError> {
            self.0.probe_states()
        }

        fn read(&mut self, slot: u32, first_byte: u64, out: &mut [u8]) -> Result<(), DeviceError> {
            self.0.read(slot, first_byte, out)
        }

        fn chaining_values(&mut self, slot: u32, subtree_bytes: u64) -> Result<Vec<[u8; 32]>, DeviceError> {
            self.0.chaining_values(slot, subtree_bytes)
        }

        fn release(&mut self) {
            self.0.release();
        }
    }

    #[test]
    fn a_driver_that_fails_is_no_wrong_bit() {
        let said = self_test(&mut Failing(reference()), &Handle::default()).unwrap_err();
        assert!(matches!(&said, DeviceError::Lost(why) if why.contains("timed out")), "{said}");
    }
}
