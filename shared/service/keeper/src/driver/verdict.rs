//! The course of a verdict: excused where the time may be our own, recorded, and delivered.

use std::time::{Duration, Instant};

use assay_evidence::Capture;
use assay_program::clock;
use assay_protocol::message::MinerMessage;
use assay_protocol::verdict::{DeviceWork, Outcome, ReasonCode, Verdict};
use assay_records::CommitmentRecord;
use tokio::task::JoinHandle;

use super::{Driver, OngoingChallenge};
use crate::events;
use crate::fleet::conclude::{ConcludedChallenge, Draft, is_asked_again};
use crate::fleet::schedule::RECORDS_PAUSE;
use crate::freed_memory::return_freed_soon;
use crate::metrics::RECORD;
use crate::operations::rounds;
use crate::order::{Order, OrderOrigin};
use assay_api::VERDICT_PHASE;
use assay_judge::action::Action;
use assay_judge::bounds::MISSED_PINGS;
use assay_judge::case::entry::CaseEntry;
use assay_judge::facts::FleetFinding;
use assay_judge::verify::excuse::{ValidatorDelays, is_end};
use assay_listen::bounds::HELD_UP_LIMIT;

/// A delay in which a side takes the other one for gone at any interval of pings.
const SILENCE: Duration = Duration::from_secs(10);
/// The least time for evidence that is excused: less is lost in the variation of any message.
const CAPTURE_EXCUSED: Duration = Duration::from_millis(1);

impl Driver {
    /// Keeps the messages that the miner signs: the first of each, unchanged.
    pub(super) fn note_signed(&mut self, message: &MinerMessage) {
        let Some(OngoingChallenge { facts: Some(facts), signed, began, probe_began, delays, has_given_up, .. }) =
            &mut self.running.challenge
        else {
            return;
        };
        let (lag, now) = (&self.validator.listening.lag, clock::now());
        match (message, &mut *signed) {
            (MinerMessage::Declined(stop) | MinerMessage::Abort(stop), _) if stop.challenge_id == facts.id => {
                *has_given_up = true;
            }
            (MinerMessage::Commitment(head), None) if head.challenge_id == facts.id => {
                delays.worked = lag.between(*began, now);
                *signed = Some(CommitmentRecord {
                    checksum: head.checksum.to_string(),
                    signature: head.signature.to_string(),
                    probe_checksum: None,
                    probe_signature: None,
                });
            }
            (MinerMessage::ProbeAnswer(head), Some(signed))
                if head.challenge_id == facts.id && signed.probe_checksum.is_none() =>
            {
                delays.timed = probe_began.and_then(|began| lag.between(began, now));
                signed.probe_checksum = Some(head.checksum.to_string());
                signed.probe_signature = Some(head.signature.to_string());
            }
            (MinerMessage::ProbeAnswer(head), _) if head.challenge_id == facts.id => {
                delays.linked = probe_began.and_then(|began| lag.between(began, now));
            }
            _ => {}
        }
    }

    /// Starts the task that checks a verdict against the fleet and records it.
    pub(super) fn conclude(&mut self, verdict: Box<Verdict>) {
        self.running.replay.cancel();
        // An immediate verdict has this phase already.
        self.advance(|course| {
            if course.now().phase != VERDICT_PHASE {
                course.enter(VERDICT_PHASE);
            }
        });
        if let Some(ongoing) = &mut self.running.challenge {
            ongoing.stages.enter(RECORD, &self.validator);
        }
        let draft = self.draft(verdict);
        let case = self.running.capture.take();
        let validator = self.validator.clone();
        // The task continues after the session's end.
        self.running.recording = Some(tokio::spawn(async move { validator.fleet.conclude(draft, case).await }));
    }

    pub(super) fn draft(&self, mut verdict: Box<Verdict>) -> Draft {
        let held_up = self.held_up(&verdict);
        let challenge = self.running.challenge.as_ref();
        // A kind whose challenge the miner ended comes again: its words are no evidence.
        let was_ended = challenge.is_some_and(|it| it.has_given_up) || verdict.reasons.iter().any(|it| is_end(it.code));
        // The session has noted the kind of one that was not made.
        let was_made = challenge.is_none_or(|it| it.facts.is_some());
        held_up.excuse(&mut verdict);
        let was_declined = verdict.outcome == Outcome::Inconclusive && was_ended;
        if let (true, false, Some(seat)) = (was_made, was_declined, self.seat()) {
            self.validator.access.admission.history.judged(seat, verdict.precision);
        }
        let order = challenge.map_or_else(|| Order::manual(self.validator.policy()), |it| it.order.clone());
        let was_busy = is_asked_again(&verdict);
        Draft {
            nonce: challenge.and_then(|it| it.facts).map(|facts| facts.nonce),
            session: self.session_id(),
            models: challenge.map_or_else(|| self.models(), |it| it.models.clone()),
            commitment: challenge.and_then(|it| it.signed.clone()),
            shown: challenge.map(|it| it.shown.clone()).unwrap_or_default(),
            held_up,
            judged_s: clock::unix_seconds(),
            is_recognised: self.key().is_some_and(|key| self.validator.access.allowed.lists().recognises(&key)),
            busy: self.due.busy + u32::from(was_busy && order.asked == OrderOrigin::Schedule),
            verdict,
            order,
        }
    }

