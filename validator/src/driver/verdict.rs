//! A verdict on its way: excused where the time may be our own, written, and given out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use assay_protocol::message::{MinerMessage, ValidatorMessage};
use assay_protocol::verdict::{Reason, ReasonCode, Verdict};
use assay_records::{CommitmentRecord, MinerRecord, Status};
use tokio::task::JoinHandle;

use super::{Driver, Ongoing};
use crate::action::Action;
use crate::bounds::HELD_UP_LIMIT;
use crate::case::capture::Capture;
use crate::case::entry::Entry;
use crate::events;
use crate::fleet::conclude::{Case, Concluded, Draft};
use crate::memory::return_freed_soon;
use crate::metrics::RECORD;
use crate::order::{Asked, Order};
use crate::registry::{Update, VERDICT};
use crate::validator::line;
use crate::verify::excuse::HeldUp;

/// How long a watcher may take to pick up the verdict.
const WATCHER_LIMIT: Duration = Duration::from_secs(1);
/// Time spent on evidence that is excused: less disappears among that of any message.
const CAPTURE_EXCUSED: Duration = Duration::from_millis(1);

/// A verdict on its way to the disk, and what waits for it.
pub(super) struct Recording {
    concluded: JoinHandle<Concluded>,
    pub(super) then: VecDeque<Action>,
}

impl Driver {
    /// Keeps what the miner signs: the first of each, as it came.
    pub(super) fn note_signed(&mut self, message: &MinerMessage) {
        let Some(Ongoing { facts: Some(facts), signed, .. }) = &mut self.challenge else { return };
        match (message, &mut *signed) {
            (MinerMessage::Commitment(head), None) if head.challenge_id == facts.id => {
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
                signed.probe_checksum = Some(head.checksum.to_string());
                signed.probe_signature = Some(head.signature.to_string());
            }
            _ => {}
        }
    }

    /// Has a verdict held against the fleet and written; what follows it waits.
    pub(super) fn conclude(&mut self, mut verdict: Box<Verdict>) {
        let held_up = self.held_up();
        held_up.excuse(&mut verdict);
        self.replay.cancel();
        if verdict.reasons.iter().any(|r| matches!(r.code, ReasonCode::Abandoned | ReasonCode::AbandonedRepeatedly)) {
            self.validator.admission.history.abandoned(verdict.miner_key, Instant::now());
        }
        if let Some(running) = &mut self.running {
            running.phase = VERDICT;
            self.publish();
        }
        if let Some(ongoing) = &mut self.challenge {
            ongoing.stages.enter(RECORD, &self.validator);
        }
        let draft = self.draft(verdict);
        let least_percent = self.validator.evidence_passes_percent;
        let case = self.capture.take().map(|capture| Case { capture, held_up, least_percent });
        let validator = self.validator.clone();
        // It goes on where the session is over.
        let concluded = tokio::spawn(async move {
            let concluded = validator.fleet.conclude(draft, case).await;
            validator.verdicts.append(line(&concluded.verdict)).await;
            concluded
        });
        self.recording = Some(Recording { concluded, then: VecDeque::new() });
    }

    fn draft(&self, verdict: Box<Verdict>) -> Draft {
        let challenge = self.challenge.as_ref();
        let order = challenge.map_or_else(|| Order::manual(self.validator.policy()), |it| it.order.clone());
        let was_busy = verdict.reasons.iter().any(|reason| reason.code == ReasonCode::MinerBusy);
        Draft {
            nonce: challenge.and_then(|it| it.facts).map(|facts| facts.nonce),
            session: self.session_id(),
            address: self.peer.as_ref().map(|peer| peer.address.ip()),
            models: self.models(),
            commitment: challenge.and_then(|it| it.signed.clone()),
            took: challenge.map(|it| it.began.elapsed()).unwrap_or_default(),
            is_recognised: self.is_recognised(),
            busy: self.busy + u32::from(was_busy && order.asked == Asked::Schedule),
            verdict,
            order,
        }
    }

