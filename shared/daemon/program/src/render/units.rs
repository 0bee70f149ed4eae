//! Figures as people read them.

/// An amount of memory in GiB.
pub fn gib(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let gib = bytes as f64 / f64::from(1 << 30);
    figures(gib)
}

/// A number to about three significant digits, without an exponent.
pub fn figures(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if size >= 99.95 => format!("{number:.0}"),
        size if size >= 9.995 => format!("{number:.1}"),
        size if size >= 0.0095 => format!("{number:.2}"),
        _ => format!("{number:.5}"),
    }
}

/// A count with its noun: `1 device`, `2 devices`, `2 passes`.
pub fn counted(count: u64, what: &str) -> String {
    let ending = match count {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {what}{ending}")
}

/// A duration in its two largest units.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A count with a prefix: 1.23 T.
pub fn count(number: u128) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut rest = number as f64;
    let mut prefix = 0;
    while rest >= 999.5 && prefix + 1 < PREFIXES.len() {
        rest /= 1000.0;
        prefix += 1;
    }
    if prefix == 0 { number.to_string() } else { format!("{} {}", figures(rest), PREFIXES[prefix]) }
}

/// A probability from its log2, rounded up: in percent while that says something, else as a power of two.
pub fn probability(log2: f64) -> String {
    if log2 == f64::NEG_INFINITY {
        return "0".to_owned();
    }
    if log2 > -10.0 {
        let percent = log2.exp2() * 100.0;
        let tenths = (percent * 10.0 - 1e-9).ceil() / 10.0;
        return format!("{tenths} %");
    }
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let power = log2.ceil() as i64;
    format!("2{}", superscript(power))
}

fn superscript(number: i64) -> String {
    let raised = |c: char| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        _ => c.to_digit(10).and_then(|d| char::from_u32('⁰' as u32 + d)).unwrap_or(c),
    };
    number.to_string().chars().map(raised).collect()
}

/// A fraction in percent.
pub fn percent(fraction: f64) -> String {
    format!("{} %", (fraction * 100_000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        for (number, text) in
            [(0.0, "0"), (0.001_234, "0.00123"), (1.234, "1.23"), (12.34, "12.3"), (99.99, "100"), (1234.5, "1234")]
        {
            assert_eq!(figures(number), text);
        }
        assert_eq!(gib(3 << 29), "1.50");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_000_000_000), "1.23 T");
        assert_eq!(count(999_999), "1.00 M");
    }

    #[test]
    fn durations_have_two_units() {
        let shown = [59, 61, 7265, 90_000].map(duration);
        assert_eq!(shown, ["59 s", "1 min 1 s", "2 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn probabilities_are_never_shown_smaller_than_they_are() {
        assert_eq!(probability(-1.86), "27.6 %");
        assert_eq!(probability(0.0), "100 %");
        assert_eq!(probability(-19.45), "2⁻¹⁹");
        assert_eq!(probability(-234.0), "2⁻²³⁴");
        assert_eq!(probability(f64::NEG_INFINITY), "0");
        assert_eq!(percent(0.1), "10 %");
        assert_eq!(percent(0.05), "5 %");
    }
}
