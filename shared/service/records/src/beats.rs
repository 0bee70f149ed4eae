//! The heartbeats of this process without a gap. After an outage of the database every validator of it counts as lost
//! until its next heartbeat: the first one back must give the others time for theirs.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::column::ttl_ms;

/// The heartbeats since the last gap; `None` before the first one.
#[derive(Debug, Default)]
pub(crate) struct Beats(Mutex<Option<Series>>);

#[derive(Debug, Clone, Copy)]
struct Series {
    first: Instant,
    last: Instant,
    /// The last one by the database's clock, in ms since 1970.
    database_ms: i64,
    /// How long a heartbeat counts.
    ttl: Duration,
}

impl Beats {
    /// Notes a heartbeat. A gap is half its time: during a shorter outage no heartbeat of another validator expires. By
    /// the database's clock a gap is also a step of that clock, or a pause of this machine that its own does not count.
    pub(crate) fn note(&self, now: Instant, database_ms: i64, ttl: Duration) {
        let mut series = self.0.lock();
        let first = series
            .filter(|last| last.goes_on(now) && (0..=ttl_ms(ttl) / 2).contains(&(database_ms - last.database_ms)))
            .map_or(now, |last| last.first);
        *series = Some(Series { first, last: now, database_ms, ttl });
    }

    /// Whether they have gone on for as long as one of them counts.
    pub(crate) fn are_steady(&self, now: Instant) -> bool {
        self.0.lock().is_some_and(|series| series.goes_on(now) && now.duration_since(series.first) >= series.ttl)
    }
}

impl Series {
    fn goes_on(&self, now: Instant) -> bool {
        now.duration_since(self.last) <= self.ttl / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_steady_once_they_have_gone_on_for_the_time_of_one() {
        let (beats, start, ttl) = (Beats::default(), Instant::now(), Duration::from_secs(10));
        let at = |second: u64| start + Duration::from_secs(second);
        assert!(!beats.are_steady(at(0)), "before the first");
        for second in [0, 3, 6, 9] {
            beats.note(at(second), second as i64 * 1000, ttl);
            assert!(!beats.are_steady(at(second)));
        }
        assert!(beats.are_steady(at(10)) && beats.are_steady(at(14)));
        assert!(!beats.are_steady(at(15)), "an outage may have begun");
        // After an outage it begins anew.
        beats.note(at(18), 18_000, ttl);
        for second in [18, 22, 26, 27] {
            beats.note(at(second), second as i64 * 1000, ttl);
            assert!(!beats.are_steady(at(second)));
        }
        assert!(beats.are_steady(at(28)));
    }

    #[test]
    fn a_step_of_the_databases_clock_is_a_gap() {
        let (start, ttl) = (Instant::now(), Duration::from_secs(10));
        let at = |second: u64| start + Duration::from_secs(second);
        for (step_ms, is_steady) in [(0, true), (1000, true), (-3000, true), (1001, false), (-4001, false)] {
            let beats = Beats::default();
            for (second, step_ms) in [(0, 0), (4, 0), (8, 0), (12, step_ms)] {
                beats.note(at(second), second as i64 * 1000 + step_ms, ttl);
            }
            assert_eq!(beats.are_steady(at(12)), is_steady, "{step_ms} ms");
            beats.note(at(16), 16_000 + step_ms, ttl);
            beats.note(at(20), 20_000 + step_ms, ttl);
            assert!(beats.are_steady(at(22)), "it goes on from there");
        }
    }
}
