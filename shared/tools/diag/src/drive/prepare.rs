//! A look at a device before the first round: its kernels, how fast they are, and how much fits.

use std::time::Duration;

use assay_device::{Device, DeviceError, Pass};
use assay_protocol::message::MATRIX_SIZES;
use assay_work::Precision;
use assay_work::challenge::MIN_COUNT;

use super::{Drive, choose, rate};
use crate::finding::{Severity, Test};
use crate::plan::{area_bytes, choose_n, pass_operations, slots_in_time, slots_to_fill};
use crate::record::KernelPlan;

/// Matrix size and slots of the small pass that shows how fast a kernel is, and that all devices of a host compare.
const SMALL: (u32, u32) = (1024, 12);
/// The same pair where memory is small.
pub(super) const SMALLEST: (u32, u32) = (256, 6);
impl Drive<'_> {
    /// Looks at the device: kernels, how fast they are, how much fits; whether there is room.
    pub(super) fn prepare(&mut self, device: &mut dyn Device) -> Result<bool, DeviceError> {
        self.doing("looking at it");
        let names = self.kernel_names(device);
        if names.is_empty() {
            let all = device.kernels(Precision::Int8).join(", ");
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
        let fits: Vec<(u32, u32)> = MATRIX_SIZES.into_iter().map(|n| (n, fits_least(n))).collect();
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
        let all = device.kernels(Precision::Int8);
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
        let pass = Pass { precision: Precision::Int8, key: self.run.plan.seed.pass_key(0), n, offset: 0, count };
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
}
