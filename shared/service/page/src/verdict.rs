//! A verdict, and every figure behind it.

use assay_api::record::FullVerdict;
use assay_program::render::units::{figures as shown, gib};
use assay_protocol::verdict::{Outcome, Reason, Verdict};
use maud::{Markup, html};

use crate::frame::{Frame, LiveFilter, NavSection, page};
use crate::text::{capital, counted, detail, name, sentence, short, whole_id};
use crate::{time, words};

mod figures;
mod proof;
mod soundness;

#[derive(Debug, Clone, Copy)]
pub struct VerdictView<'a> {
    pub frame: Frame<'a>,
    pub verdict: &'a Verdict,
    pub record: &'a FullVerdict,
    /// The operators' name of the miner.
    pub miner_name: Option<&'a str>,
}

pub fn verdict(view: &VerdictView<'_>) -> String {
    let VerdictView { frame, verdict, record, .. } = view;
    let title = format!("{} {}", capital(&verdict.outcome.to_string()), short(&record.record.challenge));
    let body = html! {
        (headline(view))
        (reasons(verdict))
        (figures::section(verdict))
        (soundness::section(verdict))
        div.grid {
            section.panel aria-labelledby="challenge" { h2 id="challenge" { "Challenge" } (facts(view)) }
            (figures::clock(verdict))
        }
        (other_devices(verdict))
        (figures::claims(verdict))
        (proof::findings(record))
        (proof::section(record))
    };
    page(frame, NavSection::Verdicts, LiveFilter::Not, &title, &body)
}

fn headline(view: &VerdictView<'_>) -> Markup {
    let VerdictView { frame, verdict, record, miner_name } = view;
    let (icon, tone) = words::of_outcome(verdict.outcome);
    let record = &record.record;
    html! {
        div.outcome.(tone.name()) {
            (icon.svg())
            div {
                h1 { (capital(&verdict.outcome.to_string())) ": " (verdict.meaning()) }
                p {
                    "Miner " a href={ "/miners/" (record.miner) } {
                        @match miner_name { Some(named) => (name(named)), None => (short(&record.miner)) }
                    }
                    ", judged " (time::at(record.at_ms, frame.now_ms)) "."
                }
            }
        }
    }
}

fn reasons(verdict: &Verdict) -> Markup {
    html! {
        @if !verdict.reasons.is_empty() {
            section aria-labelledby="why" {
                h2 id="why" { "Why" }
                @for reason in &verdict.reasons { (paragraph(reason, verdict)) }
            }
        }
    }
}

/// A reason with its meaning, circumstances and remedy.
fn paragraph(reason: &Reason, verdict: &Verdict) -> Markup {
    let code = reason.code;
    let tone = if code.class().fails() { "bad" } else { "warn" };
    let named = reason.device_id.and_then(|id| verdict.devices.iter().find(|device| device.device_id == id));
    html! {
        div.callout.reason.(tone) {
            h3 { (code.about()) " " code.tag { (code.name()) } span.tag { (code.class().name()) } }
            @if let Some(id) = reason.device_id {
                p { "Device " code { (id) } @if let Some(device) = named { " (" (name(&device.name)) ")" } "." }
            }
            @if !reason.detail.is_empty() { p { (detail(&reason.detail)) } }
            p.remedy { (sentence(code.advice())) }
        }
    }
}

fn facts(view: &VerdictView<'_>) -> Markup {
    let VerdictView { frame, verdict, record: full, .. } = view;
    let record = &full.record;
    html! {
        dl.facts {
            dt { "Challenge" } dd { (whole_id(&record.challenge)) }
            dt { "Miner's key" } dd { (whole_id(&verdict.miner_key.to_string())) }
            dt { "Validator's key" } dd { (whole_id(&verdict.validator_key.to_string())) }
            dt { "Judged" } dd { (time::at(record.at_ms, frame.now_ms)) }
            dt { "Asked by" }
            dd {
                (name(&record.asked)) ", kind " (name(&record.kind))
                @if !record.group.is_empty() { ", group " (name(&record.group)) }
            }
            @if let Some(round) = &record.round {
                dt { "Round" } dd { a href={ "/rounds/" (round) } { (short(round)) } }
            }
            @if verdict.n > 0 { dt { "Work" } dd { (work(verdict)) } }
            dt { "Device time" }
            dd { (shown(record.device_ms as f64 / 1000.0)) " s over all devices" }
            @if verdict.abandoned_recently > 0 {
                dt { "Broken off" }
                dd {
                    (verdict.abandoned_recently) " of the last "
                    (counted(verdict.recent_challenges.into(), "challenge"))
                }
            }
            dt { "Session" } dd { (whole_id(&full.session)) }
        }
    }
}

fn work(verdict: &Verdict) -> String {
    let passes = counted(verdict.iterations.into(), "iteration");
    let checked = match verdict.mode {
        Some(mode) => format!("{} checked by {mode}", verdict.iterations_checked),
        None => "none checked".to_owned(),
    };
    format!("n = {}, {passes}, {checked}", verdict.n)
}

/// Devices that took no part, and those that are new.
fn other_devices(verdict: &Verdict) -> Markup {
    let Verdict { not_challenged, missing_devices, new_devices, .. } = verdict;
    if not_challenged.is_empty() && missing_devices.is_empty() && new_devices.is_empty() {
        return Markup::default();
    }
    html! {
        section aria-labelledby="other-devices" {
            h2 id="other-devices" { "Other devices" }
            ul.sentences {
                @for device in missing_devices {
                    li {
                        "Missing: " (name(&device.name)) " (" code { (device.device_id) }
                        "), which the key showed before."
                    }
                }
                @for device in new_devices {
                    li {
                        "New: " (name(&device.name)) " (" code { (device.device_id) }
                        "), which the key never showed before."
                    }
                }
                @for device in not_challenged {
                    li {
                        "Not challenged: " (name(&device.name)) " (" code { (device.device_id) } "), which holds "
                        (counted(device.slots.into(), "slot")) " of n = " (verdict.n)
                        ". The verdict says nothing about it."
                    }
                }
            }
        }
    }
}

/// A line of a list of verdicts.
pub(crate) fn summary(verdict: &Verdict) -> Markup {
    html! {
        @match verdict.reasons.first() {
            None if verdict.outcome == Outcome::Pass => {
                span.muted {
                    (shown(verdict.whole.tops)) " TOPS, "
                    (gib(verdict.whole.bytes_held)) " GiB held"
                }
            }
            None => span.muted { (verdict.meaning()) },
            Some(reason) => {
                span { (reason.code.about()) }
                @if verdict.reasons.len() > 1 {
                    span.muted { " And " (counted(verdict.reasons.len() as u64 - 1, "more reason")) "." }
                }
                span.sub.remedy { (sentence(reason.code.advice())) }
            }
        }
    }
}
