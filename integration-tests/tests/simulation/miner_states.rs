//! docs/PROTOCOL.md, States: a miner reacts to each message in each state as the page's table says.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use assay_miner::driver::{Observer, Start, drive};
use assay_miner::limits::{Limits, SharedLimits};
use assay_miner::outbox::outbox;
use assay_miner::session::{CloseReason, MinerSession, SessionAction, SessionEvent, SessionLimits, SessionStart};
use assay_program::shutdown::Shutdown;
use assay_protocol::channel::Channel;
use assay_protocol::identity::{Identity, SessionTranscript};
use assay_protocol::message::{
    Inventory, MinerMessage, Offer, OpeningsPart, PROTOCOL_VERSIONS, RefusedCode, StopCode, ValidatorMessage, Welcome,
};
use assay_protocol::verdict::{Mode, Verdict};
use assay_protocol::wire::v1;
use assay_work::probe::{Link, Probe, Sweep, UncheckedProbe, UncheckedSweep};
use assay_work::{Challenge, ChallengeId, Nonce, Precision, ProbeSeed, PublicKey};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};

use super::recording::{MinerStep, Recording};
use super::sessions::{MINER_NONCE, engine, miner_identity, start_of};
use super::standing::{MinerStanding, UNKNOWN};
use super::table::{Named, StateTable, cells, page};

/// The texts with which a probe out of its order is refused.
const REFUSALS: [&str; 3] =
    ["the probe breaks rule link: ", "the linked probe breaks rule link: ", "the sweep breaks rule sweep: "];
/// The sequence of a ping.
const PING: u64 = 17;

/// A miner's session, and its state in the words of the page.
struct Miner {
    now: Instant,
    session: MinerSession,
    standing: MinerStanding,
}

impl Miner {
    /// A session that was given these steps.
    fn after(recording: &Recording, steps: &[MinerStep]) -> Self {
        let now = Instant::now();
        let inventory = recording.inventory.clone();
        let (session, _) = MinerSession::start(start_of(miner_identity(), None, inventory), now);
        let mut miner = Self { now, session, standing: MinerStanding::new() };
        for step in steps {
            miner.standing.given(&step.event());
            let actions = miner.session.handle(step.event(), now);
            miner.standing.acted(&actions);
        }
        miner
    }
}

/// A validator with this key and these statements welcomes a miner that pins another key, at this time.
fn welcomed(validator: &Identity, pinned: PublicKey, unix_seconds: u64) -> Vec<SessionAction> {
    let start = SessionStart { unix_seconds, ..start_of(miner_identity(), Some(pinned), Inventory::default()) };
    welcomed_as(validator, start, Channel::Plaintext)
}

/// The same, of a validator that is on this channel.
fn welcomed_as(validator: &Identity, start: SessionStart, channel: Channel) -> Vec<SessionAction> {
    let now = Instant::now();
    let (mut session, _) = MinerSession::start(start, now);
    let transcript = SessionTranscript {
        version: PROTOCOL_VERSIONS[0],
        validator_key: validator.public_key(),
        miner_key: miner_identity().public_key(),
        nonce: Nonce([9; 32]),
        miner_nonce: MINER_NONCE,
        channel,
    };
    let welcome = Welcome {
        version: transcript.version,
        validator_key: transcript.validator_key,
        nonce: transcript.nonce,
        signature: validator.sign(&transcript.welcome_message()),
        agent: String::new(),
        successors: validator.successors().to_vec(),
    };
    let mut actions = session.handle(SessionEvent::Message(ValidatorMessage::Welcome(welcome)), now);
    let accepted = ValidatorMessage::Accepted(Duration::from_secs(5));
    actions.extend(session.handle(SessionEvent::Message(accepted), now));
    actions
}

