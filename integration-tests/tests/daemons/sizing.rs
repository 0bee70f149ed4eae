//! The sizes of challenges, for any claims of the devices.

use assay_integration_tests::dishonest::{Disguise, DishonestMiner, WorkLie};
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, Ruling};
use assay_protocol::verdict::{Mode, ReasonCode};

fn matrices(ruling: &Ruling) -> Vec<u64> {
    ruling.verdict.devices.iter().map(|device| device.work.as_ref().unwrap().matrices).collect()
}

/// Small slots are cheap to compute again in the time of a probe: a miner that claims those alone gets larger ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_does_not_choose_smaller_matrices() {
    // 16 slots of n = 256 are one of n = 1024.
    let policy = Policy { n: 1024, ..Policy::default() };
    let ruling = Stage::new(&policy, &[16]).await.challenge(Mode::Audit).await;
    ruling.expect(ReasonCode::NotEnoughMemory);
    let detail = &ruling.verdict.reasons[0].detail;
    assert!(detail.contains("3 slots of n = 1024") && detail.contains("the most is 1"), "{detail}");
    assert_eq!(ruling.verdict.not_challenged.len(), 1);
    // An operator may allow it.
    let policy = Policy { flags: vec!["--policy-fields=n_min=256".into()], ..policy };
    let ruling = Stage::new(&policy, &[16]).await.challenge(Mode::Audit).await;
    assert_eq!(ruling.expect_pass().verdict.n, 512, "the largest of which it holds enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_asks_for_a_share_of_the_memory() {
    let with = |percent: u32| Policy {
        flags: vec![format!("--policy-fields=min_held_percent={percent}")],
        ..Policy::default()
    };
    // A probe of 64 walks, 8 steps and 3 rounds takes longer than its lines to be moved over any bus.
    let ruling = Stage::new(&with(90), &[14]).await.challenge(Mode::Audit).await;
    ruling.expect(ReasonCode::ResidencyShare);
    assert!(ruling.verdict.devices[0].hiding.is_some(), "the figures stand beside the reason");
    Stage::new(&with(0), &[14]).await.challenge(Mode::Audit).await.expect_pass();
}

#[tokio::test(flavor = "multi_thread")]
async fn uneven_hosts_are_challenged_whole() {
    let policy = Policy { max_matrices: 1 << 20, ..Policy::default() };
    let stage = Stage::new(&policy, &[32, 3]).await;
    for mode in [Mode::Replay, Mode::ReplaySample, Mode::Audit] {
        assert_eq!(matrices(stage.challenge(mode).await.expect_pass()), [27, 3]);
    }
    let ruling = Stage::new(&policy, &[3; 64]).await.challenge(Mode::Audit).await;
    assert_eq!(matrices(ruling.expect_pass()), [3; 64]);
    assert!(ruling.verdict.not_challenged.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tiny_device_is_left_out_and_named() {
    let stage = Stage::new(&Policy::default(), &[14, 2]).await;
    let ruling = stage.challenge(Mode::Audit).await;
    assert_eq!(matrices(ruling.expect_pass()), [12]);
    let left_out = &ruling.verdict.not_challenged;
    assert_eq!(left_out.len(), 1);
    assert_eq!((left_out[0].device_id.as_slice(), left_out[0].slots), (&[2; 16][..], 2));
    let policy = Policy { flags: vec!["--policy-fields=min_slots=15".into()], ..Policy::default() };
    let ruling = Stage::new(&policy, &[14, 16]).await.challenge(Mode::Audit).await;
    assert_eq!((ruling.expect_pass().verdict.devices.len(), ruling.verdict.not_challenged[0].slots), (1, 14));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_room_gets_a_verdict_that_says_so() {
    for slots in [&[][..], &[2], &[1, 2]] {
        let ruling = Stage::new(&Policy::default(), slots).await.challenge(Mode::Audit).await;
        ruling.expect(ReasonCode::NothingToChallenge);
        assert_eq!(ruling.verdict.not_challenged.len(), slots.len());
    }
}

/// Devices that a miner only lists must not keep it from being judged.
#[tokio::test(flavor = "multi_thread")]
async fn more_devices_than_can_be_checked_give_a_verdict_too() {
    let policy = Policy { samples: 1024, ..Policy::default() };
    let ruling = Stage::new(&policy, &[3; 64]).await.challenge(Mode::Audit).await;
    ruling.expect(ReasonCode::NothingToChallenge);
    assert!(ruling.verdict.reasons[0].detail.contains("at most 65536"), "{:?}", ruling.verdict.reasons);
}

/// Mode replay judges a miner that claims more than the validator's own devices hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_sized_by_the_devices_that_replay() {
    // Its device has 8 MiB, which are 128 slots. At least 48 of these fit, on any processor: a device also maps two
    // large pages, which are 64, and less than 1 MiB for the kind of work that takes the most, which is 16.
    let policy = Policy { max_matrices: 1 << 20, ..Policy::default() };
    let stage = Stage::new(&policy, &[200, 150]).await;
    let replayed = matrices(stage.challenge(Mode::Replay).await.expect_pass());
    assert!(replayed[0] < 128 && replayed[0] >= 48 && replayed[0] > replayed[1], "{replayed:?}");
    stage.miner.lies.in_work(WorkLie::OneElement);
    stage.challenge(Mode::Replay).await.expect(ReasonCode::RootMismatch);
    stage.miner.lies.stop();
    assert_eq!(matrices(stage.challenge(Mode::Audit).await.expect_pass()), [180, 135]);
}

/// Miners that commit to noise wait for no replay, and no other miner waits for theirs.
#[tokio::test(flavor = "multi_thread")]
async fn noise_is_not_worth_a_replay() {
    let stage = Stage::new(&Policy { max_matrices: 40, ..Policy::default() }, &[60]).await;
    let mut liars = Vec::new();
    for seed in 2..11 {
        // Devices of their own: one that two miners show fails the later of them.
        let disguise = Disguise { seed, first_device: 10 * seed, ..Disguise::new(&[60]) };
        let liar = DishonestMiner::connect(stage.validator.address, &disguise).await;
        stage.validator.wait_for_miner(liar.key, true).await;
        liar.lies.in_work(WorkLie::KeystreamIn(0));
        liars.push(liar);
    }
    let mut running = Vec::new();
    for liar in &liars {
        running.push(stage.validator.ask(liar.key, Some(Mode::Replay)).await.unwrap());
    }
    stage.challenge(Mode::Replay).await.expect_pass();
    for challenge in running {
        let ruling = challenge.ruling().await.unwrap();
        ruling.expect(ReasonCode::AuditElement);
        assert!(!ruling.phases.iter().any(|phase| phase == "replay"), "{:?}", ruling.phases);
    }
}
