//! One challenge: taken or declined, its stages, and its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::DeviceError;
use assay_protocol::message::{MinerMessage, Offer, Stop, StopCode};
use assay_protocol::verdict::Verdict;
use assay_work::probe::{MemoryProbe, ProbeStage};
use assay_work::{Challenge, ChallengeId, Checksum, DeviceId, Precision, PublicKey};

use super::handshake::Handshake;
use super::{CloseReason, HOLD_LIMIT, MinerSession, SessionAction};

/// Beyond the deadline of the commitment: for the way of the validator's message to the last member of a round.
const ROUND_ALLOWANCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct RunningChallenge {
    pub(super) challenge: Arc<Challenge>,
    pub(super) stage: WorkStage,
    /// When the stage is given up.
    pub(super) until: Instant,
    /// For the commitment.
    deadline: Duration,
    /// When the challenge is stopped for the operator's limit, and that limit.
    pub(super) stop: Option<(Instant, Duration)>,
    /// The probes so far, in order.
    pub(super) probed: Vec<ProbeStage>,
}

impl RunningChallenge {
    /// How long the validator may say nothing. In a round it waits for the commitments of the other members.
    fn silence_limit(&self) -> Duration {
        match self.stage {
            WorkStage::Committed => HOLD_LIMIT.max(self.deadline + ROUND_ALLOWANCE),
            _ => HOLD_LIMIT,
        }
    }

