use assay_api::record::EventRecord;
use assay_api::{Miner, MinerDetail, ServerStatus};
use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::mpsc;

use super::draw;
use super::feed::{Update, follow};
use super::view::{KeyEffect, LinkState, WatchView};
use crate::Client;
use crate::place::ApiLocation;

const AT_MS: i64 = 1_767_225_599_000;

fn key(byte: &str) -> String {
    byte.repeat(32)
}

/// A miner in the form of the API.
fn miner(byte: &str, state: &str, why: Option<&str>) -> Value {
    json!({
        "id": key(byte), "key": key(byte), "keys": [key(byte)], "status": "approved", "labels": { "rack": byte, "name": "gpu" },
        "state": state, "standing": null, "first_seen_ms": AT_MS, "last_seen_ms": AT_MS, "address": "10.0.0.7",
        "software": "assay-miner/9", "due": null, "connected_to": key("ff"),
        "last_verdict": { "challenge": "cd".repeat(16), "outcome": "pass", "at_ms": AT_MS },
        "admitted": "approved", "name": format!("gpu-{byte}"), "device_count": 1, "models": ["NVIDIA H200"],
        "reason": why.map(|why| json!({ "why": why, "remedy": "ask its operator" })),
    })
}

fn miners(values: &[Value]) -> Update {
    let miners: Vec<Miner> = values.iter().map(|value| serde_json::from_value(value.clone()).unwrap()).collect();
    Update::Miners(miners, true)
}

fn status(challenges: Value) -> Update {
    let status: ServerStatus = serde_json::from_value(json!({
        "validator_key": key("ff"), "agent": "assay-validator/9", "process_id": 7, "address": "127.0.0.1:7400",
        "target": "assay://127.0.0.1:7400", "tls_certificate_expires_unix_seconds": null, "started_unix_seconds": 1,
        "uptime_seconds": 3725, "state": "serving", "miners": 2, "max_miners": 256, "devices": 1, "replay_workers": [],
        "verdicts": { "pass": 5, "fail": 1, "inconclusive": 0 }, "records": "validator.db",
        "records_problem": null, "challenges": challenges,
    }))
    .unwrap();
    Update::Status(Box::new(status))
}

fn event(kind: &str, byte: &str, challenge: &str, document: &Value) -> Update {
    let event: EventRecord = serde_json::from_value(json!({
        "seq": 7, "id": "7", "at_ms": AT_MS, "miner": key(byte), "challenge": challenge, "kind": kind, "document": document,
    }))
    .unwrap();
    Update::Event(Box::new(event))
}

fn verdict(byte: &str, challenge: &str, outcome: &str, codes: &[&str]) -> Update {
    event(
        "verdict",
        byte,
        challenge,
        &json!({
            "outcome": outcome, "codes": codes, "mode": "audit", "key": key(byte), "validator": key("ff"), "group": "all",
            "kind": "light", "asked": "operator", "round": null, "n": 4096, "devices": 1, "tops": 1234.0, "bytes_held": 1,
            "gb_per_s": 4.0, "seconds": 1.5, "state": null, "receipt": null,
        }),
    )
}

/// A fleet of three: one passes, one failed, one has a name that would draw on the screen.
fn fleet() -> WatchView {
    let mut view = WatchView::new("https://validator.example:7480".to_owned(), false);
    let mut hostile = miner("cc", "enrolled", Some("\u{1b}[2J\u{202e}it owes passes"));
    hostile["name"] = json!(format!("<b>\u{1b}[31m{}", "x".repeat(65536)));
    let failed = miner("bb", "failed", Some("its last challenge failed: forged roots"));
    view.apply(miners(&[miner("aa", "passing", None), failed, hostile]));
    view.apply(status(json!([{
        "challenge_id": "ee".repeat(16), "miner_key": key("aa"), "phase": "work", "done_slots": 1, "all_slots": 4, "seconds": 9,
    }])));
    view.apply(Update::Live);
    view.apply(verdict("bb", &"dd".repeat(16), "fail", &["audit_leaf", "commitment_late"]));
    view
}

