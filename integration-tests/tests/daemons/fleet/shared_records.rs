//! Three validators and two replay workers on one PostgreSQL, with twelve miners that each dial all three: one of each
//! kind is killed in the middle of its work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use assay_api::BeginChallenge;
use assay_integration_tests::daemon::{Daemon, Held, PATIENCE};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::postgres::{Database, Postgres};
use assay_integration_tests::validator::{Policy, RunningChallenge, TestValidator};
use assay_protocol::verdict::ReasonCode;
use assay_records::{Records, VerdictFilter, VerdictRecord};
use assay_work::ChallengeId;
use serde_json::Value;

const MINERS: usize = 12;
/// How often it is looked whether something has come.
const NAP: Duration = Duration::from_millis(100);
/// Passes of a challenge whose replay takes a while.
const LONG_REPLAY: u32 = 600;
/// Passes of a challenge whose work does not end before the test stops it.
const LONG_WORK: u32 = 60_000;

/// When miners are challenged: soon after each verdict, and at the latest then.
const CADENCE: &str = r#"
[[group]]
name = "default"
cadence = { mean = "4s", least = "2s", most = "6s", at_connect = true }
"#;

/// Validators that have no device and replay everything.
fn policy(url: &str, cadence: &Path) -> Policy {
    let flags = "--replay-locally=false --max-address-miners=100 --mode=replay --policy-fields=busy_retry=1s";
    let files = [format!("--records={url}"), format!("--fleet-policy={}", cadence.display())];
    let flags = flags.split(' ').map(str::to_owned).chain(files).collect();
    Policy { max_matrices: 3, flags, ..Policy::default() }
}

fn start_worker(url: &str) -> Daemon {
    let flags = "replay-worker --backend=cpu --cpu-devices=1 --cpu-memory=32MiB --cpu-threads=1 --log=debug";
    let records = format!("--records={url}");
    let arguments: Vec<_> = flags.split(' ').map(str::to_owned).chain([records]).collect();
    let mut worker = Daemon::start("assay-validator", &arguments);
    worker.wait_for("taking replays");
    worker
}

/// A miner of these validators.
fn start_miner(validators: &[TestValidator]) -> TestMiner {
    let others: Vec<_> = validators[1..].iter().map(|other| format!("--validator={}", other.address)).collect();
    let flags: Vec<_> = others.iter().map(String::as_str).chain(["--telemetry=off"]).collect();
    TestMiner::start(validators[0].address, 1, &flags)
}

/// Waits until something is there.
async fn wait_for<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < until, "it never comes: {what}");
        tokio::time::sleep(NAP).await;
    }
}

/// Has a validator challenge a miner for long, as soon as the miner takes it: one that works for another validator just
/// then declines it.
async fn challenge_for_long(validator: &TestValidator, miner: &mut TestMiner, iterations: u32) -> RunningChallenge {
    wait_for("a challenge of the operator that the miner works on", async || {
        let request =
            BeginChallenge { miner: Some(miner.key.to_string()), iterations: Some(iterations), ..Default::default() };
        let running = validator.begin(request).await.ok()?;
        let id = running.id.to_string();
        loop {
            let connected = validator.miners().await.into_iter().find(|found| found.miner_key == miner.key);
            let runs = connected.and_then(|found| found.challenge).is_some_and(|of| of.challenge_id == running.id);
            if miner.daemon.log().iter().any(|line| line.contains(&id) && line.contains("\"working\"")) {
                return Some(running);
            }
            if !runs {
                return None;
            }
            tokio::time::sleep(NAP).await;
        }
    })
    .await
}

/// The one of these workers that takes the replay of a challenge. Devices stand still but for replays of others, which
/// have to end first: a worker has one replay at a time.
async fn taken_by(workers: &mut [Daemon], id: ChallengeId) -> (usize, Vec<Vec<Held>>) {
    let id = id.to_string();
    let mut held: Vec<Vec<Held>> = workers.iter().map(|_| Vec::new()).collect();
    let taker = wait_for("a worker that takes the replay", async || {
        for (place, (worker, held)) in workers.iter_mut().zip(&mut held).enumerate() {
            let last = worker.log().iter().rfind(|line| line.contains("\"message\":\"replay: "));
            match last.filter(|line| line.contains("\"replay: taken\"")) {
                Some(taken) if taken.contains(&id) => return Some(place),
                Some(_) => held.clear(),
                None if held.is_empty() => *held = worker.hold_devices(),
                None => {}
            }
        }
        None
    });
    let taker = taker.await;
    (taker, held)
}

