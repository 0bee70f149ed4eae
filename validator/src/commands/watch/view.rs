//! What is shown: what is known of the fleet, what the operator looks at, and what keys and events make of both.

use std::cmp::Reverse;
use std::collections::VecDeque;

use assay_api::{LiveEvent, Miner, MinerDetail, Status};
use assay_protocol::verdict::Verdict;
use assay_records::{LastVerdict, Told, VerdictRecord};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::TableState;

use super::feed::{MAX_VERDICTS, Update};

/// The longest filter.
const MAX_FILTER_CHARS: usize = 64;

/// How the picture relates to the validator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// What is shown is not complete yet.
    Connecting,
    /// What is shown is what there is.
    Live,
    /// The validator does not answer; this is why.
    Lost(String),
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// Another picture.
    Stay,
    /// The end.
    Leave,
    /// All about this miner.
    Ask(String),
}

/// A verdict in a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// When the challenge was sent, or the verdict told.
    pub at_ms: i64,
    /// The challenge.
    pub challenge: String,
    /// The miner's id.
    pub miner: String,
    /// What it ended in.
    pub outcome: String,
    /// 2 · multiply-accumulates per second / 10¹².
    pub tops: f64,
    /// The codes of its reasons.
    pub codes: String,
}

/// All that is shown.
#[derive(Debug)]
pub struct View {
    /// Where the validator is.
    pub place: String,
    /// Whether colours help.
    pub has_colour: bool,
    /// Whether what is shown is up to date.
    pub link: Link,
    /// What the validator does.
    pub status: Option<Status>,
    /// The miners, in order of concern: those that do not pass first.
    pub miners: Vec<Miner>,
    /// Whether these are all.
    pub is_all: bool,
    /// The last verdicts, newest first.
    pub verdicts: VecDeque<Judged>,
    /// What a miner has to have in it.
    pub filter: String,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// Whether miners that pass are left out.
    pub only_others: bool,
    /// The miner that is looked at.
    pub selected: Option<String>,
    /// Where the table stands.
    pub table: TableState,
    /// All about one miner, once that has come; the number is the first line that is shown.
    pub detail: Option<(Option<Box<MinerDetail>>, u16)>,
}

impl View {
    /// A picture of a validator of which nothing is known yet.
    #[must_use]
    pub fn new(place: String, has_colour: bool) -> Self {
        Self {
            place,
            has_colour,
            link: Link::Connecting,
            status: None,
            miners: Vec::new(),
            is_all: true,
            verdicts: VecDeque::new(),
            filter: String::new(),
            is_typing: false,
            only_others: false,
            selected: None,
            table: TableState::default(),
            detail: None,
        }
    }

    /// Takes in what is new.
    pub fn apply(&mut self, update: Update) {
        match update {
            Update::Status(status) => self.status = Some(*status),
            Update::Miners(miners, is_all) => {
                self.miners = miners;
                self.is_all = is_all;
                self.sort();
            }
            Update::Verdicts(verdicts) => self.verdicts = verdicts.into_iter().map(Judged::from).collect(),
            Update::Event(event) => self.event(*event),
            Update::Detail(detail) if self.detail.is_some() => self.detail = detail.map(|detail| (Some(detail), 0)),
            // It was closed before it came.
            Update::Detail(_) => {}
            Update::Live => self.link = Link::Live,
            Update::Lost(why) => self.link = Link::Lost(why),
        }
    }

    fn event(&mut self, event: LiveEvent) {
        let LiveEvent { at_ms, miner, challenge, told, .. } = event;
        let Some(miner) = miner else { return };
        let found = self.miners.iter_mut().find(|known| known.record.id == miner).map(|known| &mut known.record);
        match told {
            Told::Verdict(verdict) => {
                let challenge = challenge.unwrap_or_default();
                if let Some(record) = found {
                    record.last_verdict =
                        Some(LastVerdict { challenge: challenge.clone(), outcome: verdict.outcome.clone(), at_ms });
                }
                // One that was listed already is told again after a connection was lost.
                if self.verdicts.iter().any(|known| known.challenge == challenge) {
                    return;
                }
                let (outcome, tops, codes) = (verdict.outcome, verdict.tops, verdict.codes.join(", "));
                self.verdicts.push_front(Judged { at_ms, challenge, miner, outcome, tops, codes });
                self.verdicts.truncate(MAX_VERDICTS as usize);
            }
            Told::State(transition) => {
                if let Some(record) = found {
                    record.state = transition.to;
                    // The reason for another state is in the next list.
                    self.sort();
                }
            }
            Told::MinerConnected(connected) => {
                if let Some(record) = found {
                    record.connected_to = Some(connected.validator);
                }
            }
            Told::MinerLeft(_) => {
                if let Some(record) = found {
                    record.connected_to = None;
                }
            }
            _ => {}
        }
    }

