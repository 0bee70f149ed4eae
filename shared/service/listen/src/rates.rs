//! Rate limits: token buckets, one for all or one for each of many keys, in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Interval of dropping keys with full buckets: a pass over all of them.
const PRUNE_INTERVAL: Duration = Duration::from_secs(1);

/// A rate per second with a burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    per_s: f64,
    burst: f64,
}

impl RateLimit {
    /// `per_s` in a second, and `burst` at once.
    pub const fn new(per_s: u32, burst: u32) -> Self {
        Self { per_s: per_s as f64, burst: burst as f64 }
    }

    /// One in each interval, and `burst` at once.
    pub const fn every(interval: Duration, burst: u32) -> Self {
        Self { per_s: 1.0 / interval.as_secs_f64(), burst: burst as f64 }
    }
}

/// A token bucket.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    rate: RateLimit,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket.
    pub const fn full(rate: RateLimit, now: Instant) -> Self {
        Self { rate, tokens: rate.burst, at: now }
    }

    /// Takes one token.
    ///
    /// # Errors
    /// The wait until there is one.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        if self.tokens < 1.0 {
            return Err(self.until(1.0));
        }
        self.tokens -= 1.0;
        Ok(())
    }

    /// Takes `count` tokens, into debt if need be; returns the wait until the debt is paid.
    pub fn draw(&mut self, count: f64, now: Instant) -> Duration {
        self.refill(now);
        self.tokens -= count;
        self.until(0.0)
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate.per_s).min(self.rate.burst);
        self.at = self.at.max(now);
    }

    /// The wait until there are this many tokens.
    fn until(&self, tokens: f64) -> Duration {
        Duration::from_secs_f64(((tokens - self.tokens) / self.rate.per_s).clamp(0.0, 86_400.0))
    }

    fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.tokens >= self.rate.burst
    }
}

/// Buckets of the recently used keys, in bounded memory: a full bucket carries no information and is dropped.
#[derive(Debug)]
pub struct Buckets<K> {
    rate: RateLimit,
    max_keys: usize,
    keys: HashMap<K, BucketEntry>,
    /// Shared bucket of keys beyond the limit.
    others: BucketEntry,
    pruned: Instant,
}

#[derive(Debug)]
struct BucketEntry {
    bucket: Bucket,
    /// Consecutive refusals.
    refused: u64,
}

impl BucketEntry {
    const fn new(rate: RateLimit, now: Instant) -> Self {
        Self { bucket: Bucket::full(rate, now), refused: 0 }
    }

    fn take(&mut self, now: Instant) -> Result<u64, RateExceeded> {
        match self.bucket.take(now) {
            Ok(()) => Ok(std::mem::take(&mut self.refused)),
            Err(until) => {
                self.refused += 1;
                Err(RateExceeded { until, count: self.refused })
            }
        }
    }
}

/// The rate is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateExceeded {
    /// The wait until a token is there.
    pub until: Duration,
    /// Consecutive refusals of the key.
    pub count: u64,
}

impl<K: Copy + Eq + Hash> Buckets<K> {
    /// Buckets for at most `max_keys` keys, each with this rate.
    pub fn new(rate: RateLimit, max_keys: usize, now: Instant) -> Self {
        Self { rate, max_keys, keys: HashMap::new(), others: BucketEntry::new(rate, now), pruned: now }
    }

    /// Takes one token of a key; returns the number of refusals before.
    pub fn take(&mut self, key: K, now: Instant) -> Result<u64, RateExceeded> {
        if let Some(entry) = self.keys.get_mut(&key) {
            return entry.take(now);
        }
        if self.keys.len() >= self.max_keys && now.saturating_duration_since(self.pruned) >= PRUNE_INTERVAL {
            self.pruned = now;
            self.keys.retain(|_, entry| !entry.bucket.is_full(now));
        }
        if self.keys.len() >= self.max_keys {
            return self.others.take(now);
        }
        self.keys.entry(key).or_insert_with(|| BucketEntry::new(self.rate, now)).take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: RateLimit = RateLimit::new(2, 10);

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::full(RATE, start);
        assert!((0..10).all(|_| bucket.take(start).is_ok()));
        assert_eq!(bucket.take(start), Err(Duration::from_millis(500)));
        let later = start + Duration::from_millis(500);
        assert_eq!((bucket.take(later), bucket.take(later)), (Ok(()), Err(Duration::from_millis(500))));
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| bucket.take(much_later).is_ok()).count(), 10, "no more than the burst is saved");
        assert!(bucket.take(start).is_err(), "a clock that stands back gives nothing");
    }

    #[test]
    fn what_is_drawn_too_much_takes_its_time() {
        let start = Instant::now();
        let mut bucket = Bucket::full(RATE, start);
        assert_eq!(bucket.draw(10.0, start), Duration::ZERO);
        assert_eq!(bucket.draw(4.0, start), Duration::from_secs(2));
        assert_eq!(bucket.draw(0.0, start + Duration::from_secs(1)), Duration::from_secs(1));
        assert_eq!(bucket.draw(0.0, start + Duration::from_secs(2)), Duration::ZERO);
    }

    #[test]
    fn one_key_does_not_pay_for_another() {
        let start = Instant::now();
        let mut buckets = Buckets::new(RATE, 100, start);
        let taken = (0..1000).filter(|_| buckets.take(1, start).is_ok()).count();
        assert_eq!(taken, 10);
        assert_eq!(buckets.take(2, start), Ok(0));
        assert_eq!(buckets.take(1, start).unwrap_err(), RateExceeded { until: Duration::from_millis(500), count: 991 });
        assert_eq!(buckets.take(1, start + Duration::from_secs(1)), Ok(991), "it is told how many were refused");
    }

    #[test]
    fn more_keys_than_there_is_room_for_share_one_bucket() {
        let start = Instant::now();
        let mut buckets = Buckets::new(RATE, 100, start);
        let taken = (0..10_000).filter(|key| buckets.take(*key, start).is_ok()).count();
        assert_eq!((taken, buckets.keys.len()), (110, 100));
        // Full buckets make room, and no bucket in use is dropped.
        let later = start + Duration::from_secs(2);
        while buckets.take(7, later).is_ok() {}
        assert_eq!(buckets.take(20_000, later), Ok(0));
        assert_eq!(buckets.keys.len(), 2);
        assert!(buckets.take(7, later).is_err());
    }
}
