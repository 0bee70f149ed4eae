//! A validator and one miner that may lie, as state machines in one thread.

use std::time::Duration;

use assay_integration_tests::dishonest::{Disguise, Liar, Lies, SharedLies};
use assay_integration_tests::validator::Ruling;
use assay_judge::case::entry::CaseEntry;
use assay_judge::case::file::{CaseReader, MARK, encode};
use assay_judge::facts::FleetFacts;
use assay_judge::rejudge::CaseContents;
use assay_judge::verify::excuse::ValidatorDelays;
use assay_policy::challenge::{Policy, ProbePolicy};
use assay_protocol::message::MinerMessage;
use assay_protocol::verdict::{Mode, ReasonCode, Verdict};
use assay_work::probe::Link;

use crate::sessions::{Lag, World};

/// The modes that see all of the work, or enough of it.
pub const REPLAY_AND_AUDIT: [Mode; 2] = [Mode::Replay, Mode::Audit];

/// The usual policy: small work, a small probe of three rounds.
pub fn usual() -> Policy {
    let (target, deadline) = (Duration::from_millis(10), Duration::from_secs(60));
    let probe = ProbePolicy { target, expect_gb_per_s: 0.01, walks: 64, steps: 8, deadline };
    Policy { n: Some(256), max_matrices: 12, probe, ..Policy::default() }
}

/// A validator and a connected miner.
pub struct Stage {
    world: World,
    pub lies: SharedLies,
    /// The modes that the miner has passed in; it passes again after each lie.
    passed: Vec<Mode>,
    /// Words of devices that are done, in the last challenge's case.
    pub words: usize,
}

impl Stage {
    /// A miner with a device for each of these claimed counts of slots of n = 256.
    pub fn new(policy: Policy, slots: &[u64]) -> Self {
        Self::of(policy, &Disguise::new(slots))
    }

    pub fn of(policy: Policy, disguise: &Disguise) -> Self {
        let liar = Liar::new(disguise);
        let lies = liar.lies.clone();
        Self { world: World::with_liar(u64::from(disguise.seed), policy, liar), lies, passed: Vec::new(), words: 0 }
    }

    /// One device, the usual policy.
    pub fn with_one_device() -> Self {
        Self::new(usual(), &[14])
    }

    /// Two devices of the same size, the usual policy.
    pub fn with_two_devices() -> Self {
        Self::new(usual(), &[7, 7])
    }

    /// The miner no longer answers sweeps.
    pub fn leave_sweeps_out(&mut self) {
        self.world.list(|inventory| inventory.sweeps = false);
    }

    /// The miner walks no linked probe.
    pub fn leave_links_out(&mut self) {
        self.world.list(|inventory| inventory.max_link = Link::Own);
    }

    /// Each device says when it is done with its work and its probe.
    pub fn say_done(&mut self) {
        self.world.says_done = true;
    }

    /// Challenges a miner whose messages come late.
    pub fn challenge_with_lag(&mut self, mode: Mode, lag: Lag) -> Ruling {
        self.world.lag = Some(lag);
        let ruling = self.challenge(mode);
        self.world.lag = None;
        ruling
    }

    /// Challenges the miner, and judges the evidence again.
    pub fn challenge(&mut self, mode: Mode) -> Ruling {
        self.world.settle();
        self.world.entries.clear();
        self.world.policy.mode = Some(mode);
        self.world.start();
        let mut verdict = self.world.concluded();
        let is_word = |entry: &&CaseEntry| matches!(entry, CaseEntry::Message(_, MinerMessage::Progress { .. }));
        self.words = self.world.entries.iter().filter(is_word).count();
        judge_again(std::mem::take(&mut self.world.entries), &mut verdict);
        Ruling { verdict: verdict.into(), phases: Vec::new() }
    }

    /// The whole of most tests: in each mode the miner passes while it is honest, is caught for `code` while it lies,
    /// and passes again after.
    pub fn catches(&mut self, modes: &[Mode], code: ReasonCode, lie: impl Fn(&Lies)) {
        self.catches_one_of(modes, &[code], |stage| lie(&stage.lies));
    }

    /// As [`Stage::catches`] in mode replay, for a lie that the samples before the replay may see, or else the replay.
    pub fn catches_in_replay(&mut self, sampled: ReasonCode, lie: impl Fn(&Lies)) {
        self.catches_one_of(&[Mode::Replay], &[ReasonCode::RootMismatch, sampled], |stage| lie(&stage.lies));
    }

    /// As [`Stage::catches`], for messages that come late.
    pub fn catches_late(&mut self, modes: &[Mode], code: ReasonCode, lag: Lag) {
        self.catches_one_of(modes, &[code], |stage| stage.world.lag = Some(lag));
    }

    /// As [`Stage::catches`], for a lie that the session ends with.
    pub fn throws_out(mut self, mode: Mode, code: ReasonCode, lie: impl Fn(&Lies)) {
        self.challenge(mode).expect_pass();
        lie(&self.lies);
        self.challenge(mode).expect(code);
        assert!(!self.is_connected());
    }

    /// Messages of the miner that the validator has not taken.
    pub fn waiting(&self) -> usize {
        self.world.waiting()
    }

    /// Whether the session goes on once the validator has taken all that the miner sent.
    pub fn is_connected(&mut self) -> bool {
        self.world.settle();
        !self.world.is_closed
    }

    fn catches_one_of(&mut self, modes: &[Mode], codes: &[ReasonCode], lie: impl Fn(&mut Self)) {
        for &mode in modes {
            // The pass after one lie is the pass before the next.
            if !self.passed.contains(&mode) {
                self.challenge(mode).expect_pass();
                self.passed.push(mode);
            }
            lie(self);
            let ruling = self.challenge(mode);
            let found = ruling.verdict.reasons.first().map(|reason| reason.code.as_str());
            ruling.expect(*codes.iter().find(|code| Some(code.name()) == found).unwrap_or(&codes[0]));
            // A late message comes after the verdict, and changes nothing.
            self.world.settle();
            self.lies.stop();
            self.world.lag = None;
            self.challenge(mode).expect_pass();
        }
    }
}

/// The evidence of every verdict gives that verdict again, to the bit, in every test.
fn judge_again(entries: Vec<CaseEntry>, verdict: &mut Verdict) {
    let facts = FleetFacts::default();
    drop(facts.judge(verdict));
    let json = serde_json::to_vec(verdict).unwrap();
    let facts = toml::to_string(&facts).unwrap();
    let last =
        [CaseEntry::HeldUp(ValidatorDelays::default()), CaseEntry::Fleet(facts), CaseEntry::Verdict(json.clone())];
    let mut bytes = MARK.to_vec();
    bytes.extend(entries.into_iter().chain(last).flat_map(|entry| encode(entry, verdict.challenge_id)));
    let read = || CaseReader::new(&bytes[..]).unwrap();
    let case = CaseContents::read(&mut read()).unwrap();
    let again = case.judge(read(), &case.standard()).unwrap();
    assert_eq!(again.json(), Some(json), "the same evidence, another verdict: {again:#?}");
}