#[test]
fn a_pinned_key_is_followed_until_its_statement_ends() {
    const UNTIL: u64 = 1_800_000_000;
    let [old, middle, new] = [1, 2, 3].map(|seed| Identity::from_seed(&[seed; 32]));
    let statements = [old.succeed(middle.public_key(), UNTIL), middle.succeed(new.public_key(), UNTIL + 60)];
    let pinned = old.public_key();
    let new = new.following(&statements, pinned);
    let [
        SessionAction::Send(MinerMessage::Proof(..)),
        SessionAction::Established(key),
        SessionAction::Followed { pinned: by, until_unix_seconds },
    ] = &welcomed(&new, pinned, UNTIL - 1)[..]
    else {
        panic!("the miner takes the session, and says why")
    };
    assert_eq!((*key, *by, *until_unix_seconds), (new.public_key(), pinned, UNTIL));
    let [SessionAction::Close(closed)] = &welcomed(&new, pinned, UNTIL)[..] else {
        panic!("the miner ends the session")
    };
    assert_eq!(*closed, CloseReason::WrongValidator { expected: pinned, found: new.public_key(), ended: Some(UNTIL) });
    assert!(
        closed.needs_operator() && closed.to_string().contains("vouched for the new key until 2027-01-15"),
        "{closed}"
    );
    // A stranger's key is not followed, and the pinned one needs no statement.
    let stranger = Identity::from_seed(&[4; 32]).following(&statements, pinned);
    let [SessionAction::Close(closed)] = &welcomed(&stranger, pinned, UNTIL - 1)[..] else {
        panic!("it is a stranger")
    };
    assert!(matches!(closed, CloseReason::WrongValidator { ended: None, .. }));
    assert!(matches!(
        welcomed(&new, new.public_key(), UNTIL)[..],
        [SessionAction::Send(_), SessionAction::Established(_)]
    ));
}

/// The hello cannot have it: [`assay_protocol::message::Hello`] has no such field.
#[test]
fn a_join_token_is_shown_to_a_proved_validator_alone() {
    let [validator, other] = [1, 2].map(|seed| Identity::from_seed(&[seed; 32]));
    let start = |pinned: &Identity| SessionStart {
        join_token: Some("assay-join-1".parse().unwrap()),
        ..start_of(miner_identity(), Some(pinned.public_key()), Inventory::default())
    };
    let [SessionAction::Send(MinerMessage::Proof(_, Some(token))), ..] =
        &welcomed_as(&validator, start(&validator), Channel::Plaintext)[..]
    else {
        panic!("the proof has it")
    };
    assert_eq!(token.secret(), "assay-join-1");
    // Another key than the pinned one, and a relay: the welcome is for another channel.
    let stranger = welcomed_as(&other, start(&validator), Channel::Plaintext);
    let relay = welcomed_as(&validator, start(&validator), Channel::Tls([5; 32]));
    for actions in [stranger, relay] {
        assert!(matches!(actions[..], [SessionAction::Close(_)]), "{actions:?}");
    }
}

/// The first message of a recording that `is` takes.
fn first(recording: &Recording, is: fn(&ValidatorMessage) -> bool) -> ValidatorMessage {
    first_of(recording.miner.iter(), is)
}

fn first_of<'a>(mut steps: impl Iterator<Item = &'a MinerStep>, is: fn(&ValidatorMessage) -> bool) -> ValidatorMessage {
    let found = steps.find_map(|step| match step {
        MinerStep::Message(message) if is(message) => Some(message),
        _ => None,
    });
    found.expect("the validator sends each").clone()
}

const fn refused(code: RefusedCode) -> ValidatorMessage {
    ValidatorMessage::Refused { code, detail: String::new(), retry_after: None }
}

/// The messages that name no challenge of the miner's.
fn about_none(recording: &Recording) -> Vec<(&'static str, ValidatorMessage)> {
    let ValidatorMessage::Challenge(offer) = first(recording, |m| matches!(m, ValidatorMessage::Challenge(_))) else {
        unreachable!("it is one")
    };
    vec![
        ("Welcome", first(recording, |m| matches!(m, ValidatorMessage::Welcome(_)))),
        ("Accepted", ValidatorMessage::Accepted(Duration::from_secs(5))),
        ("Refused for a proof", refused(RefusedCode::Signature)),
        ("Refused", refused(RefusedCode::Overloaded)),
        ("Goodbye", ValidatorMessage::Goodbye(StopCode::Draining, String::new())),
        ("Ping", ValidatorMessage::Ping(PING)),
        ("Challenge", ValidatorMessage::Challenge(Offer { challenge_id: UNKNOWN, ..offer })),
    ]
}

