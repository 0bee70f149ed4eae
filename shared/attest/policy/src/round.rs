//! Selection of the miners that are challenged at the same time, so that one device cannot stand in for two.

/// Draws the members of a round, all or `most` of them, and their order: those that come late find no place. `draw`
/// returns a random number below its argument.
pub fn drawn<T>(mut members: Vec<T>, most: Option<u32>, mut draw: impl FnMut(usize) -> usize) -> Vec<T> {
    let most = most.map_or(usize::MAX, |most| most as usize).min(members.len());
    // The first `most` of a shuffle.
    for at in 0..most {
        let below = members.len() - at;
        members.swap(at, at + draw(below).min(below - 1));
    }
    members.truncate(most);
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_round_that_is_too_large_is_drawn() {
        let mut state = 5_usize;
        let mut draw = |below: usize| {
            state = (state * 31 + 7) % 1009;
            state % below
        };
        let rounds: Vec<BTreeSet<_>> =
            (0..50).map(|_| drawn((0..10).collect(), Some(3), &mut draw).into_iter().collect()).collect();
        assert!(rounds.iter().all(|members| members.len() == 3));
        let (seen, others): (BTreeSet<_>, BTreeSet<_>) = (rounds.iter().flatten().collect(), rounds.iter().collect());
        assert_eq!((seen.len(), others.len() > 10), (10, true), "everyone has a turn: {rounds:?}");
        // Regression test: of members without places for all, those with the lowest ids took them each time.
        for most in [None, Some(10), Some(11)] {
            let rounds: Vec<Vec<_>> = (0..50).map(|_| drawn((0..10).collect(), most, &mut draw)).collect();
            assert!(
                rounds
                    .iter()
                    .all(|members| BTreeSet::from_iter(members) == BTreeSet::from_iter(&Vec::from_iter(0..10)))
            );
            assert_eq!(rounds.iter().map(|members| members[0]).collect::<BTreeSet<_>>().len(), 10);
        }
    }
}
