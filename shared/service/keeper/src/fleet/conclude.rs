//! The end of a challenge: the verdict is checked against the fleet, moves the attestation state, gets its receipt, and
//! is written with all of that in one transaction. Only then may it be given out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use assay_evidence::Capture;
use assay_policy::{Change, DeviceRate, Event, Group, Policy, Standing, step};
use assay_protocol::verdict::{Class, Outcome, Reason, ReasonCode, Verdict, outcome_of};
use assay_receipts::{Receipt, Subject, SubjectFinding};
use assay_records::{CommitmentRecord, Conclusion, EvidenceRecord, FindingRecord, ReceiptRecord, RecordsError};
use assay_work::challenge::MAX_TOTAL;
use assay_work::{DeviceId, Nonce};
use tokio::sync::MutexGuard;

use super::schedule::{mean_wait, next_wait, uniform, until_time};
use super::{Fleet, standing_change, stored};
use assay_judge::entropy::{Entropy, OsEntropy};
use assay_judge::facts::{FleetFacts, FleetFinding};
use assay_program::clock::{unix_ms, unix_seconds};

use crate::order::{Order, OrderOrigin};
use assay_judge::verify::excuse::ValidatorDelays;

/// First wait before an unwritten verdict, or another row, is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// The longest such wait, after repeated failures.
const MAX_RETRY: Duration = Duration::from_secs(60);
/// Name of a due challenge in the records: its kind is drawn when it starts.
const SCHEDULED: &str = "scheduled";

/// Hex digits of the digest in a policy's id.
const POLICY_DIGITS: usize = 32;

/// A verdict before the check against the fleet.
#[derive(Debug, Clone)]
pub struct Draft {
    pub verdict: Box<Verdict>,
    /// The challenge's nonce; `None` where the host had no device to challenge.
    pub nonce: Option<Nonce>,
    pub order: Order,
    /// The session's id in the records.
    pub session: String,
    pub models: BTreeMap<DeviceId, String>,
    /// Results of its devices.
    pub shown: Vec<DeviceRate>,
    /// The commitment that it signed.
    pub commitment: Option<CommitmentRecord>,
    /// Delays of the validator itself.
    pub held_up: ValidatorDelays,
    /// When it was judged, in seconds since 1970.
    pub judged_s: u64,
    /// Whether the operator admitted exactly this key.
    pub is_recognised: bool,
    /// Consecutive due challenges for which the miner was busy, this one included.
    pub busy: u32,
}

#[derive(Debug, Clone)]
pub struct ConcludedChallenge {
    /// The verdict as recorded, with its receipt.
    pub verdict: Box<Verdict>,
    /// Wait until the next challenge; `None`: on demand only.
    pub next: Option<Duration>,
    pub change: Option<Change>,
    /// Findings beside the work.
    pub found: Vec<FleetFinding>,
}

/// A final verdict, after the check against the fleet.
struct JudgedChallenge {
    draft: Draft,
    verdict: Box<Verdict>,
    found: Vec<FleetFinding>,
    evidence: Option<EvidenceRecord>,
    subjected: VerdictSubject,
}

/// The miner's record, and its group in the policy.
#[derive(Clone)]
struct VerdictSubject {
    id: String,
    standing: Standing,
    /// The standing as stored.
    stored: String,
    group: Group,
    operator: Option<String>,
}

/// Facts, and the right to settle disputes, where they rest on another miner's lack of an attestation: until the verdict
/// is written, that one gets none in the same way.
type FactsAlone<'a> = (FleetFacts, Option<MutexGuard<'a, ()>>);

