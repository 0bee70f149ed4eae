//! A miner's month for a lender: one page to print, which needs nothing beside it.

use std::collections::BTreeMap;

use assay_program::render::units::{figures, gib};
use assay_program::utc;
use assay_protocol::verdict::Outcome;
use assay_receipts::{DayProof, PeriodReport, Stated, StatedRange};
use assay_work::text::printable;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assets::STYLE;
use crate::chart::{Chart, ChartLine, Point};
use crate::text::{counted, detail, name, short};

const DAY_WIDTH: usize = 13;
const DAY_HEIGHT: f64 = 72.0;

/// The report as a page; `refused` counts the receipts that were refused, by the code of the refusal.
pub fn report(report: &PeriodReport, refused: &BTreeMap<String, u64>, made_s: u64) -> String {
    let month = utc::text(report.from_s)[..7].to_owned();
    let title = format!("Proof of compute, {month}");
    let memory = [ChartLine { label: "whole host".to_owned(), points: report.days.iter().filter_map(point).collect() }];
    let chart = Chart {
        id: "memory",
        title: "Least memory shown, by day",
        unit: "GiB",
        lines: &memory,
        range: None,
        basis: "",
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(String::from_utf8_lossy(STYLE.bytes))) }
            }
            body {
                main {
                    div.title {
                        h1 { (title) }
                        p.muted { (utc::text(report.from_s)) " to " (utc::text(report.until_s)) }
                    }
                    section.panel { (summary(report)) }
                    div.grid {
                        section { (days(report)) }
                        @if memory[0].points.len() > 1 { section { (chart.figure()) } }
                    }
                    (devices(report))
                    (changes(report))
                    (unproven(report))
                    (basis(report, refused, made_s))
                }
            }
        }
    }
    .into_string()
}

/// The least memory of a day.
fn point(day: &DayProof) -> Option<Point> {
    let bytes = day.least_bytes.as_ref()?.value;
    #[expect(clippy::cast_precision_loss, reason = "a place in a drawing")]
    let value = bytes as f64 / f64::from(1 << 30);
    Some(Point { at_ms: i64::try_from(day.start_s).ok()?.checked_mul(1000)?, value, outcome: Outcome::Pass })
}

fn summary(report: &PeriodReport) -> Markup {
    let hours = |hours: f64| format!("{hours:.1} h");
    html! {
        dl.facts {
            @for key in &report.keys {
                dt { "Miner" }
                dd { code { (key.key.to_string()) } " since " (utc::text(key.since_s)) " " (receipt(&key.receipt)) }
            }
            dt { "Days proven" }
            dd { strong { (report.days_proven) " of " (report.days.len()) } ", days with a receipt with proof" }
            dt { "Time with proof" }
            dd { (hours(report.hours_proven)) ", in which a receipt with proof was in force" }
            dt { "Time without" }
            dd {
                strong { (hours(report.hours_without_proof)) }
                @if let Some(gap) = &report.longest_gap {
                    ", the longest from " (utc::text(gap.from_s)) " to " (utc::text(gap.until_s))
                    @if let Some(after) = &gap.after { " " (receipt(after)) }
                }
            }
            @if let Some(bytes) = &report.bytes {
                dt { "Memory" } dd { (range(bytes, "GiB", |bytes| gib(*bytes))) }
            }
            @for rate in &report.rates {
                dt { "Work, " (rate.precision.name()) } dd { (range(&rate.tops, "TOPS", |tops| figures(*tops))) }
            }
            @if let Some(rate) = &report.probe_gb_per_s {
                dt { "Random reads" } dd { (range(rate, "GB/s", |rate| figures(*rate))) }
            }
        }
    }
}

fn range<T>(range: &StatedRange<T>, unit: &str, shown: impl Fn(&T) -> String) -> Markup {
    let stated = |stated: &Stated<T>| html! { (shown(&stated.value)) " " (unit) " " (receipt(&stated.receipt)) };
    html! { "least " strong { (stated(&range.least)) } ", median " (stated(&range.median)) }
}

/// The receipt that a figure rests on.
fn receipt(id: &str) -> Markup {
    html! { code.muted title=(printable(id, 64)) { "[" (short(id)) "]" } }
}

/// The hours with proof of each day, as bars.
fn days(report: &PeriodReport) -> Markup {
    let width = report.days.len() * DAY_WIDTH;
    let words =
        format!("{} of {} have a receipt with proof.", report.days_proven, counted(report.days.len() as u64, "day"));
    html! {
        figure.chart {
            figcaption { "Hours with proof, by day " span.muted { "0 to 24" } }
            svg viewBox={ "0 0 " (width) " " (DAY_HEIGHT + 16.0) } role="img" aria-labelledby="days-title" {
                title id="days-title" { (words) }
                line.grid x1="0" x2=(width) y1=(DAY_HEIGHT) y2=(DAY_HEIGHT) {}
                @for (index, day) in report.days.iter().enumerate() {
                    @let height = (day.hours.clamp(0.0, 24.0) / 24.0 * DAY_HEIGHT * 10.0).round() / 10.0;
                    rect.pass x=(index * DAY_WIDTH + 1) y=(DAY_HEIGHT - height) width=(DAY_WIDTH - 2) height=(height) {
                        title { (&utc::text(day.start_s)[..10]) ": " (format!("{:.1}", day.hours)) " h" }
                    }
                    @if day.receipt.is_none() {
                        text.tick x=(index * DAY_WIDTH + DAY_WIDTH / 2) y=(DAY_HEIGHT - height - 3.0) text-anchor="middle" { "×" }
                    }
                    @if index % 5 == 0 {
                        text.tick x=(index * DAY_WIDTH + DAY_WIDTH / 2) y=(DAY_HEIGHT + 13.0) text-anchor="middle" { (index + 1) }
                    }
                }
            }
            p.summary { (words) " ×: none was issued on that day." }
        }
    }
}