/// The messages about the challenge `id`.
fn about(id: ChallengeId, recording: &Recording) -> Vec<(&'static str, ValidatorMessage)> {
    let probe = first(recording, |m| matches!(m, ValidatorMessage::Probe { .. }));
    let mut messages = vec![
        ("Linked probe", linked(&probe)),
        ("Sweep", sweep(id)),
        ("Probe", probe),
        ("Open", first(recording, |m| matches!(m, ValidatorMessage::Open { .. }))),
        ("Verdict", first(recording, |m| matches!(m, ValidatorMessage::Verdict(_)))),
    ];
    for (_, message) in &mut messages {
        match message {
            ValidatorMessage::Probe { challenge_id, .. } | ValidatorMessage::Open { challenge_id, .. } => {
                *challenge_id = id;
            }
            ValidatorMessage::Verdict(verdict) => verdict.challenge_id = id,
            _ => {}
        }
    }
    messages
}

fn sweep(challenge_id: ChallengeId) -> ValidatorMessage {
    let sweep = Sweep::try_from(UncheckedSweep { seed: ProbeSeed([8; 32]), rounds: 2 }).expect("in its range");
    ValidatorMessage::Sweep { challenge_id, sweep, deadline: Duration::from_secs(5) }
}

/// The same probe over the slots of all devices.
fn linked(probe: &ValidatorMessage) -> ValidatorMessage {
    let ValidatorMessage::Probe { challenge_id, probe, deadline } = probe else { unreachable!("it is one") };
    let unchecked = UncheckedProbe { link: Link::All.code(), ..*probe.fields() };
    let probe = Probe::try_from(unchecked).expect("in its ranges");
    ValidatorMessage::Probe { challenge_id: *challenge_id, probe, deadline: *deadline }
}

/// The session's reaction to a message, in the words of the page; a text of its own where no words fit.
fn done(miner: &mut Miner, message: ValidatorMessage) -> String {
    let (ran, before) = (miner.session.is_running(), format!("{:?}", miner.session));
    let actions = miner.session.handle(SessionEvent::Message(message), miner.now);
    let is_same = before == format!("{:?}", miner.session);
    let releases = actions.iter().any(|action| matches!(action, SessionAction::Release));
    match &actions[..] {
        [.., SessionAction::Close(_)] if ran != releases => format!("slots are not released: {actions:?}"),
        [.., SessionAction::Close(CloseReason::OutOfPlace(_))] => "end".into(),
        [.., SessionAction::Close(CloseReason::Refused { .. } | CloseReason::Goodbye { .. })] => "over".into(),
        [] if is_same => "drop".into(),
        [SessionAction::Send(MinerMessage::Pong(PING))] if is_same => "pong".into(),
        [SessionAction::Send(MinerMessage::Declined(stop))] if is_same && stop.code == StopCode::Busy => "busy".into(),
        [SessionAction::Send(MinerMessage::Abort(stop)), SessionAction::Release]
            if ran && stop.code == StopCode::Invalid && REFUSALS.iter().any(|text| stop.detail.starts_with(text)) =>
        {
            "refuse".into()
        }
        [SessionAction::Verdict(_)] if is_same => "show".into(),
        [SessionAction::Verdict(_), SessionAction::Release] if ran && !miner.session.is_running() => "done".into(),
        [SessionAction::Send(MinerMessage::Proof(..)) | SessionAction::Established(_)] if !is_same => "take".into(),
        [SessionAction::StartWork(_) | SessionAction::StartProbe(..) | SessionAction::StartOpening(..)] if !is_same => {
            "take".into()
        }
        _ => format!("something else: {actions:?}"),
    }
}

/// Each moment of a recording, and sessions that are over.
fn moments(recording: &Recording) -> Vec<Vec<MinerStep>> {
    let steps = &recording.miner;
    let goodbye = MinerStep::Message(ValidatorMessage::Goodbye(StopCode::Draining, String::new()));
    let mut moments: Vec<_> = (0..=steps.len()).map(|end| steps[..end].to_vec()).collect();
    let over: Vec<_> = moments.iter().map(|steps| [&steps[..], std::slice::from_ref(&goodbye)].concat()).collect();
    moments.extend(over);
    moments
}