impl Fleet {
    /// Concludes a challenge: retries until it is written.
    ///
    /// The facts of the check are read once. They are in the case, which may be judged again by them.
    pub async fn conclude(&self, draft: Draft, case: Option<Capture>) -> ConcludedChallenge {
        let id = draft.verdict.challenge_id;
        self.note_pending(&draft.verdict);
        let mut pause = RETRY;
        let (subjected, (facts, _settling)) = loop {
            match self.facts(&draft).await {
                Ok(facts) => break facts,
                Err(error) => self.wait(&error, &mut pause).await,
            }
        };
        let mut verdict = draft.verdict.clone();
        let mut found = facts.judge(&mut verdict);
        if draft.held_up.excuse(&mut verdict) {
            // Excused figures speak against no device either.
            found.iter_mut().for_each(|found| found.enforced = false);
        }
        // Evidence comes first: a verdict that is given out has its evidence.
        let evidence = match case {
            Some(case) => finish(case, draft.held_up.clone(), &verdict, &facts, &subjected).await,
            None => None,
        };
        self.note_pending(&verdict);
        let judged = JudgedChallenge { draft, verdict, found, evidence, subjected };
        let concluded = self.write_at_last(&judged).await;
        self.pending.lock().remove(&id);
        concluded
    }

    /// Keeps the verdict for the log, in case the validator ends before it is recorded.
    fn note_pending(&self, verdict: &Verdict) {
        let json = serde_json::to_string(verdict).unwrap_or_default();
        self.pending.lock().insert(verdict.challenge_id, json);
    }

    /// Writes a verdict, retrying without limit.
    async fn write_at_last(&self, judged: &JudgedChallenge) -> ConcludedChallenge {
        // Writing evidence takes time, in which the miner's standing may have changed.
        let mut is_fresh = judged.evidence.is_none();
        let (mut is_first, mut pause) = (true, RETRY);
        loop {
            let written = self.try_to_write(judged, is_fresh, is_first).await;
            (is_fresh, is_first) = (false, false);
            match written {
                Ok(concluded) => return concluded,
                Err(RecordsError::ConcludedBefore { challenge }) => {
                    // Another validator assumed this one lost, and recorded its verdict first.
                    tracing::warn!(%challenge, "another validator concluded this challenge: its verdict stands");
                    return concluded_elsewhere(judged, &mut self.entropy.clone());
                }
                // After a change by an operator or another validator, the state is computed from the new one.
                Err(error) => self.wait(&error, &mut pause).await,
            }
        }
    }

    /// Writes a verdict from the miner's standing, which is read anew unless it is fresh.
    async fn try_to_write(
        &self,
        judged: &JudgedChallenge,
        is_fresh: bool,
        is_first: bool,
    ) -> Result<ConcludedChallenge, RecordsError> {
        let subjected = if is_fresh { judged.subjected.clone() } else { self.subjected(&judged.draft).await? };
        let mut concluded = self.write(judged, subjected).await?;
        if !is_first {
            // A failed write may have succeeded, with its own receipt: the recorded receipt is given out.
            let recorded = self.records.receipt_of(&concluded.verdict.challenge_id.to_string()).await?;
            concluded.verdict.receipt = recorded.map(|receipt| receipt.token);
        }
        Ok(concluded)
    }

    /// Waits before the next attempt: longer with each failure of the store, and no longer than its outage. The outage
    /// itself is logged once, elsewhere.
    async fn wait(&self, error: &RecordsError, pause: &mut Duration) {
        tracing::debug!(%error, "a verdict waits for the records");
        tokio::time::sleep(RETRY).await;
        let mut troubles = self.records.troubles();
        let _ = tokio::time::timeout(*pause - RETRY, troubles.wait_for(Option::is_none)).await;
        *pause = MAX_RETRY.min(*pause * 2);
    }

