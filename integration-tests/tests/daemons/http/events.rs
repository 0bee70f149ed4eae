//! Live events, and challenges as they go on.

use assay_api::{BeginChallenge, ChallengeDetail, ChallengeProgress, ChallengeUpdate, LiveEvent, ProblemCode, Role};
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::web::Caller;
use assay_protocol::verdict::Outcome;
use assay_records::{EventDocument, EventKind};
use hyper::Method;
use hyper::body::Bytes;

use super::{miner_of, serving, web_address};

async fn challenge(caller: &Caller, miner: &TestMiner) -> ChallengeProgress {
    let asked = BeginChallenge { miner: Some(miner.key.to_string()[..8].to_owned()), ..BeginChallenge::default() };
    let answer = caller.post("/api/v1/challenges", &asked).await.expect(202);
    let running: ChallengeProgress = answer.json();
    let location = format!("/api/v1/challenges/{}", running.challenge_id);
    assert_eq!((running.miner_key, answer.header("location")), (miner.key, Some(location.as_str())));
    running
}

/// The phases of a challenge, up to its verdict.
async fn course(caller: &Caller, path: &str) -> (Vec<String>, Outcome) {
    let mut events = caller.follow(path).await;
    let mut phases: Vec<String> = Vec::new();
    loop {
        let told = events.next().await.expect("it ends with its verdict");
        match ChallengeUpdate::read(&told.event, &told.data).unwrap().expect("a known event") {
            ChallengeUpdate::Running(running) if phases.last() == Some(&running.phase) => {}
            ChallengeUpdate::Running(running) => phases.push(running.phase),
            ChallengeUpdate::Verdict(verdict) => {
                assert_eq!(events.next().await, None, "nothing follows");
                return (phases, verdict.outcome);
            }
        }
    }
}

#[tokio::test]
async fn a_challenge_is_followed_from_its_beginning_to_its_verdict() {
    let (validator, address) = serving(&[]).await;
    let miner = miner_of(&validator).await;
    let operator = Caller::of_role(&validator, address, Role::Operate).await;
    let running = challenge(&operator, &miner).await;
    let path = format!("/api/v1/challenges/{}/events", running.challenge_id);
    let (phases, outcome) = course(&operator, &path).await;
    assert_eq!(outcome, Outcome::Pass);
    assert_eq!(phases.first().map(String::as_str), Some("work"));
    assert!(phases.iter().any(|phase| phase == "probe"), "{phases:?}");
    // Who comes late sees the same.
    assert_eq!(course(&operator, &path).await, (phases, outcome));
    let found: ChallengeDetail = operator.read(&format!("/api/v1/challenges/{}", running.challenge_id)).await;
    assert!(found.running.is_none() && found.verdict.is_some_and(|verdict| verdict.record.outcome == "pass"));
}

#[tokio::test]
async fn a_challenge_that_cannot_begin_is_a_problem_that_says_why() {
    let (validator, address) = serving(&[]).await;
    let operator = Caller::of_role(&validator, address, Role::Operate).await;
    let code = |asked: BeginChallenge| {
        let operator = operator.clone();
        async move { operator.post("/api/v1/challenges", &asked).await.problem().code }
    };
    assert_eq!(code(BeginChallenge::default()).await, ProblemCode::NoMiner);
    let miner = Some("ab".repeat(32));
    assert_eq!(code(BeginChallenge { miner, ..BeginChallenge::default() }).await, ProblemCode::NoMiner);
    let _miner = miner_of(&validator).await;
    for asked in [
        BeginChallenge { n: Some(300), ..BeginChallenge::default() },
        BeginChallenge { samples: Some(0), ..BeginChallenge::default() },
        BeginChallenge { fill_percent: Some(98), ..BeginChallenge::default() },
        BeginChallenge { eat_nonce: Some("short".to_owned()), ..BeginChallenge::default() },
        BeginChallenge { miner: Some("zz".to_owned()), ..BeginChallenge::default() },
    ] {
        assert_eq!(code(asked.clone()).await, ProblemCode::Invalid, "{asked:?}");
    }
    let none = operator.send(Method::DELETE, &format!("/api/v1/challenges/{}", "0".repeat(32)), Bytes::new()).await;
    assert_eq!(none.problem().code, ProblemCode::NoChallenge);
}

