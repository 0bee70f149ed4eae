//! Lengths of time as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("w", 604_800), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

/// A length of time in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The length in seconds.
    pub seconds: u64,
}

/// The text is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a whole number and a unit (s, m, h, d, w), such as 30d")]
pub struct SpanError;

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_secs(span.seconds)
    }
}

impl FromStr for Span {
    type Err = SpanError;

    /// A missing unit is refused, except behind 0.
    fn from_str(text: &str) -> Result<Self, SpanError> {
        if text == "0" {
            return Ok(Self { seconds: 0 });
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(SpanError)?;
        let number: u64 = number.parse().map_err(|_| SpanError)?;
        number.checked_mul(*factor).map(|seconds| Self { seconds }).ok_or(SpanError)
    }
}

impl fmt::Display for Span {
    /// In the largest unit below weeks that shows it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS[1..].iter().find(|(_, factor)| self.seconds != 0 && self.seconds.is_multiple_of(*factor));
        let (name, factor) = exact.unwrap_or(&UNITS[4]);
        write!(f, "{}{name}", self.seconds / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_they_are_written() {
        for (text, seconds) in [("0", 0), ("0s", 0), ("90s", 90), ("5m", 300), ("12h", 43_200), ("30d", 2_592_000)] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.seconds, seconds);
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        assert_eq!(["2w".parse::<Span>().unwrap().to_string(), Span { seconds: 90 }.to_string()], ["14d", "90s"]);
        for wrong in ["", "d", "30", "-1d", "1.5h", "30 d", "30D", "1y", "99999999999999999d"] {
            assert_eq!(wrong.parse::<Span>(), Err(SpanError), "{wrong}");
        }
    }
}
