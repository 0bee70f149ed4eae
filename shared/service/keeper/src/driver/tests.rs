//! A session whose task panics.

use assay_evidence::{EvidenceLocation, EvidenceStore};
use assay_judge::history::History;
use assay_judge::session::Admission;
use assay_listen::bounds::{ConnectionBounds, HELD_UP_LIMIT};
use assay_listen::gate::Gate;
use assay_listen::lag::Lag;
use assay_observe::Traces;
use assay_policy::Policy;
use assay_program::shutdown::Shutdown;
use assay_protocol::identity::Identity;
use assay_protocol::message::{Hello, Inventory, PROTOCOL_VERSIONS, SignedChecksum, Stop, StopCode};
use assay_protocol::successor::Successor;
use assay_protocol::verdict::{DeviceWork, Mode, ReasonCode, Verdict, Work};
use assay_records::ChallengeStart;
use assay_replay::pool::ReplayPool;
use assay_transport::certificate;
use assay_transport::server::ServerTls;
use assay_webhook::Webhooks;
use assay_work::{Checksum, DeviceId, Nonce, Precision, PublicKey, Signature};
use tokio::sync::Semaphore;

use super::*;
use crate::allow::AllowList;
use crate::drain::Drain;
use crate::metrics::ValidatorMetrics;
use crate::registry::Registry;
use crate::sharing::leases::MinerLeases;
use crate::sharing::presence::ValidatorPresence;
use crate::tests::begun;
use crate::validator::{Capacity, Listening, MinerAccess, Reports};
use crate::verdict_log::VerdictLog;
use crate::waiting::WaitingKeys;

/// A validator without devices, with its files in a folder.
async fn validator(folder: &std::path::Path) -> Arc<Validator> {
    let (identity, fleet, allowed) =
        (Identity::from_seed(&[1; 32]), crate::tests::fleet(folder).await, AllowList::default());
    let own = certificate::own(&identity, &[]).unwrap();
    let evidence = EvidenceLocation::Folder(folder.join("evidence"));
    let (records, (_, shutdown)) = (fleet.records.clone(), Shutdown::by_hand());
    let log = VerdictLog::new(records.clone(), folder.join("log"), identity.clone(), Vec::new());
    let admission = Admission {
        identity,
        access: Arc::new(allowed.clone()),
        ping_interval: std::time::Duration::from_secs(5),
        history: Arc::<History>::default(),
    };
    Arc::new(Validator {
        access: MinerAccess {
            admission: Arc::new(admission),
            allowed,
            waiting: WaitingKeys::default(),
            following: tokio::sync::Mutex::new(()),
        },
        policies: watch::Sender::new(Arc::new(Policy::default())),
        listening: Listening {
            tls: ServerTls::new(own, None).unwrap(),
            gate: Arc::new(Gate::new(&ConnectionBounds::default(), clock::now())),
            lag: Arc::new(Lag::new(clock::now())),
        },
        registry: Registry::default(),
        leases: MinerLeases::alone(),
        capacity: Capacity {
            replays: ReplayPool::new(None, None),
            challenges: Arc::new(Semaphore::new(1)),
            rounds: Arc::new(Semaphore::new(1)),
            disputes: Semaphore::new(1),
            checks: Semaphore::new(1),
        },
        evidence: EvidenceStore::open(&evidence, &folder.join("outbox")).unwrap(),
        reports: Reports {
            metrics: ValidatorMetrics::new().unwrap(),
            traces: Traces::off(),
            webhooks: Webhooks::new(records.clone(), "run".to_owned()),
            log: Arc::new(log),
        },
        drain: Drain::new(shutdown.clone()),
        shutdown,
        records,
        fleet,
        instance: "run".to_owned(),
    })
}

fn driver(validator: &Arc<Validator>, commands: mpsc::Sender<SessionCommand>) -> Driver {
    Driver {
        session: ValidatorSession::new(validator.access.admission.clone(), Channel::Plaintext, clock::now()),
        validator: validator.clone(),
        number: validator.registry.session_number(),
        peer: None,
        outgoing: mpsc::channel(1).0,
        commands,
        replayed: mpsc::channel(1).0,
        entropy: EntropySource::Os,
        device_changes: Bucket::full(DEVICE_CHANGES, clock::now()),
        host: HostState::default(),
        due: ChallengeTimer::default(),
        running: ChallengeState::default(),
        end: EndState::default(),
    }
}

