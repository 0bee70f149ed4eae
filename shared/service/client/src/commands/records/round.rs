//! `assay-validator round`.

use std::collections::BTreeSet;
use std::time::Duration;

use assay_api::record::{RoundMember, RoundRecord};
use assay_api::{BeginRound, MAX_DOCUMENTS, Round, RoundDetail, StartedRound, VerdictsQuery};
use assay_program::exit::{Exit, print_document};
use assay_program::render::{Screen, short_ids, table};
use assay_work::text::quoted;
use serde_json::{Map, Value, json};

use super::{NOTHING, ask, short, text};
use crate::cli::records::RoundArgs;
use crate::place::ApiLocation;
use crate::{Client, Result, escaped};

/// Polling interval of a running round.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Challenges the members of a group together, and prints the result of each.
///
/// # Errors
/// No validator answers, or the group is unknown or empty.
pub fn execute(place: &ApiLocation, args: &RoundArgs) -> anyhow::Result<Exit> {
    let begin = BeginRound { group: args.group.clone() };
    let round = ask(place, async |client| {
        let StartedRound { round: id } = client.post("/rounds", &begin).await?;
        let round = ended(&client, &id).await?;
        Ok(report(&round, &verdicts(&client, id).await?))
    })?;
    print_document(&round, args.common.json, || shown(&round, &Screen::stdout()))?;
    Ok(exit_of(&round))
}

/// Renders a recorded round like [`execute`].
///
/// # Errors
/// As [`execute`].
pub fn recorded(place: &ApiLocation, round: &Round, screen: &Screen) -> anyhow::Result<String> {
    let verdicts = ask(place, async |client| verdicts(&client, round.record.id.clone()).await)?;
    Ok(shown(&report(round, &verdicts), screen))
}

async fn verdicts(client: &Client, round: String) -> Result<Vec<Value>> {
    client.list("/verdicts", &VerdictsQuery { round: Some(round), ..VerdictsQuery::default() }, MAX_DOCUMENTS).await
}

/// Waits for the end of a round, and returns it.
async fn ended(client: &Client, id: &str) -> Result<Round> {
    loop {
        let round: Round = client.get(&format!("/rounds/{}", escaped(id))).await?;
        if round.record.ended_ms.is_some() {
            return Ok(round);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Result of a round, with the reasons of its verdicts.
fn report(round: &Round, verdicts: &[Value]) -> Value {
    let Round { record, members } = round;
    let RoundDetail { probed_ms, probed_together } = RoundDetail::of(record);
    let members: Map<_, _> =
        members.iter().map(|member| (member.miner.clone(), end(record, member, verdicts))).collect();
    json!({
        "round_id": record.id, "group": record.group, "began_ms": record.begun_ms, "probed_ms": probed_ms,
        "probed_together": probed_together, "members": members,
    })
}

/// Result of a member.
fn end(round: &RoundRecord, member: &RoundMember, verdicts: &[Value]) -> Value {
    let Some(challenge) = &member.challenge else {
        return json!({ "state": "not_started", "why": member.detail });
    };
    let found = verdicts.iter().find(|verdict| verdict["challenge"] == challenge.as_str());
    let Some(verdict) = found else {
        let state = if round.ended_ms.is_some() { "lost" } else { "running" };
        return json!({ "state": state, "challenge_id": challenge });
    };
    let reasons = verdict["verdict"]["reasons"].as_array().into_iter().flatten();
    let codes: Vec<_> = reasons.map(|reason| &reason["code"]).collect();
    // The time of work ends with the commitment: without a commitment it is 0.
    let has_committed = verdict["verdict"]["whole"]["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0);
    let committed_ms = has_committed.then(|| member.at_ms.saturating_sub(round.begun_ms).max(0));
    json!({
        "state": "judged", "challenge_id": challenge, "committed_ms": committed_ms, "outcome": verdict["outcome"],
        "reasons": codes,
    })
}

/// Members of a round.
fn members(round: &Value) -> impl Iterator<Item = (&String, &Value)> {
    round["members"].as_object().into_iter().flatten()
}

/// One line for the round, and one per member.
fn shown(round: &Value, screen: &Screen) -> String {
    let mut table = table::new(screen, &["miner", "committed ms", "outcome", "challenge", "why"]);
    let keys = short_ids(members(round).map(|(key, _)| key));
    for ((_, member), key) in members(round).zip(keys) {
        let committed = member["committed_ms"].as_u64().map_or_else(|| NOTHING.to_owned(), |ms| ms.to_string());
        let challenge = member["challenge_id"].as_str().map_or(NOTHING, short);
        let (outcome, why) = match text(member, "state") {
            "judged" => (text(member, "outcome"), codes(member)),
            "not_started" => ("not started", quoted(text(member, "why")).to_string()),
            other => (other, NOTHING.to_owned()),
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

/// The exit code: all passed, one failed, or any other result.
fn exit_of(round: &Value) -> Exit {
    let outcomes: BTreeSet<_> = members(round).map(|(_, member)| text(member, "outcome")).collect();
    match outcomes.iter().copied().collect::<Vec<_>>()[..] {
        ["pass"] => Exit::Done,
        _ if outcomes.contains("fail") => Exit::Fail,
        _ => Exit::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(outcomes: &[&str]) -> Value {
        let member = |outcome: &&str| match *outcome {
            "late" => json!({ "state": "not_started", "why": "it took 12 s\u{1b}" }),
            outcome => json!({
                "state": "judged", "challenge_id": "cd".repeat(16), "committed_ms": 812, "outcome": outcome, "reasons": [],
            }),
        };
        let members = outcomes.iter().enumerate().map(|(number, outcome)| (format!("{number:064}"), member(outcome)));
        let members: Map<_, _> = members.collect();
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
        let exit = |outcomes: &[&str]| exit_of(&round(outcomes)) as u8;
        assert_eq!(
            [exit(&["pass"]), exit(&["pass", "late"]), exit(&["fail", "late"]), exit(&["inconclusive"])],
            [0, 2, 1, 2]
        );
    }
}
