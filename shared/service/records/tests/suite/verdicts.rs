//! Verdicts and the queries beside them.

use assay_protocol::verdict::{DeviceWork, ReasonCode};
use assay_records::{
    MAX_SAMPLES_PER_OPERATOR, MinerEvent, ObjectKind, ReceiptCursor, ReceiptFilter, ResolvedId, RoundMember,
    VerdictCursor, VerdictFilter,
};
use assay_work::{DeviceId, Precision};

use crate::examples::{THEN_MS, challenge, conclusion, connected, device_id, events_of, invited, key, round, verdict};
use crate::store::TestStore;

fn resolved(kind: ObjectKind, id: &str) -> ResolvedId {
    ResolvedId { kind, id: id.to_owned() }
}

pub async fn pages_have_each_verdict_once(store: &TestStore) {
    let records = store.open().await;
    // Three of each moment.
    for number in 0..12 {
        records.conclude(&conclusion(number, 1, &[], u64::from(number / 3))).await.unwrap();
    }
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let filter = VerdictFilter { before, limit: Some(5), ..VerdictFilter::default() };
        let page = records.verdicts(&filter).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(VerdictCursor { at_ms: last.at_ms, challenge: last.challenge.clone() });
        seen.extend(page.into_iter().map(|verdict| verdict.challenge));
    }
    assert_eq!(seen, (0..12).rev().map(challenge).collect::<Vec<_>>());
}

pub async fn filters_find_what_they_name(store: &TestStore) {
    let records = store.open().await;
    records.conclude(&conclusion(1, 1, &[], 1)).await.unwrap();
    records.conclude(&conclusion(2, 1, &[ReasonCode::AuditElement], 2)).await.unwrap();
    records.conclude(&conclusion(3, 2, &[ReasonCode::Disconnected], 3)).await.unwrap();
    let mut in_round = conclusion(4, 2, &[], 4);
    in_round.round = Some("aa".to_owned());
    records.conclude(&in_round).await.unwrap();
    let ids = async |filter: VerdictFilter| {
        let found = records.verdicts(&filter).await.unwrap();
        found.into_iter().map(|verdict| verdict.challenge).collect::<Vec<_>>()
    };
    let all = VerdictFilter::default;
    assert_eq!(ids(VerdictFilter { miner: Some(key(1)), ..all() }).await, [2, 1].map(challenge));
    assert_eq!(ids(VerdictFilter { miner: Some(key(9)), ..all() }).await, [] as [String; 0]);
    assert_eq!(ids(VerdictFilter { outcome: Some("pass".into()), ..all() }).await, [4, 1].map(challenge));
    assert_eq!(ids(VerdictFilter { code: Some("audit_element".into()), ..all() }).await, [challenge(2)]);
    assert_eq!(ids(VerdictFilter { round: Some("aa".into()), ..all() }).await, [challenge(4)]);
    let (since_ms, until_ms) = (Some(THEN_MS + 2000), Some(THEN_MS + 4000));
    assert_eq!(ids(VerdictFilter { since_ms, until_ms, ..all() }).await, [3, 2].map(challenge));
    let both = VerdictFilter { miner: Some(key(2)), outcome: Some("pass".into()), ..all() };
    assert_eq!(ids(both).await, [challenge(4)]);
}

pub async fn receipts_of_a_miner_are_listed(store: &TestStore) {
    let records = store.open().await;
    for number in 0..6 {
        records.conclude(&conclusion(number, 1, &[], u64::from(number / 2))).await.unwrap();
    }
    records.conclude(&conclusion(9, 2, &[], 1)).await.unwrap();
    let ids = async |filter: ReceiptFilter| {
        let found = records.receipts(&filter).await.unwrap();
        found.into_iter().map(|receipt| receipt.id).collect::<Vec<_>>()
    };
    let id = |number: u32| format!("e{number:031x}");
    let all = || ReceiptFilter { miner: key(1), ..ReceiptFilter::default() };
    assert_eq!(ids(all()).await, [5, 4, 3, 2, 1, 0].map(id));
    let before = Some(ReceiptCursor { issued_s: THEN_MS / 1000 + 1, id: id(3) });
    assert_eq!(ids(ReceiptFilter { before, limit: Some(2), ..all() }).await, [2, 1].map(id));
    let before = Some(ReceiptCursor { issued_s: i64::MAX, id: "a".to_owned() });
    assert_eq!(ids(ReceiptFilter { before, limit: Some(1), ..all() }).await, [5].map(id));
    let (since_ms, until_ms) = (Some(THEN_MS + 1000), Some(THEN_MS + 2000));
    assert_eq!(ids(ReceiptFilter { since_ms, until_ms, ..all() }).await, [3, 2].map(id));
    assert_eq!(ids(ReceiptFilter { miner: key(7), ..all() }).await, [] as [String; 0]);
}