fn hello(miner_key: PublicKey, successors: Vec<Successor>) -> Hello {
    Hello {
        versions: PROTOCOL_VERSIONS.to_vec(),
        miner_key,
        miner_nonce: Nonce([3; 32]),
        agent: "test".to_owned(),
        inventory: Inventory::default(),
        successors,
        resumes: None,
    }
}

/// A challenge that has begun now, of a miner that committed to its work.
fn ongoing(id: ChallengeId) -> OngoingChallenge {
    let (mode, precision, now) = (Mode::Audit, Precision::Int8, clock::now());
    let facts =
        ChallengeFacts { id, nonce: Nonce([4; 32]), mode, precision, n: 256, iterations: 1, devices: 1, slots: 4 };
    let signed = CommitmentRecord {
        checksum: String::new(),
        signature: String::new(),
        probe_checksum: None,
        probe_signature: None,
    };
    OngoingChallenge {
        facts: Some(facts),
        began: now,
        probe_began: Some(now),
        delays: ValidatorDelays::default(),
        has_given_up: false,
        stages: ChallengePhases::begin(None),
        began_ms: 1,
        order: Order::manual(Arc::default()),
        models: BTreeMap::new(),
        is_known: false,
        signed: Some(signed),
        shown: Vec::new(),
    }
}

/// Regression test: a miner that did not like a kind declined it by another code than busy, and was asked for the next
/// one; one that gave up while the validator was held up was excused.
#[tokio::test]
async fn a_miner_that_gives_up_gains_nothing_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let validator = validator(folder.path()).await;
    let (key, id) = (Identity::from_seed(&[2; 32]).public_key(), ChallengeId([7; 16]));
    let mut driver = driver(&validator, mpsc::channel(1).0);
    driver.established(hello(key, Vec::new()), None).await.unwrap();
    driver.running.challenge = Some(ongoing(id));
    // No beat of the runtime is measured here.
    tokio::time::sleep(3 * HELD_UP_LIMIT).await;
    let reasons = vec![Reason::new(ReasonCode::StaleInventory, "")];
    let verdict = Box::new(Verdict::without_work(id, key, key, reasons, 1));
    let next = || validator.access.admission.history.next_kind(key, [Precision::Int8, Precision::Fp8]);
    let stop = |challenge_id| Stop { challenge_id, code: StopCode::StaleInventory, detail: String::new() };
    driver.note_signed(&MinerMessage::Abort(stop(ChallengeId([8; 16]))));
    assert!(driver.held_up(&verdict).at_the_end.is_some(), "another challenge's");
    driver.note_signed(&MinerMessage::Abort(stop(id)));
    assert!(driver.held_up(&verdict).at_the_end.is_none() && driver.held_up(&verdict).for_long.is_some());
    driver.draft(verdict.clone());
    assert_eq!(next(), Some(Precision::Int8));
    driver.running.challenge = Some(ongoing(id));
    driver.note_signed(&MinerMessage::Declined(stop(id)));
    driver.draft(verdict.clone());
    assert_eq!(next(), Some(Precision::Int8));
    driver.running.challenge = Some(ongoing(id));
    let left = vec![Reason::new(ReasonCode::Disconnected, "")];
    driver.draft(Box::new(Verdict::without_work(id, key, key, left, 1)));
    assert_eq!(next(), Some(Precision::Int8));
    driver.running.challenge = Some(OngoingChallenge { facts: None, ..ongoing(id) });
    let small = vec![Reason::new(ReasonCode::NotEnoughMemory, "")];
    driver.draft(Box::new(Verdict::without_work(id, key, key, small, 1)));
    assert_eq!(next(), Some(Precision::Int8), "the session has noted the kind of one that was not made");
    driver.running.challenge = Some(ongoing(id));
    driver.draft(verdict);
    assert_eq!(next(), Some(Precision::Fp8), "the validator ended it");
}

