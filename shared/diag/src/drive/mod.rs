//! One device's part: rounds of passes with each kernel, the probe, copies and samples, until the time is up.
//!
//! A round has one key for all devices. Its first pass fills all memory with the device's first kernel; the probe and the
//! copies follow while it is resident; then every other kernel computes the same pass, the first one once more where it
//! is the only one. A device that is lost is waited for, and goes on alone.

mod copies;
mod pass;
mod probe;
mod samples;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use assay_device::{Device, DeviceError, Handle, Pass};
use assay_work::challenge::MIN_COUNT;
use assay_work::{DeviceId, PassKey};

use crate::board::Who;
use crate::finding::{Finding, Severity, Test};
use crate::group::{Group, Step};
use crate::plan::{area_bytes, choose_n, pass_operations, slots_in_time, slots_to_fill};
use crate::record::{KernelPlan, Measure, Record};
use crate::run::{DeviceState, Run};

/// Matrix size and slots of the small pass that shows how fast a kernel is, and that all devices of a host compare.
const SMALL: (u32, u32) = (1024, 12);
/// The same where memory is small.
const SMALLEST: (u32, u32) = (256, 6);
/// How often a device may be lost before it is given up.
const MAX_LOSSES: u32 = 3;
/// How often a device that is away is looked at.
const AWAY_POLL: Duration = Duration::from_millis(100);
/// How long a device whose memory is in use is waited for, once a second.
const BUSY_TRIES: u32 = 10;

/// Burns one device in.
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
        small: SMALLEST,
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

