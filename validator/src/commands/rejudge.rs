//! `assay-validator rejudge`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use assay_evidence::{Digest, EvidenceStore};
use assay_keeper::fleet::rules;
use assay_policy::FleetPolicy;
use assay_program::clock::unix_ms;
use assay_program::exit::{Exit, Failure, print};
use assay_program::prefix::Prefix;
use assay_program::render::units::counted;
use assay_program::utc;
use assay_records::{KeptEvidence, MAX_ROWS, Records};
use assay_replay::alternate::AlternatePolicy;
use assay_replay::rejudge::{RejudgeError, RejudgedCase, Ruling, rejudge};
use assay_work::ChallengeId;
use assay_work::text::printable;

use super::serve::open_records;
use crate::cli::daemon::RejudgeArgs;
use crate::config::ValidatorConfig;

/// Hex digits of an object's name; a challenge's id has half as many.
const DIGEST_DIGITS: usize = 64;

/// Judges stored cases again.
///
/// # Errors
/// Records or a store that cannot be read, an invalid policy, an id without kept evidence.
pub fn execute(config: &ValidatorConfig, args: &RejudgeArgs) -> anyhow::Result<Exit> {
    let policy = args.policy.as_deref().map(|path| rules::read(Some(path), None)).transpose();
    let policy = policy.map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    let policy = policy.map(|rules| Arc::new(rules.policy));
    let store = EvidenceStore::open(&config.evidence.location, &config.evidence.outbox)
        .map_err(|error| Failure::new(Exit::Io, error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let records = open_records(&config.records).await?;
        let mut judges =
            Judges { store, records, policy, json: args.json, all: !args.ids.is_empty(), sums: CaseCounts::default() };
        judges.judge(args).await?;
        judges.end()
    })
}

/// Inputs of judging, and the results so far.
struct Judges {
    store: EvidenceStore,
    records: Records,
    policy: Option<Arc<FleetPolicy>>,
    json: bool,
    /// Whether unchanged cases are printed too.
    all: bool,
    sums: CaseCounts,
}

/// Counts of cases by result.
#[derive(Debug, Default)]
struct CaseCounts {
    same: u64,
    details: u64,
    changed: u64,
    open: u64,
    refused: u64,
}