    /// Writes the verdict with its consequences.
    async fn write(&self, judged: &JudgedChallenge, now: VerdictSubject) -> Result<ConcludedChallenge, RecordsError> {
        let JudgedChallenge { draft, verdict, found, evidence, subjected: VerdictSubject { group, .. } } = judged;
        let VerdictSubject { id, standing, stored, operator, .. } = now;
        let is_again = draft.busy > 1 && draft.order.asked == OrderOrigin::Schedule;
        let event = Event::Verdict {
            outcome: verdict.outcome,
            codes: verdict.reasons.iter().map(|reason| reason.code).collect(),
            // In a group with one kind only, every challenge is heavy.
            heavy: group.heavy.as_ref().is_none_or(|heavy| heavy.kind.name == draft.order.kind),
            age_s: unix_seconds().saturating_sub(draft.judged_s),
            // Asked for again, it is the same challenge for as long as the policy asks for one.
            busy_every_s: mean_wait(group, &draft.order.policy).filter(|_| is_again).map_or(0, |mean| mean.as_secs()),
        };
        let is_forged = verdict.reasons.iter().any(|reason| reason.code.class() == Class::Forged);
        let (standing, change) = match draft.order.counts || is_forged {
            true => step(&standing, &event, &group.rules, unix_seconds()),
            false => (standing, None),
        };
        let next = next_challenge(draft, verdict, group, &mut self.entropy.clone());
        let receipt = self.receipt(judged, &standing);
        let mut shown = draft.shown.clone();
        if verdict.outcome != Outcome::Pass {
            // Rates that receipts list are of challenges that were passed.
            shown.iter_mut().for_each(|rate| rate.tops = 0.0);
        }
        let conclusion = Conclusion {
            verdict: (**verdict).clone(),
            at_ms: unix_ms(),
            asked: draft.order.asked.name().to_owned(),
            group: group.name.clone(),
            kind: draft.order.kind.clone(),
            round: draft.order.round.as_ref().map(|round| round.id.clone()),
            session: draft.session.clone(),
            commitment: draft.commitment.clone(),
            evidence: evidence.clone(),
            standing: standing_change(&id, stored, &standing, change.as_ref()),
            shown,
            findings: found.iter().map(|found| record(found, &id)).collect(),
            receipt: receipt.as_ref().map(|receipt| receipt_record(receipt, draft)),
            next_due: next.map(|next| (unix_ms() + ms(next), SCHEDULED.to_owned())),
            device_ms: ms(Duration::from_secs_f64(verdict.timed_seconds()))
                * i64::try_from(verdict.devices.len()).unwrap_or(1),
            operator,
        };
        self.records.conclude(&conclusion).await?;
        if next.is_none() && draft.order.asked == OrderOrigin::Schedule {
            // Of a challenge that was lost, or of an earlier policy: nothing would ever make up for it.
            self.records.set_due(&conclusion.verdict.miner_key.to_string(), None).await?;
        }
        if verdict.work_held() {
            let at_ms = unix_ms().unsigned_abs();
            self.presences.showed(&draft.session, verdict.devices.iter().map(|device| (device.device_id, at_ms)));
        }
        let mut verdict = verdict.clone();
        // The records store it beside the verdict.
        verdict.receipt = receipt.map(|receipt| receipt.token);
        Ok(ConcludedChallenge { verdict, next, change, found: found.clone() })
    }

    async fn subjected(&self, draft: &Draft) -> Result<VerdictSubject, RecordsError> {
        let record = self.records.miner(&draft.verdict.miner_key.to_string()).await?;
        let record = record.as_ref();
        let rules = self.rules();
        let models: Vec<&str> = draft.models.values().map(String::as_str).collect();
        let labels = record.map(|record| record.labels.clone()).unwrap_or_default();
        // A challenge is judged by the group that asked for it, even if labels have changed since.
        let group = rules.policy.group(&draft.order.group).unwrap_or_else(|| rules.policy.group_of(&labels, &models));
        Ok(VerdictSubject {
            id: record.map_or_else(|| draft.verdict.miner_key.to_string(), |record| record.id.clone()),
            standing: record.map_or_else(|| Standing::enrolled(unix_seconds()), assay_records::MinerRecord::standing),
            stored: record.map(stored).unwrap_or_default(),
            group: group.clone(),
            operator: rules.policy.operator_of(&labels).map(str::to_owned),
        })
    }

