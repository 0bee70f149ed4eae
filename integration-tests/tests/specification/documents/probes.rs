//! docs/verdicts.md has the sizes of probes, and what they leave open, as the code chooses them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use assay_integration_tests::document::check_section;
use assay_judge::entropy::SeededEntropy;
use assay_judge::history::ShownRates;
use assay_judge::issue::Sizing;
use assay_judge::probe_size::ProbeSizing;
use assay_judge::verify::hiding::DeviceHiding;
use assay_judge::verify::judge::MISSED_CHANCE;
use assay_policy::Policy;
use assay_policy::profile::ModelProfiles;
use assay_protocol::message::{DeviceClaim, Inventory};
use assay_work::bounds::hidden_fraction;
use assay_work::{DeviceId, Link, Precision, PublicKey};

use crate::documents::source::workspace;

const ROUND_TRIPS_MS: [f64; 3] = [0.2, 5.0, 50.0];
const SEGMENTS: [u32; 2] = [32, 128];

/// A device as it shows itself.
struct Model {
    name: &'static str,
    backend: &'static str,
    memory_bytes: f64,
    /// Multiply-accumulates per second: of the model, and as shown.
    peak_per_s: Option<f64>,
    shown_per_s: f64,
    /// Bytes per second: of the model, and as the probe reads.
    memory_per_s: Option<f64>,
    probe_per_s: f64,
}

/// GPUs at two thirds of their peak; probes read 0.54 of the bandwidth, as WORK.md's example does. The processor is that
/// of docs/measured.md.
fn models() -> Vec<Model> {
    let profiles = ModelProfiles::built_in();
    let gpu = |(name, driver): (&'static str, &str)| {
        let model = profiles.find(driver).unwrap();
        let figure = |figure: &Option<assay_policy::profile::ProfileFigure>| figure.as_ref().unwrap().value;
        let peak_per_s = model.dense_tops(Precision::Int8).unwrap() * 1e12 / 2.0;
        let memory_per_s = figure(&model.memory_gb_per_s) * 1e9;
        Model {
            name,
            backend: "cuda",
            memory_bytes: figure(&model.memory_gb) * 1e9,
            peak_per_s: Some(peak_per_s),
            shown_per_s: peak_per_s * 2.0 / 3.0,
            memory_per_s: Some(memory_per_s),
            probe_per_s: memory_per_s * 0.54,
        }
    };
    let names = [
        ("H200", "NVIDIA H200"),
        ("B200", "NVIDIA B200"),
        ("A100 80 GB", "NVIDIA A100-SXM4-80GB"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
    ];
    let processor = Model {
        name: "2 cores, EPYC",
        backend: "cpu",
        memory_bytes: 16e9,
        peak_per_s: None,
        shown_per_s: 0.89e12,
        memory_per_s: None,
        probe_per_s: 22.9e9,
    };
    names.map(gpu).into_iter().chain([processor]).collect()
}

/// Walks and rounds, and the share of memory that they leave open.
fn sized(model: &Model, round_trip_ms: f64, segments: u32) -> (u32, u32, f64) {
    let mut policy = Policy { n: Some(2048), max_matrices: 1 << 20, segments, ..Policy::default() };
    (policy.hiding.peak_per_s, policy.hiding.memory_bytes_per_s) = (model.peak_per_s, model.memory_per_s);
    let id = DeviceId([1; 16]);
    let free_bytes = model.memory_bytes as u64;
    let device = DeviceClaim {
        id,
        name: model.name.into(),
        backend: model.backend.into(),
        detail: String::new(),
        total_bytes: free_bytes,
        free_bytes,
        slots: DeviceClaim::max_slots(free_bytes),
        precisions: vec![Precision::Int8],
        claimed_hardware: None,
    };
    let inventory = Inventory { devices: vec![device], ..Inventory::default() };
    let rates = ShownRates { rates: BTreeMap::new(), probe_bytes_per_s: model.probe_per_s, linked_bytes_per_s: 0.0 };
    let shown = BTreeMap::from([(id, rates)]);
    let sizing =
        Sizing { precision: Precision::Int8, policy: &policy, inventory: &inventory, shown: &shown, room: None };
    let issued = sizing.issue(PublicKey([1; 32]), PublicKey([2; 32]), &mut SeededEntropy::new(1)).unwrap();
    let share = &issued.challenge.shares()[0];
    let work_time = Duration::from_secs_f64(issued.challenge.multiply_accumulates(share) as f64 / model.shown_per_s);
    let round_trip = Duration::from_secs_f64(round_trip_ms / 1e3);
    let (challenge, round_trip_s) = (&*issued.challenge, round_trip.as_secs_f64());
    let round_trip = Some(round_trip);
    let sizing = ProbeSizing {
        policy: &policy,
        challenge,
        inventory: &inventory,
        shown: &shown,
        round_trip,
        work_time,
        finished: &BTreeMap::new(),
    };
    let probe = sizing.probe(Link::Own, &mut SeededEntropy::new(1)).unwrap();
    let device = inventory.device(id);
    let hiding = DeviceHiding { policy: &policy.hiding, challenge, share, device, work_time };
    let seconds = probe.read_bytes() as f64 / model.probe_per_s + round_trip_s;
    let open_walks = hidden_fraction(segments.into(), 1, MISSED_CHANCE);
    (probe.walks(), probe.rounds(), hiding.timed(&probe, seconds, open_walks).hiding().share)
}

#[test]
fn probes_leave_as_much_open_as_the_page_says() {
    let mut table =
        "| device | round trip, ms | W | R | h at 32 segments | R | h at 128 |\n|---|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for model in models() {
        for round_trip_ms in ROUND_TRIPS_MS {
            let [(walks, rounds, open), (_, more_rounds, less)] =
                SEGMENTS.map(|segments| sized(&model, round_trip_ms, segments));
            let walks = format!("2^{}", walks.ilog2());
            let (open, less) = (100.0 * open, 100.0 * less);
            let name = model.name;
            writeln!(
                table,
                "| {name} | {round_trip_ms} | {walks} | {rounds} | {open:.1} % | {more_rounds} | {less:.1} % |"
            )
            .unwrap();
        }
    }
    check_section(&workspace().join("docs/verdicts.md"), "probes", &table).unwrap_or_else(|error| panic!("{error}"));
}
