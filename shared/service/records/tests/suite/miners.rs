//! Miners, their keys, who decides about them, and their devices.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_api::MAX_LABELS;
use assay_policy::rules::Cause;
use assay_policy::state::{Debt, Standing, State};
use assay_records::{
    Actor, Approval, DeviceQuery, EventDocument, EventKind, EventRecord, FindingRecord, Labels, MinerChange,
    MinerEvent, MinerFilter, RecordsError, StandingChange,
};

use crate::examples::{
    THEN_MS, challenge, conclusion, connected, device_id, events_of, key, status_change, transition,
};
use crate::store::TestStore;

fn operator() -> Actor {
    Actor { name: "ada".to_owned(), uid: Some(1000) }
}

fn label(name: &str, value: &str) -> BTreeMap<String, Option<String>> {
    BTreeMap::from([(name.to_owned(), Some(value.to_owned()))])
}

pub async fn a_miner_is_the_chain_of_its_keys(store: &TestStore) {
    let records = store.open().await;
    let first = records.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap();
    assert_eq!((first.id.as_str(), first.state.as_str()), (key(1).as_str(), "enrolled"));
    records.set_labels(&key(1), &label("rack", "7"), &operator()).await.unwrap();
    // It comes back under a new key, and another time under the one after that.
    records.connected(&connected(2, &[1, 2], &[1], THEN_MS + 1)).await.unwrap();
    let third = records.connected(&connected(3, &[2, 3], &[1], THEN_MS + 2)).await.unwrap();
    assert_eq!((third.id, third.key, third.keys), (key(1), key(3), vec![key(1), key(2), key(3)]));
    for number in 1..=3 {
        let found = records.miner(&key(number)).await.unwrap().unwrap();
        assert_eq!((found.id, found.labels), (key(1), Labels::from([("rack".to_owned(), "7".to_owned())])));
    }
    // Its deeds under one key are known under another.
    records.conclude(&conclusion(1, 2, &[], 0)).await.unwrap();
    let histories = [events_of(&records, 3).await, events_of(&records, 1).await];
    assert_eq!(histories.each_ref().map(Vec::len), [8, 8]);
    // The newest key has its approval, also after a connection with an older one.
    records.change_miner(&key(1), &status_change("approve", Approval::Approved), &operator()).await.unwrap();
    records.connected(&connected(4, &[1], &[1], THEN_MS + 3)).await.unwrap();
    records.connected(&connected(5, &[1, 3], &[1], THEN_MS + 3)).await.unwrap();
    let decided = records.decided().await.unwrap().into_iter();
    let decided: BTreeMap<_, _> = decided.map(|(key, decided)| (key, decided.is_superseded)).collect();
    assert_eq!(decided, [(key(1), true), (key(2), true), (key(3), false)].into());
    // One that follows an older key comes after all, and other validators are told as of an action.
    let seen = records.last_event().await.unwrap();
    let forked = records.connected(&connected(6, &[1, 4], &[1], THEN_MS + 4)).await.unwrap();
    assert_eq!((forked.key, forked.keys), (key(4), [1, 2, 3, 4].map(key).to_vec()));
    assert!(records.actions_since(seen).await.unwrap().1);
    let actions = records.actions(Some(&key(1)), 0, 1).await.unwrap();
    assert_eq!((&*actions[0].action, &actions[0].actor), ("rotate", &Actor::validator()));
    let seen = records.last_event().await.unwrap();
    records.connected(&connected(7, &[1, 4], &[1], THEN_MS + 5)).await.unwrap();
    assert!(!records.actions_since(seen).await.unwrap().1, "nothing changed");
    assert_eq!(records.miners(&MinerFilter::default()).await.unwrap().len(), 1);
    assert_eq!(records.miner(&key(9)).await.unwrap().map(|miner| miner.id), None);
}

