//! A bound on the lines that somebody else causes in this program's log.

use std::time::{Duration, Instant};

/// The number of lines that may be kept in a window of time, and a count of those left out.
#[derive(Debug)]
pub struct Quota {
    max_lines: u32,
    window: Duration,
    started: Option<Instant>,
    kept: u32,
    left_out: u64,
}

impl Quota {
    pub const fn new(max_lines: u32, window: Duration) -> Self {
        Self { max_lines, window, started: None, kept: 0, left_out: 0 }
    }

    /// Whether to keep a line now, and the number of lines left out in the window before, reported once.
    pub fn take(&mut self, now: Instant) -> (bool, u64) {
        let mut before = 0;
        if self.started.is_none_or(|started| now.duration_since(started) >= self.window) {
            before = self.left_out();
            (self.started, self.kept) = (Some(now), 0);
        }
        let keep = self.kept < self.max_lines;
        self.kept += u32::from(keep);
        self.left_out += u64::from(!keep);
        (keep, before)
    }

    /// The number of lines left out and not reported yet, for the end of the log.
    pub const fn left_out(&mut self) -> u64 {
        std::mem::replace(&mut self.left_out, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_left_out_and_counted() {
        let window = Duration::from_secs(10);
        let mut quota = Quota::new(200, window);
        let start = Instant::now();
        let kept = (0..250).filter(|_| quota.take(start).0).count();
        assert_eq!(kept, 200);
        assert_eq!(quota.take(start + window), (true, 50));
        assert_eq!(quota.take(start + window), (true, 0));
        for _ in 0..200 {
            quota.take(start + window);
        }
        assert_eq!((quota.left_out(), quota.left_out()), (2, 0));
    }
}
