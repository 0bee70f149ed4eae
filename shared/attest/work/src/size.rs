//! Amounts of memory as people write them.

use std::fmt;
use std::str::FromStr;

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// An amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Size {
    /// Bytes, at least 0.
    pub bytes: u64,
}

/// The text is not an amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a whole number and a unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB), such as 2GiB")]
pub struct SizeError;

impl FromStr for Size {
    type Err = SizeError;

    /// The unit is read in any case of letters, since `2gib` can mean nothing else; a missing one is refused.
    fn from_str(text: &str) -> Result<Self, SizeError> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim_start();
        let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(SizeError)?;
        let number: u64 = number.parse().map_err(|_| SizeError)?;
        number.checked_mul(*factor).map(|bytes| Self { bytes }).ok_or(SizeError)
    }
}

impl fmt::Display for Size {
    /// In the largest binary unit that shows it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = UNITS[..4].iter().find(|(_, factor)| self.bytes != 0 && self.bytes.is_multiple_of(*factor));
        let (name, factor) = binary.unwrap_or(&UNITS[8]);
        write!(f, "{}{name}", self.bytes / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        for (text, bytes) in
            [("2GiB", 2 << 30), ("512 MiB", 512 << 20), ("3kB", 3000), ("1gib", 1 << 30), ("0B", 0), ("7B", 7)]
        {
            assert_eq!(text.parse(), Ok(Size { bytes }), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "2", "GiB", "-1GiB", "1.5GiB", "2XiB", "18446744073709551615KiB", "2GiBs"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError), "{text}");
        }
    }

    #[test]
    fn a_size_reads_back_as_itself() {
        for bytes in [0, 1, 1023, 1024, 1 << 30, (1 << 30) + 1, u64::MAX] {
            assert_eq!(Size { bytes }.to_string().parse(), Ok(Size { bytes }));
        }
    }
}
