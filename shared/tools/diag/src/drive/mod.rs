//! One device's part: rounds of passes with each kernel, the probe, copies and samples, until the time is up.
//!
//! A round has one key for all devices. Its first pass fills all memory with the device's first kernel; the probe and the
//! copies follow while it is resident; then every other kernel computes the same pass, the first one once more where it
//! is the only one. A device that is lost is waited for, and goes on alone.

mod copies;
mod pass;
mod prepare;
mod probe;
mod recover;
mod samples;

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::{Device, DeviceError, Handle, Pass};
use assay_work::{DeviceId, Digest, PassKey, Precision};

use crate::board::ResultOrigin;
use crate::finding::{Severity, Test, TestFinding};
use crate::group::{DeviceGroup, GroupStep};
use crate::record::{KernelPlan, Measure, RunRecord};
use crate::state::{DeviceState, Run};

pub fn drive(run: &Run, id: DeviceId, device: &mut dyn Device) {
    let Some(state) = run.devices.get(&id) else { return };
    let mut drive = Drive {
        run,
        id,
        state,
        group: state.group.clone(),
        n: 0,
        kernels: Vec::new(),
        passes_per_round: 0,
        area_bytes: 0,
        probe_rounds: probe::FIRST_ROUNDS,
        round: 0,
        step: 0,
        pass: 0,
        losses: 0,
        busy: 0,
        located: 0,
        small: prepare::SMALLEST,
    };
    let mut ended = device.fault().map_or(Ok(()), Err);
    if ended.is_ok() {
        ended = drive.rounds(device);
    }
    while let Err(error) = ended {
        if !drive.recovers(device, error) {
            break;
        }
        ended = drive.rounds(device);
    }
    device.release();
}

struct Drive<'a> {
    run: &'a Run,
    id: DeviceId,
    state: &'a DeviceState,
    /// Those that it keeps step with; it alone, once it was lost.
    group: Arc<DeviceGroup>,
    /// The matrix size; 0 before the device was looked at.
    n: u32,
    kernels: Vec<KernelPlan>,
    passes_per_round: u32,
    area_bytes: u64,
    /// Rounds of the next probe.
    probe_rounds: u32,
    round: u32,
    /// The number of the pass in the round, from 0.
    step: u32,
    /// The number of the pass in all, from 1.
    pass: u64,
    losses: u32,
    busy: u32,
    /// Wrong passes that were located.
    located: u32,
    small: (u32, u32),
}

impl Drive<'_> {
    fn rounds(&mut self, device: &mut dyn Device) -> Result<(), DeviceError> {
        if self.n == 0 && !self.prepare(device)? {
            return Ok(());
        }
        loop {
            self.round += 1;
            for step in 0..self.passes_per_round {
                self.step = step;
                if !self.group.go_on((self.round, step), || self.run.goes_on(self.round)) {
                    return Ok(());
                }
                self.pass(device)?;
            }
            self.record(|record| record.rounds += 1);
        }
    }

    /// Fills on the device, and counts the pass.
    fn fill(
        &mut self,
        device: &mut dyn Device,
        pass: &Pass,
        kernel: &str,
    ) -> Result<(Vec<Digest>, Duration), DeviceError> {
        self.pass += 1;
        self.doing(&format!("pass {} with {}", self.pass, if kernel.is_empty() { "its kernel" } else { kernel }));
        let handle = self.handle();
        let start = Instant::now();
        let filled = self.call(|| device.fill(pass, &handle));
        let took = start.elapsed();
        let digests = filled?;
        if digests.len() != pass.count as usize {
            let text = format!("{} digests of {} slots", digests.len(), pass.count);
            return Err(DeviceError::Sick(text));
        }
        self.record(|record| record.passes += 1);
        Ok((digests, took))
    }

    /// Runs a call that should make progress, so that a stall in it is noticed.
    fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.record(|record| record.in_call = true);
        let done = call();
        self.record(|record| record.in_call = false);
        done
    }

    fn arrive(&self, step: GroupStep) {
        self.doing("waiting for the other devices");
        self.group.arrive(step, self.id, || self.run.is_stopped());
    }

    fn handle(&self) -> Handle {
        self.state.handle.lock().clone()
    }

    fn who(&self) -> ResultOrigin {
        ResultOrigin { device: self.id, step: self.step }
    }

    fn key(&self) -> PassKey {
        self.run.plan.seed.pass_key(self.round)
    }

    fn record<T>(&self, change: impl FnOnce(&mut RunRecord) -> T) -> T {
        change(&mut self.state.record.lock())
    }

    fn doing(&self, what: &str) {
        self.record(|record| what.clone_into(&mut record.doing));
    }

    fn rate(&self, measure: Measure, kernel: &str, per_s: f64) {
        let at_s = self.run.at_s();
        self.record(|record| record.rate(measure, kernel, at_s, per_s));
    }

    /// " in round 2, pass 7": where it is.
    fn place(&self) -> String {
        match (self.round, self.pass) {
            (0, 0) => " before its first pass".into(),
            (0, pass) => format!(" in pass {pass}, before the first round"),
            (round, pass) => format!(" in round {round}, pass {pass}"),
        }
    }

    fn find(&self, severity: Severity, test: Test, text: String) {
        self.find_more(TestFinding::new(severity, test, text));
    }

    /// Adds a finding with more than its text.
    fn find_more(&self, finding: TestFinding) {
        let pass = finding.pass.or(Some(self.pass));
        self.run.find(self.id, TestFinding { round: Some(self.round), pass, ..finding });
    }

    fn not_done(&self, test: Test, why: &str) {
        self.record(|record| {
            record.not_done.entry(test).or_insert_with(|| why.to_owned());
        });
    }
}

fn choose(device: &mut dyn Device, kernel: &str) -> Result<(), DeviceError> {
    if kernel.is_empty() { Ok(()) } else { device.choose_kernel(Precision::Int8, kernel) }
}

/// Amount a second.
#[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
fn rate(amount: u128, took: Duration) -> f64 {
    amount as f64 / took.as_secs_f64()
}