pub async fn ids_are_found_by_their_beginning(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[0xc0], &[0xc1], THEN_MS)).await.unwrap();
    records.conclude(&conclusion(0xc0c0_0001, 0xc0, &[], 0)).await.unwrap();
    records.conclude(&conclusion(0xc0c0_0002, 0xc0, &[], 1)).await.unwrap();
    let (first, second) = (challenge(0xc0c0_0001), challenge(0xc0c0_0002));
    assert_eq!(records.find(&first).await.unwrap(), [resolved(ObjectKind::Challenge, &first)]);
    let mut found = records.find("c0c0").await.unwrap();
    found.sort();
    let both = [
        resolved(ObjectKind::Challenge, &first),
        resolved(ObjectKind::Challenge, &second),
        resolved(ObjectKind::Miner, &key(0xc0)),
    ];
    assert_eq!(found, both);
    assert_eq!(records.find("c1").await.unwrap(), [resolved(ObjectKind::Device, &device_id(0xc1))]);
    let receipt = format!("e{:031x}", 0xc0c0_0001_u32);
    assert_eq!(records.find(&receipt).await.unwrap(), [resolved(ObjectKind::Receipt, &receipt)]);
    assert_eq!(records.verdicts_by_prefix("c0c00001", 9).await.unwrap(), [first]);
    for none in ["", "c2", "C0", "%", "c0_"] {
        assert_eq!(records.find(none).await.unwrap(), [], "{none}");
    }
}

pub async fn samples_are_the_newest_of_each_device(store: &TestStore) {
    let records = store.open().await;
    for number in 0..5 {
        records.conclude(&conclusion(number, 1, &[], u64::from(number))).await.unwrap();
    }
    records.conclude(&conclusion(5, 2, &[], 0)).await.unwrap();
    // Nothing is known of the speed of who forged, but of who only lost a device.
    records.conclude(&conclusion(6, 1, &[ReasonCode::AuditElement], 9)).await.unwrap();
    records.conclude(&conclusion(7, 3, &[ReasonCode::DeviceGone], 0)).await.unwrap();
    // Nor of INT8 from a challenge of another kind of work.
    let mut other_kind = conclusion(8, 1, &[], 8);
    other_kind.verdict.precision = Precision::Fp4;
    records.conclude(&other_kind).await.unwrap();
    // Nor of one model from a host of two, where a slower device may time both.
    let mut mixed = conclusion(9, 4, &[], 9);
    let slower = mixed.verdict.devices[0].clone();
    mixed.verdict.devices.push(DeviceWork { device_id: DeviceId([9; 16]), name: "NVIDIA A100".to_owned(), ..slower });
    records.conclude(&mixed).await.unwrap();
    assert_eq!(records.samples("NVIDIA A100", Precision::Int8, 0, 2).await.unwrap(), []);
    let other_kind = records.samples("NVIDIA H200", Precision::Fp4, 0, 2).await.unwrap();
    assert_eq!(other_kind.iter().map(|s| &*s.challenge).collect::<Vec<_>>(), [challenge(8)]);
    let samples = records.samples("NVIDIA H200", Precision::Int8, 0, 2).await.unwrap();
    let mut from: Vec<_> = samples.iter().map(|s| (s.miner.clone(), s.challenge.clone())).collect();
    from.sort();
    let of = |miner, number| (key(miner), challenge(number));
    assert_eq!(from, [of(1, 3), of(1, 4), of(2, 5), of(3, 7)]);
    let sample = &samples[0];
    assert_eq!((sample.n, sample.operator.as_str(), sample.bytes), (8192, "acme", 1 << 40));
    assert_eq!((sample.tops, sample.gb_per_s), (1234.5678901234567, 3456.7), "to the last bit");
    assert_eq!(records.samples("another", Precision::Int8, 0, 2).await.unwrap(), []);
    assert_eq!(records.samples("NVIDIA H200", Precision::Int8, THEN_MS + 4000, 2).await.unwrap().len(), 1);
}

