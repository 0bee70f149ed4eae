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

#[cfg(test)]
mod tests {
    use super::*;

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
