//! Moments and lengths of time, as people read them. The page's script keeps relative ones up to date.

use assay_program::utc;
use maud::{Markup, html};

const SECOND_MS: i64 = 1000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A moment as its date and time in UTC.
pub fn absolute(at_ms: i64) -> String {
    utc::text(u64::try_from(at_ms.div_euclid(SECOND_MS)).unwrap_or(0))
}

/// The same without the date and the seconds: `17:40`.
pub fn of_day(at_ms: i64) -> String {
    absolute(at_ms).get(11..16).unwrap_or_default().to_owned()
}

/// The month and day: `11-22`.
pub fn of_year(at_ms: i64) -> String {
    absolute(at_ms).get(5..10).unwrap_or_default().to_owned()
}

/// A stretch in its largest unit, cut off.
pub fn stretch(ms: i64) -> String {
    match ms.saturating_abs() {
        ms if ms < MINUTE_MS => format!("{} s", ms / SECOND_MS),
        ms if ms < HOUR_MS => format!("{} min", ms / MINUTE_MS),
        ms if ms < 2 * DAY_MS => format!("{} h", ms / HOUR_MS),
        ms => format!("{} d", ms / DAY_MS),
    }
}

fn relative(at_ms: i64, now_ms: i64) -> String {
    match now_ms.saturating_sub(at_ms) {
        0..SECOND_MS => "now".to_owned(),
        ms if ms < 0 => format!("in {}", stretch(ms)),
        ms => format!("{} ago", stretch(ms)),
    }
}

fn machine(at_ms: i64) -> String {
    utc::iso(u64::try_from(at_ms.div_euclid(SECOND_MS)).unwrap_or(0))
}

/// How long ago a moment is, or how far away; the date and time as its title.
pub fn ago(at_ms: i64, now_ms: i64) -> Markup {
    html! {
        time datetime=(machine(at_ms)) title=(absolute(at_ms)) data-ago { (relative(at_ms, now_ms)) }
    }
}

/// A moment's date and time, and how long ago it is.
pub fn at(at_ms: i64, now_ms: i64) -> Markup {
    html! {
        time.at datetime=(machine(at_ms)) { (absolute(at_ms)) } " "
        span.muted { "(" (ago(at_ms, now_ms)) ")" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_by_their_distance() {
        let now = 1_795_370_000_000;
        for (at, words) in [
            (now, "now"),
            (now - 59_999, "59 s ago"),
            (now - 60_000, "1 min ago"),
            (now - 3 * HOUR_MS, "3 h ago"),
            (now - 47 * HOUR_MS, "47 h ago"),
            (now - 48 * HOUR_MS, "2 d ago"),
            (now + 90_000, "in 1 min"),
        ] {
            assert_eq!(relative(at, now), words);
        }
    }

    #[test]
    fn a_moment_has_its_date_for_programs_and_for_people() {
        let html = ago(951_782_400_123, 951_782_400_123).into_string();
        let expected = "<time datetime=\"2000-02-29T00:00:00Z\" title=\"2000-02-29 00:00:00 UTC\" data-ago>now</time>";
        assert_eq!(html, expected);
        assert_eq!((of_day(951_782_399_000), of_year(951_782_399_000)), ("23:59".to_owned(), "02-28".to_owned()));
    }
}
