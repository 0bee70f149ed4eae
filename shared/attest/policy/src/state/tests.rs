use super::*;
use crate::rules::Cause;
use proptest::prelude::*;

const DAY: u64 = 86_400;

fn pass() -> Event {
    Event::Verdict { outcome: Outcome::Pass, codes: Vec::new(), heavy: false, age_s: 0, busy_every_s: 0 }
}

fn heavy_pass() -> Event {
    Event::Verdict { outcome: Outcome::Pass, codes: Vec::new(), heavy: true, age_s: 0, busy_every_s: 0 }
}

fn fail() -> Event {
    Event::Verdict {
        outcome: Outcome::Fail,
        codes: vec![ReasonCode::AuditElement],
        heavy: false,
        age_s: 0,
        busy_every_s: 0,
    }
}

fn unclear(code: ReasonCode) -> Event {
    Event::Verdict { outcome: Outcome::Inconclusive, codes: vec![code], heavy: false, age_s: 0, busy_every_s: 0 }
}

/// A miner with events one minute apart.
struct Miner {
    standing: Standing,
    rules: Rules,
    now_s: u64,
}

impl Miner {
    fn new() -> Self {
        Self { standing: Standing::enrolled(DAY), rules: Rules::default(), now_s: DAY }
    }

    fn sees(&mut self, event: &Event) -> Option<Change> {
        self.after(60, event)
    }

    fn after(&mut self, seconds: u64, event: &Event) -> Option<Change> {
        self.now_s += seconds;
        let (standing, change) = step(&self.standing, event, &self.rules, self.now_s);
        self.standing = standing;
        change
    }

    fn state(&self) -> State {
        self.standing.state
    }
}

/// Whatever two records hold, their miner owes, and has counted against it, no less than either.
#[test]
fn two_records_that_become_one_shed_nothing() {
    let reached = |events: &[Event]| {
        let mut miner = Miner::new();
        events.iter().for_each(|event| drop(miner.sees(event)));
        miner.standing
    };
    let passed = vec![pass(); 3];
    let [suspect, expired] = [1, 40].map(|count| [passed.clone(), vec![Event::Missed; count]].concat());
    let failed = [passed.clone(), vec![fail(), pass()]].concat();
    let set_apart = vec![Event::Operator(Word::Quarantine), Event::Operator(Word::Suspend)];
    let all: Vec<_> =
        [vec![], passed, suspect, expired, failed, vec![fail(); 5], set_apart].map(|it| reached(&it)).into();
    let rules = Rules::default();
    for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
        let joined = one.clone().joined(other.clone());
        let back = other.clone().joined(one.clone());
        assert_eq!((joined.state, joined.owed(&rules)), (back.state, back.owed(&rules)));
        for before in [one, other] {
            assert!(joined.state.strictness() >= before.state.strictness(), "{before:?}");
            assert!(
                joined.fails.len() >= before.fails.len() && joined.quarantine.is_some() >= before.quarantine.is_some()
            );
            assert!(before.unclear.iter().all(|(cause, times)| joined.unclear[cause].len() >= times.len()));
            let owes = before.owed(&rules);
            assert!(joined.owed(&rules) >= owes || before.state == State::Enrolled, "{before:?} in {joined:?}");
        }
    }
    let renewed = reached(&[]).joined(all[3].clone());
    assert_eq!((renewed.state, renewed.debt), (State::Expired, all[3].debt), "a key that was only seen");
}

#[test]
fn a_new_miner_is_attested_by_its_first_passes() {
    let mut miner = Miner::new();
    miner.rules.returning = crate::rules::Return { first: 2, after_expiry: 2, after_fail: 3, heavy: false };
    assert_eq!(miner.sees(&pass()), None);
    assert_eq!(miner.standing.owed(&miner.rules), 1);
    let change = miner.sees(&pass()).unwrap();
    assert_eq!((change.from, change.to, change.why), (State::Enrolled, State::Passing, StateReason::Passed));
    assert_eq!(change.detail, "2 passes in a row");
    assert_eq!(miner.standing.attested_until_s(&miner.rules), Some(miner.now_s + DAY));
}

