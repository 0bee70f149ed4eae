//! Deadlines of a run, for the miner and for the transport.

use std::time::{Duration, Instant};

use assay_protocol::verdict::{Reason, ReasonCode};
use assay_work::probe::{MemoryProbe, ProbeStage};

use super::{AnswerDigests, AnsweredProbe, ChallengeRun, CommitmentRoots, RunStage};

/// The longest wait of a message for the transport: longer means that the miner does not read.
pub const HANDOVER_LIMIT: Duration = Duration::from_secs(5);
/// How long a probe may wait for the transport before its time runs: the validator's own delays.
pub const HANDOVER_SLACK: Duration = Duration::from_millis(100);
/// The most that roots and digests may lag behind their head, which binds them, beyond the allowance for the link: it may
/// stall for seconds.
pub const FOLLOW_UP_LIMIT: Duration = Duration::from_secs(10);
/// Round trips that a link is allowed: a lost packet is sent again after one, then two, then four more.
pub const LINK_ROUND_TRIPS: u32 = 10;
/// The most that round trips add to a deadline: a miner can answer pings late.
pub const LINK_ALLOWANCE_LIMIT: Duration = Duration::from_secs(5);
/// Bytes of roots or digests of a device beside the hashes themselves: its claims, the telemetry among them.
const FOLLOW_UP_BYTES: u64 = 1024;

impl ChallengeRun {
    /// End of the hold of the probe.
    pub(super) fn released_at(&self) -> Option<Instant> {
        match &self.stage {
            RunStage::Held { limit, .. } => Some(self.stage_began + *limit),
            _ => None,
        }
    }

    /// The stage's limits: start, length, and the reason code of a failure. A message that the transport has not taken
    /// has a limit of its own.
    fn limits(&self, sent: Option<Instant>) -> [Option<(Instant, Duration, ReasonCode)>; 2] {
        let policy = &self.context.policy;
        let unread = (self.stage_began, self.handover_limit(), ReasonCode::NotReading);
        let taken = |limit, code| sent.map_or(unread, |at| (at, limit, code));
        match &self.stage {
            RunStage::Working => [Some(taken(policy.commit_deadline, ReasonCode::CommitmentLate)), None],
            RunStage::Held { roots, .. } => [self.roots_due(roots), None],
            RunStage::Probing { roots, answered, deadline, .. } => {
                let behind = self.roots_due(roots).or_else(|| self.digests_due(answered));
                [Some(taken(*deadline, ReasonCode::ProbeLate)), behind]
            }
            RunStage::Digests { answered, .. } => [self.digests_due(answered), None],
            RunStage::Opening { collector, pace, .. } => {
                let (due, _) = pace.due(collector.next_bytes());
                let limit = due.saturating_duration_since(self.stage_began);
                let late = (self.stage_began, limit, ReasonCode::OpeningsLate);
                [Some(sent.map_or(unread, |_| late)), None]
            }
            RunStage::Judging(_) | RunStage::Over(_) => [None, None],
        }
    }

    /// Limit of the roots after their head, while they arrive.
    fn roots_due(&self, roots: &CommitmentRoots) -> Option<(Instant, Duration, ReasonCode)> {
        match roots {
            CommitmentRoots::Due { since, .. } => Some((*since, self.roots_limit(), ReasonCode::RootsLate)),
            CommitmentRoots::Complete(_) => None,
        }
    }

    /// Limit of the digests of the last answer after their head, while they arrive.
    fn digests_due(&self, answered: &[AnsweredProbe]) -> Option<(Instant, Duration, ReasonCode)> {
        let last = answered.last()?;
        match last.digests {
            AnswerDigests::Due { since, .. } => Some((since, self.digests_limit(&last.probe), ReasonCode::DigestsLate)),
            AnswerDigests::Complete(_) => None,
        }
    }

    pub(super) fn roots_limit(&self) -> Duration {
        self.follow_up_limit(self.challenge.iterations())
    }

    pub(super) fn digests_limit(&self, probe: &MemoryProbe) -> Duration {
        self.follow_up_limit(probe.rounds())
    }

    /// Time limit of this number of hashes of each device after their head.
    fn follow_up_limit(&self, hashes: u32) -> Duration {
        let devices = self.challenge.shares().len() as u64;
        FOLLOW_UP_LIMIT + self.link_allowance() + self.time_of(devices * follow_up_bytes(hashes))
    }