pub async fn two_records_become_one_with_the_stricter_status(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[1, 2], THEN_MS)).await.unwrap();
    records.change_miner(&key(1), &status_change("revoke", Approval::Revoked), &operator()).await.unwrap();
    // A revoked miner comes with a fresh key, passes with it, and only then shows its descent.
    records.connected(&connected(2, &[5], &[1, 3], THEN_MS)).await.unwrap();
    records.change_miner(&key(5), &status_change("approve", Approval::Approved), &operator()).await.unwrap();
    records.conclude(&conclusion(1, 5, &[], 0)).await.unwrap();
    let due = records.miner(&key(5)).await.unwrap().unwrap().due.unwrap();
    let joined = records.connected(&connected(3, &[1, 5], &[1, 3], THEN_MS)).await.unwrap();
    assert_eq!((joined.id, joined.key, joined.status), (key(1), key(5), Approval::Revoked));
    assert_eq!(joined.due, Some(due), "another key puts off none");
    assert_eq!(records.miners(&MinerFilter::default()).await.unwrap().len(), 1);
    let devices = records.devices(&DeviceQuery { gone: true, ..DeviceQuery::default() }).await.unwrap();
    let ids: Vec<_> = devices.iter().map(|device| device.device_id.clone()).collect();
    assert_eq!(ids, [1, 2, 3].map(device_id));
    let verdicts = records.verdicts(&Default::default()).await.unwrap();
    assert_eq!(verdicts[0].miner, key(1));
}

/// A key of its own that claims to be older: the joined miner keeps what it owes, what is counted, and its labels.
pub async fn a_new_key_sheds_nothing_of_a_record(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[5], &[1], THEN_MS)).await.unwrap();
    let grown = Standing {
        state: State::Expired,
        debt: Some(Debt::Fail),
        unclear: BTreeMap::from([(Cause::Absent, [7, 8].into())]),
        fails: [9].into(),
        because: "absent".to_owned(),
        ..Standing::default()
    };
    let mut concluded = conclusion(1, 5, &[], 0);
    let standing = concluded.standing.as_mut().unwrap();
    standing.after = serde_json::to_string(&grown).unwrap();
    standing.transition.as_mut().unwrap().to = "expired".to_owned();
    records.conclude(&concluded).await.unwrap();
    records.set_labels(&key(5), &label("operator", "acme"), &operator()).await.unwrap();
    records.connected(&connected(2, &[1], &[], THEN_MS + 1)).await.unwrap();
    records.set_labels(&key(1), &label("operator", "other"), &operator()).await.unwrap();
    records.set_labels(&key(1), &label("rack", "7"), &operator()).await.unwrap();
    let joined = records.connected(&connected(3, &[1, 5], &[1], THEN_MS + 2)).await.unwrap();
    assert_eq!((joined.id.clone(), joined.state.as_str(), joined.first_seen_ms), (key(1), "expired", THEN_MS));
    assert_eq!(joined.standing(), grown);
    let labels = [("operator", "acme"), ("rack", "7")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(joined.labels, Labels::from(labels));
}

pub async fn a_finding_is_noted_once_until_it_is_old(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1, 2], &[], THEN_MS)).await.unwrap();
    let found = |code: &str, other: Option<u8>, device: u8, enforced| FindingRecord {
        code: code.to_owned(),
        miner: key(2),
        other_miner: other.map(key),
        device_id: Some(device_id(device)),
        detail: String::new(),
        enforced,
    };
    let all = [
        found("device_at_two_miners", Some(3), 1, false),
        found("device_at_two_miners", Some(3), 2, false),
        found("device_at_two_miners", Some(4), 1, false),
        found("device_at_two_miners", Some(3), 1, true),
        found("device_moved", Some(3), 1, false),
        found("device_moved", None, 1, false),
    ];
    let noted = async |at_ms| records.note_new_findings(&[&all[..], &all[..1]].concat(), 1000, at_ms).await.unwrap();
    assert_eq!(noted(THEN_MS).await, [true, true, true, true, true, true, false]);
    assert_eq!(noted(THEN_MS + 999).await, [false; 7]);
    assert_eq!(noted(THEN_MS + 1000).await, [true, true, true, true, true, true, false]);
    assert_eq!(records.findings(None, 99).await.unwrap().len(), 12);
}

