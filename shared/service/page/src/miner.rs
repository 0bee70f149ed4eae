//! A miner: its devices, its results over time, the findings about it, and an operator's actions.

use assay_api::record::{Approval, MinerEvent, MinerRecord, SessionRecord};
use assay_api::{Miner, MinerDetail, MinerSeries};
use assay_policy::state::{QuarantineEnd, Standing};
use assay_program::render::units::figures as figures_of;
use maud::{Markup, html};

use crate::chart::strip;
use crate::frame::{Frame, LiveFilter, NavSection, cards, page};
use crate::text::{capital, counted, detail, name, sentence, short, spaced, whole_id};
use crate::verdicts::{ListedVerdict, VerdictsFilter};
use crate::{challenge, devices, fleet, time, verdicts, words};

mod actions;
mod figures;

#[derive(Debug, Clone, Copy)]
pub struct MinerView<'a> {
    pub frame: Frame<'a>,
    /// The miner, and all that lies behind it.
    pub detail: &'a MinerDetail,
    pub series: &'a MinerSeries,
    /// Its last verdicts, newest first.
    pub verdicts: &'a [ListedVerdict],
    /// Its other events, newest first.
    pub history: &'a [MinerEvent],
}

/// Verdicts of a miner that its page lists.
const MAX_LISTED: usize = 12;
/// Things that happened, which its page lists.
const MAX_HISTORY: usize = 24;

pub fn miner(view: &MinerView<'_>) -> String {
    let MinerView { frame, detail, verdicts, .. } = view;
    let record = &detail.miner.record;
    let title = detail.miner.known.name.as_deref().map_or_else(|| short(&record.id).to_owned(), crate::text::option);
    let outcomes: Vec<_> = verdicts.iter().map(|listed| words::outcome(&listed.record.outcome)).collect();
    let running = detail.connection.as_ref().and_then(|connection| connection.challenge.as_ref());
    let body = html! {
        div id="standing" data-part="whole" { (headline(&detail.miner)) }
        (actions::section(view))
        div id="running" data-part="whole" {
            @if let Some(running) = running {
                section aria-labelledby="runs" {
                    h2 id="runs" {
                        "Challenge " a href={ "/challenges/" (running.challenge_id) }
                        { (short(&running.challenge_id.to_string())) }
                        " runs"
                    }
                    (challenge::progress(running))
                }
            }
        }
        (figures::section(view))
        section aria-labelledby="verdicts-title" {
            h2 id="verdicts-title" { "Verdicts" }
            div id="history" data-part="whole" {
                @if !verdicts.is_empty() {
                    (strip::strip(&outcomes))
                }
            }
            @if verdicts.is_empty() { p.none { "None yet." } }
            @else { (verdicts::table(&verdicts[..verdicts.len().min(MAX_LISTED)], frame.now_ms, false)) }
            @if verdicts.len() > MAX_LISTED {
                p.paging {
                    a href=(VerdictsFilter { miner: record.id.clone(), ..VerdictsFilter::default() }.address()) {
                        "All its verdicts"
                    }
                }
            }
        }
        section aria-labelledby="devices-title" {
            h2 id="devices-title" { "Devices" }
            @if detail.devices.is_empty() {
                p.none { "It listed none yet." }
            } @else {
                (devices::table(&detail.devices, frame.now_ms, false))
            }
        }
        (findings(view))
        div.grid {
            section.panel aria-labelledby="facts" { h2 id="facts" { "About it" } (facts(view)) }
            section.panel aria-labelledby="events" { h2 id="events" { "What happened" } (history(view)) }
        }
        (sessions(view))
    };
    page(frame, NavSection::Fleet, LiveFilter::Miner(&record.id), &title, &body)
}

fn headline(miner: &Miner) -> Markup {
    let record = &miner.record;
    html! {
        div.title {
            h1 {
                @match &miner.known.name {
                    Some(named) => (name(named)), None => { "Miner " code { (short(&record.id)) } }
                }
            }
            p { (words::state_badge(&record.state)) }
            p { (fleet::presence(miner)) }
            (fleet::labels(&record.labels))
        }
        @match &miner.known.reason {
            Some(reason) => {
                div.callout.warn {
                    p { (sentence(&reason.why)) }
                    @if !reason.remedy.is_empty() { p.remedy { (sentence(&reason.remedy)) } }
                }
            }
            None => div.callout.good { p { "Attested. There is nothing to do." } }
        }
    }
}

fn facts(view: &MinerView<'_>) -> Markup {
    let (record, now_ms) = (&view.detail.miner.record, view.frame.now_ms);
    let standing = standing(record);
    html! {
        dl.facts {
            dt { "Id" } dd { (whole_id(&record.id)) }
            @if record.key != record.id { dt { "Newest key" } dd { (whole_id(&record.key)) } }
            @if record.keys.len() > 2 {
                dt { "Keys" } dd { (counted(record.keys.len() as u64, "key")) ", one after the other" }
            }
            dt { "Decision" }
            dd {
                @match record.status {
                    Approval::Pending => "None yet", decided => (capital(decided.name()))
                }
                "; admitted: " (name(&view.detail.miner.known.admitted))
            }
            dt { "Next challenge" }
            dd {
                @match &record.due {
                    Some(due) => { (time::at(due.at_ms, now_ms)) ", " (name(&due.kind)) } None => "–"
                }
                @if let Some(why) = &view.detail.delayed { span.sub { "Not made yet: " (detail(why)) } }
            }
            dt { "Group" } dd { (name(&view.detail.group)) }
            @if let Some(standing) = &standing { (of_standing(standing, now_ms)) }
            dt { "Address" } dd { (name(&record.address)) }
            dt { "Software" } dd { (name(&record.software)) }
            @if let Some(ms) = view.detail.connection.as_ref().and_then(|connection| connection.round_trip_ms) {
                dt { "Round trip" } dd { (figures_of(ms)) " ms" }
            }
            dt { "First seen" } dd { (time::at(record.first_seen_ms, now_ms)) }
            dt { "Came or left" } dd { (time::at(record.last_seen_ms, now_ms)) }
        }
    }
}

