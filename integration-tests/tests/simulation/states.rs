//! docs/PROTOCOL.md, States: a validator reacts to each message in each state as the page's table says.

use std::time::Duration;

use assay_judge::action::Action;
use assay_judge::bounds::MAX_MESSAGES_PER_PING;
use assay_judge::session::StartError;
use assay_protocol::message::{Inventory, MinerMessage, RefusedCode, Stop, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, Outcome, Reason, ReasonCode};
use assay_work::ChallengeId;

use super::recording::{Recording, Step};
use super::standing::{challenge_of, kind_of_miner, name_challenge};
use super::table::{Named, StateTable, cells, page};
use super::validator::{PING_INTERVAL, Validator};

/// The code that the miner stops with, and the reason that it gives.
const STOPPED: (StopCode, ReasonCode) = (StopCode::DeviceLost, ReasonCode::DeviceSick);
const MODES: [Mode; 3] = [Mode::Audit, Mode::ReplaySample, Mode::Replay];

#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a table of a dozen is built, and nearly all are messages")]
enum Subject {
    Malformed,
    EndOfStream,
    Message(MinerMessage),
}

impl Subject {
    fn give(&self, validator: &mut Validator) -> Vec<Action> {
        match self {
            Self::Malformed => validator.session.malformed("a field is out of bounds"),
            Self::EndOfStream => validator.session.disconnected("the miner ended the stream"),
            Self::Message(message) => validator.give(message),
        }
    }
}

/// The messages that name no challenge, each as an honest miner sends it next.
fn about_none(validator: &mut Validator, recording: &Recording) -> Vec<(&'static str, Subject)> {
    let first =
        |is: fn(&MinerMessage) -> bool| Subject::Message(recording.sent.iter().find(|m| is(m)).unwrap().clone());
    let inventory =
        Inventory { sequence: validator.standing.inventory.sequence + 1, ..validator.standing.inventory.clone() };
    vec![
        ("malformed", Subject::Malformed),
        ("Hello", first(|m| matches!(m, MinerMessage::Hello(_)))),
        ("Proof", first(|m| matches!(m, MinerMessage::Proof(..)))),
        ("Inventory", Subject::Message(MinerMessage::Inventory(inventory))),
        ("Pong", Subject::Message(MinerMessage::Pong(validator.ping()))),
        ("Goodbye", Subject::Message(MinerMessage::Goodbye(STOPPED.0, String::new()))),
        ("end of stream", Subject::EndOfStream),
    ]
}

/// The messages about the challenge `id`, each as an honest miner sends it next where it has one left to send.
fn about(id: ChallengeId, given: &[Step], recording: &Recording) -> Vec<(&'static str, Subject)> {
    let stop = || Stop { challenge_id: id, code: STOPPED.0, detail: String::new() };
    let mut messages = vec![
        ("Declined", MinerMessage::Declined(stop())),
        ("Abort", MinerMessage::Abort(stop())),
        ("Progress", MinerMessage::Progress { challenge_id: id, done_slots: 0, all_slots: 1, finished: None }),
    ];
    for kind in ["Commitment", "DeviceRoots", "ProbeAnswer", "DeviceDigests", "OpeningsChunk"] {
        let is_it = |message: &&MinerMessage| kind_of_miner(message) == kind;
        let of_id = |message: &&MinerMessage| is_it(message) && challenge_of(message) == Some(id);
        let came = given.iter().filter_map(Step::message).filter(of_id).count();
        let next = recording.sent.iter().filter(of_id).nth(came);
        let mut message = next.or_else(|| recording.sent.iter().find(is_it)).expect("the miner sends each").clone();
        name_challenge(&mut message, id);
        messages.push((kind, message));
    }
    messages.into_iter().map(|(kind, message)| (kind, Subject::Message(message))).collect()
}

