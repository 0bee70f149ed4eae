//! What the attestation of a miner rests on, and how it counts what happens.

use std::collections::{BTreeMap, VecDeque};

use assay_protocol::verdict::{Outcome, ReasonCode};
use serde::{Deserialize, Serialize};

use super::table::{Input, State, next};
use super::{Event, Why, Word};
use crate::rules::{Cause, MAX_LIMIT, Rules};
use crate::text::{counted, seconds};

/// Times of fails that are kept: the most that a quarantine may be set to count.
pub const MAX_FAILS: usize = 16;

/// Why a miner owes passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Debt {
    /// It is new.
    #[default]
    First,
    /// Its attestation expired.
    Expiry,
    /// It failed, or its attestation expired by evasion.
    Fail,
}

/// How long a quarantine lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// Until then.
    Time(u64),
    /// Until an operator releases the miner.
    Release,
}

/// What is counted of a miner since it was enrolled, to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Passes.
    pub passes: u64,
    /// Fails.
    pub fails: u64,
    /// Inconclusive verdicts, the declined ones included.
    pub inconclusive: u64,
    /// Inconclusive ones because the miner was busy.
    pub declined: u64,
    /// Challenges that were due while it was not there.
    pub missed: u64,
}

/// Everything that the attestation of a miner rests on. Bounded, and the same as JSON in the records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Standing {
    /// The state.
    pub state: State,
    /// Since when.
    pub since_s: u64,
    /// When it passed last.
    pub last_pass_s: Option<u64>,
    /// When it passed a heavy challenge last.
    pub last_heavy_s: Option<u64>,
    /// Passes in a row that it has since it owes any.
    pub paid: u32,
    /// Why it owes passes; `None` when it owes none.
    pub debt: Option<Debt>,
    /// How long its quarantine lasts.
    pub quarantine: Option<Until>,
    /// The next challenge is a heavy one: the last heavy one showed nothing.
    pub heavy_due: bool,
    /// When results showed nothing, by cause, oldest first.
    pub unclear: BTreeMap<Cause, VecDeque<u64>>,
    /// When it failed, oldest first.
    pub fails: VecDeque<u64>,
    /// To be shown.
    pub totals: Totals,
}

/// What an event came to, why, and in which words.
type Counted = (Input, Why, String);

/// Why a state changed, and in which words; `None` where it did not.
type Changed = Option<(Why, String)>;

impl Default for Standing {
    /// A miner of which nothing is known.
    fn default() -> Self {
        Self {
            state: State::Enrolled,
            since_s: 0,
            last_pass_s: None,
            last_heavy_s: None,
            paid: 0,
            debt: Some(Debt::First),
            quarantine: None,
            heavy_due: false,
            unclear: BTreeMap::new(),
            fails: VecDeque::new(),
            totals: Totals::default(),
        }
    }
}

impl Standing {
    /// A miner that was enrolled now.
    #[must_use]
    pub fn enrolled(now_s: u64) -> Self {
        Self { since_s: now_s, ..Self::default() }
    }

    /// Until when it is attested, if nothing else happens; `None` when it is not.
    #[must_use]
    pub fn attested_until_s(&self, rules: &Rules) -> Option<u64> {
        let last = self.last_pass_s.map_or(0, |last| last.saturating_add(rules.expires_after_s));
        self.state.is_attested().then(|| last.min(self.heavy_until_s(rules)))
    }

    /// Until when its last heavy pass counts.
    fn heavy_until_s(&self, rules: &Rules) -> u64 {
        match (rules.heavy_expires_after_s, self.last_heavy_s) {
            (Some(after), Some(heavy)) => heavy.saturating_add(after),
            (Some(_), None) => 0,
            (None, _) => u64::MAX,
        }
    }

    /// Whether the next challenge is to be a heavy one, whatever is drawn: the last one showed nothing, a fail is to be
    /// made good, or the last heavy pass soon no longer counts.
    #[must_use]
    pub fn needs_heavy(&self, rules: &Rules, now_s: u64) -> bool {
        let Some(after) = rules.heavy_expires_after_s else { return self.heavy_due };
        let owes = rules.returning.heavy && self.debt == Some(Debt::Fail);
        self.heavy_due || owes || self.heavy_until_s(rules) <= now_s.saturating_add(after / 4)
    }

