//! The result of a burn-in: a verdict for each device and each test, the figures and the findings.

use assay_device::{DeviceError, DeviceInfo};
use assay_program::clock::unix_seconds;
use assay_protocol::claims::Telemetry;
use assay_protocol::verdict::Outcome;
use assay_telemetry::Wear;
use assay_work::DeviceId;
use serde::Serialize;

use crate::draw::Seed;
use crate::finding::{Severity, Test, TestFinding};
use crate::record::{KernelPlan, Measure, RunRecord};
use crate::run::BurnInEnd;
use crate::speed;
use crate::stats::Figures;

/// Points of a series in JSON and in a chart.
const MAX_POINTS: usize = 1000;

assay_work::names! {
    /// The result of a test.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TestStatus {
        Pass = "PASS",
        Warn = "WARN",
        Fail = "FAIL",
        NotDone = "not done",
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct DiagReport {
    /// The program and its version.
    pub program: String,
    /// The worst of the devices' verdicts.
    pub verdict: Outcome,
    /// The seed of keys and samples: the same one makes the same passes.
    pub seed: Seed,
    /// Seconds since 1970 at the end.
    pub ended_unix_s: u64,
    /// The duration in seconds.
    pub took_s: f64,
    /// For how long it was to run, in seconds.
    pub asked_s: u64,
    /// How many rounds were asked for in place of a time.
    pub asked_rounds: Option<u32>,
    /// Whether a person ended it.
    pub interrupted: bool,
    pub devices: Vec<DeviceTestReport>,
    /// Devices that were there and could not be tested at all.
    pub unusable: Vec<UnusableDevice>,
}

/// A device that could not be tested.
#[derive(Debug, Clone, Serialize)]
pub struct UnusableDevice {
    pub device_id: DeviceId,
    pub name: String,
    pub why: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct DeviceTestReport {
    pub device_id: DeviceId,
    pub name: String,
    pub backend: String,
    /// The backend's choices.
    pub detail: String,
    pub verdict: Outcome,
    pub rounds: u32,
    pub passes: u64,
    pub n: u32,
    /// Slots that fitted into the free memory.
    pub slots_that_fit: u32,
    /// The kernels, with the slots that their passes filled.
    pub kernels: Vec<KernelPlan>,
    /// Bytes of the slots that the first kernel filled.
    pub filled_bytes: u64,
    pub tests: Vec<TestReport>,
    pub rates: Vec<RateReport>,
    /// The sensors over the run; `None`: not available.
    pub sensors: Option<Telemetry>,
    /// The counters of wear, at the beginning and at the end.
    pub wear: Option<[Wear; 2]>,
    /// Temperature in degrees Celsius over seconds.
    pub temperature_c: Vec<(f64, f64)>,
    /// Power in watts over seconds.
    pub power_w: Vec<(f64, f64)>,
    pub findings: Vec<TestFinding>,
    /// Number of findings left out.
    pub more_findings: u64,
}

/// One test of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestReport {
    pub test: Test,
    pub status: TestStatus,
    /// How much was compared: slots, samples, rounds and walks, bytes, readings.
    pub checked: u64,
    /// The reason that it was not done.
    pub not_done: Option<String>,
}

/// One rate of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RateReport {
    /// The measured quantity.
    pub measure: Measure,
    /// The product kernel, where the rate depends on it.
    pub kernel: Option<String>,
    /// `operations/s` or `bytes/s`.
    pub unit: &'static str,
    #[serde(flatten)]
    pub figures: Figures,
    /// The rate over seconds.
    pub points: Vec<(f64, f64)>,
}

impl DiagReport {
    /// The report of a run that ended. `unusable` are devices that were not even opened.
    pub fn new(program: String, ended: &BurnInEnd, unusable: &[(DeviceInfo, DeviceError)]) -> Self {
        let run = &ended.run;
        if ended.hangs {
            for (id, state) in &run.devices {
                if !state.record.lock().ended {
                    let text = "it did not end when it was told to, and was given up";
                    run.find(*id, TestFinding::new(Severity::Fail, Test::Device, text));
                }
            }
        }
        speed::conclude(run);
        let devices: Vec<_> = run
            .devices
            .values()
            .map(|state| DeviceTestReport::new(&state.info, &state.record.lock(), run.sensors.so_far(state.info.id)))
            .collect();
        let unusable: Vec<_> = unusable
            .iter()
            .map(|(info, why)| UnusableDevice { device_id: info.id, name: info.name.clone(), why: why.to_string() })
            .collect();
        let of_unusable = unusable.iter().map(|_| Outcome::Fail);
        let verdict = Outcome::worst(devices.iter().map(|device| device.verdict).chain(of_unusable));
        Self {
            program,
            verdict,
            seed: run.plan.seed,
            ended_unix_s: unix_seconds(),
            took_s: ended.took.as_secs_f64(),
            asked_s: run.plan.time.as_secs(),
            asked_rounds: run.plan.rounds,
            interrupted: ended.interrupted,
            devices,
            unusable,
        }
    }
}

