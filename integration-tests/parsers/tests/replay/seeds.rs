//! Valid inputs of the targets, from the vectors and from an honest miner of a small challenge.

use std::fs;
use std::path::Path;
use std::time::Duration;

use assay_device::backend::{BackendKind, StartupProgress};
use assay_device::{DeviceError, ProbeRounds, SlotRange};
use assay_judge::case::entry::{CaseEntry, RunEvent};
use assay_judge::case::file::{MARK, encode};
use assay_parsers::honest::{self, Opened};
use assay_policy::Policy;
use assay_protocol::identity::Identity;
use assay_protocol::message::{
    Hello, MinerMessage, OpenItem, OpenTarget, OpeningsPart, RefusedCode, StopCode, ValidatorMessage, Welcome,
};
use assay_protocol::successor::encode_all;
use assay_protocol::wire::stored::{miner_bytes, validator_bytes};
use assay_receipts::{STATE_PASSING, Signer, Subject};
use assay_transport::certificate::own;
use assay_work::{ChallengeId, DeviceId, Nonce, PassSample, Precision, ProbeKey, PublicKey, Signature};
use assay_worker::frame;
use assay_worker::message::{FromWorker, Reply, Request, ToWorker};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// The largest seed.
const MAX_SEED_BYTES: usize = 48 << 10;

/// The seeds of a target.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    let mut seeds = match target {
        "case" => cases(),
        "case_entries" => honest::entries().into_iter().map(|entry| encode(entry, ChallengeId([1; 16]))).collect(),
        "certificate" => vec![certificate(0), certificate(2)],
        "challenge_json" => objects(&["shares"]),
        "evidence_json" => objects(&["devices", "checksum"]),
        "miner_messages" => miner().into_iter().map(miner_bytes).collect(),
        "object" => vec![zstd(&honest::case()), zstd(b"")],
        "opening_edits" => edits(),
        "openings" => Precision::ALL.into_iter().enumerate().map(|(kind, _)| stream(kind)).collect(),
        "pass_openings" => objects(&["iteration", "slot_digests"]),
        "policy_file" => policies(),
        "probe_file" => objects(&["probe", "drawn"]),
        "receipt" => receipt(),
        "settings_file" => vec![file("../../packaging/etc/validator.toml"), file("../../packaging/etc/miner.toml")],
        "run" => edits().into_iter().map(|edit| edit[1..].to_vec()).collect(),
        "session_stream" => vec![session_stream()],
        "successors" => vec![encode_all(&successors(3)), successors(1)[0].to_hex().into()],
        "sweep_file" => objects(&["sweep", "drawn"]),
        "validator_messages" => validator().into_iter().map(validator_bytes).collect(),
        "worker_replies" => frames(&replies()),
        "worker_requests" => frames(&requests()),
        _ => texts(target).iter().map(|text| text.as_bytes().to_vec()).collect(),
    };
    seeds.retain(|seed| seed.len() <= MAX_SEED_BYTES);
    assert!(!seeds.is_empty(), "{target} has no seed");
    seeds
}

fn texts(target: &str) -> &'static [&'static str] {
    match target {
        "api_documents" => &[
            r#"{"miner":"abcd","precision":1,"n":256,"eat_nonce":"AAECAwQFBgcICQ"}"#,
            r#"{"labels":{"rack":"7"},"expires_s":60}"#,
            r#"{"status":"pending","limit":3,"cursor":"WzEsIngiXQ"}"#,
            r#""WzEsIngiXQ""#,
            r#"{"found":"device","device_id":"00","at":[],"events":[]}"#,
        ],
        "proxy_answer" => {
            &["HTTP/1.1 200 OK\r\nVia: p\r\n\r\nrest", "HTTP/1.1 407 x\r\n\r\n", "HTTP/1.0 403 \u{1b}\r\n\r\n"]
        }
        "receipt_keys" => &[concat!(
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","#,
            r#""kid":"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k","alg":"EdDSA","use":"sig","exp":1900000000},7]}"#
        )],
        "texts" => &[
            "assay://[2001:db8::1]:7400#8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c",
            "http://a:1",
            "30d",
            "1h 30m",
            "2GiB",
            "abcd",
            "rack=7,pool=a",
            "AAECAwQFBgcICQ",
            "s3://bucket/evidence",
            "000000000000000000000000000000aa",
            "\"a\\b\u{301}\u{202e}",
        ],
        "tls_hello" => &["\u{16}\u{3}\u{1}\0\u{5}\u{1}\0\0\u{1}\u{3}"],
        _ => &[],
    }
}

