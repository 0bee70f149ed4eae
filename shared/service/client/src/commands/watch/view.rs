//! The view: data of the fleet, the operator's selection, and the effect of keys and events on both.

use std::cmp::Reverse;
use std::collections::VecDeque;

use assay_api::record::{EventDocument, LastVerdict, VerdictRecord};
use assay_api::{LiveEvent, Miner, MinerDetail, ServerStatus};
use assay_protocol::verdict::Verdict;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_widgets::table::TableState;

use super::feed::{MAX_VERDICTS, Update};

/// The longest filter, in characters.
const MAX_FILTER_CHARS: usize = 64;

/// State of the connection to the validator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LinkState {
    /// The data is incomplete.
    #[default]
    Connecting,
    /// The data is complete and current.
    Live,
    /// The validator does not answer, for this reason.
    Lost(String),
}

/// Effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// Draw another frame.
    Stay,
    /// Leave the program.
    Leave,
    /// Request the details of this miner.
    Ask(String),
}

/// Summary of a verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct VerdictSummary {
    /// Sending time of the challenge, or time of the event.
    pub at_ms: i64,
    pub challenge: String,
    pub miner: String,
    pub outcome: String,
    /// 2 · multiply-accumulates per second / 10¹².
    pub tops: f64,
    /// The codes of its reasons.
    pub codes: String,
}

/// State of the view.
#[derive(Debug, Default)]
pub struct WatchView {
    /// Location of the validator.
    pub place: String,
    /// Whether colours are used.
    pub has_colour: bool,
    pub link: LinkState,
    /// State of the validator.
    pub status: Option<ServerStatus>,
    /// The miners, in order of concern: those that do not pass first.
    pub miners: Vec<Miner>,
    /// Whether the list of miners is complete.
    pub is_all: bool,
    /// The last verdicts, newest first.
    pub verdicts: VecDeque<VerdictSummary>,
    /// Text that shown miners must contain.
    pub filter: String,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// Whether passing miners are hidden.
    pub only_others: bool,
    /// Id of the selected miner.
    pub selected: Option<String>,
    /// Scroll position of the table.
    pub table: TableState,
    /// Details of one miner, once received, with the first line shown.
    pub detail: Option<(Option<Box<MinerDetail>>, u16)>,
}

impl WatchView {
    /// A view of a validator without any data yet.
    pub fn new(place: String, has_colour: bool) -> Self {
        Self { place, has_colour, is_all: true, ..Self::default() }
    }

    /// Applies an update.
    pub fn apply(&mut self, update: Update) {
        match update {
            Update::Status(status) => self.status = Some(*status),
            Update::Miners(miners, is_all) => {
                self.miners = miners;
                self.is_all = is_all;
                self.sort();
            }
            Update::Verdicts(verdicts) => self.verdicts = verdicts.into_iter().map(VerdictSummary::from).collect(),
            Update::Event(event) => self.event(*event),
            Update::Detail(detail) if self.detail.is_some() => self.detail = detail.map(|detail| (Some(detail), 0)),
            // The detail view was closed before the answer came.
            Update::Detail(_) => {}
            Update::Live => self.link = LinkState::Live,
            Update::Lost(why) => self.link = LinkState::Lost(why),
        }
    }

    fn event(&mut self, event: LiveEvent) {
        let LiveEvent { at_ms, miner, challenge, told, .. } = event;
        let Some(miner) = miner else { return };
        let found = self.miners.iter_mut().find(|known| known.record.id == miner).map(|known| &mut known.record);
        match told {
            EventDocument::Verdict(verdict) => {
                let challenge = challenge.unwrap_or_default();
                if let Some(record) = found {
                    record.last_verdict =
                        Some(LastVerdict { challenge: challenge.clone(), outcome: verdict.outcome.clone(), at_ms });
                }
                // A listed verdict is sent again after a lost connection.
                if self.verdicts.iter().any(|known| known.challenge == challenge) {
                    return;
                }
                let (outcome, tops, codes) = (verdict.outcome, verdict.tops, verdict.codes.join(", "));
                self.verdicts.push_front(VerdictSummary { at_ms, challenge, miner, outcome, tops, codes });
                self.verdicts.truncate(MAX_VERDICTS as usize);
            }
            EventDocument::State(transition) => {
                if let Some(record) = found {
                    record.state = transition.to;
                    // The reason for a changed state is in the next list.
                    self.sort();
                }
            }
            EventDocument::MinerConnected(connected) => {
                if let Some(record) = found {
                    record.connected_to = Some(connected.validator);
                }
            }
            EventDocument::MinerLeft(_) => {
                if let Some(record) = found {
                    record.connected_to = None;
                }
            }
            _ => {}
        }
    }

