//! A list of verdicts, newest first.

use assay_api::record::VerdictRecord;
use assay_protocol::verdict::{ReasonCode, Verdict};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use crate::fleet::{field, select};
use crate::frame::{Frame, LiveFilter, NavSection, cards, next, page};
use crate::text::{capital, name, short, spaced};
use crate::{address, time, verdict, words};

/// A verdict of a list.
#[derive(Debug, Clone)]
pub struct ListedVerdict {
    pub record: VerdictRecord,
    /// The verdict; `None` where another release wrote fields that this one does not know.
    pub verdict: Option<Verdict>,
    /// The operators' name of its miner.
    pub miner_name: Option<String>,
}

/// The filter of verdicts, as the form sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerdictsFilter {
    /// The first digits of a key of the miner.
    pub miner: String,
    pub outcome: String,
    /// The code of a reason.
    pub code: String,
    pub cursor: String,
}

impl VerdictsFilter {
    /// The address of the list so filtered.
    pub fn address(&self) -> String {
        let Self { miner, outcome, code, cursor } = self;
        address::with("/verdicts", &[("miner", miner), ("outcome", outcome), ("code", code), ("cursor", cursor)])
    }
}

#[derive(Debug, Clone, Copy)]
pub struct VerdictsView<'a> {
    pub frame: Frame<'a>,
    pub verdicts: &'a [ListedVerdict],
    pub next: Option<&'a str>,
    pub filter: &'a VerdictsFilter,
}

pub fn verdicts(view: &VerdictsView<'_>) -> String {
    let VerdictsView { frame, verdicts, filter, .. } = view;
    let following = view.next.map(|cursor| VerdictsFilter { cursor: cursor.to_owned(), ..(*filter).clone() }.address());
    let outcomes = ["pass", "fail", "inconclusive"].map(|name| (name.to_owned(), capital(name)));
    let codes: Vec<_> =
        ReasonCode::ALL.iter().map(|code| (code.name().to_owned(), capital(&spaced(code.name())))).collect();
    let body = html! {
        div.title { h1 { "Verdicts" } p.muted { "Newest first" } }
        form.filters method="get" action="/verdicts" role="search" aria-label="Filter verdicts" {
            (field("miner", "Miner's key", &filter.miner, "search", "first digits"))
            (select("outcome", "Outcome", &filter.outcome, &outcomes))
            (select("code", "Reason", &filter.code, &codes))
            button.primary type="submit" { "Filter" }
            @if **filter != VerdictsFilter::default() { a.button href="/verdicts" { "Show all" } }
        }
        @if verdicts.is_empty() { p.panel.none { "No verdict fits." } } @else { (table(verdicts, frame.now_ms, true)) }
        (next(following.as_deref()))
    };
    page(frame, NavSection::Verdicts, LiveFilter::All, "Verdicts", &body)
}

/// The list as a table, with or without the miner.
pub(crate) fn table(verdicts: &[ListedVerdict], now_ms: i64, with_miner: bool) -> Markup {
    let mut titles = vec!["Verdict", "When", "Miner", "Asked by", "What was found"];
    titles.retain(|title| with_miner || *title != "Miner");
    cards("Verdicts", "verdicts", &titles, &html! { @for listed in verdicts { (row(listed, now_ms, with_miner)) } })
}

fn row(listed: &ListedVerdict, now_ms: i64, with_miner: bool) -> Markup {
    let ListedVerdict { record, verdict, miner_name } = listed;
    html! {
        tr id={ "verdict-" (record.challenge) } {
            th scope="row" {
                a href={ "/verdicts/" (record.challenge) } { (words::outcome_badge(words::outcome(&record.outcome))) }
                span.sub { code { (short(&record.challenge)) } }
            }
            td data-of="When" { (time::ago(record.at_ms, now_ms)) }
            @if with_miner {
                td data-of="Miner" {
                    a href={ "/miners/" (record.miner) } {
                        @match miner_name { Some(named) => (name(named)), None => code { (short(&record.miner)) } }
                    }
                }
            }
            td data-of="Asked by" { div { (name(&record.asked)) span.sub { (name(&record.kind)) } } }
            td data-of="Found" {
                div.why {
                    @match verdict {
                        Some(verdict) => (verdict::summary(verdict)), None => span.muted {
                            "Written by another release"
                        }
                    }
                }
            }
        }
    }
}