#[test]
fn a_miner_does_what_the_table_of_its_states_says() {
    let mut table = StateTable::read("miner-states");
    let mut wrong = Vec::new();
    for mode in [Mode::Audit, Mode::Replay] {
        let recording = Recording::of(mode);
        for steps in moments(&recording) {
            let fresh = || Miner::after(&recording, &steps);
            let MinerStanding { state, this, ended, .. } = fresh().standing;
            let mut subjects: Vec<_> =
                about_none(&recording).into_iter().map(|(kind, m)| (kind, Named::None, m)).collect();
            for (named, id) in [(Named::This, this), (Named::Other, ended), (Named::Other, Some(UNKNOWN))] {
                let messages = id.map(|id| about(id, &recording)).unwrap_or_default();
                subjects.extend(messages.into_iter().map(|(kind, m)| (kind, named, m)));
            }
            for (kind, named, message) in subjects {
                let expected = table.cell(kind, named, state);
                let found = done(&mut fresh(), message);
                if found != expected {
                    let place = format!("{kind} of {named:?} in {state}, after {} steps, mode {mode}", steps.len());
                    wrong.push(format!("{place}: the page says {expected}, the session did {found:.300}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{} in all", wrong.join("\n"), wrong.len());
    ends_of_streams(&mut table);
    table.assert_all_seen();
}

/// "Take or decline" of the page, the rows that a session decides by the message alone: the first that fits counts.
#[test]
fn a_challenge_is_declined_for_the_first_row_that_fits() {
    const DECIDED: [&str; 5] = ["BUSY", "STALE_INVENTORY", "UNSUPPORTED", "INVALID", "NOT_ENOUGH_MEMORY"];
    let page = page();
    let (_, after) = page.split_once("\n### Take or decline\n").expect("the section is there");
    let rows = after.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|')).skip(2);
    let codes = rows.map(|row| cells(row)[1].trim_matches('`').to_owned()).filter(|code| DECIDED.contains(&&**code));

    let mut recording = Recording::of(Mode::Audit);
    recording.inventory.devices.iter_mut().for_each(|device| device.precisions = vec![Precision::Int8]);
    let ValidatorMessage::Challenge(sound) = first(&recording, |m| matches!(m, ValidatorMessage::Challenge(_))) else {
        unreachable!("it is one")
    };
    let miner = || {
        let mut miner = Miner::after(&recording, &[]);
        let is_handshake = |m: &&MinerStep| {
            matches!(m, MinerStep::Message(ValidatorMessage::Welcome(_) | ValidatorMessage::Accepted(_)))
        };
        for step in recording.miner.iter().filter(is_handshake) {
            let _ = miner.session.handle(step.event(), miner.now);
        }
        miner
    };
    let mut limits = SessionLimits { busy: Some("a turn".into()), ..SessionLimits::default() };
    let mut offer = Offer {
        inventory_sequence: sound.inventory_sequence + 1,
        precision: Precision::F16.code(),
        n: 0,
        total: 1000,
        ..sound
    };
    let repairs: [fn(&mut SessionLimits, &mut Offer); 5] = [
        |limits, _| limits.busy = None,
        |_, offer| offer.inventory_sequence -= 1,
        |_, offer| offer.precision = Precision::Int8.code(),
        |_, offer| offer.n = 256,
        |_, offer| offer.total = 20,
    ];
    let mut found = Vec::new();
    for repair in repairs {
        let mut miner = miner();
        miner.session.set_limits(limits.clone());
        let actions =
            miner.session.handle(SessionEvent::Message(ValidatorMessage::Challenge(offer.clone())), miner.now);
        let [SessionAction::Send(MinerMessage::Declined(stop))] = &actions[..] else { panic!("{actions:?}") };
        found.push(v1::StopCode::from(stop.code).as_str_name().replace("STOP_CODE_", ""));
        repair(&mut limits, &mut offer);
    }
    assert_eq!(found, codes.collect::<Vec<_>>());
    let sound = || SessionEvent::Message(ValidatorMessage::Challenge(offer.clone()));
    let actions = miner().session.handle(sound(), Instant::now());
    assert!(matches!(actions[..], [SessionAction::StartWork(_)]), "{actions:?}");
    // The operator allows less than the inventory says, which is read again after this.
    let mut changed = miner();
    changed.session.set_limits(SessionLimits { is_stale: true, ..SessionLimits::default() });
    let actions = changed.session.handle(sound(), Instant::now());
    let [SessionAction::Send(MinerMessage::Declined(stop))] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(stop.code, StopCode::StaleInventory);
}

/// A validator holds the probe of a round until all members have committed or are late.
#[test]
fn a_committed_challenge_waits_for_the_other_members_of_a_round() {
    const DEADLINE: Duration = Duration::from_secs(7200);
    let recording = Recording::of(Mode::Audit);
    let committed = recording.miner.iter().rposition(|step| matches!(step, MinerStep::Worked(..)));
    let mut miner = Miner::after(&recording, &[]);
    for step in &recording.miner[..=committed.expect("it committed")] {
        let event = match step.event() {
            SessionEvent::Message(ValidatorMessage::Challenge(offer)) => {
                SessionEvent::Message(ValidatorMessage::Challenge(Offer { deadline: DEADLINE, ..offer }))
            }
            event => event,
        };
        let _ = miner.session.handle(event, miner.now);
    }
    let mut after = |time: Duration| {
        let now = miner.now + time;
        let _ = miner.session.handle(SessionEvent::Message(ValidatorMessage::Ping(PING)), now);
        miner.session.handle(SessionEvent::Tick, now)
    };
    assert!(after(DEADLINE + Duration::from_secs(59)).is_empty());
    let actions = after(DEADLINE + Duration::from_secs(61));
    let [SessionAction::Send(MinerMessage::Abort(stop)), SessionAction::Release] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(stop.code, StopCode::Deadline);
}

/// A step of a session through its driver, and the state that it leads to.
enum DriverStep {
    Says(ValidatorMessage),
    /// The miner says such a thing.
    Hears(fn(&MinerMessage) -> bool),
}

/// One challenge in steps of the driver. The driver reads before it takes results of the devices: right behind a
/// message that makes them work, they still do.
fn driver_steps(recording: &Recording) -> Vec<(&'static str, DriverStep)> {
    use DriverStep::{Hears, Says};
    let last = |is| first_of(recording.miner.iter().rev(), is);
    vec![
        ("welcome", Hears(|m| matches!(m, MinerMessage::Hello(_)))),
        ("accepted", Says(last(|m| matches!(m, ValidatorMessage::Welcome(_))))),
        ("accepted", Hears(|m| matches!(m, MinerMessage::Proof(..)))),
        ("idle", Says(last(|m| matches!(m, ValidatorMessage::Accepted(_))))),
        ("working", Says(last(|m| matches!(m, ValidatorMessage::Challenge(_))))),
        ("committed", Hears(|m| matches!(m, MinerMessage::Commitment(_)))),
        ("probing", Says(last(|m| matches!(m, ValidatorMessage::Probe { .. })))),
        ("answered", Hears(|m| matches!(m, MinerMessage::ProbeAnswer(_)))),
        ("opening", Says(last(|m| matches!(m, ValidatorMessage::Open { .. })))),
        // Two devices with two items each.
        (
            "opened",
            Hears(|m| matches!(m, MinerMessage::OpeningsChunk(c) if c.item == 3 && c.part == OpeningsPart::End)),
        ),
        ("closed", Says(ValidatorMessage::Goodbye(StopCode::Draining, String::new()))),
    ]
}

/// A miner's driver on a stream of messages, and the miner's messages. The engine waits for no reader.
fn start_driver(
    recording: &Recording,
    inbound: impl Stream<Item = Result<ValidatorMessage, String>> + Unpin + Send + 'static,
    limits: SharedLimits,
) -> (JoinHandle<Result<CloseReason, String>>, mpsc::UnboundedReceiver<MinerMessage>) {
    struct Nobody;
    impl Observer for Nobody {
        fn established(&mut self, _: PublicKey) {}
        fn challenged(&mut self, _: &Challenge) {}
        fn progress(&mut self, _: u64) {}
        fn verdict(&mut self, _: &Verdict) {}
    }
    let (outbox, mut said) = outbox();
    let (reader, from_miner) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(message) = said.next().await {
            // Who has heard enough is gone.
            let _ = reader.send(message);
        }
    });
    let start = Start {
        session: start_of(miner_identity(), None, recording.inventory.clone()),
        to_keep: None,
        resumption: assay_miner::driver::Resumption::default(),
        joining: assay_miner::joining::PendingJoinToken::default(),
        idle_release: Duration::ZERO,
        limits,
        turns: assay_miner::turns::Turns::default(),
    };
    let driver = tokio::spawn(async move {
        let (_trigger, shutdown) = Shutdown::by_hand();
        drive(start, Arc::new(engine()), inbound, outbox, shutdown, &mut Nobody).await
    });
    (driver, from_miner)
}

/// Takes these steps with a driver.
async fn take(
    steps: &[(&str, DriverStep)],
    to_miner: &mpsc::Sender<Result<ValidatorMessage, String>>,
    from_miner: &mut mpsc::UnboundedReceiver<MinerMessage>,
) {
    for (_, step) in steps {
        match step {
            DriverStep::Says(message) => to_miner.send(Ok(message.clone())).await.expect("the driver reads"),
            DriverStep::Hears(is) => while !is(&from_miner.recv().await.expect("the driver goes on")) {},
        }
    }
}

/// The end of a miner's driver after these steps, when `inbound` then gives an error, for a malformed message, or ends.
async fn driven(
    recording: &Recording,
    steps: &[(&str, DriverStep)],
    problem: Option<&str>,
) -> Result<CloseReason, String> {
    let (to_miner, inbound) = mpsc::channel(16);
    let (driver, mut from_miner) = start_driver(recording, ReceiverStream::new(inbound), SharedLimits::default());
    take(steps, &to_miner, &mut from_miner).await;
    if let Some(problem) = problem {
        // A session that is over does not read it.
        let _ = to_miner.send(Err(problem.to_owned())).await;
    }
    drop(to_miner);
    let ended = driver.await.expect("the driver does not panic");
    while from_miner.recv().await.is_some() {}
    ended
}

/// A stream that always has another message.
struct Flood(ValidatorMessage);

impl Stream for Flood {
    type Item = Result<ValidatorMessage, String>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Ok(self.0.clone())))
    }
}

