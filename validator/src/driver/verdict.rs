//! A verdict on its way: excused where the time may be our own, written, and given out.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::{Duration, Instant};

use assay_protocol::message::ValidatorMessage;
use assay_protocol::verdict::{Class, Outcome, Reason, ReasonCode, Verdict};

use super::{Driver, Ongoing};
use crate::action::Action;
use crate::bounds::HELD_UP_LIMIT;
use crate::events;
use crate::memory::return_freed_soon;
use crate::registry::Update;
use crate::validator::line;

/// How long a watcher may take to pick up the verdict.
const WATCHER_LIMIT: Duration = Duration::from_secs(1);

/// A verdict on its way to the disk, and what waits for it.
pub(super) struct Recording {
    pub(super) verdict: Box<Verdict>,
    pub(super) written: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    pub(super) then: VecDeque<Action>,
}

impl Driver {
    /// Has a verdict written; what follows it waits.
    pub(super) fn record(&mut self, mut verdict: Box<Verdict>) {
        self.excuse(&mut verdict);
        self.replay.cancel();
        if verdict.reasons.iter().any(|r| matches!(r.code, ReasonCode::Abandoned | ReasonCode::AbandonedRepeatedly)) {
            self.validator.admission.history.abandoned(verdict.miner_key, Instant::now());
        }
        if let Some(running) = &mut self.running {
            running.phase = "verdict";
            self.publish();
        }
        let (log, line) = (self.validator.verdicts.clone(), line(&verdict));
        let written = Box::pin(async move { log.append(line).await });
        self.recording = Some(Recording { verdict, written, then: VecDeque::new() });
    }

    /// Fails no miner for a time that may be our own. Being late is ours where we were held up when the time ended: a
    /// miner that was late before it has no excuse. A missed expectation, which may be one of a rate, is ours where we
    /// were held up for a tenth of the challenge.
    fn excuse(&self, verdict: &mut Verdict) {
        let Some(Ongoing { began, .. }) = &self.challenge else { return };
        let (now, lag) = (Instant::now(), &self.validator.lag);
        let at_the_end = lag.since(now.checked_sub(2 * HELD_UP_LIMIT).unwrap_or(*began), now);
        let for_long = lag.since(*began, now).filter(|held_up| *held_up * 10 >= now.duration_since(*began));
        let held_up = |reason: &Reason| match reason.code {
            ReasonCode::ExpectationMissed => for_long,
            code if code.class() == Class::Late => at_the_end,
            _ => None,
        };
        let failing = verdict.reasons.iter().filter(|reason| reason.code.class().fails());
        let excuses: Option<Vec<_>> = failing.map(held_up).collect();
        if let Some(longest) = excuses.and_then(|excuses| excuses.into_iter().max()) {
            let why: Vec<_> =
                verdict.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.detail)).collect();
            let detail = format!("this validator was held up for {longest:.1?}; otherwise {}", why.join(", "));
            verdict.outcome = Outcome::Inconclusive;
            verdict.reasons = vec![Reason::new(ReasonCode::ValidatorOverloaded, detail)];
        }
    }

    /// Gives a verdict out that is on disk now, to the miner first; returns how the session ends, where it does.
    pub(super) async fn recorded(&mut self) -> Vec<Action> {
        let Some(Recording { verdict, then, .. }) = self.recording.take() else { return Vec::new() };
        if let Some(who) = &self.who {
            let began = self.challenge.as_ref().filter(|ongoing| ongoing.facts.is_some()).map(|ongoing| ongoing.began);
            events::verdict(&self.validator.hook, who, &verdict, began);
        }
        let asked = self.challenge.take().map(|ongoing| ongoing.order.asked);
        self.place = None;
        self.validator.verdict_counts.add(verdict.outcome);
        self.running = None;
        self.publish();
        self.unchallenged();
        self.schedule_after(&verdict, asked);
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

/// Waits until a verdict is on disk; for ever where none is on its way.
pub(super) async fn written(recording: &mut Option<Recording>) {
    match recording {
        Some(recording) => recording.written.as_mut().await,
        None => std::future::pending().await,
    }
}