/// The case of an honest miner, and the same with draws and times that are not of its challenge.
fn cases() -> Vec<Vec<u8>> {
    let changed = |change: &dyn Fn(&mut CaseEntry)| {
        let mut entries = honest::entries();
        entries.iter_mut().for_each(change);
        let entries = entries.into_iter().flat_map(|entry| encode(entry, ChallengeId([1; 16])));
        MARK.into_iter().chain(entries).collect::<Vec<u8>>()
    };
    let items = |change: &dyn Fn(&mut OpenItem)| {
        changed(&|entry| {
            if let CaseEntry::Open(items, _) = entry {
                items.iter_mut().for_each(change)
            }
        })
    };
    let policy = |change: &dyn Fn(&mut Policy)| {
        changed(&|entry| {
            if let CaseEntry::Header(header) = entry {
                change(&mut header.policy)
            }
        })
    };
    let long = Duration::from_secs(i64::MAX as u64);
    let ticks = changed(&|entry| match entry {
        CaseEntry::Header(header) => header.policy.commit_deadline = long,
        CaseEntry::Event(event) => *event = RunEvent::Tick(1),
        _ => {}
    });
    vec![
        honest::case(),
        ticks,
        items(&|item| item.device_id = DeviceId([7; 16])),
        items(&|item| {
            if let OpenTarget::Segments(drawn) = &mut item.what {
                drawn[0].walk = 1 << 20
            }
        }),
        items(&|item| {
            if let OpenTarget::Samples { iteration, .. } = &mut item.what {
                *iteration = 7
            }
        }),
        items(&|item| {
            if let OpenTarget::Samples { samples, .. } = &mut item.what {
                samples[0] = PassSample::Product { slot: 99, row: 0, column: 0, inner: 0 };
            }
        }),
        policy(&|policy| policy.openings.deadline = long),
        policy(&|policy| (policy.commit_deadline, policy.probe.deadline, policy.openings.limit) = (long, long, long)),
        policy(&|policy| policy.openings.least_rate_per_s = 0),
        policy(&|policy| policy.hiding.rate_factor = f64::NAN),
    ]
}

fn miner() -> Vec<MinerMessage> {
    let hello = Hello {
        versions: vec![2],
        miner_key: honest::miner().public_key(),
        miner_nonce: Nonce([3; 32]),
        agent: "assay-miner 0.1.0".into(),
        inventory: honest::inventory(Precision::Fp8),
        successors: successors(2),
        resumes: Some(Nonce([4; 32])),
    };
    let goodbye = MinerMessage::Goodbye(StopCode::Draining, "until tomorrow".into());
    let proof = MinerMessage::Proof(Signature([1; 64]), Some("assay-join-0123".parse().unwrap()));
    [MinerMessage::Hello(hello), proof, goodbye, MinerMessage::Pong(7)].into_iter().chain(honest::messages()).collect()
}

fn validator() -> Vec<ValidatorMessage> {
    let challenge_id = ChallengeId([1; 16]);
    let stored = honest::entries().into_iter().filter_map(|entry| match entry {
        CaseEntry::Offer(offer) => Some(ValidatorMessage::Challenge(offer)),
        CaseEntry::Probe(probe) => Some(ValidatorMessage::asking(challenge_id, probe, Duration::from_secs(1))),
        CaseEntry::Open(items, _) => {
            Some(ValidatorMessage::Open { challenge_id, items, deadline: Duration::from_secs(1) })
        }
        CaseEntry::Verdict(json) => Some(ValidatorMessage::Verdict(serde_json::from_slice(&json).unwrap())),
        _ => None,
    });
    let welcome = Welcome {
        version: 2,
        validator_key: PublicKey([4; 32]),
        nonce: Nonce([5; 32]),
        signature: Signature([6; 64]),
        agent: "assay-validator 0.1.0".into(),
        successors: successors(1),
    };
    let retry_after = Some(Duration::from_secs(30));
    let refused = ValidatorMessage::Refused { code: RefusedCode::Full, detail: "full".into(), retry_after };
    [ValidatorMessage::Welcome(welcome), refused, ValidatorMessage::Ping(1)].into_iter().chain(stored).collect()
}

/// Statements that lead in a chain to the last key.
fn successors(count: u8) -> Vec<assay_protocol::successor::Successor> {
    let key = |number: u8| Identity::from_seed(&[number; 32]);
    (0..count).map(|number| key(number).succeed(key(number + 1).public_key(), honest::NOW_S)).collect()
}

fn certificate(statements: u8) -> Vec<u8> {
    let own = own(&honest::miner(), &successors(statements)).unwrap();
    own.cert[0].to_vec()
}

/// A session's first messages behind the byte of its pieces.
fn session_stream() -> Vec<u8> {
    let messages = miner().into_iter().take(4).map(miner_bytes);
    let framed = messages.flat_map(|bytes| [&[0][..], &(bytes.len() as u32).to_be_bytes(), &bytes].concat());
    [7].into_iter().chain(framed).collect()
}

/// The honest openings of a kind of work, whole messages up to the largest seed.
fn stream(kind: usize) -> Vec<u8> {
    let mut seed = vec![kind as u8];
    for chunk in Opened::new(Precision::ALL[kind]).chunks {
        let bytes = miner_bytes(MinerMessage::OpeningsChunk(chunk));
        if seed.len() + 2 + bytes.len() > MAX_SEED_BYTES {
            break;
        }
        seed.extend((bytes.len() as u16).to_le_bytes());
        seed.extend(bytes);
    }
    seed
}

