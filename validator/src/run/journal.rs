//! What a run writes down, so that it can be judged again, and where it has from what is not in its messages.

use std::time::{Duration, Instant};

use assay_protocol::message::{OpenItem, ValidatorMessage};
use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::probe::{Link, Probe};

use super::{ChallengeRun, RunContext};
use crate::action::{Action, SentAt};
use crate::case::entry::{Entry, Event, Header, Known, nanoseconds};
use crate::entropy::Entropy;
use crate::history::End;
use crate::issue::{Issued, issue_probe};
use crate::verify::size::Probes;

/// The detail of the reason of a run that is judged again and asks for what the first one did not draw.
pub const EVIDENCE_ENDS: &str = "the evidence ends here";

/// What was drawn and known in an earlier run.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The probe; none where it did not come so far.
    pub probe: Option<Probe>,
    /// The linked probe, where there was one.
    pub linked: Option<Probe>,
    /// What was opened, and the iterations drawn of each share.
    pub open: Option<(Vec<OpenItem>, Vec<Vec<u32>>)>,
    /// What was known of the miner.
    pub known: Known,
}

/// A message with a deadline on its way to the miner.
pub(super) struct HandedOver {
    at: Instant,
    sent: SentAt,
    /// When the transport took it, as the last event found it. Judging rests on this alone, so that a run that is given
    /// the same events judges the same.
    taken: Option<Instant>,
}

impl std::fmt::Debug for HandedOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandedOver").field("at", &self.at).field("sent", &self.sent).finish_non_exhaustive()
    }
}

/// What a run is made of.
pub(super) fn beginning(context: &RunContext, issued: &Issued) -> Vec<Entry> {
    let RunContext { policy, mode, inventory, round_trip, unix_seconds, hold, .. } = context;
    let fields = issued.challenge.fields();
    let header = Header {
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
    vec![Entry::Header(Box::new(header)), Entry::Inventory(inventory.clone()), Entry::Offer(issued.offer.clone())]
}

impl ChallengeRun {
    /// Hands a message to the transport, which may wait for the miner to read.
    pub(super) fn hand_over(&mut self, message: ValidatorMessage, now: Instant) -> Action {
        let sent = SentAt::default();
        self.handed_over.push(HandedOver { at: now, sent: sent.clone(), taken: None });
        Action::Send(message, sent)
    }

    /// When the transport took the message that the stage waits for, as the last event found it.
    pub(super) fn taken(&self) -> Option<Instant> {
        self.handed_over.last()?.taken
    }

    /// When it took it, as far as is known now.
    pub(super) fn taken_by_now(&self) -> Option<Instant> {
        self.handed_over.last()?.sent.get()
    }

    /// The longest that a message waited.
    pub(super) fn handover(&self) -> Option<Duration> {
        self.handed_over.iter().filter_map(|message| Some(message.taken?.saturating_duration_since(message.at))).max()
    }

    /// An event begins: finds which messages the transport took before.
    pub(super) fn note_taken(&mut self) {
        for (number, message) in (0..).zip(&mut self.handed_over) {
            if message.taken.is_none() {
                message.taken = message.sent.get();
                let at = message.taken.map(|at| nanoseconds(at.saturating_duration_since(self.began)));
                self.journal.extend(at.map(|at| Entry::Event(Event::Taken(number, at))));
            }
        }
    }

    /// Nanoseconds from the run's beginning.
    pub(super) fn nanoseconds_to(&self, at: Instant) -> u64 {
        nanoseconds(at.saturating_duration_since(self.began))
    }

    /// Hands out what is to be kept, the event last, before all else that is to be done.
    pub(super) fn journaled(&mut self, event: Option<Entry>, mut actions: Vec<Action>) -> Vec<Action> {
        self.journal.extend(event);
        if !self.journal.is_empty() {
            actions.insert(0, Action::Record(std::mem::take(&mut self.journal)));
        }
        actions
    }

    pub(super) fn draw_probe(&mut self, link: Link, entropy: &mut dyn Entropy) -> Result<Probe, Reason> {
        if let Some(given) = &self.given {
            let probe = match link {
                Link::Own => given.probe,
                Link::All => given.linked,
            };
            return probe.ok_or_else(evidence_ends);
        }
        let RunContext { policy, history, round_trip, .. } = &self.context;
        let shown = history.shown(self.challenge.fields().miner_key);
        let probe = issue_probe(policy, &self.challenge, &shown, *round_trip, link, entropy)
            .map_err(|error| Reason::new(ReasonCode::ValidatorInternal, error.to_string()))?;
        self.journal.push(Entry::Probe(probe));
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
            .draw(probes, entropy)
            .map_err(|error| Reason::new(ReasonCode::ValidatorInternal, error.to_string()))?;
        self.journal.push(Entry::Open(items.clone(), iterations.clone()));
        Ok((items, iterations))
    }

    /// What is known of the miner as its challenge ends, which is noted.
    pub(super) fn known(&mut self, end: End) -> Known {
        if let Some(given) = &self.given {
            return given.known.clone();
        }
        let (miner_key, RunContext { policy, history, .. }) = (self.challenge.fields().miner_key, &self.context);
        let past = history.past(miner_key);
        history.ended(miner_key, end);
        let expectation = past.lineage.iter().find_map(|key| policy.expectations.of(*key)).cloned();
        let known = Known { past, expectation };
        self.journal.push(Entry::Known(Box::new(known.clone())));
        known
    }
}

fn evidence_ends() -> Reason {
    Reason::new(ReasonCode::ValidatorInternal, EVIDENCE_ENDS)
}
