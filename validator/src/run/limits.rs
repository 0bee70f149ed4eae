//! How long a run waits: deadlines of the miner, and of the transport.

use std::time::{Duration, Instant};

use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::Challenge;
use assay_work::probe::Probe;

use super::{ChallengeRun, Roots, RunStage};
use crate::action::{Action, SentAt};

/// How long a message may wait for the transport to take it: longer means that the miner does not read.
pub const HANDOVER_LIMIT: Duration = Duration::from_secs(5);
/// How long roots and digests may lag behind their head, beside the time for their size.
pub const FOLLOW_UP_LIMIT: Duration = Duration::from_secs(2);
/// The rate, in bytes per second, that roots and digests come at: 2 Mbit/s.
pub const FOLLOW_UP_BYTES_PER_S: u64 = 250_000;
/// Bytes of roots or digests of a device beside the hashes themselves: its claims, the telemetry among them.
const FOLLOW_UP_BYTES: u64 = 1024;

impl ChallengeRun {
    /// Ends the challenge when its stage is overdue.
    pub fn tick(&mut self, now: Instant) -> Vec<Action> {
        match self.overdue(now) {
            Some(reason) if reason.code == ReasonCode::NotReading => self.leave(reason),
            Some(reason) => self.conclude(Err(reason)),
            None => Vec::new(),
        }
    }

    /// What the stage waits for: since when, how long, and for what it fails. A message that the transport has not
    /// taken has a limit of its own.
    fn limits(&self) -> [Option<(Instant, Duration, ReasonCode)>; 2] {
        let policy = &self.context.policy;
        let taken = |sent: &SentAt, limit, code| match sent.get() {
            Some(at) => (at, limit, code),
            None => (self.stage_began, HANDOVER_LIMIT, ReasonCode::NotReading),
        };
        match &self.stage {
            RunStage::Working { sent } => [Some(taken(sent, policy.commit_deadline, ReasonCode::CommitmentLate)), None],
            RunStage::Probing { roots, sent, .. } => {
                let roots = match roots {
                    Roots::Due { since, .. } => Some((*since, self.roots_limit(), ReasonCode::RootsLate)),
                    Roots::Complete(_) => None,
                };
                [Some(taken(sent, policy.probe.deadline, ReasonCode::ProbeLate)), roots]
            }
            RunStage::Digests { probe, .. } => {
                [Some((self.stage_began, self.digests_limit(probe), ReasonCode::DigestsLate)), None]
            }
            RunStage::Opening { sent, .. } => {
                let open = match sent.get() {
                    Some(_) => (self.stage_began, policy.openings_deadline, ReasonCode::OpeningsLate),
                    None => (self.stage_began, HANDOVER_LIMIT, ReasonCode::NotReading),
                };
                [Some(open), None]
            }
            RunStage::Judging(_) | RunStage::Over(_) => [None, None],
        }
    }

    pub(super) fn roots_limit(&self) -> Duration {
        follow_up_limit(&self.challenge, u64::from(self.challenge.iterations()))
    }

    pub(super) fn digests_limit(&self, probe: &Probe) -> Duration {
        follow_up_limit(&self.challenge, u64::from(probe.rounds()))
    }

    /// When to call [`ChallengeRun::tick`] next: never later than the moment at which it ends the challenge. `None` when the
    /// miner has nothing left to send.
    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let due = |(since, limit, code): (Instant, Duration, ReasonCode)| match code {
            // The transport may take the message at any moment from now on.
            ReasonCode::NotReading => (since + limit).min(now + self.shortest_deadline()),
            _ => since + limit,
        };
        self.limits().into_iter().flatten().map(due).min()
    }

    fn shortest_deadline(&self) -> Duration {
        let policy = &self.context.policy;
        policy.commit_deadline.min(policy.probe.deadline).min(policy.openings_deadline)
    }

    fn overdue(&self, now: Instant) -> Option<Reason> {
        let (_, limit, code) = self.limits().into_iter().flatten().find(|(since, limit, _)| now >= *since + *limit)?;
        let detail = match code {
            ReasonCode::NotReading => format!("a message of the challenge waited {limit:?} for the connection"),
            _ => format!("nothing complete came within {limit:?}"),
        };
        Some(Reason::new(code, detail))
    }
}

/// How long so many hashes of each device may take to follow their head.
pub(super) fn follow_up_limit(challenge: &Challenge, hashes: u64) -> Duration {
    let bytes = challenge.shares().len() as u64 * (32 * hashes + FOLLOW_UP_BYTES);
    FOLLOW_UP_LIMIT + Duration::from_millis(1000 * bytes / FOLLOW_UP_BYTES_PER_S)
}
