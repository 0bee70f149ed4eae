//! The start of a challenge, or the verdict on a host that is too small for one.

use std::sync::Arc;
use std::time::Duration;

use assay_policy::Policy;
use assay_protocol::message::Inventory;
use assay_protocol::verdict::{Mode, Reason, ReasonCode};
use assay_work::{Precision, PublicKey};

use super::{SessionContext, SessionState, StartError, ValidatorSession};
use crate::action::Action;
use crate::case::entry::{CaseEntry, CaseHeader, UnmadeChallenge};
use crate::history::MinerHistory;
use crate::history::devices::Attendance;
use crate::history::past::MinerPast;
use crate::issue::{IssueError, Sizing, check_draws, fresh};
use crate::run::{ChallengeRun, RunContext};

impl ValidatorSession {
    /// Starts a challenge of this miner, with its history. `hold`: the longest wait of the probe after the commitment
    /// for [`ValidatorSession::release`], in a round.
    pub fn start(
        &mut self,
        policy: &Arc<Policy>,
        hold: Option<Duration>,
        history: Arc<MinerHistory>,
        context: &mut SessionContext<'_>,
    ) -> Result<Vec<Action>, StartError> {
        let SessionState::Connected { miner_key, inventory } = &self.state else {
            return Err(StartError::NotConnected);
        };
        if self.run.is_some() || self.is_concluding {
            return Err(StartError::Busy);
        }
        let (miner_key, inventory) = (*miner_key, inventory.clone());
        let (turns, seat) = (&self.admission.history, history.seat.unwrap_or(miner_key));
        let precision = kind_of(policy, &inventory, &history.past, |kinds| turns.next_kind(seat, kinds));
        let replayed = matches!(policy.mode, Some(Mode::Replay | Mode::ReplaySample));
        let room = context.replays.capacity().room(precision).filter(|_| replayed);
        let sizing = Sizing {
            precision,
            policy,
            inventory: &inventory,
            shown: &history.shown,
            room: room.as_ref().map(|room| &room[..]),
        };
        let issued = sizing.issue(self.admission.identity.public_key(), miner_key, context.entropy);
        let checked = issued.and_then(|issued| {
            let auto = || context.replays.auto_mode(&issued.challenge, history.is_known(), policy.replay_budget);
            let mode = policy.mode.unwrap_or_else(auto);
            check_draws(policy, mode, &issued.challenge)?;
            Ok((issued, mode))
        });
        let (issued, mode) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                let shown = history.past.devices.values().any(|device| device.kinds.contains(&precision));
                let hides = shown && matches!(error, IssueError::NotEnoughMemory { .. });
                let actions = self.unchallenged(&sizing, miner_key, &history.past, (error, context))?;
                // A kind that the host showed, and claims too little memory for, comes again: others would be asked in
                // its place for as long as it does.
                if !hides {
                    turns.judged(seat, precision);
                }
                self.is_concluding = true;
                return Ok(actions);
            }
        };
        let run = RunContext {
            policy: policy.clone(),
            mode,
            inventory,
            history,
            round_trip: self.pings.least(),
            unix_seconds: context.unix_seconds,
            hold,
        };
        let (run, actions) = ChallengeRun::start(run, issued, context.now);
        self.run = Some(run);
        let actions = self.retire(actions);
        self.ping_after(&actions, context.now);
        Ok(actions)
    }

    /// The verdict on a host that is too small to challenge.
    fn unchallenged(
        &self,
        sizing: &Sizing<'_>,
        miner_key: PublicKey,
        past: &MinerPast,
        (error, context): (IssueError, &mut SessionContext<'_>),
    ) -> Result<Vec<Action>, StartError> {
        let code = match error {
            IssueError::NotEnoughMemory { .. } => ReasonCode::NotEnoughMemory,
            // As many devices and iterations as cannot be challenged are the miner's claim.
            IssueError::NothingToChallenge { .. } | IssueError::TooManyRoots { .. } | IssueError::TooManyDraws(_) => {
                ReasonCode::NothingToChallenge
            }
            error => return Err(error.into()),
        };
        let (challenge_id, _) = fresh(context.entropy).map_err(IssueError::Entropy)?;
        let (_, n) = sizing.sizes();
        let policy = sizing.policy;
        let least_bytes = u64::from(policy.min_slots) * u64::from(n) * u64::from(n);
        let (inventory, precision, kinds) = (sizing.inventory, sizing.precision, &policy.kinds[..]);
        let policy_bytes = least_bytes;
        let attendance = Attendance { inventory, shares: &[], policy_bytes, least_bytes, precision, kinds };
        let reason = Reason::new(code, error.to_string());
        let (difference, recent) = (past.difference(attendance), past.recent(None, policy.abandoned));
        let header = CaseHeader {
            program: env!("CARGO_PKG_VERSION").into(),
            challenge_id,
            miner_key,
            validator_key: self.admission.identity.public_key(),
            unix_seconds: context.unix_seconds,
            mode: None,
            round_trip: self.pings.least(),
            hold: None,
            not_challenged: sizing.left_out(n, policy.min_slots),
            policy: policy.clone(),
        };
        let unmade = UnmadeChallenge { n, reason: reason.clone().into(), difference, recent };
        let verdict = Box::new(unmade.verdict(&header, reason));
        let entries = vec![
            CaseEntry::Header(Box::new(header)),
            CaseEntry::Inventory(sizing.inventory.clone()),
            CaseEntry::Unchallenged(Box::new(unmade)),
        ];
        Ok(vec![Action::Record(entries), Action::Judged(verdict)])
    }
}

