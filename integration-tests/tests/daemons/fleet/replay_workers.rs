//! Validators without devices, and the workers that replay for them.

use std::fs;

use assay_api::BeginChallenge;
use assay_integration_tests::daemon::{Daemon, run};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::postgres::{Database, Postgres};
use assay_integration_tests::validator::{Policy, RunningChallenge, TestValidator};
use assay_protocol::verdict::Mode;
use serde_json::Value;

/// The arguments of a worker on this database.
fn arguments(url: &str) -> Vec<String> {
    let flags = "replay-worker --backend=cpu --cpu-devices=1 --cpu-memory=32MiB --cpu-threads=1 --log=debug";
    flags.split(' ').map(str::to_owned).chain([format!("--records={url}")]).collect()
}

fn start_worker(url: &str) -> Daemon {
    let mut worker = Daemon::start("assay-validator", &arguments(url));
    worker.wait_for("taking replays");
    worker
}

struct Scene {
    database: Database<'static>,
    validator: TestValidator,
    miner: TestMiner,
}

impl Scene {
    async fn new() -> Self {
        let database = Postgres::shared().database();
        let flags = [format!("--records={}", database.url()), "--replay-locally=false".to_owned()];
        let (validator, miner) =
            TestMiner::with_validator(&Policy { flags: flags.to_vec(), ..Policy::default() }, 1, &["--telemetry=off"])
                .await;
        Self { database, validator, miner }
    }

    async fn begin(&self, mode: Option<Mode>, iterations: u32) -> RunningChallenge {
        let miner = Some(self.miner.key.to_string());
        let request = BeginChallenge { miner, mode, iterations: Some(iterations), ..Default::default() };
        self.validator.begin(request).await.expect("a challenge")
    }

    fn status(&self) -> Value {
        let socket = format!("--control-socket={}", self.validator.socket.display());
        let output = run("assay-validator", ["status", "--json", &socket]);
        serde_json::from_slice(&output.stdout).expect("the status is JSON")
    }

    /// Waits until the validator has `count` workers.
    async fn workers(&mut self, count: usize) {
        for _ in 0..count {
            self.validator.daemon.wait_for("a replay worker is there");
        }
        assert_eq!(self.status()["replay_workers"].as_array().map(Vec::len), Some(count));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_without_devices_replays_once_a_worker_is_there() {
    let mut scene = Scene::new().await;
    let ruling = scene.begin(None, 1).await.ruling().await.unwrap();
    assert!(!ruling.expect_pass().phases.contains(&"replay".to_owned()), "nothing replays: {:?}", ruling.phases);
    // One that is asked for waits for a worker.
    let mut running = scene.begin(Some(Mode::Replay), 1).await;
    running.wait_for_phase("replay").await;
    let mut worker = start_worker(&scene.database.url());
    running.ruling().await.unwrap().expect_pass();
    scene.workers(1).await;
    let ruling = scene.begin(None, 1).await.ruling().await.unwrap();
    assert!(ruling.expect_pass().phases.contains(&"replay".to_owned()), "auto: {:?}", ruling.phases);
    let reported = worker.log().iter().filter(|line| line.contains("\"replay: equal\"")).count();
    assert_eq!(reported, 2, "a line for each replay");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_asked_to_stop_finishes_its_replay() {
    let mut scene = Scene::new().await;
    let mut worker = start_worker(&scene.database.url());
    scene.workers(1).await;
    let held = worker.hold_devices();
    let running = scene.begin(Some(Mode::Replay), 1).await;
    worker.wait_for("replay: taken");
    worker.terminate();
    worker.wait_for("draining");
    drop(held);
    running.ruling().await.unwrap().expect_pass();
    assert!(worker.wait().success());
    assert!(worker.log().iter().any(|line| line.contains("replay: equal")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_must_stop_at_once_hands_its_replay_back() {
    let mut scene = Scene::new().await;
    let mut first = start_worker(&scene.database.url());
    scene.workers(1).await;
    let _held = first.hold_devices();
    let running = scene.begin(Some(Mode::Replay), 1).await;
    first.wait_for("replay: taken");
    first.terminate();
    first.wait_for("draining");
    first.terminate();
    first.wait_for("replay: handed back");
    let mut second = start_worker(&scene.database.url());
    running.ruling().await.unwrap().expect_pass();
    assert_eq!(second.wait_for("replay: taken")["attempt"], 2);
    assert!(first.wait().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_replay_is_withdrawn_from_its_worker() {
    let mut scene = Scene::new().await;
    let mut worker = start_worker(&scene.database.url());
    scene.workers(1).await;
    let held = worker.hold_devices();
    let mut running = scene.begin(Some(Mode::Replay), 1).await;
    running.wait_for_phase("replay").await;
    worker.wait_for("replay: taken");
    let socket = format!("--control-socket={}", scene.validator.socket.display());
    assert!(run("assay-validator", ["cancel", "--all", &socket]).status.success());
    running.ruling().await.unwrap().expect(assay_protocol::verdict::ReasonCode::Cancelled);
    drop(held);
    worker.wait_for("replay: withdrawn");
}

/// The role of workers, as the page for operators makes it, is enough for a worker, and for nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_needs_the_role_of_the_documentation_only() {
    let mut scene = Scene::new().await;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operate.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, after) = page.split_once("<!-- worker role -->\n```sql\n").expect("the statements are marked");
    let (statements, _) = after.split_once("```").expect("they end");
    scene.database.sql("CREATE ROLE assay_replay LOGIN");
    scene.database.sql(statements);
    let url = scene.database.url().replacen("assay@", "assay_replay@", 1);
    let _worker = start_worker(&url);
    scene.workers(1).await;
    scene.begin(Some(Mode::Replay), 1).await.ruling().await.unwrap().expect_pass();
    let tables = "SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public' AND";
    let may = |what: &str| {
        scene
            .database
            .sql(&format!("{tables} has_table_privilege('assay_replay', schemaname || '.' || tablename, '{what}')"))
    };
    assert_eq!(may("SELECT"), "_sqlx_migrations compatibility jobs store workers");
    assert_eq!((may("UPDATE"), may("INSERT")), ("jobs store workers".to_owned(), "store workers".to_owned()));
    assert_eq!(may("DELETE"), "");
}

#[test]
fn a_worker_without_shared_records_says_what_is_missing() {
    let output = run("assay-validator", ["replay-worker", "--records=validator.db"]);
    assert_eq!(output.status.code(), Some(78));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("postgres://user@host/database"), "{said}");
}
