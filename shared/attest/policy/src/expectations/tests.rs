use super::*;
use crate::read;
use assay_protocol::claims::Hardware;
use assay_protocol::message::{DeviceClaim, MATRIX_SIZES};

const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";

fn parsed(text: &str) -> Result<Expectations, String> {
    read::whole(text, "file.toml", Expectations::read).map_err(|error| error.to_string())
}

/// The only expectation of a file with these lines.
fn expected(lines: &str) -> Expectation {
    let expectations = parsed(&format!("[[miner]]\nkey = \"{KEY}\"\n{lines}")).unwrap();
    expectations.of(PublicKey([7; 32])).unwrap().clone()
}

/// Two devices, of which the second has a management library; 10 TOPS, 1 GiB and 100 GB/s together.
fn host() -> (Vec<DeviceWork>, Work, Inventory) {
    let device = |id: u8| DeviceWork {
        device_id: DeviceId([id; 16]),
        name: "A card".to_owned(),
        work: Work::default(),
        claimed_telemetry: None,
        sweep: None,
        rates: Vec::new(),
        hiding: None,
    };
    let claim = |id: u8, model: Option<&str>| DeviceClaim {
        id: DeviceId([id; 16]),
        name: "A card".into(),
        backend: "cuda".into(),
        detail: String::new(),
        total_bytes: 0,
        free_bytes: 0,
        slots: MATRIX_SIZES.map(|_| 0),
        precisions: vec![Precision::Int8],
        claimed_hardware: model.map(|model| Hardware { model: Some(model.to_owned()), ..Hardware::default() }),
    };
    let whole = Work { tops: 10.0, bytes_held: 1 << 30, probe_gb_per_s: 100.0, ..Work::default() };
    let devices = vec![claim(1, None), claim(2, Some("NVIDIA H200"))];
    (vec![device(1), device(2)], whole, Inventory { devices, ..Inventory::default() })
}

fn missed(lines: &str) -> Vec<String> {
    let (devices, whole, inventory) = host();
    let reasons = expected(lines).missed(&devices, &whole, &inventory, Precision::Int8);
    assert!(reasons.iter().all(|reason| reason.code == ReasonCode::ExpectationMissed));
    reasons.into_iter().map(|reason| reason.detail).collect()
}

#[test]
fn what_is_met_gives_no_reason() {
    let ids = ["01".repeat(16), "02".repeat(16)];
    let all =
        format!("devices = 2\ndevice_ids = {ids:?}\nmin_tops = 10\nmin_memory = \"1GiB\"\nmin_gb_per_s = 100.0\n");
    assert_eq!(missed(&all), [""; 0]);
    assert_eq!(missed(""), [""; 0], "nothing is expected");
    let (devices, whole, inventory) = host();
    assert!(expected("model = \"h200\"").missed(&devices[1..], &whole, &inventory, Precision::Int8).is_empty());
}

#[test]
fn each_expectation_that_is_missed_is_a_reason_with_figures() {
    assert_eq!(missed("devices = 3"), ["2 of 3 devices took part"]);
    let absent = format!("device_ids = [\"{}\", \"{}\"]", "01".repeat(16), "03".repeat(16));
    assert_eq!(missed(&absent), ["the device is expected, and took no part"]);
    assert_eq!(missed("model = \"H200\""), ["it claims to be \"A card\", a claim of \"H200\" is expected"]);
    assert_eq!(missed("min_tops = 10.5"), ["10.000 TOPS of int8 were shown, at least 10.5 are expected"]);
    let (devices, whole, mut inventory) = host();
    inventory.devices[1].precisions = Precision::ALL.to_vec();
    let of_kind = |lines, precision| expected(lines).missed(&devices, &whole, &inventory, precision).len();
    for (lines, precision) in [
        ("min_tops = 11", Precision::Int8),
        ("min_tops_f16 = 11", Precision::F16),
        ("min_tops_fp8 = 11", Precision::Fp8),
        ("min_tops_fp4 = 11", Precision::Fp4),
    ] {
        let missed_by = Precision::ALL.iter().filter(|kind| of_kind(lines, **kind) == 1);
        assert_eq!(missed_by.collect::<Vec<_>>(), [&precision], "an expectation of one kind says nothing of others");
    }
    let memory = ["1.000 GiB of memory were shown, at least 2.000 GiB are expected"];
    assert_eq!(missed("min_memory = \"2GiB\""), memory);
    assert_eq!(missed("min_gb_per_s = 101"), ["the probe read 100.000 GB/s, at least 101 are expected"]);
    assert_eq!(missed("devices = 3\nmin_tops = 11\nmin_gb_per_s = 101").len(), 3);
}

#[test]
fn a_file_that_says_what_cannot_be_is_refused() {
    let miner = |lines: &str| format!("[[miner]]\nkey = \"{KEY}\"\n{lines}\n");
    for (text, said) in [
        (miner("min_top = 3"), "3: miner[1].min_top: unknown field: did you mean `min_tops`?"),
        (miner("devices = -1"), "3: miner[1].devices: -1: expected a whole number from 1 to 64: a pass has at least"),
        (miner("devices = 0"), "3: miner[1].devices: 0: expected"),
        (miner("min_tops = nan"), "3: miner[1].min_tops: nan: expected a number from 0.001"),
        (miner("min_gb_per_s = -2"), "3: miner[1].min_gb_per_s: -2: expected a number from 0.001"),
        (miner("min_memory = \"80\""), "3: miner[1].min_memory: \"80\": expected a whole number and a unit"),
        (miner("min_memory = 80"), "3: miner[1].min_memory: 80: expected a text in quotes"),
        (miner("model = \" \""), "3: miner[1].model: \" \": expected a text"),
        (miner("device_ids = [\"01\"]"), "3: miner[1].device_ids: expected 32 hex digits"),
        (miner("device_ids = [1]"), "3: miner[1].device_ids: a list: expected a list of texts"),
        (miner("") + &miner(""), "5: miner[2].key: another [[miner]] has this key"),
        ("[[miner]]\ndevices = 3\n".to_owned(), "1: miner[1].key: missing"),
        ("[[miner]]\nkey = \"07\"\n".to_owned(), "2: miner[1].key: \"07\": expected 64 hex digits"),
        ("[[miners]]\n".to_owned(), "1: miners: unknown field: did you mean `miner`?"),
        ("devices = 3".to_owned(), "1: devices: unknown field"),
        ("[[miner".to_owned(), "1: "),
    ] {
        let error = parsed(&text).unwrap_err();
        assert!(error.starts_with(&format!("file.toml:{said}")), "{said} in {error}");
    }
    assert!(parsed("").unwrap().is_empty());
}

#[test]
fn a_kind_that_no_device_lists_misses_its_expectation() {
    assert_eq!(missed("min_tops_fp4 = 5.5\n"), ["no device computes fp4, of which at least 5.5 TOPS are expected"]);
    let (devices, whole, mut inventory) = host();
    inventory.devices[1].precisions.push(Precision::Fp4);
    let of_int8 = expected("min_tops_fp4 = 5.5\n").missed(&devices, &whole, &inventory, Precision::Int8);
    assert!(of_int8.is_empty(), "it is asked for in its turn");
}