/// The verdicts in the programs' output: the outcome by challenge.
#[derive(Default)]
struct Given(BTreeMap<String, String>);

impl Given {
    /// Notes the verdicts in the log of a validator or a miner.
    fn note(&mut self, daemon: &mut Daemon) {
        for line in daemon.log() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let (Some(challenge), Some(said)) = (line["challenge"].as_str(), line["message"].as_str()) else {
                continue;
            };
            let said = said.strip_prefix("verdict: ").unwrap_or(said);
            let outcome = said.split(':').next().unwrap_or_default();
            if !["pass", "fail", "inconclusive"].contains(&outcome) {
                continue;
            }
            let before = self.0.insert(challenge.to_owned(), outcome.to_owned());
            assert!(before.is_none_or(|before| before == outcome), "challenge {challenge} was given two verdicts");
        }
    }
}

struct Fleet {
    database: Database<'static>,
    records: Records,
    validators: Vec<TestValidator>,
    workers: Vec<Daemon>,
    miners: Vec<TestMiner>,
    given: Given,
    /// Kept for as long as a validator may read it.
    _cadence: tempfile::NamedTempFile,
}

impl Fleet {
    async fn start() -> Self {
        let database = Postgres::shared().database();
        let records = Records::open(&database.location()).await.expect("the records");
        let workers = (0..2).map(|_| start_worker(&database.url())).collect();
        let cadence = tempfile::NamedTempFile::new().expect("a temporary file");
        fs::write(cadence.path(), CADENCE).expect("it is ours");
        let policy = policy(&database.url(), cadence.path());
        let mut validators = Vec::new();
        for _ in 0..3 {
            validators.push(TestValidator::start(&policy).await);
        }
        let miners = (0..MINERS).map(|_| start_miner(&validators)).collect();
        Self { database, records, validators, workers, miners, given: Given::default(), _cadence: cadence }
    }

    async fn verdicts(&self, since_ms: i64) -> Vec<VerdictRecord> {
        let filter = VerdictFilter { since_ms: Some(since_ms), ..VerdictFilter::default() };
        self.records.verdicts(&filter).await.expect("the records answer")
    }

    /// Waits until every miner has a verdict on a challenge that was begun from now on.
    async fn every_miner_is_judged_again(&self) {
        // To the second, as a verdict states its time.
        let since_ms = self.records.now_ms().await.expect("the records answer") / 1000 * 1000 + 1000;
        let all: BTreeSet<_> = self.miners.iter().map(|miner| miner.key.to_string()).collect();
        wait_for("new verdicts on all miners", async || {
            let judged: BTreeSet<_> = self.verdicts(since_ms).await.into_iter().map(|verdict| verdict.miner).collect();
            judged.is_superset(&all).then_some(())
        })
        .await;
    }

    /// Waits for the verdict on a challenge; gives its outcome and the code of its first reason.
    async fn verdict(&self, id: ChallengeId) -> (String, Option<String>) {
        wait_for("the verdict", async || {
            let verdicts = self.verdicts(0).await;
            let found = verdicts.into_iter().find(|verdict| verdict.challenge == id.to_string())?;
            let verdict: Value = serde_json::from_str(found.verdict.get()).expect("a verdict is JSON");
            Some((found.outcome, verdict["reasons"][0]["code"].as_str().map(str::to_owned)))
        })
        .await
    }

