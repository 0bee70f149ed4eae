//! Waiting for a device: bounded, without a busy core, and cancelled with its handle.

use std::thread;
use std::time::{Duration, Instant};

use super::driver::{Context, CudaEvent, Stream};
use super::error::Fault;
use assay_device::{DeviceError, Handle};

/// Polls that only yield to other threads, for work of microseconds.
const YIELDS: u32 = 64;
/// The first sleep after those; it doubles from poll to poll.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
/// The longest sleep: far below the time of the work enqueued at once.
const MAX_SLEEP: Duration = Duration::from_millis(1);

/// Polls until `done`.
///
/// # Errors
/// [`DeviceError::Cancelled`] when `handle` is cancelled, the work still under way. [`DeviceError::Sick`] when a poll
/// fails, or the work makes no progress within `limit`; the context is lost then.
pub(super) fn until(
    context: &Context,
    limit: Duration,
    handle: Option<&Handle>,
    doing: impl Fn() -> String,
    mut done: impl FnMut() -> Result<bool, Fault>,
) -> Result<(), DeviceError> {
    let start = Instant::now();
    let mut polls = 0;
    let mut sleep = FIRST_SLEEP;
    while !done()? {
        handle.map_or(Ok(()), Handle::check)?;
        polls += 1;
        if polls < YIELDS {
            thread::yield_now();
            continue;
        }
        if start.elapsed() > limit {
            context.lose();
            let (limit_s, doing) = (limit.as_secs_f32(), doing());
            let text = format!("hung: nothing got done for {limit_s} s while {doing}; its process must start again");
            return Err(DeviceError::Sick(text));
        }
        thread::sleep(sleep);
        sleep = (sleep * 2).min(MAX_SLEEP);
    }
    Ok(())
}

/// Waits for work enqueued on a stream, which ends with `end`. Where a launch was refused, those before it are waited for.
///
/// # Errors
/// The refusal, or as [`until`] without a handle.
pub(super) fn for_enqueued(
    stream: &Stream,
    end: &CudaEvent,
    limit: Duration,
    enqueued: Result<(), Fault>,
    doing: impl Fn() -> String,
) -> Result<(), DeviceError> {
    if enqueued.is_ok() || !stream.context().is_lost() {
        end.record(stream)?;
        until(stream.context(), limit, None, &doing, || end.is_done(&doing))?;
    }
    Ok(enqueued?)
}
