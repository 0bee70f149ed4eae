//! One challenge, or many: of several miners at once, of each several times, with a summary.

use std::path::PathBuf;

use assay_program::exit::{Exit, Failure, print};
use assay_program::file::write_text;
use assay_program::progress;
use assay_program::render::{Screen, short_ids, table, units};
use assay_program::standard_error;
use assay_protocol::verdict::{Outcome, Verdict};
use assay_work::PublicKey;
use serde::Serialize;
use tokio::task::JoinSet;

use super::LiveRequest;
use super::live::Interrupts;
use super::target::{self, Target, Wait};
use crate::client::Client;
use crate::commands::exit_of;
use crate::render;

/// What is asked for.
#[derive(Debug)]
pub struct Plan {
    /// Of whom.
    pub target: Target,
    /// What.
    pub request: LiveRequest,
    /// A file for the receipt of the verdict, of one challenge.
    pub receipt: Option<PathBuf>,
    /// Whether, and how long, miners are waited for.
    pub wait: Option<Wait>,
    /// How many times.
    pub repeat: u32,
    /// Whether to return once the challenges run.
    pub detach: bool,
    /// Whether JSON is printed.
    pub json: bool,
}

/// What became of one challenge.
#[derive(Debug, Serialize)]
struct Entry {
    miner_key: PublicKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<Box<Verdict>>,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Runs the challenges, prints what came of them, and gives the exit code of the worst.
///
/// # Errors
/// No validator, no such miner, and for one challenge alone whatever kept it from a verdict.
pub async fn run(client: &Client, plan: &Plan) -> anyhow::Result<Exit> {
    let interrupts = Interrupts::listen()?;
    let find = || target::keys(client, &plan.target);
    let keys = target::until_possible(plan.wait, &interrupts, find).await?;
    if plan.detach {
        return detach(client, plan, &keys, &interrupts).await;
    }
    if plan.repeat == 1 && plan.target != Target::All {
        return one(client, plan, keys[0], &interrupts).await;
    }
    let mut entries = Vec::new();
    for round in 1..=plan.repeat {
        let of_round = at_once(client, plan, &keys, &interrupts).await?;
        if !plan.json {
            print(&shown(&of_round, round, plan))?;
        }
        let has_error = of_round.iter().any(|entry| entry.error.is_some());
        entries.extend(of_round);
        // What keeps one challenge from starting keeps the next one too, unless it is waited for.
        if interrupts.any() || has_error && plan.wait.is_none() {
            break;
        }
    }
    let summary: Vec<_> = keys.iter().map(|key| Summary::new(*key, &entries)).collect();
    if plan.json {
        let all = serde_json::json!({ "challenges": entries, "summary": summary });
        print(&serde_json::to_string_pretty(&all)?)?;
    } else if plan.repeat > 1 {
        print(&format!("\n{}", summarized(&summary)))?;
    }
    Ok(worst(&entries))
}

/// One challenge alone: its verdict in full.
async fn one(client: &Client, plan: &Plan, key: PublicKey, interrupts: &Interrupts) -> anyhow::Result<Exit> {
    let asked = target::start(client, key, plan.request.clone(), plan.wait, interrupts).await?;
    let bar = progress::bar("work", 0);
    let verdict = asked.verdict("", &bar, interrupts).await;
    bar.finish_and_clear();
    let verdict = verdict?;
    if plan.json {
        print(&serde_json::to_string_pretty(&verdict)?)?;
    } else {
        print(&render::text(&verdict, &Screen::stdout()))?;
    }
    if let Some(path) = &plan.receipt {
        let none = || Failure::new(Exit::Inconclusive, "the validator issued no receipt with the verdict: see its log");
        write_text(path, verdict.receipt.as_ref().ok_or_else(none)?)?;
    }
    Ok(exit_of(verdict.outcome))
}

/// Starts challenges and prints their ids, one to a line.
async fn detach(client: &Client, plan: &Plan, keys: &[PublicKey], interrupts: &Interrupts) -> anyhow::Result<Exit> {
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

/// One challenge of each miner, all at once, in the order of the keys.
async fn at_once(
    client: &Client,
    plan: &Plan,
    keys: &[PublicKey],
    interrupts: &Interrupts,
) -> anyhow::Result<Vec<Entry>> {
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
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

fn entry(miner_key: PublicKey, result: Result<Verdict, Failure>) -> Entry {
    match result {
        Ok(verdict) => Entry { miner_key, verdict: Some(Box::new(verdict)), error: None },
        Err(failure) => Entry { miner_key, verdict: None, error: Some(failure.to_string()) },
    }
}

/// The verdicts of one round: a line for one miner, a table for several.
fn shown(entries: &[Entry], round: u32, plan: &Plan) -> String {
    let count = if plan.repeat > 1 { format!("{round}/{}  ", plan.repeat) } else { String::new() };
    if let [entry] = entries
        && plan.target != Target::All
    {
        return format!("{count}{}", line(entry));
    }
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
    let title = if plan.repeat > 1 { format!("round {round} of {}\n", plan.repeat) } else { String::new() };
    format!("{title}{}", table::text(&rows))
}

fn line(entry: &Entry) -> String {
    let Some(verdict) = &entry.verdict else { return format!("none  {}", why(entry)) };
    let figures =
        format!("{} TOPS, {} GB/s", units::figures(verdict.whole.tops), units::figures(verdict.whole.probe_gb_per_s));
    let (id, outcome) = (verdict.challenge_id, verdict.outcome);
    match why(entry).as_str() {
        "" => format!("{outcome}  {id}  {figures}"),
        why => format!("{outcome}  {id}  {figures}  {why}"),
    }
}

fn why(entry: &Entry) -> String {
    let codes =
        |verdict: &Verdict| verdict.reasons.iter().map(|reason| reason.code.name()).collect::<Vec<_>>().join(", ");
    match (&entry.verdict, &entry.error) {
        (Some(verdict), _) => codes(verdict),
        (None, error) => error.clone().unwrap_or_default(),
    }
}

/// What a miner's challenges came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Summary {
    miner_key: PublicKey,
    passed: usize,
    failed: usize,
    inconclusive: usize,
    /// Challenges without a verdict.
    unjudged: usize,
    /// Of the passes.
    tops: Option<Spread>,
}

/// Least, middle and most of some figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Summary {
    fn new(miner_key: PublicKey, entries: &[Entry]) -> Self {
        let own: Vec<_> = entries.iter().filter(|entry| entry.miner_key == miner_key).collect();
        let verdicts: Vec<_> = own.iter().filter_map(|entry| entry.verdict.as_deref()).collect();
        let count = |outcome| verdicts.iter().filter(|verdict| verdict.outcome == outcome).count();
        let passes = verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Pass);
        Self {
            miner_key,
            passed: count(Outcome::Pass),
            failed: count(Outcome::Fail),
            inconclusive: count(Outcome::Inconclusive),
            unjudged: own.len() - verdicts.len(),
            tops: Spread::of(passes.map(|verdict| verdict.whole.tops).collect()),
        }
    }
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (least, most) = (*figures.first()?, *figures.last()?);
        let middle = figures.len() / 2;
        let median =
            if figures.len() % 2 == 1 { figures[middle] } else { f64::midpoint(figures[middle - 1], figures[middle]) };
        Some(Self { median, least, most })
    }
}

