//! wgpu's device and queue, and their failures.
//!
//! wgpu reports most failures apart from the call that caused them: to an error scope, to a callback for failures that
//! no scope caught, to another callback when the device is lost. Here they all end in one place, [`Gpu::check`], which
//! every wait calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ::wgpu::{
    Adapter, Buffer, BufferDescriptor, BufferUsages, Device, DeviceDescriptor, DeviceLostReason, Error, ErrorFilter,
    ExperimentalFeatures, Features, MemoryHints, PollType, Queue, SubmissionIndex,
};

use parking_lot::Mutex;

use super::describe::DescribedAdapter;
use super::error::WgpuError;
use assay_device::DeviceError;

/// The longest single wait, so that a cancellation and a stall are seen.
const WAIT: Duration = Duration::from_millis(10);
/// The most that one wait counts for in a time without progress: a machine that slept meanwhile has not stalled for as
/// long.
pub(super) const MAX_COUNTED_WAIT: Duration = Duration::from_secs(1);
/// wgpu's words for a lack of memory while it opens a device: it gives no code.
const OUT_OF_MEMORY: &str = "Not enough memory left.";
/// The features to use where an adapter has them.
const WANTED: Features = Features::SUBGROUP.union(Features::PIPELINE_CACHE);
/// The features that cooperative matrices of half floats need. wgpu 30 opens the first by a token alone.
pub(super) const COOPERATIVE: Features =
    Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(Features::SHADER_F16).union(Features::SUBGROUP);

pub(super) struct Gpu {
    pub(super) adapter: Adapter,
    pub(super) device: Device,
    pub(super) queue: Queue,
    health: DeviceHealth,
    submissions: AtomicU32,
}

/// The reason that a device is lost, once it is. Clones share it.
#[derive(Debug, Clone, Default)]
struct DeviceHealth(Arc<Mutex<Option<String>>>);

impl DeviceHealth {
    /// Notes a failure; the first one counts.
    fn lose(&self, why: &str) {
        self.0.lock().get_or_insert_with(|| why.trim().replace('\n', " "));
    }

    fn why(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

/// Why a buffer or a pipeline was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CreationFailure {
    OutOfMemory,
    /// Any other error, in wgpu's words.
    Refused(String),
}

impl Gpu {
    /// Opens an adapter with all its limits, and with cooperative matrices if that is asked and it has them.
    pub(super) fn open(described: DescribedAdapter, cooperative: bool) -> Result<Self, WgpuError> {
        let DescribedAdapter { adapter, description } = described;
        let mut required_features = adapter.features() & WANTED;
        let mut experimental_features = ExperimentalFeatures::disabled();
        if cooperative && adapter.features().contains(COOPERATIVE) {
            required_features |= COOPERATIVE;
            // SAFETY: experimental features may be undefined on wgpu's side. One of them is asked for, by a setting
            // that is off unless an operator sets it; its one shader is checked as all others are, keeps to wgpu's
            // documentation of it (square matrices that the adapter lists, subgroups whole), and is used only after the
            // self-test.
            experimental_features = unsafe { ExperimentalFeatures::enabled() };
        }
        let descriptor = DeviceDescriptor {
            label: Some("assay"),
            required_features,
            required_limits: adapter.limits(),
            experimental_features,
            // Large buffers have allocations of their own; small ones need no large pools.
            memory_hints: MemoryHints::MemoryUsage,
            ..DeviceDescriptor::default()
        };
        let opened = caught(|| pollster::block_on(adapter.request_device(&descriptor)));
        let (device, queue) = opened.and_then(|opened| opened.map_err(|error| error.to_string())).map_err(|error| {
            match (description.title(), one_line(&error)) {
                (device, reason) if reason == OUT_OF_MEMORY => WgpuError::NoMemory { device },
                (device, reason) => WgpuError::Open { device, reason },
            }
        })?;
        let health = DeviceHealth::default();
        let lost = health.clone();
        device.set_device_lost_callback(move |reason, why| {
            if reason != DeviceLostReason::Destroyed {
                lost.lose(&format!("the driver lost it: {why}"));
            }
        });
        let failed = health.clone();
        device.on_uncaptured_error(Arc::new(move |error: Error| failed.lose(&error.to_string())));
        Ok(Self { adapter, device, queue, health, submissions: AtomicU32::new(0) })
    }

    /// Whether it was opened with cooperative matrices.
    pub(super) fn has_cooperative(&self) -> bool {
        self.device.features().contains(COOPERATIVE)
    }

