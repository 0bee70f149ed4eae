//! `assay-miner diag` on processor devices: an honest machine passes, and each planted fault is found and located.

use std::process::Output;

use assay_integration_tests::daemon::{self, Daemon, program};
use assay_integration_tests::faulty::{Fault, Lie};
use assay_integration_tests::miner::device_ids;
use assay_integration_tests::standin_nvml::{Build, StandinNvml};
use serde_json::Value;
use tempfile::TempDir;

/// Small passes on one kernel: two passes before the first round, then two in each round.
const SMALL: [&str; 8] = [
    "diag",
    "--backend=cpu",
    "--cpu-memory=8MiB",
    "--cpu-threads=1",
    "--telemetry=off",
    "--n=256",
    "--share=16",
    "--kernels=portable",
];
/// The first pass of the first round, as a worker counts.
const FIRST_PASS: u64 = 3;

pub struct Burned {
    pub code: Option<i32>,
    pub report: Value,
    pub log: String,
}

impl Burned {
    /// A burn-in of `devices` devices, with or without a fault.
    fn run(devices: u32, fault: Option<&Fault>, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = arguments(&folder, devices, flags);
        let mut environment = fault.map(Fault::environment).unwrap_or_default();
        environment.extend(fault.map(|_| ("ASSAY_WORKER_PROGRAM".to_owned(), program("assay-faulty-worker").into())));
        let output = daemon::run_in("assay-miner", arguments, &environment);
        Self::of(&output)
    }

    pub fn of(output: &Output) -> Self {
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {log}"));
        Self { code: output.status.code(), report, log }
    }

    fn device(&self, index: usize) -> &Value {
        let devices = self.report["devices"].as_array().expect("a list");
        let is_it = |device: &&Value| device["name"].as_str().unwrap().ends_with(&format!("CPU device {index}"));
        devices.iter().find(is_it).expect("the device")
    }

    /// The findings of a device that fail it.
    fn failures(&self, index: usize) -> Vec<&Value> {
        let findings = self.device(index)["findings"].as_array().expect("a list");
        findings.iter().filter(|finding| finding["severity"] == "fail").collect()
    }

    /// The only failure of a device, which is of this test.
    fn only_failure(&self, index: usize, test: &str) -> &Value {
        assert_eq!((self.code, &self.report["verdict"]), (Some(1), &Value::from("fail")), "{}", self.log);
        let failures = self.failures(index);
        assert!(failures.len() == 1 && failures[0]["test"] == test, "{failures:#?}");
        failures[0]
    }

    fn status(&self, index: usize, test: &str) -> &str {
        let tests = self.device(index)["tests"].as_array().expect("a list");
        tests.iter().find(|of| of["test"] == test).expect("the test")["status"].as_str().unwrap()
    }
}

fn arguments(folder: &TempDir, devices: u32, flags: &[&str]) -> Vec<String> {
    let key = format!("--key-file={}", folder.path().join("key").display());
    let own = [key, format!("--cpu-devices={devices}"), "--json".into(), "--log=info".into()];
    let given = SMALL.iter().filter(|common| !flags.iter().any(|flag| same_flag(flag, common)));
    given.chain(flags).map(|flag| (*flag).to_owned()).chain(own).collect()
}

fn same_flag(a: &str, b: &str) -> bool {
    a.split('=').next() == b.split('=').next()
}

/// The bit that tests turn: slot 5, row 17, column 201, bit 5.
const FLIP: Lie = Lie::Flip { slot: 5, byte: 17 * 256 + 201, bytes: 1, mask: 0x20 };

fn assert_located(finding: &Value) {
    let at = &finding["location"];
    let number = |name: &str| at[name].as_u64().unwrap_or_else(|| panic!("{name} of {finding:#}"));
    assert_eq!([number("slot"), number("row"), number("column"), number("bit")], [5, 17, 201, 5], "{finding:#}");
    assert_eq!((number("byte"), number("wrong_bytes"), number("wrong_bits")), (17 * 256 + 201, 1, 1));
    assert_eq!(number("expected") ^ number("found"), 0x20);
    assert_eq!(finding["kernel"], "portable");
}