fn devices(report: &PeriodReport) -> Markup {
    html! {
        section {
            h2 { "Devices" }
            div.table { table {
                thead { tr {
                    th scope="col" { "Device" } th scope="col" { "Claimed model" } th.num scope="col" { "Receipts" }
                    th scope="col" { "Memory, GiB" } th scope="col" { "First" } th scope="col" { "Last" }
                } }
                tbody { @for device in &report.devices { tr {
                    th scope="row" { code { (short(device.device.trim_start_matches("device-"))) } }
                    td { (name(&device.claimed_model)) }
                    td.num { (device.receipts) }
                    td { @if let Some(bytes) = &device.bytes { (range(bytes, "", |bytes| gib(*bytes))) } }
                    td { (utc::text(device.first.value)) " " (receipt(&device.first.receipt)) }
                    td { (utc::text(device.last.value)) " " (receipt(&device.last.receipt)) }
                } } }
            } }
        }
    }
}

fn changes(report: &PeriodReport) -> Markup {
    html! {
        section {
            h2 { "Changes of identity and devices" }
            @if report.changes.is_empty() { p.none { "None among these receipts." } }
            ul { @for change in &report.changes { li {
                (utc::text(change.at_s)) ": " strong { (change.what.replace('_', " ")) } ", " (detail(&change.detail)) " "
                (receipt(&change.receipt))
            } } }
            (left_out(report.changes_left_out))
        }
    }
}

fn unproven(report: &PeriodReport) -> Markup {
    html! {
        section {
            h2 { "Receipts without proof" }
            @if report.unproven.is_empty() { p.none { "None among these receipts." } }
            ul { @for unproven in &report.unproven { li {
                (utc::text(unproven.at_s)) ": " strong { (unproven.status.name()) }
                @for reason in &unproven.reasons { ", " (name(reason)) } " " (receipt(&unproven.receipt))
            } } }
            (left_out(report.unproven_left_out))
        }
    }
}

fn left_out(count: u64) -> Markup {
    html! { @if count > 0 { p.muted { "and " (count) " more" } } }
}

/// The basis of the figures, and their limits.
fn basis(report: &PeriodReport, refused: &BTreeMap<String, u64>, made_s: u64) -> Markup {
    let counts: Vec<_> = report.receipts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    html! {
        section {
            h2 { "Basis" }
            p {
                "Made " (utc::text(made_s)) " from signed receipts whose signatures were checked: " (counts.join(", "))
                ". In brackets stand the first digits of the receipt that a figure rests on. With the validator's keys, "
                code { "assay-validator receipt verify --past" } " checks it. Receipts that were not given are not seen: "
                "those of a file may be a choice, and the validator's log has one for each verdict."
            }
            @if !refused.is_empty() {
                p { strong { "Not counted, since they were refused: " }
                    @for (code, count) in refused { (counted(*count, "receipt")) " (" (name(code)) ") " }
                }
            }
            p {
                "A receipt proves memory and arithmetic at the time of its challenge. Models are what the host claims. "
                "Between two challenges nothing is seen: time with proof is time in which a receipt was in force. "
                "Days and hours are in UTC."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use assay_receipts::Tier;
    use assay_receipts::{DevicePeriod, PeriodChange, Unproven};

    use super::*;

    fn stated<T>(value: T) -> Stated<T> {
        Stated { value, receipt: "0123456789abcdef".to_owned() }
    }

    #[test]
    fn a_month_is_shown_whole_and_texts_of_hosts_do_not_change_the_page() {
        let hostile = "<script>alert(1)</script>\u{202e}";
        let mut month = PeriodReport::of(Vec::new(), 1_793_491_200, 1_793_491_200 + 30 * 86_400);
        month.days[3].hours = 12.0;
        month.days[3].receipt = Some("0123456789abcdef".to_owned());
        month.days[3].least_bytes = Some(stated(80 << 30));
        month.devices.push(DevicePeriod {
            device: "device-0a0b".to_owned(),
            claimed_model: hostile.to_owned(),
            receipts: 3,
            first: stated(1_793_491_200),
            last: stated(1_793_491_200),
            bytes: Some(StatedRange { least: stated(80 << 30), median: stated(81 << 30) }),
        });
        let (what, detail, receipt) = ("model".to_owned(), hostile.to_owned(), hostile.to_owned());
        month.changes.push(PeriodChange { at_s: 1_793_491_200, what, detail, receipt });
        let reasons = vec![hostile.to_owned()];
        month.unproven.push(Unproven {
            at_s: 1_793_491_200,
            receipt: String::new(),
            status: Tier::Contraindicated,
            reasons,
        });
        month.unproven_left_out = 7;
        month.days[9].least_bytes = Some(stated(90 << 30));
        let page = report(&month, &BTreeMap::from([("signature".to_owned(), 2)]), 1_795_000_000);
        assert!(page.contains("Proof of compute, 2026-11") && page.contains("2 receipts (<bdi>signature"), "{page}");
        assert!(page.contains("80.0") && page.contains("and 7 more") && page.contains("[01234567]"), "{page}");
        assert!(!page.contains("<script") && !page.contains('\u{202e}'), "{page}");
        let bars = page.matches("<rect class=\"pass\"").count();
        assert_eq!((bars, page.matches('×').count()), (30, 30), "29 days without, and the legend");
    }
}
