//! Who is blamed: each cause is planted over real daemons, and its verdicts name that class of reasons and no other. The
//! table of docs/measured.md has each cause twenty times (`the_matrix_of_causes`).

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use assay_integration_tests::daemon::program;
use assay_integration_tests::document::check_section;
use assay_integration_tests::faulty::{Fault, Lie};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::proxy::{Link, Proxy};
use assay_integration_tests::standin;
use assay_integration_tests::validator::{Policy, Ruling, TestValidator};
use assay_protocol::verdict::Mode;
use assay_protocol::wire::v1::Outcome;

/// The name of the outcome without a reason.
const PASS: &str = "pass";
const TIMES: usize = 20;
const DAY_S: i64 = 86_400;

/// A cause, the class that its verdicts name, and a planting of it.
struct Cause(&'static str, &'static str, fn() -> Planted);

type Planted = Pin<Box<dyn Future<Output = Ruling>>>;

/// The table of causes, with a test of one planting for each.
macro_rules! causes {
    ($($test:ident: $name:literal, $class:expr, $planted:expr;)*) => {
        const CAUSES: &[Cause] = &[$(Cause($name, $class, || Box::pin($planted)),)*];

        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            let ruling = $planted.await;
            assert_eq!(named(&ruling), [$class.to_owned()].into(), "{:?}", ruling.verdict.reasons);
        })*
    };
}

causes! {
    a_tenant_in_memory: "another process takes the GPU's memory", "busy", tenant_in_memory();
    a_slow_device: "a device slows down thirtyfold: a tenant, or throttling", "late", slow_device();
    wrong_bits_of_a_device: "a device gives wrong bits", "forged", wrong_bits();
    a_driver_that_hangs: "a driver never returns, its worker lives", "late", hung_driver();
    a_worker_that_stands_still: "a worker stands still", "sick", faulty(Lie::Stop, Mode::Audit);
    a_killed_worker: "a worker is killed", "ours", killed_worker();
    a_host_without_memory: "a worker gets no memory of its host", "busy", host_without_memory();
    a_slow_link: "a link is slow", PASS, slow_link();
    a_link_cut_in_the_work: "a link is cut during the work", "network", cut_link("work");
    a_link_cut_in_the_openings: "a link is cut during the openings", "network", cut_link("openings");
    a_validator_held_up: "the validator stands still", "ours", held_up();
    locked_records_of_a_validator: "the validator's records are locked", PASS, locked_records();
    a_validator_whose_clock_jumps: "the validator's clock jumps a day ahead and two back", PASS, jumping_clock(true);
    a_miner_whose_clock_jumps: "the miner's clock jumps a day ahead and two back", PASS, jumping_clock(false);
}

