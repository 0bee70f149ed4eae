//! Both sides' state machines in one thread, without a socket, with a clock and draws that are handed in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_device::host::Host;
use assay_device::{Device, Handle};
use assay_integration_tests::dishonest::Liar;
use assay_judge::action::Action;
use assay_judge::case::entry::CaseEntry;
use assay_judge::entropy::SeededEntropy;
use assay_judge::history::{MinerHistory, SecondComputation};
use assay_judge::replay::ReplayCapacity;
use assay_judge::session::{Admission, SessionContext, ValidatorSession};
use assay_judge::verify::size::part_bytes;
use assay_keeper::allow::AllowList;
use assay_kits::reference::ReferenceDevice;
use assay_miner::engine::Engine;
use assay_miner::session as miner;
use assay_policy::End;
use assay_policy::challenge::{OpeningsPolicy, Policy, ProbePolicy};
use assay_protocol::channel::Channel;
use assay_protocol::identity::Identity;
use assay_protocol::message::{Inventory, MinerMessage, OpeningsPart, Stop, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, Outcome, Reason, ReasonCode, Verdict};
use assay_protocol::wire::stored::{miner_bytes, miner_message};
use assay_replay::Replayer;
use assay_replay::job::ReplayJob;
use assay_work::{ChallengeId, DeviceId, Nonce, PublicKey};
use proptest::prelude::*;

use super::recording::{MinerStep, Recording, Step};
use super::standing::Words;

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

pub fn miner_identity() -> Identity {
    Identity::from_seed(&[1; 32])
}

pub fn validator_identity() -> Identity {
    Identity::from_seed(&[2; 32])
}

/// The miner's two devices, of 12 slots each at n = 256.
pub fn engine() -> Engine {
    let devices =
        [1, 2].map(|id| Box::new(ReferenceDevice::new(DeviceId([id; 16]), "simulated", 12 << 16)) as Box<dyn Device>);
    Engine::new(Host::new(devices.into()), miner_identity())
}

/// A device of the validator's, for replays: too small to be calibrated.
fn replayer() -> Replayer {
    let device = ReferenceDevice::new(DeviceId([0xee; 16]), "the validator's", 8 << 20);
    Replayer::new(Host::new(vec![Box::new(device)])).expect("a device that does not fail")
}

/// Messages that come late, and by how much.
pub type Lag = (fn(&MinerMessage) -> bool, Duration);

/// A link between a miner and a validator that takes no time, unless the test lets some pass.
pub struct World {
    now: Instant,
    entropy: SeededEntropy,
    validator: ValidatorSession,
    miner: miner::MinerSession,
    engine: Arc<Engine>,
    /// The parts of the miner where it may lie: then all messages are encoded on their way, and replays are answered.
    liar: Option<Liar>,
    /// Whether each of several devices says that it is done.
    pub says_done: bool,
    to_validator: VecDeque<MinerMessage>,
    verdicts: Vec<Verdict>,
    /// How long the validator takes for each check.
    check_takes: Duration,
    /// How long passes before each chunk of openings.
    chunk_takes: Duration,
    /// The rate of the link for openings, in bytes per second; `None`: they take no time.
    rate_per_s: Option<f64>,
    /// Times that pass besides before the next chunks.
    pauses: VecDeque<Duration>,
    /// The messages that come late, with their delay.
    pub lag: Option<Lag>,
    /// How long the probe of a committed miner is held, as in a round.
    hold: Option<Duration>,
    /// How long the transport keeps a probe back; `None`: for ever.
    probe_waits: Option<Duration>,
    /// How late the validator comes to a commitment.
    reads_late: Duration,
    /// When the first chunk was waited for, and the bytes that came since.
    opened: Option<(Instant, u64)>,
    pub policy: Policy,
    /// The memory of the miner, as the records give it.
    history: MinerHistory,
    /// The case entries of the challenge that runs.
    pub entries: Vec<CaseEntry>,
    /// Whether the validator has ended the session.
    pub is_closed: bool,
    /// The inputs of both sides so far.
    pub recording: Recording,
}

impl World {
    fn new(seed: u64) -> Self {
        Self::in_mode(seed, Mode::Audit)
    }

    /// A world whose challenges are checked in `mode`; a replay is never answered.
    pub fn in_mode(seed: u64, mode: Mode) -> Self {
        let probe = ProbePolicy { expect_gb_per_s: 0.001, steps: 4, walks: 64, ..Policy::default().probe };
        let policy = Policy { mode: Some(mode), n: Some(256), samples: 16, segments: 4, probe, ..Policy::default() };
        Self::of(seed, policy, miner_identity(), engine().into(), None)
    }

