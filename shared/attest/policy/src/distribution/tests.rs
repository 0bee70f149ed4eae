use super::*;
use proptest::prelude::*;

pub fn sample(operator: &str, miner: &str, tops: f64) -> Sample {
    let operator = (!operator.is_empty()).then(|| operator.to_owned());
    Sample { operator, miner: miner.to_owned(), n: 8192, tops, gb_per_s: tops * 2.0 }
}

#[test]
fn medians_are_weighed() {
    assert_eq!(median(vec![]), None);
    assert_eq!(median(vec![(3.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), Some(2.0));
    assert_eq!(median(vec![(1.0, 1.0), (2.0, 1.0)]), Some(1.5));
    assert_eq!(median(vec![(1.0, 1.0), (2.0, 3.0)]), Some(2.0));
    // Three thirds add up to one only approximately.
    let third = 1.0 / 3.0;
    assert_eq!(median(vec![(1.0, third), (1.0, third), (1.0, third), (2.0, 1.0)]), Some(1.5));
}

/// The distribution with no operator left out as the judged host's own.
fn of_all(samples: &[Sample]) -> Option<Distribution> {
    Distribution::of_operators(8192, &hosts_by_operator(samples, 8192))
}

#[test]
fn hosts_count_by_their_medians_and_operators_alike() {
    let mut samples = vec![sample("a", "1", 100.0), sample("a", "1", 102.0), sample("a", "1", 900.0)];
    samples.extend((0..99).map(|host| sample("b", &host.to_string(), 200.0)));
    samples.push(sample("c", "1", 110.0));
    let all = of_all(&samples).unwrap();
    assert_eq!((all.hosts, all.operators, all.without_one.len()), (101, 3, 3));
    assert_eq!(all.all.tops.median, 110.0, "a's host shows 102, and b's hundred weigh as much as it");
    assert_eq!(all.all.gb_per_s.median, 220.0);
    let Deviation::LogSigma(sigma) = all.all.tops.deviation else { panic!() };
    assert!((sigma - 1.4826 * (110.0_f64 / 102.0).ln()).abs() < 1e-12, "{sigma}");
    let other = Distribution::of(&samples, 8192, Some("b")).unwrap();
    assert_eq!((other.hosts, other.operators, other.all.tops.median), (2, 2, 106.0));
    assert_eq!(Distribution::of(&samples, 4096, None), None, "no samples of that size");
}

#[test]
fn miners_of_nobody_weigh_as_much_as_one_operator() {
    let mut samples: Vec<_> = (0..50).map(|host| sample("", &format!("free {host}"), 500.0)).collect();
    samples.extend(["a", "b", "c"].map(|operator| sample(operator, "1", 100.0)));
    let seen = Distribution::of(&samples, 8192, Some("a")).unwrap();
    assert_eq!((seen.operators, seen.all.tops.median), (3, 100.0), "keys are free");
    assert_eq!(Distribution::of(&samples, 8192, None).unwrap().hosts, 3, "nor do they vouch for each other");
}

#[test]
fn figures_that_are_none_are_left_out() {
    let samples = [sample("a", "1", f64::NAN), sample("b", "1", 0.0), sample("c", "1", -5.0), sample("d", "1", 7.0)];
    assert_eq!(of_all(&samples).unwrap().hosts, 1);
}

#[test]
fn many_operators_are_not_left_out_one_by_one() {
    let samples: Vec<_> = (0..300).map(|operator| sample(&operator.to_string(), "1", 100.0)).collect();
    let all = of_all(&samples).unwrap();
    assert_eq!((all.operators, all.without_one.len()), (300, 0));
}

proptest! {
    /// The same samples in any order give the same bits, as judging a verdict again requires.
    #[test]
    fn order_changes_no_bit(
        values in proptest::collection::vec((0..6_u8, 0..4_u8, 1.0..1000.0_f64), 1..60)
            .prop_flat_map(|values| (Just(values.clone()), Just(values).prop_shuffle())),
    ) {
        let samples = |values: &[(u8, u8, f64)]| -> Vec<Sample> {
            values.iter().map(|(operator, miner, tops)| sample(&operator.to_string(), &miner.to_string(), *tops)).collect()
        };
        let (plain, shuffled) = (samples(&values.0), samples(&values.1));
        let bits = |samples: &[Sample]| serde_json::to_string(&of_all(samples)).unwrap();
        prop_assert_eq!(bits(&plain), bits(&shuffled));
    }
}
