//! Draws made after an answer: iterations, samples and segments, all uniform.

use std::collections::BTreeSet;

use assay_protocol::message::{OpenItem, OpenTarget};
use assay_work::bounds::IterationDraw;
use assay_work::opening::PassSample;
use assay_work::probe::{Probe, Sweep, SweepSample};
use assay_work::segment::Segment;
use assay_work::{Challenge, Share};

use super::size::Probes;
use crate::entropy::{Entropy, EntropyError};

/// Draws the iterations to examine, in ascending order: `draw.drawn()` distinct ones, and the last one, whose slots the
/// probe reads.
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

/// Draws samples of one pass: uniform multiply-accumulates, and after them one row of each leaf.
pub fn samples(n: u32, count: u32, drawn: u32, entropy: &mut dyn Entropy) -> Result<Vec<PassSample>, EntropyError> {
    let mut index = |bound: u32| entropy.below(u64::from(bound)).map(|draw| draw as u32);
    let mut samples = Vec::with_capacity(drawn as usize + 2);
    for _ in 0..drawn {
        let slot = 2 + index(count - 2)?;
        samples.push(PassSample::Product { slot, row: index(n)?, column: index(n)?, inner: index(n)? });
    }
    for slot in 0..2 {
        samples.push(PassSample::Leaf { slot, row: index(n)? });
    }
    Ok(samples)
}

/// Draws segments of a device's probe. No round is drawn again before all have been: each invented digest is one more
/// to meet.
pub fn segments(probe: &Probe, drawn: u32, entropy: &mut dyn Entropy) -> Result<Vec<Segment>, EntropyError> {
    let mut index = |bound: u32| entropy.below(u64::from(bound)).map(|draw| draw as u32);
    let mut rounds: Vec<_> = (0..probe.rounds()).collect();
    let mut segments = Vec::with_capacity(drawn as usize);
    for at in 0..drawn {
        // Fisher-Yates shuffle, as far as needed, restarted after all rounds were drawn.
        let at = at % probe.rounds();
        let chosen = at + index(probe.rounds() - at)?;
        rounds.swap(at as usize, chosen as usize);
        segments.push(Segment { round: rounds[at as usize], walk: index(probe.walks())? });
    }
    Ok(segments)
}

/// Draws samples of a device's sweep over `count` slots of n-by-n.
pub fn sums(
    sweep: &Sweep,
    (n, count): (u32, u32),
    drawn: u32,
    entropy: &mut dyn Entropy,
) -> Result<Vec<SweepSample>, EntropyError> {
    let mut index = |bound: u32| entropy.below(u64::from(bound)).map(|draw| draw as u32);
    (0..drawn).map(|_| Ok(SweepSample { round: index(sweep.rounds())?, slot: index(count)?, row: index(n)? })).collect()
}

