//! Judges a stored case again: replays its events into the run that judged it live.
//!
//! Under the policy of that time the verdict is the same, bit for bit. Under another one, deadlines and least shares
//! are the other's; draws, answers and recorded history stay. Where another policy would have let an ended challenge go
//! on, its further course is unknown: [`RejudgeResult::Open`].

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_policy::Policy;
use assay_policy::policy::BandPolicy;
use assay_protocol::message::{Inventory, MinerMessage, Offer, ValidatorMessage};
use assay_protocol::verdict::{Reason, Verdict};
use assay_work::{Challenge, MemoryProbe, ProbeStage};

use crate::action::{Action, SentAt};
use crate::case::entry::{CaseEntry, CaseHeader, RunEvent, StoredReason, UnmadeChallenge};
use crate::case::file::{CaseError, CaseReader};
use crate::entropy::{Entropy, EntropyError};
use crate::facts::FleetFacts;
use crate::history::MinerHistory;
use crate::issue::IssuedChallenge;
use crate::run::{ChallengeRun, EVIDENCE_ENDS, JournalInputs, RunContext};
use crate::verify::check::CheckJob;
use crate::verify::draw;
use crate::verify::excuse::ValidatorDelays;
use crate::verify::size::Probes;

/// The longest deadline of a case: the fields of a policy allow a day.
const MAX_TIME: Duration = Duration::from_secs(30 * 86_400);

/// A case without its messages, as a first reading collects it. It is in memory at once; the messages never are.
#[derive(Debug, Clone)]
pub struct CaseContents {
    pub header: CaseHeader,
    /// The verdict that was given, as JSON.
    pub verdict: Vec<u8>,
    inventory: Inventory,
    made: CaseChallenge,
    given: JournalInputs,
    held_up: ValidatorDelays,
    /// The fleet's facts that the verdict was checked against.
    pub facts: FleetFacts,
}

/// The policies that a case is judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Standard {
    /// Deadlines, least shares and the other settings that judge the work.
    pub policy: Policy,
    pub bands: BandPolicy,
}

/// The challenge that was made for the host, or the reason for none.
#[derive(Debug, Clone)]
enum CaseChallenge {
    Challenge(Offer),
    Nothing(Box<UnmadeChallenge>),
}

/// Result of judging again.
#[derive(Debug, Clone, PartialEq)]
pub enum RejudgeResult {
    Verdict(Box<Verdict>),
    /// Under this policy the challenge would have gone on where the evidence ends.
    Open,
}

impl RejudgeResult {
    /// The verdict as JSON, where there is one: the bytes to compare.
    pub fn json(&self) -> Option<Vec<u8>> {
        match self {
            // Texts and numbers always become JSON.
            Self::Verdict(verdict) => Some(serde_json::to_vec(verdict).unwrap_or_default()),
            Self::Open => None,
        }
    }
}

/// Whether the times of a header can be added to a clock, and its rate divides. A header that is written has bounds below
/// these; a forged one may hold any number.
fn is_within_bounds(header: &CaseHeader) -> bool {
    let CaseHeader { policy, round_trip, hold, .. } = header;
    let openings = &policy.openings;
    let times = [policy.commit_deadline, policy.probe.target, policy.probe.deadline, openings.deadline, openings.limit];
    let mut times = times.into_iter().chain(*round_trip).chain(*hold);
    openings.least_rate_per_s > 0 && times.all(|time| time <= MAX_TIME)
}

fn facts(text: &str) -> Result<FleetFacts, CaseError> {
    toml::from_str(text).map_err(|_| CaseError::Incomplete("what it was held against is of a newer release"))
}

/// The policy of a case, with the settings for judging taken from another one: those of the request stay.
pub fn judged_by(stored: &Policy, other: &Policy) -> Policy {
    let mut policy = stored.clone();
    policy.commit_deadline = other.commit_deadline;
    policy.probe.deadline = other.probe.deadline;
    if let (Some(stored), Some(other)) = (&mut policy.linked, &other.linked) {
        stored.min_gb_per_s = other.min_gb_per_s;
    }
    policy.openings = other.openings;
    policy.hiding = other.hiding;
    policy.abandoned = other.abandoned;
    policy.device_missing = other.device_missing;
    policy
}

