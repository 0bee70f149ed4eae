//! Splitting matrices across devices (WORK.md, Splitting matrices across devices). Both sides run it.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::bytes::DeviceId;
use super::challenge::Share;

/// How much of the work a device can take: the number of matrices that it can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// The device that gets the share.
    pub device_id: DeviceId,
    /// Its part of the sum of all weights; at least 1.
    pub weight: u64,
}

/// A fault of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// No device to split across.
    #[error("there is no device to split across")]
    NoDevices,
    /// A device that can hold nothing: leave it out.
    #[error("device {0} has weight 0; leave it out or give it at least 1")]
    ZeroWeight(DeviceId),
    /// Two weights for one device.
    #[error("device {0} is named twice")]
    Duplicate(DeviceId),
    /// The weights do not add up in 64 bits.
    #[error("the weights add up to more than 64 bits hold")]
    Overflow,
}

/// Splits `total` matrices in proportion to the weights: whole parts first, the matrices left over one each to
/// the largest remainders, the lower `device_id` first among equals.
///
/// The shares come in order of `device_id`, whatever the order of the weights. A share may come out below
/// [`MIN_COUNT`](super::challenge::MIN_COUNT): the challenge made of it is invalid.
///
/// # Errors
/// [`SplitError`] when the weights break a rule.
pub fn split(total: u32, weights: &[Weight]) -> Result<Vec<Share>, SplitError> {
    let weights = sorted(weights)?;
    let sum = weights.iter().try_fold(0_u64, |sum, w| sum.checked_add(w.weight)).ok_or(SplitError::Overflow)?;
    let parts: Vec<(u32, u64)> = weights.iter().map(|w| part(total, w.weight, sum)).collect();
    let mut counts: Vec<u32> = parts.iter().map(|&(whole, _)| whole).collect();

    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    // The sort is stable: among equal remainders the lower device_id stays first.
    by_remainder.sort_by_key(|&i| Reverse(parts[i].1));
    // Fewer are left over than there are devices, because every remainder is less than one whole.
    let left_over = total - counts.iter().sum::<u32>();
    for &i in &by_remainder[..left_over as usize] {
        counts[i] += 1;
    }

    let mut offset = 0;
    let shares = weights.iter().zip(counts).map(|(w, count)| {
        let share = Share { device_id: w.device_id, offset, count };
        offset += count;
        share
    });
    Ok(shares.collect())
}

fn sorted(weights: &[Weight]) -> Result<Vec<Weight>, SplitError> {
    if weights.is_empty() {
        return Err(SplitError::NoDevices);
    }
    if let Some(w) = weights.iter().find(|w| w.weight == 0) {
        return Err(SplitError::ZeroWeight(w.device_id));
    }
    let mut weights = weights.to_vec();
    weights.sort_by_key(|w| w.device_id);
    match weights.windows(2).find(|w| w[0].device_id == w[1].device_id) {
        Some(pair) => Err(SplitError::Duplicate(pair[0].device_id)),
        None => Ok(weights),
    }
}

/// The whole part, at most `total`, and the remainder, below `sum`.
fn part(total: u32, weight: u64, sum: u64) -> (u32, u64) {
    let product = u128::from(total) * u128::from(weight);
    ((product / u128::from(sum)) as u32, (product % u128::from(sum)) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(number: u32) -> DeviceId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        DeviceId(bytes)
    }

    fn weights(weights: &[u64]) -> Vec<Weight> {
        weights.iter().zip(0..).map(|(&weight, i)| Weight { device_id: id(i), weight }).collect()
    }

    fn counts(total: u32, of: &[u64]) -> Vec<u32> {
        split(total, &weights(of)).unwrap().iter().map(|s| s.count).collect()
    }

    /// Distinct ids in no order, weights from tiny to as large as the sum allows.
    fn any_weights() -> impl Strategy<Value = Vec<Weight>> {
        let weight = prop_oneof![1_u64..5, 1_u64..10_000, 1_u64..u64::MAX / 64];
        proptest::collection::hash_map(any::<u32>(), weight, 1..40)
            .prop_map(|m| m.into_iter().map(|(i, weight)| Weight { device_id: id(i), weight }).collect())
    }

    proptest! {
        #[test]
        fn every_matrix_is_given_once(total in 0..=1_u32 << 20, weights in any_weights()) {
            let shares = split(total, &weights).unwrap();
            prop_assert_eq!(shares.len(), weights.len());
            prop_assert!(shares.windows(2).all(|w| w[0].device_id < w[1].device_id));
            let mut end = 0;
            for share in &shares {
                prop_assert_eq!(share.offset, end);
                end += share.count;
            }
            prop_assert_eq!(end, total);
        }

        #[test]
        fn the_order_of_the_weights_does_not_matter(
            total in any::<u32>(),
            (weights, shuffled) in any_weights().prop_flat_map(|w| (Just(w.clone()), Just(w).prop_shuffle())),
        ) {
            prop_assert_eq!(split(total, &weights), split(total, &shuffled));
        }

        /// Another formulation: a device has one more than its whole part exactly when fewer devices precede
        /// it (a larger remainder, or an equal one and a lower id) than matrices are left over.
        #[test]
        fn the_largest_remainders_get_what_is_left_over(total in any::<u32>(), weights in any_weights()) {
            let sum: u128 = weights.iter().map(|w| u128::from(w.weight)).sum();
            let whole = |w: &Weight| u128::from(total) * u128::from(w.weight) / sum;
            let remainder = |w: &Weight| u128::from(total) * u128::from(w.weight) - whole(w) * sum;
            let left_over = u128::from(total) - weights.iter().map(whole).sum::<u128>();
            for share in split(total, &weights).unwrap() {
                let own = weights.iter().find(|w| w.device_id == share.device_id).unwrap();
                let before = weights.iter().filter(|w| {
                    remainder(w) > remainder(own) || (remainder(w) == remainder(own) && w.device_id < own.device_id)
                });
                let extra = u128::from((before.count() as u128) < left_over);
                prop_assert_eq!(u128::from(share.count), whole(own) + extra);
            }
        }

        #[test]
        fn equal_weights_give_equal_shares(total in any::<u32>(), devices in 1_u32..50, weight in 1..u64::MAX / 64) {
            for (i, count) in (0..).zip(counts(total, &vec![weight; devices as usize])) {
                prop_assert_eq!(count, total / devices + u32::from(i < total % devices));
            }
        }
    }

    #[test]
    fn weights_at_the_edge_of_64_bits_are_exact() {
        assert_eq!(counts(u32::MAX, &[u64::MAX]), [u32::MAX]);
        assert_eq!(counts(3, &[u64::MAX - 1, 1]), [3, 0]);
        assert_eq!(counts(1 << 20, &[u64::MAX / 2, u64::MAX / 2]), [1 << 19, 1 << 19]);
    }

    #[test]
    fn weights_that_break_a_rule_are_refused() {
        assert_eq!(split(9, &[]), Err(SplitError::NoDevices));
        assert_eq!(split(9, &weights(&[3, 0])), Err(SplitError::ZeroWeight(id(1))));
        let twice = [Weight { device_id: id(7), weight: 1 }, Weight { device_id: id(7), weight: 2 }];
        assert_eq!(split(9, &twice), Err(SplitError::Duplicate(id(7))));
        assert_eq!(split(9, &weights(&[u64::MAX, 1])), Err(SplitError::Overflow));
    }
}
