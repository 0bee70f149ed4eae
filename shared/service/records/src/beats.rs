//! The heartbeats of this process without a gap. After an outage of the database every validator of it counts as lost
//! until its next heartbeat: the first one back must give the others time for theirs.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The heartbeats since the last gap; `None` before the first one.
#[derive(Debug, Default)]
pub(crate) struct Beats(Mutex<Option<Series>>);

#[derive(Debug, Clone, Copy)]
struct Series {
    first: Instant,
    last: Instant,
    /// How long a heartbeat counts.
    ttl: Duration,
}

impl Beats {
    /// Notes a heartbeat. A gap is half its time: during a shorter outage no heartbeat of another validator expires.
    pub(crate) fn note(&self, now: Instant, ttl: Duration) {
        let mut series = self.0.lock();
        let first = series.filter(|series| series.goes_on(now)).map_or(now, |series| series.first);
        *series = Some(Series { first, last: now, ttl });
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
            beats.note(at(second), ttl);
            assert!(!beats.are_steady(at(second)));
        }
        assert!(beats.are_steady(at(10)) && beats.are_steady(at(14)));
        assert!(!beats.are_steady(at(15)), "an outage may have begun");
        // After an outage it begins anew.
        beats.note(at(18), ttl);
        for second in [18, 22, 26, 27] {
            beats.note(at(second), ttl);
            assert!(!beats.are_steady(at(second)));
        }
        assert!(beats.are_steady(at(28)));
    }
}
