//! The data behind a miner's attestation, and how events change it.

use std::collections::{BTreeMap, VecDeque};

use assay_protocol::verdict::{Outcome, ReasonCode};
use serde::{Deserialize, Serialize};

use super::table::{Input, State, next};
use super::{Event, StateReason, Word};
use crate::rules::{Cause, MAX_LIMIT, Rules};
use crate::text::{counted, seconds};

/// The most times of fails stored: the largest configurable count of a quarantine.
pub const MAX_FAILS: usize = 16;

/// Reason why a miner owes passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Debt {
    /// The miner is new.
    #[default]
    First,
    Expiry,
    /// The miner failed, or its attestation expired by evasion.
    Fail,
}

/// End of a quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuarantineEnd {
    /// At this time, in seconds since 1970.
    Time(u64),
    /// When an operator releases the miner.
    Release,
}

/// Counters of a miner since its enrolment, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    pub passes: u64,
    pub fails: u64,
    /// Inconclusive verdicts, the declined ones included.
    pub inconclusive: u64,
    /// Inconclusive ones because the miner was busy.
    pub declined: u64,
    /// Challenges that were due while the miner was not connected.
    pub missed: u64,
}

/// All data behind the attestation of a miner. Bounded, and stored as the same JSON in the records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Standing {
    pub state: State,
    /// Start of the state.
    pub since_s: u64,
    /// Time of the last pass.
    pub last_pass_s: Option<u64>,
    /// Time of the last heavy pass.
    pub last_heavy_s: Option<u64>,
    /// Consecutive passes since the debt began.
    pub paid: u32,
    /// Reason for owed passes; `None` without a debt.
    pub debt: Option<Debt>,
    /// End of the current quarantine.
    pub quarantine: Option<QuarantineEnd>,
    /// The current reason against the miner until its debt is paid: its last fail, the cause of its quarantine, or of
    /// the end of its attestation. Empty without one.
    pub because: String,
    /// Whether the next challenge is a heavy one, because the last heavy one was inconclusive.
    pub heavy_due: bool,
    /// Times of inconclusive results by cause, oldest first.
    pub unclear: BTreeMap<Cause, VecDeque<u64>>,
    /// Times of fails, oldest first.
    pub fails: VecDeque<u64>,
    /// Counters for display.
    pub totals: Totals,
}

/// Input of the state table with its reason and details.
type StateInput = (Input, StateReason, String);

/// Reason and details of a change of state; `None` without a change.
type StateChange = Option<(StateReason, String)>;

impl Default for Standing {
    /// A miner without history.
    fn default() -> Self {
        Self {
            state: State::Enrolled,
            since_s: 0,
            last_pass_s: None,
            last_heavy_s: None,
            paid: 0,
            debt: Some(Debt::First),
            quarantine: None,
            because: String::new(),
            heavy_due: false,
            unclear: BTreeMap::new(),
            fails: VecDeque::new(),
            totals: Totals::default(),
        }
    }
}

impl Standing {
    /// The standing of a miner enrolled now.
    pub fn enrolled(now_s: u64) -> Self {
        Self { since_s: now_s, ..Self::default() }
    }

    /// End of its attestation, if no further event occurs; `None` when it is not attested.
    pub fn attested_until_s(&self, rules: &Rules) -> Option<u64> {
        let last = self.last_pass_s.map_or(0, |last| last.saturating_add(rules.expires_after_s));
        self.state.is_attested().then(|| last.min(self.heavy_until_s(rules)))
    }

    /// End of the validity of its last heavy pass.
    fn heavy_until_s(&self, rules: &Rules) -> u64 {
        match (rules.heavy_expires_after_s, self.last_heavy_s) {
            (Some(after), Some(heavy)) => heavy.saturating_add(after),
            (Some(_), None) => 0,
            (None, _) => u64::MAX,
        }
    }

    /// Whether the next challenge must be heavy, whatever is drawn: the last heavy one was inconclusive, a fail is to
    /// be made good, or the last heavy pass soon expires.
    pub fn needs_heavy(&self, rules: &Rules, now_s: u64) -> bool {
        let Some(after) = rules.heavy_expires_after_s else { return self.heavy_due };
        let owes = rules.returning.heavy && self.debt == Some(Debt::Fail);
        self.heavy_due || owes || self.heavy_until_s(rules) <= now_s.saturating_add(after / 4)
    }

    /// Consecutive passes still owed.
    pub fn owed(&self, rules: &Rules) -> u32 {
        self.debt.map_or(0, |debt| debt.passes(rules).saturating_sub(self.paid))
    }

