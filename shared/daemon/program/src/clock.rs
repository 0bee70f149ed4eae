//! The monotonic clock of deadlines; and the time of day, for display, files and the records. A simulation moves both.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock: that of Tokio, which is the system's unless a test has paused it.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Time since `at` on the monotonic clock.
pub fn since(at: Instant) -> Duration {
    now().saturating_duration_since(at)
}

/// Seconds since 1970; 0 when the clock is set before that.
pub fn unix_seconds() -> u64 {
    time_of_day().as_secs()
}

/// Milliseconds since 1970; 0 when the clock is set before that.
pub fn unix_ms() -> i64 {
    i64::try_from(time_of_day().as_millis()).unwrap_or(i64::MAX)
}

fn time_of_day() -> Duration {
    #[cfg(feature = "testing")]
    if let Some(time) = testing::time_of_day() {
        return time;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The time of day of a simulation, which has one thread.
#[cfg(feature = "testing")]
pub mod testing {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static SIMULATED: Cell<Option<SimulatedTime>> = const { Cell::new(None) };
    }

    /// A time of day that goes on with the monotonic clock.
    #[derive(Debug, Clone, Copy)]
    pub struct SimulatedTime {
        /// When the simulation began.
        pub began: Instant,
        /// The time of day then, since 1970, of the database.
        pub database: Duration,
        /// The same, of the daemons: a change is a jump of their clocks.
        pub daemons: Duration,
    }

    /// Sets the time of day of this thread; `None`: the system's.
    pub fn simulate(time: Option<SimulatedTime>) {
        SIMULATED.set(time);
    }

    /// The time of day of the database, in milliseconds since 1970; `None` outside a simulation.
    pub fn database_ms() -> Option<u128> {
        SIMULATED.get().map(|time| (time.database + super::since(time.began)).as_millis())
    }

    pub(super) fn time_of_day() -> Option<Duration> {
        SIMULATED.get().map(|time| time.daemons + super::since(time.began))
    }
}
