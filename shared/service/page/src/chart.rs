//! Charts as SVG: a figure over time, with the range of its model. Lines differ by dashes and numbers, outcomes by
//! shapes, the band by hatching: colour alone carries no meaning. A sentence sums a chart up.

use assay_program::render::units::figures;
use assay_protocol::verdict::Outcome;
use maud::{Markup, html};

mod scale;
pub(crate) mod strip;

use self::scale::Scale;
use crate::time;

/// Lines of a chart: more could not be distinguished.
pub const MAX_LINES: usize = 8;
/// Points of a line up to which each has its sign; beyond, only those other than passes.
const MAX_SIGNS: usize = 48;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = HEIGHT - 24.0;

/// The expected range of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub low: f64,
    /// At most; infinite where nothing is too much.
    pub high: f64,
}

/// A figure at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    pub value: f64,
    /// The outcome of the challenge.
    pub outcome: Outcome,
}

/// How a figure of one device went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChartLine {
    /// The subject of the line, in words.
    pub label: String,
    /// Oldest first.
    pub points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Chart<'a> {
    /// Its place on the page: unique there.
    pub id: &'a str,
    /// The measured quantity.
    pub title: &'a str,
    /// The unit of the figures.
    pub unit: &'a str,
    /// One for each device.
    pub lines: &'a [ChartLine],
    pub range: Option<Range>,
    /// The basis of the range, in words.
    pub basis: &'a str,
}

impl Chart<'_> {
    /// The chart as a figure of the page.
    pub fn figure(&self) -> Markup {
        let (title_id, about_id) = (format!("{}-title", self.id), format!("{}-about", self.id));
        html! {
            figure.chart id=(self.id) {
                figcaption { (self.title) " " span.muted { (self.unit) } }
                @if self.points().next().is_none() {
                    p.none { "Not shown by any challenge yet." }
                } @else {
                    svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
                        aria-labelledby=(title_id) aria-describedby=(about_id) {
                        title id=(title_id) { (self.title) " in " (self.unit) }
                        desc id=(about_id) { (self.summary()) }
                        (self.drawing())
                    }
                    p.summary { (self.summary()) }
                }
            }
        }
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.lines.iter().take(MAX_LINES).flat_map(|line| &line.points).filter(|point| point.value.is_finite())
    }

    /// A sentence that sums up the chart.
    pub fn summary(&self) -> String {
        let (mut least, mut most, mut last) = (f64::INFINITY, f64::NEG_INFINITY, None::<&Point>);
        for point in self.points() {
            (least, most) = (least.min(point.value), most.max(point.value));
            last = last.filter(|last| last.at_ms > point.at_ms).or(Some(point));
        }
        let Some(last) = last else { return "Not shown by any challenge yet.".to_owned() };
        let unit = self.unit;
        let (last, least, most) = (figures(last.value), figures(least), figures(most));
        let mut words = format!("Last {last} {unit}; {least} to {most} in all.");
        if let Some(range) = self.range {
            let outside = self.points().filter(|point| !(range.low..=range.high).contains(&point.value)).count();
            let outside = if outside == 0 { "none is".to_owned() } else { format!("{outside} of the points are") };
            words += &format!(" {}: {}; {outside} outside.", self.basis, range_words(range, unit));
        }
        words
    }

    fn drawing(&self) -> Markup {
        let (from, to) = (self.points().map(|p| p.at_ms).min(), self.points().map(|p| p.at_ms).max());
        let (from, to) = (from.unwrap_or(0), to.unwrap_or(0));
        let x = Scale::new(from as f64, to as f64, LEFT, RIGHT);
        let bounds = self.range.into_iter().flat_map(|range| [range.low, range.high]).filter(|bound| bound.is_finite());
        let most = self.points().map(|point| point.value).chain(bounds).fold(0.0, f64::max);
        let y = Scale::from_zero(most, BOTTOM, TOP);
        html! {
            (self.grid(&y))
            (dates(&x, from, to))
            (self.band(&y))
            @for (index, line) in self.lines.iter().take(MAX_LINES).enumerate() { (drawn(line, index, &x, &y)) }
        }
    }

    fn grid(&self, y: &Scale) -> Markup {
        html! {
            @for value in y.ticks() {
                line.grid x1=(LEFT) x2=(RIGHT) y1=(y.at(value)) y2=(y.at(value)) {}
                text.tick x=(LEFT - 6.0) y=(y.at(value) + 4.0) text-anchor="end" { (tick(value)) }
            }
        }
    }

    fn band(&self, y: &Scale) -> Markup {
        let Some(range) = self.range else { return Markup::default() };
        let (top, bottom) = (y.at(range.high).max(TOP), y.at(range.low).min(BOTTOM));
        let hatch = format!("{}-hatch", self.id);
        html! {
            defs {
                pattern id=(hatch) width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    line.hatch x1="0" y1="0" x2="0" y2="6" {}
                }
            }
            rect.band x=(LEFT) y=(top) width=(RIGHT - LEFT) height=((bottom - top).max(1.0)) fill= {
                "url(#" (hatch) ")"
            }
            {}
            @for bound in [range.low, range.high].into_iter().filter(|bound| bound.is_finite()) {
                line.bound x1=(LEFT) x2=(RIGHT) y1=(y.at(bound)) y2=(y.at(bound)) {}
            }
        }
    }
}