/// The classes that a verdict names, or [`PASS`].
fn named(ruling: &Ruling) -> BTreeSet<String> {
    match ruling.verdict.outcome() {
        Outcome::Pass => [PASS.to_owned()].into(),
        _ => ruling.verdict.reasons.iter().map(|reason| reason.class.clone()).collect(),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: cargo test -p assay-integration-tests --test daemons -- --ignored the_matrix_of_causes"]
async fn the_matrix_of_causes() {
    let mut table = "| cause | class | of 20 |\n|---|---|--:|\n".to_owned();
    for &Cause(name, class, plant) in CAUSES {
        let mut right = 0;
        for _ in 0..TIMES {
            let ruling = plant().await;
            if named(&ruling) == [class.to_owned()].into() {
                right += 1;
            } else {
                println!("{name}: {:?}", ruling.verdict.reasons);
            }
            let fails = ["late", "forged"].contains(&class);
            assert!(fails || ruling.verdict.outcome() != Outcome::Fail, "{name}: {:?}", ruling.verdict.reasons);
        }
        table += &format!("| {name} | {class} | {right} |\n");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/measured.md");
    check_section(&page, "causes", &table).unwrap();
}

async fn pair(policy: &Policy, flags: &[&str], environment: Vec<(String, OsString)>) -> (TestValidator, TestMiner) {
    let validator = TestValidator::start(policy).await;
    let miner = TestMiner::start_in(validator.address, 1, flags, environment);
    validator.wait_for_miner(miner.key, true).await;
    (validator, miner)
}

async fn tenant_in_memory() -> Ruling {
    let environment = standin::environment(&[("MEMORY_MIB", "64"), ("FAULT", "cuMemGetInfo_v2:8+:tenant64")]);
    let cache = tempfile::tempdir().unwrap();
    let flag = format!("--kernel-cache={}", cache.path().display());
    let (validator, miner) = pair(&Policy::default(), &["--backend=cuda", &flag], environment).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap()
}

/// A miner whose device has this fault from its first pass on.
async fn faulty_miner(policy: &Policy, lie: Lie) -> (TestValidator, TestMiner) {
    let mut environment = Fault { again: true, ..Fault::of_first(1, lie) }.environment();
    environment.push(("ASSAY_WORKER_PROGRAM".to_owned(), program("assay-faulty-worker").into()));
    pair(policy, &["--worker-silence-s=3"], environment).await
}

async fn faulty(lie: Lie, mode: Mode) -> Ruling {
    let (validator, miner) = faulty_miner(&Policy::default(), lie).await;
    validator.challenge(miner.key, Some(mode)).await.unwrap()
}

/// A device that is far too slow looks the same, also to its miner, and must not get off with less than a fail.
async fn hung_driver() -> Ruling {
    let policy = Policy { commit_deadline_s: 4, ..Policy::default() };
    let (validator, miner) = faulty_miner(&policy, Lie::Hang).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap()
}

async fn slow_device() -> Ruling {
    let policy = Policy { iterations: 200, commit_deadline_s: 1, ..Policy::default() };
    let (validator, miner) = faulty_miner(&policy, Lie::Slow(30)).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap()
}

async fn wrong_bits() -> Ruling {
    faulty(Lie::Flip { slot: 4, byte: 77, bytes: 1, mask: 4 }, Mode::Replay).await
}

async fn killed_worker() -> Ruling {
    let (validator, mut miner) = pair(&Policy { iterations: 600, ..Policy::default() }, &[], Vec::new()).await;
    let worker = *miner.daemon.workers(1).values().next().unwrap();
    // Held, so that its work does not end before it is killed.
    let _held = miner.daemon.hold_devices();
    let challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    miner.daemon.wait_for("working");
    // SAFETY: kill only sends a signal; the process is a worker of a miner that this test started.
    assert_eq!(unsafe { libc::kill(worker, libc::SIGKILL) }, 0);
    challenge.ruling().await.unwrap()
}

async fn host_without_memory() -> Ruling {
    let (validator, mut miner) = pair(&Policy::default(), &[], Vec::new()).await;
    let worker = *miner.daemon.workers(1).values().next().unwrap();
    let none = libc::rlimit { rlim_cur: 1 << 20, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is valid for the call, which takes no second one; the process is a worker of this test's miner.
    assert_eq!(unsafe { libc::prlimit(worker, libc::RLIMIT_AS, &raw const none, std::ptr::null_mut()) }, 0);
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap()
}

/// A miner on a link of 32 kB/s, over which the openings take some seconds.
async fn on_a_link() -> (TestValidator, TestMiner, Proxy) {
    let flags = vec!["--policy-fields=link_min_kb_per_s=8".to_owned()];
    let policy =
        Policy { samples: 16, segments: 8, openings_deadline_s: 2, ping_interval_ms: 2000, flags, ..Policy::default() };
    let validator = TestValidator::start(&policy).await;
    let link = Link { bytes_per_s: 32_000, delay: Duration::from_millis(50) };
    let proxy = Proxy::start_on_a_link(validator.address, link).await;
    let miner = TestMiner::start(proxy.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    (validator, miner, proxy)
}

async fn slow_link() -> Ruling {
    let (validator, miner, _proxy) = on_a_link().await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap()
}

async fn cut_link(phase: &str) -> Ruling {
    let (validator, miner, proxy) = on_a_link().await;
    let mut challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    challenge.wait_for_phase(phase).await;
    proxy.cut();
    challenge.ruling().await.unwrap()
}

/// The commitment comes in time, and is read too late.
async fn held_up() -> Ruling {
    let policy = Policy { iterations: 200, commit_deadline_s: 2, ping_interval_ms: 60_000, ..Policy::default() };
    let (mut validator, miner) = pair(&policy, &[], Vec::new()).await;
    // The commitment is made while the validator stands still, not before.
    let held = miner.daemon.hold_devices();
    let mut challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    challenge.wait_for_phase("work").await;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            drop(held);
        });
        validator.daemon.hold_up(Duration::from_secs(4));
    });
    challenge.ruling().await.unwrap()
}

/// A process that holds the one lock that writers of the records take. Dropped, it lets go.
struct RecordsLock(Child);

impl RecordsLock {
    fn of(file: &Path) -> Self {
        const HOLD: &str = "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); \
             print('locked', flush=True); time.sleep(60)";
        let mut python = Command::new("python3");
        let mut child = python.args(["-c", HOLD]).arg(file).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        Self(child)
    }
}

impl Drop for RecordsLock {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lock is taken before the verdict is written, and held for some seconds.
async fn locked_records() -> Ruling {
    let (validator, miner) = pair(&Policy { iterations: 200, ..Policy::default() }, &[], Vec::new()).await;
    let mut challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    challenge.wait_for_phase("work").await;
    let lock = RecordsLock::of(&validator.file("validator.db"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    drop(lock);
    challenge.ruling().await.unwrap()
}

/// A library that adds the seconds in a file to the wall clock of the program that it is loaded into.
fn clock_library(folder: &Path) -> (Vec<(String, OsString)>, impl Fn(i64) + use<>) {
    const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, at);
    FILE *file = id == CLOCK_REALTIME ? fopen(getenv("ASSAY_TEST_CLOCK"), "r") : NULL;
    long long jump = 0;
    if (file && fscanf(file, "%lld", &jump) == 1) at->tv_sec += jump;
    if (file) fclose(file);
    return result;
}
"#;
    let [source, library, jump] = ["clock.c", "clock.so", "jump"].map(|name| folder.join(name));
    fs::write(&source, SOURCE).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
    assert!(built.success());
    let environment = vec![("LD_PRELOAD".into(), library.into()), ("ASSAY_TEST_CLOCK".into(), jump.clone().into())];
    let set = move |seconds: i64| {
        let new = jump.with_extension("new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(new, &jump).unwrap();
    };
    set(0);
    (environment, set)
}

/// The clock jumps twice during one challenge.
async fn jumping_clock(is_validators: bool) -> Ruling {
    let folder = tempfile::tempdir().unwrap();
    let (environment, jump) = clock_library(folder.path());
    let policy = Policy { iterations: 200, ..Policy::default() };
    let (validators, miners) = if is_validators { (environment, Vec::new()) } else { (Vec::new(), environment) };
    let (validator, miner) = pair(&Policy { environment: validators, ..policy }, &[], miners).await;
    let mut challenge = validator.ask(miner.key, Some(Mode::Audit)).await.unwrap();
    challenge.wait_for_phase("work").await;
    jump(DAY_S);
    tokio::time::sleep(Duration::from_millis(50)).await;
    jump(-DAY_S);
    challenge.ruling().await.unwrap()
}
