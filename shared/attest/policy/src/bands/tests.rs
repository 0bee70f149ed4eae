use super::*;
use crate::distribution::{Deviation, Sample, Speed, Spread};
use crate::profile::ModelProfiles;

fn policy() -> BandPolicy {
    BandPolicy::default()
}

fn measured(tops: f64, gb_per_s: f64) -> DeviceSpeed {
    DeviceSpeed {
        precision: Precision::Int8,
        device_id: DeviceId([7; 16]),
        model: "NVIDIA H200".to_owned(),
        n: 8192,
        seconds: 10.0,
        tops,
        gb_per_s,
        bytes_held: 120_000_000_000,
        fill_share: Some(0.9),
        has_short_probe: false,
    }
}

fn sample(operator: &str, miner: usize, tops: f64) -> Sample {
    let operator = Some(operator.to_owned());
    Sample { operator, miner: miner.to_string(), n: 8192, tops, gb_per_s: tops }
}

/// Six honest operators with hosts that differ by a few percent: 1300 TOPS and as many GB/s.
fn honest() -> Vec<Sample> {
    let hosts = |operator: usize| {
        (0..4)
            .map(move |host| sample(&format!("honest {operator}"), host, 1270.0 + 15.0 * host as f64 + operator as f64))
    };
    (0..6).flat_map(hosts).collect()
}

fn found(samples: &[Sample], own: Option<&str>, measured: &DeviceSpeed) -> Vec<FindingCode> {
    let fleet = Distribution::of(samples, measured.n, own);
    judge_speed(None, fleet.as_ref(), measured, &policy()).into_iter().map(|finding| finding.code).collect()
}

