//! The fleet at a glance: passes, failures with their reasons, and remedies.

use std::collections::BTreeMap;

use assay_api::record::{Approval, MinerCount, ModelCount};
use assay_api::{ListPage, Miner};
use assay_policy::state::State;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, LiveFilter, NavSection, cards, next, page};
use crate::icon::{Icon, Tone, badge};
use crate::text::{capital, counted, is_choice, name, sentence, short};
use crate::{address, time, words};

/// Models that can be chosen.
const MAX_MODELS: usize = 100;
/// Labels of a miner that a list shows.
const MAX_LABELS: usize = 6;
/// Models of a miner that a list names.
const MAX_NAMED: usize = 2;

/// The states in which a miner takes part and does not pass: as the API has it, and in words.
const NOT_PASSING: (&str, &str) = ("not_passing", "Do not pass");

/// The filter of the fleet, as its form sends it; an empty field selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetFilter {
    /// A text in keys, labels, address or software.
    pub text: String,
    pub state: String,
    pub status: String,
    /// The outcome of the last verdict.
    pub outcome: String,
    /// A model of a device.
    pub model: String,
    /// `NAME=VALUE`.
    pub label: String,
    /// `true` or `false`.
    pub connected: String,
    pub cursor: String,
}

impl FleetFilter {
    /// The address of the fleet so filtered.
    pub fn address(&self) -> String {
        let Self { text, state, status, outcome, model, label, connected, cursor } = self;
        let parameters = [
            ("text", text),
            ("state", state),
            ("status", status),
            ("outcome", outcome),
            ("model", model),
            ("label", label),
            ("connected", connected),
            ("cursor", cursor),
        ];
        address::with("/", &parameters.map(|(name, value)| (name, value.as_str())))
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct FleetView<'a> {
    pub frame: Frame<'a>,
    /// A page of the miners that fit.
    pub miners: &'a ListPage<Miner>,
    pub filter: &'a FleetFilter,
    /// Counts over all miners.
    pub counts: &'a [MinerCount],
    /// The models of their devices, the most frequent first.
    pub models: &'a [ModelCount],
    /// How many miners are connected to this validator.
    pub connected: u32,
    /// The target by which a miner dials this validator.
    pub target: &'a str,
}

pub fn fleet(view: &FleetView<'_>) -> String {
    let all: i64 = view.counts.iter().map(|count| count.miners).sum();
    let body = html! {
        div.title {
            h1 { "Fleet" }
            p.muted id="headline" data-part="whole" { (headline(view, all)) }
        }
        @if all == 0 {
            (welcome(view))
        } @else {
            (counts(view, all))
            (filters(view))
            (list(view))
        }
    };
    page(&view.frame, NavSection::Fleet, LiveFilter::All, "Fleet", &body)
}

fn in_state(counts: &[MinerCount], state: &str) -> i64 {
    counts.iter().filter(|count| count.state == state).map(|count| count.miners).sum()
}

fn headline(view: &FleetView<'_>, all: i64) -> Markup {
    let attested: i64 = State::ALL
        .into_iter()
        .filter(|state| state.is_attested())
        .map(|state| in_state(view.counts, state.name()))
        .sum();
    html! {
        @if all == 0 { "No miner yet" }
        @else { strong { (attested) " of " (counted(all.unsigned_abs(), "miner")) } " attested" }
        " · " (view.connected) " connected to this validator"
    }
}

fn counts(view: &FleetView<'_>, all: i64) -> Markup {
    let tile = |state: &str, count: i64, label: Markup| {
        let filter = FleetFilter { state: state.to_owned(), ..FleetFilter::default() };
        let is_here = view.filter.state == state;
        html! {
            li.zero[count == 0] {
                a href=(filter.address()) aria-current=[is_here.then_some("true")] { strong { (count) } (label) }
            }
        }
    };
    let concerns = State::ALL.into_iter().filter(|state| state.is_concern());
    let not_passing: i64 = concerns.map(|state| in_state(view.counts, state.name())).sum();
    html! {
        ul.counts id="counts" data-part="whole" aria-label="Miners by attestation state" {
            (tile("", all, html! { "All miners" }))
            (tile(NOT_PASSING.0, not_passing, html! { (NOT_PASSING.1) }))
            @for state in State::ALL {
                (tile(state.name(), in_state(view.counts, state.name()), words::state_badge(state.name())))
            }
        }
    }
}

fn filters(view: &FleetView<'_>) -> Markup {
    let filter = view.filter;
    let presences =
        [("true", "Connected"), ("false", "Away")].map(|(value, words)| (value.to_owned(), words.to_owned()));
    let (value, words) = NOT_PASSING;
    let states: Vec<_> = std::iter::once((value.to_owned(), words.to_owned()))
        .chain(State::ALL.map(|state| same(state.name())))
        .collect();
    html! {
        form.filters method="get" action="/" role="search" aria-label="Filter miners" {
            (field("text", "Key, label, address", &filter.text, "search", ""))
            (field("label", "Label", &filter.label, "text", "rack=7"))
            (select("model", "Model", &filter.model, &models(view)))
            (select("state", "State", &filter.state, &states))
            (select("outcome", "Last verdict", &filter.outcome, &["pass", "fail", "inconclusive"].map(same)))
            (select("status", "Decision", &filter.status, &Approval::ALL.map(|status| same(status.name()))))
            (select("connected", "Connection", &filter.connected, &presences))
            button.primary type="submit" { "Filter" }
            @if !filter.is_empty() { a.button href="/" { "Show all" } }
        }
    }
}

fn same(value: &str) -> (String, String) {
    (value.to_owned(), capital(value))
}

/// Models with how many devices there are of each.
fn models(view: &FleetView<'_>) -> Vec<(String, String)> {
    let named = view.models.iter().filter(|count| is_choice(&count.model)).take(MAX_MODELS);
    named
        .map(|count| (count.model.clone(), format!("{} ({})", crate::text::option(&count.model), count.devices)))
        .collect()
}

/// A field of a form of filters.
pub(crate) fn field(id: &str, label: &str, value: &str, kind: &str, example: &str) -> Markup {
    html! {
        div.field.wide[id == "text"] {
            label for=(id) { (label) }
            input id=(id) name=(id) type=(kind) value=(value) placeholder=[(!example.is_empty()).then_some(example)]
                maxlength="128" autocomplete="off" spellcheck="false";
        }
    }
}

/// A choice in a form of filters; the chosen value stays among the choices.
pub(crate) fn select(id: &str, label: &str, value: &str, choices: &[(String, String)]) -> Markup {
    let is_known = value.is_empty() || choices.iter().any(|(choice, _)| choice == value);
    html! {
        div.field {
            label for=(id) { (label) }
            select id=(id) name=(id) {
                option value="" { "Any" }
                @if !is_known { option value=(value) selected { (crate::text::option(value)) } }
                @for (choice, words) in choices { option value=(choice) selected[choice == value] { (words) } }
            }
        }
    }
}

fn list(view: &FleetView<'_>) -> Markup {
    let following = view
        .miners
        .next
        .as_ref()
        .map(|cursor| FleetFilter { cursor: cursor.as_str().to_owned(), ..view.filter.clone() }.address());
    html! {
        div id="list" {
            @if view.miners.items.is_empty() {
                p.panel.none { "No miner fits. " a href="/" { "Show all" } "." }
            } @else {
                (cards("Miners", "miners", &["Miner", "State", "Devices", "Last verdict", "Next", "Why, and what to do"], &html! {
                    @for miner in &view.miners.items { (row(miner, view.frame.now_ms)) }
                }))
            }
            (next(following.as_deref()))
        }
    }
}

fn row(miner: &Miner, now_ms: i64) -> Markup {
    let record = &miner.record;
    html! {
        tr id={ "miner-" (record.id) } {
            th scope="row" {
                (link(miner))
                span.sub {
                    @if miner.known.name.is_some() { code { (short(&record.id)) } " · " } (name(&record.address))
                }
                (labels(&record.labels))
            }
            td data-of="State" { div { (words::state_badge(&record.state)) span.sub { (presence(miner)) } } }
            td data-of="Devices" { (devices(miner)) }
            td data-of="Last verdict" {
                @match &record.last_verdict {
                    Some(last) => {
                        div {
                            a href={ "/verdicts/" (last.challenge) }
                            { (words::outcome_badge(words::outcome(&last.outcome))) }
                            span.sub { (time::ago(last.at_ms, now_ms)) }
                        }
                    }
                    None => span.muted { "None yet" }
                }
            }
            td data-of="Next" {
                @match &record.due {
                    Some(due) => div { (time::ago(due.at_ms, now_ms)) span.sub { (name(&due.kind)) } },
                    None => span.muted { "–" }
                }
            }
            td data-of="Why" { (why(miner)) }
        }
    }
}

/// Why a miner is not attested, and the remedy; nothing to do where it is.
pub(crate) fn why(miner: &Miner) -> Markup {
    html! {
        @match &miner.known.reason {
            Some(reason) => {
                div.why {
                    (sentence(&reason.why))
                    @if !reason.remedy.is_empty() { span.sub.remedy { (sentence(&reason.remedy)) } }
                }
            }
            None => span.muted { "Nothing to do" }
        }
    }
}

/// The name of a miner, as a link to its page.
fn link(miner: &Miner) -> Markup {
    html! {
        a href={ "/miners/" (miner.record.id) } {
            @match &miner.known.name { Some(named) => (name(named)), None => code { (short(&miner.record.id)) } }
        }
    }
}

/// Whether a miner is there.
pub(crate) fn presence(miner: &Miner) -> Markup {
    if miner.record.connected_to.is_some() {
        badge(Icon::Online, Tone::Good, "Connected")
    } else {
        badge(Icon::Offline, Tone::Calm, "Away")
    }
}

fn devices(miner: &Miner) -> Markup {
    let known = &miner.known;
    html! {
        div {
            @match &known.models[..] {
                [model] => { (known.device_count) " × " (name(model)) }
                models => {
                    (counted(known.device_count.into(), "device"))
                    @for model in models.iter().take(MAX_NAMED) { span.sub { (name(model)) } }
                    @if models.len() > MAX_NAMED {
                        span.sub { "and " (counted((models.len() - MAX_NAMED) as u64, "more model")) }
                    }
                }
            }
        }
    }
}

/// Labels, but for the name.
pub(crate) fn labels(labels: &BTreeMap<String, String>) -> Markup {
    let shown: Vec<_> = labels.iter().filter(|(label, _)| *label != "name").collect();
    html! {
        @if !shown.is_empty() {
            ul.tags {
                @for (label, value) in shown.iter().take(MAX_LABELS) {
                    li { (label_tag(label, value)) }
                }
                @if shown.len() > MAX_LABELS { li.muted { "+" (shown.len() - MAX_LABELS) } }
            }
        }
    }
}

/// A label, as a link to all that have it where it can be one.
fn label_tag(label: &str, value: &str) -> Markup {
    let words = html! { (name(label)) "=" (name(value)) };
    let both = format!("{label}={value}");
    html! {
        @if is_choice(&both) {
            a.tag href=(FleetFilter { label: both, ..FleetFilter::default() }.address()) { (words) }
        }
        @else { span.tag { (words) } }
    }
}

/// The first steps, for an empty fleet.
fn welcome(view: &FleetView<'_>) -> Markup {
    html! {
        section.panel aria-labelledby="begin" {
            h2 id="begin" { "Three commands to the first verdict" }
            ol.commands {
                li {
                    p { "Here, make a join token, which lets one miner in:" }
                    pre tabindex="0" { code data-copy="the command" { "assay-validator enroll > token" } }
                }
                li {
                    p {
                        "On the host with the GPUs, with that file, start the miner. It dials this validator only:"
                    }
                    pre tabindex="0" {
                        code data-copy="the command" {
                            "assay-miner run --validator '" (view.target) "' --join-token-file token"
                        }
                    }
                }
                li {
                    p { "Here again, challenge it and read the verdict:" }
                    pre tabindex="0" { code data-copy="the command" { "assay-validator challenge" } }
                }
            }
            p.muted { "The miner appears on this page as soon as it connects." }
        }
    }
}