/// Edits of each chunk's bytes, and of the order.
fn edits() -> Vec<Vec<u8>> {
    let chunks = Opened::new(Precision::Int8).chunks;
    let bend = (0..chunks.len() as u8).map(|at| vec![0, at, 0, 40, 0, 1]);
    let order = (1..6).map(|operation| vec![0, 1, operation, 3, 0, 2]);
    let is_sample = |chunk: &assay_protocol::message::OpeningsChunk| matches!(chunk.part, OpeningsPart::Sample(_));
    assert!(chunks.iter().any(is_sample));
    bend.chain(order).chain((0..6).map(|kind| vec![kind])).collect()
}

fn frames<M: serde::Serialize>(messages: &[M]) -> Vec<Vec<u8>> {
    let framed = |message: &M| {
        let mut pipe = Vec::new();
        frame::write(&mut pipe, message).unwrap();
        pipe
    };
    messages.iter().map(framed).collect()
}

fn replies() -> Vec<FromWorker> {
    let reply = |reply| FromWorker::Reply { number: 5, done_steps: 6, reply };
    let preparing = StartupProgress { what: "compiling".into(), done: 1, total: 2 };
    vec![
        FromWorker::Hello("0.1.0".into()),
        FromWorker::Heartbeat { number: 3, done_steps: 4 },
        FromWorker::Preparing(preparing),
        reply(Reply::Detected(Ok(Vec::new()))),
        reply(Reply::Data { bytes: vec![1; 64], last: true }),
        reply(Reply::Kernels(vec!["avx2".into()])),
        reply(Reply::Took(Duration::from_millis(3))),
        reply(Reply::Failed(DeviceError::Sick("bits".into()))),
    ]
}

fn requests() -> Vec<ToWorker> {
    let (backend, settings) = (BackendKind::Cpu, "{}".to_owned());
    let probe = ProbeRounds { key: ProbeKey([2; 32]), walks: 64, steps: 1, rounds: 1 };
    let range = SlotRange { slot: 1, first_byte: 1024, bytes: 7 };
    let requests = [
        Request::Open { backend, settings, spec: "x".into() },
        Request::Probe(probe),
        Request::Read(vec![range; 2]),
        Request::ChooseKernel(Precision::Int8, "avx2".into()),
        Request::Release,
    ];
    requests.map(|request| ToWorker::Request(7, request)).into_iter().chain([ToWorker::Cancel(9)]).collect()
}

/// The objects with these fields in the vectors, as text.
fn objects(fields: &[&str]) -> Vec<Vec<u8>> {
    fn find(value: &Value, fields: &[&str], found: &mut Vec<Vec<u8>>) {
        if fields.iter().all(|field| value.get(field).is_some()) {
            found.push(value.to_string().into_bytes());
        }
        match value {
            Value::Array(list) => list.iter().for_each(|value| find(value, fields, found)),
            Value::Object(object) => object.values().for_each(|value| find(value, fields, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        find(&serde_json::from_str(&text).unwrap(), fields, &mut found);
    }
    found.sort();
    found.dedup();
    found
}

fn file(path: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The example of docs/settings.md, and some of the built-in profiles.
fn policies() -> Vec<Vec<u8>> {
    let text = |path| String::from_utf8(file(path)).unwrap();
    let page = text("../../docs/settings.md");
    let (_, after) = page.split_once("```toml\n").expect("the page has an example of a policy");
    let (example, _) = after.split_once("```").unwrap();
    let profiles = text("../../shared/attest/policy/src/profiles.toml");
    let models = profiles.split("[[model]]").skip(1).take(4).map(|model| format!("[[model]]{model}"));
    [example.to_owned()].into_iter().chain(models).map(String::into_bytes).collect()
}

/// A receipt of the honest miner's verdict, and its claims alone.
fn receipt() -> Vec<Vec<u8>> {
    let Some(CaseEntry::Verdict(json)) = honest::entries().pop() else { panic!("a case ends with its verdict") };
    let verdict = serde_json::from_slice(&json).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let signer = Signer::open(&folder.path().join("receipt.key"), "assay-validator/0.0.0").unwrap();
    let nonce = "AAECAwQFBgcICQ".parse().unwrap();
    let subject = Subject {
        verdict: &verdict,
        challenge_nonce: Some(Nonce([2; 32])),
        is_recognised: true,
        state: STATE_PASSING,
        group: "default",
        policy_id: "default",
        eat_nonce: Some(&nonce),
        findings: &[],
        lifetime_s: 60,
        now_s: honest::NOW_S,
    };
    let token = signer.issue(&subject).unwrap().token;
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    vec![token.into_bytes(), claims]
}

fn zstd(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 1).unwrap()
}

#[test]
fn the_case_of_an_honest_miner_is_whole() {
    assert!(honest::case().starts_with(&MARK));
    let CaseEntry::Verdict(json) = honest::entries().pop().unwrap() else { panic!("a case ends with its verdict") };
    let verdict: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(verdict["outcome"], "pass", "{verdict}");
}