pub async fn every_decision_says_who_and_when(store: &TestStore) {
    let records = store.open().await;
    // Before it ever came: an allow-list.
    assert_eq!(
        records.change_miner(&key(1), &status_change("approve", Approval::Approved), &operator()).await.unwrap(),
        Approval::Pending
    );
    assert_eq!(
        records.change_miner(&key(1), &status_change("suspend", Approval::Suspended), &operator()).await.unwrap(),
        Approval::Approved
    );
    let labels = records.set_labels(&key(1), &label("rack", "7"), &operator()).await.unwrap();
    assert_eq!(labels.get("rack").map(String::as_str), Some("7"));
    let taken = BTreeMap::from([("rack".to_owned(), None), ("row".to_owned(), Some("a".to_owned()))]);
    let labels = records.set_labels(&key(1), &taken, &operator()).await.unwrap();
    assert_eq!(labels, Labels::from([("row".to_owned(), "a".to_owned())]));
    let actions = records.actions(Some(&key(1)), 0, 10).await.unwrap();
    let mut names: Vec<_> = actions.iter().map(|action| action.action.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["approve", "label", "label", "suspend"]);
    assert!(actions.iter().all(|action| action.actor == operator() && action.at_ms > THEN_MS - 10_i64.pow(12)));
    let suspended = actions.iter().find(|action| action.action == "suspend").unwrap();
    assert_eq!(suspended.detail, "approved → suspended");
    let unknown = records.set_labels(&key(2), &taken, &operator()).await.unwrap_err();
    assert!(matches!(unknown, RecordsError::NoSuchMiner(_)), "{unknown}");
    records.note_action(&operator(), "policy", None, "reloaded").await.unwrap();
    assert_eq!(records.actions(None, 0, 10).await.unwrap().len(), 5);
}

/// A verdict that was worked out before an operator's word must not undo it, at whichever validator it was.
pub async fn what_an_operator_said_stands_against_what_was_known_before(store: &TestStore) {
    let (here, there) = (store.open().await, store.open().await);
    let from = |number: u32, before: &str, to: &str| {
        let mut concluded = conclusion(number, 1, &[], u64::from(number));
        let standing = concluded.standing.as_mut().unwrap();
        standing.before = Some(before.to_owned());
        standing.transition.as_mut().unwrap().to = to.to_owned();
        concluded
    };
    here.conclude(&from(1, "", "passing")).await.unwrap();
    let suspend = |before: &str| MinerChange {
        action: "suspend",
        status: Some(Approval::Suspended),
        standing: Some(StandingChange {
            before: Some(before.to_owned()),
            after: "{\"suspended\":1}".to_owned(),
            transition: Some(transition(1, THEN_MS, "passing", "suspended")),
        }),
    };
    let last = here.last_event().await.unwrap();
    assert_eq!(there.change_miner(&key(1), &suspend("{\"last\":1}"), &operator()).await.unwrap(), Approval::Pending);
    let events = here.events(last, 10).await.unwrap();
    assert_eq!(events.iter().map(EventRecord::kind).collect::<Vec<_>>(), [EventKind::Action, EventKind::State]);
    let EventDocument::State(told) = &events[1].told else { panic!() };
    assert_eq!((told.from.as_str(), told.to.as_str()), ("passing", "suspended"));

    // Alone, and together with others, which it does not keep from being written.
    let mut writing = tokio::task::JoinSet::new();
    for number in 2..40_u32 {
        let records = here.clone();
        let concluded = match number {
            2 | 20 => from(number, "{\"last\":1}", "passing"),
            _ => conclusion(number, number as u8, &[], 0),
        };
        writing.spawn(async move { (number, records.conclude(&concluded).await) });
    }
    while let Some(written) = writing.join_next().await {
        match written.unwrap() {
            (2 | 20, Err(RecordsError::StandingChanged(miner))) => assert_eq!(miner, key(1)),
            (number, written) => assert!(number != 2 && number != 20 && written.is_ok(), "{number}: {written:?}"),
        }
    }
    let stale = suspend("{\"last\":1}").standing.unwrap();
    let refused = here.change_standing(&key(1), &stale).await.unwrap_err();
    assert!(matches!(refused, RecordsError::StandingChanged(_)), "{refused}");
    let revoke = MinerChange { status: Some(Approval::Revoked), ..suspend("") };
    assert!(here.change_miner(&key(1), &revoke, &operator()).await.is_err());
    let miner = here.miner(&key(1)).await.unwrap().unwrap();
    assert_eq!((miner.status, miner.state.as_str()), (Approval::Suspended, "suspended"));
    assert_eq!(miner.last_verdict.unwrap().challenge, challenge(1));
    assert_eq!(here.actions(Some(&key(1)), 0, 10).await.unwrap().len(), 1, "what was refused is not noted");
    let events = events_of(&here, 1).await;
    let transitions = events.iter().filter(|event| matches!(event, MinerEvent::Transition(_)));
    assert_eq!((here.trouble(), transitions.count()), (None, 2));
    // A change from the present basis is written.
    here.conclude(&from(2, "{\"suspended\":1}", "suspended")).await.unwrap();
    assert_eq!(there.miner(&key(1)).await.unwrap().unwrap().state, "suspended");
}

