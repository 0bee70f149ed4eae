//! How likely a faked answer is to pass (WORK.md, Verification): reported with every verdict.

/// The chance that `samples` independent draws all miss a fraction `faked` of what is drawn from: `(1 - g)^q`.
///
/// # Panics
/// When `faked` is not from 0 to 1.
#[must_use]
pub fn pass_probability(faked: f64, samples: u64) -> f64 {
    if samples == 0 { 1.0 } else { pass_log2(faked, samples).exp2() }
}

/// The binary logarithm of [`pass_probability`], which stays meaningful where that is too small to print.
///
/// # Panics
/// When `faked` is not from 0 to 1.
#[must_use]
pub fn pass_log2(faked: f64, samples: u64) -> f64 {
    assert!((0.0..=1.0).contains(&faked), "a fraction");
    if samples == 0 { 0.0 } else { samples as f64 * (-faked).ln_1p() / std::f64::consts::LN_2 }
}

/// The chance that `drawn` distinct iterations out of `iterations` hold none of `faked` faked ones:
/// `binomial(I-s, m) / binomial(I, m)`.
///
/// # Panics
/// When more are faked or drawn than there are.
#[must_use]
pub fn undrawn_probability(faked: u32, iterations: u32, drawn: u32) -> f64 {
    assert!(faked <= iterations && drawn <= iterations, "iterations of the challenge");
    let honest = iterations - faked;
    if drawn > honest {
        return 0.0;
    }
    (0..drawn).map(|i| f64::from(honest - i) / f64::from(iterations - i)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} is not {expected}");
    }

    /// Pascal's triangle: exact for what the test asks.
    fn binomial(n: u32, k: u32) -> f64 {
        let mut row = vec![1_u128];
        for _ in 0..n {
            let next = row.windows(2).map(|w| w[0] + w[1]).collect::<Vec<_>>();
            row = [vec![1], next, vec![1]].concat();
        }
        row.get(k as usize).map_or(0.0, |&b| b as f64)
    }

    #[test]
    fn samples_multiply() {
        close(pass_probability(0.01, 300), 0.99_f64.powi(300));
        close(pass_probability(0.5, 10), 1.0 / 1024.0);
        close(pass_log2(0.5, 4000), -4000.0);
        assert_eq!(pass_probability(0.5, 4000), 0.0);
    }

    #[test]
    fn nothing_faked_always_passes_and_everything_faked_never_does() {
        for samples in [1, 5, 1000] {
            assert_eq!(pass_probability(0.0, samples), 1.0);
            assert_eq!(pass_probability(1.0, samples), 0.0);
        }
        assert_eq!(pass_probability(1.0, 0), 1.0);
    }

    #[test]
    fn draws_are_without_repetition() {
        for iterations in 1..=12 {
            for faked in 0..=iterations {
                for drawn in 0..=iterations {
                    let expected = binomial(iterations - faked, drawn) / binomial(iterations, drawn);
                    close(undrawn_probability(faked, iterations, drawn), expected);
                }
            }
        }
    }
}