/// The text on a terminal of this size.
fn shown(view: &mut WatchView, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::frame(frame, view)).unwrap();
    terminal.backend().to_string()
}

fn press(view: &mut WatchView, code: KeyCode) -> KeyEffect {
    view.key(Some(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn line<'a>(text: &'a str, part: &str) -> &'a str {
    text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part} in\n{text}"))
}

#[test]
fn a_small_terminal_shows_everything_that_matters() {
    let text = shown(&mut fleet(), 80, 24);
    println!("{text}");
    for part in [
        "https://validator.example:7480",
        "serving, up 1 h 2 min",
        "live",
        "1 pass, 2 do not",
        "verdicts 5 pass 1 fail",
        "fleet: 3",
        "challenges: 1",
        "23:59:59",
        "audit_leaf, commitment_late",
        "remedy: ask its operator",
        "q quits",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(shown(&mut fleet(), 60, 24).contains("q quits"), "also where less fits");
    let work = line(&text, "work 25 %");
    assert!(work.contains("eeeeeeee") && work.contains("miner aaaaaaaa") && work.contains("█████░░░"), "{work}");
    let failed = line(&text, "gpu-bb");
    assert!(failed.contains("failed") && failed.contains("fail ") && failed.contains("its last challenge"), "{failed}");
    // Miners that do not pass come first.
    let at = |byte: &str| text.lines().position(|line| line.contains(&format!("\"{}", &key(byte)[..8]))).unwrap();
    assert!(at("bb") < at("aa") && at("cc") < at("aa"), "{text}");
}

#[test]
fn a_hostile_name_draws_nothing_and_pushes_nothing_away() {
    let text = shown(&mut fleet(), 80, 24);
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    let hostile = line(&text, "<b>");
    assert!(hostile.contains("enrolled") && hostile.contains("it owes"), "{hostile}");
    for (width, height) in [(1, 1), (20, 5), (40, 12), (200, 60)] {
        // Excess text is cut off.
        let text = shown(&mut fleet(), width, height);
        assert_eq!(text.lines().count(), usize::from(height));
    }
}

#[test]
fn events_change_what_is_shown() {
    let mut view = fleet();
    let transition = json!({
        "miner": key("aa"), "at_ms": AT_MS, "from": "passing", "to": "suspect", "why": "verdict", "detail": "",
    });
    view.apply(event("state", "aa", "", &transition));
    let text = shown(&mut view, 80, 24);
    assert!(text.contains("0 pass, 3 do not") && line(&text, "gpu-aa").contains("suspect"), "{text}");
    view.apply(verdict("aa", &"12".repeat(16), "inconclusive", &["disconnected"]));
    // The event is sent again after a lost connection.
    view.apply(verdict("aa", &"12".repeat(16), "inconclusive", &["disconnected"]));
    let text = shown(&mut view, 80, 24);
    assert_eq!(text.matches("12121212").count(), 1, "{text}");
    assert!(line(&text, "gpu-aa").contains("inconclusive"), "{text}");
    view.apply(Update::Lost("no connection\u{1b}".to_owned()));
    assert_eq!(view.link, LinkState::Lost("no connection\u{1b}".to_owned()));
    assert!(shown(&mut view, 80, 24).contains("NOT CONNECTED, trying again: no connection "), "a state of its own");
}

#[test]
fn keys_select_filter_and_leave() {
    let mut view = fleet();
    assert_eq!(view.current().unwrap().record.id, key("bb"), "concern comes first");
    for code in [KeyCode::Down, KeyCode::Down, KeyCode::Down] {
        assert_eq!(press(&mut view, code), KeyEffect::Stay);
    }
    assert_eq!(view.current().unwrap().record.id, key("aa"), "the last one stays the last");
    press(&mut view, KeyCode::Char('f'));
    assert_eq!(view.rows().count(), 2, "those that do not pass");
    press(&mut view, KeyCode::Char('f'));
    press(&mut view, KeyCode::Char('/'));
    "rack=aaq".chars().for_each(|sign| drop(press(&mut view, KeyCode::Char(sign))));
    assert!(shown(&mut view, 80, 24).contains("No miner is like that"), "no rack aaq");
    press(&mut view, KeyCode::Backspace);
    press(&mut view, KeyCode::Enter);
    assert_eq!(view.rows().map(|miner| miner.record.id.clone()).collect::<Vec<_>>(), [key("aa")]);
    assert_eq!(press(&mut view, KeyCode::Esc), KeyEffect::Stay, "the filter goes first");
    assert_eq!((view.rows().count(), press(&mut view, KeyCode::Esc)), (3, KeyEffect::Leave));
    assert_eq!(press(&mut view, KeyCode::Char('q')), KeyEffect::Leave);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.key(Some(interrupt)), KeyEffect::Leave);
}

