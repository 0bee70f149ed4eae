//! The journal of a run, from which it can be judged again, and its inputs other than messages.

use std::time::{Duration, Instant};

use assay_protocol::message::{OpenItem, ValidatorMessage};
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::{Link, MemoryProbe, ProbeStage};

use super::{ChallengeRun, RunContext};
use crate::action::{Action, SentAt};
use crate::case::entry::{CaseEntry, CaseHeader, MinerKnowledge, RunEvent, nanoseconds};
use crate::entropy::{BlockEntropy, Entropy};
use crate::issue::IssuedChallenge;
use crate::probe_size::ProbeSizing;
use crate::verify::size::Probes;

/// Detail of the reason when a replayed run asks for a draw that the original run did not make.
pub const EVIDENCE_ENDS: &str = "the evidence ends here";

/// Draws and history of an earlier run.
#[derive(Debug, Clone, Default)]
pub struct JournalInputs {
    /// The probes, up to the end of the run.
    pub probes: Vec<MemoryProbe>,
    /// The items opened, and the iterations drawn of each share.
    pub open: Option<(Vec<OpenItem>, Vec<Vec<u32>>)>,
    /// The validator's record of the miner.
    pub known: MinerKnowledge,
}

/// A message with a deadline on its way to the miner.
pub(super) struct DeadlineMessage {
    at: Instant,
    sent: SentAt,
    /// Time at which the transport took it, as of the last event. Judging uses this time alone, so that the same events
    /// give the same verdict.
    taken: Option<Instant>,
}

impl std::fmt::Debug for DeadlineMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadlineMessage").field("at", &self.at).field("sent", &self.sent).finish_non_exhaustive()
    }
}

/// Entries of the run's inputs.
pub(super) fn beginning(context: &RunContext, issued: &IssuedChallenge) -> Vec<CaseEntry> {
    let RunContext { policy, mode, inventory, round_trip, unix_seconds, hold, .. } = context;
    let fields = issued.challenge.fields();
    let header = CaseHeader {
        program: env!("CARGO_PKG_VERSION").into(),
        challenge_id: fields.challenge_id,
        miner_key: fields.miner_key,
        validator_key: fields.validator_key,
        unix_seconds: *unix_seconds,
        mode: Some(*mode),
        round_trip: *round_trip,
        hold: *hold,
        not_challenged: issued.not_challenged.clone(),
        policy: (**policy).clone(),
    };
    vec![
        CaseEntry::Header(Box::new(header)),
        CaseEntry::Inventory(inventory.clone()),
        CaseEntry::Offer(issued.offer.clone()),
    ]
}

impl ChallengeRun {
    /// Hands a message to the transport, which may wait for the miner to read.
    pub(super) fn hand_over(&mut self, message: ValidatorMessage, now: Instant) -> Action {
        let sent = SentAt::default();
        self.handed_over.push(DeadlineMessage { at: now, sent: sent.clone(), taken: None });
        Action::Send(message, sent)
    }

    /// Time at which the transport took the message that the stage waits for, as of the last event.
    pub(super) fn taken(&self) -> Option<Instant> {
        self.handed_over.last()?.taken
    }

    /// Time at which the transport took that message, as known now.
    pub(super) fn taken_by_now(&self) -> Option<Instant> {
        self.handed_over.last()?.sent.get()
    }

    /// The longest wait of a message for the transport.
    pub(super) fn handover(&self) -> Option<Duration> {
        self.handed_over.iter().filter_map(|message| Some(message.taken?.saturating_duration_since(message.at))).max()
    }

    /// Begins an event: records which messages the transport took before it.
    pub(super) fn note_taken(&mut self) {
        for (number, message) in (0..).zip(&mut self.handed_over) {
            if message.taken.is_none() {
                message.taken = message.sent.get();
                let at = message.taken.map(|at| nanoseconds(at.saturating_duration_since(self.began)));
                self.journal.extend(at.map(|at| CaseEntry::Event(RunEvent::Taken(number, at))));
            }
        }
    }

    pub(super) fn nanoseconds_to(&self, at: Instant) -> u64 {
        nanoseconds(at.saturating_duration_since(self.began))
    }

    /// Returns the pending entries, the event last, before all other actions.
    pub(super) fn journaled(&mut self, event: Option<CaseEntry>, mut actions: Vec<Action>) -> Vec<Action> {
        self.journal.extend(event);
        if !self.journal.is_empty() {
            actions.insert(0, Action::Record(std::mem::take(&mut self.journal)));
        }
        actions
    }

    pub(super) fn probe_sizing(&self, work_time: Duration) -> ProbeSizing<'_> {
        let RunContext { policy, history, round_trip, inventory, .. } = &self.context;
        let (challenge, shown, round_trip) = (&*self.challenge, &history.shown, *round_trip);
        ProbeSizing { policy, challenge, inventory, shown, round_trip, work_time, finished: &self.finished }
    }

    /// Draws the probe of a stage; a sweep is sized by the `read_per_s` bytes per second of the probe before it.
    pub(super) fn draw_probe(
        &mut self,
        stage: ProbeStage,
        (work_time, read_per_s): (Duration, f64),
        entropy: &mut dyn Entropy,
    ) -> Result<MemoryProbe, Reason> {
        if let Some(given) = &self.given {
            let probe = given.probes.iter().find(|probe| probe.stage() == stage);
            return probe.copied().ok_or_else(evidence_ends);
        }
        let sizing = self.probe_sizing(work_time);
        let probe = match stage {
            ProbeStage::Own => sizing.probe(Link::Own, entropy).map(MemoryProbe::from),
            ProbeStage::Linked => sizing.probe(Link::All, entropy).map(MemoryProbe::from),
            ProbeStage::Sweep => sizing.sweep(read_per_s, entropy).map(MemoryProbe::from),
        };
        let probe = probe.map_err(|error| Reason::new(ReasonCode::ValidatorInternal, error.to_string()))?;
        self.journal.push(CaseEntry::Probe(probe));
        Ok(probe)
    }

    pub(super) fn draw_openings(
        &mut self,
        probes: Probes<'_>,
        entropy: &mut dyn Entropy,
    ) -> Result<(Vec<OpenItem>, Vec<Vec<u32>>), Reason> {
        if let Some(given) = &self.given {
            return given.open.clone().ok_or_else(evidence_ends);
        }
        let (items, iterations) = self
            .draw(probes, &mut BlockEntropy::new(entropy))
            .map_err(|error| Reason::new(ReasonCode::ValidatorInternal, error.to_string()))?;
        self.journal.push(CaseEntry::Open(items.clone(), iterations.clone()));
        Ok((items, iterations))
    }

    /// The validator's record of the miner as its challenge began.
    pub(super) fn known(&mut self) -> MinerKnowledge {
        if let Some(given) = &self.given {
            return given.known.clone();
        }
        let RunContext { policy, history, .. } = &self.context;
        let past = history.past.clone();
        let expectation = past.lineage.iter().find_map(|key| policy.expectations.of(*key)).cloned();
        let known = MinerKnowledge { past, expectation };
        self.journal.push(CaseEntry::Known(Box::new(known.clone())));
        known
    }
}

fn evidence_ends() -> Reason {
    Reason::new(ReasonCode::ValidatorInternal, EVIDENCE_ENDS)
}