    /// The limit that `until` stands for.
    pub(super) const fn missed(&self) -> &'static str {
        match self.stage {
            WorkStage::Working | WorkStage::Probing | WorkStage::Opening => "the deadline passed",
            WorkStage::Committed | WorkStage::Answered | WorkStage::Opened => "the validator said no more about it",
        }
    }

    /// Why a probe is not answered after those before it, with the rule that it breaks (WORK.md, Residency probe, Sweep).
    fn refuses(&self, probe: &MemoryProbe) -> Option<(&'static str, String)> {
        let (stage, last) = (probe.stage(), self.probed.last());
        let MemoryProbe::Walks(walks) = probe else {
            let is_due = self.stage == WorkStage::Answered && self.probed.contains(&ProbeStage::Own);
            let is_next = is_due && last.is_some_and(|last| *last < stage);
            return (!is_next).then(|| ("sweep", "a sweep comes once, after the answers to all probes".into()));
        };
        if let Err(error) = walks.check_devices(self.challenge.shares().len()) {
            return Some(("link", error.to_string()));
        }
        let last = last.filter(|last| stage <= **last)?;
        Some(("link", format!("a probe of link = {} after the {}", walks.link().code(), last.name())))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkStage {
    Working,
    Committed,
    Probing,
    Answered,
    Opening,
    Opened,
}

impl MinerSession {
    pub(super) fn challenge(&mut self, offer: &Offer, now: Instant) -> Vec<SessionAction> {
        let Handshake::Done { validator_key, .. } = self.handshake else {
            return self.close(CloseReason::OutOfPlace("a challenge before it accepted the session"));
        };
        match self.plan(offer, validator_key) {
            Ok(challenge) => {
                let challenge = Arc::new(challenge);
                let until = now + offer.deadline;
                let stop = self.limits.max_challenge.map(|limit| (now + limit, limit));
                let stage = WorkStage::Working;
                self.running = Some(RunningChallenge {
                    challenge: challenge.clone(),
                    stage,
                    until,
                    deadline: offer.deadline,
                    stop,
                    probed: Vec::new(),
                });
                vec![SessionAction::StartWork(challenge)]
            }
            Err((code, detail)) => {
                vec![SessionAction::Send(MinerMessage::Declined(Stop {
                    challenge_id: offer.challenge_id,
                    code,
                    detail,
                }))]
            }
        }
    }

    /// The challenge that an offer is for this host, or why it is declined.
    fn plan(&self, offer: &Offer, validator_key: PublicKey) -> Result<Challenge, (StopCode, String)> {
        if self.draining {
            return Err((StopCode::Draining, "this miner is shutting down".into()));
        }
        if self.running.is_some() {
            return Err((StopCode::Busy, "another challenge runs".into()));
        }
        if let Some(why) = &self.limits.busy {
            return Err((StopCode::Busy, why.clone()));
        }
        if offer.inventory_sequence != self.inventory.sequence {
            let detail = format!("inventory {} is current, not {}", self.inventory.sequence, offer.inventory_sequence);
            return Err((StopCode::StaleInventory, detail));
        }
        if self.limits.is_stale {
            let detail = format!("the devices or their limits changed since inventory {}", self.inventory.sequence);
            return Err((StopCode::StaleInventory, detail));
        }
        if let Some(precision) = Precision::from_code(offer.precision)
            && !self.inventory.devices.iter().any(|device| device.precisions.contains(&precision))
        {
            let detail = format!("no device of this host computes work of kind {precision}");
            return Err((StopCode::Unsupported, detail));
        }
        let challenge = offer
            .plan(&self.inventory, validator_key, self.identity.public_key())
            .map_err(|error| (StopCode::Invalid, error.to_string()))?;
        let weights = self.inventory.weights(challenge.precision(), offer.n, offer.min_slots);
        for (share, weight) in challenge.shares().iter().zip(&weights) {
            if u64::from(share.count) > weight.weight {
                let detail = format!(
                    "device {} holds {} slots of n = {}, {} are asked for",
                    share.device_id, weight.weight, offer.n, share.count
                );
                return Err((StopCode::NotEnoughMemory, detail));
            }
        }
        Ok(challenge)
    }

    /// Answers a probe: the first one after the commitment, each next one after the answer to the one before.
    pub(super) fn probe(&mut self, id: ChallengeId, probe: MemoryProbe, until: Instant) -> Vec<SessionAction> {
        let Some(running) = self.running.as_mut().filter(|running| running.challenge.id() == id) else {
            // It crossed our abort on the way.
            return Vec::new();
        };
        let from = running.stage;
        let is_sweep = probe.stage() == ProbeStage::Sweep;
        let has_place = match from {
            WorkStage::Committed | WorkStage::Answered => true,
            WorkStage::Working | WorkStage::Probing => is_sweep,
            WorkStage::Opening | WorkStage::Opened => false,
        };
        if !has_place {
            return self.close(CloseReason::OutOfPlace(if is_sweep { "a sweep" } else { "a probe" }));
        }
        if let Some((rule, why)) = running.refuses(&probe) {
            return self
                .abort_with(StopCode::Invalid, format!("the {} breaks rule {rule}: {why}", probe.stage().name()));
        }
        running.probed.push(probe.stage());
        self.advance(id, from, WorkStage::Probing, until, "a probe", || SessionAction::StartProbe(id, probe))
    }

    /// Goes from one stage to the next on the validator's word.
    pub(super) fn advance(
        &mut self,
        id: ChallengeId,
        from: WorkStage,
        to: WorkStage,
        until: Instant,
        what: &'static str,
        action: impl FnOnce() -> SessionAction,
    ) -> Vec<SessionAction> {
        match &mut self.running {
            Some(running) if running.challenge.id() == id && running.stage == from => {
                running.stage = to;
                running.until = until;
                vec![action()]
            }
            Some(running) if running.challenge.id() == id => self.close(CloseReason::OutOfPlace(what)),
            // It crossed our abort on the way.
            _ => Vec::new(),
        }
    }

    /// Sends the results of a stage and goes on to the next; results of a stage that is no longer the current one are
    /// dropped.
    pub(super) fn stage_ended(
        &mut self,
        id: ChallengeId,
        from: WorkStage,
        to: WorkStage,
        result: Result<Vec<MinerMessage>, DeviceError>,
        now: Instant,
    ) -> Vec<SessionAction> {
        let Some(running) = self.running.as_mut().filter(|r| r.challenge.id() == id && r.stage == from) else {
            return Vec::new();
        };
        running.stage = to;
        running.until = now + running.silence_limit();
        match result {
            Ok(messages) => messages.into_iter().map(SessionAction::Send).collect(),
            Err(error) => self.abort(&error),
        }
    }

    pub(super) fn progress(
        &self,
        challenge_id: ChallengeId,
        done_slots: u64,
        finished: Option<(DeviceId, Checksum)>,
    ) -> Vec<SessionAction> {
        let Some(running) = self.running.as_ref().filter(|running| running.challenge.id() == challenge_id) else {
            return Vec::new();
        };
        let shares = running.challenge.shares();
        let all_slots = running.challenge.filled_slots();
        let done_slots = match running.stage {
            _ if finished.is_some() && shares.len() == 1 => return Vec::new(),
            WorkStage::Working => done_slots,
            WorkStage::Probing if finished.is_some() => all_slots,
            _ => return Vec::new(),
        };
        vec![SessionAction::Send(MinerMessage::Progress { challenge_id, done_slots, all_slots, finished })]
    }

    pub(super) fn verdict(&mut self, verdict: Box<Verdict>) -> Vec<SessionAction> {
        let ends = self.running.as_ref().is_some_and(|r| r.challenge.id() == verdict.challenge_id);
        let mut actions = vec![SessionAction::Verdict(verdict)];
        if ends {
            actions.extend(self.release());
        }
        actions
    }

    /// The running challenge is over: memory goes back, and a drain goes on.
    fn release(&mut self) -> Vec<SessionAction> {
        self.running = None;
        let mut actions = vec![SessionAction::Release];
        if self.draining {
            actions.extend(self.close(CloseReason::Drained));
        }
        actions
    }

    /// Reports to the validator that the challenge ends here, and why.
    fn abort(&mut self, error: &DeviceError) -> Vec<SessionAction> {
        let code = match error {
            DeviceError::Busy { .. } | DeviceError::NoMemory(_) => StopCode::NotEnoughMemory,
            DeviceError::Sick(_) | DeviceError::NotNow(_) => StopCode::DeviceLost,
            DeviceError::Lost(_) => StopCode::Internal,
            DeviceError::Cancelled => StopCode::Deadline,
            DeviceError::Unsupported(_) => StopCode::Unsupported,
        };
        self.abort_with(code, error.to_string())
    }

    pub(super) fn abort_with(&mut self, code: StopCode, detail: String) -> Vec<SessionAction> {
        let Some(running) = &self.running else { return Vec::new() };
        let stop = Stop { challenge_id: running.challenge.id(), code, detail };
        let mut actions = vec![SessionAction::Send(MinerMessage::Abort(stop))];
        actions.extend(self.release());
        actions
    }
}
