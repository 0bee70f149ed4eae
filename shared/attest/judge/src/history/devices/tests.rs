use super::*;
use assay_protocol::message::MATRIX_SIZES;
use assay_work::Precision::{F16, Fp8, Int8};

/// A device and the kinds of work that it claims.
type Listed<'a> = (u8, &'a [Precision]);

fn inventory(devices: &[Listed<'_>]) -> Inventory {
    let device = |(id, kinds): &Listed<'_>| DeviceClaim {
        id: DeviceId([*id; 16]),
        name: format!("device {id}"),
        backend: "cpu".into(),
        detail: String::new(),
        total_bytes: 1 << 20,
        free_bytes: 1 << 20,
        slots: MATRIX_SIZES.map(|_| 1),
        precisions: kinds.to_vec(),
        claimed_hardware: None,
    };
    Inventory { devices: devices.iter().map(device).collect(), ..Inventory::default() }
}

/// Devices that showed 6 slots of n = 256 in these kinds of work.
fn known(devices: &[Listed<'_>]) -> BTreeMap<DeviceId, KnownDevice> {
    let device = |(id, kinds): &Listed<'_>| {
        (DeviceId([*id; 16]), KnownDevice { name: format!("device {id}"), bytes: 6 << 16, kinds: kinds.to_vec() })
    };
    devices.iter().map(device).collect()
}

/// Missing and new devices when these took part in a challenge of a kind, with a policy of all three kinds.
fn found(
    known: &BTreeMap<DeviceId, KnownDevice>,
    took_part: &[u8],
    listed: &[Listed<'_>],
    (precision, least_slots): (Precision, u64),
) -> (Vec<u8>, Vec<u8>) {
    let inventory = inventory(listed);
    let kinds = &[Int8, F16, Fp8];
    let shares: Vec<_> = took_part.iter().map(|id| (DeviceId([*id; 16]), least_slots << 16)).collect();
    let (policy_bytes, least_bytes) = (least_slots << 16, least_slots << 16);
    let attendance = Attendance { inventory: &inventory, shares: &shares, policy_bytes, least_bytes, precision, kinds };
    let found = Difference::of(known, attendance);
    let ids = |devices: Vec<NamedDevice>| devices.iter().map(|device| device.device_id.0[0]).collect();
    (ids(found.missing), ids(found.new))
}

const ALL: &[Precision] = &[Int8, F16, Fp8];

#[test]
fn nothing_is_missing_or_new_of_a_miner_that_showed_nothing() {
    assert_eq!(found(&BTreeMap::new(), &[1, 2], &[(1, ALL), (2, ALL)], (Int8, 3)), (vec![], vec![]));
}

#[test]
fn a_device_that_was_shown_is_missed() {
    let known = known(&[(1, ALL), (2, ALL)]);
    assert_eq!(found(&known, &[1, 2], &[(1, ALL), (2, ALL)], (Int8, 3)), (vec![], vec![]));
    assert_eq!(found(&known, &[1], &[(1, ALL)], (Int8, 3)), (vec![2], vec![]));
    // A new id for an old card: one device is missing, one is new.
    assert_eq!(found(&known, &[1, 3], &[(1, ALL), (3, ALL)], (Int8, 3)), (vec![2], vec![3]));
    assert_eq!(Difference::unlisted(&known, &inventory(&[(1, ALL)])).len(), 1);
}

/// Listing a dead card without memory does not hide it; a challenge that is too large for a card does not accuse it.
#[test]
fn a_device_that_is_listed_with_less_memory_than_it_showed_is_missing() {
    let (known, listed) = (known(&[(1, ALL), (2, ALL)]), [(1, ALL), (2, ALL)]);
    assert_eq!(found(&known, &[1], &listed, (Int8, 6)), (vec![2], vec![]), "it showed 6 slots");
    assert_eq!(found(&known, &[1], &listed, (Int8, 7)), (vec![], vec![]), "it never showed 7");
    assert_eq!(found(&known, &[1], &[(1, ALL)], (Int8, 7)), (vec![2], vec![]), "it is not even listed");
}

/// Regression test: a claim of endless memory by one device, whose share then leaves the others none, excused them all.
#[test]
fn a_claim_of_one_device_excuses_no_other() {
    let listed: Vec<Listed<'_>> = (1..=8).map(|id| (id, ALL)).collect();
    let (mut known, inventory) = (known(&listed), inventory(&listed));
    let missing = |known: &BTreeMap<_, _>, held: u64| {
        let shares = &[(DeviceId([1; 16]), held)];
        let (policy_bytes, least_bytes, precision, kinds) = (3 << 16, 7 << 16, Int8, ALL);
        let attendance = Attendance { inventory: &inventory, shares, policy_bytes, least_bytes, precision, kinds };
        Difference::of(known, attendance).missing.len()
    };
    assert_eq!(missing(&known, 6 << 16), 7);
    // Nine times as large, it leaves the others none by its shown bytes: in an earlier challenge, or in this one.
    assert_eq!((missing(&known, 54 << 16), missing(&known, 55 << 16)), (7, 0));
    known.entry(DeviceId([1; 16])).and_modify(|device| device.bytes = 55 << 16);
    assert_eq!(missing(&known, 6 << 16), 0);
}

/// A GPU beside a CPU: a device that does not compute a kind is not missing from it, for as long as it is listed.
#[test]
fn a_device_that_never_computed_the_kind_is_not_missing_from_it() {
    let gpu: Listed<'_> = (1, &[Int8, F16]);
    let cpu: Listed<'_> = (2, &[Int8]);
    let known = known(&[gpu, cpu]);
    assert_eq!(found(&known, &[1], &[gpu, cpu], (F16, 3)), (vec![], vec![]));
    assert_eq!(found(&known, &[1], &[gpu], (F16, 3)), (vec![2], vec![]), "it is gone");
    assert_eq!(
        found(&known, &[2], &[(1, &[Int8]), cpu], (F16, 3)),
        (vec![1], vec![]),
        "it claims no more what it showed"
    );
    assert_eq!(found(&known, &[1], &[gpu, (2, &[])], (Int8, 3)), (vec![2], vec![]));
    assert_eq!(found(&known, &[1], &[gpu, (2, &[])], (F16, 3)), (vec![2], vec![]), "nothing asks it at all");
}

/// One device under two names could do one kind as each of them, one after the other.
#[test]
fn devices_that_no_kind_asks_together_are_missing_from_one_another() {
    let (one, two): (Listed<'_>, Listed<'_>) = ((1, &[Int8]), (2, &[F16]));
    let known_two = known(&[one, two]);
    assert_eq!(found(&known_two, &[1], &[one, two], (Int8, 3)), (vec![2], vec![]));
    assert_eq!(found(&known_two, &[2], &[one, two], (F16, 3)), (vec![1], vec![]));
    // Nor do three that are asked two by two.
    let three: [Listed<'_>; 3] = [(1, &[Int8, F16]), (2, &[F16, Fp8]), (3, &[Fp8, Int8])];
    assert_eq!(found(&known(&three), &[1, 3], &three, (Int8, 3)), (vec![2], vec![]));
}