fn summarized(summary: &[Summary]) -> String {
    let header = ["miner", "pass", "fail", "inconclusive", "no verdict", "median TOPS", "least", "most", "spread"];
    let mut rows = table::new(&Screen::stdout(), &header);
    for (summary, name) in summary.iter().zip(short_ids(summary.iter().map(|summary| summary.miner_key))) {
        let tops = |of: fn(&Spread) -> String| table::figure(summary.tops.as_ref().map_or_else(|| "–".to_owned(), of));
        rows.add_row([
            name.into(),
            table::figure(summary.passed),
            table::figure(summary.failed),
            table::figure(summary.inconclusive),
            table::figure(summary.unjudged),
            tops(|tops| units::figures(tops.median)),
            tops(|tops| units::figures(tops.least)),
            tops(|tops| units::figures(tops.most)),
            tops(|tops| format!("{:.1} %", 100.0 * (tops.most - tops.least) / tops.median.max(f64::MIN_POSITIVE))),
        ]);
    }
    table::text(&rows)
}

/// The exit code of the worst: a fail is worse than no verdict.
fn worst(entries: &[Entry]) -> Exit {
    let outcome = |entry: &Entry| entry.verdict.as_ref().map_or(Outcome::Inconclusive, |verdict| verdict.outcome);
    exit_of(Outcome::worst(entries.iter().map(outcome)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(Spread::of(vec![]), None);
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(Spread::of(vec![4.0, 1.0]).unwrap().median, 2.5);
    }

    #[test]
    fn a_challenge_without_a_verdict_is_no_pass() {
        let key = PublicKey([7; 32]);
        let none = || entry(key, Err(Failure::new(Exit::Io, "gone")));
        assert_eq!(worst(&[none()]), Exit::Inconclusive);
        let summary = Summary::new(key, &[none(), none()]);
        assert_eq!((summary.unjudged, summary.passed, summary.tops), (2, 0, None));
        assert!(summarized(&[summary]).contains("07070707") && line(&none()).contains("gone"));
    }
}
