//! Many miners of one process on one validator, over TLS: each verdict that one of them is given is in the records.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::load::cost::{Cost, costs, draw, table};
use assay_integration_tests::load::figures::{Figures, IdleFigures, LoadedFigures, Percentiles};
use assay_integration_tests::load::run::Load;
use assay_protocol::verdict::Outcome;

/// Miners, each with a connection and a key of its own.
const MINERS: u32 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn every_verdict_of_many_miners_is_in_the_records_when_it_is_given_out() {
    // A mean of a second between two audits of a miner, so that all are under way at some time.
    let load = Load { miners: MINERS, verdicts_per_s: f64::from(MINERS), n: 256, devices: 8, ..Load::default() };
    let mut loaded = load.begin(true).await.unwrap();
    assert_eq!(loaded.validator.miners().await.len(), MINERS as usize);
    let records = loaded.records().await.unwrap();
    let (mut challenges, mut miners) = (BTreeSet::new(), BTreeSet::new());
    while miners.len() < MINERS as usize {
        let judged = tokio::time::timeout(PATIENCE, loaded.judged.recv()).await.expect("verdicts come").unwrap();
        assert_eq!(judged.outcome, Outcome::Pass, "{judged:?}");
        assert!(judged.since_commitment > Some(Duration::ZERO), "{judged:?}");
        let found = records.verdict(&judged.challenge.to_string()).await.unwrap();
        let found = found.unwrap_or_else(|| panic!("{judged:?} was given out, and is not in the records"));
        assert_eq!((found.record.outcome.as_str(), found.record.miner), ("pass", judged.miner.to_string()));
        assert!(challenges.insert(judged.challenge), "one verdict for a challenge");
        miners.insert(judged.miner);
    }
    records.close().await;
}

#[test]
fn percentiles_are_of_the_nearest_rank() {
    let times = Percentiles::of((1..=200).rev().map(Duration::from_millis));
    assert_eq!((times.count, times.p50_ms, times.p99_ms, times.max_ms), (200, 100.0, 198.0, 200.0));
    let one = Percentiles::of([Duration::from_millis(7)]);
    assert_eq!((one.p50_ms, one.p99_ms, one.max_ms), (7.0, 7.0, 7.0));
    assert_eq!(Percentiles::of([]).count, 0);
}

/// A fleet whose validator takes 10 MB without any miner and 50 kB for each, 1 ms of a core a second for each that is
/// connected, and 5 ms for a verdict.
fn figures(miners: u32) -> Figures {
    let (count, verdicts_per_s) = (f64::from(miners), f64::from(miners) / 10.0);
    let idle = IdleFigures {
        miners,
        connect_s: 1.0,
        empty_bytes: 10_000_000,
        idle_bytes: 0,
        bytes_per_miner: 0,
        seconds: 1.0,
        validator_cores: count * 1e-3,
        network_bytes_per_s: count * 100.0,
    };
    let audited = LoadedFigures {
        miners,
        slots: 3,
        n: 1024,
        samples: 128,
        segments: 32,
        probe_steps: 8,
        seconds: 1.0,
        outcomes: BTreeMap::new(),
        verdicts_per_s,
        asked_per_s: verdicts_per_s,
        since_commitment: Percentiles::default(),
        since_openings: Percentiles::default(),
        validator_ms_per_verdict: 15.0,
        generator_ms_per_verdict: 0.0,
        validator_cores: count * 1e-3 + verdicts_per_s * 5e-3,
        generator_cores: 0.0,
        resident_bytes: 10_000_000 + u64::from(miners) * 50_000,
        peak_bytes: 0,
        records_bytes_per_verdict: 4000.0,
        written_bytes_per_verdict: 0.0,
        sent_bytes_per_verdict: 900_000.0 + 1000.0,
        received_bytes_per_verdict: 0.0,
        sessions_lost: 0,
        not_in_records: 0,
        page: None,
    };
    Figures { idle: Some(idle), audited: Some(audited) }
}

#[test]
fn the_cost_of_a_miner_is_drawn_on_beyond_the_measured_fleets() {
    let costs = costs(&[figures(2000), figures(10), figures(1000)], 144.0);
    assert_eq!(costs.iter().map(|it| it.miners).collect::<Vec<_>>(), [10, 1000, 2000, 3000, 5000, 10_000]);
    for Cost { miners, is_measured, cpu_s, memory_bytes, records_bytes, network_bytes } in costs.iter().copied() {
        let close =
            |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-9, "{miners}: {found} {wanted}");
        assert_eq!(is_measured, miners <= 2000);
        close(cpu_s, 86.4 + 144.0 * 5e-3);
        close(memory_bytes, 50_000.0 + 1e7 / f64::from(miners));
        close(records_bytes, 144.0 * 4000.0);
        close(network_bytes, 86_400.0 * 100.0 + 144.0 * 900_000.0);
    }
    let svg = draw(&costs, "a machine").unwrap();
    assert!(["a machine", "CPU seconds", "resident memory", "records", "network"].iter().all(|it| svg.contains(it)));
    assert_eq!(svg.matches("<circle").count(), 4 * costs.len());
    assert_eq!(table(&costs).matches("drawn on").count(), 3);
}
