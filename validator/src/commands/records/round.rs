//! `assay-validator round`.

use std::collections::BTreeSet;

use assay_program::exit::{Exit, print};
use assay_program::render::{Screen, short_ids, table};
use assay_protocol::wire::v1::change_request::Change;
use assay_protocol::wire::v1::{RoundChange, RoundScope};
use assay_work::text::quoted;
use serde_json::Value;

use super::{NOTHING, make, short, text};
use crate::cli::records::RoundArgs;
use crate::config::ValidatorConfig;

/// Challenges the members of a group together, and says what became of each.
///
/// # Errors
/// No validator answers on the socket, or no such group has members.
pub fn execute(config: &ValidatorConfig, args: &RoundArgs) -> anyhow::Result<Exit> {
    let by = args.by.map_or(RoundScope::Unspecified, RoundScope::from).into();
    let change = RoundChange { group: args.group.clone().unwrap_or_default(), by };
    let rounds = make(config, Change::Round(change))?;
    let rounds = rounds.as_array().map(Vec::as_slice).unwrap_or_default();
    if args.common.json {
        super::print_all(rounds)?;
    } else {
        let shown: Vec<_> = rounds.iter().map(|round| shown(round, &Screen::stdout())).collect();
        print(&shown.join("\n\n"))?;
    }
    Ok(exit_of(rounds))
}

/// Each member of a round.
fn members(round: &Value) -> impl Iterator<Item = (&String, &Value)> {
    round["members"].as_object().into_iter().flatten()
}

/// A line for the round, and one for each member.
fn shown(round: &Value, screen: &Screen) -> String {
    let mut table = table::new(screen, &["miner", "committed ms", "outcome", "challenge", "why"]);
    let keys = short_ids(members(round).map(|(key, _)| key));
    for ((_, member), key) in members(round).zip(keys) {
        let committed = member["committed_ms"].as_u64().map_or_else(|| NOTHING.to_owned(), |ms| ms.to_string());
        let challenge = member["challenge_id"].as_str().map_or(NOTHING, short);
        let (outcome, why) = match text(member, "state") {
            "judged" => (text(member, "outcome"), codes(member)),
            "not_started" => ("not started", quoted(text(member, "why")).to_string()),
            _ => ("lost", NOTHING.to_owned()),
        };
        table.add_row([table::id(key), table::figure(committed), outcome.into(), table::id(challenge), why.into()]);
    }
    let started = members(round).filter(|(_, member)| text(member, "state") != "not_started").count();
    let (all, together) = (members(round).count(), &round["probed_together"]);
    format!(
        "round {} of {}: {started} of {all} started in time, {together} were probed together\n{}",
        short(text(round, "round_id")),
        quoted(text(round, "group")),
        table::text(&table)
    )
}

fn codes(member: &Value) -> String {
    let codes: Vec<_> = member["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if codes.is_empty() { NOTHING.to_owned() } else { codes.join(", ") }
}

/// All passed, one failed, or anything else.
fn exit_of(rounds: &[Value]) -> Exit {
    let outcome = |(_, member): (_, &Value)| text(member, "outcome").to_owned();
    let outcomes: BTreeSet<_> = rounds.iter().flat_map(|round| members(round).map(outcome)).collect();
    match outcomes.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["pass"] => Exit::Done,
        _ if outcomes.contains("fail") => Exit::Fail,
        _ => Exit::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn round(outcomes: &[&str]) -> Value {
        let member = |outcome: &&str| match *outcome {
            "late" => json!({ "state": "not_started", "why": "it took 12 s\u{1b}" }),
            outcome => json!({
                "state": "judged", "challenge_id": "cd".repeat(16), "committed_ms": 812, "outcome": outcome, "reasons": [],
            }),
        };
        let members = outcomes.iter().enumerate().map(|(number, outcome)| (format!("{number:064}"), member(outcome)));
        let members: serde_json::Map<_, _> = members.collect();
        json!({ "round_id": "ab".repeat(16), "group": "north", "probed_together": 1, "members": members })
    }

    #[test]
    fn a_round_says_who_did_not_start() {
        let plain = shown(&round(&["pass", "late"]), &Screen::FILE);
        assert!(
            plain.starts_with("round abababab of \"north\": 1 of 2 started in time, 1 were probed together\n"),
            "{plain}"
        );
        assert!(
            plain.contains("not started") && plain.contains("it took 12 s") && !plain.contains('\u{1b}'),
            "{plain}"
        );
        let narrow = shown(&round(&["pass", "late"]), &Screen { width: Some(80), colour: false });
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }

    #[test]
    fn a_round_ends_as_its_worst_member() {
        let exit = |outcomes: &[&str]| exit_of(&[round(&["pass"]), round(outcomes)]) as u8;
        assert_eq!([exit(&["pass"]), exit(&["late"]), exit(&["fail", "late"]), exit(&["inconclusive"])], [0, 2, 1, 2]);
    }
}
