//! The metrics of both daemons: what Prometheus takes, and what they count.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use assay_integration_tests::daemon::run;
use assay_integration_tests::miner::TestMiner;
use assay_integration_tests::scrape::Scrape;
use assay_integration_tests::standin_nvml::{Build, StandinNvml};
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::verdict::Mode;

/// Where a miner serves its metrics, as it says.
fn metrics_address(miner: &mut TestMiner) -> SocketAddr {
    let line = miner.daemon.wait_for("metrics are served");
    line["address"].as_str().and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// A validator and a miner with sensors, after a pass.
async fn after_a_pass() -> (TestValidator, TestMiner, SocketAddr) {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut miner = TestMiner::start_for(validator.address, 2, &["--metrics-listen=0"], |ids| {
        StandinNvml::new(Build::Whole, ids).environment()
    });
    let address = metrics_address(&mut miner);
    validator.wait_for_miner(miner.key, true).await;
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    (validator, miner, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn both_daemons_say_what_they_did_as_prometheus_has_it() {
    let (validator, miner, address) = after_a_pass().await;
    let page = Scrape::of_validator(&validator.socket);
    page.check();
    for (series, value) in [
        ("assay_validator_verdicts_total{mode=\"audit\",outcome=\"pass\"}", 1.0),
        ("assay_validator_verdicts_total{mode=\"audit\",outcome=\"fail\"}", 0.0),
        ("assay_validator_challenge_phase_seconds_count{phase=\"commitment_to_verdict\"}", 1.0),
        ("assay_validator_challenges_started_total{asked=\"operator\"}", 1.0),
        ("assay_validator_challenges_running{phase=\"work\"}", 0.0),
        ("assay_validator_sessions_total{outcome=\"entered\"}", 1.0),
        ("assay_validator_sessions_total{outcome=\"full\"}", 0.0),
        ("assay_validator_connections_total{outcome=\"tls\"}", 0.0),
        ("assay_validator_connections_total{outcome=\"rate\"}", 0.0),
        ("assay_validator_miners_connected", 1.0),
        ("assay_validator_miners{state=\"passing\",status=\"pending\"}", 1.0),
        ("assay_validator_miners_overdue", 0.0),
        ("assay_validator_challenges_blocked{cause=\"records\"}", 0.0),
        ("assay_validator_challenges_blocked{cause=\"draining\"}", 0.0),
        ("assay_validator_jobs_running{kind=\"check\"}", 0.0),
        ("assay_validator_capacity{of=\"replay_devices\"}", 1.0),
        ("assay_validator_jobs_waiting{kind=\"delivery\"}", 0.0),
        ("assay_validator_jobs_waiting{kind=\"upload\"}", 0.0),
    ] {
        assert_eq!(page.value(series), value, "{series}");
    }
    for phase in ["work", "probe", "openings", "record"] {
        let count = page.value(&format!("assay_validator_challenge_phase_seconds_count{{phase=\"{phase}\"}}"));
        assert_eq!(count, 1.0, "{phase}");
    }
    for series in [
        "network_bytes_total{direction=\"receive\"}",
        "network_bytes_total{direction=\"transmit\"}",
        "records_writes_total{outcome=\"done\"}",
        "challenge_phase_seconds_count{phase=\"check\"}",
    ] {
        assert!(page.value(&format!("assay_validator_{series}")) > 0.0, "{series}");
    }
    assert!(page.value("process_resident_memory_bytes") > 1e6);
    // It has the verdict once the validator does.
    let page = Scrape::until(
        || Scrape::of_miner(address),
        |page| page.value("assay_miner_verdicts_total{outcome=\"pass\"}") == 1.0,
    );
    page.check();
    assert_eq!(page.value("assay_miner_validators{state=\"connected\"}"), 1.0);
    assert!(page.value("assay_miner_last_verdict_timestamp_seconds{outcome=\"pass\"}") > 1.7e9);
    assert_eq!(page.value("assay_miner_last_verdict_timestamp_seconds{outcome=\"fail\"}"), 0.0);
    for phase in ["fill", "probe", "open"] {
        let count = format!("assay_miner_challenge_phase_seconds_count{{end=\"done\",phase=\"{phase}\"}}");
        assert_eq!(page.value(&count), 1.0, "{phase}");
    }
    assert_eq!(page.value("assay_miner_challenges_total{event=\"started\"}"), 1.0);
    let states: Vec<_> = page.series.iter().filter(|(name, _)| name.starts_with("assay_miner_device_state{")).collect();
    let up: Vec<_> = states.iter().filter(|(_, is_it)| **is_it == 1.0).map(|(name, _)| *name).collect();
    assert!(up.len() == 2 && up.iter().all(|name| name.ends_with("state=\"up\"}")), "{states:?}");
    drop(miner);
}

/// The sensors are read between challenges too, and in base units.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_shows_its_sensors_without_a_challenge() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut miner = TestMiner::start_for(validator.address, 1, &["--metrics-listen=0"], |ids| {
        StandinNvml::new(Build::Whole, ids).environment()
    });
    let address = metrics_address(&mut miner);
    let of = |page: &Scrape, name: &str, label: &str| {
        let is_it =
            |series: &str| series.starts_with(name) && series.contains("device=\"0\"") && series.contains(label);
        page.series.iter().find(|(series, _)| is_it(series)).map(|(_, value)| *value)
    };
    let page =
        Scrape::until(|| Scrape::of_miner(address), |page| of(page, "assay_miner_device_power_watts", "").is_some());
    page.check();
    assert!((640.0..=642.0).contains(&of(&page, "assay_miner_device_power_watts", "").unwrap()));
    assert_eq!(of(&page, "assay_miner_device_clock_hertz", "clock=\"sm\""), Some(1.59e9));
    let used = of(&page, "assay_miner_device_memory_bytes", "kind=\"used\"");
    assert_eq!(used, Some(f64::from(100 << 10) * f64::from(1 << 20)));
    assert_eq!(of(&page, "assay_miner_device_throttled", ""), Some(1.0), "sw_thermal");
    assert_eq!(page.value("assay_miner_challenges_total{event=\"started\"}"), 0.0);
}