    /// Reads the miner's record, and the facts for checking its verdict.
    async fn facts(&self, draft: &Draft) -> Result<(VerdictSubject, FactsAlone<'_>), RecordsError> {
        let (subjected, rules) = (self.subjected(draft).await?, self.rules());
        let claimed = || draft.models.values();
        let profiles = claimed().filter_map(|model| Some((model.clone(), rules.profiles.find(model)?.clone())));
        let operator = subjected.operator.as_deref();
        let speeds = self
            .speeds
            .distributions(&self.records, claimed(), (draft.verdict.precision, draft.verdict.n), operator)
            .await?;
        let policy = &draft.order.policy;
        // Of the most slots that a challenge has, a device may have fewer than it has room for.
        let matrices: u64 = draft.verdict.devices.iter().map(|device| device.work.matrices).sum();
        let fills_memory = policy.fills_memory() && matrices < MAX_TOTAL;
        let fill_share = fills_memory.then(|| f64::from(policy.fill_percent) / 100.0);
        if draft.verdict.work_held() {
            self.presences.heard(&draft.session, unix_seconds());
        }
        let mut identity = self.presences.findings(&draft.session, draft.models.keys(), &subjected.group.identity);
        identity.retain(|finding| finding.miner == subjected.id);
        let mut facts = FleetFacts {
            bands: subjected.group.bands,
            fill_share,
            profiles: profiles.collect(),
            speeds,
            models: draft.models.clone(),
            identity,
        };
        let mut settling = None;
        // A late member, whose probe went out alone, shows nothing by the round.
        if let Some(members) = draft.order.round.as_ref().and_then(|part| part.probed.get()?.with(&subjected.id)) {
            let mut unattested: BTreeSet<_> = facts.identity.iter().filter_map(|found| found.other.clone()).collect();
            unattested.retain(|other| members.uncommitted.contains(other));
            if !unattested.is_empty() {
                settling = Some(self.settling.lock().await);
            }
            for other in unattested.clone() {
                let record = self.records.miner(&other).await?;
                if record.is_some_and(|record| record.standing().state.is_attested()) {
                    unattested.remove(&other);
                }
            }
            facts.settle(&members.committed, &unattested);
        }
        Ok((subjected, (facts, settling)))
    }

    fn receipt(&self, judged: &JudgedChallenge, standing: &Standing) -> Option<Receipt> {
        let JudgedChallenge { draft, verdict, found, subjected: VerdictSubject { group, .. }, .. } = judged;
        let now_s = unix_seconds();
        let age_s = if verdict.outcome == Outcome::Pass { now_s.saturating_sub(draft.judged_s) } else { 0 };
        let lifetime_s = group.receipts.lifetime.as_secs().saturating_sub(age_s);
        // No receipt outlives the attestation that it states.
        let until = standing.attested_until_s(&group.rules);
        let findings: Vec<_> = found.iter().map(finding).collect();
        let subject = Subject {
            verdict,
            challenge_nonce: draft.nonce,
            is_recognised: draft.is_recognised,
            state: standing.state.name(),
            group: &group.name,
            policy_id: &policy_id(group, &draft.order.policy),
            eat_nonce: draft.order.eat_nonce.as_ref(),
            findings: &findings,
            lifetime_s: until.map_or(lifetime_s, |until| lifetime_s.min(until.saturating_sub(now_s))),
            now_s,
        };
        let issued = self.signer.issue(&subject);
        issued.inspect_err(|error| tracing::error!(challenge = %verdict.challenge_id, "no receipt: {error}")).ok()
    }
}

/// Keeps or drops the evidence, now that the verdict is known.
async fn finish(
    capture: Capture,
    held_up: ValidatorDelays,
    verdict: &Verdict,
    facts: &FleetFacts,
    subjected: &VerdictSubject,
) -> Option<EvidenceRecord> {
    let share = subjected.group.evidence.passes_percent / 100.0;
    let is_stranger = verdict.outcome != Outcome::Pass && subjected.standing.last_pass_s.is_none();
    let why = kept_as(verdict.outcome, uniform(&mut OsEntropy) < share)?;
    let facts = toml::to_string(facts);
    if let Err(error) = &facts {
        tracing::error!(challenge = %verdict.challenge_id, %error, "its case lacks what it was held against");
    }
    let kept = capture.finish(verdict, held_up, facts.ok(), is_stranger).await?;
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    Some(EvidenceRecord {
        digest: kept.digest.to_string(),
        bytes: bytes(kept.bytes),
        stored_bytes: bytes(kept.stored_bytes),
        why: why.to_owned(),
    })
}