/// A round figure of an axis, without zeros that say nothing.
fn tick(value: f64) -> String {
    let rounded = (value * 1e4).round() / 1e4;
    format!("{rounded}")
}

/// The range, in words.
fn range_words(range: Range, unit: &str) -> String {
    let low = figures(range.low);
    if range.high.is_finite() {
        format!("{low} to {} {unit}", figures(range.high))
    } else {
        format!("{low} {unit} or more")
    }
}

fn dates(x: &Scale, from: i64, to: i64) -> Markup {
    const TWO_DAYS_MS: i64 = 2 * 86_400_000;
    let text = if to - from > TWO_DAYS_MS { time::of_year } else { time::of_day };
    let middle = from + (to - from) / 2;
    let ticks = [(from, "start"), (middle, "middle"), (to, "end")];
    let ticks = if from == to { &ticks[1..2] } else { &ticks[..] };
    html! {
        @for (at, anchor) in ticks {
            text.tick x=(x.at(*at as f64)) y=(HEIGHT - 8.0) text-anchor=(anchor) { (text(*at)) }
        }
    }
}

fn drawn(line: &ChartLine, index: usize, x: &Scale, y: &Scale) -> Markup {
    let places: Vec<_> = line.points.iter().filter(|point| point.value.is_finite()).collect();
    let place = |point: &Point| (x.at(point.at_ms as f64), y.at(point.value));
    let path: Vec<_> = places.iter().map(|point| place(point)).map(|(x, y)| format!("{x},{y}")).collect();
    let all_signs = places.len() <= MAX_SIGNS;
    html! {
        g class={ "line-" (index) } {
            polyline.path points=(path.join(" ")) {}
            @for point in places.iter().filter(|point| all_signs || point.outcome != Outcome::Pass) {
                (sign(point.outcome, place(point)))
            }
            @if let Some((x, y)) = places.last().map(|point| place(point)) {
                text.number x=(x + 7.0) y=(y + 4.0) { (index + 1) }
            }
        }
    }
}

/// The sign of an outcome: a dot for a pass, a cross for a fail, an empty diamond for an inconclusive verdict.
fn sign(outcome: Outcome, (x, y): (f64, f64)) -> Markup {
    match outcome {
        Outcome::Pass => html! { circle.pass cx=(x) cy=(y) r="2.6" {} },
        Outcome::Fail => {
            let (left, right, up, down) = (x - 4.0, x + 4.0, y - 4.0, y + 4.0);
            let cross = format!("M{left} {up}L{right} {down}M{right} {up}L{left} {down}");
            html! { path.fail d=(cross) {} }
        }
        Outcome::Inconclusive => {
            html! { path.unclear d={ "M" (x) " " (y - 4.5) "l4.5 4.5-4.5 4.5-4.5-4.5z" } {} }
        }
    }
}

/// The meaning of lines and signs, once for all charts of a page.
pub fn legend(labels: &[Markup]) -> Markup {
    html! {
        div.legend {
            ul.lines aria-label="Lines" {
                @for (index, label) in labels.iter().take(MAX_LINES).enumerate() {
                    li {
                        svg.sample viewBox="0 0 44 12" width="44" height="12" aria-hidden="true" focusable="false" {
                            g class={ "line-" (index) } {
                                polyline.path points="1,6 28,6" {}
                                text.number x="32" y="10" { (index + 1) }
                            }
                        }
                        " " (label)
                    }
                }
            }
            ul.signs aria-label="Signs" {
                @for outcome in [Outcome::Pass, Outcome::Fail, Outcome::Inconclusive] {
                    li {
                        svg.sample viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" focusable="false" {
                            (sign(outcome, (6.0, 6.0)))
                        }
                        " " (outcome.to_string())
                    }
                }
                li { span.hatched aria-hidden="true" {} " what the model does" }
            }
        }
    }
}

#[cfg(test)]
mod tests;