/// A peer adds no series by connecting: neither keys nor ids, names or addresses are in a page.
#[tokio::test(flavor = "multi_thread")]
async fn no_peer_adds_a_series() {
    let (validator, mut miner, address) = after_a_pass().await;
    let before = Scrape::of_validator(&validator.socket);
    let other = TestMiner::start(validator.address, 1, &[]);
    validator.wait_for_miner(other.key, true).await;
    validator.challenge(other.key, Some(Mode::Replay)).await.unwrap().expect_pass();
    let mut stranger = TcpStream::connect(validator.address).unwrap();
    stranger.write_all(b"GET /\xff\xfe HTTP/1.1\r\n\r\n").unwrap();
    let after = Scrape::of_validator(&validator.socket);
    // Routes of the API are the code's own, and there once they were asked.
    let is_fixed = |series: &&String| !series.starts_with("assay_validator_http_");
    let names = |page: &Scrape| page.series.keys().filter(is_fixed).cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&before), names(&after), "the same series, whoever comes");
    let challenge = miner.daemon.wait_for("working")["challenge"].as_str().unwrap().to_owned();
    for secret in [&miner.key.to_string(), &other.key.to_string(), &challenge, "127.0.0.1"] {
        assert!(!after.text.contains(secret), "{secret} in {}", after.text);
        assert!(!Scrape::of_miner(address).text.contains(secret), "{secret}");
    }
}

/// Who reads the metrics, or will not, takes nothing from a challenge.
#[tokio::test(flavor = "multi_thread")]
async fn scrapers_that_hang_disturb_nothing() {
    let (validator, miner, address) = after_a_pass().await;
    let mut held: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut held {
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    }
    validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
    drop(held);
    let page = Scrape::until(
        || Scrape::of_miner(address),
        |page| page.value("assay_miner_verdicts_total{outcome=\"pass\"}") == 2.0,
    );
    page.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_is_a_mistake_at_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let key = format!("--key-file={}", folder.path().join("miner.key").display());
    let metrics = format!("--metrics-listen={port}");
    let common = ["run", "--validator=127.0.0.1:9", "--backend=cpu", "--cpu-devices=1", "--cpu-memory=8MiB"];
    let output = run("assay-miner", common.into_iter().chain([key.as_str(), &metrics]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("metrics_listen"), "{said}");
}
