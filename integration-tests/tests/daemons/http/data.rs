//! The interfaces that programs rely on: documents, pages of lists, evidence and receipts.

use assay_api::{
    ChangeLabels, DeviceDetail, FleetCounts, ListPage, Miner, MinerConnection, MinerDetail, MinerSeries, ReceiptDetail,
    Round, SearchResult, ServerStatus, StartedRound, verdict_of,
};
use assay_api::{ProblemCode, Role};
use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::validator::Policy;
use assay_integration_tests::web::Caller;
use assay_receipts::{KeySet, ReceiptExpectations};
use assay_records::{DeviceRecord, FullVerdict, MinerEvent, RoundRecord, VerdictRecord};
use hyper::Method;
use hyper::body::Bytes;
use serde_json::Value;
use std::time::{Duration, Instant};

use super::{miner_of, serving, serving_by};

/// How often a round is looked at.
const NAP: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_miner_its_verdicts_its_evidence_and_its_receipt_are_read_back() {
    let policy = Policy { keeps_passes_percent: Some(100), ..Policy::default() };
    let (validator, address) = serving_by(policy, &["--challenge-interval-s=3600"]).await;
    let miner = miner_of(&validator).await;
    let key = miner.key.to_string();
    let caller = Caller::of_role(&validator, address, Role::Operate).await;
    for _ in 0..3 {
        validator.challenge(miner.key, None).await.unwrap().expect_pass();
    }
    let miners: ListPage<Miner> = caller.read("/api/v1/miners?connected=true&outcome=pass").await;
    let [shown] = &miners.items[..] else { panic!("{miners:?}") };
    assert_eq!((&shown.record.id, shown.known.device_count), (&key, 1));
    assert_eq!(shown.known.models.len(), 1);
    let detail: MinerDetail = caller.read(&format!("/api/v1/miners/{}", key[..6].to_uppercase())).await;
    assert_eq!((detail.devices.len(), detail.sessions.len()), (1, 1));
    assert!(detail.connection.is_some_and(|connection| connection.miner_key == miner.key));
    // Regression test: a host with a token to read knew when it had to be there.
    let reader = Caller::of_role(&validator, address, Role::Read).await;
    let hidden: MinerDetail = reader.read(&format!("/api/v1/miners/{key}")).await;
    let miners: ListPage<Miner> = reader.read("/api/v1/miners").await;
    assert!(shown.record.due.is_some() && detail.miner.record.due.is_some());
    assert!(miners.items[0].record.due.is_none() && hidden.miner.record.due.is_none());
    let found = async |caller: &Caller| caller.read::<Value>(&format!("/api/v1/find/{key}")).await["due"].is_null();
    assert_eq!((found(&caller).await, found(&reader).await), (false, true));
    let connected: ListPage<MinerConnection> = caller.read("/api/v1/connected").await;
    assert_eq!(connected.items.len(), 1);
    let counts: FleetCounts = caller.read("/api/v1/counts").await;
    assert_eq!(counts.miners.iter().map(|count| count.miners).sum::<i64>(), 1);
    let history: ListPage<MinerEvent> = caller.read(&format!("/api/v1/miners/{key}/history")).await;
    assert_eq!(history.items.iter().filter(|event| matches!(event, MinerEvent::Verdict(_))).count(), 3);
    let series: MinerSeries = caller.read(&format!("/api/v1/miners/{key}/series")).await;
    assert_eq!(series.points.len(), 3);
    assert!(series.points.windows(2).all(|pair| pair[0].at_ms <= pair[1].at_ms));
    let device = &detail.devices[0].device_id;
    let at: DeviceDetail = caller.read(&format!("/api/v1/devices/{}", &device[..8])).await;
    assert_eq!((at.device_id.as_str(), at.at.len()), (device.as_str(), 1));
    let devices: ListPage<DeviceRecord> = caller.read(&format!("/api/v1/devices?miner={}", &key[..8])).await;
    assert_eq!(devices.items.len(), 1);

    // Pages: all of them together are the list, each once.
    let mut path = "/api/v1/verdicts?limit=2".to_owned();
    let mut challenges = Vec::new();
    loop {
        let page: ListPage<VerdictRecord> = caller.read(&path).await;
        challenges.extend(page.items.iter().map(|verdict| verdict.challenge.clone()));
        let Some(next) = page.next else { break };
        path = format!("/api/v1/verdicts?limit=2&cursor={}", next.as_str());
    }
    let all: ListPage<VerdictRecord> = caller.read("/api/v1/verdicts").await;
    assert_eq!(challenges, all.items.iter().map(|verdict| verdict.challenge.clone()).collect::<Vec<_>>());
    assert_eq!((challenges.len(), all.next), (3, None));

    let full: FullVerdict = caller.read(&format!("/api/v1/verdicts/{}", &challenges[0][..12])).await;
    let verdict = verdict_of(&full.record).unwrap();
    assert_eq!((verdict.miner_key, verdict.challenge_id.to_string()), (miner.key, challenges[0].clone()));
    let kept = full.evidence.expect("all evidence is kept");
    let path = format!("/api/v1/verdicts/{}/evidence", challenges[0]);
    let evidence = caller.get(&path).await.expect(200);
    assert_eq!(blake3::hash(&evidence.body).to_hex().as_str(), kept.evidence.digest);
    assert_eq!(evidence.header("content-type"), Some("application/zstd"));
    let tag = evidence.header("etag").unwrap().to_owned();
    let again = caller.clone().with("if-none-match", &tag).get(&path).await;
    assert_eq!((again.status, again.body.len()), (304, 0));

    let issued = full.receipts.first().expect("a pass has a receipt");
    let receipt: ReceiptDetail = caller.read(&format!("/api/v1/receipts/{}", issued.id)).await;
    assert_eq!(receipt.challenge, challenges[0]);
    let keys = Caller::at(address).get("/.well-known/jwks.json").await.expect(200);
    let keys = KeySet::parse(std::str::from_utf8(&keys.body).unwrap()).unwrap();
    let expect = ReceiptExpectations {
        now_s: u64::try_from(receipt.record.issued_s).unwrap(),
        ..ReceiptExpectations::default()
    };
    assay_receipts::verify(&receipt.record.token, &keys, &expect)
        .expect("the receipt holds by the keys that are served");

    for id in [&key, &challenges[1], device, &receipt.record.id] {
        let found: SearchResult = caller.read(&format!("/api/v1/find/{}", &id[..10])).await;
        let is_it = match &found {
            SearchResult::Miner(miner) => miner.miner.record.id == key,
            SearchResult::Verdict(verdict) => verdict.record.challenge == challenges[1],
            SearchResult::Device(found) => found.device_id == *device,
            SearchResult::Receipt(found) => found.record.id == receipt.record.id,
            _ => false,
        };
        assert!(is_it, "{id}: {found:?}");
    }
}