/// The reason to keep the case of a verdict, by its name in the records; `None` for a pass that was not drawn.
fn kept_as(outcome: Outcome, is_drawn: bool) -> Option<&'static str> {
    match outcome {
        Outcome::Pass => is_drawn.then_some("drawn"),
        Outcome::Fail | Outcome::Inconclusive => Some(outcome.name()),
    }
}

/// The result of a challenge that another validator concluded: only data that its records have.
fn concluded_elsewhere(judged: &JudgedChallenge, entropy: &mut dyn Entropy) -> ConcludedChallenge {
    let JudgedChallenge { draft, subjected: VerdictSubject { group, .. }, .. } = judged;
    let mut verdict = draft.verdict.clone();
    let detail = "another validator took this one for lost, and concluded the challenge first";
    verdict.reasons = vec![Reason::new(ReasonCode::ValidatorLost, detail)];
    verdict.outcome = outcome_of(&verdict.reasons);
    let next = next_challenge(draft, &verdict, group, entropy);
    ConcludedChallenge { verdict, next, change: None, found: Vec::new() }
}

/// Wait until the next challenge: short where one was due and the miner was busy.
fn next_challenge(draft: &Draft, verdict: &Verdict, group: &Group, entropy: &mut dyn Entropy) -> Option<Duration> {
    let kept = draft.order.kept_due_ms.map(|at_ms| until_time(at_ms, group, &draft.order.policy));
    if let Some(kept) = kept.filter(|kept| !kept.is_zero()) {
        return Some(kept);
    }
    let policy = &draft.order.policy;
    let pause = (is_asked_again(verdict) && draft.order.asked == OrderOrigin::Schedule)
        .then(|| policy.busy_pause(draft.busy))
        .flatten();
    pause.or_else(|| next_wait(group, policy, entropy))
}

/// Whether a due challenge comes again soon after its verdict.
pub fn is_asked_again(verdict: &Verdict) -> bool {
    let is_short = |code| matches!(code, ReasonCode::MinerBusy | ReasonCode::StaleInventory);
    verdict.reasons.iter().any(|reason| is_short(reason.code))
}

/// Writes, again after each failure of the records.
pub async fn at_last<W: Future<Output = Result<(), RecordsError>>>(write: impl Fn() -> W) -> W::Output {
    loop {
        match write().await {
            Err(error) if error.is_trouble() => tokio::time::sleep(RETRY).await,
            written => return written,
        }
    }
}

/// The group's name, and a digest of the group and the policy of the challenge: it changes with the policy.
fn policy_id(group: &Group, policy: &Policy) -> String {
    // Numbers and texts always become JSON.
    let json = serde_json::to_vec(&(group, policy)).unwrap_or_default();
    format!("{}:{}", group.name, &blake3::hash(&json).to_hex()[..POLICY_DIGITS])
}

fn record(found: &FleetFinding, miner: &str) -> FindingRecord {
    FindingRecord {
        code: found.code.name().to_owned(),
        miner: miner.to_owned(),
        other_miner: found.other.clone(),
        device_id: found.device_id.map(|id| id.to_string()),
        detail: found.detail.clone(),
        enforced: found.enforced,
    }
}

fn finding(found: &FleetFinding) -> SubjectFinding {
    SubjectFinding {
        code: found.code.name().to_owned(),
        enforced: found.enforced,
        device_id: found.device_id,
        detail: found.detail.clone(),
    }
}