/// The basis of the miner's attestation.
fn standing(record: &MinerRecord) -> Option<Standing> {
    record.standing.as_ref().and_then(|standing| serde_json::from_str(standing.get()).ok())
}

fn of_standing(standing: &Standing, now_ms: i64) -> Markup {
    let ms = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX / 1000).saturating_mul(1000);
    let totals = standing.totals;
    html! {
        @if let Some(last) = standing.last_pass_s { dt { "Last pass" } dd { (time::at(ms(last), now_ms)) } }
        @if let Some(until) = standing.quarantine {
            dt { "Quarantine" }
            dd {
                @match until {
                    QuarantineEnd::Time(until) => { "until " (time::at(ms(until), now_ms)) }
                    QuarantineEnd::Release => "until an operator releases it"
                }
            }
        }
        @if !standing.because.is_empty() { dt { "Counts against it" } dd { (detail(&standing.because)) } }
        dt { "In all" }
        dd {
            (totals.passes) " passed, " (totals.fails) " failed, " (totals.inconclusive) " inconclusive ("
            (totals.declined) " of them declined), " (totals.missed) " missed"
        }
    }
}

fn findings(view: &MinerView<'_>) -> Markup {
    let findings = &view.detail.findings;
    html! {
        section id="findings" data-part="whole" aria-labelledby="findings-title" {
            h2 id="findings-title" { "Findings" }
            @if findings.is_empty() { p.none { "None." } }
            @for noted in findings {
                div.callout.(if noted.finding.enforced { "bad" } else { "warn" }) {
                    h3 {
                        (capital(&spaced(&noted.finding.code))) " "
                        span.tag { (if noted.finding.enforced { "counts" } else { "only recorded" }) }
                    }
                    p { (detail(&noted.finding.detail)) }
                    p.muted {
                        (time::ago(noted.at_ms, view.frame.now_ms))
                        @if let Some(device) = &noted.finding.device_id { " · device " code { (short(device)) } }
                        @if let Some(other) = &noted.finding.other_miner {
                            " · other miner " a href={ "/miners/" (other) } { code { (short(other)) } }
                        }
                        @if let Some(challenge) = &noted.challenge {
                            " · " a href={ "/verdicts/" (challenge) } { "verdict " (short(challenge)) }
                        }
                    }
                }
            }
        }
    }
}

/// The events beside verdicts, sessions and findings, which stand elsewhere on the page.
fn history(view: &MinerView<'_>) -> Markup {
    let is_shown = |event: &&MinerEvent| {
        matches!(event, MinerEvent::Transition(_) | MinerEvent::Device(_) | MinerEvent::Action(_))
    };
    let events: Vec<_> = view.history.iter().filter(is_shown).take(MAX_HISTORY).collect();
    html! {
        div id="happened" data-part="whole" {
            @if events.is_empty() { p.none { "Nothing yet." } }
            ol.history {
                @for event in events {
                    li { (happened(event)) div.when { (time::ago(event.at_ms(), view.frame.now_ms)) } }
                }
            }
        }
    }
}

fn happened(event: &MinerEvent) -> Markup {
    html! {
        @match event {
            MinerEvent::Transition(noted) => {
                (words::state_badge(&noted.transition.from)) " → " (words::state_badge(&noted.transition.to))
                @if !noted.transition.detail.is_empty() { ": " (detail(&noted.transition.detail)) }
                @if let Some(challenge) = &noted.challenge {
                    " (" a href={ "/verdicts/" (challenge) } { (short(challenge)) } ")"
                }
            }
            MinerEvent::Device(event) => {
                "Device " code { (short(&event.device_id)) } " " (name(&event.what))
                @if !event.detail.is_empty() { ": " (detail(&event.detail)) }
            }
            MinerEvent::Action(action) => {
                (capital(&crate::text::option(&action.action))) " by " (name(&action.actor.name))
                @if !action.detail.is_empty() { ": " (detail(&action.detail)) }
            }
            MinerEvent::Session(_) | MinerEvent::Verdict(_) | MinerEvent::Finding(_) => {}
        }
    }
}

fn sessions(view: &MinerView<'_>) -> Markup {
    let (sessions, now_ms) = (&view.detail.sessions, view.frame.now_ms);
    html! {
        section aria-labelledby="sessions-title" {
            h2 id="sessions-title" { "Sessions" }
            @if sessions.is_empty() { p.none { "It never connected." } } @else {
                (cards("Sessions, newest first", "sessions", &["Connected", "For", "From", "Software", "Ended"], &html! {
                    @for session in sessions { (session_row(session, now_ms)) }
                }))
            }
        }
    }
}

fn session_row(session: &SessionRecord, now_ms: i64) -> Markup {
    html! {
        tr id={ "session-" (session.id) } {
            th scope="row" { (time::ago(session.connected_ms, now_ms)) span.sub { code { (short(&session.id)) } } }
            td data-of="For" {
                @match session.disconnected_ms {
                    Some(end) => (time::stretch(end.saturating_sub(session.connected_ms))),
                    None => (words::online())
                }
            }
            td data-of="From" { (name(&session.address)) }
            td data-of="Software" { (name(&session.software)) }
            td data-of="Ended" { @match &session.why { Some(why) => (detail(why)), None => span.muted { "–" } } }
        }
    }
}
