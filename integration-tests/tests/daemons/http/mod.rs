//! The HTTP API of real validators: the rights of callers, the answers to hostile clients, and the interfaces that
//! programs rely on.

mod browsers;
mod commands;
mod data;
mod events;
mod examples;
mod hostile;
mod roles;
mod schema;
mod tls;

use std::net::SocketAddr;

use std::time::{Duration, Instant};

use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::{Policy, SLOW_KERNEL, TestValidator};
use assay_integration_tests::web::Caller;

/// How often it is looked whether the records have a miner.
const NAP: Duration = Duration::from_millis(10);

/// A validator that serves its API on a port that the system chooses, and where that is.
async fn serving(flags: &[&str]) -> (TestValidator, SocketAddr) {
    serving_by(Policy::default(), flags).await
}

async fn serving_by(mut policy: Policy, flags: &[&str]) -> (TestValidator, SocketAddr) {
    let flags = [&["--http-listen=127.0.0.1:0"][..], flags].concat();
    policy.flags.extend(flags.into_iter().map(str::to_owned));
    let mut validator = TestValidator::start(&policy).await;
    let address = web_address(&mut validator);
    (validator, address)
}

/// Where a validator says that it serves its API.
fn web_address(validator: &mut TestValidator) -> SocketAddr {
    let line = validator.daemon.wait_for("the HTTP API and the pages are served");
    line["address"].as_str().and_then(|address| address.parse().ok()).expect("an address")
}

/// A miner of a validator, connected and in the records, which have it a moment later.
async fn miner_of(validator: &TestValidator) -> TestMiner {
    let miner = TestMiner::start(validator.address, 1, &[SLOW_KERNEL]);
    validator.wait_for_miner(miner.key, true).await;
    let (path, until) = (format!("/api/v1/miners/{}", miner.key), Instant::now() + PATIENCE);
    while Caller::at_socket(validator).get(&path).await.status != 200 {
        assert!(Instant::now() < until, "the records have the miner");
        tokio::time::sleep(NAP).await;
    }
    miner
}