fn receipt_record(receipt: &Receipt, draft: &Draft) -> ReceiptRecord {
    let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    ReceiptRecord {
        id: receipt.id.clone(),
        key_id: receipt.key_id.clone(),
        issued_s: seconds(receipt.issued_s),
        expires_s: seconds(receipt.expires_s),
        nonce: draft.order.eat_nonce.as_ref().map(ToString::to_string),
        token: receipt.token.clone(),
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use assay_work::{ChallengeId, PublicKey};

    use super::*;

    const MINER: PublicKey = PublicKey([9; 32]);

    /// The draft of a challenge by the schedule, without work, judged now.
    fn draft(id: ChallengeId, reasons: Vec<Reason>) -> Draft {
        Draft {
            verdict: Box::new(Verdict::without_work(id, MINER, PublicKey([2; 32]), reasons, 0)),
            judged_s: unix_seconds(),
            nonce: Some(Nonce([3; 32])),
            order: Order { asked: OrderOrigin::Schedule, ..Order::manual(Arc::new(Policy::default())) },
            session: String::new(),
            models: BTreeMap::new(),
            shown: Vec::new(),
            commitment: None,
            held_up: ValidatorDelays::default(),
            is_recognised: true,
            busy: 0,
        }
    }

    /// Regression test: a busy host that was asked again after 15 s, 30 s and each minute expired within ten minutes.
    #[tokio::test]
    async fn a_busy_miner_that_is_asked_again_is_busy_once() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = crate::tests::fleet(folder.path()).await;
        let standing = async || fleet.records.miner(&MINER.to_string()).await.unwrap().unwrap().standing();
        fleet.conclude(draft(ChallengeId([0; 16]), Vec::new()), None).await;
        for busy in 1..20 {
            let reasons = vec![Reason::new(ReasonCode::MinerBusy, "")];
            fleet.conclude(Draft { busy: busy.into(), ..draft(ChallengeId([busy; 16]), reasons) }, None).await;
        }
        let standing = standing().await;
        let counted = standing.unclear.values().map(std::collections::VecDeque::len).collect::<Vec<_>>();
        assert_eq!((standing.state.name(), standing.totals.declined, counted), ("passing", 19, vec![1]));
    }

    /// Regression test: a host that connected again right after each pause chose the times of all its challenges.
    #[tokio::test]
    async fn a_challenge_on_connecting_puts_off_none_that_is_due() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = crate::tests::fleet(folder.path()).await;
        let due_ms = async || fleet.records.miner(&MINER.to_string()).await.unwrap().unwrap().due.unwrap().at_ms;
        fleet.conclude(draft(ChallengeId([0; 16]), Vec::new()), None).await;
        let kept_due_ms = unix_ms() + 100_000;
        for (id, reasons) in [(1, Vec::new()), (2, vec![Reason::new(ReasonCode::MinerBusy, "")])] {
            let early = draft(ChallengeId([id; 16]), reasons);
            let order = Order { kept_due_ms: Some(kept_due_ms), ..early.order.clone() };
            fleet.conclude(Draft { order, ..early }, None).await;
            assert!((kept_due_ms..kept_due_ms + 1000).contains(&due_ms().await));
        }
        let late = draft(ChallengeId([3; 16]), vec![Reason::new(ReasonCode::MinerBusy, "")]);
        let order = Order { kept_due_ms: Some(unix_ms() - 1), ..late.order.clone() };
        fleet.conclude(Draft { order, busy: 1, ..late }, None).await;
        assert!(due_ms().await < unix_ms() + 15_001, "it was over in its challenge");
    }

    /// Regression test: a pass that was written when the records came back attested a host from then on.
    #[tokio::test]
    async fn a_pass_counts_from_its_judgement() {
        const HOUR_S: u64 = 3600;
        let folder = tempfile::tempdir().unwrap();
        let fleet = crate::tests::fleet(folder.path()).await;
        let (id, miner, now_s) = (ChallengeId([1; 16]), MINER, unix_seconds());
        let draft = Draft { judged_s: now_s - 20 * HOUR_S, ..draft(id, Vec::new()) };
        let concluded = fleet.conclude(draft, None).await;
        let record = fleet.records.miner(&miner.to_string()).await.unwrap().unwrap();
        assert_eq!(record.standing().last_pass_s, Some(now_s - 20 * HOUR_S));
        let receipt = fleet.records.receipt_of(&id.to_string()).await.unwrap().unwrap();
        assert_eq!(concluded.verdict.receipt, Some(receipt.token));
        assert!(receipt.expires_s <= now_s as i64 + 4 * HOUR_S as i64 + 2, "{}", receipt.expires_s);
    }
}