#[test]
fn a_miner_is_shown_with_what_is_behind_it() {
    let mut view = fleet();
    assert_eq!(press(&mut view, KeyCode::Enter), KeyEffect::Ask(key("bb")));
    assert!(shown(&mut view, 80, 24).contains("asking …"), "until it comes");
    let mut detail = miner("bb", "failed", Some("forged roots"));
    detail["devices"] = json!([{
        "miner": key("bb"), "device_id": "ab".repeat(16), "name": "GPU 0", "model": "NVIDIA H200\u{1b}", "memory_bytes": 1,
        "claims": {}, "first_seen_ms": AT_MS, "last_seen_ms": AT_MS, "gone_ms": AT_MS, "last_challenge": null,
        "last_pass_ms": null, "also_at": [],
    }]);
    for (name, value) in
        [("sessions", json!([])), ("findings", json!([])), ("actions", json!([])), ("connection", json!(null))]
    {
        detail[name] = value;
    }
    let detail: MinerDetail = serde_json::from_value(detail).unwrap();
    view.apply(Update::Detail(Some(Box::new(detail))));
    let text = shown(&mut view, 80, 24);
    for part in [&key("bb"), "rack=bb", "forged roots", "ask its operator", "abababab NVIDIA H200 , gone", "Esc closes"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    (0..100).for_each(|_| drop(press(&mut view, KeyCode::Down)));
    shown(&mut view, 80, 24);
    assert_eq!(press(&mut view, KeyCode::Esc), KeyEffect::Stay);
    assert!(view.detail.is_none());
    view.apply(Update::Detail(None));
    assert!(view.detail.is_none(), "an answer that comes too late");
}

#[test]
fn colours_are_a_help_only() {
    let coloured = |has_colour| {
        let mut view = WatchView { has_colour, ..fleet() };
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw::frame(frame, &mut view)).unwrap();
        let cells = terminal.backend().buffer().content();
        cells.iter().any(|cell| cell.fg != ratatui_core::style::Color::Reset)
    };
    assert!(coloured(true) && !coloured(false));
}

/// A validator that is lost as soon as it has said after which event its stream begins.
#[tokio::test]
async fn a_stream_that_is_lost_before_its_first_event_goes_on_where_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let (seen, mut asked_after) = mpsc::unbounded_channel();
    let events = get(async move |headers: HeaderMap| {
        seen.send(headers.get("last-event-id").cloned()).unwrap();
        [("last-event-id", "41")]
    });
    let serving = axum::serve(listener, Router::new().route("/api/v1/events", events)).into_future();
    let (told, _updates) = mpsc::channel(8);
    let (_ask, asked) = mpsc::channel(1);
    let following = follow(Client::of(&ApiLocation::Socket(socket)), told, asked);
    let both = async { tokio::join!(serving, following) };
    let twice = async { [asked_after.recv().await.unwrap(), asked_after.recv().await.unwrap()] };
    tokio::select! {
        _ = both => panic!("both go on"),
        [first, then] = twice => assert!(first.is_none() && then.is_some_and(|after| after == "41")),
    }
}