#[test]
fn an_honest_machine_passes_with_every_kernel_and_every_test() {
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("chart.svg");
    let svg = format!("--svg={}", chart.display());
    let all = "--kernels=amx-int8,avx512-vnni,avx-vnni,avx2,neon-i8mm,neon-dot,portable";
    let burned = Burned::run(2, None, &["--rounds=2", &svg, all]);
    assert_eq!((burned.code, &burned.report["verdict"]), (Some(0), &Value::from("pass")), "{}", burned.log);
    for index in 0..2 {
        let device = burned.device(index);
        assert_eq!((&device["verdict"], device["rounds"].as_u64()), (&Value::from("pass"), Some(2)), "{device:#}");
        assert_eq!(burned.failures(index).len(), 0);
        let kernels = device["kernels"].as_array().unwrap();
        assert!(kernels.iter().any(|kernel| kernel["name"] == "portable"), "{kernels:?}");
        // Twice each before the first round; in each round each kernel, and at least two passes.
        let passes = 2 * kernels.len() + 2 * kernels.len().max(2);
        assert_eq!(device["passes"].as_u64(), Some(passes as u64));
        for test in ["device", "passes", "samples", "probe", "copies"] {
            assert_eq!(burned.status(index, test), "pass", "{test}");
        }
        assert_eq!(burned.status(index, "sensors"), "not_done");
        assert_eq!(device["sensors"], Value::Null);
        let rates = device["rates"].as_array().unwrap();
        for measure in ["products", "passes", "probe", "host_to_device", "within_device", "device_to_host"] {
            let rate = rates.iter().find(|rate| rate["measure"] == measure).unwrap_or_else(|| panic!("{measure}"));
            assert!(rate["p50"].as_f64().unwrap() >= rate["p99"].as_f64().unwrap(), "{rate:#}");
        }
    }
    assert!(std::fs::read_to_string(chart).unwrap().contains("<svg"));
    // The same seed makes the same passes, and the text has a verdict for each device.
    let seed = format!("--seed={}", burned.report["seed"].as_str().unwrap());
    let mut arguments = arguments(&folder, 2, &["--rounds=1", &seed]);
    arguments.retain(|argument| argument != "--json");
    let output = daemon::run("assay-miner", arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with("PASS: 2 devices passed"), "{text}");
    assert_eq!(text.matches("(cpu): PASS").count(), 2, "{text}");
    assert!(text.contains("What it does not show") && text.contains("sensors: not available"), "{text}");
}

/// Two devices compare each pass while it is in the memory of both: whichever pass it is, the bit is found.
#[test]
fn a_bit_that_flips_once_is_located_on_the_device_that_has_it() {
    let burned = Burned::run(2, Some(&Fault::of_first(FIRST_PASS, FLIP)), &["--rounds=2"]);
    let finding = burned.only_failure(0, "passes");
    assert_located(finding);
    assert_eq!((finding["round"].as_u64(), finding["pass"].as_u64()), (Some(1), Some(FIRST_PASS)));
    assert_eq!(finding["again"], "right");
    let slots = burned.device(0)["kernels"][0]["slots"].as_u64().unwrap();
    assert_eq!(finding["slots_that_differ"].as_u64(), Some(slots - 5), "all that follow from it");
    assert_eq!(burned.device(1)["verdict"], "pass", "the other device is right");
    assert_eq!(burned.device(0)["rounds"].as_u64(), Some(2), "it went on");
}

/// A single device compares with itself: its second pass shows the bit exactly.
#[test]
fn a_single_device_finds_its_own_flip() {
    let burned = Burned::run(1, Some(&Fault::of_first(FIRST_PASS + 1, FLIP)), &["--rounds=1"]);
    assert_located(burned.only_failure(0, "passes"));
    // Of the first one, the bytes are gone when the second shows that it was wrong.
    let burned = Burned::run(1, Some(&Fault::of_first(FIRST_PASS, FLIP)), &["--rounds=1"]);
    let finding = burned.only_failure(0, "passes");
    assert_eq!((&finding["location"], &finding["again"]), (&Value::Null, &Value::from("right")));
    let text = finding["text"].as_str().unwrap();
    assert!(text.contains("wrong from slot 5 on") && text.contains("overwritten"), "{text}");
}

#[test]
fn a_bit_that_is_wrong_every_time_is_told_from_one_that_flips() {
    let fault = Fault { again: true, ..Fault::of_first(FIRST_PASS, FLIP) };
    let burned = Burned::run(2, Some(&fault), &["--rounds=1"]);
    assert_eq!(burned.code, Some(1), "{}", burned.log);
    let failures = burned.failures(0);
    assert_eq!(failures.len(), 2, "each pass of the round: {failures:#?}");
    for finding in failures {
        assert_located(finding);
        assert_eq!(finding["again"], "same_wrong");
    }
    assert_eq!(burned.device(1)["verdict"], "pass");
}

