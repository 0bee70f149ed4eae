//! Schedule of challenges: time and kind of the next one, and the budget of a host's device time.

use std::time::Duration;

use crate::policy::{Cadence, Group, Kind};
use crate::state::Standing;

/// The day over which device time is counted: any 24 hours.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
/// The longest wait in multiples of the mean, without a policy's own: one wait of 22,026 is longer.
const MOST_MEANS: u32 = 10;

/// Draws a memoryless wait: however long a miner has waited, the expected time to the next challenge is the same.
///
/// `uniform` is drawn from 0 … 1. The wait is exponential with the cadence's mean, or with `mean` without one, clamped
/// to the cadence's bounds.
pub fn draw_wait(cadence: &Cadence, mean: Duration, uniform: f64) -> Duration {
    let (mean, most) = (cadence.mean.unwrap_or(mean), longest_wait(cadence, mean));
    // ln(1 - u) is 0 at 0, and unbounded towards 1.
    let waits = -(1.0 - uniform.clamp(0.0, 1.0)).ln();
    Duration::try_from_secs_f64(mean.as_secs_f64() * waits).unwrap_or(most).clamp(cadence.least, most)
}

/// The longest wait that [`draw_wait`] gives.
pub fn longest_wait(cadence: &Cadence, mean: Duration) -> Duration {
    let mean = cadence.mean.unwrap_or(mean);
    cadence.most.unwrap_or(mean.saturating_mul(MOST_MEANS)).max(cadence.least)
}

/// Draws the kind of a miner's next challenge; `true` for the heavy one. `uniform` is drawn from 0 … 1.
pub fn draw_kind<'a>(group: &'a Group, standing: &Standing, now_s: u64, uniform: f64) -> (&'a Kind, bool) {
    match &group.heavy {
        Some(heavy) if uniform < heavy.share_percent / 100.0 || standing.needs_heavy(&group.rules, now_s) => {
            (&heavy.kind, true)
        }
        _ => (&group.light, false),
    }
}

/// The device time that challenges may take of a host in any 24 hours.
pub fn budget(duty_percent: f64) -> Duration {
    DAY.mul_f64((duty_percent / 100.0).clamp(0.0, 1.0))
}

/// Whether a challenge of expected length `expected` stays within a budget of which `used` is spent.
pub fn fits(used: Duration, expected: Duration, budget: Duration) -> bool {
    used.saturating_add(expected) <= budget
}

#[cfg(test)]
mod tests;