/// A validator that always has another message keeps the devices no longer than the miner's operator allows.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_messages_keeps_no_limit_from_its_effect() {
    let recording = Recording::of(Mode::Audit);
    let steps = driver_steps(&recording);
    let committed = steps.iter().position(|(state, _)| *state == "committed").expect("a challenge is committed to");
    let verdict = first(&recording, |m| matches!(m, ValidatorMessage::Verdict(_)));
    let ValidatorMessage::Verdict(mut verdict) = verdict else { unreachable!("it is one") };
    verdict.challenge_id = ChallengeId([0xee; 16]);
    let limits = Limits { max_challenge: Some(Duration::from_secs(1)), ..Limits::default() };
    let (to_miner, inbound) = mpsc::channel(16);
    let inbound = ReceiverStream::new(inbound).chain(Flood(ValidatorMessage::Verdict(verdict)));
    let (driver, mut from_miner) = start_driver(&recording, inbound, SharedLimits::new(limits));
    take(&steps[..=committed], &to_miner, &mut from_miner).await;
    drop(to_miner);
    let stopped = async {
        while let Some(message) = from_miner.recv().await {
            if let MinerMessage::Abort(stop) = message {
                return stop.code;
            }
        }
        unreachable!("the flood does not end")
    };
    let stopped = tokio::time::timeout(Duration::from_secs(60), stopped).await;
    driver.abort();
    assert_eq!(stopped, Ok(StopCode::Declined));
}

/// The rows of events that the session never sees: its driver ends the stream.
fn ends_of_streams(table: &mut StateTable) {
    let recording = Recording::of(Mode::Audit);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let steps = driver_steps(&recording);
    for end in 1..=steps.len() {
        let state = steps[end - 1].0;
        for (kind, problem) in [("malformed", Some("it cannot be read")), ("end of stream", None)] {
            let driven = driven(&recording, &steps[..end], problem);
            let ended = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), driven).await });
            let found = match ended.expect("it ends at once") {
                Err(why) if problem == Some(&why) => "end",
                Err(why) if problem.is_none() && why == "the validator closed the stream" => "over",
                Ok(CloseReason::Goodbye { .. }) if state == "closed" => "drop",
                other => panic!("{kind} in {state}: {other:?}"),
            };
            assert_eq!(found, table.cell(kind, Named::None, state), "{kind} in {state}");
        }
    }
}
