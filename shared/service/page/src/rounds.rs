//! Rounds: who was asked to start in the same moment, and who did when.

use std::collections::BTreeMap;

use assay_api::record::{RoundMember, RoundRecord};
use assay_api::{Round, RoundDetail};
use assay_program::render::units::figures;
use assay_protocol::verdict::Outcome;
use maud::{Markup, html};

use crate::frame::{Frame, LiveFilter, NavSection, cards, next, page};
use crate::icon::{Icon, Tone, badge};
use crate::text::{capital, counted, detail, name, option, short, whole_id};
use crate::{address, time, words};

/// Rounds that the matrix has as columns.
pub const MAX_COLUMNS: usize = 12;
/// Miners that the matrix has as rows.
const MAX_ROWS: usize = 500;

/// The operators' names of miners, by their ids.
pub type Names = BTreeMap<String, String>;
/// The outcomes of challenges, by their ids.
pub type Outcomes = BTreeMap<String, Outcome>;

#[derive(Debug, Clone, Copy)]
pub struct RoundsView<'a> {
    pub frame: Frame<'a>,
    /// Newest first.
    pub rounds: &'a [Round],
    pub next: Option<&'a str>,
    pub names: &'a Names,
    /// The outcomes of their challenges.
    pub outcomes: &'a Outcomes,
}

#[derive(Debug, Clone, Copy)]
pub struct RoundView<'a> {
    pub frame: Frame<'a>,
    pub round: &'a Round,
    pub names: &'a Names,
    /// The outcomes of their challenges.
    pub outcomes: &'a Outcomes,
}

/// The page of rounds: a matrix of who answered when.
pub fn rounds(view: &RoundsView<'_>) -> String {
    let following = view.next.map(|cursor| address::with("/rounds", &[("cursor", cursor)]));
    let body = html! {
        div.title {
            h1 { "Rounds" }
            p.muted { "Members of a round are challenged in the same moment: one host cannot answer for two." }
        }
        @if view.rounds.is_empty() {
            section.panel aria-labelledby="none" {
                h2 id="none" { "No round yet" }
                p { "The policy of a group begins rounds by itself. Begin one of all connected miners with:" }
                pre tabindex="0" { code data-copy="the command" { "assay-validator round" } }
            }
        } @else {
            (matrix(view))
        }
        (next(following.as_deref()))
    };
    page(&view.frame, NavSection::Rounds, LiveFilter::All, "Rounds", &body)
}