/// Whether a challenge and its probes have all that these items ask for. Items drawn here do; stored ones may be forged.
pub fn fit(challenge: &Challenge, probes: Probes<'_>, items: &[OpenItem]) -> bool {
    let of_probe = |probe: Option<&Probe>, drawn: &[Segment]| {
        probe.is_some_and(|probe| drawn.iter().all(|segment| segment.fits(probe)))
    };
    items.iter().all(|OpenItem { device_id, what }| {
        let Some(&Share { count, .. }) = challenge.share(*device_id) else { return false };
        let n = challenge.n();
        match what {
            OpenTarget::Segments(drawn) => of_probe(Some(probes.own), drawn),
            OpenTarget::LinkedSegments(drawn) => of_probe(probes.linked, drawn),
            OpenTarget::Sums(drawn) => {
                probes.sweep.is_some_and(|sweep| drawn.iter().all(|sample| sample.fits(sweep, n, count)))
            }
            OpenTarget::Samples { iteration, samples } => {
                *iteration < challenge.iterations() && samples.iter().all(|sample| sample.fits(n, count))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SeededEntropy;
    use crate::issue::tests::issue_for;
    use assay_policy::Policy;
    use assay_work::probe::{UncheckedProbe, UncheckedSweep};
    use assay_work::{DeviceId, ProbeSeed};

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
        assert!(matches!(drawn[400..], [PassSample::Leaf { slot: 0, .. }, PassSample::Leaf { slot: 1, .. }]));
        let rows: BTreeSet<_> = drawn.iter().map(|s| s.slot_and_row().1).collect();
        assert!(rows.len() > 150, "402 draws of 256 rows leave about 53 out, not {}", 256 - rows.len());
        let of_product = |sample: &PassSample| match *sample {
            PassSample::Product { column, inner, .. } => Some((column, inner)),
            PassSample::Leaf { .. } => None,
        };
        let (columns, inners): (BTreeSet<_>, BTreeSet<_>) = drawn.iter().filter_map(of_product).unzip();
        assert!(columns.len() > 150 && inners.len() > 150, "{} and {}", columns.len(), inners.len());
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

    /// Regression test, found by fuzzing: items of a stored case that its challenge does not have ended the judge.
    #[test]
    fn items_that_the_challenge_does_not_have_do_not_fit() {
        let policy = Policy { n: Some(256), iterations: 2, ..Policy::default() };
        let challenge = issue_for(&policy, &[3]).unwrap().challenge;
        let &[Share { device_id: device, count, .. }] = challenge.shares() else { panic!("one device") };
        let unchecked = UncheckedProbe { seed: ProbeSeed([0; 32]), walks: 64, steps: 3, rounds: 2, link: 0 };
        let own = Probe::try_from(unchecked).unwrap();
        let sweep = Sweep::try_from(UncheckedSweep { seed: ProbeSeed([0; 32]), rounds: 4 }).unwrap();
        let fits_on = |device_id, what| {
            let probes = Probes { own: &own, linked: None, sweep: Some(&sweep) };
            fit(&challenge, probes, &[OpenItem { device_id, what }])
        };
        let fits = |what| fits_on(device, what);
        let segment = |round, walk| OpenTarget::Segments(vec![Segment { round, walk }]);
        assert!(fits(segment(1, 63)) && !fits(segment(2, 63)) && !fits(segment(1, 64)));
        assert!(!fits_on(DeviceId([9; 16]), segment(1, 63)));
        assert!(!fits(OpenTarget::LinkedSegments(vec![Segment { round: 0, walk: 0 }])), "there is no linked probe");
        let sum = |round, slot, row| OpenTarget::Sums(vec![SweepSample { round, slot, row }]);
        let last = count - 1;
        assert!(fits(sum(3, last, 255)) && !fits(sum(4, last, 255)));
        assert!(!fits(sum(3, count, 255)) && !fits(sum(3, last, 256)));
        let product = |iteration, slot| {
            let samples = vec![PassSample::Product { slot, row: 1, column: 2, inner: 3 }];
            OpenTarget::Samples { iteration, samples }
        };
        assert!(fits(product(1, last)) && !fits(product(2, last)) && !fits(product(1, count)));
    }

    #[test]
    fn samples_of_a_sweep_are_uniform() {
        let sweep = Sweep::try_from(UncheckedSweep { seed: ProbeSeed([0; 32]), rounds: 4 }).unwrap();
        let drawn = sums(&sweep, (256, 3), 1200, &mut SeededEntropy::new(6)).unwrap();
        assert!(drawn.iter().all(|sample| sample.fits(&sweep, 256, 3)));
        // 100 expected of each; five standard deviations are 48.
        let times = |round, slot| drawn.iter().filter(|s| (s.round, s.slot) == (round, slot)).count();
        assert!((0..4).all(|round| (0..3).all(|slot| (52..148).contains(&times(round, slot)))));
        let rows: BTreeSet<_> = drawn.iter().map(|sample| sample.row).collect();
        assert!(rows.len() > 230, "1200 draws of 256 rows leave about 2 out, not {}", 256 - rows.len());
    }

    #[test]
    fn rounds_are_drawn_without_repetition_and_are_as_likely() {
        let unchecked = UncheckedProbe { seed: ProbeSeed([0; 32]), walks: 64, steps: 3, rounds: 24, link: 0 };
        let probe = Probe::try_from(unchecked).unwrap();
        let mut entropy = SeededEntropy::new(4);
        let mut first = [0; 24];
        for _ in 0..2400 {
            let drawn: Vec<_> = segments(&probe, 60, &mut entropy).unwrap().iter().map(|s| s.round).collect();
            let distinct = |rounds: &[u32]| rounds.iter().collect::<BTreeSet<_>>().len();
            assert_eq!([&drawn[..24], &drawn[24..48], &drawn[48..]].map(distinct), [24, 24, 12]);
            first[drawn[0] as usize] += 1;
        }
        // 100 expected of each; five standard deviations are 49.
        assert!(first.iter().all(|n| (51..149).contains(n)), "{first:?}");
    }
}
