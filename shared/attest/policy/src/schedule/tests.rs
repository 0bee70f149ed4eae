use super::*;
use crate::policy::Heavy;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

const MEAN: Duration = Duration::from_secs(600);

fn waits(cadence: &Cadence, count: usize) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    (0..count).map(|_| draw_wait(cadence, MEAN, uniform(&mut rng)).as_secs_f64()).collect()
}

#[test]
fn waits_have_no_memory() {
    let waits = waits(&Cadence::default(), 40_000);
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    assert!((mean / 600.0 - 1.0).abs() < 0.03, "{mean}");
    // Of the waits longer than any time, the same share lasts ten minutes more.
    for at_least in [0.0, 300.0, 600.0, 1200.0, 1800.0] {
        let longer: Vec<_> = waits.iter().filter(|wait| **wait > at_least).collect();
        let go_on = longer.iter().filter(|wait| ***wait > at_least + 600.0).count() as f64 / longer.len() as f64;
        assert!((go_on - (-1.0_f64).exp()).abs() < 0.03, "{go_on} after {at_least}");
    }
}

#[test]
fn waits_keep_to_their_bounds() {
    let seconds = Duration::from_secs;
    let cadence = Cadence { mean: Some(seconds(100)), least: seconds(30), most: Some(seconds(300)), at_connect: None };
    let waits = waits(&cadence, 2000);
    assert!(waits.iter().all(|wait| (30.0..=300.0).contains(wait)));
    assert!(waits.contains(&30.0) && waits.contains(&300.0), "both bounds are met");
    for (uniform, wait) in [(0.0, 0), (1.0, 6000), (2.0, 6000), (-1.0, 0)] {
        assert_eq!(draw_wait(&Cadence::default(), MEAN, uniform), seconds(wait), "{uniform}");
    }
    assert!(draw_wait(&Cadence::default(), MEAN, f64::NAN) <= MEAN * 10);
    assert!(draw_wait(&Cadence::default(), Duration::MAX, 0.9) > seconds(1), "no wait overflows");
}

#[test]
fn heavy_challenges_are_drawn_and_owed() {
    let mut group = Group::default();
    let standing = Standing::enrolled(0);
    assert!(!draw_kind(&group, &standing, 0, 0.0).1, "there are none");
    let kind = Kind { name: "heavy".to_owned(), ..Kind::default() };
    group.heavy = Some(Heavy { kind, share_percent: 25.0 });
    let drawn = |standing: &Standing, uniform| draw_kind(&group, standing, 0, uniform).1;
    assert!(drawn(&standing, 0.2499) && !drawn(&standing, 0.25));
    assert_eq!(draw_kind(&group, &standing, 0, 0.1).0.name, "heavy");
    let owing = Standing { heavy_due: true, ..standing };
    assert!(drawn(&owing, 0.99), "one that showed nothing is asked again");
}

/// End of a challenge, and the device time that it took.
type Spent = (u64, Duration);

/// The device time of challenges that ended in the day before `now_s`.
fn used(spent: &[Spent], now_s: u64) -> Duration {
    let in_day = |(ended_s, _): &&Spent| *ended_s <= now_s && now_s - ended_s < DAY.as_secs();
    spent.iter().filter(in_day).map(|(_, device_time)| *device_time).sum()
}

#[test]
fn a_budget_holds_in_any_day() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let budget = budget(5.0);
    assert_eq!(budget, Duration::from_secs(4320));
    let (mut spent, mut now_s, mut refused) = (Vec::<Spent>::new(), 1_000_000, 0);
    for _ in 0..3000 {
        let expected = Duration::from_secs(1 + rng.next_u64() % 900);
        if fits(used(&spent, now_s), expected, budget) {
            now_s += expected.as_secs();
            spent.push((now_s, expected));
        } else {
            refused += 1;
        }
        now_s += rng.next_u64() % 600;
    }
    assert!(refused > 100 && spent.len() > 100, "the budget was felt: {refused}");
    assert!(spent.iter().all(|(ended_s, _)| used(&spent, *ended_s) <= budget));
    assert!(!fits(Duration::ZERO, budget + Duration::from_secs(1), budget), "what never fits");
}
