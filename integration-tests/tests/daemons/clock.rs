//! Who controls the clock: the validator's runs before a miner sees a byte of a timed message, with any room that the
//! miner gives and any ends of its TLS records, and no ping makes a time shorter.

use std::time::{Duration, Instant};

use assay_integration_tests::dialled::Target;
use assay_integration_tests::handmade::{HandmadeMiner, Heard};
use assay_integration_tests::http2::{PING, frame};
use assay_integration_tests::validator::{Policy, Ruling, TestValidator};
use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::verdict::Mode;

const HONEST: [u8; 4] = [127, 0, 0, 1];
/// For how long a miner looks at the first bytes before it makes room for the others: below the 5 s after which it
/// counts as one that does not read.
const LOOK: Duration = Duration::from_millis(700);
/// The most by which readings of the clock differ between processes: it never goes backwards, and is the same clock.
const ROUNDING_S: f64 = 0.001;

/// The room that a miner has for the challenge: none, less than a prefix, a part of it, about all of it.
const ROOMS: [u32; 8] = [0, 1, 5, 6, 64, 128, 256, 1000];

/// One challenge of a miner that has so much room for its first bytes, and works honestly once it has all of it.
async fn challenged(validator: &TestValidator, is_tls: bool, room: u32) -> (Ruling, [Duration; 2], Option<Instant>) {
    let target = Target { address: validator.address, is_tls, from: HONEST };
    let mut seed = [u8::from(is_tls); 32];
    seed[..4].copy_from_slice(&room.to_be_bytes());
    let mut miner = HandmadeMiner::accepted(target, HONEST, seed, 14).await.expect("a session");
    validator.wait_for_miner(miner.key, true).await;
    // The one ping of this minute comes first.
    let Heard { message: ValidatorMessage::Ping(sequence), .. } = miner.hear().await.expect("a ping") else {
        panic!("a ping is due")
    };
    miner.say(MinerMessage::Pong(sequence)).await.expect("the connection stands");
    miner.keep_room(room).await.expect("the validator takes the setting");
    let running = validator.ask(miner.key, Some(Mode::Audit)).await.expect("a challenge starts");
    let mut first = miner.watch(LOOK).await.expect("the connection stands");
    // A machine that was held up sends it later; then the miner looks as long again.
    for _ in 0..4 {
        if room > 0 && first.is_none_or(|first| first.elapsed() < LOOK / 2) {
            first = miner.watch(LOOK).await.expect("the connection stands");
        }
    }
    // A miner that would make its way look long: pings of HTTP/2 of its own.
    for number in 0..20_u64 {
        miner.write(&frame(PING, 0, 0, &number.to_be_bytes())).await.expect("the connection stands");
    }
    miner.give(1 << 20).await.expect("the connection stands");
    let asked = loop {
        match miner.hear().await.expect("the validator goes on") {
            Heard { message: ValidatorMessage::Ping(sequence), .. } => {
                miner.say(MinerMessage::Pong(sequence)).await.expect("the connection stands");
            }
            asked => break asked,
        }
    };
    let times = miner.work(asked).await.expect("the validator goes on");
    (running.ruling().await.expect("a verdict"), times, first)
}

/// The validator's times are at least those from the first byte that the miner saw to the moment at which it answered.
#[tokio::test(flavor = "multi_thread")]
async fn the_clock_runs_before_the_first_byte_is_seen() {
    let validator = TestValidator::start(&Policy { ping_interval_ms: 60_000, ..Policy::default() }).await;
    for is_tls in [false, true] {
        for room in ROOMS {
            let (ruling, [work, probe], first) = challenged(&validator, is_tls, room).await;
            let whole = ruling.expect_pass().verdict.whole.expect("a pass has figures");
            println!("TLS {is_tls}, room {room}: {work:?} and {probe:?}, the validator {} s", whole.seconds);
            assert_eq!(first.is_some(), room > 0, "TLS {is_tls}: what has no room is not sent");
            // With room for a byte the miner looked at it for all that time, and the clock ran.
            assert!(work >= if room > 0 { LOOK / 2 } else { Duration::ZERO });
            assert!(whole.seconds + ROUNDING_S >= work.as_secs_f64(), "TLS {is_tls}, room {room}: {whole:?}, {work:?}");
            assert!(whole.probe_seconds + ROUNDING_S >= probe.as_secs_f64(), "TLS {is_tls}, room {room}: {whole:?}");
        }
    }
}