#[test]
fn a_fail_ends_an_attestation_and_costs_passes_in_a_row() {
    let mut miner = Miner::new();
    miner.sees(&pass());
    let change = miner.sees(&fail()).unwrap();
    assert_eq!((change.to, change.why, &*change.detail), (State::Failed, StateReason::Failed, "audit_element"));
    miner.sees(&pass());
    miner.sees(&pass());
    // An inconclusive result breaks the sequence.
    miner.sees(&unclear(ReasonCode::MinerBusy));
    miner.sees(&pass());
    miner.sees(&pass());
    assert_eq!(miner.state(), State::Failed);
    assert_eq!(miner.sees(&pass()).unwrap().to, State::Passing);
}

/// Regression test: one due challenge that was asked for again for ten minutes counted twelve times.
#[test]
fn a_due_challenge_that_is_asked_for_again_counts_once_in_its_time() {
    let again = |code| Event::Verdict {
        outcome: Outcome::Inconclusive,
        codes: vec![code],
        heavy: false,
        age_s: 0,
        busy_every_s: 600,
    };
    let mut miner = Miner::new();
    miner.sees(&pass());
    let counted = |miner: &Miner| miner.standing.unclear_of(Cause::Busy, &miner.rules, miner.now_s);
    miner.sees(&unclear(ReasonCode::MinerBusy));
    for _ in 0..9 {
        miner.sees(&again(ReasonCode::MinerBusy));
    }
    assert_eq!((miner.state(), counted(&miner), miner.standing.totals.declined), (State::Passing, 1, 10));
    miner.sees(&again(ReasonCode::MinerBusy));
    assert_eq!(counted(&miner), 2, "ten minutes after the first");
    miner.sees(&unclear(ReasonCode::MinerBusy));
    assert_eq!(counted(&miner), 3, "another one that is due");
    for _ in 0..9 * 10 {
        miner.sees(&again(ReasonCode::MinerBusy));
    }
    assert_eq!((miner.state(), counted(&miner)), (State::Expired, 12), "no host is busy for ever");
    // Of a group whose mean is long, too: a day has as many as the limit.
    let mut miner = Miner::new();
    miner.rules.grace.limits.insert(Cause::Busy, crate::rules::Limit { suspect: 20, expire: 40 });
    miner.sees(&pass());
    let busy = Event::Verdict {
        outcome: Outcome::Inconclusive,
        codes: vec![ReasonCode::MinerBusy],
        heavy: false,
        age_s: 0,
        busy_every_s: 7200,
    };
    for _ in 0..DAY / 60 - 1 {
        miner.sees(&busy);
    }
    assert_eq!(miner.state(), State::Expired);
}

#[test]
fn a_miner_that_is_busy_too_often_expires_and_never_fails() {
    let mut miner = Miner::new();
    miner.sees(&pass());
    let mut states = Vec::new();
    for _ in 0..40 {
        miner.sees(&unclear(ReasonCode::MinerBusy));
        // Passes in between do not allow more declines.
        miner.sees(&pass());
        states.push(miner.state());
    }
    assert_eq!(miner.standing.totals.declined, 40);
    let busy = miner.rules.grace.limit(Cause::Busy);
    let first = |state| states.iter().position(|other| *other == state).unwrap() as u32 + 1;
    assert_eq!(first(State::Suspect), busy.suspect);
    assert!(!states.contains(&State::Failed) && !states.contains(&State::Quarantined));
    // From the limit on every decline ends the attestation, until the window has passed.
    let mut miner = Miner::new();
    miner.sees(&pass());
    for count in 1..=busy.expire {
        let change = miner.sees(&unclear(ReasonCode::MinerBusy));
        let expected = match count {
            _ if count == busy.suspect => Some(State::Suspect),
            _ if count == busy.expire => Some(State::Expired),
            _ => None,
        };
        assert_eq!(change.map(|change| change.to), expected, "{count}");
    }
    let change = miner.sees(&pass()).unwrap();
    assert_eq!(change.to, State::Suspect, "attested, and in doubt");
    assert_eq!(miner.sees(&unclear(ReasonCode::MinerBusy)).unwrap().to, State::Expired);
    assert_eq!(miner.after(miner.rules.grace.window_s, &pass()).unwrap().to, State::Passing, "the window has passed");
}

