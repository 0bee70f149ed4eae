//! Points for charts, the fleet in numbers, and pages of lists.

use std::time::Duration;

use assay_protocol::claims::{SensorSpread, Telemetry};
use assay_protocol::verdict::ReasonCode;
use assay_records::{Actor, Approval, MinerCount, ModelCount, RoundCursor, RoundRecord, TokenCursor};

use crate::examples::{THEN_MS, challenge, conclusion, connected, device_id, key, round};
use crate::store::TestStore;

pub async fn devices_are_shown_over_time(store: &TestStore) {
    let records = store.open().await;
    // Its newest key is another one.
    records.connected(&connected(1, &[1, 9], &[1], THEN_MS)).await.unwrap();
    for number in 1..=3_u32 {
        let codes: &[ReasonCode] = if number == 2 { &[ReasonCode::AuditElement] } else { &[] };
        let mut concluded = conclusion(number, 1, codes, u64::from(number) * 60);
        if number == 3 {
            let spread = |mean| Some(SensorSpread { min: 1, mean, max: 99_999_999 });
            let telemetry = Telemetry { temperature_c: spread(61), power_mw: spread(512_250), ..Telemetry::default() };
            concluded.verdict.devices[0].claimed_telemetry = Some(telemetry);
        }
        records.conclude(&concluded).await.unwrap();
    }
    records.conclude(&conclusion(4, 2, &[], 30)).await.unwrap();
    let points = records.series(&key(9), 0, 100).await.unwrap();
    let challenges: Vec<_> = points.iter().map(|point| point.challenge.clone()).collect();
    assert_eq!(challenges, [challenge(1), challenge(2), challenge(3)]);
    let last = &points[2];
    assert_eq!((last.device_id.as_str(), last.model.as_str()), (device_id(1).as_str(), "NVIDIA H200"));
    assert_eq!((last.tops, last.gb_per_s, last.bytes_held, last.n), (1234.5678901234567, 3456.7, 1 << 40, 8192));
    assert_eq!((last.temperature_c, last.power_w), (Some(61.0), Some(512.25)));
    assert_eq!((points[0].temperature_c, points[0].power_w), (None, None));
    assert_eq!((points[1].outcome.as_str(), points[1].work_held), ("fail", false));
    assert_eq!(records.series(&key(1), THEN_MS + 120_000, 100).await.unwrap(), points[1..]);
    assert_eq!(records.series(&key(1), 0, 2).await.unwrap(), points[1..], "the newest");
    assert!(records.series("none", 0, 2).await.unwrap().is_empty());
}

pub async fn the_fleet_is_counted(store: &TestStore) {
    let records = store.open().await;
    for number in 1..=3_u8 {
        records.connected(&connected(u32::from(number), &[number], &[number, number + 100], THEN_MS)).await.unwrap();
    }
    records.devices_changed(&key(3), "", &connected(3, &[3], &[3], THEN_MS).devices, THEN_MS).await.unwrap();
    records.conclude(&conclusion(1, 1, &[], 0)).await.unwrap();
    let count = |state: &str, outcome: Option<&str>, miners| MinerCount {
        status: Approval::Pending,
        state: state.to_owned(),
        outcome: outcome.map(str::to_owned),
        miners,
    };
    let wanted = [count("enrolled", None, 2), count("passing", Some("pass"), 1)];
    assert_eq!(records.miner_counts().await.unwrap(), wanted);
    let models = records.model_counts(10).await.unwrap();
    assert_eq!(models, [ModelCount { model: "H200".to_owned(), devices: 5, miners: 3 }]);
}

pub async fn lists_have_pages(store: &TestStore) {
    let records = store.open().await;
    let actor = Actor { name: "ada".to_owned(), uid: None };
    for number in 0..5 {
        let round = RoundRecord {
            // Two begin in one moment.
            begun_ms: THEN_MS + number / 2,
            ..round(&format!("{number:02}"))
        };
        records.plan_round(&round, &[]).await.unwrap();
        records.create_token(&Default::default(), Duration::from_secs(60), &actor).await.unwrap();
    }
    let (mut before, mut ids) = (None, Vec::new());
    loop {
        let page = records.rounds(before.as_ref(), 3).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(RoundCursor { begun_ms: last.begun_ms, id: last.id.clone() });
        ids.extend(page.into_iter().map(|round| round.id));
    }
    assert_eq!(ids, ["04", "03", "02", "01", "00"]);
    let first = records.tokens(None, 2).await.unwrap();
    let cursor = TokenCursor { created_ms: first[1].created_ms, hash: first[1].hash.clone() };
    let rest = records.tokens(Some(&cursor), 10).await.unwrap();
    assert_eq!(rest.len(), 3);
    assert!(rest.iter().all(|token| !first.contains(token)));
}