    /// Number of results of a cause within the window.
    pub fn unclear_of(&self, cause: Cause, rules: &Rules, now_s: u64) -> u32 {
        let from = now_s.saturating_sub(rules.grace.window_s);
        let times = self.unclear.get(&cause).map(|times| times.iter().filter(|at| **at >= from).count());
        times.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// The standing of one miner of which there were two records: a key that follows another one sheds nothing of it.
    pub fn joined(self, other: Self) -> Self {
        let (mut stricter, other) =
            if other.state.strictness() > self.state.strictness() { (other, self) } else { (self, other) };
        if !stricter.state.is_attested() {
            // Passes that one of them owes still are not those of the other.
            if stricter.debt == other.debt {
                stricter.paid = stricter.paid.min(other.paid);
            }
            stricter.debt = stricter.debt.max(other.debt);
        }
        stricter.last_pass_s = stricter.last_pass_s.max(other.last_pass_s);
        stricter.last_heavy_s = stricter.last_heavy_s.max(other.last_heavy_s);
        stricter.heavy_due |= other.heavy_due;
        stricter.quarantine = match (stricter.quarantine, other.quarantine) {
            (Some(QuarantineEnd::Time(one)), Some(QuarantineEnd::Time(two))) => Some(QuarantineEnd::Time(one.max(two))),
            (Some(QuarantineEnd::Release), _) | (_, Some(QuarantineEnd::Release)) => Some(QuarantineEnd::Release),
            (one, two) => one.or(two),
        };
        stricter.fails = newest(stricter.fails, other.fails, MAX_FAILS);
        for (cause, times) in other.unclear {
            let own = stricter.unclear.remove(&cause).unwrap_or_default();
            stricter.unclear.insert(cause, newest(own, times, MAX_LIMIT as usize));
        }
        let (totals, more) = (&mut stricter.totals, other.totals);
        totals.passes += more.passes;
        totals.fails += more.fails;
        totals.inconclusive += more.inconclusive;
        totals.declined += more.declined;
        totals.missed += more.missed;
        stricter
    }

    /// Moves times beyond now back to now, after the clock was set back.
    pub(super) fn turn_back(&mut self, now_s: u64) {
        let times = self.unclear.values_mut().flatten().chain(&mut self.fails).chain(&mut self.last_pass_s);
        for at in times.chain(&mut self.last_heavy_s).chain(std::iter::once(&mut self.since_s)) {
            *at = (*at).min(now_s);
        }
    }

    pub(super) fn apply(&mut self, event: &Event, rules: &Rules, now_s: u64) -> StateChange {
        match event {
            Event::Verdict { outcome: Outcome::Pass, heavy, age_s, .. } => self.passed((*heavy, *age_s), rules, now_s),
            Event::Verdict { outcome: Outcome::Fail, codes, heavy, .. } => {
                self.heavy_due |= *heavy;
                self.failed(StateReason::Failed, &names(codes), rules, now_s)
            }
            Event::Verdict { outcome: Outcome::Inconclusive, codes, heavy, busy_every_s, .. } => {
                self.heavy_due |= *heavy;
                self.totals.inconclusive += 1;
                let mut causes: Vec<_> = codes.iter().filter_map(|code| Cause::of(*code)).collect();
                // Results by the validator's doing do not count, but breaking off is the miner's own.
                if codes.iter().any(|code| Cause::of(*code).is_none()) {
                    causes.retain(|cause| *cause == Cause::Evaded);
                }
                self.totals.declined += u64::from(causes.contains(&Cause::Busy));
                let busy = self.unclear.get(&Cause::Busy).and_then(VecDeque::back);
                // Within the window so many count that one that is always busy reaches the limit.
                let limit = u64::from(rules.grace.limit(Cause::Busy).expire);
                let every_s = (*busy_every_s).min(rules.grace.window_s / (limit + 1));
                if busy.is_some_and(|at| now_s < at.saturating_add(every_s)) {
                    causes.retain(|cause| *cause != Cause::Busy);
                }
                self.unclear(causes, rules, now_s)
            }
            Event::Missed => {
                self.totals.missed += 1;
                self.unclear(vec![Cause::Absent], rules, now_s)
            }
            Event::Tick => None,
            Event::Operator(word) => self.told(*word, rules, now_s),
            Event::Finding { code, fails: true } => self.failed(StateReason::Finding, code.name(), rules, now_s),
            Event::Finding { fails: false, .. } => None,
        }
    }

    /// Applies an input to the table; returns the reason where the state changed.
    fn enter(&mut self, (input, why, detail): StateInput, rules: &Rules, now_s: u64) -> StateChange {
        let (from, to) = (self.state, next(self.state, input));
        match input {
            Input::Barred => self.quarantine = Some(self.barred_until(why, rules, now_s)),
            Input::Served => self.quarantine = None,
            _ => {}
        }
        match input {
            Input::Barred | Input::Failed => self.because.clone_from(&detail),
            Input::Doubted | Input::Exhausted | Input::Outdated if from != to => self.because.clone_from(&detail),
            _ => {}
        }
        self.state = to;
        (from != to).then_some((why, detail))
    }

    fn passed(&mut self, (heavy, age_s): (bool, u64), rules: &Rules, now_s: u64) -> StateChange {
        self.totals.passes += 1;
        // A pass does not count for a miner that is not challenged or is in quarantine.
        if !self.state.is_challenged() || self.state == State::Quarantined {
            return None;
        }
        let shown_s = Some(now_s.saturating_sub(age_s));
        self.last_pass_s = self.last_pass_s.max(shown_s);
        if heavy {
            (self.last_heavy_s, self.heavy_due) = (self.last_heavy_s.max(shown_s), false);
        }
        let needs_heavy = rules.heavy_expires_after_s.is_some() && rules.returning.heavy;
        let counts = heavy || !needs_heavy || self.debt != Some(Debt::Fail);
        self.paid = self.paid.saturating_add(u32::from(counts && self.debt.is_some()));
        let is_paid = counts && self.owed(rules) == 0 && self.heavy_until_s(rules) > now_s;
        let input = match self.doubts(rules, now_s) {
            _ if !is_paid => Input::Passed,
            None => {
                self.because.clear();
                Input::Cleared
            }
            Some((.., doubt)) => {
                self.because = doubt;
                Input::ClearedInDoubt
            }
        };
        let detail = match self.debt {
            Some(_) => format!("{} in a row", counted(self.paid, "pass")),
            None => "the results that showed nothing are few enough again".to_owned(),
        };
        if is_paid {
            (self.debt, self.paid) = (None, 0);
        }
        self.enter((input, StateReason::Passed, detail), rules, now_s)
    }

    fn failed(&mut self, why: StateReason, what: &str, rules: &Rules, now_s: u64) -> StateChange {
        self.totals.fails += 1;
        push(&mut self.fails, now_s, MAX_FAILS);
        self.owe(Debt::Fail);
        let from = now_s.saturating_sub(rules.quarantine.window_s);
        let recent = self.fails.iter().filter(|at| **at >= from).count();
        let is_barred = recent >= rules.quarantine.fails as usize || self.quarantine.is_some();
        let counted = match is_barred {
            false => (Input::Failed, why, what.to_owned()),
            true => {
                let window = seconds(rules.quarantine.window_s);
                let detail = format!("{what}: {} within {window}", counted(recent as u64, "fail"));
                (Input::Barred, StateReason::FailedOften, detail)
            }
        };
        self.enter(counted, rules, now_s)
    }

    fn unclear(&mut self, mut causes: Vec<Cause>, rules: &Rules, now_s: u64) -> StateChange {
        if causes.is_empty() || !self.state.is_challenged() {
            return None;
        }
        causes.sort_unstable();
        causes.dedup();
        for cause in &causes {
            push(self.unclear.entry(*cause).or_default(), now_s, MAX_LIMIT as usize);
        }
        // Owed passes must be consecutive.
        self.paid = 0;
        let (input, cause, detail) = self.doubts(rules, now_s).unwrap_or((Input::Unclear, None, String::new()));
        if input == Input::Exhausted {
            let evades = cause.is_none_or(Cause::is_evasion);
            self.owe(if evades { Debt::Fail } else { Debt::Expiry });
        }
        self.enter((input, StateReason::Inconclusive, detail), rules, now_s)
    }

    fn told(&mut self, word: Word, rules: &Rules, now_s: u64) -> StateChange {
        let (input, detail) = match word {
            Word::Suspend => (Input::Suspended, "suspended by an operator"),
            Word::Revoke => (Input::Revoked, "revoked by an operator"),
            Word::Quarantine => (Input::Barred, "set apart by an operator"),
            Word::Release if self.state == State::Quarantined => (Input::Served, "released by an operator"),
            Word::Release => {
                self.quarantine = None;
                return None;
            }
            Word::Resume if self.state.is_challenged() => return None,
            Word::Resume => {
                let input = match (self.quarantine, self.debt) {
                    (Some(_), _) => Input::ResumedBarred,
                    (None, Some(Debt::Fail)) => Input::ResumedOwing,
                    (None, _) => Input::ResumedClean,
                };
                self.owe(Debt::First);
                (input, "resumed by an operator")
            }
        };
        if word == Word::Quarantine {
            self.owe(Debt::Fail);
        }
        self.enter((input, StateReason::Operator, detail.to_owned()), rules, now_s)
    }

    /// Applies changes by time alone.
    pub(super) fn age(&mut self, rules: &Rules, now_s: u64) -> StateChange {
        if self.state == State::Quarantined && matches!(self.quarantine, Some(QuarantineEnd::Time(end)) if now_s >= end)
        {
            return self.enter(
                (Input::Served, StateReason::QuarantineOver, "its time is over".to_owned()),
                rules,
                now_s,
            );
        }
        if self.attested_until_s(rules).is_none_or(|until| now_s < until) {
            return None;
        }
        let detail = match rules.heavy_expires_after_s {
            Some(after) if self.heavy_until_s(rules) <= now_s => {
                format!("no heavy challenge was passed for {}", seconds(after))
            }
            _ => format!("no challenge was passed for {}", seconds(rules.expires_after_s)),
        };
        self.owe(Debt::Expiry);
        self.enter((Input::Outdated, StateReason::Outdated, detail), rules, now_s)
    }

    /// The limit that results have reached: its input to the table, and its cause; no cause for all together.
    fn doubts(&self, rules: &Rules, now_s: u64) -> Option<(Input, Option<Cause>, String)> {
        let window = seconds(rules.grace.window_s);
        let counts: Vec<_> = Cause::ALL.iter().map(|cause| (*cause, self.unclear_of(*cause, rules, now_s))).collect();
        // The count of [`Cause::Busy`] has only its own limit.
        let all: u32 = counts.iter().filter(|(cause, _)| *cause != Cause::Busy).map(|(_, count)| count).sum();
        let each = counts.iter().map(|(cause, count)| (Some(*cause), *count, rules.grace.limit(*cause)));
        let each: Vec<_> = each.chain([(None, all, rules.grace.any)]).collect();
        let reached = |input, limit: fn(crate::rules::Limit) -> u32| {
            // Evasion, as which all causes together count, is named before lesser causes.
            let over = each.iter().filter(|(_, count, limits)| *count >= limit(*limits));
            let worst = over.max_by_key(|(cause, ..)| (cause.is_none_or(Cause::is_evasion), cause.is_some()))?;
            let cause =
                worst.0.map_or_else(|| "of all causes".to_owned(), |cause| format!("of cause {}", cause.name()));
            Some((input, worst.0, format!("{} {cause} within {window}", counted(worst.1, "result"))))
        };
        reached(Input::Exhausted, |limit| limit.expire).or_else(|| reached(Input::Doubted, |limit| limit.suspect))
    }

    /// Adds a debt of passes, unless the current one is worse. Passes paid so far are lost.
    fn owe(&mut self, debt: Debt) {
        self.debt = self.debt.max(Some(debt));
        self.paid = 0;
    }

    fn barred_until(&self, why: StateReason, rules: &Rules, now_s: u64) -> QuarantineEnd {
        let until = match (why, rules.quarantine.period_s) {
            (StateReason::Operator, _) | (_, None) => QuarantineEnd::Release,
            (_, Some(period)) => QuarantineEnd::Time(now_s.saturating_add(period)),
        };
        // A longer quarantine stays.
        match (self.quarantine, until) {
            (Some(QuarantineEnd::Release), _) | (_, QuarantineEnd::Release) => QuarantineEnd::Release,
            (Some(QuarantineEnd::Time(old)), QuarantineEnd::Time(new)) => QuarantineEnd::Time(old.max(new)),
            (None, until) => until,
        }
    }
}

impl Debt {
    /// Consecutive passes that pay it.
    pub const fn passes(self, rules: &Rules) -> u32 {
        match self {
            Self::First => rules.returning.first,
            Self::Expiry => rules.returning.after_expiry,
            Self::Fail => rules.returning.after_fail,
        }
    }
}

/// Keeps the latest `most` times.
fn push(times: &mut VecDeque<u64>, now_s: u64, most: usize) {
    times.push_back(now_s);
    while times.len() > most {
        times.pop_front();
    }
}

/// The newest of two series of times, oldest first.
fn newest(one: VecDeque<u64>, two: VecDeque<u64>, most: usize) -> VecDeque<u64> {
    let mut all: Vec<_> = one.into_iter().chain(two).collect();
    all.sort_unstable();
    all.split_off(all.len().saturating_sub(most)).into()
}

/// Names of the codes, without repetition.
fn names(codes: &[ReasonCode]) -> String {
    let mut names = Vec::new();
    for name in codes.iter().map(|code| code.name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}