#[test]
fn breaking_off_costs_as_much_as_a_fail() {
    for code in [ReasonCode::Abandoned, ReasonCode::DeviceSick, ReasonCode::MinerInternal] {
        let mut miner = Miner::new();
        miner.sees(&pass());
        let cause = Cause::of(code).unwrap();
        for _ in 0..miner.rules.grace.limit(cause).expire {
            miner.sees(&unclear(code));
        }
        assert_eq!(miner.state(), State::Expired, "{code}");
        assert_eq!(miner.standing.debt, Some(Debt::Fail));
        assert_eq!(miner.standing.owed(&miner.rules), miner.rules.returning.after_fail);
    }
}

#[test]
fn causes_in_turn_are_counted_together() {
    let mut miner = Miner::new();
    miner.rules.grace.any = crate::rules::Limit { suspect: 3, expire: 5 };
    miner.sees(&pass());
    let codes = [ReasonCode::Disconnected, ReasonCode::NotEnoughMemory, ReasonCode::DeviceSick];
    for code in codes.iter().cycle().take(5) {
        assert_ne!(miner.state(), State::Expired);
        miner.sees(&unclear(*code));
    }
    assert_eq!(miner.state(), State::Expired);
}

#[test]
fn what_the_validator_could_not_do_counts_against_nobody() {
    let mut miner = Miner::new();
    miner.sees(&pass());
    for _ in 0..100 {
        miner.sees(&unclear(ReasonCode::ValidatorOverloaded));
    }
    assert_eq!(miner.state(), State::Passing);
    // They do not extend the attestation either.
    let change = miner.after(DAY, &unclear(ReasonCode::ValidatorOverloaded)).unwrap();
    assert_eq!((change.to, change.why), (State::Expired, StateReason::Outdated));
    assert_eq!(change.detail, "no challenge was passed for 1 day");
    // Breaking off remains the miner's own doing.
    let mut miner = Miner::new();
    miner.sees(&pass());
    let codes = vec![ReasonCode::Abandoned, ReasonCode::ValidatorOverloaded];
    miner.sees(&Event::Verdict { outcome: Outcome::Inconclusive, codes, heavy: false, age_s: 0, busy_every_s: 0 });
    assert_eq!(miner.state(), State::Suspect);
}

#[test]
fn a_miner_that_is_not_there_expires() {
    let mut miner = Miner::new();
    miner.sees(&pass());
    for _ in 0..miner.rules.grace.limit(Cause::Absent).expire {
        miner.sees(&Event::Missed);
    }
    assert_eq!(miner.state(), State::Expired);
    assert_eq!(miner.sees(&pass()).unwrap().to, State::Suspect, "one pass, while it was absent a little ago");
}

#[test]
fn repeated_fails_bring_a_quarantine_in_which_passes_do_not_count() {
    let mut miner = Miner::new();
    miner.sees(&pass());
    miner.sees(&fail());
    miner.sees(&fail());
    let change = miner.sees(&fail()).unwrap();
    assert_eq!((change.to, change.why), (State::Quarantined, StateReason::FailedOften));
    assert_eq!(change.detail, "audit_element: 3 fails within 7 days");
    for _ in 0..10 {
        assert_eq!(miner.sees(&pass()), None);
    }
    assert_eq!(miner.standing.because, "audit_element: 3 fails within 7 days", "no pass takes that away");
    let change = miner.after(DAY, &Event::Tick).unwrap();
    assert_eq!((change.to, change.why), (State::Failed, StateReason::QuarantineOver));
    assert_eq!(miner.standing.owed(&miner.rules), 3);
    assert_eq!(miner.standing.because, "audit_element: 3 fails within 7 days");
    // Another fail in the window starts another quarantine.
    assert_eq!(miner.sees(&fail()).unwrap().to, State::Quarantined);
}

#[test]
fn an_operator_s_quarantine_lasts_until_it_is_released() {
    let mut miner = Miner::new();
    miner.sees(&pass());
    assert_eq!(miner.sees(&Event::Operator(Word::Quarantine)).unwrap().to, State::Quarantined);
    assert_eq!(miner.after(1000 * DAY, &Event::Tick), None);
    assert_eq!(miner.sees(&Event::Operator(Word::Release)).unwrap().to, State::Failed);
    assert_eq!(miner.standing.owed(&miner.rules), 3, "released, and not attested");
    for because in ["set apart by an operator", "set apart by an operator", ""] {
        miner.sees(&pass());
        assert_eq!(miner.standing.because, because);
    }
    assert_eq!(miner.state(), State::Passing);
}