impl CaseContents {
    /// Reads and checks a whole case; keeps everything but the miner's messages.
    ///
    /// # Errors
    /// [`CaseError`], also for entries that are missing or come twice.
    pub fn read(entries: &mut CaseReader<impl Read>) -> Result<Self, CaseError> {
        let (mut header, mut inventory, mut made, mut verdict) = (None, None, None, None);
        let mut probes = Vec::<MemoryProbe>::new();
        let (mut open, mut known, mut held_up, mut fleet) = (None, None, None, None);
        while let Some(entry) = entries.next_entry()? {
            let is_twice = match entry {
                _ if verdict.is_some() => return Err(CaseError::Incomplete("something follows the verdict")),
                CaseEntry::Header(entry) => header.replace(*entry).is_some(),
                _ if header.is_none() => return Err(CaseError::Incomplete("it does not begin with who was asked")),
                CaseEntry::Inventory(entry) => inventory.replace(entry).is_some(),
                CaseEntry::Offer(entry) => made.replace(CaseChallenge::Challenge(entry)).is_some(),
                CaseEntry::Unchallenged(entry) => made.replace(CaseChallenge::Nothing(entry)).is_some(),
                CaseEntry::Probe(entry) => {
                    let is_twice = probes.iter().any(|probe| probe.stage() == entry.stage());
                    probes.push(entry);
                    is_twice
                }
                CaseEntry::Open(items, iterations) => open.replace((items, iterations)).is_some(),
                CaseEntry::Known(entry) => known.replace(*entry).is_some(),
                CaseEntry::HeldUp(entry) => held_up.replace(entry).is_some(),
                CaseEntry::Fleet(text) => fleet.replace(facts(&text)?).is_some(),
                CaseEntry::Verdict(json) => verdict.replace(json).is_some(),
                CaseEntry::Message(..) | CaseEntry::Openings(..) | CaseEntry::Event(_) => false,
            };
            if is_twice {
                return Err(CaseError::Incomplete("something stands in it twice"));
            }
        }
        let header = header.ok_or(CaseError::Incomplete("it is empty"))?;
        if !is_within_bounds(&header) {
            return Err(CaseError::Incomplete("its policy or its times are beyond every bound"));
        }
        let made = made.ok_or(CaseError::Incomplete("it has no challenge"))?;
        if known.is_none() && matches!(made, CaseChallenge::Challenge(_)) {
            return Err(CaseError::Incomplete("it does not say what was known of the miner"));
        }
        Ok(Self {
            header,
            inventory: inventory.ok_or(CaseError::Incomplete("it has no inventory"))?,
            made,
            given: JournalInputs { probes, open, known: known.unwrap_or_default() },
            held_up: held_up.ok_or(CaseError::Incomplete("it does not say whose time was lost"))?,
            facts: fleet.ok_or(CaseError::Incomplete("it does not say what it was held against"))?,
            verdict: verdict.ok_or(CaseError::Incomplete("it has no verdict"))?,
        })
    }

    /// The standard of the original verdict.
    pub fn standard(&self) -> Standard {
        Standard { policy: self.header.policy.clone(), bands: self.facts.bands }
    }

    /// Judges the case by a standard. `entries` is a second reader over the case that [`CaseContents::read`] read.
    pub fn judge(&self, entries: CaseReader<impl Read>, standard: &Standard) -> Result<RejudgeResult, CaseError> {
        let Standard { policy, bands } = standard;
        let mut judgement = match &self.made {
            CaseChallenge::Nothing(unmade) => {
                let reason = reason(unmade.reason.clone())?;
                let verdict = unmade.verdict(&self.header, reason);
                RejudgeResult::Verdict(Box::new(verdict))
            }
            CaseChallenge::Challenge(offer) => self.run_again(offer, entries, policy)?,
        };
        if let RejudgeResult::Verdict(verdict) = &mut judgement {
            self.held_up.excuse(verdict);
            // Further findings are events, not part of the verdict.
            drop(FleetFacts { bands: *bands, ..self.facts.clone() }.judge(verdict));
            self.held_up.excuse(verdict);
        }
        Ok(judgement)
    }