/// A stream goes on after the last event seen: nothing is lost and nothing comes twice, also across a restart.
#[tokio::test]
async fn events_go_on_where_they_broke_off_across_a_restart() {
    let (mut validator, address) = serving(&[]).await;
    let reader = Caller::of_role(&validator, address, Role::Read).await;
    let mut events = reader.follow("/api/v1/events?after=0").await;
    assert_eq!(events.begins_after, Some(0));
    let miner = miner_of(&validator).await;
    let mut seen: Vec<i64> = Vec::new();
    loop {
        let told = events.next().await.expect("more to come");
        let event: LiveEvent = serde_json::from_str(&told.data).unwrap();
        assert_eq!((told.id.parse(), told.event.as_str()), (Ok(event.seq), event.kind().name()));
        seen.push(event.seq);
        if event.kind() == EventKind::MinerConnected {
            let EventDocument::MinerConnected(connected) = &event.told else { panic!("{event:?}") };
            assert_eq!(connected.key, miner.key.to_string());
            break;
        }
    }
    assert_eq!(seen, (1..=seen.len() as i64).collect::<Vec<_>>(), "numbered without gaps");
    let last = *seen.last().unwrap();
    drop(events);
    let now = reader.follow("/api/v1/events").await;
    assert!(now.begins_after.is_some_and(|after| after >= last), "also where nothing follows: {:?}", now.begins_after);
    drop(now);
    validator.challenge(miner.key, None).await.unwrap().expect_pass();
    validator.daemon.terminate();
    drop(miner);
    validator.restart().await;
    let address = web_address(&mut validator);
    let reader = Caller::of_role(&validator, address, Role::Read).await;
    let mut events = reader.clone().with("last-event-id", &last.to_string()).follow("/api/v1/events").await;
    let mut kinds = Vec::new();
    while !kinds.contains(&EventKind::Verdict) || !kinds.contains(&EventKind::MinerLeft) {
        let told = events.next().await.expect("more to come");
        let event: LiveEvent = serde_json::from_str(&told.data).unwrap();
        assert_eq!(event.seq, last + 1 + kinds.len() as i64, "none lost, none twice");
        kinds.push(event.kind());
    }
    let started = kinds.iter().position(|kind| *kind == EventKind::ChallengeStarted);
    assert!(started < kinds.iter().position(|kind| *kind == EventKind::Verdict), "{kinds:?}");
    // Only the kinds in the query, with the numbers of all events.
    let mut verdicts = reader.follow("/api/v1/events?after=0&kinds=verdict").await;
    let told = verdicts.next().await.unwrap();
    assert_eq!(told.event, "verdict");
    // From records that were restored from a backup, say.
    let mut ahead = reader.with("last-event-id", "1000000").follow("/api/v1/events").await;
    let gap: assay_api::Gap = serde_json::from_str(&ahead.next_of("gap").await.data).unwrap();
    assert_eq!((gap.after, ahead.begins_after), (1_000_000, Some(gap.oldest - 1)));
}

/// A stream ends with the right to read it.
#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    let (validator, address) = serving(&[]).await;
    let made = Caller::make_token(&validator, Role::Read).await;
    let reader = Caller::at(address).with("authorization", &format!("Bearer {}", made.token));
    let mut events = reader.follow("/api/v1/events?kinds=health&after=0").await;
    let local = Caller::at_socket(&validator);
    let revoked = local.send(Method::DELETE, &format!("/api/v1/tokens/{}", made.record.id), Bytes::new()).await;
    assert_eq!(revoked.status, 204);
    while events.next().await.is_some() {}
}

#[tokio::test]
async fn a_draining_validator_serves_until_its_last_challenge_has_ended() {
    let (mut validator, address) = serving(&[]).await;
    let reader = Caller::of_role(&validator, address, Role::Read).await;
    assert_eq!(reader.get("/readyz").await.body, "ok\n");
    let mut events = reader.follow("/api/v1/events?after=0").await;
    validator.daemon.terminate();
    // The stream ends by the validator's doing, not by a broken connection.
    while events.next().await.is_some() {}
    validator.daemon.wait();
}
