//! Both sides' state machines in one thread, without a socket, with a clock and draws that are handed in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::host::Host;
use assay_device::reference::ReferenceDevice;
use assay_device::{Device, Handle};
use assay_miner::engine::Engine;
use assay_miner::session as miner;
use assay_protocol::channel::Channel;
use assay_protocol::identity::Identity;
use assay_protocol::message::{Inventory, MinerMessage, OpeningsPart};
use assay_protocol::verdict::{Mode, Outcome, Reason, ReasonCode, Verdict};
use assay_validator::action::Action;
use assay_validator::allow::AllowList;
use assay_validator::entropy::SeededEntropy;
use assay_validator::policy::{OpeningsPolicy, Policy, ProbePolicy};
use assay_validator::session::{Admission, Session, SessionContext};
use assay_validator::verify::replay::pool::ReplayPool;
use assay_validator::verify::size::part_bytes;
use assay_work::{DeviceId, Nonce, PublicKey};
use proptest::prelude::*;

use super::recording::{MinerStep, Recording, Step};

/// The miner's nonce.
pub const MINER_NONCE: Nonce = Nonce([3; 32]);

/// How a miner's session starts on a plaintext connection.
pub fn start_of(identity: Identity, pinned: Option<PublicKey>, inventory: Inventory) -> miner::SessionStart {
    miner::SessionStart {
        identity,
        pinned,
        channel: Channel::Plaintext,
        inventory,
        miner_nonce: MINER_NONCE,
        resumes: None,
        join_token: None,
        unix_seconds: 0,
    }
}

/// The miner's key.
pub fn miner_identity() -> Identity {
    Identity::from_seed(&[1; 32])
}

/// The validator's key.
pub fn validator_identity() -> Identity {
    Identity::from_seed(&[2; 32])
}

/// The miner's two devices, of 12 slots each at n = 256.
pub fn engine() -> Engine {
    let devices =
        [1, 2].map(|id| Box::new(ReferenceDevice::new(DeviceId([id; 16]), "simulated", 12 << 16)) as Box<dyn Device>);
    Engine::new(Host::new(devices.into()), miner_identity())
}

/// A link between a miner and a validator that takes no time, unless the test lets some pass.
pub struct World {
    now: Instant,
    entropy: SeededEntropy,
    validator: Session,
    miner: miner::Session,
    engine: Engine,
    to_validator: VecDeque<MinerMessage>,
    verdicts: Vec<Verdict>,
    /// How long the validator takes for each check.
    check_takes: Duration,
    /// How long passes before each chunk of openings.
    chunk_takes: Duration,
    /// The rate of the link for openings, in bytes per second; `None`: they take no time.
    rate_per_s: Option<f64>,
    /// What passes besides before the next chunks.
    pauses: VecDeque<Duration>,
    /// How long openings may take.
    openings: OpeningsPolicy,
    /// When the first chunk was waited for, and the bytes that came since.
    opened: Option<(Instant, u64)>,
    mode: Mode,
    /// What both sides were given so far.
    pub recording: Recording,
}

impl World {
    fn new(seed: u64) -> Self {
        Self::in_mode(seed, Mode::Audit)
    }

    /// A world whose challenges are checked in `mode`; a replay is never answered.
    pub fn in_mode(seed: u64, mode: Mode) -> Self {
        let now = Instant::now();
        let identity = miner_identity();
        let engine = engine();
        let inventory = engine.inventory(0).unwrap();
        let recording = Recording { inventory: inventory.clone(), ..Recording::default() };
        let (miner, hello) = miner::Session::start(start_of(identity, None, inventory), now);
        let ping_interval = Duration::from_secs(5);
        let identity = validator_identity();
        let admission = Admission { identity, allowed: AllowList::any(), ping_interval, history: Arc::default() };
        let mut world = Self {
            now,
            entropy: SeededEntropy::new(seed),
            validator: Session::new(Arc::new(admission), Channel::Plaintext, now),
            miner,
            engine,
            to_validator: VecDeque::new(),
            verdicts: Vec::new(),
            check_takes: Duration::ZERO,
            chunk_takes: Duration::ZERO,
            rate_per_s: None,
            pauses: VecDeque::new(),
            openings: Policy::default().openings,
            opened: None,
            mode,
            recording,
        };
        world.miner_does(hello);
        world.settle();
        world
    }

    /// One challenge, to its verdict.
    fn challenge(&mut self) -> Verdict {
        self.start();
        self.settle();
        self.verdicts.pop().expect("a challenge ends in a verdict")
    }

