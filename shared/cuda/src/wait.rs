//! Waiting for a device: never for ever, without burning a core, and no longer than someone wants the result.

use std::thread;
use std::time::{Duration, Instant};

use super::driver::Context;
use super::error::Fault;
use assay_device::{DeviceError, Handle};

/// Looks that only give way to other threads, for what takes microseconds.
const QUICK_LOOKS: u32 = 64;
/// The first sleep after those, doubled from look to look.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
/// The longest sleep: far below what is enqueued at once.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Looks until `done`.
///
/// # Errors
/// [`DeviceError::Cancelled`] when `handle` says so, the work still under way. [`DeviceError::Sick`] when a look fails,
/// or nothing gets done within `limit`; the context is lost then.
pub(super) fn until(
    context: &Context,
    limit: Duration,
    handle: Option<&Handle>,
    doing: impl Fn() -> String,
    mut done: impl FnMut() -> Result<bool, Fault>,
) -> Result<(), DeviceError> {
    let start = Instant::now();
    let mut looks = 0;
    let mut sleep = FIRST_SLEEP;
    while !done()? {
        handle.map_or(Ok(()), Handle::check)?;
        looks += 1;
        if looks < QUICK_LOOKS {
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
        sleep = (sleep * 2).min(LONGEST_SLEEP);
    }
    Ok(())
}