impl DeviceTestReport {
    fn new(info: &DeviceInfo, record: &RunRecord, sensors: Option<Telemetry>) -> Self {
        let is_wrong = record.findings.iter().any(|finding| finding.severity == Severity::Fail);
        let verdict = match (is_wrong, record.rounds) {
            (true, _) => Outcome::Fail,
            (false, 0) => Outcome::Inconclusive,
            (false, _) => Outcome::Pass,
        };
        let slots = record.kernels.first().map_or(0, |kernel| kernel.slots);
        let rates = record.rates.iter().filter_map(|((measure, kernel), series)| {
            Some(RateReport {
                measure: *measure,
                kernel: (!kernel.is_empty()).then(|| kernel.clone()),
                unit: if measure.counts_operations() { "operations/s" } else { "bytes/s" },
                figures: series.figures()?,
                points: series.thinned(MAX_POINTS),
            })
        });
        Self {
            device_id: info.id,
            name: info.name.clone(),
            backend: info.backend.to_string(),
            detail: info.detail.clone(),
            verdict,
            rounds: record.rounds,
            passes: record.passes,
            n: record.n,
            slots_that_fit: record.fits,
            kernels: record.kernels.clone(),
            filled_bytes: u64::from(slots) * u64::from(record.n) * u64::from(record.n),
            tests: Test::ALL.into_iter().map(|test| TestReport::new(test, record)).collect(),
            rates: rates.collect(),
            sensors,
            wear: record.wear.clone().map(|(first, last)| [first, last]),
            temperature_c: record.temperature.thinned(MAX_POINTS),
            power_w: record.power.thinned(MAX_POINTS),
            findings: record.findings.clone(),
            more_findings: record.more_findings,
        }
    }

    /// The result of one test.
    pub fn status(&self, test: Test) -> TestStatus {
        self.tests.iter().find(|report| report.test == test).map_or(TestStatus::NotDone, |report| report.status)
    }
}

impl TestReport {
    fn new(test: Test, record: &RunRecord) -> Self {
        let checked =
            if test == Test::Device { record.passes } else { record.checked.get(&test).copied().unwrap_or(0) };
        let status = match record.worst(test) {
            Some(Severity::Fail) => TestStatus::Fail,
            Some(Severity::Warn) => TestStatus::Warn,
            None if checked == 0 => TestStatus::NotDone,
            None => TestStatus::Pass,
        };
        let why = || record.not_done.get(&test).cloned().unwrap_or_else(|| "it did not come to it".into());
        let not_done = (status == TestStatus::NotDone).then(why);
        Self { test, status, checked, not_done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> DeviceInfo {
        DeviceInfo {
            id: DeviceId([1; 16]),
            name: "a card".into(),
            backend: assay_device::backend::BackendKind::Cuda,
            detail: String::new(),
            precisions: vec![assay_work::Precision::Int8],
            units: Vec::new(),
            total_bytes: 0,
            free_bytes: 0,
        }
    }

    fn verdict(record: &RunRecord) -> Outcome {
        DeviceTestReport::new(&info(), record, None).verdict
    }

    #[test]
    fn a_device_passes_after_a_round_fails_for_a_failure_and_is_inconclusive_else() {
        let mut record = RunRecord::default();
        assert_eq!(verdict(&record), Outcome::Inconclusive);
        record.find(TestFinding::new(Severity::Warn, Test::Speed, "slow"));
        record.rounds = 1;
        assert_eq!(verdict(&record), Outcome::Pass);
        record.find(TestFinding::new(Severity::Fail, Test::Probe, "wrong"));
        assert_eq!(verdict(&record), Outcome::Fail);
        record.rounds = 0;
        assert_eq!(verdict(&record), Outcome::Fail, "a wrong bit before the first whole round fails too");
    }

    #[test]
    fn a_test_that_compared_nothing_is_not_done() {
        let mut record = RunRecord { passes: 3, ..RunRecord::default() };
        record.count(Test::Samples, 5);
        record.not_done.insert(Test::Copies, "no areas".into());
        record.find(TestFinding::new(Severity::Warn, Test::Speed, "slow"));
        let report = DeviceTestReport::new(&info(), &record, None);
        let statuses = [Test::Device, Test::Samples, Test::Copies, Test::Probe, Test::Speed].map(|t| report.status(t));
        assert_eq!(
            statuses,
            [TestStatus::Pass, TestStatus::Pass, TestStatus::NotDone, TestStatus::NotDone, TestStatus::Warn]
        );
        let copies = report.tests.iter().find(|report| report.test == Test::Copies).unwrap();
        assert_eq!(copies.not_done.as_deref(), Some("no areas"));
    }
}
