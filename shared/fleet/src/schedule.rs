//! When the next challenge comes, of which kind, and whether a host's device time allows it.

use std::time::Duration;

use crate::policy::{Cadence, Group, Kind};
use crate::state::Standing;

/// The day over which device time is counted: any 24 hours.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
/// The longest wait, in means, where a policy does not say another: one wait of 22,026 is longer.
const MOST_MEANS: u32 = 10;

/// A wait that is drawn without memory: however long a miner has waited, the next challenge is as far away as ever.
///
/// `uniform` is drawn from 0 … 1. The wait is exponential with the cadence's mean, or with `mean` where the cadence has
/// none, and moved to the cadence's bounds.
#[must_use]
pub fn draw_wait(cadence: &Cadence, mean: Duration, uniform: f64) -> Duration {
    let mean = cadence.mean.unwrap_or(mean);
    let most = cadence.most.unwrap_or(mean.saturating_mul(MOST_MEANS)).max(cadence.least);
    // ln(1 - u) is 0 at 0, and beyond every bound at 1.
    let waits = -(1.0 - uniform.clamp(0.0, 1.0)).ln();
    Duration::try_from_secs_f64(mean.as_secs_f64() * waits).unwrap_or(most).clamp(cadence.least, most)
}

/// The kind of a miner's next challenge, and whether it is the heavy one. `uniform` is drawn from 0 … 1.
#[must_use]
pub fn draw_kind<'a>(group: &'a Group, standing: &Standing, now_s: u64, uniform: f64) -> (&'a Kind, bool) {
    match &group.heavy {
        Some(heavy) if uniform < heavy.share_percent / 100.0 || standing.needs_heavy(&group.rules, now_s) => {
            (&heavy.kind, true)
        }
        _ => (&group.light, false),
    }
}

/// The device time that a host may be asked in any 24 hours.
#[must_use]
pub fn budget(duty_percent: f64) -> Duration {
    DAY.mul_f64((duty_percent / 100.0).clamp(0.0, 1.0))
}

/// Whether a challenge that is expected to take `expected` stays within a budget of which so much is used.
#[must_use]
pub fn fits(used: Duration, expected: Duration, budget: Duration) -> bool {
    used.saturating_add(expected) <= budget
}

#[cfg(test)]
mod tests;