    /// Miners that do not pass first, among these connected ones first.
    fn sort(&mut self) {
        self.miners.sort_by_cached_key(|miner| {
            (passes(miner), Reverse(miner.record.connected_to.is_some()), miner.record.key.clone())
        });
    }

    /// The miners that match the filter.
    pub fn rows(&self) -> impl Iterator<Item = &Miner> {
        let filter = self.filter.to_lowercase();
        self.miners
            .iter()
            .filter(move |miner| (!self.only_others || !passes(miner)) && (filter.is_empty() || has(miner, &filter)))
    }

    /// The row of the selected miner; the first one if it is gone.
    pub fn position(&self) -> usize {
        let selected = self.selected.as_deref();
        self.rows().position(|miner| Some(miner.record.id.as_str()) == selected).unwrap_or(0)
    }

    /// The selected miner.
    pub fn current(&self) -> Option<&Miner> {
        self.rows().nth(self.position())
    }

    /// Handles a key; `None` is a change of the terminal's size.
    pub fn key(&mut self, key: Option<KeyEvent>) -> KeyEffect {
        let Some(key) = key else { return KeyEffect::Stay };
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { KeyEffect::Leave } else { KeyEffect::Stay };
        }
        if self.is_typing {
            self.typed(key.code);
            return KeyEffect::Stay;
        }
        if self.detail.is_some() {
            return self.in_detail(key.code);
        }
        match key.code {
            KeyCode::Char('q') => return KeyEffect::Leave,
            KeyCode::Esc if self.filter.is_empty() => return KeyEffect::Leave,
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
                    return KeyEffect::Ask(id);
                }
            }
            _ => {}
        }
        KeyEffect::Stay
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

    fn in_detail(&mut self, code: KeyCode) -> KeyEffect {
        let Some((_, line)) = &mut self.detail else { return KeyEffect::Stay };
        match code {
            KeyCode::Char('q') => return KeyEffect::Leave,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => self.detail = None,
            KeyCode::Up | KeyCode::Char('k') => *line = line.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => *line = line.saturating_add(1),
            KeyCode::PageUp => *line = line.saturating_sub(10),
            KeyCode::PageDown => *line = line.saturating_add(10),
            KeyCode::Home => *line = 0,
            _ => {}
        }
        KeyEffect::Stay
    }

    fn go(&mut self, by: isize) {
        let last = self.rows().count().saturating_sub(1);
        let to = self.position().saturating_add_signed(by).min(last);
        let selected = self.rows().nth(to).map(|miner| miner.record.id.clone());
        self.selected = selected;
    }
}

impl From<VerdictRecord> for VerdictSummary {
    fn from(record: VerdictRecord) -> Self {
        // A verdict of an unknown release has its outcome at least.
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

/// Whether a miner passes without a reason against it.
pub fn passes(miner: &Miner) -> bool {
    miner.known.reason.is_none() && miner.record.state == "passing"
}

/// Whether a miner's visible data contains a text.
fn has(miner: &Miner, text: &str) -> bool {
    let Miner { record, known } = miner;
    let labels = record.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let fields =
        [&record.key, &record.state, &record.address, &known.admitted].into_iter().chain(&known.models).cloned();
    let reason = known.reason.iter().map(|reason| reason.why.clone());
    fields.chain(reason).chain(labels).any(|field| field.to_lowercase().contains(text))
}