    fn run_again(
        &self,
        offer: &Offer,
        mut entries: CaseReader<impl Read>,
        policy: &Policy,
    ) -> Result<RejudgeResult, CaseError> {
        let CaseHeader { validator_key, miner_key, mode, round_trip, unix_seconds, hold, .. } = &self.header;
        let challenge = offer
            .plan(&self.inventory, *validator_key, *miner_key)
            .map_err(|_| CaseError::Incomplete("its offer makes no challenge of its inventory"))?;
        if !self.opens_its_own(&challenge) {
            return Err(CaseError::Incomplete("its challenge lacks something that was opened"));
        }
        let issued = IssuedChallenge {
            offer: offer.clone(),
            challenge: Arc::new(challenge),
            not_challenged: self.header.not_challenged.clone(),
        };
        let context = RunContext {
            policy: Arc::new(policy.clone()),
            mode: mode.ok_or(CaseError::Incomplete("it does not say how the work was checked"))?,
            inventory: self.inventory.clone(),
            history: Arc::<MinerHistory>::default(),
            round_trip: *round_trip,
            unix_seconds: *unix_seconds,
            hold: *hold,
        };
        let began = Instant::now();
        let (run, actions) = ChallengeRun::again(context, issued, self.given.clone(), began);
        let is_same = *policy == self.header.policy;
        let mut again = RejudgedRun { run, began, is_same, sent: Vec::new(), check: None, verdict: None };
        again.carry_out(actions);
        while again.verdict.is_none()
            && let Some(entry) = entries.next_entry()?
        {
            again.take(entry)?;
        }
        let ends = |verdict: &Verdict| verdict.reasons.iter().any(|reason| reason.detail == EVIDENCE_ENDS);
        Ok(again.verdict.filter(|verdict| !ends(verdict)).map_or(RejudgeResult::Open, RejudgeResult::Verdict))
    }

    /// Whether the items opened are of this challenge and of the case's probes.
    fn opens_its_own(&self, challenge: &Challenge) -> bool {
        let walks = |stage| self.given.probes.iter().find(|it| it.stage() == stage).and_then(MemoryProbe::walks);
        let (Some(own), Some((items, _))) = (walks(ProbeStage::Own), &self.given.open) else { return true };
        let sweep = self.given.probes.iter().find_map(MemoryProbe::sweep);
        draw::fit(challenge, Probes { own, linked: walks(ProbeStage::Linked), sweep }, items)
    }
}

/// A run that replays stored events.
struct RejudgedRun {
    run: ChallengeRun,
    began: Instant,
    /// Whether it is judged under the policy of that time.
    is_same: bool,
    /// Times at which the transport took the run's messages.
    sent: Vec<SentAt>,
    /// The pending check of the last chunk of openings.
    check: Option<Box<CheckJob>>,
    verdict: Option<Box<Verdict>>,
}

impl RejudgedRun {
    fn take(&mut self, entry: CaseEntry) -> Result<(), CaseError> {
        match entry {
            CaseEntry::Message(at, message) => {
                let at = self.at(at);
                // Other messages have no deadline checked against their time.
                if matches!(message, MinerMessage::Declined(_) | MinerMessage::Abort(_)) {
                    self.tick_if_other(at);
                }
                self.message(message, at);
            }
            CaseEntry::Openings(at, chunk) => {
                self.message(MinerMessage::OpeningsChunk(Arc::unwrap_or_clone(chunk)), self.at(at));
            }
            CaseEntry::Event(event) => self.happen(event)?,
            // Known from the first reading.
            _ => {}
        }
        Ok(())
    }

    fn message(&mut self, message: MinerMessage, at: Instant) {
        if self.verdict.is_none() {
            let actions = self.run.message(message, at, &mut NoEntropy);
            self.carry_out(actions);
        }
    }