#[test]
fn suspending_does_not_undo_a_fail() {
    for (word, state) in [(Word::Suspend, State::Suspended), (Word::Revoke, State::Revoked)] {
        let mut miner = Miner::new();
        miner.sees(&pass());
        miner.sees(&fail());
        assert_eq!(miner.sees(&Event::Operator(word)).unwrap().to, state);
        for event in [pass(), fail(), unclear(ReasonCode::MinerBusy), Event::Tick] {
            assert_eq!(miner.sees(&event), None);
        }
        assert_eq!(miner.sees(&Event::Operator(Word::Resume)).unwrap().to, State::Failed);
        assert_eq!(miner.standing.owed(&miner.rules), 3);
    }
    let mut miner = Miner::new();
    miner.sees(&pass());
    miner.sees(&Event::Operator(Word::Suspend));
    assert_eq!(miner.sees(&Event::Operator(Word::Resume)).unwrap().to, State::Enrolled);
    assert_eq!(miner.sees(&pass()).unwrap().to, State::Passing);
}

#[test]
fn a_finding_that_proves_a_lie_fails_and_a_warning_does_not() {
    let mut miner = Miner::new();
    miner.sees(&pass());
    let warning = Event::Finding { code: FindingCode::DeviceMoved, fails: false };
    assert_eq!(miner.sees(&warning), None);
    let lie = Event::Finding { code: FindingCode::DeviceAtTwoMiners, fails: true };
    let change = miner.sees(&lie).unwrap();
    assert_eq!((change.to, change.why, &*change.detail), (State::Failed, StateReason::Finding, "device_at_two_miners"));
}

#[test]
fn light_passes_do_not_stand_in_for_heavy_ones() {
    let mut miner = Miner::new();
    miner.rules.heavy_expires_after_s = Some(DAY / 2);
    assert_eq!(miner.sees(&pass()), None, "a light pass alone attests nothing");
    assert!(miner.standing.needs_heavy(&miner.rules, miner.now_s));
    assert_eq!(miner.sees(&heavy_pass()).unwrap().to, State::Passing);
    assert!(!miner.standing.needs_heavy(&miner.rules, miner.now_s));
    // A heavy challenge without a result is repeated.
    let codes = vec![ReasonCode::MinerBusy];
    miner.sees(&Event::Verdict { outcome: Outcome::Inconclusive, codes, heavy: true, age_s: 0, busy_every_s: 0 });
    miner.sees(&pass());
    assert!(miner.standing.needs_heavy(&miner.rules, miner.now_s));
    let change = miner.after(DAY / 2, &pass()).unwrap();
    assert_eq!((change.to, &*change.detail), (State::Expired, "no heavy challenge was passed for 12 hours"));
    // After a fail only heavy passes count.
    miner.sees(&fail());
    for _ in 0..10 {
        assert_eq!(miner.sees(&pass()), None);
    }
    miner.sees(&heavy_pass());
    miner.sees(&heavy_pass());
    assert_eq!(miner.sees(&heavy_pass()).unwrap().to, State::Passing);
}

/// Every input, in the order of the table's columns.
const INPUTS: [Input; 15] = [
    Input::Passed,
    Input::Cleared,
    Input::ClearedInDoubt,
    Input::Unclear,
    Input::Doubted,
    Input::Exhausted,
    Input::Outdated,
    Input::Failed,
    Input::Barred,
    Input::Served,
    Input::Suspended,
    Input::Revoked,
    Input::ResumedClean,
    Input::ResumedOwing,
    Input::ResumedBarred,
];

#[test]
fn only_passes_lead_to_an_attestation() {
    for state in State::ALL {
        for input in INPUTS {
            let after = next(state, input);
            let by_pass = matches!(input, Input::Cleared | Input::ClearedInDoubt);
            if after.is_attested() && !state.is_attested() {
                assert!(by_pass, "{state} to {after} by {input:?}");
            }
            let is_over = matches!(input, Input::ResumedClean | Input::ResumedOwing | Input::ResumedBarred);
            if !state.is_challenged() && !is_over {
                assert!(!after.is_challenged(), "{state} to {after} by {input:?}");
            }
            if state == State::Quarantined && after != State::Quarantined {
                assert!(matches!(input, Input::Served | Input::Suspended | Input::Revoked), "to {after} by {input:?}");
            }
        }
    }
    assert_eq!(State::ALL.map(|state| State::named(state.name())), State::ALL.map(Some));
}

