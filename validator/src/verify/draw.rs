//! What is drawn after an answer: iterations, samples and segments, all uniform.

use std::collections::BTreeSet;

use assay_work::bounds::IterationDraw;
use assay_work::opening::Sample;
use assay_work::probe::Probe;
use assay_work::segment::Segment;

use crate::entropy::{Entropy, EntropyError};

/// The iterations that are examined, in ascending order: distinct ones as the draw says, and the last one, whose slots
/// the probe reads.
///
/// # Errors
/// [`EntropyError`].
pub fn iterations(draw: IterationDraw, entropy: &mut dyn Entropy) -> Result<Vec<u32>, EntropyError> {
    let others = draw.examined() + draw.unexamined() - 1;
    // Floyd's sampling: one draw for each, none thrown away.
    let mut chosen = BTreeSet::from([others]);
    for last in others - draw.drawn()..others {
        // Below last + 1, a u32.
        let draw = entropy.below(u64::from(last) + 1)? as u32;
        if !chosen.insert(draw) {
            chosen.insert(last);
        }
    }
    Ok(chosen.into_iter().collect())
}

/// Samples of one pass: uniform multiply-accumulates, and after them one row of each leaf.
///
/// # Errors
/// [`EntropyError`].
pub fn samples(n: u32, count: u32, drawn: u32, entropy: &mut dyn Entropy) -> Result<Vec<Sample>, EntropyError> {
    let mut index = |bound: u32| entropy.below(u64::from(bound)).map(|draw| draw as u32);
    let mut samples = Vec::with_capacity(drawn as usize + 2);
    for _ in 0..drawn {
        let slot = 2 + index(count - 2)?;
        samples.push(Sample::Product { slot, row: index(n)?, column: index(n)?, inner: index(n)? });
    }
    for slot in 0..2 {
        samples.push(Sample::Leaf { slot, row: index(n)? });
    }
    Ok(samples)
}

/// Segments of a device's probe.
///
/// # Errors
/// [`EntropyError`].
pub fn segments(probe: &Probe, drawn: u32, entropy: &mut dyn Entropy) -> Result<Vec<Segment>, EntropyError> {
    let mut index = |bound: u32| entropy.below(u64::from(bound)).map(|draw| draw as u32);
    (0..drawn).map(|_| Ok(Segment { round: index(probe.rounds())?, walk: index(probe.walks())? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SeededEntropy;
    use assay_work::ProbeSeed;
    use assay_work::probe::UncheckedProbe;

    #[test]
    fn the_last_iteration_is_always_drawn_and_the_others_are_as_likely() {
        let mut entropy = SeededEntropy::new(1);
        let mut seen = [0; 8];
        for _ in 0..7000 {
            let drawn = iterations(IterationDraw::new(8, 3), &mut entropy).unwrap();
            assert!(drawn.len() == 4 && drawn.windows(2).all(|w| w[0] < w[1]));
            for i in drawn {
                seen[i as usize] += 1;
            }
        }
        let (last, others) = seen.split_last().unwrap();
        assert_eq!(*last, 7000);
        // 3000 expected of each; five standard deviations are 207.
        assert!(others.iter().all(|n| (2790..3210).contains(n)), "{seen:?}");
        assert_eq!(iterations(IterationDraw::new(3, 5), &mut entropy).unwrap(), vec![0, 1, 2]);
        assert_eq!(iterations(IterationDraw::new(1, 0), &mut entropy).unwrap(), vec![0]);
        assert_eq!(iterations(IterationDraw::new(4, 0), &mut entropy).unwrap(), vec![3]);
    }

    #[test]
    fn samples_fit_the_pass_and_end_with_both_leaves() {
        let mut entropy = SeededEntropy::new(2);
        let drawn = samples(256, 3, 400, &mut entropy).unwrap();
        assert!(drawn.iter().all(|s| s.fits(256, 3)));
        assert!(matches!(drawn[400..], [Sample::Leaf { slot: 0, .. }, Sample::Leaf { slot: 1, .. }]));
        let rows: BTreeSet<_> = drawn.iter().map(|s| s.slot_and_row().1).collect();
        assert!(rows.len() > 150, "402 draws of 256 rows leave about 53 out, not {}", 256 - rows.len());
    }

    #[test]
    fn segments_fit_the_probe() {
        let unchecked = UncheckedProbe { seed: ProbeSeed([0; 32]), walks: 64, steps: 3, rounds: 2, link: 0 };
        let probe = Probe::try_from(unchecked).unwrap();
        let drawn = segments(&probe, 500, &mut SeededEntropy::new(3)).unwrap();
        assert!(drawn.iter().all(|s| s.fits(&probe)));
        let distinct: BTreeSet<_> = drawn.iter().collect();
        assert!(distinct.len() > 110, "of 128 segments 500 draws leave about 3 out, not {}", 128 - distinct.len());
    }
}