    /// Stores entries of the case. The time of the disk does not count against the miner.
    pub(super) async fn capture(&mut self, entries: Vec<CaseEntry>) {
        let began = clock::now();
        if let [CaseEntry::Header(header), ..] = &entries[..] {
            self.running.capture = Some(Capture::begin(self.validator.evidence.clone(), header.challenge_id));
        }
        if let Some(capture) = &mut self.running.capture {
            capture.add(entries).await;
        }
        let took = clock::since(began);
        if took >= CAPTURE_EXCUSED {
            self.session.excuse(took);
        }
    }

    /// Delays of this validator itself.
    pub(super) fn held_up(&self, verdict: &Verdict) -> ValidatorDelays {
        let Some(OngoingChallenge { began, probe_began, delays, has_given_up, .. }) = &self.running.challenge else {
            return ValidatorDelays::default();
        };
        let (now, lag) = (clock::now(), &self.validator.listening.lag);
        let at_the_end = lag.between(now.checked_sub(2 * HELD_UP_LIMIT).unwrap_or(*began), now);
        let silence = SILENCE.min((MISSED_PINGS - 1) * self.validator.access.admission.ping_interval);
        let silent = at_the_end.filter(|held_up| *held_up >= silence);
        // A miner that gives up does so by its own clock, at a time that it chooses: no long delay can be awaited.
        let at_the_end = if *has_given_up { silent } else { at_the_end };
        let for_long = lag.between(*began, now).filter(|held_up| *held_up * 10 >= now.duration_since(*began));
        // Times are from when the transport took a message.
        let handover = verdict.handover_ms.unwrap_or_default() / 1e3;
        let within = |began: Instant, seconds| lag.between(began, began + Duration::from_secs_f64(seconds + handover));
        let until_done = |DeviceWork { device_id, work, .. }: &DeviceWork| {
            let is_before = [work.seconds < verdict.whole.seconds, work.probe_seconds < verdict.whole.probe_seconds];
            let worked = if is_before[0] { within(*began, work.seconds) } else { delays.worked };
            let began = probe_began.filter(|_| is_before[1]);
            let probed = began.map_or(delays.timed, |began| within(began, work.probe_seconds));
            (is_before != [false; 2]).then_some((*device_id, [worked, probed]))
        };
        let devices = verdict.devices.iter().filter_map(until_done).collect();
        ValidatorDelays { at_the_end, for_long, silent, devices, ..delays.clone() }
    }

    /// Requests a round with the other miners that showed a disputed device.
    fn ask_together(&self, verdict: &Verdict, found: &[FleetFinding]) {
        if !verdict.reasons.iter().any(|reason| reason.code == ReasonCode::DeviceDisputed) {
            return;
        }
        let others = found.iter().filter(|found| found.disputed).filter_map(|found| found.other.clone());
        let (own, others, validator) = (verdict.miner_key.to_string(), others.collect(), self.validator.clone());
        tokio::spawn(async move {
            if let Err(error) = rounds::of_disputed(&validator, own, others).await {
                tracing::warn!("no round of miners that show one device: {error}");
            }
        });
    }

    /// Delivers a recorded verdict, to the miner first; returns the end of the session, if it ends with it.
    pub(super) async fn recorded(&mut self, concluded: Option<ConcludedChallenge>) -> Vec<Action> {
        self.running.recording = None;
        let mut ongoing = self.running.challenge.take();
        let course = self.running.course.take();
        // Whether an operator asked for it, who may follow it.
        let is_watched = ongoing.as_ref().is_some_and(|ongoing| ongoing.order.asked == OrderOrigin::Operator);
        if let Some(course) = course.as_ref().filter(|_| is_watched) {
            self.validator.registry.keep(course.subscribe());
        }
        self.running.places = None;
        self.publish();
        self.update(|miner| miner.challenged = false);
        let Some(ConcludedChallenge { verdict, next, change, found, .. }) = concluded else {
            // The task ended without a result, so there is no verdict to send.
            self.schedule_in(Some(RECORDS_PAUSE));
            return self.session.concluded(None);
        };
        let counts = &self.validator.reports.metrics.families;
        counts.verdict(&verdict, ongoing.as_ref().and_then(|ongoing| ongoing.stages.since_commitment()));
        counts.judged(&found, change.as_ref());
        if let Some(ongoing) = &mut ongoing {
            ongoing.end(&verdict, &self.validator);
        }
        if let Some(who) = &self.host.who {
            let began = ongoing.as_ref().filter(|ongoing| ongoing.facts.is_some()).map(|ongoing| ongoing.began);
            events::verdict(who, &verdict, began);
            events::judged(who, &found, change.as_ref());
        }
        if ongoing.is_some_and(|ongoing| ongoing.order.asked == OrderOrigin::Schedule) {
            self.due.busy = if is_asked_again(&verdict) { self.due.busy + 1 } else { 0 };
        }
        self.ask_together(&verdict, &found);
        self.schedule_in(next);
        let actions = self.session.concluded(Some(verdict.clone()));
        let closed = self.act(actions).await;
        if let Some(course) = course {
            course.send_modify(|course| (course.is_noted, course.verdict) = (true, Some(verdict)));
        }
        return_freed_soon();
        closed.map(Action::Close).into_iter().collect()
    }
}

/// Waits until a verdict is on disk; for ever without a pending one. `None`: the task that wrote it panicked.
pub(super) async fn concluded(recording: &mut Option<JoinHandle<ConcludedChallenge>>) -> Option<ConcludedChallenge> {
    match recording {
        Some(recording) => recording.await.ok(),
        None => std::future::pending().await,
    }
}
