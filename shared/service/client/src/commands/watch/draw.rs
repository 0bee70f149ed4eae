//! Drawing of the view. Text carries all information; colours only help.

use assay_api::{ChallengeProgress, Miner, MinerDetail, ServerStatus};
use assay_program::render::units::{self, duration};
use assay_program::utc;
use assay_work::text::printable;
use ratatui_core::layout::{Constraint, Layout, Rect};
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Span};
use ratatui_widgets::block::Block;
use ratatui_widgets::borders::Borders;
use ratatui_widgets::clear::Clear;
use ratatui_widgets::paragraph::{Paragraph, Wrap};
use ratatui_widgets::table::{Cell, Row, Table};

use super::view::{LinkState, VerdictSummary, WatchView, passes};
use crate::commands::status::progress;

/// The most bytes read of another machine's text: no line is longer.
const MAX_TEXT_BYTES: usize = 512;
/// The most challenges shown.
const CHALLENGES: u16 = 5;
/// The most verdicts shown.
const VERDICTS: u16 = 7;
const BAR: u64 = 20;

/// Draws the whole view.
pub fn frame(frame: &mut Frame<'_>, view: &mut WatchView) {
    let running = view.status.as_ref().map_or(0, |status| status.challenges.len());
    let challenges = u16::try_from(running.max(1)).unwrap_or(CHALLENGES).min(CHALLENGES) + 1;
    let rows = [
        Constraint::Length(2),
        Constraint::Min(4),
        Constraint::Length(challenges),
        Constraint::Max(VERDICTS + 1),
        Constraint::Length(2),
    ];
    let [top, fleet, work, verdicts, bottom] = Layout::vertical(rows).areas(frame.area());
    header(frame, top, view);
    miners(frame, fleet, view);
    running_challenges(frame, work, view);
    recent(frame, verdicts, view);
    footer(frame, bottom, view);
    if view.detail.is_some() {
        let area = Rect { height: frame.area().height.saturating_sub(top.height + 1), y: top.height, ..frame.area() };
        detail(frame, area, view);
    }
}

/// Makes another machine's text safe to show.
fn safe(text: &str) -> String {
    printable(text, MAX_TEXT_BYTES)
}

fn short(id: &str) -> String {
    safe(id.get(..8).unwrap_or(id))
}

fn title(text: String) -> Block<'static> {
    let style = Style::new().add_modifier(Modifier::BOLD);
    Block::new().borders(Borders::TOP).title(Span::styled(format!(" {text} "), style))
}

fn style_of(view: &WatchView, outcome: &str) -> Style {
    let style = Style::new();
    match outcome {
        "fail" | "failed" | "quarantined" | "revoked" => {
            let style = style.add_modifier(Modifier::BOLD);
            if view.has_colour { style.fg(Color::Red) } else { style }
        }
        _ if !view.has_colour => style,
        "pass" | "passing" => style.fg(Color::Green),
        _ => style.fg(Color::Yellow),
    }
}

fn header(frame: &mut Frame<'_>, area: Rect, view: &WatchView) {
    let (link, second) = match &view.link {
        LinkState::Connecting => ("connecting …", counts(view)),
        LinkState::Live => ("live", counts(view)),
        LinkState::Lost(why) => {
            let style = style_of(view, "inconclusive").add_modifier(Modifier::BOLD);
            ("", Line::from(Span::styled(format!("NOT CONNECTED, trying again: {}", safe(why)), style)))
        }
    };
    let state = view.status.as_ref().map_or_else(String::new, |status| {
        let ServerStatus { state, uptime_seconds, .. } = status;
        format!("  {}, up {}", safe(&state.replace('_', " ")), duration(*uptime_seconds))
    });
    let place = Span::styled(safe(&view.place), Style::new().add_modifier(Modifier::BOLD));
    let first = Line::from(vec![place, Span::raw(state), Span::raw("  "), Span::raw(link)]);
    frame.render_widget(Paragraph::new(vec![first, second]), area);
}

