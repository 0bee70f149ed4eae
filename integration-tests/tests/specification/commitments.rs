//! Invalid evidence and answers, each with the one error that it must give.

use assay_kits::{challenge, probe};
use assay_work::commitment::{commitment_checksum, device_checksum};
use assay_work::probe::probe_checksum;
use assay_work::{Answer, Challenge, Digest, Evidence, Probe, Root};

/// Roots do not have to be those of the work for their checksums to be.
fn evidence() -> (Challenge, Evidence) {
    let challenge = challenge(256, 2, 5);
    let roots = vec![vec![Root([1; 32]), Root([2; 32])], vec![Root([3; 32]), Root([4; 32])]];
    let evidence = Evidence::assemble(&challenge, roots);
    (challenge, evidence)
}

fn evidence_code(change: impl FnOnce(&mut Evidence)) -> Result<(), &'static str> {
    let (challenge, mut evidence) = evidence();
    change(&mut evidence);
    evidence.check(&challenge).map_err(|e| e.code())
}

/// As a careful liar does: all checksums made again.
fn with_checksums(evidence: &mut Evidence) {
    for device in &mut evidence.devices {
        device.checksum = device_checksum(&device.share(), &device.roots);
    }
    let checksums: Vec<_> = evidence.devices.iter().map(|d| d.checksum).collect();
    evidence.checksum = commitment_checksum(&challenge(256, 2, 5), &checksums);
}

/// Each change comes on top of those before it, and is named first.
#[test]
fn evidence_is_checked_in_order() {
    let changes: [fn(&mut Evidence); 5] = [
        |e| e.checksum.0[31] ^= 1,
        |e| e.devices[1].roots[1].0[0] ^= 1,
        |e| e.devices[1].roots.truncate(1),
        |e| e.devices[1].count += 1,
        |e| e.challenge_id.0[0] ^= 1,
    ];
    let codes = ["checksum", "device_checksum", "roots", "shares", "challenge_id"];
    assert_eq!(evidence_code(|_| ()), Ok(()));
    for (last, code) in codes.into_iter().enumerate() {
        assert_eq!(evidence_code(|e| changes[..=last].iter().for_each(|change| change(e))), Err(code));
    }
}

#[test]
fn checksums_made_again_do_not_hide_another_split() {
    let changes: [fn(&mut Evidence); 8] = [
        |e| e.devices[0].count -= 1,
        |e| e.devices[1].offset -= 1,
        |e| e.devices[1].device_id.0[15] ^= 1,
        |e| e.devices.swap(0, 1),
        |e| drop(e.devices.pop()),
        |e| e.devices.push(e.devices[1].clone()),
        |e| e.devices.clear(),
        |e| e.devices[1] = e.devices[0].clone(),
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let code = evidence_code(|e| {
            change(e);
            with_checksums(e);
        });
        assert_eq!(code, Err("shares"), "change {i}");
    }
    for change in
        [|e: &mut Evidence| e.devices[0].roots.push(Root([0; 32])), |e: &mut Evidence| e.devices[0].roots.clear()]
    {
        let code = evidence_code(|e| {
            change(e);
            with_checksums(e);
        });
        assert_eq!(code, Err("roots"));
    }
}

#[test]
fn checksums_bind_every_field() {
    let (challenge, evidence) = evidence();
    let device = &evidence.devices[1];
    let of = |change: fn(&mut assay_work::Share, &mut Vec<Root>)| {
        let (mut share, mut roots) = (device.share(), device.roots.clone());
        change(&mut share, &mut roots);
        device_checksum(&share, &roots)
    };
    assert_eq!(of(|_, _| ()), device.checksum);
    assert_ne!(of(|share, _| share.device_id.0[0] ^= 1), device.checksum);
    assert_ne!(of(|share, _| share.offset ^= 1), device.checksum);
    assert_ne!(of(|share, _| share.count ^= 1), device.checksum);
    assert_ne!(of(|_, roots| roots.swap(0, 1)), device.checksum);
    let mut other = challenge.fields().clone();
    other.nonce.0[0] ^= 1;
    let roots = evidence.devices.iter().map(|d| d.roots.clone()).collect();
    let elsewhere = Evidence::assemble(&Challenge::try_from(other).unwrap(), roots);
    assert_ne!(elsewhere.checksum, evidence.checksum, "the nonce is bound");
}

fn answer() -> (Challenge, Probe, Answer) {
    let (challenge, probe) = (challenge(256, 2, 5), probe(64, 1, 2));
    let digests = vec![vec![Digest([1; 32]), Digest([2; 32])], vec![Digest([3; 32]), Digest([4; 32])]];
    let answer = Answer::assemble(&challenge, probe, digests);
    (challenge, probe, answer)
}

fn answer_code(change: impl FnOnce(&mut Answer)) -> Result<(), &'static str> {
    let (challenge, probe, mut answer) = answer();
    change(&mut answer);
    answer.check(&challenge, probe).map_err(|e| e.code())
}

#[test]
fn answers_are_checked_in_order() {
    assert_eq!(answer_code(|_| ()), Ok(()));
    assert_eq!(answer_code(|a| a.devices[1].digests[1].0[31] ^= 1), Err("checksum"));
    assert_eq!(answer_code(|a| a.checksum.0[31] ^= 1), Err("checksum"));
    let short = |a: &mut Answer| {
        a.checksum.0[31] ^= 1;
        a.devices[0].digests.pop();
    };
    assert_eq!(answer_code(short), Err("digests"));
    let other = |a: &mut Answer| {
        short(a);
        a.devices[1].device_id.0[0] ^= 1;
    };
    assert_eq!(answer_code(other), Err("devices"));
}

#[test]
fn checksums_made_again_do_not_hide_other_devices() {
    let changes: [fn(&mut Answer); 5] = [
        |a| a.devices.swap(0, 1),
        |a| drop(a.devices.pop()),
        |a| a.devices.push(a.devices[1].clone()),
        |a| a.devices[1].digests.truncate(1),
        |a| a.devices[1].digests.push(Digest([0; 32])),
    ];
    let codes = ["devices", "devices", "devices", "digests", "digests"];
    for (i, (change, expected)) in changes.into_iter().zip(codes).enumerate() {
        let code = answer_code(|a| {
            change(a);
            let (challenge, probe, _) = answer();
            a.checksum = probe_checksum(&challenge, probe, &a.devices);
        });
        assert_eq!(code, Err(expected), "change {i}");
    }
}