    /// The number of the next submission: another one for each.
    pub(super) fn next_number(&self) -> u32 {
        self.submissions.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Fails once a failure was reported.
    pub(super) fn check(&self) -> Result<(), DeviceError> {
        match self.health.why() {
            Some(why) => Err(sick(&why)),
            None => Ok(()),
        }
    }

    /// Marks the device as failed; of several reasons the first counts.
    pub(super) fn lose(&self, why: &str) -> DeviceError {
        self.health.lose(why);
        sick(&self.health.why().unwrap_or_default())
    }

    /// Calls wgpu, which panics on failures that it has no error for: a device lost during a wait, no host memory. A panic
    /// loses the device.
    pub(super) fn calling<T>(&self, call: impl FnOnce() -> T) -> Result<T, DeviceError> {
        caught(call).map_err(|why| self.lose(&why))
    }

    /// A buffer of device memory, or of the host's where `usage` maps it.
    pub(super) fn buffer(&self, label: &str, bytes: u64, usage: BufferUsages) -> Result<Buffer, CreationFailure> {
        let descriptor = BufferDescriptor { label: Some(label), size: bytes, usage, mapped_at_creation: false };
        self.scoped(|| self.device.create_buffer(&descriptor))
    }

    /// Makes an object, with its errors caught.
    pub(super) fn scoped<T>(&self, make: impl FnOnce() -> T) -> Result<T, CreationFailure> {
        let scopes = [ErrorFilter::OutOfMemory, ErrorFilter::Internal, ErrorFilter::Validation]
            .map(|filter| self.device.push_error_scope(filter));
        let made = self.calling(make);
        // The innermost first.
        let errors = scopes.into_iter().rev().filter_map(|scope| pollster::block_on(scope.pop()));
        match errors.collect::<Vec<_>>().into_iter().next() {
            None => made.map_err(|error| CreationFailure::Refused(error.to_string())),
            Some(Error::OutOfMemory { .. }) => Err(CreationFailure::OutOfMemory),
            Some(error) => Err(CreationFailure::Refused(one_line(&error.to_string()))),
        }
    }

    /// Lets callbacks run, waiting a moment for a submission, or for all of them.
    pub(super) fn turn(&self, submission_index: Option<SubmissionIndex>) -> Result<(), DeviceError> {
        self.poll(PollType::Wait { submission_index, timeout: Some(WAIT) })
    }

    pub(super) fn poll(&self, poll: PollType) -> Result<(), DeviceError> {
        // A timeout is expected; any other failure reaches a callback.
        self.calling(|| drop(self.device.poll(poll)))?;
        self.check()
    }

    /// Lets callbacks run until `done`. Gives up when nothing comes for `stall_limit`.
    pub(super) fn wait_until(
        &self,
        stall_limit: Duration,
        doing: &str,
        mut done: impl FnMut() -> bool,
    ) -> Result<(), DeviceError> {
        let mut idle = Duration::ZERO;
        while !done() {
            let start = Instant::now();
            self.turn(None)?;
            idle += start.elapsed().min(MAX_COUNTED_WAIT);
            if idle > stall_limit {
                return Err(self.lose(&format!("nothing was done for {} s while {doing}", stall_limit.as_secs())));
            }
        }
        Ok(())
    }
}

impl Gpu {
    /// Waits until all that was submitted is done.
    pub(super) fn idle(&self, stall_limit: Duration, doing: &str) -> Result<(), DeviceError> {
        let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = done.clone();
        self.queue.on_submitted_work_done(move || told.store(true, Ordering::Release));
        self.wait_until(stall_limit, doing, || done.load(Ordering::Acquire))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.health.why().is_some() {
            // wgpu waits for the queue as it drops it, and a queue that hangs never ends. A failed device is left to
            // the end of the process.
            std::mem::forget((self.device.clone(), self.queue.clone()));
        }
    }
}

fn sick(why: &str) -> DeviceError {
    DeviceError::Sick(format!("{why}; the process that drives it must start again"))
}

/// A call, or the text of its panic. Objects that it left half done are not used again: the device is lost then.
fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        one_line(&text.unwrap_or_else(|| "wgpu panicked".into()))
    })
}

/// An error's text without its line breaks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_the_one_that_is_told() {
        let health = DeviceHealth::default();
        assert_eq!(health.why(), None);
        health.clone().lose("first\nline");
        health.lose("second");
        assert_eq!(health.why().unwrap(), "first line");
    }
}