fn counts(view: &WatchView) -> Line<'static> {
    let passing = view.miners.iter().filter(|miner| passes(miner)).count();
    let others = view.miners.len() - passing;
    let more = if view.is_all { "" } else { "+" };
    let mut parts = vec![format!("{passing}{more} pass, {others}{more} do not")];
    if let Some(status) = &view.status {
        parts.push(format!("{} of at most {} connected", status.miners, status.max_miners));
        let v = status.verdicts;
        parts.push(format!("verdicts {} pass {} fail {} inconclusive", v.pass, v.fail, v.inconclusive));
        if let Some(problem) = &status.records_problem {
            parts = vec![format!("RECORDS NOT WRITTEN: {}", safe(problem))];
        }
    }
    Line::from(parts.join(" · "))
}

fn miners(frame: &mut Frame<'_>, area: Rect, view: &mut WatchView) {
    let shown = view.rows().count();
    let mut name = format!("fleet: {shown}");
    if view.only_others {
        name += ", those that do not pass";
    }
    if !view.filter.is_empty() || view.is_typing {
        name += &format!(", with {:?}{}", safe(&view.filter), if view.is_typing { "▏" } else { "" });
    }
    if !view.is_all {
        name += ", the first of more";
    }
    let block = title(name);
    if shown == 0 {
        let none = match view.link {
            _ if !view.miners.is_empty() => "No miner is like that: Esc shows all.",
            LinkState::Live => "No miner has come yet: `assay-validator address` prints what a miner needs.",
            _ => "",
        };
        frame.render_widget(Paragraph::new(none).block(block).wrap(Wrap { trim: true }), area);
        return;
    }
    let widths = [
        Constraint::Length(8),
        Constraint::Max(14),
        Constraint::Length(3),
        Constraint::Length(11),
        Constraint::Length(12),
        Constraint::Fill(1),
    ];
    let position = view.position();
    let rows: Vec<_> = view.rows().map(|miner| row(view, miner)).collect();
    let head = Row::new(["miner", "name", "on", "state", "last", "why not"]);
    let table = Table::new(rows, widths)
        .header(head.style(Style::new().add_modifier(Modifier::DIM)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(block);
    view.table.select(Some(position));
    frame.render_stateful_widget(table, area, &mut view.table);
}

fn row(view: &WatchView, miner: &Miner) -> Row<'static> {
    let Miner { record, known } = miner;
    let last = record.last_verdict.as_ref().map_or("–", |verdict| &verdict.outcome);
    let why = known.reason.as_ref().map_or_else(String::new, |reason| safe(&reason.why));
    Row::new([
        Cell::new(short(&record.key)),
        Cell::new(known.name.as_deref().map(safe).unwrap_or_default()),
        Cell::new(if record.connected_to.is_some() { "yes" } else { "no" }),
        Cell::new(safe(&record.state)).style(style_of(view, &record.state)),
        Cell::new(safe(last)).style(style_of(view, last)),
        Cell::new(why),
    ])
}

fn running_challenges(frame: &mut Frame<'_>, area: Rect, view: &WatchView) {
    let challenges = view.status.as_ref().map(|status| status.challenges.as_slice()).unwrap_or_default();
    let lines: Vec<_> = challenges.iter().map(challenge).collect();
    let hidden = lines.len().saturating_sub(CHALLENGES.into());
    let more = if hidden > 0 { format!(", {hidden} not shown") } else { String::new() };
    let block = title(format!("challenges: {}{more}", lines.len()));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn challenge(running: &ChallengeProgress) -> Line<'static> {
    let ChallengeProgress { challenge_id, miner_key, done_slots, all_slots, seconds, .. } = running;
    let cells = (done_slots.min(all_slots) * BAR).checked_div(*all_slots).unwrap_or(0) as usize;
    let bar = format!("{}{}", "█".repeat(cells), "░".repeat(BAR as usize - cells));
    let (id, key) = (short(&challenge_id.to_string()), short(&miner_key.to_string()));
    Line::from(format!("{id}  miner {key}  {bar}  {:<12} {seconds} s", progress(running)))
}

fn recent(frame: &mut Frame<'_>, area: Rect, view: &WatchView) {
    let widths = [
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(12),
        Constraint::Length(9),
        Constraint::Fill(1),
    ];
    let rows = view.verdicts.iter().take(VERDICTS.into()).map(|judged| {
        let VerdictSummary { at_ms, challenge, miner, outcome, tops, codes } = judged;
        let tops = if *tops > 0.0 { units::figures(*tops) } else { "–".to_owned() };
        Row::new([
            Cell::new(clock(*at_ms)),
            Cell::new(short(challenge)),
            Cell::new(short(miner)),
            Cell::new(safe(outcome)).style(style_of(view, outcome)),
            Cell::new(tops),
            Cell::new(safe(codes)),
        ])
    });
    let table =
        Table::new(rows, widths).block(title("verdicts: UTC, challenge, miner, outcome, TOPS, reasons".to_owned()));
    frame.render_widget(table, area);
}

/// The time of day, in UTC.
fn clock(at_ms: i64) -> String {
    let text = utc::text(u64::try_from(at_ms / 1000).unwrap_or_default());
    text.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn footer(frame: &mut Frame<'_>, area: Rect, view: &WatchView) {
    let keys = match (view.is_typing, view.detail.is_some()) {
        (true, _) => "Enter keeps it · Esc shows all · type a key, label, model or state",
        (_, true) => "q quits · Esc closes · ↑ ↓ scroll",
        _ => "q quits · Enter details · ↑ ↓ select · / filter · f only those that do not pass",
    };
    let remedy = view.current().and_then(|miner| miner.known.reason.as_ref()).map(|reason| safe(&reason.remedy));
    let remedy = remedy.map_or_else(String::new, |remedy| format!("remedy: {remedy}"));
    let keys = Span::styled(keys, Style::new().add_modifier(Modifier::DIM));
    frame.render_widget(Paragraph::new(vec![Line::from(remedy), Line::from(keys)]), area);
}

fn detail(frame: &mut Frame<'_>, area: Rect, view: &WatchView) {
    let Some((found, line)) = &view.detail else { return };
    let lines = found.as_deref().map_or_else(|| vec![Line::from("asking …")], about);
    let last = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(1);
    let block = title("miner".to_owned());
    frame.render_widget(Clear, area);
    let text = Paragraph::new(lines).block(block).wrap(Wrap { trim: false }).scroll(((*line).min(last), 0));
    frame.render_widget(text, area);
}

/// Details of a miner.
fn about(detail: &MinerDetail) -> Vec<Line<'static>> {
    let Miner { record, known } = &detail.miner;
    let mut lines = Vec::new();
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(Line::from(format!("{name:<10} {}", safe(value))));
        }
    };
    let labels: Vec<_> = record.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    field("key", &record.key);
    field("labels", &labels.join(" "));
    field("status", &format!("{}, admitted: {}", record.status, known.admitted));
    field("state", &record.state);
    if let Some(reason) = &known.reason {
        field("why not", &reason.why);
        field("remedy", &reason.remedy);
    }
    field("software", &record.software);
    match &detail.connection {
        Some(connected) => {
            field("connected", &format!("from {}, for {}", connected.address, duration(connected.connected_seconds)));
        }
        None => field("seen", &utc::text(u64::try_from(record.last_seen_ms / 1000).unwrap_or_default())),
    }
    if let Some(last) = &record.last_verdict {
        field("verdict", &format!("{} of challenge {}, {} UTC", last.outcome, last.challenge, clock(last.at_ms)));
    }
    for device in &detail.devices {
        let name = if device.model.is_empty() { &device.name } else { &device.model };
        let gone = if device.gone_ms.is_some() { ", gone" } else { "" };
        field("device", &format!("{} {name}{gone}", short(&device.device_id)));
    }
    for finding in &detail.findings {
        field("finding", &format!("{}: {}", finding.finding.code, finding.finding.detail));
    }
    lines
}
