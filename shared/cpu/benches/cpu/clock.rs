//! What a measurement's seconds are.

use std::str::FromStr;
use std::time::{Duration, Instant};

/// Whose time counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The time that passes.
    Wall,
    /// The processor time of this process, over its threads.
    Cpu,
}

impl FromStr for Clock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "wall" => Ok(Self::Wall),
            "cpu" => Ok(Self::Cpu),
            other => Err(format!("no clock is called {other:?}: use wall or cpu")),
        }
    }
}

impl Clock {
    /// The seconds that a body takes on `threads` threads.
    pub fn seconds(self, threads: usize, body: impl FnOnce()) -> f64 {
        match self {
            Self::Wall => {
                let start = Instant::now();
                body();
                start.elapsed().as_secs_f64()
            }
            Self::Cpu => {
                let start = processor_time();
                body();
                (processor_time() - start).as_secs_f64() / threads as f64
            }
        }
    }
}

fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the structure given, which lives on this stack.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