    /// Allowance for losses on the way.
    fn link_allowance(&self) -> Duration {
        (self.context.round_trip.unwrap_or_default() * LINK_ROUND_TRIPS).min(LINK_ALLOWANCE_LIMIT)
    }

    /// A probe's allowance beyond its deadline: losses, and the `hashes` roots or digests of each device, which the
    /// answer waits behind. More would only show less memory.
    pub(super) fn probe_allowance(&self, hashes: u32) -> Duration {
        let devices = self.challenge.shares().len() as u64;
        let behind = self.time_of(devices * follow_up_bytes(hashes));
        (self.link_allowance() + behind).min(LINK_ALLOWANCE_LIMIT)
    }

    /// Transfer time of these bytes on the slowest link that a miner may have.
    fn time_of(&self, bytes: u64) -> Duration {
        self.context.policy.openings.time_of(bytes)
    }

    /// The most that a message may wait for the transport: behind a request for openings, as long as that takes too.
    pub fn handover_limit(&self) -> Duration {
        match &self.stage {
            RunStage::Opening { collector, .. } => HANDOVER_LIMIT + self.time_of(collector.request_bytes()),
            _ => HANDOVER_LIMIT,
        }
    }

    /// Transfer time of the miner's next message, in which no other message arrives from it.
    pub fn arrival_time(&self) -> Duration {
        match &self.stage {
            RunStage::Held { roots: CommitmentRoots::Due { .. }, .. }
            | RunStage::Probing { roots: CommitmentRoots::Due { .. }, .. } => {
                self.time_of(follow_up_bytes(self.challenge.iterations()))
            }
            RunStage::Probing { answered, .. } | RunStage::Digests { answered, .. } => {
                let due = answered.last().filter(|of| matches!(of.digests, AnswerDigests::Due { .. }));
                due.map_or(Duration::ZERO, |of| self.time_of(follow_up_bytes(of.probe.rounds())))
            }
            RunStage::Opening { collector, .. } => self.time_of(collector.next_bytes()),
            _ => Duration::ZERO,
        }
    }

    /// Time of the next call of [`ChallengeRun::tick`]: never later than the moment at which it ends the challenge.
    /// `None` when the miner has nothing left to send.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let due = |(since, limit, code): (Instant, Duration, ReasonCode)| match code {
            // The transport may take the message at any moment from now on.
            ReasonCode::NotReading => (since + limit).min(now + self.shortest_deadline()),
            _ => since + limit,
        };
        self.limits(self.taken_by_now()).into_iter().flatten().map(due).chain(self.released_at()).min()
    }

    fn openings_detail(&self, now: Instant) -> String {
        let RunStage::Opening { collector, pace, .. } = &self.stage else { return String::new() };
        pace.detail(pace.due(collector.next_bytes()).1, now)
    }

    /// The probe that a reason is about, where there are several.
    fn waited_for(&self, code: ReasonCode) -> String {
        let (answered, current) = match &self.stage {
            RunStage::Probing { answered, probe, .. } => (answered, Some(probe)),
            RunStage::Digests { answered, .. } => (answered, None),
            _ => return String::new(),
        };
        let last = answered.last().map(|last| &last.probe);
        let stage = if code == ReasonCode::DigestsLate { last } else { current.or(last) };
        let stage = stage.map(MemoryProbe::stage).filter(|_| answered.len() + usize::from(current.is_some()) > 1);
        stage.map_or_else(String::new, |stage| match stage {
            ProbeStage::Own => "first probe: ".into(),
            other => format!("{}: ", other.name()),
        })
    }

    fn shortest_deadline(&self) -> Duration {
        let policy = &self.context.policy;
        policy.commit_deadline.min(policy.probe.deadline).min(policy.openings.deadline)
    }

    pub(super) fn overdue(&self, now: Instant) -> Option<Reason> {
        let (_, limit, code) =
            self.limits(self.taken()).into_iter().flatten().find(|(since, limit, _)| now >= *since + *limit)?;
        let detail = match code {
            ReasonCode::NotReading => format!("a message of the challenge waited {limit:?} for the connection"),
            ReasonCode::OpeningsLate => return Some(Reason::new(code, self.openings_detail(now))),
            _ => format!("{}nothing complete came within {limit:?}", self.waited_for(code)),
        };
        Some(Reason::new(code, detail))
    }
}

fn follow_up_bytes(hashes: u32) -> u64 {
    32 * u64::from(hashes) + FOLLOW_UP_BYTES
}
