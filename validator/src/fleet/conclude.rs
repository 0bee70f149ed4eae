//! The end of a challenge: the verdict is held against the fleet, moves the attestation state, gets its receipt, and is
//! written with all of that in one transaction. Only then may it be given out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::PoisonError;
use std::time::Duration;

use assay_fleet::{Change, Event, FleetPolicy, Group, Labels, Standing, step};
use assay_protocol::verdict::{Outcome, Reason, ReasonCode, Verdict, outcome_of};
use assay_receipts::{EatNonce, Finding, Receipt, Subject};
use assay_records::{CommitmentRecord, Conclusion, EvidenceRecord, ReceiptRecord, RecordsError, Transition};
use assay_work::{DeviceId, Nonce};

use super::facts::{FleetFacts, Found};
use super::schedule::{next_wait, uniform};
use super::{Fleet, standing_of};
use crate::case::capture::{Capture, Why};
use crate::clock::{unix_ms, unix_seconds};
use crate::entropy::OsEntropy;

use crate::order::{Asked, Order};
use crate::verify::excuse::HeldUp;

/// How long until a verdict that could not be written is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// The name of what is due in the records: which kind it will be is drawn when it starts.
const SCHEDULED: &str = "scheduled";

/// A verdict before it is held against the fleet.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The verdict on the work.
    pub verdict: Box<Verdict>,
    /// The challenge's nonce; `None` where the host had nothing to challenge.
    pub nonce: Option<Nonce>,
    /// What was asked.
    pub order: Order,
    /// The session's id in the records.
    pub session: String,
    /// Where the miner connected from.
    pub address: Option<IpAddr>,
    /// The models that its devices claim.
    pub models: BTreeMap<DeviceId, String>,
    /// What it signed.
    pub commitment: Option<CommitmentRecord>,
    /// How long the challenge took.
    pub took: Duration,
    /// Whether the operator admitted this very key.
    pub is_recognised: bool,
    /// How often in a row the miner was busy when a challenge was due, this time included.
    pub busy: u32,
}

/// A verdict that is in the records.
#[derive(Debug, Clone)]
pub struct Concluded {
    /// It, as it is recorded, with its receipt.
    pub verdict: Box<Verdict>,
    /// How long until the next challenge; `None`: on demand only.
    pub next: Option<Duration>,
    /// The change of the attestation state.
    pub change: Option<Change>,
    /// What was found beside the work.
    pub found: Vec<Found>,
}

/// What may be kept of a challenge, so that it can be judged again.
#[derive(Debug)]
pub struct Case {
    /// What was drawn and answered.
    pub capture: Capture,
    /// For how long the validator was held up.
    pub held_up: HeldUp,
    /// The least percentage of passes of which it is kept.
    pub least_percent: u32,
}

/// A verdict that was held against the fleet: it changes no more.
struct Judged {
    draft: Draft,
    verdict: Box<Verdict>,
    found: Vec<Found>,
    evidence: Option<EvidenceRecord>,
    subjected: Subjected,
}

/// The miner as the records have it, and what the policy says of it.
#[derive(Clone)]
struct Subjected {
    id: String,
    standing: Standing,
    group: Group,
    operator: Option<String>,
}

impl Fleet {
    /// Concludes a challenge: tried until it is written, however long that takes.
    ///
    /// What the verdict is held against is read once. It is in the case, which may be judged again by it.
    pub async fn conclude(&self, draft: Draft, case: Option<Case>) -> Concluded {
        let (subjected, facts) = loop {
            match self.gather(&draft).await {
                Ok(gathered) => break gathered,
                Err(error) => self.wait(&error).await,
            }
        };
        let mut verdict = draft.verdict.clone();
        let found = facts.judge(&mut verdict);
        // First: a verdict that is given out has its evidence.
        let evidence = match case {
            Some(case) => case.finish(&verdict, &facts, subjected.group.evidence.passes_percent).await,
            None => None,
        };
        let json = serde_json::to_string(&verdict).unwrap_or_default();
        let id = verdict.challenge_id;
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(id, json);
        let judged = Judged { draft, verdict, found, evidence, subjected };
        let concluded = self.write_at_last(&judged).await;
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        concluded
    }

    /// Writes a verdict, however long that takes.
    async fn write_at_last(&self, judged: &Judged) -> Concluded {
        // To keep evidence takes its time, in which the miner's standing may have changed.
        let mut is_fresh = judged.evidence.is_none();
        loop {
            let written = match is_fresh {
                true => self.write(judged, judged.subjected.clone()).await,
                false => self.write_anew(judged).await,
            };
            is_fresh = false;
            match written {
                Ok(concluded) => return concluded,
                Err(RecordsError::ConcludedBefore { challenge }) => {
                    // Another validator took this one for lost, and said so first.
                    tracing::warn!(%challenge, "another validator concluded this challenge: its verdict stands");
                    return concluded_elsewhere(judged);
                }
                Err(error) => self.wait(&error).await,
            }
        }
    }