    /// Every verdict that was given out is in the records, once and unchanged; no miner was failed; no two validators
    /// had a miner at once by their schedules.
    async fn check(&mut self) {
        let Self { validators, miners, given, .. } = self;
        let daemons = validators.iter_mut().map(|v| &mut v.daemon).chain(miners.iter_mut().map(|m| &mut m.daemon));
        daemons.for_each(|daemon| given.note(daemon));
        let kept = self.verdicts(0).await;
        let failed: Vec<_> = kept.iter().filter(|verdict| verdict.outcome == "fail").map(|v| v.verdict.get()).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        let outcomes: BTreeMap<_, _> = kept.iter().map(|verdict| (&verdict.challenge, &verdict.outcome)).collect();
        assert_eq!(outcomes.len(), kept.len(), "a verdict for each challenge");
        assert!(self.given.0.len() > MINERS);
        for (challenge, outcome) in &self.given.0 {
            assert_eq!(outcomes.get(challenge), Some(&outcome), "challenge {challenge} was given out");
        }
        let mut by_miner: BTreeMap<String, Vec<(i64, i64, String)>> = BTreeMap::new();
        // Those of a lost validator ended with it, and are concluded when others have its miners.
        let is_lost = |verdict: &VerdictRecord| verdict.verdict.get().contains(ReasonCode::ValidatorLost.name());
        for verdict in kept.iter().filter(|verdict| verdict.asked != "operator" && !is_lost(verdict)) {
            let challenge = self.records.challenge(&verdict.challenge).await.unwrap().expect("a verdict has one");
            let (begun, ended) = (challenge.begun, challenge.ended_ms.expect("it has ended"));
            by_miner.entry(verdict.miner.clone()).or_default().push((begun.begun_ms, ended, begun.validator));
        }
        for (miner, mut challenges) in by_miner {
            challenges.sort();
            for pair in challenges.windows(2) {
                let ((_, ended, first), (begun, _, second)) = (&pair[0], &pair[1]);
                assert!(first == second || begun >= ended, "{first} and {second} had miner {miner} at once");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_is_killed_in_turn_and_nothing_is_lost() {
    let mut fleet = Fleet::start().await;
    fleet.every_miner_is_judged_again().await;

    // A validator, in mid-challenge: another one concludes it, and has its miners.
    let mut running = challenge_for_long(&fleet.validators[0], &mut fleet.miners[0], LONG_WORK).await;
    let lost = running.id;
    running.wait_for_phase("work").await;
    let held = fleet.miners[0].daemon.hold_devices();
    wait_for("the challenge in the records", async || fleet.records.challenge(&lost.to_string()).await.unwrap()).await;
    fleet.validators[0].daemon.kill();
    drop(held);
    let Fleet { given, validators, .. } = &mut fleet;
    given.note(&mut validators[0].daemon);
    fleet.every_miner_is_judged_again().await;
    let (outcome, code) = fleet.verdict(lost).await;
    assert_eq!((outcome.as_str(), code.as_deref()), ("inconclusive", Some(ReasonCode::ValidatorLost.name())));

    // A replay worker, in mid-replay: the other one does it again.
    let running = challenge_for_long(&fleet.validators[1], &mut fleet.miners[1], LONG_REPLAY).await;
    let replayed = running.id;
    let (first, held) = taken_by(&mut fleet.workers, replayed).await;
    fleet.workers.remove(first).kill();
    drop(held);
    running.ruling().await.expect("a verdict").expect_pass();
    let again = |line: &String| line.contains(&replayed.to_string()) && line.contains("\"attempt\":2");
    assert!(fleet.workers[0].log().iter().any(again), "it was the second attempt");
    fleet.workers.push(start_worker(&fleet.database.url()));

    // A miner, in mid-challenge.
    let mut running = challenge_for_long(&fleet.validators[1], &mut fleet.miners[2], LONG_WORK).await;
    let broken = running.id;
    running.wait_for_phase("work").await;
    let Fleet { given, miners, .. } = &mut fleet;
    miners[2].daemon.kill();
    given.note(&mut miners[2].daemon);
    running.ruling().await.expect("a verdict").expect(ReasonCode::Disconnected);
    fleet.miners[2].restart();

    // The validator is back, as itself.
    fleet.validators[0].restart().await;
    fleet.every_miner_is_judged_again().await;
    assert_eq!(fleet.verdict(broken).await.0, "inconclusive");
    fleet.check().await;
}