    /// A world whose miner may lie.
    pub fn with_liar(seed: u64, policy: Policy, liar: Liar) -> Self {
        Self::of(seed, policy, liar.identity.clone(), liar.engine.clone(), Some(liar))
    }

    fn of(seed: u64, policy: Policy, identity: Identity, engine: Arc<Engine>, liar: Option<Liar>) -> Self {
        let now = Instant::now();
        let inventory = engine.inventory(0).unwrap();
        let recording = Recording { inventory: inventory.clone(), ..Recording::default() };
        let (miner, hello) = miner::MinerSession::start(start_of(identity, None, inventory), now);
        let ping_interval = Duration::from_secs(5);
        let identity = validator_identity();
        let admission =
            Admission { identity, access: Arc::new(AllowList::default()), ping_interval, history: Arc::default() };
        let mut world = Self {
            now,
            entropy: SeededEntropy::new(seed),
            validator: ValidatorSession::new(Arc::new(admission), Channel::Plaintext, now),
            miner,
            engine,
            says_done: liar.is_none(),
            liar,
            to_validator: VecDeque::new(),
            verdicts: Vec::new(),
            check_takes: Duration::ZERO,
            chunk_takes: Duration::ZERO,
            rate_per_s: None,
            pauses: VecDeque::new(),
            lag: None,
            hold: None,
            probe_waits: Some(Duration::ZERO),
            reads_late: Duration::ZERO,
            opened: None,
            policy,
            history: MinerHistory::default(),
            entries: Vec::new(),
            is_closed: false,
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

    /// One challenge, which the miner declines, or breaks off once positions are named; why it ended.
    fn ended_by_miner(&mut self, is_abandoned: bool) -> ReasonCode {
        self.start();
        let opens = |world: &Self| matches!(world.to_validator.front(), Some(MinerMessage::OpeningsChunk(_)));
        while is_abandoned && !opens(self) {
            assert!(self.deliver(), "openings are sent");
        }
        let challenge_id = self.validator.challenge().unwrap().id();
        let stop = Stop { challenge_id, code: StopCode::StaleInventory, detail: String::new() };
        let ends = if is_abandoned { MinerMessage::Abort(stop) } else { MinerMessage::Declined(stop) };
        self.to_validator = [ends].into();
        self.settle();
        self.concluded().reasons[0].code
    }

    /// The verdict, for which time passes where the miner says nothing more. It is remembered.
    pub fn concluded(&mut self) -> Verdict {
        while self.verdicts.is_empty() {
            if !self.deliver() {
                let due = self.validator.poll_timeout(self.now).expect("the session lives");
                self.pass(due.saturating_duration_since(self.now).max(Duration::from_millis(1)));
                self.tick_miner();
            }
        }
        let verdict = self.verdicts.pop().expect("a challenge ends in a verdict");
        self.history.past.ends.splice(0..0, End::of(&verdict));
        verdict
    }

    pub fn start(&mut self) {
        let policy = Arc::new(self.policy.clone());
        self.recording.validator.push(Step::Start(policy.clone()));
        let Self { validator, entropy, now, hold, .. } = self;
        let mut context = SessionContext { now: *now, unix_seconds: 0, entropy, replays: &ReplayCapacity::default() };
        let actions = validator.start(&policy, *hold, Arc::new(self.history.clone()), &mut context).unwrap();
        self.validator_does(actions);
    }

    /// The validator ends the running challenge, and the miner's messages of until then are lost.
    pub fn stop(&mut self, reason: Reason) {
        self.recording.validator.push(Step::Stop(reason.clone()));
        let actions = self.validator.stop_run(reason);
        self.validator_does(actions);
        self.to_validator.clear();
    }

    /// Messages that the validator has not been given.
    pub fn waiting(&self) -> usize {
        self.to_validator.len()
    }

    /// The miner sends another inventory.
    pub fn list(&mut self, change: impl FnOnce(&mut Inventory)) {
        let mut inventory = self.engine.inventory(0).unwrap();
        change(&mut inventory);
        let actions = self.miner.handle(miner::SessionEvent::Inventory(inventory), self.now);
        self.miner_does(actions);
    }

    pub fn settle(&mut self) {
        while self.deliver() {}
    }

    /// Gives the validator the next message; false when the queue is empty.
    pub fn deliver(&mut self) -> bool {
        let Some(message) = self.to_validator.pop_front() else { return false };
        self.recording.validator.push(Step::Message(message.clone()));
        if let Some((_, time)) = self.lag.filter(|(is_late, _)| is_late(&message)) {
            self.pass(time);
        }
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
        let received = self.now;
        self.now += if matches!(message, MinerMessage::Commitment(_)) { self.reads_late } else { Duration::ZERO };
        let Self { validator, entropy, now, .. } = self;
        let mut context = SessionContext { now: *now, unix_seconds: 0, entropy, replays: &ReplayCapacity::default() };
        let carried = if self.liar.is_some() { miner_message(&miner_bytes(message)) } else { Ok(message) };
        let actions = match carried {
            Ok(message) => validator.message(message, received, &mut context),
            Err(error) => validator.malformed(&error.to_string()),
        };
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
        let actions = self.miner.handle(miner::SessionEvent::Tick, self.now);
        assert!(actions.is_empty() || due <= self.now, "{actions:?} before {due:?}");
        self.miner_does(actions);
    }

    fn validator_does(&mut self, actions: Vec<Action>) {
        let mut queue = VecDeque::from(actions);
        while let Some(action) = queue.pop_front() {
            match action {
                Action::Send(ValidatorMessage::Probe { .. }, _) if self.probe_waits.is_none() => {}
                Action::Send(message, sent) => {
                    if let ValidatorMessage::Probe { .. } = message {
                        self.now += self.probe_waits.unwrap_or_default();
                    }
                    sent.set(self.now);
                    let message = self.liar.iter().fold(message, |message, liar| liar.hears(message));
                    self.recording.miner.push(MinerStep::Message(message.clone()));
                    let actions = self.miner.handle(miner::SessionEvent::Message(message), self.now);
                    self.miner_does(actions);
                }
                Action::Check(job) => {
                    let result = job.run();
                    self.now += self.check_takes;
                    self.validator.excuse(self.check_takes);
                    queue.extend(self.validator.checked(result));
                }
                Action::Replay(id, work, extent) if self.liar.is_some() => {
                    let (challenge, evidence) = (work.challenge, work.evidence);
                    let job = ReplayJob { challenge, evidence, extent, second: SecondComputation::Due };
                    let replayed = replayer().replay(&job, &Handle::default());
                    queue.extend(self.validator.replayed(id, replayed.finding.into_result()));
                }
                Action::Record(entries) => self.entries.extend(entries),
                Action::Judged(verdict) => {
                    self.verdicts.push((*verdict).clone());
                    queue.extend(self.validator.concluded(Some(verdict)));
                }
                Action::Close(_) => self.is_closed = true,
                _ => {}
            }
        }
    }

    fn send(&mut self, message: MinerMessage) {
        self.recording.sent.push(message.clone());
        match &self.liar {
            Some(liar) => self.to_validator.extend(liar.says(message)),
            None => self.to_validator.push_back(message),
        }
    }

    /// The miner's devices say that they are done.
    fn words(&mut self, words: Words, id: ChallengeId) {
        if !self.says_done {
            return;
        }
        for event in words.events(id) {
            let actions = self.miner.handle(event, self.now);
            self.miner_does(actions);
        }
    }

    fn miner_does(&mut self, actions: Vec<miner::SessionAction>) {
        let handle = Handle::default();
        for action in actions {
            let words = Words::default();
            let event = match action {
                miner::SessionAction::Send(message) => {
                    self.send(message);
                    continue;
                }
                miner::SessionAction::StartWork(challenge) => {
                    self.liar.iter().for_each(|liar| liar.works_on(&challenge));
                    let worked = self.engine.work(&challenge, &handle, words.heard());
                    self.words(words, challenge.id());
                    miner::SessionEvent::Worked(challenge.id(), worked)
                }
                miner::SessionAction::StartProbe(id, probe) => {
                    let probed = self.engine.probe(id, probe, &handle, words.heard());
                    self.words(words, id);
                    miner::SessionEvent::Probed(id, probed)
                }
                miner::SessionAction::StartOpening(id, items) => {
                    let mut chunks = Vec::new();
                    let give = |chunk| {
                        chunks.push(chunk);
                        true
                    };
                    let opened = self.engine.open(id, items, &handle, give);
                    chunks.into_iter().for_each(|chunk| self.send(MinerMessage::OpeningsChunk(chunk)));
                    miner::SessionEvent::Opened(id, opened)
                }
                miner::SessionAction::Release => {
                    self.engine.release();
                    continue;
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

/// A committed member of a round waits for the others, and is bound meanwhile.
#[test]
fn a_committed_member_of_a_round_is_held_and_bound() {
    let held = || {
        let mut world = World::new(8);
        world.hold = Some(Duration::from_secs(60));
        world.start();
        world
    };
    let mut world = held();
    let began = world.now;
    world.settle();
    assert!(world.verdicts.is_empty() && world.now == began, "the probe is held");
    let verdict = world.concluded();
    assert_eq!(verdict.outcome, Outcome::Pass, "{:?}", verdict.reasons);
    assert!(world.now >= began + Duration::from_secs(60), "the others are not waited for any longer");

    let mut world = held();
    world.settle();
    let challenge_id = world.validator.challenge().unwrap().id();
    let stop = Stop { challenge_id, code: StopCode::StaleInventory, detail: String::new() };
    world.to_validator = [MinerMessage::Abort(stop)].into();
    assert_eq!(world.concluded().reasons[0].code, ReasonCode::Abandoned, "it knows how it fares");

    let mut world = held();
    world.to_validator.retain(|message| !matches!(message, MinerMessage::DeviceRoots(_)));
    assert_eq!(world.concluded().reasons[0].code, ReasonCode::RootsLate, "slots could move meanwhile");
    assert!(world.now < began + Duration::from_secs(60));
}

/// Regression test: memory was filled again while a shut window kept the probe back, and its time ran from the end of that.
#[test]
fn a_probe_is_timed_while_it_waits_for_the_window() {
    let after = |ms| {
        let mut world = World::new(3);
        world.policy.probe.deadline = Duration::from_secs(2);
        world.probe_waits = Some(Duration::from_millis(ms));
        world.challenge()
    };
    let times = [50, 1100].map(|ms| after(ms).whole.probe_seconds.round());
    assert_eq!(times, [0.0, 1.0], "less the slack");
    assert_eq!(after(2050).outcome, Outcome::Pass);
    assert_eq!(after(2200).reasons[0].code, ReasonCode::NotReading, "no time of its own was over");
    // Time for which the validator did not come to the commitment is no time of the probe.
    let mut world = World::new(3);
    world.policy.probe.deadline = Duration::from_secs(2);
    world.reads_late = Duration::from_secs(3);
    let verdict = world.challenge();
    assert_eq!((verdict.outcome, verdict.whole.probe_seconds.round()), (Outcome::Pass, 0.0), "{:?}", verdict.reasons);
}

/// Regression test: a slow card beside one of an unknown model gave that one's bound a peak.
#[test]
fn a_bound_beside_unknown_models_rests_on_the_rate_shown() {
    let is_shown_only = |(peak_per_s, has_unknown_models)| {
        let mut world = World::new(5);
        (world.policy.hiding.peak_per_s, world.policy.hiding.has_unknown_models) = (peak_per_s, has_unknown_models);
        world.challenge().devices[0].hiding.as_ref().unwrap().rate_is_shown_only
    };
    assert_eq!([(None, false), (Some(1e9), false), (Some(1e9), true)].map(is_shown_only), [true, false, true]);
}

/// The first probe that is never read may be the link's fault; each further one counts.
#[test]
fn probes_that_are_never_read_are_abandoned_challenges() {
    let mut history = MinerHistory::default();
    let mut unread = |seed| {
        let mut world = World::new(seed);
        (world.history, world.probe_waits) = (std::mem::take(&mut history), None);
        world.start();
        let code = world.concluded().reasons[0].code;
        history = world.history;
        code
    };
    assert_eq!([1, 2, 3].map(&mut unread), [ReasonCode::NotReading; 3]);
    assert_eq!(unread(4), ReasonCode::AbandonedRepeatedly);
}

/// A miner leaves the two that it may, declines as many as would push them out if they counted, and leaves again.
#[test]
fn declined_challenges_push_no_abandoned_one_out() {
    let mut world = World::new(7);
    for _ in 0..2 {
        assert_eq!(world.ended_by_miner(true), ReasonCode::Abandoned);
    }
    for _ in 0..24 {
        assert_eq!(world.ended_by_miner(false), ReasonCode::StaleInventory);
    }
    assert_eq!(world.ended_by_miner(true), ReasonCode::AbandonedRepeatedly);
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
    world.policy.openings = openings;
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// On a link down to the least rate, with any spread of the openings' time: their time beside that of their bytes
    /// is less than the deadline.
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

    /// With any use of its time, a miner holds its challenge no longer than the deadline and the time of its bytes at
    /// the least rate, and never longer than the limit.
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
