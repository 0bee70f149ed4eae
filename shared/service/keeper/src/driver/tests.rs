//! A session whose task panics.

use assay_evidence::{EvidenceLocation, EvidenceStore};
use assay_judge::history::History;
use assay_judge::session::Admission;
use assay_listen::bounds::ConnectionBounds;
use assay_listen::gate::Gate;
use assay_listen::lag::Lag;
use assay_observe::Traces;
use assay_policy::Policy;
use assay_program::shutdown::Shutdown;
use assay_protocol::identity::Identity;
use assay_protocol::message::{Hello, Inventory, PROTOCOL_VERSIONS};
use assay_records::ChallengeStart;
use assay_replay::pool::ReplayPool;
use assay_transport::certificate;
use assay_transport::server::ServerTls;
use assay_webhook::Webhooks;
use assay_work::Nonce;
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

/// Regression test: the seat stayed taken until the validator restarted, and the records had the session and its challenge
/// as open.
#[tokio::test]
async fn a_session_that_panics_leaves_its_seat() {
    let folder = tempfile::tempdir().unwrap();
    let validator = validator(folder.path()).await;
    let miner_key = Identity::from_seed(&[2; 32]).public_key();
    let hello = Hello {
        versions: PROTOCOL_VERSIONS.to_vec(),
        miner_key,
        miner_nonce: Nonce([3; 32]),
        agent: "test".to_owned(),
        inventory: Inventory::default(),
        successors: Vec::new(),
        resumes: None,
    };
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
