//! The results of a miner's devices over time, with their model's range.

use std::collections::BTreeMap;

use assay_api::{Quantity, SeriesBand, SeriesPoint};
use assay_program::render::units::figures;
use maud::{Markup, html};

use super::MinerView;
use crate::chart::{self, Chart, ChartLine, MAX_LINES, Point, Range};
use crate::text::{name, short};
use crate::{time, words};

const GIB: f64 = (1_u64 << 30) as f64;
/// Rows of the table behind the charts: the newest.
const MAX_ROWS: usize = 120;

/// A figure of a chart: its place, title, unit, how it is read, and whose band it has.
struct FigureKind {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    value: fn(&SeriesPoint) -> Option<f64>,
    band: Option<(Quantity, f64)>,
}

const KINDS: [FigureKind; 5] = [
    FigureKind {
        id: "tops",
        title: "Throughput",
        unit: "TOPS",
        value: |p| shown(p.tops),
        band: Some((Quantity::Tops, 1.0)),
    },
    FigureKind {
        id: "memory",
        title: "Memory held",
        unit: "GiB",
        value: |p| shown(p.bytes_held as f64 / GIB),
        band: Some((Quantity::BytesHeld, GIB)),
    },
    FigureKind {
        id: "bandwidth",
        title: "Bandwidth",
        unit: "GB/s",
        value: |p| shown(p.gb_per_s),
        band: Some((Quantity::GbPerS, 1.0)),
    },
    FigureKind {
        id: "temperature", title: "Temperature", unit: "°C, claimed", value: |p| p.temperature_c, band: None
    },
    FigureKind { id: "power", title: "Power", unit: "W, claimed", value: |p| p.power_w, band: None },
];

/// A figure of a challenge that came so far.
fn shown(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

/// The charts, with a legend and a table.
pub(super) fn section(view: &MinerView<'_>) -> Markup {
    let devices = devices(&view.series.points);
    html! {
        section id="figures" data-part="whole" aria-labelledby="figures-title" {
            h2 id="figures-title" { "What its devices showed" }
            @if view.series.points.is_empty() { p.none { "Nothing yet: its first verdict begins the charts." } } @else {
                (chart::legend(&devices.iter().map(|(id, model)| label(id, model)).collect::<Vec<_>>()))
                div.charts { @for kind in &KINDS { (chart(kind, view, &devices)) } }
                @if devices.len() > MAX_LINES {
                    p.muted {
                        "The charts have the " (MAX_LINES) " devices challenged last; the table has all " (devices.len()) "."
                    }
                }
                details {
                    summary { "The same as a table" }
                    (table(view))
                }
            }
        }
    }
}

/// The devices of the points with their models, those challenged last first, then by id.
fn devices(points: &[SeriesPoint]) -> Vec<(&str, &str)> {
    let mut newest: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    for point in points {
        let entry = newest.entry(&point.device_id).or_insert((point.at_ms, &point.model));
        *entry = (entry.0.max(point.at_ms), &point.model);
    }
    let mut devices: Vec<_> = newest.into_iter().collect();
    devices.sort_by_key(|(id, (at_ms, _))| (std::cmp::Reverse(*at_ms), *id));
    devices.into_iter().map(|(id, (_, model))| (id, model)).collect()
}

fn label(id: &str, model: &str) -> Markup {
    html! { (name(model)) " " code { (short(id)) } }
}

fn chart(kind: &FigureKind, view: &MinerView<'_>, devices: &[(&str, &str)]) -> Markup {
    let points = &view.series.points;
    let line = |(id, model): &(&str, &str)| ChartLine {
        label: crate::text::option(model),
        points: points.iter().filter(|point| point.device_id == *id).filter_map(|point| of(kind, point)).collect(),
    };
    let lines: Vec<_> = devices.iter().take(MAX_LINES).map(line).collect();
    let band = kind.band.and_then(|(quantity, scale)| band(view, devices, quantity).map(|band| (band, scale)));
    let range = band.map(|(band, scale)| Range {
        low: band.low.unwrap_or(0.0) / scale,
        high: band.high.map_or(f64::INFINITY, |high| high / scale),
    });
    let basis = if band.is_some_and(|(band, _)| band.by == "fleet") {
        "Others of this model in the fleet"
    } else {
        "The model's data sheet"
    };
    Chart { id: kind.id, title: kind.title, unit: kind.unit, lines: &lines, range, basis }.figure()
}

fn of(kind: &FigureKind, point: &SeriesPoint) -> Option<Point> {
    Some(Point { at_ms: point.at_ms, value: (kind.value)(point)?, outcome: words::outcome(&point.outcome) })
}

/// The range of the devices' common model: by the fleet where it is known, else by the data sheet.
fn band<'a>(view: &MinerView<'a>, devices: &[(&str, &str)], quantity: Quantity) -> Option<&'a SeriesBand> {
    let (_, model) = devices.first()?;
    if devices.iter().any(|(_, other)| other != model) {
        return None;
    }
    let n = view.series.points.last()?.n;
    let fits = |band: &&SeriesBand| {
        band.model == *model && band.quantity == quantity && band.n.is_none_or(|of| i64::from(of) == n)
    };
    view.series.bands.iter().filter(fits).max_by_key(|band| band.by == "fleet")
}

fn table(view: &MinerView<'_>) -> Markup {
    let points = &view.series.points;
    html! {
        div.table tabindex="0" role="region" aria-label="What its devices showed, as a table" {
            table {
                caption {
                    "Newest first" @if points.len() > MAX_ROWS { ", the last " (MAX_ROWS) " of " (points.len()) }
                }
                thead {
                    tr {
                        th scope="col" { "When" }
                        th scope="col" { "Device" }
                        th scope="col" { "Verdict" }
                        th.num scope="col" { "n" }
                        @for kind in &KINDS { th.num scope="col" { (kind.unit) } }
                    }
                }
                tbody {
                    @for point in points.iter().rev().take(MAX_ROWS) {
                        tr {
                            td { (time::ago(point.at_ms, view.frame.now_ms)) }
                            td { code { (short(&point.device_id)) } }
                            td {
                                a href={ "/verdicts/" (point.challenge) }
                                { (words::outcome_badge(words::outcome(&point.outcome))) }
                            }
                            td.num { (point.n) }
                            @for kind in &KINDS {
                                td.num { (((kind.value)(point)).map_or_else(|| "–".to_owned(), figures)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