/// Devices can agree on a wrong result, and samples show it.
#[test]
fn two_devices_of_the_same_broken_kind_fail() {
    let lie = Lie::Flip { slot: 5, byte: 0, bytes: 256 * 256, mask: 0x01 };
    let fault = Fault { devices: vec![0, 1], again: true, ..Fault::of_first(FIRST_PASS, lie) };
    let burned = Burned::run(2, Some(&fault), &["--rounds=1", "--samples=400"]);
    assert_eq!(burned.code, Some(1), "{}", burned.log);
    for index in 0..2 {
        assert_eq!((burned.status(index, "passes"), burned.status(index, "samples")), ("pass", "fail"));
        let at = &burned.failures(index)[0]["location"];
        assert_eq!((at["slot"].as_u64(), at["wrong_bytes"].as_u64()), (Some(5), Some(256 * 256)), "{at:#}");
    }
    // Samples alone find this fault.
    let burned = Burned::run(2, Some(&fault), &["--rounds=1", "--samples=0"]);
    assert_eq!((burned.code, burned.status(0, "samples")), (Some(0), "not_done"), "{}", burned.log);
}

#[test]
fn a_digest_that_is_not_its_slots_is_found() {
    let burned = Burned::run(2, Some(&Fault::of_first(FIRST_PASS, Lie::Digest(4))), &["--rounds=1"]);
    let finding = burned.only_failure(0, "passes");
    let text = finding["text"].as_str().unwrap();
    assert!(
        text.contains("the digest of slot 4 is wrong") && text.contains("bytes that were read are right"),
        "{text}"
    );
    assert_eq!(finding["location"], Value::Null);
}

#[test]
fn a_wrong_digest_of_a_probe_is_found() {
    // The first probe of the first round, in its second round.
    let burned = Burned::run(1, Some(&Fault::of_first(1, Lie::Probe(1))), &["--rounds=1"]);
    let finding = burned.only_failure(0, "probe");
    assert!(finding["text"].as_str().unwrap().starts_with("round 1 of 2 of the probe gave"), "{finding:#}");
    assert_eq!(finding["again"], "right");
    // Every time: walking twice shows nothing, walks of the processor do.
    let always = Fault { again: true, ..Fault::of_first(1, Lie::Probe(1)) };
    let burned = Burned::run(1, Some(&always), &["--rounds=1"]);
    burned.only_failure(0, "probe");
}

#[test]
fn a_copy_that_corrupts_is_found() {
    let burned = Burned::run(2, Some(&Fault::of_first(1, Lie::Copy(77))), &["--rounds=1"]);
    let text = burned.only_failure(0, "copies")["text"].as_str().unwrap();
    assert!(text.contains("device to host") && text.contains("byte 77, bit 3 is wrong"), "{text}");
    assert_eq!(burned.device(1)["verdict"], "pass");
}

#[test]
fn a_worker_that_dies_fails_its_device_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let once = Some(folder.path().join("once"));
    let fault = Fault { once, ..Fault::of_first(FIRST_PASS, Lie::Exit) };
    let burned = Burned::run(2, Some(&fault), &["--rounds=3"]);
    let text = burned.only_failure(0, "device")["text"].as_str().unwrap();
    assert!(text.contains("lost in round 1") && text.contains("ended with code 9"), "{text}");
    assert!(burned.device(0)["rounds"].as_u64() >= Some(1), "it came back and went on");
    assert_eq!((&burned.device(1)["verdict"], burned.device(1)["rounds"].as_u64()), (&"pass".into(), Some(3)));
}