fn matrix(view: &RoundsView<'_>) -> Markup {
    let rounds = &view.rounds[..view.rounds.len().min(MAX_COLUMNS)];
    let mut miners: BTreeMap<&str, Vec<Option<(&Round, &RoundMember)>>> = BTreeMap::new();
    for (column, round) in rounds.iter().enumerate() {
        for member in &round.members {
            miners.entry(&member.miner).or_insert_with(|| vec![None; rounds.len()])[column] = Some((round, member));
        }
    }
    let now_ms = view.frame.now_ms;
    html! {
        div.table.matrix tabindex="0" role="region" aria-label="Who answered when" {
            table {
                caption { "Each cell: what became of the miner in the round, and how long after its start." }
                thead {
                    tr {
                        th scope="col" { "Miner" }
                        @for round in rounds {
                            th scope="col" {
                                a href={ "/rounds/" (round.record.id) } { (time::ago(round.record.begun_ms, now_ms)) }
                                span.sub { (name(&round.record.group)) }
                            }
                        }
                    }
                }
                tbody id="matrix" data-part="rows" {
                    @for (miner, cells) in miners.iter().take(MAX_ROWS) {
                        tr id={ "miner-" (miner) } {
                            th scope="row" { (link(miner, view.names)) }
                            @for cell in cells {
                                td {
                                    @match cell {
                                        Some((round, member)) => (answered(round, member, view.outcomes)),
                                        None => span.muted { "–" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if miners.len() > MAX_ROWS {
            p.muted {
                "And " (counted((miners.len() - MAX_ROWS) as u64, "more miner")) "; each round's own page has all."
            }
        }
    }
}

fn link(miner: &str, names: &Names) -> Markup {
    html! {
        a href={ "/miners/" (miner) } {
            @match names.get(miner) { Some(named) => (name(named)), None => code { (short(miner)) } }
        }
    }
}

/// The state of a member, and its time after the round's start.
fn answered(round: &Round, member: &RoundMember, outcomes: &Outcomes) -> Markup {
    html! {
        (state(member, outcomes))
        span.sub { "+" (after(round, member)) " s" }
    }
}

/// How long after the round's start it became so, in seconds.
fn after(round: &Round, member: &RoundMember) -> String {
    let after_ms = member.at_ms.saturating_sub(round.record.begun_ms).max(0);
    figures(after_ms as f64 / 1000.0)
}

fn state(member: &RoundMember, outcomes: &Outcomes) -> Markup {
    let outcome = member.challenge.as_ref().and_then(|challenge| Some((challenge, outcomes.get(challenge)?)));
    html! {
        @match (outcome, member.state.as_str()) {
            (Some((challenge, outcome)), _) => a href={ "/verdicts/" (challenge) } { (words::outcome_badge(*outcome)) },
            (None, "invited") => (badge(Icon::Start, Tone::Calm, "Invited")),
            (None, "started") => (badge(Icon::Runs, Tone::Calm, "Runs")),
            (None, "judged") => (badge(Icon::Pass, Tone::Calm, "Judged")),
            (None, "late") => (badge(Icon::Clock, Tone::Warn, "Late")),
            (None, "declined") => (badge(Icon::Pause, Tone::Warn, "Declined")),
            (None, "absent") => (badge(Icon::Offline, Tone::Warn, "Absent")),
            (None, other) => (badge(Icon::Unclear, Tone::Calm, &capital(&option(other))))
        }
    }
}

pub fn round(view: &RoundView<'_>) -> String {
    let RoundView { frame, round, names, outcomes } = view;
    let record = &round.record;
    let title = format!("Round {}", short(&record.id));
    let body = html! {
        div.title {
            h1 { "Round " code { (short(&record.id)) } }
            p id="summary" data-part="whole" { (summary(round)) }
        }
        section.panel {
            dl.facts id="facts" data-part="whole" {
                dt { "Id" } dd { (whole_id(&record.id)) }
                dt { "Group" } dd { (name(&record.group)) }
                dt { "Asked by" } dd { (name(&record.asked)) }
                dt { "Begun" } dd { (time::at(record.begun_ms, frame.now_ms)) }
                dt { "Ended" }
                dd { @match record.ended_ms { Some(end) => (time::at(end, frame.now_ms)), None => (words::online()) } }
                @if let Some(words) = together(record) { dt { "Probes" } dd { (words) } }
            }
        }
        section aria-labelledby="members-title" {
            h2 id="members-title" { "Members" }
            (cards("Members of the round", "members", &["Miner", "What became of it", "After the start", "Circumstances"], &html! {
                @for member in &round.members {
                    tr id={ "member-" (member.miner) } {
                        th scope="row" { (link(&member.miner, names)) }
                        td data-of="Became" { (state(member, outcomes)) }
                        td data-of="After" { (after(round, member)) " s" }
                        td data-of="Details" { (detail(&member.detail)) }
                    }
                }
            }))
        }
    };
    page(frame, NavSection::Rounds, LiveFilter::All, &title, &body)
}

fn summary(round: &Round) -> Markup {
    let count = |state: &str| round.members.iter().filter(|member| member.state == state).count();
    let late = round.members.iter().filter(|m| matches!(m.state.as_str(), "late" | "declined" | "absent")).count();
    html! {
        span.muted {
            (count("judged")) " of " (counted(round.members.len() as u64, "member")) " judged"
            @if late > 0 { ", " (late) " did not start in time" }
        }
    }
}

/// How many probes went out together, and when.
fn together(record: &RoundRecord) -> Option<String> {
    let RoundDetail { probed_ms, probed_together } = RoundDetail::of(record);
    Some(format!("{probed_together} sent together {} s after the start", figures(probed_ms? as f64 / 1000.0)))
}