/// Regression test: a miner held a later answer back until the validator was held up, which excused its first one.
#[tokio::test]
async fn a_delay_after_the_first_probe_does_not_excuse_it() {
    let folder = tempfile::tempdir().unwrap();
    let validator = validator(folder.path()).await;
    let mut driver = driver(&validator, mpsc::channel(1).0);
    let challenge_id = ChallengeId([7; 16]);
    driver.running.challenge = Some(ongoing(challenge_id));
    let (checksum, signature) = (Checksum([1; 32]), Signature([1; 64]));
    let answer = SignedChecksum { challenge_id, checksum, signature, claimed: HELD_UP_LIMIT };
    driver.note_signed(&MinerMessage::ProbeAnswer(answer.clone()));
    tokio::time::sleep(3 * HELD_UP_LIMIT).await;
    driver.note_signed(&MinerMessage::ProbeAnswer(answer));
    let device = |seconds, probe_seconds| DeviceWork {
        device_id: DeviceId([1; 16]),
        name: String::new(),
        work: Work { probe_seconds, seconds, ..Work::default() },
        claimed_telemetry: None,
        hiding: None,
        rates: Vec::new(),
        sweep: None,
    };
    let (long, key) = (3.0 * HELD_UP_LIMIT.as_secs_f64(), PublicKey([1; 32]));
    let mut verdict = Verdict::without_work(challenge_id, key, key, Vec::new(), 1);
    (verdict.whole.seconds, verdict.whole.probe_seconds) = (2.0 * long, 2.0 * long);
    verdict.devices = vec![device(0.001, long), device(long, 0.001), device(2.0 * long, 2.0 * long)];
    let delays = driver.held_up(&verdict);
    assert!(delays.timed.is_none() && delays.linked.is_some(), "{delays:?}");
    let until_done: Vec<_> = delays.devices.iter().map(|(_, until_done)| until_done.map(|it| it.is_some())).collect();
    assert_eq!(until_done, [[false, true], [true, false]], "of devices that were done before the host");
}

/// Regression test: each key had sessions of its own to begin, so a miner of several was always connected and never
/// challenged.
#[tokio::test]
async fn a_miner_that_takes_turns_with_its_keys_connects_as_often_as_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let validator = validator(folder.path()).await;
    let root = Identity::from_seed(&[2; 32]);
    let until = unix_seconds() + 1000;
    let keys = [3, 4, 5].map(|seed| Identity::from_seed(&[seed; 32]).public_key());
    let mut entered = 0;
    for key in keys.iter().cycle().take(60) {
        let mut driver = driver(&validator, mpsc::channel(1).0);
        entered += usize::from(driver.established(hello(*key, vec![root.succeed(*key, until)]), None).await.is_ok());
    }
    assert!((1..30).contains(&entered), "{entered}");
    // Regression test: a key that was refused took the place of its miner's newer one.
    for _ in 0..40 {
        let _ = validator.listening.gate.begin_session(PublicKey([9; 32]), clock::now());
    }
    assert!(validator.listening.gate.take_seat(PublicKey([9; 32]), clock::now()).is_ok());
}

/// Regression test: the seat stayed taken until the validator restarted, and the records had the session and its challenge
/// as open.
#[tokio::test]
async fn a_session_that_panics_leaves_its_seat() {
    let folder = tempfile::tempdir().unwrap();
    let validator = validator(folder.path()).await;
    let miner_key = Identity::from_seed(&[2; 32]).public_key();
    let hello = hello(miner_key, Vec::new());
    let mut driver = driver(&validator, mpsc::channel(1).0);
    let message = IncomingMessage { message: Ok(MinerMessage::Hello(hello.clone())), at: clock::now() };
    assert!(!driver.incoming(Some(Box::new(message))).is_empty());
    let replay = driver.running.replay.clone();
    driver.established(hello, None).await.unwrap();
    assert_eq!(validator.registry.miners().len(), 1);
    let records = &validator.records;
    let own = validator.access.admission.identity.public_key();
    let presence = ValidatorPresence::enter(records.clone(), own, validator.instance.clone(), String::new());
    let presence = presence.await.unwrap();
    for (challenge, session) in
        ["aa", "bb"].map(|id| id.repeat(16)).into_iter().zip([driver.session_id(), String::new()])
    {
        let instance = validator.instance.clone();
        let begun = ChallengeStart { challenge, session, instance, ..begun(Nonce([3; 32]), miner_key, own) };
        records.begin_challenge(&begun).await.unwrap();
    }
    let panicking = async move {
        let _driver = driver;
        panic!("a session's task");
    };
    assert!(tokio::spawn(panicking).await.is_err_and(|error| error.is_panic()));
    assert!(validator.registry.miners().is_empty() && replay.is_cancelled());
    presence.conclude_lost(&|verdict| panic!("{verdict:?}")).await.unwrap();
    validator.registry.unrecorded.record(records).await.unwrap();
    let told = std::sync::Mutex::new(Vec::new());
    presence.conclude_lost(&|verdict| told.lock().unwrap().push(verdict.challenge_id.to_string())).await.unwrap();
    assert_eq!(*told.lock().unwrap(), ["aa".repeat(16)]);
    let sessions = records.sessions(&miner_key.to_string(), 9).await.unwrap();
    assert_eq!(sessions.len(), 1);
    assert!(sessions[0].why.as_deref().is_some_and(|why| why.contains("internal error")));
}