/// Without a sign of life, and alive without progress.
#[test]
fn a_worker_that_hangs_fails_its_device() {
    for (lie, said) in [(Lie::Stop, "hung"), (Lie::Hang, "made no progress for 3 s")] {
        let folder = tempfile::tempdir().unwrap();
        let once = Some(folder.path().join("once"));
        let fault = Fault { once, ..Fault::of_first(FIRST_PASS, lie) };
        let burned = Burned::run(1, Some(&fault), &["--rounds=2", "--worker-silence-s=2", "--stall-s=3"]);
        let text = burned.only_failure(0, "device")["text"].as_str().unwrap();
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn a_device_that_slows_down_fails_by_the_limit_for_drift() {
    let fault = Fault { again: true, ..Fault::of_first(FIRST_PASS + 12, Lie::Slow(20)) };
    let flags = ["--rounds=12", "--share=1", "--max-drift-percent=50", "--samples=1"];
    let burned = Burned::run(1, Some(&fault), &flags);
    // On a busy machine its probe can have slowed down too.
    let failures = burned.failures(0);
    let texts: Vec<_> = failures.iter().map(|failure| (&failure["test"], failure["text"].as_str().unwrap())).collect();
    assert!(texts.iter().all(|(test, _)| *test == "speed"), "{texts:?}");
    assert!(texts.iter().any(|(_, text)| text.contains("passes with portable slowed down by")), "{texts:?}");
    let burned = Burned::run(1, None, &["--rounds=1", "--min-tops=1000000"]);
    let text = burned.only_failure(0, "speed")["text"].as_str().unwrap();
    assert!(text.contains("at least 1000000 were asked for"), "{text}");
}

/// Ended before one whole round it says neither pass nor fail, and that it was ended.
#[test]
fn an_early_end_is_inconclusive() {
    let folder = tempfile::tempdir().unwrap();
    // The first pass alone would take minutes.
    let all = arguments(&folder, 1, &["--minutes=60", "--cpu-memory=1GiB", "--share=100"]);
    let mut diag = Daemon::start("assay-miner", &all);
    diag.wait_for("burn-in begins");
    diag.terminate();
    assert_eq!(diag.wait().code(), Some(2));
}

#[test]
fn a_mistyped_choice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, code, said) in [
        (&["--n=300"][..], 64, "power of two"),
        (&["--device=zz"], 78, "zz"),
        (&["--min-tops=-1"], 64, "must be above 0"),
        (&["--cpu-devices=0"], 78, "devices"),
    ] {
        let flags: Vec<_> = flags.iter().copied().chain(["--rounds=1"]).collect();
        let mut all = arguments(&folder, 1, &flags);
        if flags[0].starts_with("--cpu-devices") {
            all.retain(|flag| flag != "--cpu-devices=1");
        }
        let output = daemon::run("assay-miner", all);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(said), "{error}");
    }
    // A kernel that the device has not is not tested.
    let burned = Burned::run(1, None, &["--rounds=1", "--kernels=abacus"]);
    assert!(burned.only_failure(0, "device")["text"].as_str().unwrap().contains("none of the kernels asked for"));
}

/// The stand-in for NVML knows the processor's devices. Their clocks are reduced for heat, errors are corrected, the
/// bus is narrow: warnings, unless an operator says otherwise. Memory that wears out fails a device.
#[test]
fn sensors_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    let ids = device_ids(&folder.path().join("key"), 1);
    // An event that names broken memory comes every second time that the library is asked.
    let quiet = StandinNvml::new(Build::Whole, &ids).with("FAIL", "nvmlEventSetWait_v2");
    let burn = |library: &StandinNvml, flags: &[&str]| {
        let rounds = if flags.contains(&"--rounds=2") { None } else { Some("--rounds=12") };
        let flags: Vec<_> = flags.iter().copied().chain(["--telemetry=auto"]).chain(rounds).collect();
        let arguments = arguments(&folder, 1, &flags);
        Burned::of(&daemon::run_in("assay-miner", arguments, &library.environment()))
    };
    let warned = burn(&quiet, &[]);
    assert_eq!((warned.code, warned.status(0, "sensors")), (Some(0), "warn"), "{}", warned.log);
    let texts = |burned: &Burned| burned.device(0)["findings"].to_string();
    for said in ["clocks were reduced (sw_thermal)", "that the device corrected", "8 of 16 lanes"] {
        assert!(texts(&warned).contains(said), "{said}: {}", texts(&warned));
    }
    let device = warned.device(0);
    assert!(
        !device["temperature_c"].as_array().unwrap().is_empty() && !device["power_w"].as_array().unwrap().is_empty()
    );
    assert!(device["sensors"]["temperature_c"]["max"].as_u64().unwrap() <= 62);
    let strict = burn(&quiet, &["--on-throttle=fail", "--on-corrected-ecc=fail"]);
    assert_eq!((strict.code, strict.failures(0).len()), (Some(1), 2), "{}", strict.log);
    let worn = burn(&StandinNvml::new(Build::Whole, &ids).with("WORN", "1"), &[]);
    assert_eq!((worn.code, worn.failures(0).len()), (Some(1), 2), "{}", worn.log);
    for said in ["retired pages of memory rose", "XID 63"] {
        assert!(texts(&worn).contains(said), "{said}: {}", texts(&worn));
    }
    // A liar costs its values and nothing else.
    let liar = burn(&StandinNvml::new(Build::Whole, &ids).with("LIES", "1"), &["--rounds=2"]);
    assert!(matches!(liar.code, Some(0 | 1)) && liar.status(0, "passes") == "pass", "{}", liar.log);
}
