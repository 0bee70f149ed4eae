//! Messages before and beside the work, and the validator's reactions.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_api::ProblemCode;
use assay_integration_tests::dishonest::WorkLie;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::raw::{RawMiner, encoded, hello, proof, proved, welcomed};
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_listen::bounds::MIN_ADDRESS_MINERS;
use assay_protocol::identity::Identity;
use assay_protocol::message::{DeviceClaim, Hello, MinerMessage, RefusedCode, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_protocol::wire::v1::{self, SessionRequest, session_request};
use assay_work::{DeviceId, Precision};
use prost::Message;

pub fn identity() -> Identity {
    Identity::from_seed(&[0x31; 32])
}

/// Sends this first, and gives the validator's refusal.
async fn refused(validator: &TestValidator, first: Vec<u8>) -> (RefusedCode, String) {
    let mut miner = RawMiner::open(validator.address, first).await.unwrap();
    let answer = miner.hear().await;
    assert_eq!(miner.hear().await, None, "the stream ends with a refusal");
    match answer {
        Some(ValidatorMessage::Refused { code, detail, .. }) => (code, detail),
        other => panic!("no refusal but {other:?}"),
    }
}

/// The whole handshake.
async fn accepted(validator: &TestValidator) -> RawMiner {
    accepted_as(validator, &identity()).await
}

async fn accepted_as(validator: &TestValidator, identity: &Identity) -> RawMiner {
    let hello = hello(identity);
    let (mut miner, welcome) = welcomed(validator, &hello).await;
    miner.say(proof(&hello, &welcome, identity)).await;
    assert!(matches!(miner.hear().await, Some(ValidatorMessage::Accepted(_))));
    miner
}

/// The goodbye that a connected miner gets; pings may come before it.
pub async fn goodbye(mut miner: RawMiner) -> StopCode {
    loop {
        match miner.hear().await {
            Some(ValidatorMessage::Goodbye(code, _)) => return code,
            Some(ValidatorMessage::Ping(_)) => {}
            other => panic!("no goodbye but {other:?}"),
        }
    }
}

/// A hello of one device as no conversion would write it.
fn hello_of(device: DeviceClaim, change: impl FnOnce(&mut v1::Device)) -> Vec<u8> {
    let mut hello = hello(&identity());
    hello.inventory.devices = vec![device];
    let mut request = SessionRequest::from(MinerMessage::Hello(hello));
    if let Some(session_request::Message::Hello(hello)) = &mut request.message {
        change(&mut hello.inventory.as_mut().unwrap().devices[0]);
    }
    request.encode_to_vec()
}

/// A hello that passes every check but that of its size: an unknown field fills it up.
fn padded_hello(bytes: usize) -> Vec<u8> {
    let mut hello = encoded(MinerMessage::Hello(hello(&identity())));
    prost::encoding::bytes::encode(1000, &vec![0; bytes], &mut hello);
    hello
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_version() {
    let validator = TestValidator::start(&Policy::default()).await;
    let hello = Hello { versions: vec![7, 9], ..hello(&identity()) };
    let (code, detail) = refused(&validator, encoded(MinerMessage::Hello(hello))).await;
    assert_eq!(code, RefusedCode::Version);
    assert!(detail.contains("[2]") && detail.contains("[7, 9]"), "it names what is spoken: {detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_before_hello() {
    let validator = TestValidator::start(&Policy::default()).await;
    let device = |id: u16, free_bytes| DeviceClaim {
        id: DeviceId(std::array::from_fn(|i| if i < 2 { id.to_be_bytes()[i] } else { 0 })),
        name: "a device".into(),
        backend: "test".into(),
        detail: String::new(),
        total_bytes: 1 << 20,
        free_bytes,
        slots: [0; 8],
        precisions: vec![Precision::Int8],
        claimed_hardware: None,
    };
    let with = |devices| {
        let mut hello = hello(&identity());
        hello.inventory.devices = devices;
        encoded(MinerMessage::Hello(hello))
    };
    let cases = [
        ("bytes of no message", vec![0xff; 64]),
        ("an empty message", Vec::new()),
        ("half a hello", encoded(MinerMessage::Hello(hello(&identity())))[..40].to_vec()),
        ("a message beyond the limit", vec![0; 5 << 20]),
        ("a hello beyond what strangers may send", padded_hello(65 << 10)),
        ("a pong", encoded(MinerMessage::Pong(1))),
        ("a proof", encoded(MinerMessage::Proof(identity().sign(b""), None))),
        ("more free memory than there is", hello_of(device(1, 0), |device| device.free_bytes = device.total_bytes + 1)),
        ("more slots than free memory", hello_of(device(1, 3 << 16), |device| device.slots[0] = 4)),
        ("more devices than a host has", with((0..65).map(|id| device(id, 0)).collect())),
        ("a device twice", with(vec![device(1, 0), device(1, 0)])),
    ];
    for (what, bytes) in cases {
        let (code, detail) = refused(&validator, bytes).await;
        assert_eq!(code, RefusedCode::Malformed, "{what}: {detail}");
    }
    accepted(&validator).await;
}

/// Bytes that are not HTTP at all; their sender learns nothing, and the next miner is served.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_other_bytes() {
    let validator = TestValidator::start(&Policy::default()).await;
    for bytes in [&b"GET / HTTP/1.1\r\nHost: validator\r\n\r\n"[..], &[0; 4096], &[0xff; 100_000]] {
        let mut stream = TcpStream::connect(validator.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // The other side may close before it has read all.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 200, "{} bytes come back", answer.len());
    }
    accepted(&validator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_by_another_key() {
    let validator = TestValidator::start(&Policy::default()).await;
    let hello = hello(&identity());
    let (mut miner, welcome) = welcomed(&validator, &hello).await;
    assert_eq!(welcome.validator_key, validator.key);
    miner.say(proof(&hello, &welcome, &Identity::from_seed(&[0x32; 32]))).await;
    assert!(matches!(miner.hear().await, Some(ValidatorMessage::Refused { code: RefusedCode::Signature, .. })));
    // The proof of another session holds for that one only.
    let (_, other) = welcomed(&validator, &hello).await;
    let (mut miner, _) = welcomed(&validator, &hello).await;
    miner.say(proof(&hello, &other, &identity())).await;
    assert!(matches!(miner.hear().await, Some(ValidatorMessage::Refused { code: RefusedCode::Signature, .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn something_else_where_a_proof_is_due() {
    let validator = TestValidator::start(&Policy::default()).await;
    let hello = hello(&identity());
    let (mut miner, _) = welcomed(&validator, &hello).await;
    miner.say(encoded(MinerMessage::Hello(hello))).await;
    assert!(matches!(miner.hear().await, Some(ValidatorMessage::Refused { code: RefusedCode::Malformed, .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_on_the_list() {
    let flags = vec![format!("--allowed-miners={}", identity().public_key())];
    let validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let stranger = Identity::from_seed(&[0x32; 32]);
    let answer = proved(&validator, &hello(&stranger), &stranger).await;
    assert!(matches!(answer, ValidatorMessage::Refused { code: RefusedCode::NotAllowed, .. }), "{answer:?}");
    accepted(&validator).await;
}

/// A place is taken by a proof, not by a handshake.
#[tokio::test(flavor = "multi_thread")]
async fn more_miners_than_the_validator_takes() {
    let flags = vec!["--max-miners=1".to_owned()];
    let validator = TestValidator::start(&Policy { flags, ..Policy::default() }).await;
    let other = hello(&Identity::from_seed(&[0x32; 32]));
    let (mut slow, welcome) = welcomed(&validator, &other).await;
    let first = accepted(&validator).await;
    slow.say(proof(&other, &welcome, &Identity::from_seed(&[0x32; 32]))).await;
    assert!(matches!(slow.hear().await, Some(ValidatorMessage::Refused { code: RefusedCode::Full, .. })));
    // The miner that is there takes over from itself.
    let again = accepted(&validator).await;
    assert_eq!(goodbye(first).await, StopCode::Busy);
    drop(again);
    validator.wait_for_miner(identity().public_key(), false).await;
    accepted(&validator).await;
}

/// Regression test: new keys behind the same address kept an attested miner from coming back.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_full_lets_its_attested_miner_in() {
    let (flags, ping_interval_ms) = (vec!["--max-miners=64".to_owned()], 60_000);
    let validator = TestValidator::start(&Policy { flags, ping_interval_ms, ..Policy::default() }).await;
    let mut miner = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, None).await.unwrap().expect_pass();
    miner.daemon.terminate();
    miner.daemon.wait();
    validator.wait_for_miner(miner.key, false).await;
    let mut neighbours = Vec::new();
    for seed in 0..MIN_ADDRESS_MINERS as u8 {
        neighbours.push(accepted_as(&validator, &Identity::from_seed(&[seed; 32])).await);
    }
    let one_more = Identity::from_seed(&[99; 32]);
    let answer = proved(&validator, &hello(&one_more), &one_more).await;
    assert!(matches!(answer, ValidatorMessage::Refused { code: RefusedCode::Full, .. }), "{answer:?}");
    miner.restart();
    validator.wait_for_miner(miner.key, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_a_session() {
    let validator = TestValidator::start(&Policy::default()).await;
    let inventory = hello(&identity()).inventory;
    let cases = [
        ("bytes of no message", vec![0xff; 64]),
        ("a message beyond the limit", vec![0; 5 << 20]),
        ("a hello beyond what strangers may send", padded_hello(65 << 10)),
        ("a second hello", encoded(MinerMessage::Hello(hello(&identity())))),
        ("a pong to no ping", encoded(MinerMessage::Pong(77))),
        ("an inventory out of sequence", encoded(MinerMessage::Inventory(inventory))),
    ];
    for (what, bytes) in cases {
        let miner = accepted(&validator).await;
        miner.say(bytes).await;
        assert_eq!(goodbye(miner).await, StopCode::Invalid, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_broken_in_a_challenge() {
    let stage = Stage::with_one_device().await;
    stage.challenge(Mode::Audit).await.expect_pass();
    stage.miner.lies.in_work(WorkLie::Slow(Duration::from_secs(60)));
    let breaks = async {
        while !stage.validator.miners().await.iter().any(|miner| miner.challenged_now) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stage.miner.vanish();
    };
    let (ruling, ()) = tokio::join!(stage.challenge(Mode::Audit), breaks);
    ruling.expect(ReasonCode::Disconnected);
    stage.validator.wait_for_miner(stage.miner.key, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_challenge_at_a_time() {
    let stage = Stage::with_one_device().await;
    stage.miner.lies.in_work(WorkLie::Slow(Duration::from_secs(10)));
    let second = async {
        while !stage.validator.miners().await.iter().any(|miner| miner.challenged_now) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stage.validator.challenge(stage.miner.key, None).await.unwrap_err()
    };
    let (ruling, refused) = tokio::join!(stage.challenge(Mode::Audit), second);
    ruling.expect_pass();
    assert_eq!(refused.code(), Some(ProblemCode::Busy), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_unanswered() {
    let stage = Stage::new(&Policy { ping_interval_ms: 2000, ..Policy::default() }, &[14]).await;
    stage.challenge(Mode::Audit).await.expect_pass();
    stage.miner.lies.in_work(WorkLie::Slow(Duration::from_secs(60)));
    stage.miner.lies.in_what_goes_out(|message| match message {
        MinerMessage::Pong(_) => Vec::new(),
        other => vec![other],
    });
    stage.challenge(Mode::Audit).await.expect(ReasonCode::PeerSilent);
    stage.validator.wait_for_miner(stage.miner.key, false).await;
}

/// A challenge under way is brought to its end; then the miner says goodbye.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_drains_in_a_challenge() {
    let mut stage = Stage::with_one_device().await;
    stage.miner.lies.in_work(WorkLie::Slow(Duration::from_millis(500)));
    // The validator counts a challenge from before its offer goes out.
    let has_offer = Arc::new(AtomicBool::new(false));
    stage.miner.lies.in_what_comes_in({
        let has_offer = has_offer.clone();
        move |message| {
            has_offer.fetch_or(matches!(message, ValidatorMessage::Challenge(_)), Ordering::SeqCst);
            message
        }
    });
    let drains = async {
        while !has_offer.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Messages that came are taken before the drain.
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage.miner.drain();
    };
    let (ruling, ()) = tokio::join!(stage.challenge(Mode::Replay), drains);
    ruling.expect_pass();
    assert_eq!(stage.miner.ended().await, Ok(assay_miner::session::CloseReason::Drained));
    stage.validator.wait_for_miner(stage.miner.key, false).await;
}

/// A miner that knew the next ping could answer it ahead, and look nearer than it is.
#[tokio::test(flavor = "multi_thread")]
async fn pings_cannot_be_foreseen() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut miner = accepted(&validator).await;
    let mut sequences = Vec::new();
    while sequences.len() < 4 {
        if let ValidatorMessage::Ping(sequence) = miner.hear().await.expect("the session goes on") {
            miner.say(encoded(MinerMessage::Pong(sequence))).await;
            sequences.push(sequence);
        }
    }
    // Each is below 2^32 with a probability of 2^-32.
    assert!(sequences.iter().all(|sequence| *sequence > 1 << 32), "{sequences:?}");
    assert!(sequences.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1 << 16), "{sequences:?}");
}

/// A miner that does not read has not been asked: it is not late, and it does not choose when its clock starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_shut() {
    let validator = TestValidator::start(&Policy { ping_interval_ms: 60_000, ..Policy::default() }).await;
    let mut hello = hello(&identity());
    hello.inventory.devices = vec![DeviceClaim {
        id: DeviceId([1; 16]),
        name: "a device".into(),
        backend: "test".into(),
        detail: String::new(),
        total_bytes: 1 << 20,
        free_bytes: 1 << 20,
        slots: [16, 4, 1, 0, 0, 0, 0, 0],
        precisions: vec![Precision::Int8],
        claimed_hardware: None,
    }];
    // Room for a ping, and for half of a challenge.
    let first = encoded(MinerMessage::Hello(hello.clone()));
    let mut miner = RawMiner::open_with_window(validator.address, first, Some(64)).await.unwrap();
    let Some(ValidatorMessage::Welcome(welcome)) = miner.hear().await else { panic!("no welcome") };
    miner.say(proof(&hello, &welcome, &identity())).await;
    assert!(matches!(miner.hear().await, Some(ValidatorMessage::Accepted(_))));
    validator.wait_for_miner(hello.miner_key, true).await;
    let ruling = validator.challenge(hello.miner_key, Some(Mode::Audit)).await.unwrap();
    ruling.expect(ReasonCode::NotReading);
    validator.wait_for_miner(hello.miner_key, false).await;
}
/// The memory of an empty entry is over a hundred times its size on the wire.
#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_of_empty_devices() {
    // Encoded before the session begins, which is not to wait for it.
    let devices = vec![v1::Device::default(); (4 << 20) / 2 - 10];
    let inventory = v1::Inventory { sequence: 1, devices, max_link: 0, sweeps: false };
    let message = SessionRequest { message: Some(session_request::Message::Inventory(inventory)) }.encode_to_vec();
    assert!((4 << 20) - 32 < message.len() && message.len() <= 4 << 20);
    let validator = TestValidator::start(&Policy::default()).await;
    let miner = accepted(&validator).await;
    let before = validator.daemon.peak_bytes();
    miner.say(message).await;
    assert_eq!(goodbye(miner).await, StopCode::Invalid);
    let grown = validator.daemon.peak_bytes().saturating_sub(before);
    println!("the peak of the validator's memory grew by {} MiB", grown >> 20);
    assert!(grown < 32 << 20, "{grown} bytes for a message of 4 MiB");
}