/// The session's reaction to a subject, in the words of the page; a text of its own where no words fit.
fn done(validator: &mut Validator, kind: &str, subject: &Subject) -> String {
    let (state, before) = (validator.standing.state, validator.shown());
    let ran = validator.session.is_running();
    let actions = subject.give(validator);
    let mut actions = validator.concluded(actions);
    // Entries for the case are not an answer.
    actions.retain(|action| !matches!(action, Action::Record(_)));
    let verdict = actions.iter().find_map(|action| match action {
        Action::Judged(verdict) => Some(verdict.reasons.iter().map(|reason| reason.code).collect::<Vec<_>>()),
        _ => None,
    });
    let says = |is: fn(&ValidatorMessage) -> bool| actions.iter().any(|a| matches!(a, Action::Send(m, _) if is(m)));
    let closes = matches!(actions.last(), Some(Action::Close(_)));
    let refuses = says(|m| matches!(m, ValidatorMessage::Refused { code: RefusedCode::Malformed, .. }));
    let ends = says(|m| matches!(m, ValidatorMessage::Goodbye(StopCode::Invalid, _)));
    let concludes = says(|m| matches!(m, ValidatorMessage::Verdict(_)));
    let after = validator.shown();
    let is_over = validator.session.poll_timeout(validator.now).is_none();
    let described = format!("{actions:?}");
    let is_silent = actions.is_empty();
    validator.carry_out(actions);
    let left = left_as(state, subject);
    match verdict.as_deref() {
        _ if concludes != verdict.is_some() => format!("the verdict is not sent: {described}"),
        None if refuses && closes && !ran => "refuse".into(),
        None if ends && closes && !ran => "end".into(),
        Some([ReasonCode::Protocol]) if ends && closes => "end".into(),
        _ if refuses || ends => format!("of both kinds: {described}"),
        None if closes && !ran => "leave".into(),
        // The verdict comes without the miner.
        None if state == "judging" && is_silent && is_over && before != after => "leave".into(),
        Some([code]) if closes && Some(*code) == left => "leave".into(),
        _ if closes || is_over && state != "closed" => format!("closed: {described}"),
        Some([ReasonCode::Protocol]) => "protocol".into(),
        Some([ReasonCode::CommitmentChallenge]) if kind == "Commitment" => "challenge".into(),
        Some([ReasonCode::ProbeChallenge]) if kind == "ProbeAnswer" => "challenge".into(),
        Some([ReasonCode::CommitmentTwice]) if kind == "Commitment" => "twice".into(),
        Some([ReasonCode::ProbeTwice]) if kind == "ProbeAnswer" => "twice".into(),
        Some([ReasonCode::AuditRows]) => "rows".into(),
        Some([code]) if Some(*code) == left => "stop".into(),
        None if is_silent && before == after => "drop".into(),
        // After the last opening of an audit, the verdict: a pass.
        None | Some([]) if validator.verdicts.iter().all(|v| v.outcome != Outcome::Fail) => "take".into(),
        _ => format!("something else: {described}"),
    }
}

/// The reason for a challenge that the miner ends, by the page.
fn left_as(state: &str, subject: &Subject) -> Option<ReasonCode> {
    let code = match subject {
        Subject::EndOfStream => ReasonCode::Disconnected,
        Subject::Message(MinerMessage::Goodbye(..) | MinerMessage::Declined(_) | MinerMessage::Abort(_)) => STOPPED.1,
        _ => return None,
    };
    Some(if state == "opening" { ReasonCode::Abandoned } else { code })
}

