//! The course of a challenge, from its beginning to its verdict: its session publishes it, and rounds, streams of the
//! API and lists of running challenges read it.

use std::time::{Duration, Instant};

use assay_api::VERDICT_PHASE;
use assay_program::clock;
use assay_protocol::verdict::Verdict;
use assay_work::{Challenge, ChallengeId, PublicKey};

/// The most phases kept of a challenge: there are nine.
const MAX_PHASES: usize = 32;

/// Snapshot of a running challenge, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeSnapshot {
    pub id: ChallengeId,
    /// The key of its miner's session.
    pub miner: PublicKey,
    /// Start of the challenge.
    pub since: Instant,
    /// Time from the start to this snapshot.
    pub after: Duration,
    pub phase: &'static str,
    /// Filled slots, by the miner's claim.
    pub done_slots: u64,
    /// Number of slots in all.
    pub all_slots: u64,
}

/// The course of a challenge so far.
#[derive(Debug, Clone)]
pub struct Course {
    /// Snapshots at the end of each earlier phase.
    before: Vec<ChallengeSnapshot>,
    now: ChallengeSnapshot,
    /// Whether its beginning is in the records, or could not be written.
    pub is_noted: bool,
    /// Its verdict, once recorded.
    pub verdict: Option<Box<Verdict>>,
}

impl Course {
    /// The course of a challenge that has just begun.
    pub fn of(challenge: &Challenge) -> Self {
        Self::new(challenge.id(), challenge.fields().miner_key, "work", challenge.filled_slots())
    }

    /// The course of a host that has its verdict without a challenge.
    pub fn judged(verdict: &Verdict) -> Self {
        Self::new(verdict.challenge_id, verdict.miner_key, VERDICT_PHASE, 0)
    }

    fn new(id: ChallengeId, miner: PublicKey, phase: &'static str, all_slots: u64) -> Self {
        let (since, after) = (clock::now(), Duration::ZERO);
        let now = ChallengeSnapshot { id, miner, since, after, phase, done_slots: 0, all_slots };
        Self { before: Vec::new(), now, is_noted: false, verdict: None }
    }

    /// The current snapshot.
    pub const fn now(&self) -> &ChallengeSnapshot {
        &self.now
    }

    /// The snapshots at the end of each phase, and the current one.
    pub fn phases(&self) -> impl Iterator<Item = &ChallengeSnapshot> {
        self.before.iter().chain([&self.now])
    }

    /// Begins a phase.
    pub fn enter(&mut self, phase: &'static str) {
        if self.before.len() < MAX_PHASES {
            self.before.push(self.now.clone());
        }
        self.now = ChallengeSnapshot { phase, after: clock::since(self.now.since), ..self.now.clone() };
    }

    /// Sets the number of filled slots.
    pub fn advance(&mut self, done_slots: u64) {
        self.now = ChallengeSnapshot { done_slots, after: clock::since(self.now.since), ..self.now.clone() };
    }
}
