//! Linked probes over GPUs: devices of several backends, and GPUs that reach one another's memory or do not.

use std::collections::BTreeSet;

use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_integration_tests::{standin, vulkan};
use assay_protocol::verdict::Mode;

use crate::linked::{assert_linked, policy, rejudged};

/// A processor, a GPU by CUDA's driver and one by Vulkan's: each steps the walks of all over its own memory.
#[tokio::test(flavor = "multi_thread")]
async fn devices_of_three_backends_pass_together() {
    let caches = tempfile::tempdir().unwrap();
    let cache = format!("--kernel-cache={}", caches.path().display());
    let flags = [&cache, "--backend=cpu,cuda,wgpu", "--wgpu-memory=8MiB", "--poison"];
    let environment = standin::environment(&[("DEVICES", "1"), ("MEMORY_MIB", "24")]);
    let environment = environment.into_iter().chain(vulkan::lavapipe(1)).collect();
    let validator = TestValidator::start(&Policy { max_matrices: 60, ..policy(&[]) }).await;
    let miner = TestMiner::start_in(validator.address, 1, &flags, environment);
    validator.wait_for_miner(miner.key, true).await;
    let claimed = validator.miners().await.remove(0).claimed_devices;
    let backends: BTreeSet<_> = claimed.iter().map(|device| device.backend.as_str()).collect();
    assert_eq!(backends, BTreeSet::from(["cpu", "cuda", "wgpu"]));
    for mode in [Mode::Replay, Mode::Audit] {
        let ruling = validator.challenge(miner.key, Some(mode)).await.unwrap();
        let shares = ruling.expect_pass().verdict.devices.iter().map(|d| d.work.as_ref().unwrap().matrices);
        assert_linked(&ruling, &shares.collect::<Vec<_>>());
    }
    assert_eq!(rejudged(&validator), "2 cases: 2 the same to the bit\n");
}

/// GPUs that reach one another's memory, each in a worker of its own: the handles go from one to the other.
#[tokio::test(flavor = "multi_thread")]
async fn gpus_that_reach_one_another_walk_over_the_slots_of_all() {
    let caches = tempfile::tempdir().unwrap();
    let cache = format!("--kernel-cache={}", caches.path().display());
    let log = tempfile::NamedTempFile::new().unwrap();
    let settings = [("DEVICES", "3"), ("MEMORY_MIB", "24,32,40"), ("LOG", log.path().to_str().unwrap())];
    let launches = |kernel: &str| {
        let log = std::fs::read_to_string(log.path()).unwrap();
        log.lines().filter(|line| line.starts_with(&format!("launch {kernel} "))).count()
    };
    for (peers, reach) in [("2", true), ("2,2,1", false)] {
        let before = (launches("assay_linked_probe"), launches("assay_step"));
        let validator = TestValidator::start(&Policy { max_matrices: 40, ..policy(&[]) }).await;
        let environment = standin::environment(&[&settings[..], &[("PEERS", peers)]].concat());
        let miner = TestMiner::start_in(validator.address, 1, &["--backend=cuda", &cache], environment);
        validator.wait_for_miner(miner.key, true).await;
        for mode in [Mode::Replay, Mode::Audit] {
            let ruling = validator.challenge(miner.key, Some(mode)).await.unwrap();
            let shares = ruling.expect_pass().verdict.devices.iter().map(|d| d.work.as_ref().unwrap().matrices);
            assert_linked(&ruling, &shares.collect::<Vec<_>>());
        }
        assert_eq!(launches("assay_linked_probe") > before.0, reach, "{peers}");
        // Openings walk again by exchange.
        assert!(launches("assay_step") > before.1, "{peers}");
        assert_eq!(rejudged(&validator), "2 cases: 2 the same to the bit\n");
    }
}
