//! The recovery of a device that was lost, hung or full.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use assay_device::{Device, DeviceError, Handle};

use super::Drive;
use crate::finding::{Severity, Test};
use crate::group::DeviceGroup;

/// How often a device may be lost before it is given up.
const MAX_LOSSES: u32 = 3;
/// How often a device that is away is looked at.
const AWAY_POLL: Duration = Duration::from_millis(100);
/// How long a device whose memory is in use is waited for, once a second.
const BUSY_TRIES: u32 = 10;

impl Drive<'_> {
    /// Recovers from an error; whether to go on.
    pub(super) fn recovers(&mut self, device: &mut dyn Device, error: DeviceError) -> bool {
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
            DeviceError::Busy { .. } | DeviceError::NoMemory(_) if self.busy < BUSY_TRIES => {
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

    /// Leaves the group: no device waits for this one any more, nor it for others.
    fn goes_alone(&mut self) {
        self.group.leave(self.id);
        self.group = Arc::new(DeviceGroup::new([self.id]));
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
}