    /// Passes in a row that it still owes.
    #[must_use]
    pub fn owed(&self, rules: &Rules) -> u32 {
        self.debt.map_or(0, |debt| debt.passes(rules).saturating_sub(self.paid))
    }

    /// Results of a cause within the window.
    #[must_use]
    pub fn unclear_of(&self, cause: Cause, rules: &Rules, now_s: u64) -> u32 {
        let from = now_s.saturating_sub(rules.grace.window_s);
        let times = self.unclear.get(&cause).map(|times| times.iter().filter(|at| **at >= from).count());
        times.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// A clock that was set back must not make anything younger than now.
    pub(super) fn turn_back(&mut self, now_s: u64) {
        let times = self.unclear.values_mut().flatten().chain(&mut self.fails).chain(&mut self.last_pass_s);
        for at in times.chain(&mut self.last_heavy_s).chain(std::iter::once(&mut self.since_s)) {
            *at = (*at).min(now_s);
        }
    }

    pub(super) fn apply(&mut self, event: &Event, rules: &Rules, now_s: u64) -> Changed {
        match event {
            Event::Verdict { outcome: Outcome::Pass, heavy, .. } => self.passed(*heavy, rules, now_s),
            Event::Verdict { outcome: Outcome::Fail, codes, heavy } => {
                self.heavy_due |= *heavy;
                self.failed(Why::Failed, &names(codes), rules, now_s)
            }
            Event::Verdict { outcome: Outcome::Inconclusive, codes, heavy } => {
                self.heavy_due |= *heavy;
                self.totals.inconclusive += 1;
                let mut causes: Vec<_> = codes.iter().filter_map(|code| Cause::of(*code)).collect();
                // What the validator could not do counts against nobody, but breaking off is the miner's own.
                if codes.iter().any(|code| Cause::of(*code).is_none()) {
                    causes.retain(|cause| *cause == Cause::Evaded);
                }
                self.totals.declined += u64::from(causes.contains(&Cause::Busy));
                self.unclear(causes, rules, now_s)
            }
            Event::Missed => {
                self.totals.missed += 1;
                self.unclear(vec![Cause::Absent], rules, now_s)
            }
            Event::Tick => None,
            Event::Operator(word) => self.told(*word, rules, now_s),
            Event::Finding { code, fails: true } => self.failed(Why::Finding, code.name(), rules, now_s),
            Event::Finding { fails: false, .. } => None,
        }
    }

    /// Looks an input up in the table; says why where the state changed.
    fn enter(&mut self, (input, why, detail): Counted, rules: &Rules, now_s: u64) -> Changed {
        let (from, to) = (self.state, next(self.state, input));
        match input {
            Input::Barred => self.quarantine = Some(self.barred_until(why, rules, now_s)),
            Input::Served => self.quarantine = None,
            _ => {}
        }
        self.state = to;
        (from != to).then_some((why, detail))
    }

    fn passed(&mut self, heavy: bool, rules: &Rules, now_s: u64) -> Changed {
        self.totals.passes += 1;
        // Who is not challenged has no pass that counts.
        if !self.state.is_challenged() || self.state == State::Quarantined {
            return None;
        }
        self.last_pass_s = Some(now_s);
        if heavy {
            (self.last_heavy_s, self.heavy_due) = (Some(now_s), false);
        }
        let needs_heavy = rules.heavy_expires_after_s.is_some() && rules.returning.heavy;
        let counts = heavy || !needs_heavy || self.debt != Some(Debt::Fail);
        self.paid = self.paid.saturating_add(u32::from(counts && self.debt.is_some()));
        let is_paid = counts && self.owed(rules) == 0 && self.heavy_until_s(rules) > now_s;
        let input = match self.doubts(rules, now_s) {
            _ if !is_paid => Input::Passed,
            None => Input::Cleared,
            Some(_) => Input::ClearedInDoubt,
        };
        let detail = match self.debt {
            Some(_) => format!("{} in a row", counted(self.paid, "pass")),
            None => "the results that showed nothing are few enough again".to_owned(),
        };
        if is_paid {
            (self.debt, self.paid) = (None, 0);
        }
        self.enter((input, Why::Passed, detail), rules, now_s)
    }

    fn failed(&mut self, why: Why, what: &str, rules: &Rules, now_s: u64) -> Changed {
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
                (Input::Barred, Why::FailedOften, detail)
            }
        };
        self.enter(counted, rules, now_s)
    }

    fn unclear(&mut self, mut causes: Vec<Cause>, rules: &Rules, now_s: u64) -> Changed {
        if causes.is_empty() || !self.state.is_challenged() {
            return None;
        }
        causes.sort_unstable();
        causes.dedup();
        for cause in &causes {
            push(self.unclear.entry(*cause).or_default(), now_s, MAX_LIMIT as usize);
        }
        // Passes that are owed come in a row.
        self.paid = 0;
        let (input, cause, detail) = self.doubts(rules, now_s).unwrap_or((Input::Unclear, None, String::new()));
        if input == Input::Exhausted {
            let evades = cause.is_none_or(Cause::is_evasion);
            self.owe(if evades { Debt::Fail } else { Debt::Expiry });
        }
        self.enter((input, Why::Inconclusive, detail), rules, now_s)
    }

    fn told(&mut self, word: Word, rules: &Rules, now_s: u64) -> Changed {
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
        self.enter((input, Why::Operator, detail.to_owned()), rules, now_s)
    }

    /// What time alone brings.
    pub(super) fn age(&mut self, rules: &Rules, now_s: u64) -> Changed {
        if self.state == State::Quarantined && matches!(self.quarantine, Some(Until::Time(end)) if now_s >= end) {
            return self.enter((Input::Served, Why::QuarantineOver, "its time is over".to_owned()), rules, now_s);
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
        self.enter((Input::Outdated, Why::Outdated, detail), rules, now_s)
    }

    /// The limit that results have reached: what it is an input of, and its cause; no cause for all together.
    fn doubts(&self, rules: &Rules, now_s: u64) -> Option<(Input, Option<Cause>, String)> {
        let window = seconds(rules.grace.window_s);
        let counts: Vec<_> = Cause::ALL.iter().map(|cause| (*cause, self.unclear_of(*cause, rules, now_s))).collect();
        // How often a host may be busy is said by its own limit alone.
        let all: u32 = counts.iter().filter(|(cause, _)| *cause != Cause::Busy).map(|(_, count)| count).sum();
        let each = counts.iter().map(|(cause, count)| (Some(*cause), *count, rules.grace.limit(*cause)));
        let each: Vec<_> = each.chain([(None, all, rules.grace.any)]).collect();
        let reached = |input, limit: fn(crate::rules::Limit) -> u32| {
            // Evasion, which all causes together count as, is named before what weighs less.
            let over = each.iter().filter(|(_, count, limits)| *count >= limit(*limits));
            let worst = over.max_by_key(|(cause, ..)| (cause.is_none_or(Cause::is_evasion), cause.is_some()))?;
            let cause =
                worst.0.map_or_else(|| "of all causes".to_owned(), |cause| format!("of cause {}", cause.name()));
            Some((input, worst.0, format!("{} {cause} within {window}", counted(worst.1, "result"))))
        };
        reached(Input::Exhausted, |limit| limit.expire).or_else(|| reached(Input::Doubted, |limit| limit.suspect))
    }

    /// Owes passes for this, unless it owes them for worse. What it has paid counts for nothing.
    fn owe(&mut self, debt: Debt) {
        self.debt = self.debt.max(Some(debt));
        self.paid = 0;
    }

    fn barred_until(&self, why: Why, rules: &Rules, now_s: u64) -> Until {
        let until = match (why, rules.quarantine.period_s) {
            (Why::Operator, _) | (_, None) => Until::Release,
            (_, Some(period)) => Until::Time(now_s.saturating_add(period)),
        };
        // A longer one stays.
        match (self.quarantine, until) {
            (Some(Until::Release), _) | (_, Until::Release) => Until::Release,
            (Some(Until::Time(old)), Until::Time(new)) => Until::Time(old.max(new)),
            (None, until) => until,
        }
    }
}

impl Debt {
    /// Passes in a row that pay it.
    #[must_use]
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

fn names(codes: &[ReasonCode]) -> String {
    codes.iter().map(|code| code.name()).collect::<Vec<_>>().join(", ")
}
