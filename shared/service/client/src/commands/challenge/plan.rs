//! One challenge, or concurrent challenges of several miners.

use std::path::PathBuf;

use assay_api::BeginChallenge;
use assay_program::exit::{Exit, Failure, print, print_document};
use assay_program::file::write_text;
use assay_program::render::{Screen, short_ids, table, units};
use assay_program::{progress, standard_error};
use assay_protocol::verdict::{Outcome, Verdict};
use assay_work::PublicKey;
use serde::Serialize;
use tokio::task::JoinSet;

use super::live::Interrupts;
use super::target::{self, ChallengeTarget, WaitLimit};
use crate::commands::exit_of;
use crate::{Client, render};

/// The challenges requested by the command line.
#[derive(Debug)]
pub struct ChallengePlan {
    pub target: ChallengeTarget,
    pub request: BeginChallenge,
    /// File for the receipt of a single challenge's verdict.
    pub receipt: Option<PathBuf>,
    /// Wait for miners, if requested.
    pub wait: Option<WaitLimit>,
    /// Whether to return once the challenges run.
    pub detach: bool,
    pub json: bool,
}

/// Result of one challenge.
#[derive(Debug, Serialize)]
struct ChallengeResult {
    miner_key: PublicKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<Box<Verdict>>,
    /// The reason for the missing verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Runs the challenges, prints their results, and returns the exit code of the worst.
///
/// # Errors
/// No validator, no such miner, and for a single challenge the reason for the missing verdict.
pub async fn run(client: &Client, plan: &ChallengePlan) -> anyhow::Result<Exit> {
    let interrupts = Interrupts::listen()?;
    let find = || target::keys(client, &plan.target);
    let keys = target::until_possible(plan.wait, &interrupts, find).await?;
    if plan.detach {
        return detach(client, plan, &keys, &interrupts).await;
    }
    if plan.target != ChallengeTarget::All {
        return one(client, plan, keys[0], &interrupts).await;
    }
    let entries = at_once(client, plan, &keys, &interrupts).await;
    print_document(&serde_json::json!({ "challenges": entries }), plan.json, || shown(&entries))?;
    Ok(worst(&entries))
}

/// Runs a single challenge, and prints its verdict in full.
async fn one(client: &Client, plan: &ChallengePlan, key: PublicKey, interrupts: &Interrupts) -> anyhow::Result<Exit> {
    let asked = target::start(client, key, plan.request.clone(), plan.wait, interrupts).await?;
    let bar = progress::bar("work", 0);
    let verdict = asked.verdict("", &bar, interrupts).await;
    bar.finish_and_clear();
    let verdict = verdict?;
    print_document(&verdict, plan.json, || render::text(&verdict, &Screen::stdout()))?;
    if let Some(path) = &plan.receipt {
        let none = || Failure::new(Exit::Inconclusive, "the validator issued no receipt with the verdict: see its log");
        write_text(path, &format!("{}\n", verdict.receipt.as_ref().ok_or_else(none)?))?;
    }
    Ok(exit_of(verdict.outcome, verdict.lacks_memory()))
}

/// Starts challenges and prints their ids, one per line.
async fn detach(
    client: &Client,
    plan: &ChallengePlan,
    keys: &[PublicKey],
    interrupts: &Interrupts,
) -> anyhow::Result<Exit> {
    let mut started = Vec::new();
    let mut failure = None;
    for key in keys {
        match target::start(client, *key, plan.request.clone(), plan.wait, interrupts).await {
            Ok(asked) => started.push((asked.id, asked.key)),
            Err(error) if keys.len() == 1 => return Err(error.into()),
            Err(error) => {
                standard_error::print(&format!("miner {key}: {error}"));
                failure = Some(error.exit);
            }
        }
    }
    if plan.json {
        let row = |(id, key): &_| serde_json::json!({ "challenge_id": id, "miner_key": key });
        print(&serde_json::to_string_pretty(&started.iter().map(row).collect::<Vec<_>>())?)?;
    } else {
        for (id, _) in &started {
            print(&id.to_string())?;
        }
    }
    Ok(failure.map_or(Exit::Done, |_| Exit::Inconclusive))
}

/// Challenges all miners at once; returns the results in the order of the keys.
async fn at_once(
    client: &Client,
    plan: &ChallengePlan,
    keys: &[PublicKey],
    interrupts: &Interrupts,
) -> Vec<ChallengeResult> {
    let bars = progress::bars();
    let mut challenges = JoinSet::new();
    for (index, (key, name)) in keys.iter().zip(short_ids(keys)).enumerate() {
        let (client, interrupts, request, wait, key) =
            (client.clone(), interrupts.clone(), plan.request.clone(), plan.wait, *key);
        let name = format!("{name} ");
        let bar = bars.add(progress::bar("", 0).with_prefix(name.clone()));
        challenges.spawn(async move {
            let result = match target::start(&client, key, request, wait, &interrupts).await {
                Ok(asked) => asked.verdict(&name, &bar, &interrupts).await,
                Err(failure) => Err(failure),
            };
            bar.finish_and_clear();
            (index, entry(key, result))
        });
    }
    let mut entries = challenges.join_all().await;
    entries.sort_by_key(|(index, _)| *index);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn entry(miner_key: PublicKey, result: Result<Verdict, Failure>) -> ChallengeResult {
    match result {
        Ok(verdict) => ChallengeResult { miner_key, verdict: Some(Box::new(verdict)), error: None },
        Err(failure) => ChallengeResult { miner_key, verdict: None, error: Some(failure.to_string()) },
    }
}

/// The verdicts, one line per miner.
fn shown(entries: &[ChallengeResult]) -> String {
    let mut rows = table::new(&Screen::stdout(), &["miner", "verdict", "TOPS", "probe GB/s", "seconds", "why"]);
    for (entry, name) in entries.iter().zip(short_ids(entries.iter().map(|entry| entry.miner_key))) {
        let figure = |of: fn(&Verdict) -> f64| {
            let number = entry.verdict.as_deref().map(of).filter(|number| *number > 0.0);
            table::figure(number.map_or_else(|| "–".to_owned(), units::figures))
        };
        rows.add_row([
            name.into(),
            entry.verdict.as_ref().map_or_else(|| "none".to_owned(), |verdict| verdict.outcome.to_string()).into(),
            figure(|verdict| verdict.whole.tops),
            figure(|verdict| verdict.whole.probe_gb_per_s),
            figure(|verdict| verdict.whole.seconds),
            why(entry).into(),
        ]);
    }
    table::text(&rows)
}

fn why(entry: &ChallengeResult) -> String {
    let codes =
        |verdict: &Verdict| verdict.reasons.iter().map(|reason| reason.code.name()).collect::<Vec<_>>().join(", ");
    match (&entry.verdict, &entry.error) {
        (Some(verdict), _) => codes(verdict),
        (None, error) => error.clone().unwrap_or_default(),
    }
}

/// The exit code of the worst result: a fail is worse than no verdict, which is worse than a pass that lacks memory.
fn worst(entries: &[ChallengeResult]) -> Exit {
    let outcome =
        |entry: &ChallengeResult| entry.verdict.as_ref().map_or(Outcome::Inconclusive, |verdict| verdict.outcome);
    let lacks_memory = entries.iter().filter_map(|entry| entry.verdict.as_ref()).any(|verdict| verdict.lacks_memory());
    exit_of(Outcome::worst(entries.iter().map(outcome)), lacks_memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_without_a_verdict_is_no_pass() {
        let none = entry(PublicKey([7; 32]), Err(Failure::new(Exit::Io, "gone")));
        assert_eq!((worst(std::slice::from_ref(&none)), why(&none)), (Exit::Inconclusive, "gone".to_owned()));
        assert!(shown(&[none]).contains("07070707"));
    }
}