    /// Whether an operator admitted this very key.
    fn is_recognised(&self) -> bool {
        let approved = |record: &MinerRecord| record.status == Status::Approved;
        !self.validator.admission.allowed.is_open() || self.record.as_ref().is_some_and(approved)
    }

    /// Writes down what happened in the challenge. The time that the disk takes is none of the miner's.
    pub(super) async fn capture(&mut self, entries: Vec<Entry>) {
        let began = Instant::now();
        let id = match &entries[..] {
            [Entry::Header(header), ..] => Some(header.challenge_id),
            _ => None,
        };
        if let Some(id) = id {
            self.capture = Some(Capture::begin(self.validator.evidence.clone(), id));
        }
        if let Some(capture) = &mut self.capture {
            capture.add(entries).await;
        }
        let took = began.elapsed();
        if took >= CAPTURE_EXCUSED {
            self.session.excuse(took);
        }
    }

    /// For how long we were held up ourselves.
    fn held_up(&self) -> HeldUp {
        let Some(Ongoing { began, .. }) = &self.challenge else { return HeldUp::default() };
        let (now, lag) = (Instant::now(), &self.validator.lag);
        let at_the_end = lag.since(now.checked_sub(2 * HELD_UP_LIMIT).unwrap_or(*began), now);
        let for_long = lag.since(*began, now).filter(|held_up| *held_up * 10 >= now.duration_since(*began));
        HeldUp { at_the_end, for_long }
    }

    /// Gives a verdict out that is on disk now, to the miner first; returns how the session ends, where it does.
    pub(super) async fn recorded(&mut self, concluded: Option<Concluded>) -> Vec<Action> {
        let Some(Recording { then, .. }) = self.recording.take() else { return Vec::new() };
        let mut ongoing = self.challenge.take();
        (self.places, self.running) = (None, None);
        self.publish();
        self.unchallenged();
        let Some(Concluded { verdict, next, change, found, .. }) = concluded else {
            // Whatever ended the task: what cannot be told is not told.
            return self.session.stop_run(Reason::new(ReasonCode::ValidatorInternal, "a verdict was lost"));
        };
        let counts = &self.validator.metrics.challenges;
        counts.verdict(&verdict, ongoing.as_ref().and_then(|ongoing| ongoing.stages.since_commitment()));
        counts.judged(&found, change.as_ref());
        if let Some(ongoing) = &mut ongoing {
            ongoing.end(&verdict, &self.validator);
        }
        if let Some(who) = &self.who {
            let began = ongoing.as_ref().filter(|ongoing| ongoing.facts.is_some()).map(|ongoing| ongoing.began);
            events::verdict(who, &verdict, began);
            events::judged(who, &found, change.as_ref());
        }
        let was_busy = verdict.reasons.iter().any(|reason| reason.code == ReasonCode::MinerBusy);
        let was_due = ongoing.is_some_and(|ongoing| ongoing.order.asked == Asked::Schedule);
        self.busy = if was_busy && was_due { self.busy + 1 } else { 0 };
        self.validator.verdict_counts.add(verdict.outcome);
        self.schedule_in(next);
        // The miner is told what was recorded.
        let tell = |action| match action {
            Action::Send(ValidatorMessage::Verdict(_), sent) => {
                Action::Send(ValidatorMessage::Verdict(verdict.clone()), sent)
            }
            action => action,
        };
        let closed = self.act(then.into_iter().map(tell).collect()).await;
        for watcher in self.watchers.drain(..) {
            let _ = watcher.send_timeout(Update::Verdict(verdict.clone()), WATCHER_LIMIT).await;
        }
        return_freed_soon();
        closed.map(Action::Close).into_iter().collect()
    }
}

/// Waits until a verdict is on disk; for ever where none is on its way. `None`: the task that wrote it panicked.
pub(super) async fn concluded(recording: &mut Option<Recording>) -> Option<Concluded> {
    match recording {
        Some(recording) => (&mut recording.concluded).await.ok(),
        None => std::future::pending().await,
    }
}