/// The next kind of work for a host: of those in the policy that one of its devices computes or showed before, the one
/// whose turn it is. A host without a device for it gets the verdict that none can be challenged.
fn kind_of(
    policy: &Policy,
    inventory: &Inventory,
    past: &MinerPast,
    next: impl FnOnce(Vec<Precision>) -> Option<Precision>,
) -> Precision {
    let computed = |kind: &Precision| inventory.devices.iter().any(|device| device.precisions.contains(kind));
    // Else a host would leave out of its inventory the kinds that it shows no more.
    let shown = |kind: &Precision| past.devices.values().any(|device| device.kinds.contains(kind));
    let offered = policy.kinds.iter().copied().filter(|kind| computed(kind) || shown(kind)).collect();
    next(offered).or_else(|| policy.kinds.first().copied()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use assay_protocol::channel::Channel;
    use assay_protocol::identity::Identity;
    use assay_protocol::message::RefusedCode;
    use assay_protocol::successor::Lineage;
    use assay_work::DeviceId;

    use super::*;
    use crate::entropy::SeededEntropy;
    use crate::history::History;
    use crate::history::devices::KnownDevice;
    use crate::issue::tests::inventory;
    use crate::replay::ReplayCapacity;
    use crate::session::{Access, Admission};

    #[derive(Debug)]
    struct AllMiners;

    impl Access for AllMiners {
        fn check(&self, _: &Lineage, _: bool, _: u64) -> Result<(), (RefusedCode, String)> {
            Ok(())
        }
    }

    /// Regression test: by claiming too little memory for a kind that it had shown a host was asked for the others. A
    /// kind that it cannot do keeps no other from it.
    #[test]
    fn a_kind_that_was_shown_comes_again_where_the_memory_for_it_is_gone() {
        let policy =
            Arc::new(Policy { kinds: vec![Precision::Int8, Precision::Fp8], min_slots: 4, ..Policy::default() });
        let history = Arc::<History>::default();
        let identity = Identity::from_seed(&[1; 32]);
        let admission =
            Admission { identity, access: Arc::new(AllMiners), ping_interval: Duration::from_secs(5), history };
        let (admission, miner_key) = (Arc::new(admission), PublicKey([2; 32]));
        let next = |shown: Vec<Precision>| {
            let mut session = ValidatorSession::new(admission.clone(), Channel::Plaintext, Instant::now());
            let mut inventory = inventory(&[1 << 20]);
            inventory.devices[0].precisions = vec![Precision::Int8, Precision::Fp8];
            session.state = SessionState::Connected { miner_key, inventory };
            let mut history = MinerHistory::default();
            let device = KnownDevice { name: "device 0".into(), bytes: 1 << 30, kinds: shown };
            history.past.devices.insert(DeviceId([1; 16]), device);
            let (entropy, replays) = (&mut SeededEntropy::new(5), &ReplayCapacity::default());
            let mut context = SessionContext { now: Instant::now(), unix_seconds: 1, entropy, replays };
            let actions = session.start(&policy, None, Arc::new(history), &mut context).unwrap();
            assert!(
                matches!(actions.last(), Some(Action::Judged(verdict)) if verdict.reasons[0].code == ReasonCode::NotEnoughMemory)
            );
            admission.history.next_kind(miner_key, [Precision::Int8, Precision::Fp8])
        };
        assert_eq!(next(vec![Precision::Int8]), Some(Precision::Int8));
        assert_eq!(next(vec![]), Some(Precision::Fp8), "Int8 was never shown");
        assert_eq!(next(vec![Precision::Int8]), Some(Precision::Int8), "nor was FP8");
    }

    #[test]
    fn a_kind_that_was_shown_is_asked_for_while_no_device_lists_it() {
        let policy = Policy { kinds: vec![Precision::F16, Precision::Int8, Precision::Fp8], ..Policy::default() };
        let offered = |past: &MinerPast| {
            let mut offered = Vec::new();
            kind_of(&policy, &inventory(&[1 << 30]), past, |kinds| {
                offered = kinds;
                None
            });
            offered
        };
        assert_eq!(offered(&MinerPast::default()), [Precision::Int8]);
        let mut past = MinerPast::default();
        let shown =
            KnownDevice { name: "device 0".into(), bytes: 1 << 30, kinds: vec![Precision::Int8, Precision::F16] };
        past.devices.insert(DeviceId([1; 16]), shown);
        assert_eq!(offered(&past), [Precision::F16, Precision::Int8]);
    }
}