impl Judges {
    async fn judge(&mut self, args: &RejudgeArgs) -> anyhow::Result<()> {
        for id in &args.ids {
            let (challenge, digest) = self.find(id).await?;
            self.judge_one(challenge, digest).await?;
        }
        if !args.ids.is_empty() {
            return Ok(());
        }
        let since = args.since.map(Duration::from);
        let since = since.map_or(0, |since| unix_ms() - i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        let mut after = (since - 1, String::new());
        loop {
            let page = self.records.kept_evidence(Some((after.0, &after.1)), MAX_ROWS).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = (last.at_ms, last.challenge.clone());
            for KeptEvidence { challenge, evidence, .. } in page {
                self.judge_one(Some(challenge), evidence.digest).await?;
            }
        }
    }

    /// The evidence and challenge of an id.
    async fn find(&self, id: &Prefix) -> anyhow::Result<(Option<String>, String)> {
        let text = id.to_string();
        if text.len() == DIGEST_DIGITS {
            return Ok((None, text));
        }
        let wrong = |what: String| Failure::new(Exit::Usage, what);
        let challenge = match &self.records.verdicts_by_prefix(&text, 2).await?[..] {
            [] => return Err(wrong(format!("no challenge in the records begins with {text}")).into()),
            [challenge] => challenge.clone(),
            _ => return Err(wrong(format!("several challenges begin with {text}: write more digits")).into()),
        };
        let kept = self.records.evidence_of(&challenge).await?;
        match kept {
            Some(KeptEvidence { dropped_ms: Some(at_ms), .. }) => {
                let at = utc::text(u64::try_from(at_ms / 1000).unwrap_or_default());
                Err(wrong(format!("the evidence of {challenge} was removed at {at} by its limits")).into())
            }
            Some(kept) => Ok((Some(challenge), kept.evidence.digest)),
            None => Err(wrong(format!("no evidence of {challenge} was kept: it passed, and was not drawn")).into()),
        }
    }

    async fn judge_one(&mut self, challenge: Option<String>, digest: String) -> anyhow::Result<()> {
        let name = challenge.clone().unwrap_or_else(|| digest.clone());
        match self.again(challenge, &digest).await {
            Ok(rejudged) => self.show(&rejudged)?,
            Err(error) => {
                self.sums.refused += 1;
                if self.json {
                    let line =
                        serde_json::json!({ "challenge_id": name, "evidence": digest, "refused": error.to_string() });
                    print(&line.to_string())?;
                } else {
                    print(&format!("{name}  refused: {}", printable(&error.to_string(), 1024)))?;
                }
            }
        }
        Ok(())
    }

    async fn again(&self, challenge: Option<String>, digest: &str) -> Result<RejudgedCase, RejudgeError> {
        let challenge_id = challenge.as_deref().and_then(|id| id.parse::<ChallengeId>().ok());
        // The records hold digests only.
        let digest: Digest = digest.parse().unwrap_or(Digest([0; 32]));
        let other = match (&self.policy, &challenge) {
            (None, _) => None,
            (Some(policy), challenge) => {
                Some(AlternatePolicy::of(policy.clone(), &self.records, challenge.as_deref()).await?)
            }
        };
        rejudge(&self.store, digest, challenge_id, move |case| other.as_ref().map(|other| other.standard(case))).await
    }

    fn show(&mut self, rejudged: &RejudgedCase) -> anyhow::Result<()> {
        let RejudgedCase { given, now, is_same, changes, .. } = rejudged;
        match now {
            None => self.sums.open += 1,
            Some(_) if *changes => self.sums.changed += 1,
            Some(_) if *is_same => self.sums.same += 1,
            Some(_) => self.sums.details += 1,
        }
        if self.json {
            return Ok(print(&serde_json::to_string(rejudged)?)?);
        }
        // Under another policy figures differ, which is not printed.
        let is_worth_it = *changes || self.all || (self.policy.is_none() && !is_same);
        if !is_worth_it {
            return Ok(());
        }
        let id = rejudged.challenge_id;
        let then = match now {
            None => "the evidence ends before a verdict: the challenge would have gone on".to_owned(),
            Some(_) if *is_same => "the same".to_owned(),
            Some(now) if *changes => short(now),
            Some(_) => "the same outcome, with other figures".to_owned(),
        };
        print(&format!("{id}  {} -> {then}", short(given)))?;
        let reasons = now.iter().filter(|_| *changes).flat_map(|now| &now.reasons);
        for reason in reasons {
            print(&format!("    {}: {}", printable(&reason.code, 64), printable(&reason.detail, 1024)))?;
        }
        Ok(())
    }

    /// Prints the summary; returns the exit code.
    fn end(self) -> anyhow::Result<Exit> {
        let CaseCounts { same, details, changed, open, refused } = self.sums;
        if !self.json {
            let parts = [
                (same, "the same to the bit"),
                (details, "the same outcome with other figures"),
                (changed, "with another outcome or other reasons"),
                (open, "not decided by the evidence"),
                (refused, "refused"),
            ];
            let told: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
            let all = same + details + changed + open + refused;
            let told = if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) };
            print(&format!("{}{told}", counted(all, "case")))?;
        }
        Ok(match (&self.policy, details + changed + open) {
            _ if refused > 0 => Exit::Data,
            (None, 1..) => Exit::Fail,
            _ => Exit::Done,
        })
    }
}

/// Summary of a verdict.
fn short(ruling: &Ruling) -> String {
    let mut codes = BTreeMap::<&str, u32>::new();
    for reason in &ruling.reasons {
        *codes.entry(&reason.code).or_default() += 1;
    }
    let codes: Vec<_> = codes
        .iter()
        .map(|(code, count)| if *count > 1 { format!("{code} x{count}") } else { (*code).to_owned() })
        .map(|code| printable(&code, 64))
        .collect();
    format!("{} {}", printable(&ruling.outcome, 16), codes.join(", ")).trim_end().to_owned()
}
