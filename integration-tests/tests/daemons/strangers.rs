//! Connections without a session: their places are bounded, their time is, and no miner pays for them.

use std::time::Duration;

use assay_integration_tests::raw::{Line, RawMiner, dial, encoded, hello, proof, welcomed};
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::identity::Identity;
use assay_protocol::message::{MinerMessage, StopCode, ValidatorMessage};

use super::conversation::identity;

/// Two addresses of this machine.
const HONEST: [u8; 4] = [127, 0, 0, 1];
const CROWD: [u8; 4] = [127, 0, 0, 2];
/// More connections than strangers have places, and than a validator for one miner had in all.
const MANY: usize = 200;
/// How long an answer may take that nothing holds up.
const SOON: Duration = Duration::from_secs(20);

async fn validator(max_miners: u32) -> TestValidator {
    let allowed: Vec<_> = (0..=u8::MAX).map(|number| miner(number).public_key().to_string()).collect();
    let allowed = allowed.join(",");
    let flags = ["--max-address-connects-per-s=0", "--max-connects-per-s=0"].map(str::to_owned);
    let own = [format!("--max-miners={max_miners}"), format!("--allowed-miners={allowed}")];
    let flags = flags.into_iter().chain(own).collect();
    TestValidator::start(&Policy { flags, ..Policy::default() }).await
}

/// One of 256 miners: [`identity`] is one of them.
fn miner(number: u8) -> Identity {
    Identity::from_seed(&[number; 32])
}

fn other() -> Identity {
    miner(0x32)
}

async fn within<T>(answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, answer).await.expect("nothing holds the answer up")
}

/// The whole handshake on a connection; gives the stream and the answer to the proof.
async fn proved(line: &Line, identity: &Identity) -> (RawMiner, Option<ValidatorMessage>) {
    let hello = hello(identity);
    let mut miner = line.miner(encoded(MinerMessage::Hello(hello.clone()))).await.expect("a stream");
    let Some(ValidatorMessage::Welcome(welcome)) = miner.hear().await else { panic!("no welcome") };
    miner.say(proof(&hello, &welcome, identity)).await;
    let answer = miner.hear().await;
    (miner, answer)
}

async fn accepted(line: &Line, identity: &Identity) -> RawMiner {
    let (miner, answer) = proved(line, identity).await;
    assert!(matches!(answer, Some(ValidatorMessage::Accepted(_))), "{answer:?}");
    miner
}

/// A session that ends with the miner's goodbye, on a connection that stands.
async fn session_that_ended(validator: &TestValidator, from: [u8; 4], identity: &Identity) -> Line {
    let line = Line::open(validator.address, from).await;
    let mut miner = accepted(&line, identity).await;
    miner.say(encoded(MinerMessage::Goodbye(StopCode::Draining, String::new()))).await;
    while miner.hear().await.is_some() {}
    line
}

/// A miner that proved its key once could keep a connection, and 132 of them shut the validator.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_ended_keep_no_place() {
    let validator = validator(4).await;
    let mut lines = Vec::new();
    for number in 0..MANY as u8 {
        lines.push(within(session_that_ended(&validator, CROWD, &miner(number))).await);
    }
    let line = within(Line::open(validator.address, HONEST)).await;
    within(accepted(&line, &identity())).await;
    assert!(lines.iter().filter(|line| !line.is_closed()).count() <= 128);
    drop(lines);
}

/// A hello alone took a miner's place, and a silent connection one of the 128 besides.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_take_no_miners_place() {
    let validator = validator(1).await;
    // Who is known to be in the handshake stays while others of the crowd are silent.
    let first = within(welcomed(&validator, &hello(&other()))).await;
    let mut crowd = Vec::new();
    for _ in 0..MANY {
        crowd.push(within(dial(validator.address, CROWD)).await);
    }
    // Handshakes that never end, each on a connection and stream of its own, are not sessions.
    let mut handshakes = Vec::new();
    for _ in 0..MANY {
        let line = within(Line::open(validator.address, CROWD)).await;
        let miner = within(line.miner(encoded(MinerMessage::Hello(hello(&other()))))).await;
        handshakes.push((line, miner));
    }
    let line = within(Line::open(validator.address, HONEST)).await;
    let slow = hello(&identity());
    let mut miner = within(line.miner(encoded(MinerMessage::Hello(slow.clone())))).await.expect("a stream");
    let Some(ValidatorMessage::Welcome(welcome)) = within(miner.hear()).await else { panic!("no welcome") };
    for _ in 0..MANY {
        crowd.push(within(dial(validator.address, CROWD)).await);
    }
    // Neither the handshake of this address nor that of the first was given up for them.
    miner.say(proof(&slow, &welcome, &identity())).await;
    assert!(matches!(within(miner.hear()).await, Some(ValidatorMessage::Accepted(_))));
    let (mut first, welcome) = first;
    first.say(proof(&hello(&other()), &welcome, &other())).await;
    let answer = within(first.hear()).await;
    assert!(matches!(answer, Some(ValidatorMessage::Refused { .. })), "the only place is taken by a proof: {answer:?}");
    drop((crowd, handshakes));
}