    /// Whoever does not pass first, of these whoever is connected.
    fn sort(&mut self) {
        self.miners.sort_by_cached_key(|miner| {
            (passes(miner), Reverse(miner.record.connected_to.is_some()), miner.record.key.clone())
        });
    }

    /// The miners that are shown.
    pub fn rows(&self) -> impl Iterator<Item = &Miner> {
        let filter = self.filter.to_lowercase();
        self.miners
            .iter()
            .filter(move |miner| (!self.only_others || !passes(miner)) && (filter.is_empty() || has(miner, &filter)))
    }

    /// The row of the miner that is looked at; the first one where that is gone.
    pub fn position(&self) -> usize {
        let selected = self.selected.as_deref();
        self.rows().position(|miner| Some(miner.record.id.as_str()) == selected).unwrap_or(0)
    }

    /// The miner that is looked at.
    #[must_use]
    pub fn current(&self) -> Option<&Miner> {
        self.rows().nth(self.position())
    }

    /// Does what a key asks for; `None` is a terminal of another size.
    pub fn key(&mut self, key: Option<KeyEvent>) -> After {
        let Some(key) = key else { return After::Stay };
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { After::Leave } else { After::Stay };
        }
        if self.is_typing {
            self.typed(key.code);
            return After::Stay;
        }
        if self.detail.is_some() {
            return self.in_detail(key.code);
        }
        match key.code {
            KeyCode::Char('q') => return After::Leave,
            KeyCode::Esc if self.filter.is_empty() => return After::Leave,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('f') => self.only_others = !self.only_others,
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::PageUp => self.go(-10),
            KeyCode::PageDown => self.go(10),
            KeyCode::Home => self.go(isize::MIN),
            KeyCode::End => self.go(isize::MAX),
            KeyCode::Enter => {
                if let Some(id) = self.current().map(|miner| miner.record.id.clone()) {
                    self.selected = Some(id.clone());
                    self.detail = Some((None, 0));
                    return After::Ask(id);
                }
            }
            _ => {}
        }
        After::Stay
    }

    fn typed(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(sign) if self.filter.chars().count() < MAX_FILTER_CHARS => self.filter.push(sign),
            _ => {}
        }
    }

    fn in_detail(&mut self, code: KeyCode) -> After {
        let Some((_, line)) = &mut self.detail else { return After::Stay };
        match code {
            KeyCode::Char('q') => return After::Leave,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => self.detail = None,
            KeyCode::Up | KeyCode::Char('k') => *line = line.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => *line = line.saturating_add(1),
            KeyCode::PageUp => *line = line.saturating_sub(10),
            KeyCode::PageDown => *line = line.saturating_add(10),
            KeyCode::Home => *line = 0,
            _ => {}
        }
        After::Stay
    }

    fn go(&mut self, by: isize) {
        let last = self.rows().count().saturating_sub(1);
        let to = self.position().saturating_add_signed(by).min(last);
        let selected = self.rows().nth(to).map(|miner| miner.record.id.clone());
        self.selected = selected;
    }
}

impl From<VerdictRecord> for Judged {
    fn from(record: VerdictRecord) -> Self {
        // A verdict of a release that this one does not know has its outcome at least.
        let verdict: Option<Verdict> = assay_api::verdict_of(&record).ok();
        let codes =
            |verdict: &Verdict| verdict.reasons.iter().map(|reason| reason.code.name()).collect::<Vec<_>>().join(", ");
        Self {
            at_ms: record.at_ms,
            challenge: record.challenge,
            miner: record.miner,
            outcome: record.outcome,
            tops: verdict.as_ref().map_or(0.0, |verdict| verdict.whole.tops),
            codes: verdict.as_ref().map_or_else(String::new, codes),
        }
    }
}

/// Whether nothing speaks against a miner.
pub fn passes(miner: &Miner) -> bool {
    miner.known.reason.is_none() && miner.record.state == "passing"
}

/// Whether a miner has a text in what is shown of it.
fn has(miner: &Miner, text: &str) -> bool {
    let Miner { record, known } = miner;
    let labels = record.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let fields =
        [&record.key, &record.state, &record.address, &known.admitted].into_iter().chain(&known.models).cloned();
    let reason = known.reason.iter().map(|reason| reason.why.clone());
    fields.chain(reason).chain(labels).any(|field| field.to_lowercase().contains(text))
}