    /// The same, by what the miner's standing is now.
    async fn write_anew(&self, judged: &Judged) -> Result<Concluded, RecordsError> {
        let subjected = self.subjected(&judged.draft).await?;
        self.write(judged, subjected).await
    }

    /// The store's own trouble is in the log, once for all.
    async fn wait(&self, error: &RecordsError) {
        tracing::debug!(%error, "a verdict waits for the records");
        tokio::time::sleep(RETRY).await;
    }

    /// The miner as the records have it, and what its verdict is held against.
    async fn gather(&self, draft: &Draft) -> Result<(Subjected, FleetFacts), RecordsError> {
        let subjected = self.subjected(draft).await?;
        let facts = self.facts(draft, &subjected).await?;
        Ok((subjected, facts))
    }

    /// Writes the verdict with what follows from it.
    async fn write(&self, judged: &Judged, now: Subjected) -> Result<Concluded, RecordsError> {
        let Judged { draft, verdict, found, evidence, subjected: Subjected { group, .. } } = judged;
        let Subjected { id, standing, operator, .. } = now;
        let event = Event::Verdict {
            outcome: verdict.outcome,
            codes: verdict.reasons.iter().map(|reason| reason.code).collect(),
            heavy: is_heavy(group, &draft.order.kind),
        };
        let (standing, change) = step(&standing, &event, &group.rules, unix_seconds());
        let next = next_challenge(draft, verdict, group);
        let receipt = self.receipt(judged, &standing);
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
            transition: change.as_ref().map(|change| transition(&id, change)),
            standing: serde_json::to_string(&standing).ok(),
            findings: found.iter().map(|found| found.record(&id)).collect(),
            receipt: receipt.as_ref().map(|receipt| receipt_record(receipt, draft)),
            next_due: next.map(|next| (unix_ms() + ms(next), SCHEDULED.to_owned())),
            device_ms: ms(draft.took) * i64::try_from(verdict.devices.len()).unwrap_or(1),
            operator,
        };
        self.records.conclude(&conclusion).await?;
        if let (Outcome::Pass, Some(address)) = (verdict.outcome, draft.address) {
            let devices = verdict.devices.iter().map(|device| device.device_id);
            self.presences.showed(&id, address, devices, unix_ms().unsigned_abs());
        }
        let mut verdict = verdict.clone();
        // The records have it beside the verdict.
        verdict.receipt = receipt.map(|receipt| receipt.token);
        Ok(Concluded { verdict, next, change, found: found.clone() })
    }

    async fn subjected(&self, draft: &Draft) -> Result<Subjected, RecordsError> {
        let record = self.records.miner(&draft.verdict.miner_key.to_string()).await?;
        let record = record.as_ref();
        let rules = self.rules();
        let models: Vec<&str> = draft.models.values().map(String::as_str).collect();
        let labels = record.map(|record| record.labels.clone()).unwrap_or_default();
        // What was asked by one group is judged by it, whatever labels were given meanwhile.
        let group = rules.policy.group(&draft.order.group).unwrap_or_else(|| rules.policy.group_of(&labels, &models));
        Ok(Subjected {
            id: record.map_or_else(|| draft.verdict.miner_key.to_string(), |record| record.id.clone()),
            standing: record.map_or_else(|| Standing::enrolled(unix_seconds()), standing_of),
            group: group.clone(),
            operator: operator_of(&rules.policy, &labels),
        })
    }

    async fn facts(&self, draft: &Draft, subjected: &Subjected) -> Result<FleetFacts, RecordsError> {
        let rules = self.rules();
        let claimed = || draft.models.values();
        let profiles = claimed().filter_map(|model| Some((model.clone(), rules.profiles.find(model)?.clone())));
        let operator = subjected.operator.as_deref();
        let speeds = self
            .speeds
            .distributions(&self.records, claimed(), (draft.verdict.precision, draft.verdict.n), operator)
            .await?;
        let policy = &draft.order.policy;
        let fill_share = policy.fills_memory().then(|| f64::from(policy.fill_percent) / 100.0);
        let identity = draft.address.map(|address| {
            let findings = self.presences.findings(&subjected.id, address, &subjected.group.identity);
            findings.into_iter().filter(|finding| finding.miner == subjected.id).collect()
        });
        Ok(FleetFacts {
            bands: subjected.group.bands,
            fill_share,
            profiles: profiles.collect(),
            speeds,
            models: draft.models.clone(),
            identity: identity.unwrap_or_default(),
        })
    }

    fn receipt(&self, judged: &Judged, standing: &Standing) -> Option<Receipt> {
        let Judged { draft, verdict, found, subjected: Subjected { group, .. }, .. } = judged;
        let now_s = unix_seconds();
        let eat_nonce = draft.order.eat_nonce.as_deref().and_then(|nonce| nonce.parse::<EatNonce>().ok());
        let lifetime_s = group.receipts.lifetime.as_secs();
        // No receipt outlives the attestation that it states.
        let until = standing.attested_until_s(&group.rules);
        let findings: Vec<_> = found.iter().map(finding).collect();
        let subject = Subject {
            verdict,
            challenge_nonce: draft.nonce,
            is_recognised: draft.is_recognised,
            state: standing.state.name(),
            group: &group.name,
            eat_nonce: eat_nonce.as_ref(),
            findings: &findings,
            lifetime_s: until.map_or(lifetime_s, |until| lifetime_s.min(until.saturating_sub(now_s))),
            now_s,
        };
        let issued = self.signer.issue(&subject);
        issued.inspect_err(|error| tracing::error!(challenge = %verdict.challenge_id, "no receipt: {error}")).ok()
    }
}

