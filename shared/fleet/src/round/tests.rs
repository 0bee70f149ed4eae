use super::*;
use std::collections::BTreeSet;
use std::time::Duration;

fn member(miner: &str, operator: Option<&str>, address: &str, model: Option<&str>) -> Member {
    Member {
        miner: miner.to_owned(),
        operator: operator.map(str::to_owned),
        address: address.parse().unwrap(),
        model: model.map(str::to_owned),
    }
}

fn rounds(by: RoundScope, most: Option<u32>) -> Rounds {
    Rounds { mean: None, by, start_within: Duration::from_secs(10), most }
}

fn sets(by: RoundScope) -> Vec<(String, Vec<String>)> {
    let members = [
        member("1", Some("x"), "192.0.2.1", Some("H200")),
        member("2", Some("y"), "192.0.2.200", Some("H200")),
        member("3", Some("x"), "2001:db8:1:2::1", None),
        member("4", None, "::ffff:192.0.2.9", Some("L4")),
        member("5", None, "2001:db8:1:ffff::1", Some("L4")),
    ];
    partition(&members, &rounds(by, None), |_| unreachable!("nothing is drawn")).into_iter().collect()
}

fn set(name: &str, miners: &[&str]) -> (String, Vec<String>) {
    (name.to_owned(), miners.iter().map(ToString::to_string).collect())
}

#[test]
fn members_are_together_by_what_they_have_in_common() {
    assert_eq!(sets(RoundScope::All), [set("all", &["1", "2", "3", "4", "5"])]);
    assert_eq!(sets(RoundScope::Operator), [set("unknown", &["4", "5"]), set("x", &["1", "3"]), set("y", &["2"])]);
    let blocks = [set("192.0.2.0/24", &["1", "2", "4"]), set("2001:db8:1::/48", &["3", "5"])];
    assert_eq!(sets(RoundScope::Address), blocks);
    assert_eq!(sets(RoundScope::Model), [set("H200", &["1", "2"]), set("L4", &["4", "5"]), set("unknown", &["3"])]);
}

#[test]
fn a_round_that_is_too_large_is_drawn() {
    let members: Vec<_> = (0..10).map(|at| member(&at.to_string(), None, "192.0.2.1", None)).collect();
    let mut state = 5_usize;
    let mut draw = |below: usize| {
        state = (state * 31 + 7) % 1009;
        state % below
    };
    let drawn: BTreeSet<_> =
        (0..50).map(|_| partition(&members, &rounds(RoundScope::All, Some(3)), &mut draw)["all"].clone()).collect();
    assert!(drawn.iter().all(|set| set.len() == 3));
    let seen: BTreeSet<_> = drawn.iter().flatten().collect();
    assert_eq!((seen.len(), drawn.len() > 10), (10, true), "everyone has a turn: {drawn:?}");
}
