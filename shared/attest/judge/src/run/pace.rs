//! The time limit of openings: the deadline that is counted, and their transfer time.
//!
//! The rate of the link is measured by the openings themselves. While they come at the least rate or faster, no time is
//! counted; time of a part beyond that counts against the deadline. So a slow link has the time that it needs, a fast
//! one gains none, and a miner that stops sending has its deadline and no more.

use std::time::{Duration, Instant};

use assay_policy::challenge::OpeningsPolicy;

/// Times of the openings of one challenge.
#[derive(Debug, Clone)]
pub(super) struct OpeningsPace {
    policy: OpeningsPolicy,
    began: Instant,
    /// Arrival of the last part; before the first, the start of the openings.
    last: Instant,
    /// Time counted against the deadline so far.
    counted: Duration,
    bytes: u64,
}

/// The limit that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExceededLimit {
    /// The deadline for counted time.
    Deadline,
    /// The limit on the whole time.
    Limit,
}

impl OpeningsPace {
    /// Starts the pace of openings requested now.
    pub(super) const fn begin(policy: OpeningsPolicy, now: Instant) -> Self {
        Self { policy, began: now, last: now, counted: Duration::ZERO, bytes: 0 }
    }

    /// Records a part of this size.
    pub(super) fn took(&mut self, bytes: u64, at: Instant) -> Result<(), ExceededLimit> {
        let gap = at.saturating_duration_since(self.last);
        self.counted += gap.saturating_sub(self.policy.time_of(bytes));
        self.bytes += bytes;
        self.last = self.last.max(at);
        if self.counted > self.policy.deadline {
            return Err(ExceededLimit::Deadline);
        }
        if at.saturating_duration_since(self.began) > self.policy.limit { Err(ExceededLimit::Limit) } else { Ok(()) }
    }

    /// The time by which a part of at most `most_bytes` must have come, with the limit that sets it.
    pub(super) fn due(&self, most_bytes: u64) -> (Instant, ExceededLimit) {
        let left = self.policy.deadline.saturating_sub(self.counted);
        let part = self.last + left + self.policy.time_of(most_bytes);
        let all = self.began + self.policy.limit;
        if all < part { (all, ExceededLimit::Limit) } else { (part, ExceededLimit::Deadline) }
    }

    /// Excludes time that the validator's own checks took.
    pub(super) fn excuse(&mut self, ours: Duration) {
        self.began += ours;
        self.last += ours;
    }

    /// Describes the received bytes and the exceeded limit.
    pub(super) fn detail(&self, late: ExceededLimit, now: Instant) -> String {
        let (OpeningsPolicy { deadline, limit, .. }, bytes) = (&self.policy, self.bytes);
        let took = now.saturating_duration_since(self.began);
        let rate = self.policy.least_rate_per_s / 1000;
        match late {
            ExceededLimit::Deadline => format!(
                "{bytes} bytes came in {took:.1?}: {deadline:?} were allowed beside the time in which they come at \
                 {rate} kB/s or more"
            ),
            ExceededLimit::Limit => format!("{bytes} bytes came in {took:.1?}, {limit:?} were allowed in all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: OpeningsPolicy =
        OpeningsPolicy { deadline: Duration::from_secs(10), least_rate_per_s: 1000, limit: Duration::from_secs(100) };

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_slow_link_has_the_time_of_its_bytes() {
        let start = Instant::now();
        let mut pace = OpeningsPace::begin(POLICY, start);
        // 90 kB at 1 kB/s, nine times as long as the deadline.
        for part in 1..=9 {
            assert_eq!(pace.took(10_000, start + s(10 * part)), Ok(()));
        }
        assert_eq!(pace.counted, Duration::ZERO);
        assert_eq!(pace.due(5000), (start + s(100), ExceededLimit::Limit), "in all");
    }

    #[test]
    fn bytes_that_come_fast_earn_no_time() {
        let start = Instant::now();
        let mut pace = OpeningsPace::begin(POLICY, start);
        assert_eq!(pace.took(50_000, start), Ok(()));
        assert_eq!(pace.due(2000), (start + s(12), ExceededLimit::Deadline));
        assert_eq!(pace.took(1000, start + s(12)), Err(ExceededLimit::Deadline), "11 s beside the one of its bytes");
    }

    #[test]
    fn gaps_add_up_to_the_deadline() {
        let start = Instant::now();
        let mut pace = OpeningsPace::begin(POLICY, start);
        assert_eq!(pace.took(1000, start + s(6)), Ok(()));
        assert_eq!(pace.took(1000, start + s(12)), Ok(()));
        assert_eq!(pace.counted, s(10));
        assert_eq!(pace.due(0), (start + s(12), ExceededLimit::Deadline));
        assert_eq!(pace.took(0, start + s(13)), Err(ExceededLimit::Deadline));
    }

    #[test]
    fn a_trickle_ends_at_the_limit() {
        let start = Instant::now();
        let mut pace = OpeningsPace::begin(POLICY, start);
        let late = (1..).find_map(|part| pace.took(1000, start + s(part)).err().map(|late| (part, late)));
        assert_eq!(late, Some((101, ExceededLimit::Limit)));
    }

    #[test]
    fn time_of_ours_is_not_counted() {
        let start = Instant::now();
        let mut pace = OpeningsPace::begin(POLICY, start);
        pace.excuse(s(60));
        assert_eq!(pace.took(0, start + s(70)), Ok(()));
        assert_eq!(pace.due(0), (start + s(70), ExceededLimit::Deadline));
        assert_eq!(pace.took(0, start + s(71)), Err(ExceededLimit::Deadline));
    }
}