    pub fn start(&mut self) {
        let probe = ProbePolicy { expect_gb_per_s: 0.001, steps: 4, walks: 64, ..Policy::default().probe };
        let (mode, openings) = (Some(self.mode), self.openings);
        let policy = Policy { mode, n: Some(256), samples: 16, segments: 4, probe, openings, ..Policy::default() };
        let policy = Arc::new(policy);
        self.recording.validator.push(Step::Start(policy.clone()));
        let Self { validator, entropy, now, .. } = self;
        let mut context = SessionContext { now: *now, unix_seconds: 0, entropy, replays: &ReplayPool::default() };
        let actions = validator.start(&policy, None, &mut context).unwrap();
        self.validator_does(actions);
    }

    /// The validator ends what runs, and what the miner has sent by then is lost.
    pub fn stop(&mut self, reason: Reason) {
        self.recording.validator.push(Step::Stop(reason.clone()));
        let actions = self.validator.stop_run(reason);
        self.validator_does(actions);
        self.to_validator.clear();
    }

    pub fn settle(&mut self) {
        while self.deliver() {}
    }

    /// Gives the validator the next message; false when there is none.
    pub fn deliver(&mut self) -> bool {
        let Some(message) = self.to_validator.pop_front() else { return false };
        self.recording.validator.push(Step::Message(message.clone()));
        if let MinerMessage::OpeningsChunk(chunk) = &message
            && chunk.part != OpeningsPart::End
        {
            let bytes = part_bytes(&chunk.part);
            let on_its_way =
                self.rate_per_s.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate));
            self.opened = Some(self.opened.map_or((self.now, bytes), |(since, before)| (since, before + bytes)));
            let pause = self.pauses.pop_front().unwrap_or_default();
            self.pass(self.chunk_takes + on_its_way + pause);
        }
        let Self { validator, entropy, now, .. } = self;
        let mut context = SessionContext { now: *now, unix_seconds: 0, entropy, replays: &ReplayPool::default() };
        let actions = validator.message(message, *now, &mut context);
        self.validator_does(actions);
        self.pass(Duration::ZERO);
        true
    }

    /// Lets time pass on the validator's clock. Its driver sleeps until the poll timeout: nothing is due before.
    fn pass(&mut self, time: Duration) {
        let due = self.validator.poll_timeout(self.now);
        self.now += time;
        let actions = self.validator.tick(self.now, &mut self.entropy);
        assert!(actions.is_empty() || due.is_some_and(|due| due <= self.now), "{actions:?} before {due:?}");
        self.validator_does(actions);
    }

    /// As [`World::pass`], for the miner, at the same time.
    fn tick_miner(&mut self) {
        let due = self.miner.poll_timeout();
        let actions = self.miner.handle(miner::Event::Tick, self.now);
        assert!(actions.is_empty() || due <= self.now, "{actions:?} before {due:?}");
        self.miner_does(actions);
    }

    fn validator_does(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(message, sent) => {
                    sent.set(self.now);
                    self.recording.miner.push(MinerStep::Message(message.clone()));
                    let actions = self.miner.handle(miner::Event::Message(message), self.now);
                    self.miner_does(actions);
                }
                Action::Check(job) => {
                    let result = job.run();
                    self.now += self.check_takes;
                    self.validator.excuse(self.check_takes);
                    let actions = self.validator.checked(result);
                    self.validator_does(actions);
                }
                Action::Verdict(verdict) => self.verdicts.push(*verdict),
                _ => {}
            }
        }
    }

    fn miner_does(&mut self, actions: Vec<miner::Action>) {
        let handle = Handle::default();
        for action in actions {
            let event = match action {
                miner::Action::Send(message) => {
                    self.recording.sent.push(message.clone());
                    self.to_validator.push_back(message);
                    continue;
                }
                miner::Action::StartWork(challenge) => {
                    miner::Event::Worked(challenge.id(), self.engine.work(&challenge, &handle))
                }
                miner::Action::StartProbe(id, probe) => {
                    miner::Event::Probed(id, self.engine.probe(id, &probe, &handle))
                }
                miner::Action::StartOpening(id, items) => {
                    let Self { to_validator, recording, .. } = self;
                    let give = |chunk| {
                        let message = MinerMessage::OpeningsChunk(chunk);
                        recording.sent.push(message.clone());
                        to_validator.push_back(message);
                        true
                    };
                    miner::Event::Opened(id, self.engine.open(id, items, &handle, give))
                }
                _ => continue,
            };
            self.recording.miner.extend(MinerStep::of(&event));
            let actions = self.miner.handle(event, self.now);
            self.miner_does(actions);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_challenge() {
    let verdict = |seed| World::new(seed).challenge();
    let (first, again, other) = (verdict(1), verdict(1), verdict(2));
    assert_eq!(first.outcome, Outcome::Pass, "{:?}", first.reasons);
    assert_eq!(first.challenge_id, again.challenge_id);
    assert_ne!(first.challenge_id, other.challenge_id);
    assert_eq!(first.whole.samples, 2 * 16);
}

#[test]
fn time_that_the_validator_takes_is_not_the_miners() {
    let mut world = World::new(3);
    // Two devices have two items each: all checks together take longer than the openings may.
    world.check_takes = Duration::from_secs(50);
    let verdict = world.challenge();
    assert_eq!(verdict.outcome, Outcome::Pass, "{:?}", verdict.reasons);
}

#[test]
fn time_that_the_miner_takes_is() {
    let mut world = World::new(4);
    world.chunk_takes = Duration::from_secs(4);
    let verdict = world.challenge();
    let codes: Vec<_> = verdict.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!((verdict.outcome, codes), (Outcome::Fail, vec![ReasonCode::OpeningsLate]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Over deadlines, pings and silence, whichever messages of the miner arrive.
    #[test]
    fn nothing_is_due_before_the_poll_timeout(seed: u64, steps in prop::collection::vec((0_u64..8000, any::<bool>()), 1..40)) {
        let mut world = World::new(seed);
        world.start();
        for (ms, delivered) in steps {
            world.pass(Duration::from_millis(ms));
            world.tick_miner();
            if delivered {
                world.settle();
            }
        }
    }
}

/// The least rate of these tests' links.
const LEAST_PER_S: u64 = 8000;

/// Openings that may take ten seconds beside their bytes.
fn on_slow_links(limit: Duration) -> OpeningsPolicy {
    OpeningsPolicy { deadline: Duration::from_secs(10), least_rate_per_s: LEAST_PER_S, limit }
}

/// A world with a link of this rate, and these pauses before the first chunks of openings.
fn on_a_link(seed: u64, rate_per_s: f64, pauses_ms: &[u64], openings: OpeningsPolicy) -> World {
    let mut world = World::new(seed);
    world.rate_per_s = Some(rate_per_s);
    world.pauses = pauses_ms.iter().map(|ms| Duration::from_millis(*ms)).collect();
    world.openings = openings;
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// However slow a link is, down to the least rate, and however the time of the openings is spread over them: what
    /// they take beside their bytes is less than the deadline.
    #[test]
    fn an_honest_miner_on_a_slow_link_is_not_late(
        seed: u64,
        faster in 1.02_f64..2000.0,
        pauses in prop::collection::vec(0_u64..900, 0..11),
    ) {
        let rate = LEAST_PER_S as f64 * faster;
        let mut world = on_a_link(seed, rate, &pauses, on_slow_links(Duration::from_secs(3600)));
        let verdict = world.challenge();
        prop_assert_eq!(verdict.outcome, Outcome::Pass, "{:?}", verdict.reasons);
    }

    /// Whatever a miner does with its time, it holds its challenge no longer than the deadline and the time of what it
    /// sent at the least rate, and never longer than the limit.
    #[test]
    fn openings_hold_a_challenge_no_longer_than_they_may(
        seed: u64,
        rate in 500.0_f64..200_000.0,
        pauses in prop::collection::vec(0_u64..14_000, 40),
        limit_s in 10_u64..60,
    ) {
        let openings = on_slow_links(Duration::from_secs(limit_s));
        let mut world = on_a_link(seed, rate, &pauses, openings);
        world.start();
        let mut ended = None;
        while ended.is_none() && world.deliver() {
            ended = world.verdicts.pop();
        }
        let verdict = ended.expect("it ends before the openings do, or with them");
        let (since, bytes) = world.opened.expect("it came to the openings");
        let took = world.now - since;
        let allowed = (openings.deadline + openings.time_of(bytes)).min(openings.limit);
        match verdict.outcome {
            Outcome::Pass => prop_assert!(took <= allowed + Duration::from_millis(50), "{took:?}, {allowed:?}"),
            _ => prop_assert_eq!(verdict.reasons[0].code, ReasonCode::OpeningsLate, "{:?}", verdict.reasons),
        }
    }
}

#[test]
fn a_link_below_the_least_rate_is_late() {
    let verdict = on_a_link(6, LEAST_PER_S as f64 / 2.0, &[], on_slow_links(Duration::from_secs(3600))).challenge();
    assert_eq!(verdict.reasons[0].code, ReasonCode::OpeningsLate);
    assert!(verdict.reasons[0].detail.contains("10s were allowed beside the time"), "{}", verdict.reasons[0].detail);
}

/// Bytes that come at once are no credit: the stall behind them ends the challenge as one at the beginning would.
#[test]
fn a_fast_link_earns_no_time_to_stall() {
    let mut pauses = vec![0; 40];
    pauses[30..].fill(6000);
    let mut world = on_a_link(7, 1e9, &pauses, on_slow_links(Duration::from_secs(3600)));
    world.start();
    while world.verdicts.is_empty() && world.deliver() {}
    assert_eq!(world.verdicts[0].reasons[0].code, ReasonCode::OpeningsLate);
    assert!(world.pauses.len() > 6, "with the second stall, not later: {} left", world.pauses.len());
}