pub async fn devices_come_and_go_and_lie_elsewhere(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[1, 2], THEN_MS)).await.unwrap();
    records.connected(&connected(2, &[1], &[1], THEN_MS + 1)).await.unwrap();
    records.connected(&connected(3, &[2], &[2], THEN_MS + 2)).await.unwrap();
    records.connected(&connected(4, &[1], &[1, 2], THEN_MS + 3)).await.unwrap();
    let events = records.device_events(None, Some(&device_id(2)), 10).await.unwrap();
    let mut told: Vec<_> = events.iter().map(|e| (e.at_ms - THEN_MS, e.what.as_str(), e.miner.clone())).collect();
    told.sort();
    let (first, second) = (key(1), key(2));
    assert_eq!(
        told,
        [
            (0, "seen", first.clone()),
            (1, "gone", first.clone()),
            (2, "elsewhere", second.clone()),
            (2, "seen", second.clone()),
            (3, "elsewhere", first.clone()),
            (3, "returned", first.clone())
        ]
    );
    let both = records.devices(&DeviceQuery { device_id: Some(device_id(2)), ..DeviceQuery::default() }).await.unwrap();
    let where_else: Vec<_> = both.iter().map(|d| (d.miner.clone(), d.also_at.clone())).collect();
    assert_eq!(where_else, [(first.clone(), vec![second.clone()]), (second, vec![first])]);
    assert_eq!(both[0].memory_bytes, 141 << 30);
}

