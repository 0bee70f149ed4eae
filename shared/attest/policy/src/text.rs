//! Text forms of times and counts.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// The least similarity of a known field to be suggested for an unknown one, from 0 to 1.
const SIMILAR: f64 = 0.8;
const UNITS: [(u64, &str, &str); 4] =
    [(86_400, "day", "d"), (3600, "hour", "h"), (60, "minute", "m"), (1, "second", "s")];

/// Parses `90s`, `10m`, `1h 30m`, `1d`, `2w`; a day has 24 hours.
///
/// # Errors
/// The expected form.
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time with its unit, such as \"90s\", \"10m\", \"6h\" or \"1d\"".to_owned();
    let span: Span = text.parse().map_err(|_| expected())?;
    if span.get_months() != 0 || span.get_years() != 0 {
        return Err("months and years have no fixed length: write days, such as \"30d\"".to_owned());
    }
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| expected())?;
    Duration::try_from(signed).map_err(|_| expected())
}

/// A time in the form of the policy file: `1d 12h`.
pub fn short(duration: Duration) -> String {
    if duration.subsec_nanos() != 0 {
        return format!("{} ms", duration.as_millis());
    }
    let mut left = duration.as_secs();
    let parts = UNITS.iter().filter_map(|(unit, _, letter)| {
        let count = left / unit;
        left %= unit;
        (count > 0).then(|| format!("{count}{letter}"))
    });
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// Seconds in words, in the largest unit that shows them exactly: `2 days`.
pub fn seconds(seconds: u64) -> String {
    let whole = UNITS.iter().find(|(unit, ..)| seconds != 0 && seconds.is_multiple_of(*unit)).unwrap_or(&UNITS[3]);
    counted(seconds / whole.0, whole.1)
}

/// A count with its noun: `1 pass`, `3 passes`.
pub fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    let ending = match count {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

/// The known name that is similar to another one.
pub fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let name = name.to_lowercase().replace('-', "_");
    let similarities = known.map(|known| (strsim::jaro_winkler(&name, known), known));
    let (similarity, known) = similarities.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (similarity >= SIMILAR).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        for (text, seconds, shown) in [
            ("90s", 90, "1m 30s"),
            ("10m", 600, "10m"),
            ("1h 30m", 5400, "1h 30m"),
            ("6 hours", 21_600, "6h"),
            ("1d", 86_400, "1d"),
            ("2w", 1_209_600, "14d"),
            ("0s", 0, "0s"),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
            assert_eq!(short(Duration::from_secs(seconds)), shown);
            assert_eq!(duration(shown), Ok(Duration::from_secs(seconds)), "what is shown can be written");
        }
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn other_times_are_refused() {
        for text in ["", "10", "-5m", "1 month", "1y", "ten minutes", "1d ago", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_have_their_nouns() {
        assert_eq!(counted(1_u64, "pass"), "1 pass");
        assert_eq!(counted(3_u64, "pass"), "3 passes");
        assert_eq!(seconds(172_800), "2 days");
        assert_eq!(seconds(3601), "3601 seconds");
        assert_eq!(seconds(0), "0 seconds");
    }
}