    fn happen(&mut self, event: RunEvent) -> Result<(), CaseError> {
        let actions = match event {
            RunEvent::Taken(number, at) => {
                let sent = self.sent.get(number as usize).ok_or(CaseError::Incomplete("a message was never sent"))?;
                sent.set(self.at(at));
                return Ok(());
            }
            RunEvent::RoundTrip(time) => {
                self.run.round_trip(Some(Duration::from_nanos(time)));
                return Ok(());
            }
            RunEvent::Excuse(time) => {
                self.run.excuse(Duration::from_nanos(time));
                return Ok(());
            }
            RunEvent::Clock(at) => {
                self.tick_if_other(self.at(at));
                return Ok(());
            }
            RunEvent::Checked => {
                let job = self.check.take().ok_or(CaseError::Incomplete("a check has no openings"))?;
                self.run.checked(job.run())
            }
            RunEvent::Replayed(found) => self.run.replayed(found.map(reason).transpose()?.map_or(Ok(()), Err)),
            RunEvent::Stop(why) => self.run.stop(reason(why)?),
            RunEvent::Leave(why) => self.run.leave(reason(why)?),
            RunEvent::Tick(at) => self.run.tick(self.at(at), &mut NoEntropy),
            RunEvent::Release(at) => self.run.release(self.at(at), &mut NoEntropy),
        };
        self.carry_out(actions);
        Ok(())
    }

    /// Under another policy, a deadline may have passed that was not checked in the original run.
    fn tick_if_other(&mut self, at: Instant) {
        if !self.is_same {
            let actions = self.run.tick(at, &mut NoEntropy);
            self.carry_out(actions);
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        use ValidatorMessage::{Challenge, Open, Probe, Sweep};
        for action in actions {
            match action {
                Action::Send(Challenge(_) | Probe { .. } | Sweep { .. } | Open { .. }, sent) => self.sent.push(sent),
                Action::Check(job) => self.check = Some(job),
                Action::Judged(verdict) => self.verdict = Some(verdict),
                _ => {}
            }
        }
    }

    fn at(&self, nanoseconds: u64) -> Instant {
        // A time beyond the clock's range belongs to no valid challenge.
        self.began.checked_add(Duration::from_nanos(nanoseconds)).unwrap_or(self.began)
    }
}

fn reason(stored: StoredReason) -> Result<Reason, CaseError> {
    Reason::try_from(stored).map_err(|_| CaseError::Incomplete("a reason is of a newer release"))
}

/// Entropy source of a replayed run: always fails, since nothing is drawn again.
struct NoEntropy;

impl Entropy for NoEntropy {
    fn bytes(&mut self) -> Result<[u8; 32], EntropyError> {
        Err(EntropyError("a case is judged from what was drawn for it".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_work::{ChallengeId, PublicKey};

    fn header() -> CaseHeader {
        CaseHeader {
            program: String::new(),
            challenge_id: ChallengeId([1; 16]),
            miner_key: PublicKey([2; 32]),
            validator_key: PublicKey([3; 32]),
            unix_seconds: 0,
            mode: None,
            round_trip: None,
            hold: None,
            not_challenged: Vec::new(),
            policy: Policy::default(),
        }
    }

    /// Regression test, found by fuzzing: such numbers in a forged case ended the judge.
    #[test]
    fn numbers_beyond_every_bound_are_refused() {
        let within = |change: fn(&mut CaseHeader)| {
            let mut header = header();
            change(&mut header);
            is_within_bounds(&header)
        };
        assert!(within(|_| {}) && within(|it| it.round_trip = Some(MAX_TIME)));
        assert!(!within(|it| it.policy.openings.least_rate_per_s = 0));
        assert!(!within(|it| it.policy.commit_deadline = Duration::MAX));
        assert!(!within(|it| it.policy.probe.deadline = Duration::MAX));
        assert!(!within(|it| it.policy.openings.limit = Duration::MAX));
        assert!(!within(|it| it.round_trip = Some(Duration::MAX)) && !within(|it| it.hold = Some(Duration::MAX)));
    }
}