#[tokio::test]
async fn labels_are_set_filtered_by_and_taken_away() {
    let (validator, address) = serving(&[]).await;
    let miner = miner_of(&validator).await;
    let operator = Caller::of_role(&validator, address, Role::Operate).await;
    let path = format!("/api/v1/miners/{}/labels", miner.key);
    let set = [("name", "rack 7"), ("dc", "east")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let change = serde_json::to_vec(&ChangeLabels { set, remove: Vec::new() }).unwrap();
    let json = operator.clone().with("content-type", "application/json");
    let shown: Miner = json.send(Method::PATCH, &path, Bytes::from(change)).await.expect(200).json();
    assert_eq!(shown.known.name.as_deref(), Some("rack 7"));
    for (query, count) in
        [("label=dc=east", 1), ("label=dc=east,name=rack%207", 1), ("label=dc=west", 0), ("text=ack", 1)]
    {
        let found: ListPage<Miner> = operator.read(&format!("/api/v1/miners?{query}")).await;
        assert_eq!(found.items.len(), count, "{query}");
    }
    let remove = br#"{"remove": ["dc"]}"#.to_vec();
    let shown: Miner = json.send(Method::PATCH, &path, Bytes::from(remove)).await.expect(200).json();
    assert_eq!(shown.record.labels.len(), 1);
    let neither = json.send(Method::PATCH, &path, Bytes::from_static(b"{}")).await;
    assert_eq!(neither.problem().code, ProblemCode::Invalid);
}

/// A miner that is not attested has its reason in words, with what to do about it.
#[tokio::test]
async fn a_miner_that_waits_for_an_operator_says_so() {
    let (validator, address) = serving(&["--enrolment=approve"]).await;
    let miner = TestMiner::start(validator.address, 1, &[]);
    let admin = Caller::of_role(&validator, address, Role::Admin).await;
    let until = Instant::now() + PATIENCE;
    let waiting = loop {
        let found: ListPage<Miner> = admin.read("/api/v1/miners?status=pending").await;
        if let Some(miner) = found.items.into_iter().next() {
            break miner;
        }
        assert!(Instant::now() < until, "the miner is in the records");
        tokio::time::sleep(NAP).await;
    };
    assert_eq!((waiting.record.id.as_str(), waiting.known.admitted.as_str()), (&*miner.key.to_string(), "pending"));
    let reason = waiting.known.reason.expect("it is not attested");
    assert!(reason.why.contains("waits for an operator") && reason.remedy.contains("approve"), "{reason:?}");
    let path = format!("/api/v1/miners/{}/approve", miner.key);
    let _ = admin.send(Method::POST, &path, Bytes::new()).await.expect(200);
    validator.wait_for_miner(miner.key, true).await;
}

#[tokio::test]
async fn a_round_is_begun_and_followed_to_its_end() {
    let (validator, address) = serving(&[]).await;
    let miners = [miner_of(&validator).await, miner_of(&validator).await];
    let operator = Caller::of_role(&validator, address, Role::Operate).await;
    let none = operator.post("/api/v1/rounds", &serde_json::json!({ "group": "no-such" })).await.problem();
    assert_eq!(none.code, ProblemCode::NotFound);
    let empty = operator.post("/api/v1/rounds", &serde_json::json!({ "group": "" })).await.problem();
    assert_eq!(empty.code, ProblemCode::Invalid, "it does not stand for all miners");
    let asked = Instant::now();
    let StartedRound { round: id } = operator.post("/api/v1/rounds", &serde_json::json!({})).await.expect(202).json();
    let round = loop {
        let answer = operator.get(&format!("/api/v1/rounds/{id}")).await;
        if answer.status == 200 {
            let round: Round = answer.json();
            if round.record.ended_ms.is_some() {
                break round;
            }
        }
        assert!(asked.elapsed() < PATIENCE, "the round ends");
        tokio::time::sleep(NAP).await;
    };
    assert!(round.members.iter().all(|member| member.state == "judged"), "{round:?}");
    assert_eq!(round.members.len(), miners.len());
    let rounds: ListPage<RoundRecord> = operator.read("/api/v1/rounds").await;
    assert_eq!(rounds.items.len(), 1);
    let verdicts: ListPage<VerdictRecord> = operator.read(&format!("/api/v1/verdicts?round={id}")).await;
    assert_eq!(verdicts.items.len(), 2);
}

#[tokio::test]
async fn answers_are_compressed_for_those_who_take_it() {
    let (validator, address) = serving(&[]).await;
    let reader = Caller::of_role(&validator, address, Role::Read).await;
    let plain = reader.get("/api/v1/openapi.json").await.expect(200);
    let packed = reader.clone().with("accept-encoding", "gzip").get("/api/v1/openapi.json").await.expect(200);
    assert_eq!((plain.header("content-encoding"), packed.header("content-encoding")), (None, Some("gzip")));
    assert!(packed.body.len() * 4 < plain.body.len(), "{} of {}", packed.body.len(), plain.body.len());
    let document: Value = plain.json();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
}

/// The default address may be taken by another program: the validator does without. One that was chosen may not.
#[tokio::test]
async fn an_address_that_is_taken_is_told() {
    let (_first, address) = serving(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let refused = assay_integration_tests::daemon::run(
        "assay-validator",
        [
            "serve".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            format!("--http-listen={address}"),
            format!("--key-file={}", file("key")),
            format!("--control-socket={}", file("sock")),
            "--backend=cpu".to_owned(),
            "--cpu-memory=8MiB".to_owned(),
        ],
    );
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(74), "{said}");
    assert!(said.contains("http_listen"), "{said}");
}

/// A miner with the address of the API: its stream was answered with a body of JSON, which it cannot read.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_dials_the_api_is_told_where_miners_connect() {
    let (_validator, address) = serving(&[]).await;
    let mut miner = TestMiner::start(address, 1, &[]);
    miner.daemon.wait_for("this is the validator's HTTP API: miners connect to its `listen`");
}

#[tokio::test]
async fn a_status_is_the_same_over_the_socket_and_the_network() {
    let (validator, address) = serving(&[]).await;
    let near: ServerStatus = Caller::at_socket(&validator).read("/api/v1/status").await;
    let far: ServerStatus = Caller::of_role(&validator, address, Role::Read).await.read("/api/v1/status").await;
    assert_eq!((near.validator_key, near.target), (far.validator_key, far.target));
    let record: Value = serde_json::to_value(far.verdicts).unwrap();
    assert_eq!(record, serde_json::json!({ "pass": 0, "fail": 0, "inconclusive": 0 }));
}