pub async fn filters_leave_out(store: &TestStore) {
    let records = store.open().await;
    for number in 1..=4 {
        records.connected(&connected(u32::from(number), &[number], &[number], THEN_MS)).await.unwrap();
    }
    let ids = async |filter: MinerFilter| {
        let found = records.miners(&filter).await.unwrap();
        found.into_iter().map(|miner| miner.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(MinerFilter::default()).await, [1, 2, 3, 4].map(key));
    records.change_miner(&key(2), &status_change("approve", Approval::Approved), &operator()).await.unwrap();
    let approved = MinerFilter { status: Some(Approval::Approved), ..MinerFilter::default() };
    assert_eq!(ids(approved).await, [key(2)]);
    records.set_labels(&key(3), &label("rack", "7"), &operator()).await.unwrap();
    let labels = Labels::from([("rack".to_owned(), "7".to_owned())]);
    assert_eq!(ids(MinerFilter { labels, ..MinerFilter::default() }).await, [key(3)]);
    records.connected(&connected(5, &[4, 7], &[], THEN_MS)).await.unwrap();
    for (text, found) in [("RACK=7", vec![3]), (&key(7)[..4], vec![4]), ("192.0.2.", vec![1, 2, 3, 4]), ("x", vec![])] {
        let found: Vec<_> = found.into_iter().map(key).collect();
        assert_eq!(ids(MinerFilter { text: Some(text.to_owned()), ..MinerFilter::default() }).await, found, "{text}");
    }
    // It lists no device any more.
    let of_model = MinerFilter { model: Some("H200".to_owned()), ..MinerFilter::default() };
    assert_eq!(ids(of_model).await, [1, 2, 3].map(key));
    records.conclude(&conclusion(1, 2, &[], 0)).await.unwrap();
    let passed = MinerFilter { outcome: Some("pass".to_owned()), ..MinerFilter::default() };
    assert_eq!(ids(passed).await, [key(2)]);
    let page = MinerFilter { after: Some(key(1)), limit: Some(2), ..MinerFilter::default() };
    assert_eq!(ids(page).await, [2, 3].map(key));
    // A session counts while its validator lives.
    let connected = MinerFilter { connected: Some(true), ..MinerFilter::default() };
    assert_eq!(ids(connected.clone()).await, [] as [String; 0]);
    let validator = "ee".repeat(32);
    records.heartbeat(&validator, "run-1", "[::]:1", Duration::from_secs(3600)).await.unwrap();
    for session in [4, 5] {
        records.disconnected(&format!("{session:032x}"), THEN_MS + 9, "gone").await.unwrap();
    }
    assert_eq!(ids(connected.clone()).await, [1, 2, 3].map(key));
    assert_eq!(records.miner(&key(1)).await.unwrap().unwrap().connected_to, Some(validator.clone()));
    assert_eq!(records.sessions(&key(4), 10).await.unwrap()[0].why.as_deref(), Some("gone"));
    records.heartbeat(&validator, "run-2", "[::]:1", Duration::from_secs(3600)).await.unwrap();
    assert_eq!(ids(connected.clone()).await, [] as [String; 0], "the process was another one");
    assert_eq!(records.end_lost_sessions().await.unwrap(), 3);
}

/// Conditions that the database does not compare leave out nearly all rows that it gives.
pub async fn a_page_of_few_is_found_among_many(store: &TestStore) {
    let records = store.open().await;
    drop(records.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap());
    let rows: Vec<_> =
        (0..2500).map(|n| format!("('f{n:04}', 'f{n:04}', 'pending', '{{}}', 'enrolled', 1, 1, '', '')")).collect();
    let columns = "id, key, status, labels, state, first_seen_ms, last_seen_ms, address, software";
    store.sql(&format!("INSERT INTO miners ({columns}) VALUES {}", rows.join(", "))).await;
    store
        .sql("INSERT INTO miner_keys (key, miner, position, since_ms) SELECT id, id, 0, 1 FROM miners WHERE id > 'f'")
        .await;
    store.sql("UPDATE miners SET labels = '{\"rack\":\"7\"}' WHERE id IN ('f0003', 'f1003', 'f2499')").await;
    let labels = Labels::from([("rack".to_owned(), "7".to_owned())]);
    let mut filter = MinerFilter { labels, limit: Some(2), ..MinerFilter::default() };
    let found = records.miners(&filter).await.unwrap();
    assert_eq!(found.iter().map(|miner| miner.id.as_str()).collect::<Vec<_>>(), ["f0003", "f1003"]);
    assert_eq!(found[0].keys, ["f0003"]);
    filter.after = Some("f1003".to_owned());
    let found = records.miners(&filter).await.unwrap();
    assert_eq!(found.iter().map(|miner| miner.id.as_str()).collect::<Vec<_>>(), ["f2499"]);
    assert_eq!(records.miners(&MinerFilter::default()).await.unwrap().len(), 2501);
}

/// Regression test: several operators at once gave a miner more labels than it may have.
pub async fn labels_are_bounded_however_many_are_set_at_once(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[], THEN_MS)).await.unwrap();
    let set = |number: usize| {
        let records = records.clone();
        async move { records.set_labels(&key(1), &label(&format!("l{number}"), "1"), &operator()).await }
    };
    let tasks: Vec<_> = (0..MAX_LABELS + 8).map(|number| tokio::spawn(set(number))).collect();
    let mut refused = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(labels) => assert!(labels.len() <= MAX_LABELS),
            Err(RecordsError::TooMany { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let labels = records.miner(&key(1)).await.unwrap().unwrap().labels;
    assert_eq!((labels.len(), refused), (MAX_LABELS, 8));
    let (name, _) = labels.first_key_value().unwrap();
    let changed = records.set_labels(&key(1), &label(name, "2"), &operator()).await.unwrap();
    assert_eq!((changed.len(), &*changed[name]), (MAX_LABELS, "2"), "one that is there takes another value");
}
