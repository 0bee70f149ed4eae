//! Who of several validators has a miner, and who concludes the challenges of a lost one: on a real PostgreSQL, without
//! the programs.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::postgres::Postgres;
use assay_keeper::registry::Registry;
use assay_keeper::sharing::leases::{MINER_LEASE, MinerLease, MinerLeases};
use assay_keeper::sharing::presence::{ValidatorPresence, wait_until_alone};
use assay_listen::bounds::ConnectionBounds;
use assay_protocol::verdict::{Outcome, ReasonCode, Verdict};
use assay_records::{ChallengeStart, Records, VerdictFilter};
use assay_work::PublicKey;
use tokio::task::JoinHandle;

const MINER: PublicKey = PublicKey([7; 32]);

async fn open() -> Records {
    Records::open(&Postgres::shared().database().location()).await.expect("a database")
}

/// The leases of a validator that keeps them.
fn validator(records: &Records, name: &str) -> (MinerLeases, JoinHandle<()>) {
    let leases = MinerLeases::shared(records.clone(), name.to_owned());
    let kept = tokio::spawn(leases.clone().keep());
    (leases, kept)
}

async fn held(lease: &MinerLease) {
    let until = Instant::now() + PATIENCE;
    while !lease.is_held() {
        assert!(Instant::now() < until, "it gets the lease");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_miner_of_two_validators_is_scheduled_by_one() {
    let records = open().await;
    let ((first, _), (second, _)) = (validator(&records, "first"), validator(&records, "second"));
    let early = first.enter(MINER);
    held(&early).await;
    let late = second.enter(MINER);
    assert!(!late.hold().await && early.hold().await, "it is asked for, and another has it");
    // The miner connects anew before its old session has ended: nothing changes.
    let again = first.enter(MINER);
    drop(early);
    assert!(again.is_held() && !late.hold().await);
    drop(again);
    held(&late).await;
    let holders: Vec<_> =
        records.leases(None, MINER_LEASE).await.unwrap().into_iter().map(|lease| lease.holder).collect();
    assert_eq!(holders, ["second"]);
    drop(late);
    let until = Instant::now() + PATIENCE;
    while !records.leases(None, MINER_LEASE).await.unwrap().is_empty() {
        assert!(Instant::now() < until, "it is given back");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_miners_of_a_lost_validator_go_to_another_one_and_never_to_both() {
    let records = open().await;
    let ((first, kept), (second, _)) = (validator(&records, "first"), validator(&records, "second"));
    let early = first.enter(MINER);
    held(&early).await;
    let late = second.enter(MINER);
    // As a process that hangs: nothing is renewed, nothing is given back.
    kept.abort();
    held(&late).await;
    assert!(!early.is_held(), "by its own clock, before another one has it");
    assert!(!early.hold().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_alone_has_all_miners() {
    let lease = MinerLeases::alone().enter(MINER);
    assert!(lease.is_held() && lease.hold().await);
}

/// Also where both start at one moment: the one that is displaced ends.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_with_one_key_one_serves() {
    let (records, key) = (open().await, PublicKey([4; 32]));
    let enter = async |instance: &str| {
        let address = format!("{instance}:7400");
        ValidatorPresence::enter(records.clone(), key, instance.to_owned(), address).await.expect("it enters")
    };
    assert_eq!(wait_until_alone(&records, key).await.unwrap(), Ok(()), "nobody was there yet");
    let first = enter("first").await;
    let registry = Registry::new(ConnectionBounds::default());
    let kept = tokio::spawn(async move { first.keep(&registry, |_| {}).await });
    let refused = wait_until_alone(&records, key).await.unwrap().unwrap_err();
    assert!(
        refused.to_string().starts_with("a validator with this key is alive at first:7400, heartbeat "),
        "{refused}"
    );
    assert_eq!(wait_until_alone(&records, PublicKey([5; 32])).await.unwrap(), Ok(()), "another key");
    let second = enter("second").await;
    let ended = kept.await.unwrap().message;
    assert!(ended.starts_with("a validator with this key is alive at second:7400, "), "{ended}");
    // One that was killed is waited for, and one that left is not.
    drop(second);
    assert_eq!(wait_until_alone(&records, key).await.unwrap(), Ok(()));
    enter("third").await.leave().await;
    assert_eq!(wait_until_alone(&records, key).await.unwrap(), Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_challenge_of_a_lost_validator_is_concluded_once() {
    let records = open().await;
    let (lost, challenge) = (PublicKey([1; 32]), "ab".repeat(16));
    let enter = async |key: u8, instance: &str| {
        let (key, instance) = (PublicKey([key; 32]), instance.to_owned());
        ValidatorPresence::enter(records.clone(), key, instance, "127.0.0.1:7400".to_owned()).await.expect("it enters")
    };
    // The first run of a validator, which is started anew: it is lost then.
    let _run = enter(1, "first run").await;
    let begun = ChallengeStart {
        challenge: challenge.clone(),
        miner: MINER.to_string(),
        validator: lost.to_string(),
        instance: "first run".to_owned(),
        session: "session".to_owned(),
        group: "default".to_owned(),
        kind: "light".to_owned(),
        asked: "schedule".to_owned(),
        round: None,
        begun_ms: 1_800_000_000_123,
        device_ms: 5,
    };
    records.begin_challenge(&begun).await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let conclude = async |presence: &ValidatorPresence| {
        let told = told.clone();
        presence.conclude_lost(&move |verdict: Verdict| told.lock().unwrap().push(verdict)).await.unwrap();
    };
    let other = enter(2, "other").await;
    conclude(&other).await;
    assert!(told.lock().unwrap().is_empty(), "it lives");
    let again = enter(1, "second run").await;
    let third = enter(3, "third").await;
    // At once, and once more.
    tokio::join!(conclude(&other), conclude(&again), conclude(&third));
    conclude(&other).await;
    let told = told.lock().unwrap().clone();
    let [verdict] = &told[..] else { panic!("{told:#?}") };
    assert_eq!((verdict.outcome, verdict.reasons[0].code), (Outcome::Inconclusive, ReasonCode::ValidatorLost));
    assert_eq!((verdict.validator_key, verdict.miner_key, verdict.unix_seconds), (lost, MINER, 1_800_000_000));
    let kept = records.verdicts(&VerdictFilter::default()).await.unwrap();
    assert_eq!(kept.iter().map(|kept| &kept.challenge).collect::<Vec<_>>(), [&challenge]);
    assert_eq!(kept[0].verdict.get(), serde_json::to_string(verdict).unwrap(), "the one that was told of");
    let due = records.due(&MINER.to_string()).await.unwrap().expect("its miner is due");
    assert_eq!((due.at_ms, due.kind.as_str()), (begun.begun_ms, "light"));
}