/// The first and the last moment of each state in a recording, and sessions that are over.
fn moments(recording: &Recording) -> Vec<(&'static str, Vec<Step>)> {
    let steps = &recording.validator;
    let mut validator = Validator::new(recording);
    let mut found: Vec<(&'static str, usize, usize)> = vec![(validator.standing.state, 0, 0)];
    for (at, step) in steps.iter().enumerate() {
        validator.take(step);
        match found.iter_mut().find(|found| found.0 == validator.standing.state) {
            Some(found) => found.2 = at + 1,
            None => found.push((validator.standing.state, at + 1, at + 1)),
        }
    }
    let goodbye = Step::Message(MinerMessage::Goodbye(StopCode::Draining, String::new()));
    let mut moments = Vec::new();
    for (state, first, last) in found {
        moments.push((state, steps[..first].to_vec()));
        moments.push((state, steps[..last].to_vec()));
        // In the handshake this is refused. While it is judged, the session goes on to the verdict.
        if state != "judging" {
            moments.push(("closed", [&steps[..last], std::slice::from_ref(&goodbye)].concat()));
        }
    }
    moments
}

impl Step {
    const fn message(&self) -> Option<&MinerMessage> {
        match self {
            Self::Message(message) => Some(message),
            Self::Start(_) | Self::Stop(_) => None,
        }
    }
}

#[test]
fn a_validator_does_what_the_table_of_its_states_says() {
    let mut table = StateTable::read("states");
    let mut wrong = Vec::new();
    for mode in MODES {
        let recording = Recording::of(mode);
        for (state, steps) in moments(&recording) {
            let fresh = || Validator::after(&recording, &steps);
            assert_eq!(fresh().standing.state, state, "in mode {mode}");
            let subjects = |named| match named {
                Named::None => about_none(&mut fresh(), &recording),
                named => fresh().id(named).map(|id| about(id, &steps, &recording)).unwrap_or_default(),
            };
            for named in [Named::None, Named::This, Named::Committed, Named::Ended, Named::Other] {
                for (kind, subject) in subjects(named) {
                    let expected = table.cell(kind, named, state);
                    let mut validator = fresh();
                    // As for the subject: a ping may have to be sent first.
                    if kind == "Pong" {
                        validator.ping();
                    }
                    let found = done(&mut validator, kind, &subject);
                    if found != expected {
                        let place = format!("{kind} of {named:?} in {state}, after {} steps, mode {mode}", steps.len());
                        wrong.push(format!("{place}: the page says {expected}, the session did {found:.300}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{} in all", wrong.join("\n"), wrong.len());
    table.assert_all_seen();
}

/// The moments at which a miner is connected, in mode replay: it has all states.
fn connected(recording: &Recording) -> Vec<(&'static str, Vec<Step>)> {
    let is_connected = |state: &str| !matches!(state, "hello" | "proof" | "closed");
    moments(recording).into_iter().filter(|(state, _)| is_connected(state)).collect()
}

#[test]
fn an_inventory_out_of_sequence_and_a_pong_for_no_ping_end_the_session() {
    let recording = Recording::of(Mode::Replay);
    for (state, steps) in connected(&recording) {
        let mut validator = Validator::after(&recording, &steps);
        let (sequence, ping) = (validator.standing.inventory.sequence, validator.ping());
        let inventory = |sequence| MinerMessage::Inventory(Inventory { sequence, ..recording.inventory.clone() });
        let refused = [inventory(sequence), inventory(sequence + 2), MinerMessage::Pong(ping.wrapping_add(1))];
        for message in refused {
            let mut validator = Validator::after(&recording, &steps);
            validator.ping();
            assert_eq!(done(&mut validator, "", &Subject::Message(message)), "end", "in {state}");
        }
        let pong = Subject::Message(MinerMessage::Pong(ping));
        assert_eq!(done(&mut validator, "Pong", &pong), "take", "in {state}");
        assert_eq!(done(&mut validator, "Pong", &pong), "end", "a second time, in {state}");
    }
}

#[test]
fn a_message_more_than_a_ping_interval_may_have_ends_the_session() {
    let recording = Recording::of(Mode::Replay);
    for (state, steps) in connected(&recording) {
        let mut validator = Validator::after(&recording, &steps);
        // The count begins anew with the ping.
        validator.now += PING_INTERVAL;
        validator.tick();
        let mut next = || {
            let sequence = validator.standing.inventory.sequence + 1;
            let message = MinerMessage::Inventory(Inventory { sequence, ..recording.inventory.clone() });
            let found = done(&mut validator, "Inventory", &Subject::Message(message.clone()));
            validator.note_message(&message);
            found
        };
        for _ in 0..MAX_MESSAGES_PER_PING {
            assert_eq!(next(), "take", "in {state}");
        }
        assert_eq!(next(), "end", "in {state}");
    }
}

#[test]
fn the_last_eight_challenges_that_ended_are_known() {
    let recording = Recording::of(Mode::Audit);
    let start = recording.validator.iter().find(|step| matches!(step, Step::Start(_))).unwrap();
    let begun = recording.validator.iter().position(|step| matches!(step, Step::Start(_))).unwrap();
    let stop = Step::Stop(Reason::new(ReasonCode::ValidatorOverloaded, "the test ends it"));
    let nine: Vec<_> = (0..9).flat_map(|_| [start.clone(), stop.clone()]).collect();
    let after_nine = || Validator::after(&recording, &[&recording.validator[..begun], &nine].concat());
    for at in 0..9 {
        let mut validator = after_nine();
        let challenge_id = validator.standing.ended[at].0;
        let progress = MinerMessage::Progress { challenge_id, done_slots: 0, all_slots: 1, finished: None };
        let found = done(&mut validator, "Progress", &Subject::Message(progress));
        assert_eq!(found, if at == 0 { "end" } else { "drop" }, "about challenge {at} of nine");
    }
}

#[test]
fn who_leaves_while_it_is_judged_has_a_verdict_and_is_not_heard_any_more() {
    let recording = Recording::of(Mode::Replay);
    let after = || {
        let mut validator = Validator::after(&recording, &recording.validator);
        assert_eq!((validator.standing.state, validator.session.is_running()), ("judging", true));
        assert_eq!(done(&mut validator, "end of stream", &Subject::EndOfStream), "leave");
        validator
    };
    let subjects = about_none(&mut after(), &recording);
    let id = after().standing.this.unwrap();
    for (kind, subject) in subjects.into_iter().chain(about(id, &recording.validator, &recording)) {
        let mut validator = after();
        let before = validator.shown();
        assert!(subject.give(&mut validator).is_empty(), "{kind}");
        assert_eq!(validator.shown(), before, "{kind}");
    }
    let (_, progress) = about(id, &recording.validator, &recording).swap_remove(2);
    let mut validator = after();
    for _ in 0..=MAX_MESSAGES_PER_PING {
        assert!(progress.give(&mut validator).is_empty(), "not even too many");
    }
    let mut validator = after();
    let actions = validator.session.replayed(id, Ok(()));
    let actions = validator.concluded(actions);
    assert!(matches!(actions.last(), Some(Action::Close(_))), "{actions:?}");
    validator.carry_out(actions);
    assert_eq!((validator.verdicts.last().unwrap().outcome, validator.standing.state), (Outcome::Pass, "closed"));
}

#[test]
fn nothing_is_told_of_a_verdict_before_it_is_recorded() {
    let recording = Recording::of(Mode::Replay);
    let mut validator = Validator::after(&recording, &recording.validator);
    let mut actions = validator.session.stop_run(Reason::new(ReasonCode::Cancelled, "by the test"));
    assert!(actions.iter().all(|action| !matches!(action, Action::Send(..) | Action::Close(_))), "{actions:?}");
    let Some(Action::Judged(verdict)) = actions.pop() else { panic!("{actions:?}") };
    // Meanwhile no challenge starts, and an input that would end the session waits.
    let again = recording.validator.iter().find(|step| matches!(step, Step::Start(_))).unwrap();
    let Step::Start(policy) = again else { unreachable!() };
    assert_eq!(validator.start(policy).err(), Some(StartError::Busy));
    assert!(validator.session.malformed("a field is out of bounds").is_empty());
    assert!(validator.session.is_over() && !validator.session.is_running());
    let actions = validator.session.concluded(Some(verdict));
    let [Action::Send(told, _), Action::Send(goodbye, _), Action::Close(_)] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert!(matches!(told, ValidatorMessage::Verdict(_)), "{told:?}");
    assert!(matches!(goodbye, ValidatorMessage::Goodbye(StopCode::Invalid, _)), "{goodbye:?}");
}

#[test]
fn a_challenge_ends_by_the_stop_code_as_its_table_says() {
    let page = page();
    let (_, after) = page.split_once("\n| stop code |").expect("the table of stop codes is there");
    let rows = after.lines().skip(2).take_while(|line| line.starts_with('|')).map(cells);
    let codes = [
        ("BUSY", StopCode::Busy),
        ("DRAINING", StopCode::Draining),
        ("NOT_ENOUGH_MEMORY", StopCode::NotEnoughMemory),
        ("DEVICE_LOST", StopCode::DeviceLost),
        ("INVALID", StopCode::Invalid),
        ("STALE_INVENTORY", StopCode::StaleInventory),
        ("UNSUPPORTED", StopCode::Unsupported),
        ("DEADLINE", StopCode::Deadline),
        ("INTERNAL", StopCode::Internal),
        ("DECLINED", StopCode::Declined),
    ];
    let recording = Recording::of(Mode::Replay);
    let mut found = 0;
    for (row, (name, code)) in rows.zip(codes) {
        let number: i32 = assay_protocol::wire::v1::StopCode::from(code).into();
        assert_eq!(row[0], format!("`{name}` ({number})"));
        for (state, steps) in connected(&recording) {
            let expected = match (state, code) {
                ("idle" | "judging", _) => continue,
                ("working", StopCode::Deadline) => "commitment_late",
                ("roots" | "probing", StopCode::Deadline) => "probe_late",
                ("digests", StopCode::Deadline) => "digests_late",
                ("opening", StopCode::Deadline) => "openings_late",
                ("opening", _)
                | (
                    "roots" | "probing" | "digests",
                    StopCode::Busy
                    | StopCode::Draining
                    | StopCode::Invalid
                    | StopCode::StaleInventory
                    | StopCode::Declined,
                ) => "abandoned",
                _ => row[2].trim_matches('`'),
            };
            let validator = Validator::after(&recording, &steps);
            let stop = Stop { challenge_id: validator.standing.this.unwrap(), code, detail: String::new() };
            let mut messages = vec![MinerMessage::Abort(stop.clone())];
            if state == "working" {
                messages.push(MinerMessage::Declined(stop));
            }
            for message in messages {
                let mut validator = Validator::after(&recording, &steps);
                let actions = validator.give(&message);
                validator.carry_out(actions);
                let [reason] = &validator.verdicts.last().unwrap().reasons[..] else { panic!("not one reason") };
                assert_eq!(reason.code.name(), expected, "{name} in {state}");
            }
        }
        found += 1;
    }
    assert_eq!(found, codes.len(), "a row for each code");
}

/// A message may be read before the clock is looked at.
#[test]
fn a_message_behind_its_deadline_is_late_where_no_tick_came_first() {
    let recording = Recording::of(Mode::Audit);
    for (kind, code) in [
        ("Commitment", ReasonCode::CommitmentLate),
        ("DeviceRoots", ReasonCode::RootsLate),
        ("ProbeAnswer", ReasonCode::ProbeLate),
        ("DeviceDigests", ReasonCode::DigestsLate),
    ] {
        let is_it = |step: &Step| step.message().is_some_and(|message| kind_of_miner(message) == kind);
        let at = recording.validator.iter().rposition(is_it).unwrap();
        let mut validator = Validator::after(&recording, &recording.validator[..at]);
        validator.now += Duration::from_secs(3600);
        let actions = validator.give(recording.validator[at].message().unwrap());
        let judged = actions.iter().find_map(|action| match action {
            Action::Judged(verdict) => Some(verdict.reasons[0].code),
            _ => None,
        });
        assert_eq!(judged, Some(code), "{kind}");
    }
}