pub async fn no_operator_pushes_others_out_of_the_samples(store: &TestStore) {
    let records = store.open().await;
    for number in 100..200 {
        let mut crowd = conclusion(number, 1, &[], 9);
        crowd.operator = Some("crowd".to_owned());
        records.conclude(&crowd).await.unwrap();
    }
    for number in 2..5 {
        let mut host = conclusion(u32::from(number), number, &[], u64::from(number));
        // Two hosts without an operator are not one operator's.
        host.operator = (number == 2).then(|| "small".to_owned());
        records.conclude(&host).await.unwrap();
    }
    // Twelve thousand newer devices of one operator: more than a query gives in all.
    store
        .sql(
            "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 120) \
             INSERT INTO device_results SELECT d.challenge, d.challenge || CAST(i AS TEXT), d.miner, d.model, d.operator, \
             d.at_ms + i, d.n, d.work_held, d.matrices, d.bytes_held, d.tops, d.seconds, d.probe_bytes, \
             d.probe_gb_per_s, d.probe_seconds, d.hidden_share, d.precision FROM device_results d, t \
             WHERE d.operator = 'crowd' RETURNING 1",
        )
        .await;
    let samples = records.samples("NVIDIA H200", Precision::Int8, 0, 2).await.unwrap();
    assert_eq!(samples.len(), MAX_SAMPLES_PER_OPERATOR as usize + 3);
    let mut operators: Vec<_> = samples[..4].iter().map(|s| (s.operator.as_str(), s.miner.clone())).collect();
    operators.sort();
    let wanted = [("", key(3)), ("", key(4)), ("crowd", key(1)), ("small", key(2))];
    assert_eq!(operators, wanted, "first one of each");
}

pub async fn the_document_is_what_json_prints(store: &TestStore) {
    let records = store.open().await;
    let wanted = verdict(1, 1, &[ReasonCode::ProbeLate], 0);
    records.conclude(&conclusion(1, 1, &[ReasonCode::ProbeLate], 0)).await.unwrap();
    let found = records.verdict(&challenge(1)).await.unwrap().unwrap();
    let wanted = serde_json::to_string(&wanted).unwrap();
    assert_eq!(found.record.verdict.get(), wanted);
    // In the documents that contain it too, in the same order.
    let shown = serde_json::to_string(&found).unwrap();
    assert!(shown.contains(&format!("\"verdict\":{wanted}")), "{shown}");
    let events = serde_json::to_string(&events_of(&records, 1).await).unwrap();
    assert!(events.contains(&format!("\"verdict\":{wanted}")), "{events}");
}

pub async fn history_has_everything_newest_first(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap();
    records.conclude(&conclusion(1, 1, &[], 1)).await.unwrap();
    records.connected(&connected(2, &[1], &[1, 2], THEN_MS + 2000)).await.unwrap();
    let events = events_of(&records, 1).await;
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            let what = match event {
                MinerEvent::Session(_) => "session",
                MinerEvent::Verdict(_) => "verdict",
                MinerEvent::Transition(_) => "transition",
                MinerEvent::Finding(_) => "finding",
                MinerEvent::Device(_) => "device",
                MinerEvent::Action(_) => "action",
            };
            (event.at_ms() - THEN_MS, what)
        })
        .collect();
    let wanted = [
        (2000, "session"),
        (2000, "device"),
        (1000, "verdict"),
        (1000, "transition"),
        (1000, "finding"),
        (0, "session"),
        (0, "device"),
    ];
    assert_eq!(told, wanted);
    assert_eq!(events_of(&records, 9).await.len(), 0);
    let json = |events: &[MinerEvent]| serde_json::to_string(events).unwrap();
    // Pages of any size have each event once: also where one ends amid the events of a moment.
    for limit in 1..=wanted.len() as u32 {
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page = records.history(&key(1), after, limit).await.unwrap();
            assert!(page.len() <= limit as usize, "{}", page.len());
            let Some((place, _)) = page.last() else { break };
            after = Some(*place);
            paged.extend(page.into_iter().map(|(_, event)| event));
        }
        assert_eq!(json(&paged), json(&events), "{limit}");
    }
}

pub async fn a_page_of_rounds_is_one_question(store: &TestStore) {
    let records = store.open().await;
    records.connected(&connected(1, &[1], &[1], THEN_MS)).await.unwrap();
    records.connected(&connected(2, &[2], &[2], THEN_MS)).await.unwrap();
    records.conclude(&conclusion(1, 1, &[], 1)).await.unwrap();
    let member = |miner: u8, judged: Option<u32>| RoundMember {
        state: if judged.is_some() { "judged" } else { "absent" }.to_owned(),
        challenge: judged.map(challenge),
        ..invited(miner)
    };
    for (id, judged) in [("aa", Some(1)), ("bb", None)] {
        records.plan_round(&round(id), &[member(1, judged), member(2, None)]).await.unwrap();
    }
    let found = records.round_members(&["aa", "bb", "cc"]).await.unwrap();
    let wanted = vec![(member(1, Some(1)), Some("pass".to_owned())), (member(2, None), None)];
    assert_eq!(found["aa"], wanted);
    assert_eq!(found["bb"], [(member(1, None), None), (member(2, None), None)]);
    assert_eq!(found.len(), 2);
}
