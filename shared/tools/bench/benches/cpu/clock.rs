//! The seconds of a measurement: wall-clock or processor time.

use std::time::{Duration, Instant};

/// The clock that times a measurement.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Clock {
    /// The time that passes.
    Wall,
    /// The processor time of this process, over its threads: fair on a machine that others use as well, to one thread
    /// alone, since threads that wait for each other count as working.
    Cpu,
}

impl Clock {
    /// The seconds that a body takes on `threads` threads.
    pub fn seconds<E>(self, threads: usize, body: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
        let (start, start_cpu) = (Instant::now(), processor_time());
        body()?;
        Ok(match self {
            Self::Wall => start.elapsed().as_secs_f64(),
            Self::Cpu => (processor_time() - start_cpu).as_secs_f64() / threads as f64,
        })
    }
}

fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the structure given, which lives on this stack.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
