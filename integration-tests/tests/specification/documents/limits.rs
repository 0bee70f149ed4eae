//! docs/limits.md says what the code says: its figures are those of `bounds.rs`, and each test that it names exists.

use std::collections::BTreeSet;

use assay_validator::bounds::*;

use crate::documents::guarantees::written;
use crate::documents::source::{read, rust_files, workspace};

const PAGE: &str = "docs/limits.md";

#[test]
fn every_test_of_a_limit_exists() {
    let page = read(PAGE);
    let rows = page.lines().filter(|line| line.starts_with('|') && line.ends_with("` |"));
    let named: BTreeSet<_> = rows.filter_map(|row| row.rsplit('`').nth(1)).collect();
    assert!(named.len() >= 25, "only {named:?}");
    let sources: Vec<_> = rust_files(&workspace()).iter().map(|path| read(path)).collect();
    for name in named {
        let function = format!("fn {name}(");
        assert!(sources.iter().any(|source| source.contains(&function)), "there is no test {name}");
    }
}

#[test]
fn every_figure_is_the_codes() {
    let page = read(PAGE);
    let settings = [
        ("max_miners", Bounds::default().max_miners),
        ("max_handshakes", DEFAULT_HANDSHAKES),
        ("max_address_connects_per_s", DEFAULT_ADDRESS_CONNECTS_PER_S),
        ("max_connects_per_s", DEFAULT_CONNECTS_PER_S),
        ("max_challenges", DEFAULT_CHALLENGES),
    ];
    for (name, value) in settings {
        assert!(page.contains(&format!("| `{name}` | {value} |")), "{name} = {value}");
    }
    let bounds = read("validator/src/bounds.rs");
    let rates = [
        ("FRAMES", "Rate::new(2048, 32_768)", "2048 a second, 32,768 at once"),
        ("BYTES", "Rate::new(32 << 20, 16 << 20)", "32 MiB a second, 16 MiB at once"),
        ("SESSIONS_PER_KEY", "Rate::every(Duration::from_secs(5), 20)", "1 in 5 s, 20 at once"),
        ("LINES_PER_ADDRESS", "Rate::new(1, 100)", "1 a second, 100 at once"),
        ("LINES", "Rate::new(20, 1000)", "20 a second, 1000 at once"),
    ];
    for (name, value, said) in rates {
        assert_eq!(written(&bounds, name), Some(value));
        assert!(page.contains(said), "{name}: {said}");
    }
    let control = CONTROL_FRAME_COST;
    let figures = [
        format!("{} s | closed |", STRANGER_LIMIT.as_secs()),
        format!("| {} KiB | not read any more", MAX_STRANGER_BYTES >> 10),
        format!("requests without a session | {MAX_STRANGER_REQUESTS} |"),
        format!("{} s, {MAX_HANDSHAKE_TRIES} on a connection", HANDSHAKE_LIMIT.as_secs()),
        format!("streams of a connection | {MAX_STREAMS} |"),
        format!("headers | {} KiB", MAX_HEADER_BYTES >> 10),
        format!("a health check or query | {} KiB", MAX_QUERY_BYTES >> 10),
        format!("reset before they are served | {MAX_RESET_STREAMS} |"),
        format!(
            "{DEFAULT_ADDRESS_CONNECTS_PER_S} a second, {} at once",
            DEFAULT_ADDRESS_CONNECTS_PER_S * CONNECT_BURST_S
        ),
        format!("{DEFAULT_CONNECTS_PER_S} a second, {} at once", DEFAULT_CONNECTS_PER_S * CONNECT_BURST_S),
        format!("{} a second, {} at once", 2048 / control, 32_768 / control),
        format!("messages in a ping interval | {MAX_MESSAGES_PER_PING},"),
        format!("this validator held up | {} ms", HELD_UP_LIMIT.as_millis()),
        format!("a check waiting for a core | {} s", CHECK_WAIT_LIMIT.as_secs()),
    ];
    for figure in figures {
        assert!(page.contains(&figure), "the page does not say: {figure}");
    }
}