/// A device in the middle of it.
struct Drive<'a> {
    run: &'a Run,
    id: DeviceId,
    state: &'a DeviceState,
    /// Those that it keeps step with; it alone, once it was lost.
    group: Arc<Group>,
    /// The matrix size; 0 before the device was looked at.
    n: u32,
    kernels: Vec<KernelPlan>,
    passes_per_round: u32,
    area_bytes: u64,
    /// Rounds of the next probe.
    probe_rounds: u32,
    round: u32,
    /// Which pass of the round.
    step: u32,
    /// Which pass of all, from 1.
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

    /// Looks at the device: kernels, how fast they are, how much fits; whether there is room.
    fn prepare(&mut self, device: &mut dyn Device) -> Result<bool, DeviceError> {
        self.doing("looking at it");
        let names = self.kernel_names(device);
        if names.is_empty() {
            let all = device.kernels().join(", ");
            self.find(Severity::Fail, Test::Device, format!("it runs none of the kernels asked for; it has {all}"));
            return Ok(false);
        }
        let mut fits_least = |n: u32| {
            let fit = |name: &String| {
                // One that cannot be chosen is found below.
                let _ = choose(device, name);
                device.slots_that_fit(n)
            };
            names.iter().map(fit).min().unwrap_or(0)
        };
        let is_small = self.run.plan.n.is_some_and(|n| n < SMALL.0) || fits_least(SMALL.0) < SMALL.1;
        self.small = if is_small { SMALLEST } else { SMALL };
        let fits: Vec<(u32, u32)> =
            assay_protocol::message::MATRIX_SIZES.into_iter().map(|n| (n, fits_least(n))).collect();
        let fit = |n: u32| fits.iter().find(|(size, _)| *size == n).map_or(0, |(_, fit)| *fit);
        if fit(SMALLEST.0) < SMALLEST.1 {
            self.no_room(fit(SMALLEST.0));
            return Ok(false);
        }
        let mut rates = Vec::new();
        for name in names {
            match choose(device, &name) {
                Ok(()) => {
                    let rate = self.small_pass(device, &name, rates.len() as u32)?;
                    rates.push((name, rate));
                }
                Err(DeviceError::Unsupported(why)) => {
                    self.find(Severity::Warn, Test::Passes, format!("the kernel {name} is left out: {why}"));
                }
                Err(error) => return Err(error),
            }
        }
        let Some(fastest) = rates.iter().map(|(_, rate)| *rate).max_by(f64::total_cmp) else {
            self.find(Severity::Fail, Test::Device, "none of its kernels can be chosen".into());
            return Ok(false);
        };
        // Equal devices take the same size, so that they can compare; the slowest of them decides.
        self.group.offer("n", choose_n(self.run.plan.n, fit, fastest));
        self.group.offer("kernels", rates.len() as u32);
        self.arrive((0, 0));
        let n = self.group.least("n").unwrap_or(SMALLEST.0);
        let fit = fit(n);
        if fit < MIN_COUNT {
            self.no_room(fit);
            return Ok(false);
        }
        self.area_bytes = area_bytes(n, fit);
        let slots = slots_to_fill(n, fit, self.area_bytes, self.run.plan.share_percent);
        let kernel = |(index, (name, rate)): (usize, (String, f64))| KernelPlan {
            name,
            // The first kernel fills everything, however long it takes.
            slots: if index == 0 { slots } else { slots_in_time(n, slots, rate) },
        };
        self.kernels = rates.into_iter().enumerate().map(kernel).collect();
        self.passes_per_round = self.group.most("kernels").unwrap_or(1).max(2);
        self.n = n;
        let kernels = self.kernels.clone();
        self.record(|record| (record.n, record.fits, record.kernels) = (n, fit, kernels));
        Ok(true)
    }

    /// The kernels to run; one without a name where the device has no names.
    fn kernel_names(&self, device: &dyn Device) -> Vec<String> {
        let all = device.kernels();
        let wanted = |name: &String| self.run.plan.kernels.as_ref().is_none_or(|wanted| wanted.contains(name));
        match all.is_empty() {
            true => vec![String::new()],
            false => all.into_iter().filter(wanted).collect(),
        }
    }

    /// A small pass with a kernel, compared with every device's; its rate. The second time counts: the first one takes
    /// memory.
    fn small_pass(&mut self, device: &mut dyn Device, kernel: &str, step: u32) -> Result<f64, DeviceError> {
        let (n, count) = self.small;
        let pass = Pass { key: self.run.plan.seed.pass_key(0), n, offset: 0, count };
        let mut took = Duration::ZERO;
        for time in 0..2 {
            self.step = 2 * step + time;
            let (digests, of_this) = self.fill(device, &pass, kernel)?;
            took = of_this;
            self.settle(device, &pass, kernel, digests)?;
        }
        Ok(rate(pass_operations(n, count), took))
    }

    fn no_room(&self, fit: u32) {
        let text = format!("{fit} slot(s) fit into its free memory, too few: stop what uses it (is a miner running?)");
        let mut record = self.state.record.lock();
        for test in Test::ALL.into_iter().filter(|test| *test != Test::Sensors) {
            record.not_done.insert(test, text.clone());
        }
    }

    /// What to do after an error; whether to go on.
    fn recovers(&mut self, device: &mut dyn Device, error: DeviceError) -> bool {
        self.record(|record| record.in_call = false);
        let stalled = self.state.stalled.swap(false, Ordering::Relaxed);
        if self.run.is_stopped() {
            return false;
        }
        let place = self.place();
        match error {
            DeviceError::Cancelled | DeviceError::Sick(_) if stalled => {
                let limit = self.run.plan.stall.as_secs();
                self.find(Severity::Fail, Test::Device, format!("it made no progress for {limit} s{place}"));
            }
            DeviceError::Cancelled => return false,
            DeviceError::Busy { .. } if self.busy < BUSY_TRIES => {
                if self.busy == 0 {
                    let text = format!("another program took of its memory{place}: {error}");
                    self.find(Severity::Warn, Test::Device, text);
                }
                self.busy += 1;
                self.n = 0;
                self.goes_alone();
                device.release();
                return self.pause(Duration::from_secs(1));
            }
            DeviceError::Unsupported(why) => {
                self.find(Severity::Fail, Test::Device, format!("it refused what it should do{place}: {why}"));
                return false;
            }
            error => self.find(Severity::Fail, Test::Device, format!("it was lost{place}: {error}")),
        }
        self.losses += 1;
        self.goes_alone();
        *self.state.handle.lock() = Handle::default();
        if self.losses > MAX_LOSSES {
            self.find(Severity::Fail, Test::Device, format!("it was lost {} times and is given up", self.losses));
            return false;
        }
        self.comes_back(device)
    }

    /// Nobody waits for it any more, nor it for others.
    fn goes_alone(&mut self) {
        self.group.leave(self.id);
        self.group = Arc::new(Group::new([self.id]));
    }

    /// Waits for a lost device; whether it is there again.
    fn comes_back(&mut self, device: &mut dyn Device) -> bool {
        self.doing("waiting for it to come back");
        let since = Instant::now();
        while since.elapsed() < self.run.plan.comeback {
            if device.fault().is_none() {
                let text = format!("it was started again and came back after {:.1} s", since.elapsed().as_secs_f64());
                self.find(Severity::Warn, Test::Device, text);
                return true;
            }
            if !self.pause(AWAY_POLL) {
                return false;
            }
        }
        let why = device.fault().map(|fault| format!(": {fault}")).unwrap_or_default();
        let waited = self.run.plan.comeback.as_secs();
        self.find(Severity::Fail, Test::Device, format!("it did not come back within {waited} s{why}"));
        false
    }

    fn pause(&self, pause: Duration) -> bool {
        std::thread::sleep(pause);
        !self.run.is_stopped()
    }

    /// Fills on the device, and counts the pass.
    fn fill(
        &mut self,
        device: &mut dyn Device,
        pass: &Pass,
        kernel: &str,
    ) -> Result<(Vec<assay_work::Digest>, Duration), DeviceError> {
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

    /// Does something that is to make progress.
    fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.record(|record| record.in_call = true);
        let done = call();
        self.record(|record| record.in_call = false);
        done
    }

    fn arrive(&self, step: Step) {
        self.doing("waiting for the other devices");
        self.group.arrive(step, self.id, || self.run.is_stopped());
    }

    fn handle(&self) -> Handle {
        self.state.handle.lock().clone()
    }

    fn who(&self) -> Who {
        Who { device: self.id, step: self.step }
    }

    fn key(&self) -> PassKey {
        self.run.plan.seed.pass_key(self.round)
    }

    fn record<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
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
        self.find_more(Finding::new(severity, test, text));
    }

    /// The same with more of it known.
    fn find_more(&self, finding: Finding) {
        let pass = finding.pass.or(Some(self.pass));
        self.run.find(self.id, Finding { round: Some(self.round), pass, ..finding });
    }

    fn not_done(&self, test: Test, why: &str) {
        self.record(|record| {
            record.not_done.entry(test).or_insert_with(|| why.to_owned());
        });
    }
}

fn choose(device: &mut dyn Device, kernel: &str) -> Result<(), DeviceError> {
    if kernel.is_empty() { Ok(()) } else { device.choose_kernel(kernel) }
}

/// Amount a second.
#[expect(clippy::cast_precision_loss, reason = "a rate to a few digits")]
fn rate(amount: u128, took: Duration) -> f64 {
    amount as f64 / took.as_secs_f64()
}