impl Case {
    /// Keeps it or drops it, now that the verdict is known.
    async fn finish(self, verdict: &Verdict, facts: &FleetFacts, percent: f64) -> Option<EvidenceRecord> {
        let Self { capture, held_up, least_percent } = self;
        let share = percent.max(f64::from(least_percent)) / 100.0;
        let why = Why::of(verdict.outcome, uniform(&mut OsEntropy) < share)?;
        let facts = toml::to_string(facts);
        if let Err(error) = &facts {
            tracing::error!(challenge = %verdict.challenge_id, %error, "its case lacks what it was held against");
        }
        let kept = capture.finish(verdict, held_up, facts.ok(), why).await?;
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        Some(EvidenceRecord {
            digest: kept.digest.to_string(),
            bytes: bytes(kept.bytes),
            stored_bytes: bytes(kept.stored_bytes),
            why: kept.why.name().to_owned(),
        })
    }
}

/// What is told of a challenge that another validator concluded: nothing that its records do not have.
fn concluded_elsewhere(judged: &Judged) -> Concluded {
    let Judged { draft, subjected: Subjected { group, .. }, .. } = judged;
    let mut verdict = draft.verdict.clone();
    let detail = "another validator took this one for lost, and concluded the challenge first";
    verdict.reasons = vec![Reason::new(ReasonCode::ValidatorLost, detail)];
    verdict.outcome = outcome_of(&verdict.reasons);
    let next = next_challenge(draft, &verdict, group);
    Concluded { verdict, next, change: None, found: Vec::new() }
}

/// Whether a challenge counts as a heavy one: where a group has one kind only, every challenge does.
fn is_heavy(group: &Group, kind: &str) -> bool {
    group.heavy.as_ref().is_none_or(|heavy| heavy.kind.name == kind)
}

fn operator_of(policy: &FleetPolicy, labels: &Labels) -> Option<String> {
    policy.operator_of(labels).map(str::to_owned)
}

/// How long until the next challenge: soon where one was due and the miner was busy.
fn next_challenge(draft: &Draft, verdict: &Verdict, group: &Group) -> Option<Duration> {
    let policy = &draft.order.policy;
    let was_busy = verdict.reasons.iter().any(|reason| reason.code == ReasonCode::MinerBusy);
    let pause = (was_busy && draft.order.asked == Asked::Schedule).then(|| policy.busy_pause(draft.busy)).flatten();
    pause.or_else(|| next_wait(group, policy, &mut OsEntropy))
}

fn finding(found: &Found) -> Finding {
    Finding {
        code: found.code.name().to_owned(),
        enforced: found.enforced,
        device_id: found.device_id,
        detail: found.detail.clone(),
    }
}

/// A change of state, as it is kept.
#[must_use]
pub fn transition(miner: &str, change: &Change) -> Transition {
    Transition {
        miner: miner.to_owned(),
        at_ms: unix_ms(),
        from: change.from.name().to_owned(),
        to: change.to.name().to_owned(),
        why: change.why.name().to_owned(),
        detail: change.detail.clone(),
    }
}

fn receipt_record(receipt: &Receipt, draft: &Draft) -> ReceiptRecord {
    let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    ReceiptRecord {
        id: receipt.id.clone(),
        key_id: receipt.key_id.clone(),
        issued_s: seconds(receipt.issued_s),
        expires_s: seconds(receipt.expires_s),
        nonce: draft.order.eat_nonce.clone(),
        token: receipt.token.clone(),
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
