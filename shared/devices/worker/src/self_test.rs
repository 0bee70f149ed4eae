//! A small known pass and probe, before a device is offered: one that gives other bits is sick.
//!
//! The expected digests were computed by the reference (`assay_kits::reference`) once and stand here, so that the
//! test takes a device milliseconds and the processor nothing. It touches every function that a challenge uses; it
//! replaces neither the tests of a backend (those run over all sizes) nor a burn-in.

use assay_device::{Device, DeviceError, Handle, Pass, ProbeRounds};
use assay_work::digest::pass_root;
use assay_work::{PassKey, Precision, ProbeKey};

/// Six slots, four of them products: both parents differ from slot to slot.
const PASS: Pass = Pass { precision: Precision::Int8, key: PassKey([0xa5; 32]), n: 256, offset: 3, count: 6 };
/// Two rounds, so that the second starts from the digest of the first.
const PROBE: ProbeRounds = ProbeRounds { key: ProbeKey([0x5a; 32]), walks: 256, steps: 8, rounds: 2 };
/// The slot that is read, and from where on.
const READ: (u32, u64) = (5, 4096);

/// The reference's results, each as BLAKE3 of the bytes.
const EXPECTED: [(&str, &str); 5] = [
    ("the slots", "a01434769bcc797eb5c2f71225316cf57f2bb99c63707aefc949e9fe64ab6284"),
    ("the probe", "7514e2bf3443d4738c0bb74a9efb00c37f849b25683c152421429c0f7745d4ea"),
    ("the states of the probe", "6265175ba16342de50cb9d197bc22e4058ea909e13c99e272debf418475c5ed0"),
    ("the bytes read", "2434fd41ebf5fa6c49dd32500507c768dd33c625cc66690be80739a1d1e4e005"),
    ("the chaining values", "d7a1ffaa42fe15e1837d1ca22cb38395f48bd8ed115bb336ba9923c5dd123782"),
];

/// The roots of the same pass in the other kinds of work: their memory and its probe are those of INT8.
const OTHER_ROOTS: [(Precision, &str); 5] = [
    (Precision::F16, "a643e8bca1614c50314ce03ee990cd04c09cf9ad58a05262a472b0231a7cb18e"),
    (Precision::Fp8, "21342e1bfdcf69875937bfad73a09fd8930e3ed3a86658fe7e8923dbbbd70eab"),
    (Precision::Fp4, "37e59d79e61261ae23f540402a808eb39bddfa5f88d8bf46cc990d0b659db059"),
    (Precision::Field, "8ae962e4e208d303743fc3fd2b45078d949fba5c6155f95c6addee64d0db26a6"),
    (Precision::Network, "e6cb3be0e76f09c46be8c4a3827252cab8bf97a3f0055448069d2c3a3b837275"),
];

/// Compares a device with known bits, and gives the kinds of work that it computes rightly: wrong bits in another kind
/// than INT8 do not count against INT8. No slots are resident after it.
///
/// # Errors
/// [`DeviceError::Sick`] when the bits of INT8 are others, and only then; [`DeviceError::Lost`] when the device or its
/// driver failed, which another process may mend; [`DeviceError::Busy`] when there is no room for six small slots; and
/// the device's others.
pub fn self_test(device: &mut dyn Device, handle: &Handle) -> Result<Vec<Precision>, DeviceError> {
    let tested = test(device, handle).map_err(|error| match error {
        DeviceError::Sick(why) => DeviceError::Lost(format!("in its self-test: {why}")),
        other => other,
    });
    device.release();
    let (found, passed) = tested?;
    for ((what, expected), found) in EXPECTED.iter().zip(found) {
        if *expected != found {
            return Err(DeviceError::Sick(format!("its self-test gives other bits for {what} than the reference")));
        }
    }
    Ok(passed)
}

fn test(device: &mut dyn Device, handle: &Handle) -> Result<([String; 5], Vec<Precision>), DeviceError> {
    let found = run(device, handle)?;
    let mut passed = vec![Precision::Int8];
    let offered = device.info().precisions;
    for (precision, root) in OTHER_ROOTS.into_iter().filter(|(precision, _)| offered.contains(precision)) {
        let digests = device.fill(&Pass { precision, ..PASS }, handle)?;
        if hex(&pass_root(&digests).0) == root {
            passed.push(precision);
        } else {
            tracing::error!(kind = %precision, "not offered: its self-test gives other bits than the reference");
        }
    }
    Ok((found, passed))
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
    Ok([hex(&root.0), hex(&rounds), hex(&states), hex(&bytes), hex(&values)])
}