#[test]
fn a_standing_that_lacks_fields_attests_nothing() {
    let standing: Standing = serde_json::from_str("{}").unwrap();
    assert_eq!(standing, Standing::default());
    assert_eq!((standing.state, standing.debt), (State::Enrolled, Some(Debt::First)));
    let passing: Standing = serde_json::from_str(r#"{"state":"passing"}"#).unwrap();
    let (after, _) = step(&passing, &Event::Tick, &Rules::default(), DAY);
    assert_eq!(after.state, State::Expired, "without a pass that is known it ends at once");
}

/// The table in the form of docs/fleet.md.
fn table() -> String {
    let mut out =
        "| state | pass that settles | pass in doubt | too many inconclusive | too old | fail | quarantine |\n"
            .to_owned();
    out.push_str("|---|---|---|---|---|---|---|\n");
    let states = [State::Enrolled, State::Passing, State::Suspect, State::Failed, State::Expired, State::Quarantined];
    let columns =
        [Input::Cleared, Input::ClearedInDoubt, Input::Exhausted, Input::Outdated, Input::Failed, Input::Barred];
    for state in states {
        out.push_str(&format!("| `{state}` |"));
        for input in columns {
            let after = next(state, input);
            out.push_str(&if after == state { " |".to_owned() } else { format!(" `{after}` |") });
        }
        out.push('\n');
    }
    out
}

#[test]
fn the_page_shows_the_table() {
    let page = include_str!("../../../../../docs/fleet.md");
    assert!(page.contains(&table()), "docs/fleet.md lacks:\n{}", table());
}

/// Events that a miner can cause, and others.
fn event() -> impl Strategy<Value = Event> {
    let codes = ReasonCode::ALL.iter().copied().filter(|code| !code.class().fails()).collect::<Vec<_>>();
    let unclear = (proptest::sample::select(codes), any::<bool>()).prop_map(|(code, heavy)| Event::Verdict {
        outcome: Outcome::Inconclusive,
        codes: vec![code],
        heavy,
        age_s: 0,
        busy_every_s: 0,
    });
    let ages = prop_oneof![2 => Just(0), 1 => 0..3000_u64];
    let passed = (any::<bool>(), ages).prop_map(|(heavy, age_s)| Event::Verdict {
        outcome: Outcome::Pass,
        codes: Vec::new(),
        heavy,
        age_s,
        busy_every_s: 0,
    });
    let words = vec![Word::Suspend, Word::Resume, Word::Quarantine, Word::Release, Word::Revoke];
    prop_oneof![
        6 => passed,
        6 => unclear,
        2 => Just(Event::Missed),
        1 => Just(Event::Tick),
        1 => Just(fail()),
        1 => Just(Event::Finding { code: FindingCode::DeviceAtTwoMiners, fails: true }),
        1 => Just(Event::Finding { code: FindingCode::DeviceMoved, fails: false }),
        1 => proptest::sample::select(words).prop_map(Event::Operator),
    ]
}

prop_compose! {
    fn rules()(
        expires in 100..2000_u64, heavy in proptest::option::of(100..2000_u64), window in 100..3000_u64,
        limits in proptest::collection::vec((1..4_u32, 0..4_u32), 7), any in (1..5_u32, 0..5_u32),
        first in 1..3_u32, more in 0..2_u32, most in 0..3_u32, only_heavy in any::<bool>(),
        fails in 1..4_u32, period in proptest::option::of(100..2000_u64),
    ) -> Rules {
        let limit = |(suspect, more): (u32, u32)| crate::rules::Limit { suspect, expire: suspect + more };
        Rules {
            expires_after_s: expires,
            heavy_expires_after_s: heavy,
            grace: crate::rules::Grace {
                window_s: window,
                limits: Cause::ALL.into_iter().zip(limits.into_iter().map(limit)).collect(),
                any: limit(any),
            },
            returning: crate::rules::Return {
                first, after_expiry: first + more, after_fail: first + more + most, heavy: only_heavy,
            },
            quarantine: crate::rules::Quarantine { fails, window_s: window, period_s: period },
        }
    }
}

fn history() -> impl Strategy<Value = (Rules, Vec<(u64, Event)>)> {
    (rules(), proptest::collection::vec((0..400_u64, event()), 1..120))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// In any sequence of events, an attestation ends at its stated age after the last pass, and after the last heavy
    /// one.
    #[test]
    fn no_sequence_keeps_a_miner_attested_beyond_its_last_pass((rules, events) in history()) {
        let (mut standing, mut now_s) = (Standing::enrolled(DAY), DAY);
        let (mut last, mut last_heavy) = (None, None);
        for (wait, event) in events {
            now_s += wait;
            standing = step(&standing, &event, &rules, now_s).0;
            if let Event::Verdict { outcome: Outcome::Pass, heavy, age_s, .. } = event {
                let judged_s = Some(now_s - age_s);
                last = last.max(judged_s);
                last_heavy = if heavy { last_heavy.max(judged_s) } else { last_heavy };
            }
            if standing.state.is_attested() {
                let last: u64 = last.unwrap();
                prop_assert!(now_s - last < rules.expires_after_s);
                if let Some(after) = rules.heavy_expires_after_s {
                    prop_assert!(now_s - last_heavy.unwrap() < after);
                }
                prop_assert!(standing.attested_until_s(&rules).unwrap() > now_s);
                prop_assert_eq!(standing.owed(&rules), 0);
            }
        }
    }

    /// Only the stated number of consecutive passes undoes a fail.
    #[test]
    fn no_sequence_undoes_a_fail_but_passes((rules, events) in history()) {
        let (mut standing, mut now_s) = (Standing::enrolled(DAY), DAY);
        // Consecutive passes since the last fail.
        let mut since_fail = None::<u32>;
        for (wait, event) in events {
            now_s += wait;
            standing = step(&standing, &event, &rules, now_s).0;
            match &event {
                Event::Verdict { outcome: Outcome::Fail, .. } | Event::Finding { fails: true, .. } => {
                    since_fail = Some(0);
                    prop_assert!(!standing.state.is_attested());
                }
                Event::Verdict { outcome: Outcome::Pass, .. } => since_fail = since_fail.map(|passes| passes + 1),
                Event::Verdict { outcome: Outcome::Inconclusive, codes, .. }
                    if codes.iter().any(|code| Cause::of(*code).is_some()) && standing.state.is_challenged() =>
                {
                    since_fail = since_fail.map(|_| 0);
                }
                Event::Missed if standing.state.is_challenged() => since_fail = since_fail.map(|_| 0),
                _ => {}
            }
            // A pass that is too old pays too, and attests nothing.
            let is_paid = since_fail.is_some() && standing.debt != Some(Debt::Fail);
            if standing.state.is_attested() || is_paid {
                prop_assert!(since_fail.is_none_or(|passes| passes >= rules.returning.after_fail));
                since_fail = None;
            }
        }
    }

    /// Inconclusive results end the attestation once their cause reaches the limit, passes or not.
    #[test]
    fn no_sequence_evades_more_often_than_its_limit((rules, events) in history()) {
        let (mut standing, mut now_s) = (Standing::enrolled(DAY), DAY);
        let mut seen = Vec::<(u64, Cause)>::new();
        for (wait, event) in events {
            now_s += wait;
            let was_challenged = standing.state.is_challenged();
            standing = step(&standing, &event, &rules, now_s).0;
            let cause = match &event {
                Event::Verdict { outcome: Outcome::Inconclusive, codes, .. } => Cause::of(codes[0]),
                Event::Missed => Some(Cause::Absent),
                _ => None,
            };
            let Some(cause) = cause.filter(|_| was_challenged) else { continue };
            seen.push((now_s, cause));
            let recent = seen.iter().filter(|(at, _)| *at >= now_s.saturating_sub(rules.grace.window_s));
            let (of_cause, of_all) = recent.fold((0, 0), |(one, all), (_, other)| {
                (one + u32::from(*other == cause), all + u32::from(*other != Cause::Busy))
            });
            let limit = rules.grace.limit(cause);
            if of_cause >= limit.expire || (cause != Cause::Busy && of_all >= rules.grace.any.expire) {
                prop_assert!(!standing.state.is_attested(), "{cause:?}: {of_cause}, {of_all}");
            } else if of_cause >= limit.suspect {
                prop_assert_ne!(standing.state, State::Passing);
            }
        }
    }

    /// Silence is never better than a pass.
    #[test]
    fn silence_never_beats_a_pass((rules, events) in history(), at in 0..120_usize) {
        // Attestations that end by age alone are left out: an earlier attestation also expires earlier.
        let rules = Rules {
            expires_after_s: u64::MAX,
            heavy_expires_after_s: None,
            returning: crate::rules::Return { first: rules.returning.after_expiry, ..rules.returning },
            ..rules
        };
        let mut better = events.clone();
        let is_silent = |event: &Event| {
            matches!(event, Event::Missed | Event::Verdict { outcome: Outcome::Inconclusive, .. })
        };
        let silent: Vec<_> = (0..events.len()).filter(|at| is_silent(&events[*at].1)).collect();
        let Some(at) = silent.get(at % silent.len().max(1)) else { return Ok(()) };
        better[*at].1 = heavy_pass();
        let run = |events: &[(u64, Event)]| {
            let mut now_s = DAY;
            let mut standing = Standing::enrolled(DAY);
            for (wait, event) in events {
                now_s += wait;
                standing = step(&standing, event, &rules, now_s).0;
            }
            standing
        };
        let (silent, passed) = (run(&events), run(&better));
        prop_assert!(!silent.state.is_attested() || passed.state.is_attested(), "{silent:?}\n{passed:?}");
    }

    /// Ticks in between change nothing.
    #[test]
    fn ticks_change_nothing_but_when_it_is_noticed((rules, events) in history()) {
        let (mut plain, mut ticked) = (Standing::enrolled(DAY), Standing::enrolled(DAY));
        let mut now_s = DAY;
        for (wait, event) in events {
            for part in 1..=3 {
                ticked = step(&ticked, &Event::Tick, &rules, now_s + wait * part / 3).0;
            }
            now_s += wait;
            (plain, ticked) = (step(&plain, &event, &rules, now_s).0, step(&ticked, &event, &rules, now_s).0);
            let same = |mut standing: Standing| {
                standing.since_s = 0;
                // The detail of the event that ended the attestation first, as far as it was noticed.
                standing.because.clear();
                standing
            };
            prop_assert_eq!(same(plain.clone()), same(ticked.clone()));
        }
    }

    /// A standing stays small, reads back as itself, and survives a clock that jumps back.
    #[test]
    fn a_standing_is_bounded_and_reads_back((rules, events) in history(), jumps in proptest::collection::vec(0..3000_u64, 4)) {
        let (mut standing, mut now_s) = (Standing::enrolled(DAY), DAY);
        for (at, (wait, event)) in events.iter().cycle().take(2000).enumerate() {
            now_s += wait;
            if at % 500 == 499 {
                now_s = now_s.saturating_sub(jumps[at / 500]);
            }
            let (after, change) = step(&standing, event, &rules, now_s);
            prop_assert_eq!(change.is_some(), after.state != standing.state);
            prop_assert!(after.last_pass_s.is_none_or(|last| last <= now_s));
            standing = after;
        }
        let json = serde_json::to_string(&standing).unwrap();
        prop_assert!(json.len() < 10_000, "{}", json.len());
        prop_assert_eq!(serde_json::from_str::<Standing>(&json).unwrap(), standing);
    }
}

/// A new reason that shows nothing has a cause by name: by itself it would count as evasion.
#[test]
fn every_reason_that_shows_nothing_has_its_cause() {
    use assay_protocol::verdict::Class;
    for code in ReasonCode::ALL {
        let cause = Cause::of(code);
        let is_expected = match code.class() {
            Class::Forged | Class::Late | Class::Evasive | Class::Short => cause == Some(Cause::Evaded),
            Class::Sick => cause == Some(Cause::Sick),
            Class::Busy => matches!(cause, Some(Cause::Busy | Cause::Memory | Cause::Incomplete)),
            Class::Network if code == ReasonCode::Abandoned => cause == Some(Cause::Evaded),
            Class::Network => cause == Some(Cause::Network),
            // The word of a miner about itself proves nothing.
            Class::Ours if code == ReasonCode::MinerInternal => cause == Some(Cause::Sick),
            Class::Ours => cause.is_none(),
        };
        assert!(is_expected, "{}: {cause:?}", code.name());
    }
}
