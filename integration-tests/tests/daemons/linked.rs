//! Linked probes end to end: the devices of a host walk over the memory of one another, and the verdict says how fast.

use assay_integration_tests::daemon;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, Ruling, TestValidator};
use assay_protocol::verdict::{Mode, ReasonCode};

const MODES: [Mode; 3] = [Mode::Replay, Mode::ReplaySample, Mode::Audit];

pub fn policy(flags: &[&str]) -> Policy {
    let mut flags: Vec<_> = flags.iter().map(|&flag| flag.to_owned()).collect();
    // 64 walks of 8 steps: the policy's 10 ms at 10 MB/s, so that rounds are few.
    flags.extend(
        ["--policy-fields=linked_probe=true", "--policy-fields=linked_expect_gb_per_s=0.01"].map(str::to_owned),
    );
    // The evidence of passes is kept too.
    Policy { max_matrices: 22, iterations: 2, flags, keeps_passes_percent: Some(100), ..Policy::default() }
}

/// Judges again every case that a validator kept.
pub fn rejudged(validator: &TestValidator) -> String {
    let key_file = format!("--key-file={}", validator.file("validator.key").display());
    let output = daemon::run("assay-validator", ["rejudge", &key_file]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn assert_linked(ruling: &Ruling, shares: &[u64]) {
    let verdict = &ruling.expect_pass().verdict;
    let matrices: Vec<_> = verdict.devices.iter().map(|d| d.work.as_ref().unwrap().matrices).collect();
    assert_eq!(matrices, shares);
    let link = verdict.link.as_ref().expect("a linked probe was walked");
    assert!(link.seconds > 0.0 && link.gb_per_s > 0.0 && link.step_seconds > 0.0, "{link:?}");
    // All but the largest share of the steps but the first of each round, 64 bytes each.
    let (total, most) = (shares.iter().sum::<u64>(), *shares.iter().max().unwrap());
    let rounds = (link.seconds / link.step_seconds / 8.0).round() as u64;
    let steps = shares.len() as u64 * 64 * 7 * rounds;
    assert_eq!(link.crossed_bytes, 64 * steps * (total - most) / total, "{rounds} rounds");
    assert_eq!((link.segments, link.bounds.len()), (32, 3));
    let gb_per_s = link.crossed_bytes as f64 / link.seconds / 1e9 / shares.len() as f64;
    assert!((link.gb_per_s / gb_per_s - 1.0).abs() < 1e-5, "{link:?}, not {gb_per_s}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_uneven_devices_pass_in_every_mode() {
    let stage = Stage::new(&policy(&[]), &[5, 9, 20]).await;
    for mode in MODES {
        // 22 · 5/34, 22 · 9/34 and 22 · 20/34, the one left over to the largest remainder.
        assert_linked(&stage.challenge(mode).await, &[3, 6, 13]);
    }
}

/// The devices are processes of their own, as a miner has them.
#[tokio::test(flavor = "multi_thread")]
async fn devices_in_workers_pass() {
    for devices in [2, 8] {
        let policy = Policy { max_matrices: 4 * devices, ..policy(&[]) };
        let (validator, miner) = TestMiner::with_validator(&policy, devices, &[]).await;
        for mode in [Mode::Replay, Mode::Audit] {
            let ruling = validator.challenge(miner.key, Some(mode)).await.unwrap();
            assert_linked(&ruling, &vec![4; devices as usize]);
        }
        assert_eq!(rejudged(&validator), "2 cases: 2 the same to the bit\n");
    }
}

/// The sweep comes after the linked probe, on devices in processes of their own.
#[tokio::test(flavor = "multi_thread")]
async fn devices_that_are_swept_too_pass() {
    for devices in [1, 3] {
        let policy = Policy { max_matrices: 4 * devices, ..policy(&["--policy-fields=sweep=true"]) };
        let (validator, miner) = TestMiner::with_validator(&policy, devices, &[]).await;
        for mode in [Mode::Replay, Mode::Audit] {
            let ruling = validator.challenge(miner.key, Some(mode)).await.unwrap();
            for device in &ruling.expect_pass().verdict.devices {
                let sweep = device.sweep.as_ref().expect("each device was swept");
                assert_eq!(sweep.bytes, u64::from(sweep.rounds) * 4 * 256 * 256);
                assert!(sweep.gb_per_s > 0.0 && sweep.share > 0.0, "{sweep:?}");
            }
        }
        assert_eq!(rejudged(&validator), "2 cases: 2 the same to the bit\n");
    }
}

/// One device has nothing to link: it is judged as without.
#[tokio::test(flavor = "multi_thread")]
async fn one_device_is_asked_for_no_linked_probe() {
    let (validator, miner) =
        TestMiner::with_validator(&policy(&["--policy-fields=linked_min_gb_per_s=100"]), 1, &[]).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    assert_eq!(ruling.expect_pass().verdict.link, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_that_reach_one_another_too_slowly_fail() {
    let (validator, miner) =
        TestMiner::with_validator(&policy(&["--policy-fields=linked_min_gb_per_s=50000"]), 2, &[]).await;
    let ruling = validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap();
    ruling.expect(ReasonCode::LinkSlow);
    assert!(ruling.verdict.link.is_some(), "what was shown is told all the same");
    let detail = &ruling.verdict.reasons[0].detail;
    assert!(detail.contains("GB/s into each of 2 devices, at least 50000 are asked for"), "{detail}");
    // A challenge in which this machine was held up is repeated, and is a case too.
    let said = rejudged(&validator);
    let counts: Vec<u32> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(said.ends_with("the same to the bit\n") && counts[0] >= 1 && counts[1..] == [counts[0]], "{said}");
}

#[test]
fn a_benchmark_measures_each_pair_and_the_probe() {
    let key = tempfile::tempdir().unwrap();
    let key = format!("--key-file={}", key.path().join("key").display());
    let bench = |devices: u64| {
        let devices = format!("--cpu-devices={devices}");
        let flags = ["--n=256", "--rounds=2", "--backend=cpu", "--cpu-memory=8MiB", "--cpu-threads=1", &key, &devices];
        daemon::run("assay-miner", ["bench", "--link", "--json"].iter().chain(&flags))
    };
    let output = bench(3);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let link = serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["link"].take();
    let pairs = link["pairs"].as_array().unwrap();
    let of_pairs: Vec<_> = pairs.iter().map(|pair| (pair["from"].as_u64(), pair["to"].as_u64())).collect();
    let all: Vec<_> = (0..3).flat_map(|from| (0..3).map(move |to| (Some(from), Some(to)))).collect();
    assert_eq!(of_pairs, all);
    for pair in pairs {
        assert!(pair["bytes_per_s"].as_f64().unwrap() > 0.0, "{pair}");
        assert_eq!(pair["samples_per_s"].as_array().unwrap().len(), 2, "{pair}");
    }
    let probe = |name: &str| link["probe"][name].as_f64().unwrap();
    // Two thirds of the steps of three devices, but for the first of each round.
    let crossed = 128.0 * probe("walks") * (probe("steps") - 1.0) * probe("rounds");
    for (found, expected) in [("crossed_bytes", crossed), ("bytes_per_s_into_each", crossed / probe("seconds") / 3.0)] {
        assert!((probe(found) / expected - 1.0).abs() < 1e-9, "{found}, {expected}: {link}");
    }
    let alone = bench(1);
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(said.contains("--link") && alone.status.code() == Some(78), "{said}");
}