fn hex(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_cpu::CpuConfig;
    use assay_device::ProbeRound;
    use assay_kits::FakeDevice;
    use assay_kits::reference::ReferenceDevice;
    use assay_work::DeviceId;

    fn reference() -> ReferenceDevice {
        ReferenceDevice::new(DeviceId([1; 16]), "the reference", PASS.bytes())
    }

    #[test]
    fn what_is_expected_is_what_the_reference_gives() {
        let found = run(&mut reference(), &Handle::default()).unwrap();
        assert_eq!(EXPECTED.map(|(_, expected)| expected.to_owned()), found);
        let root = |(precision, _)| {
            let digests = reference().fill(&Pass { precision, ..PASS }, &Handle::default()).unwrap();
            (precision, hex(&pass_root(&digests).0))
        };
        assert_eq!(OTHER_ROOTS.map(root), OTHER_ROOTS.map(|(precision, root)| (precision, root.to_owned())));
    }

    /// A wrong bit in one kind of work costs the device that kind, unless it is INT8.
    #[test]
    fn a_kind_of_work_with_wrong_bits_is_not_offered() {
        assert_eq!(self_test(&mut reference(), &Handle::default()).unwrap(), Precision::ALL);
        for wrong in Precision::ALL {
            let fill = move |inner: &mut ReferenceDevice, pass: &Pass, handle: &Handle| {
                let mut digests = inner.fill(pass, handle)?;
                digests[5].0[0] ^= u8::from(pass.precision == wrong);
                Ok(digests)
            };
            let mut device = FakeDevice { fill: Box::new(fill), ..FakeDevice::new(reference()) };
            let tested = self_test(&mut device, &Handle::default());
            if wrong == Precision::Int8 {
                assert!(matches!(tested, Err(DeviceError::Sick(_))));
            } else {
                let others: Vec<_> = Precision::ALL.into_iter().filter(|precision| *precision != wrong).collect();
                assert_eq!(tested.unwrap(), others);
            }
        }
    }

    #[test]
    fn a_processor_passes_and_holds_nothing_after() {
        let config = CpuConfig { devices: 1, memory_bytes: vec![8 << 20], ..CpuConfig::default() };
        let mut device = assay_cpu::devices(&config).unwrap().remove(0);
        assert_eq!(self_test(&mut device, &Handle::default()).unwrap(), device.info().precisions);
        assert!(matches!(device.read(0, 0, &mut [0]), Err(DeviceError::Unsupported(_))));
    }

    #[test]
    fn a_device_without_room_is_busy_and_not_sick() {
        let mut small = ReferenceDevice::new(DeviceId([1; 16]), "small", PASS.bytes() - 1);
        assert!(matches!(self_test(&mut small, &Handle::default()), Err(DeviceError::Busy { .. })));
    }

    /// The reference with one bit wrong, in the answer to one function.
    fn one_bit_wrong(wrong: &'static str) -> impl Device {
        let flip = move |what: &str, byte: &mut u8| *byte ^= u8::from(what == wrong);
        FakeDevice {
            fill: Box::new(move |inner: &mut ReferenceDevice, pass: &Pass, handle: &Handle| {
                let mut digests = inner.fill(pass, handle)?;
                flip("the slots", &mut digests[5].0[31]);
                Ok(digests)
            }),
            round: Box::new(move |inner: &mut ReferenceDevice, round: &ProbeRound, handle: &Handle| {
                let mut digest = inner.probe_round(round, handle)?;
                flip("the probe", &mut digest.0[0]);
                Ok(digest)
            }),
            states: Box::new(move |inner: &mut ReferenceDevice| {
                let mut states = inner.probe_states()?;
                flip("the states of the probe", &mut states[77]);
                Ok(states)
            }),
            read: Box::new(move |inner: &mut ReferenceDevice, slot, first_byte, out: &mut [u8]| {
                inner.read(slot, first_byte, out)?;
                flip("the bytes read", &mut out[9]);
                Ok(())
            }),
            values: Box::new(move |inner: &mut ReferenceDevice, slot, subtree_bytes| {
                let mut values = inner.chaining_values(slot, subtree_bytes)?;
                flip("the chaining values", &mut values[63][31]);
                Ok(values)
            }),
            ..FakeDevice::new(reference())
        }
    }

    #[test]
    fn one_wrong_bit_anywhere_is_sick() {
        self_test(&mut one_bit_wrong("nothing"), &Handle::default()).unwrap();
        for (what, _) in EXPECTED {
            let Err(DeviceError::Sick(said)) = self_test(&mut one_bit_wrong(what), &Handle::default()) else {
                panic!("a wrong bit in {what} passes");
            };
            assert!(said.contains(what), "{said}");
        }
    }

    #[test]
    fn a_driver_that_fails_is_no_wrong_bit() {
        let fill = Box::new(|_: &mut _, _: &_, _: &_| Err(DeviceError::Sick("the launch timed out".into())));
        let mut failing = FakeDevice { fill, ..FakeDevice::new(reference()) };
        let said = self_test(&mut failing, &Handle::default()).unwrap_err();
        assert!(matches!(&said, DeviceError::Lost(why) if why.contains("timed out")), "{said}");
    }
}
