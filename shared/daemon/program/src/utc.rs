//! Moments as people read them, in UTC.

const DAY_S: u64 = 86_400;

/// A moment as its date and time: `2026-11-22 07:15:37 UTC`.
///
/// Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
pub fn text(unix_s: u64) -> String {
    let (days, second) = (unix_s / DAY_S, unix_s % DAY_S);
    // Days since 1 March of the year 0, in eras of 400 years.
    let since = days + 719_468;
    let (era, day_of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The same for programs (ISO 8601, RFC 3339): `2026-11-22T07:15:37Z`.
pub fn iso(unix_s: u64) -> String {
    text(unix_s).replace(" UTC", "Z").replace(' ', "T")
}

/// A month as people write it, `2026-11`: its first second and the next month's, since 1970.
///
/// # Errors
/// A sentence: it is no month from 1970 on.
pub fn month(text: &str) -> Result<(u64, u64), String> {
    let digits = |part: &str, count: usize| {
        let is_number = part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().ok()).flatten()
    };
    let found = text.split_once('-').and_then(|(year, month)| Some((digits(year, 4)?, digits(month, 2)?)));
    let (year, month) = found
        .filter(|(year, month)| *year >= 1970 && (1..=12).contains(month))
        .ok_or_else(|| format!("{text:?} is no month: write it as 2026-11"))?;
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    Ok((first_day(year, month) * DAY_S, first_day(next.0, next.1) * DAY_S))
}

/// Days from 1970 to the first of a month: the source's `days_from_civil`.
const fn first_day(year: u64, month: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * month + 2) / 5;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_and_end_as_in_the_calendar() {
        for (written, first, next) in [
            ("1970-01", "1970-01-01", "1970-02-01"),
            ("2000-02", "2000-02-01", "2000-03-01"),
            ("2026-11", "2026-11-01", "2026-12-01"),
            ("2026-12", "2026-12-01", "2027-01-01"),
            ("2100-02", "2100-02-01", "2100-03-01"),
        ] {
            let (start, end) = month(written).unwrap();
            assert_eq!([start, end].map(text), [first, next].map(|day| format!("{day} 00:00:00 UTC")));
        }
        for none in ["2026", "2026-13", "2026-00", "1969-12", "2026-1", "26-11", "2026-11-01", "+026-11", "x-y", ""] {
            assert!(month(none).is_err(), "{none}");
        }
    }

    #[test]
    fn moments_have_the_dates_of_the_calendar() {
        for (unix_s, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_077_926_400, "2004-02-28 00:00:00 UTC"),
            (1_109_635_199, "2005-02-28 23:59:59 UTC"),
            (1_109_635_200, "2005-03-01 00:00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(text(unix_s), shown);
            assert_eq!(iso(unix_s), format!("{}T{}Z", &shown[..10], &shown[11..19]));
        }
    }
}