#[test]
fn a_device_is_held_against_its_profile() {
    let profiles = ModelProfiles::built_in();
    let h200 = profiles.find("NVIDIA H200");
    let codes = |measured: &DeviceSpeed| {
        let findings = judge_speed(h200, None, measured, &policy());
        assert!(findings.iter().all(|finding| finding.basis == Basis::Profile && !finding.enforced));
        findings.into_iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    assert_eq!(codes(&measured(1300.0, 2000.0)), []);
    assert_eq!(codes(&measured(300.0, 2000.0)), [FindingCode::TooSlow]);
    assert_eq!(codes(&measured(2600.0, 2000.0)), [FindingCode::TooFast], "two devices under one name");
    assert_eq!(codes(&measured(1300.0, 300.0)), [FindingCode::BandwidthBelowClaim]);
    assert_eq!(codes(&measured(1300.0, 7000.0)), [FindingCode::TooFast]);
    let half = DeviceSpeed { bytes_held: 60_000_000_000, ..measured(1300.0, 2000.0) };
    assert_eq!(codes(&half), [FindingCode::MemoryBelowClaim]);
    let asked_for_half = DeviceSpeed { fill_share: Some(0.45), ..half.clone() };
    assert_eq!(codes(&asked_for_half), []);
    assert_eq!(codes(&DeviceSpeed { fill_share: None, ..half }), []);
    let short = DeviceSpeed { seconds: 0.5, ..measured(300.0, 2000.0) };
    assert_eq!(codes(&short), [], "the start weighs too much in short work");
}

#[test]
fn a_figure_that_nobody_states_is_not_judged() {
    let profiles = ModelProfiles::built_in();
    let v100 = profiles.find("Tesla V100-SXM2-16GB").unwrap();
    let small = DeviceSpeed { bytes_held: 13_000_000_000, ..measured(0.001, 400.0) };
    assert_eq!(judge_speed(Some(v100), None, &small, &policy()), []);
}

#[test]
fn enforcing_is_said_for_each_basis() {
    let enforced = |profile, fleet| {
        let policy = BandPolicy { enforce_profile: profile, enforce_fleet: fleet, ..policy() };
        let profiles = ModelProfiles::built_in();
        let fleet = Distribution::of(&honest(), 8192, None);
        let findings = judge_speed(profiles.find("NVIDIA H200"), fleet.as_ref(), &measured(300.0, 1300.0), &policy);
        findings.into_iter().map(|finding| (finding.basis, finding.enforced)).collect::<Vec<_>>()
    };
    assert_eq!(enforced(false, false), [(Basis::Profile, false), (Basis::Fleet, false)], "bands begin in the shadow");
    assert_eq!(enforced(true, false), [(Basis::Profile, true), (Basis::Fleet, false)]);
    assert_eq!(enforced(false, true), [(Basis::Profile, false), (Basis::Fleet, true)]);
}

#[test]
fn a_device_is_held_against_the_fleet() {
    assert_eq!(found(&honest(), None, &measured(1290.0, 1290.0)), []);
    assert_eq!(found(&honest(), None, &measured(900.0, 1290.0)), [FindingCode::TooSlow]);
    assert_eq!(found(&honest(), None, &measured(1700.0, 1290.0)), [FindingCode::TooFast]);
    assert_eq!(found(&honest(), None, &measured(1290.0, 600.0)), [FindingCode::BandwidthBelowClaim]);
    let short = |tops, gb_per_s| DeviceSpeed { has_short_probe: true, ..measured(tops, gb_per_s) };
    assert_eq!(found(&honest(), None, &short(1290.0, 600.0)), []);
    assert_eq!(found(&honest(), None, &short(900.0, 1700.0)), [FindingCode::TooSlow, FindingCode::TooFast]);
    let other_size = DeviceSpeed { n: 2048, ..measured(900.0, 900.0) };
    assert_eq!(found(&honest(), None, &other_size), [], "no host was measured at that size");
    let fleet = Distribution::of(&honest(), 8192, None).unwrap();
    let [finding] = &judge_speed(None, Some(&fleet), &measured(900.0, 1290.0), &policy())[..] else { panic!() };
    let figures = [0.001_694, 0.083_2, 0.199_6, 12.34, 1489.8].map(|figure| Figure(figure).to_string());
    assert_eq!(figures, ["0.00169", "0.0832", "0.200", "12.3", "1490"]);
    assert_eq!(finding.detail, "TOPS: 900 were shown, 24 hosts of 6 operators at int8, n = 8192 show 1126 to 1490");
}

#[test]
fn a_slow_device_is_below_the_band_of_a_fleet_whose_hosts_vary() {
    // Hosts of one model that vary by a third of their median: a band by differences begins at 0.
    let varied: Vec<_> =
        honest().into_iter().map(|sample| Sample { tops: sample.tops * VARIED[host_of(&sample)], ..sample }).collect();
    let fleet = Distribution::of(&varied, 8192, None).unwrap();
    let band = Bands::of(&fleet, &policy()).unwrap().tops;
    assert!(band.low > 0.0 && band.high > 2.0 * band.low, "{band:?}");
    let judged = |tops: f64| found(&varied, None, &measured(tops, 1290.0));
    assert_eq!(judged(1290.0 / 50.0), [FindingCode::TooSlow], "{band:?}");
    assert_eq!(judged(1290.0 * 50.0), [FindingCode::TooFast], "{band:?}");
    for sample in &varied {
        assert_eq!(judged(sample.tops), [], "an honest host: {band:?}");
    }
    // Even at the widest, no value is a division by zero.
    let widest = BandPolicy { width: 1e9, ..policy() };
    let band = Bands::of(&fleet, &widest).unwrap().tops;
    assert_eq!((band.low, band.high), (0.0, f64::INFINITY));
}

const VARIED: [f64; 4] = [0.6, 0.85, 1.15, 1.4];

fn host_of(sample: &Sample) -> usize {
    sample.miner.parse().unwrap()
}

#[test]
fn evidence_of_a_band_by_differences_is_judged_by_them_again() {
    let spread = "median = 100.0\nsigma = 30.0\n";
    let old: Spread = toml::from_str(spread).unwrap();
    assert_eq!(old, Spread { median: 100.0, deviation: Deviation::Sigma(30.0) });
    let speed = |spread| Speed { tops: spread, gb_per_s: spread };
    let fleet = |spread| Distribution { n: 8192, hosts: 8, operators: 5, all: speed(spread), without_one: vec![] };
    let band = |spread| Bands::of(&fleet(spread), &policy()).unwrap().tops;
    assert_eq!(band(old), Band { low: 0.0, high: 220.0 });
    let narrow = Spread { deviation: Deviation::Sigma(1.0), ..old };
    assert_eq!(band(narrow), Band { low: 85.0, high: 115.0 });
    // A new distribution reads back bit for bit.
    let new = fleet(Spread { median: 1.0 / 3.0, deviation: Deviation::LogSigma(0.1) });
    let read: Distribution = toml::from_str(&toml::to_string(&new).unwrap()).unwrap();
    assert_eq!(read, new);
    assert_eq!(toml::to_string(&old).unwrap(), spread);
}

#[test]
fn a_band_rests_on_enough_hosts_and_operators() {
    let slow = measured(100.0, 100.0);
    let of = |operators: usize| -> Vec<_> {
        let is_in =
            |sample: &Sample| sample.operator.as_deref().is_some_and(|name| name < &*format!("honest {operators}"));
        honest().into_iter().filter(is_in).collect()
    };
    assert_eq!(found(&of(4), None, &slow), [], "four operators, five are asked for");
    assert_eq!(found(&of(5), None, &slow).len(), 2);
    assert_eq!(found(&of(5), Some("honest 1"), &slow), [], "its own operator's do not count");
    let few: Vec<_> = honest().into_iter().filter(|sample| sample.miner == "0").collect();
    assert_eq!(found(&few, None, &slow), [], "six hosts, eight are asked for");
}

/// Samples of honest hosts and of a liar, as each test below uses them.
fn poisoned(tops: f64, hosts: usize) -> Vec<Sample> {
    let mut samples = honest();
    samples.extend((0..hosts).map(|host| sample("liar", host, tops)));
    samples
}

#[test]
fn no_operator_s_hosts_make_others_fail() {
    // A thousand hosts that are three times as fast, or a hundredth as fast, or just beside the others.
    for tops in [3900.0, 13.0, 1600.0, 1000.0, 1350.0] {
        for hosts in [1, 20, 1000] {
            for host in [1270.0, 1290.0, 1320.0] {
                let codes = found(&poisoned(tops, hosts), Some("victim"), &measured(host, host));
                assert_eq!(codes, [], "{hosts} hosts of {tops} TOPS, against {host}");
            }
        }
    }
}

#[test]
fn no_operator_s_hosts_clear_its_own() {
    // Its own hosts, however many, do not widen the band that they are judged by.
    let codes = found(&poisoned(900.0, 1000), Some("liar"), &measured(900.0, 900.0));
    assert_eq!(codes, [FindingCode::TooSlow, FindingCode::BandwidthBelowClaim]);
    assert_eq!(codes, found(&honest(), Some("liar"), &measured(900.0, 900.0)));
}

#[test]
fn an_operator_shifts_a_band_no_further_than_honest_hosts_stand() {
    // Bounds of the band without the liar, and with one that shows the worst it can.
    let band = |samples: &[Sample]| {
        let fleet = Distribution::of(samples, 8192, Some("other")).unwrap();
        Bands::of(&fleet, &policy()).unwrap().tops
    };
    let plain = band(&honest());
    for tops in [0.001, 1e9, 1280.0] {
        let shifted = band(&poisoned(tops, 1000));
        let by = |a: f64, b: f64| ((a - b) / b).abs();
        assert!(by(shifted.low, plain.low) < 0.05, "{plain:?} {shifted:?}");
        assert!(by(shifted.high, plain.high) < 0.05, "{plain:?} {shifted:?}");
    }
    // A mean instead of a median would fail this test.
    let mean = poisoned(1e9, 1000).iter().map(|sample| sample.tops).sum::<f64>() / 1024.0;
    assert!(mean > 1e8);
}

#[test]
fn the_speed_of_another_model_is_named() {
    let scaled = |by: f64| -> Vec<_> {
        honest()
            .into_iter()
            .map(|sample| Sample { tops: sample.tops * by, gb_per_s: sample.gb_per_s * by, ..sample })
            .collect()
    };
    let fleets: BTreeMap<_, _> = [("NVIDIA H200", 1.0), ("NVIDIA A100-SXM4-80GB", 0.4), ("NVIDIA B200", 2.5)]
        .map(|(model, by)| (model.to_owned(), Distribution::of(&scaled(by), 8192, None).unwrap()))
        .into();
    assert_eq!(judge_model(&fleets, &measured(1290.0, 1290.0), &policy()), None);
    let short = DeviceSpeed { has_short_probe: true, ..measured(520.0, 520.0) };
    assert_eq!(judge_model(&fleets, &short, &policy()), None, "how slow it reads is not known");
    let finding = judge_model(&fleets, &measured(520.0, 520.0), &policy()).unwrap();
    assert_eq!((finding.code, finding.enforced), (FindingCode::ModelMismatch, false));
    let detail = "it claims to be \"NVIDIA H200\"; 520 TOPS and 520 GB/s are those of \"NVIDIA A100-SXM4-80GB\"";
    assert_eq!(finding.detail, detail);
    assert_eq!(judge_model(&fleets, &measured(800.0, 800.0), &policy()), None, "of no model");
    assert_eq!(judge_model(&fleets, &measured(520.0, 1290.0), &policy()), None, "only its work is another's");
    let unknown = DeviceSpeed { model: "Unknown".to_owned(), ..measured(520.0, 520.0) };
    assert_eq!(judge_model(&fleets, &unknown, &policy()), None);
}

/// A device with these multiply-accumulates and bytes read, in the host's time.
fn device(id: u8, name: &str, macs: u128, bytes: u64) -> DeviceWork {
    let (seconds, probe_seconds) = (10.0, 0.25);
    let work = Work {
        multiply_accumulates: macs,
        seconds,
        tops: 2.0 * macs as f64 / seconds / 1e12,
        probe_bytes: bytes,
        probe_seconds,
        probe_gb_per_s: bytes as f64 / probe_seconds / 1e9,
        bytes_held: 120_000_000_000,
        ..Work::default()
    };
    DeviceWork {
        device_id: DeviceId([id; 16]),
        name: name.to_owned(),
        work,
        claimed_telemetry: None,
        sweep: None,
        rates: Vec::new(),
        hiding: None,
    }
}

/// Findings about a host by its profiles alone.
fn of_host(devices: &[DeviceWork]) -> Vec<(u8, FindingCode)> {
    let built_in = ModelProfiles::built_in();
    let claimed = devices.iter().filter_map(|device| Some((device.name.clone(), built_in.find(&device.name)?.clone())));
    let (models, profiles, fleets) = (BTreeMap::new(), claimed.collect(), BTreeMap::new());
    let known = Reference { models: &models, profiles: &profiles, fleets: &fleets, precision: Precision::Int8 };
    let findings = known.judge(devices, 8192, None, &policy());
    findings.into_iter().map(|finding| (finding.device_id.0[0], finding.code)).collect()
}

/// Multiply-accumulates of 1300 TOPS for ten seconds, and bytes of 2000 GB/s for a quarter of one.
const MACS: u128 = 6_500_000_000_000_000;
const BYTES: u64 = 500_000_000_000;

#[test]
fn a_slower_device_excuses_no_other() {
    assert_eq!(of_host(&[device(1, "NVIDIA H200", MACS, BYTES)]), []);
    // Each device has times of its own, beside a card that is known to take longer, an unknown one, and its own model.
    let late = device(4, "NVIDIA H200", MACS / 8, BYTES / 10);
    let both = [(4, FindingCode::TooSlow), (4, FindingCode::BandwidthBelowClaim)];
    let others = [("NVIDIA L4", 10), ("made up", 100), ("NVIDIA H200", 1)];
    for (name, slower) in others {
        assert_eq!(of_host(&[device(3, name, MACS / slower, BYTES / slower as u64), late.clone()]), both);
    }
    assert_eq!(of_host(&[device(8, "NVIDIA H200", MACS * 2, BYTES)]), [(8, FindingCode::TooFast)]);
    // Less than half of the time of another is too short to tell how slow a device reads.
    let beside = |other, probe_seconds: f64, gb_per_s: f64| {
        let mut short = device(9, "NVIDIA H200", MACS, BYTES);
        (short.work.probe_seconds, short.work.probe_gb_per_s) = (probe_seconds, gb_per_s);
        of_host(&[device(3, other, MACS / 10, BYTES / 10), short])
    };
    let below = [(9, FindingCode::BandwidthBelowClaim)];
    assert_eq!(beside("NVIDIA L4", 0.126, 200.0), below);
    assert_eq!(beside("NVIDIA L4", 0.124, 200.0), []);
    assert_eq!(beside("NVIDIA L4", 0.124, 7000.0), [(9, FindingCode::TooFast)]);
    // A device of an unknown model could be added for that purpose.
    assert_eq!(beside("made up", 0.124, 200.0), below);
}

#[test]
fn only_what_was_shown_is_measured() {
    let models = [(DeviceId([1; 16]), "NVIDIA H200".to_owned())].into();
    let (profiles, fleets) = (BTreeMap::new(), BTreeMap::new());
    let known = Reference { models: &models, profiles: &profiles, fleets: &fleets, precision: Precision::Int8 };
    let mut shown = device(1, "CUDA 0", MACS, BYTES);
    let [measured] = &known.measured(std::slice::from_ref(&shown), 512, None)[..] else { panic!() };
    assert_eq!((&*measured.model, measured.n, measured.tops, measured.gb_per_s), ("NVIDIA H200", 512, 1300.0, 2000.0));
    shown.work.probe_gb_per_s = 0.0;
    assert_eq!(known.measured(&[shown], 512, None), []);
}
