use super::*;

fn id(byte: u8) -> DeviceId {
    DeviceId([byte; 16])
}

/// A miner of an operator with devices, heard from for a hundred seconds from `began_s` on.
fn presence(miner: &str, operator: Option<&str>, began_s: u64, devices: &[u8]) -> Presence {
    Presence {
        miner: miner.to_owned(),
        operator: operator.map(str::to_owned),
        session: format!("{miner} {began_s}"),
        address: "192.0.2.1".parse().unwrap(),
        began_s,
        heard_s: began_s + 100,
        is_replaced: false,
        devices: devices.iter().map(|byte| (id(*byte), None)).collect(),
    }
}

fn policy(device_at_two_miners: Enforcement) -> IdentityPolicy {
    IdentityPolicy { device_at_two_miners, ..IdentityPolicy::default() }
}

/// The miners named, and whether they fail.
fn named(findings: &[IdentityFinding]) -> Vec<(&str, bool)> {
    findings.iter().map(|finding| (&*finding.miner, finding.enforced)).collect()
}

#[test]
fn one_device_at_two_miners_of_an_operator_fails_both() {
    let (a, b) = (presence("a", Some("x"), 0, &[1, 2]), presence("b", Some("x"), 50, &[2, 3]));
    let findings = among(&b, &[a], &policy(Enforcement::Proved));
    assert_eq!(named(&findings), [("b", true), ("a", true)]);
    assert!(findings.iter().all(|finding| finding.code == FindingCode::DeviceAtTwoMiners));
    assert!(findings.iter().all(|finding| finding.device_id == Some(id(2))));
    assert_eq!(findings[0].other.as_deref(), Some("a"));
}

/// Miners that showed the device in work that held, and those whose claim to it is disputed.
#[test]
fn whose_a_device_is_of_two_operators_is_not_known() {
    let other = presence("other", Some("y"), 0, &[1]);
    let mut owner = presence("owner", Some("x"), 50, &[1]);
    owner.devices.insert(id(1), Some(10));
    let disputed = |present: &Presence, other: &Presence, policy: &IdentityPolicy| {
        let mut findings = among(present, std::slice::from_ref(other), policy);
        assert!(findings.iter().all(|finding| !finding.enforced), "nobody fails");
        findings.sort_by(|a, b| a.miner.cmp(&b.miner));
        findings.into_iter().map(|finding| (finding.miner, finding.disputed)).collect::<Vec<_>>()
    };
    let of = |miners: &[&str], disputed| miners.iter().map(|miner| ((*miner).to_owned(), disputed)).collect::<Vec<_>>();
    // A miner that only lists a device takes nothing from the one that showed it, in either order of sessions.
    let proved = policy(Enforcement::Proved);
    assert_eq!(disputed(&other, &owner, &proved), of(&["other"], true));
    assert_eq!(disputed(&owner, &other, &proved), of(&["other"], true));
    let mut shown = other.clone();
    shown.devices.insert(id(1), Some(5));
    assert_eq!(disputed(&owner, &shown, &proved), of(&["other", "owner"], true), "who showed it first decides nothing");
    assert_eq!(disputed(&owner, &shown, &policy(Enforcement::Record)), of(&["other", "owner"], false));
    // Two miners without labels do not belong to one operator.
    let (a, b) = (presence("a", None, 0, &[1]), presence("b", None, 50, &[1]));
    assert_eq!(disputed(&b, &a, &proved), [], "a listed id says nothing");
    assert_eq!(named(&among(&b, &[a], &policy(Enforcement::Both))), [("b", true), ("a", true)]);
}

#[test]
fn a_session_that_was_over_is_not_at_the_same_time() {
    let (gone, new) = (presence("a", Some("x"), 0, &[1]), presence("b", Some("x"), 100, &[1]));
    assert_eq!(
        among(&new, std::slice::from_ref(&gone), &policy(Enforcement::Both)),
        [],
        "last heard when the other began"
    );
    let again = Presence { miner: "b".to_owned(), ..gone };
    assert_eq!(among(&new, &[again], &policy(Enforcement::Both)), [], "a miner that came back from another address");
}

#[test]
fn one_key_at_two_hosts_at_once_fails() {
    let here = presence("a", None, 0, &[1]);
    let there = Presence { address: "198.51.100.7".parse().unwrap(), ..presence("a", None, 50, &[2]) };
    let [finding] = &among(&there, std::slice::from_ref(&here), &policy(Enforcement::Proved))[..] else { panic!() };
    assert_eq!((finding.code, finding.enforced), (FindingCode::KeyAtTwoAddresses, true));
    assert_eq!(finding.detail, "it spoke from 198.51.100.7 and 192.0.2.1 at the same time, with other devices");
    // The same devices over another way in are one host: a warning.
    let second_way = Presence { devices: here.devices.clone(), ..there.clone() };
    let [finding] = &among(&second_way, std::slice::from_ref(&here), &policy(Enforcement::Proved))[..] else {
        panic!()
    };
    assert!(!finding.enforced);
    // One address in two notations is one address.
    let mapped = Presence { address: "::ffff:192.0.2.1".parse().unwrap(), ..there.clone() };
    assert_eq!(among(&mapped, std::slice::from_ref(&here), &policy(Enforcement::Proved)), []);
    let record = IdentityPolicy { key_at_two_addresses: Enforcement::Record, ..IdentityPolicy::default() };
    assert!(!among(&there, &[here], &record)[0].enforced);
}

/// A key has one session at a time: two hosts with one key take it from one another.
#[test]
fn one_key_whose_hosts_take_turns_fails_where_neither_had_left() {
    let at = |last: u8, began_s, devices: &[u8], is_replaced| Presence {
        address: IpAddr::from([192, 0, 2, last]),
        is_replaced,
        ..presence("a", None, began_s, devices)
    };
    let (first, second, again) = (at(1, 0, &[1], true), at(2, 100, &[2], true), at(1, 200, &[1], false));
    let policy = policy(Enforcement::Proved);
    assert_eq!(named(&among(&again, &[first.clone(), second.clone()], &policy)), [("a", true)]);
    // It moved once, without a return.
    assert_eq!(among(&second, std::slice::from_ref(&first), &policy), []);
    // It moved back after it had left the other place: only replaced sessions are kept.
    assert_eq!(among(&again, &[first], &policy), []);
    assert_eq!(among(&again, &[second], &policy), []);
}

#[test]
fn what_moved_and_what_changed_only_warns() {
    let present = presence("a", None, 0, &[1, 2]);
    let devices = |bytes: &[u8]| Some(bytes.iter().map(|byte| id(*byte)).collect());
    let moved = |id, miner: &str| [(id, miner.to_owned())].into();
    let before = PastDevices { devices: devices(&[1]), last_seen_at: moved(id(2), "b") };
    let findings = since(&present, &before);
    let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [FindingCode::DeviceMoved, FindingCode::DeviceCountChanged]);
    assert!(findings.iter().all(|finding| !finding.enforced && finding.code.reason().is_none()));
    assert_eq!(findings[1].detail, "2 devices, 1 before");
    assert_eq!(since(&present, &PastDevices::default()), [], "a new miner");
    let same = PastDevices { devices: devices(&[1, 2]), last_seen_at: moved(id(2), "a") };
    assert_eq!(since(&present, &same), []);
    let elsewhere = PastDevices { devices: devices(&[1, 2]), last_seen_at: moved(id(9), "b") };
    assert_eq!(since(&present, &elsewhere), [], "not one of its devices");
}
