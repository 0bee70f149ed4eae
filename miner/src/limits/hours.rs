//! Hours of the week in which a miner takes no challenges, as an operator writes them: `22:00-06:00`,
//! `Mon-Fri 08:00-18:00, Sat`.

use std::fmt;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;

const DAY_MIN: u32 = 24 * 60;
const WEEK_MIN: u32 = 7 * DAY_MIN;
/// The longest text: it goes into the detail of what is declined.
const MAX_TEXT_BYTES: usize = 256;
/// What a time zone's name is for the machine's own.
pub const LOCAL: &str = "local";
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const EXPECTED: &str = "expected hours such as 22:00-06:00, Mon-Fri 08:00-18:00 or Sat, several with commas between";

/// The hours, and the time zone that they are in. The default has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclineHours {
    windows: Vec<Window>,
    zone: TimeZone,
    zone_name: String,
    text: String,
}

/// One entry: the same hours on some days. Hours that pass midnight belong to the day on which they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    /// One bit for each day, Monday's first.
    days: u8,
    start_min: u32,
    length_min: u32,
}

impl Default for DeclineHours {
    fn default() -> Self {
        Self { windows: Vec::new(), zone: TimeZone::UTC, zone_name: "UTC".into(), text: String::new() }
    }
}

impl fmt::Display for DeclineHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.zone_name)
    }
}

impl DeclineHours {
    /// Reads hours in a time zone.
    ///
    /// # Errors
    /// A sentence: what is wrong with them, or that they leave no minute of the week.
    pub fn new(text: &str, zone: &Zone) -> Result<Self, String> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(format!("longer than {MAX_TEXT_BYTES} bytes"));
        }
        let windows = text.split(',').map(window).collect::<Result<Vec<_>, _>>()?;
        let (zone, zone_name) = (zone.zone.clone(), zone.name.clone());
        let hours = Self { windows, zone, zone_name, text: text.trim().to_owned() };
        if (0..WEEK_MIN).all(|minute| hours.contains(minute)) {
            return Err("the whole week is declined: stop the miner instead".into());
        }
        Ok(hours)
    }

    /// Whether there are any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// For how many minutes more challenges are declined; `None` when they are not now.
    #[must_use]
    pub fn left_min(&self, now: SystemTime) -> Option<u32> {
        let now = Timestamp::try_from(now).ok()?.to_zoned(self.zone.clone());
        let day = u32::try_from(now.weekday().to_monday_zero_offset()).ok()?;
        let minute = day * DAY_MIN + u32::try_from(now.hour()).ok()? * 60 + u32::try_from(now.minute()).ok()?;
        let is_declined = |minutes: &u32| self.contains((minute + minutes) % WEEK_MIN);
        is_declined(&0).then(|| (1..WEEK_MIN).find(|minutes| !is_declined(minutes)).unwrap_or(WEEK_MIN))
    }

    /// Whether a minute of the week is among them, from Monday 00:00.
    fn contains(&self, minute: u32) -> bool {
        self.windows.iter().any(|window| {
            let days = (0..7).filter(|day| window.days & (1 << day) != 0);
            days.map(|day| day * DAY_MIN + window.start_min)
                .any(|start| (minute + WEEK_MIN - start) % WEEK_MIN < window.length_min)
        })
    }
}

/// A time zone by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    zone: TimeZone,
    name: String,
}

impl Zone {
    /// `UTC`, `local`, or a name such as `Europe/Berlin`.
    ///
    /// # Errors
    /// A sentence: this machine knows no such zone.
    pub fn new(name: &str) -> Result<Self, String> {
        if name.eq_ignore_ascii_case("utc") {
            return Ok(Self { zone: TimeZone::UTC, name: "UTC".into() });
        }
        let is_local = name.eq_ignore_ascii_case(LOCAL);
        let found = if is_local { TimeZone::try_system() } else { TimeZone::get(name) };
        let unknown = |error| format!("expected UTC, local, or a zone such as Europe/Berlin: {error}");
        let zone = found.map_err(unknown)?;
        let name = zone.iana_name().unwrap_or(name).to_owned();
        Ok(Self { zone, name: if is_local { format!("{LOCAL}, {name}") } else { name } })
    }
}

fn window(text: &str) -> Result<Window, String> {
    let wrong = |what: &str| format!("{what} in {:?}: {EXPECTED}", text.trim());
    let words: Vec<_> = text.split_whitespace().collect();
    let (days, hours) = match words[..] {
        [one] if one.contains(':') => (None, Some(one)),
        [one] => (Some(one), None),
        [days, hours] => (Some(days), Some(hours)),
        [] => return Err(wrong("nothing")),
        _ => return Err(wrong("more than days and hours")),
    };
    let days = days.map_or(Ok(0x7f), |days| day_range(days).ok_or_else(|| wrong("no day")))?;
    let Some(hours) = hours else { return Ok(Window { days, start_min: 0, length_min: DAY_MIN }) };
    let (start, end) = hours.split_once('-').ok_or_else(|| wrong("no end"))?;
    let start_min = minute(start).filter(|start| *start < DAY_MIN).ok_or_else(|| wrong("no time of day"))?;
    let end_min = minute(end).ok_or_else(|| wrong("no time of day"))?;
    let length_min = (end_min + DAY_MIN - start_min) % DAY_MIN;
    match (length_min, start_min) {
        (0, 0) if end_min == DAY_MIN => Ok(Window { days, start_min, length_min: DAY_MIN }),
        (0, _) => Err(wrong("the same start and end")),
        _ => Ok(Window { days, start_min, length_min }),
    }
}

/// A day, or a range of days, as bits.
fn day_range(text: &str) -> Option<u8> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let place = |name: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(name));
    let (first, last) = (place(first)?, place(last)?);
    let length = (last + 7 - first) % 7;
    Some((0..=length).fold(0, |days, day| days | 1 << ((first + day) % 7)))
}

/// Minutes since midnight; 24:00 is the end of a day.
fn minute(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| (1..=2).contains(&text.len()).then(|| text.parse::<u32>().ok()).flatten();
    let (hour, minute) = (number(hour)?, number(minute).filter(|_| minute.len() == 2)?);
    let minutes = hour * 60 + minute;
    (minute < 60 && minutes <= DAY_MIN).then_some(minutes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Monday 2026-11-23 00:00 UTC.
    const MONDAY_S: u64 = 1_795_392_000;

    fn utc(text: &str) -> Result<DeclineHours, String> {
        DeclineHours::new(text, &Zone::new("UTC").unwrap())
    }

    fn at(day: u64, hour: u64, minute: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(MONDAY_S + ((day * 24 + hour) * 60 + minute) * 60)
    }

    fn left(text: &str, day: u64, hour: u64, minute: u64) -> Option<u32> {
        utc(text).unwrap().left_min(at(day, hour, minute))
    }

    #[test]
    fn hours_of_each_day_may_pass_midnight() {
        assert_eq!(left("22:00-06:00", 0, 21, 59), None);
        assert_eq!(left("22:00-06:00", 0, 22, 0), Some(480));
        assert_eq!(left("22:00-06:00", 3, 5, 59), Some(1));
        assert_eq!(left("22:00-06:00", 3, 6, 0), None);
        assert_eq!(left("22:00-24:00", 6, 23, 0), Some(60));
    }

    #[test]
    fn days_are_those_on_which_the_hours_begin() {
        let text = "Mon-Fri 22:00-06:00";
        assert_eq!(left(text, 5, 5, 0), Some(60), "Friday's night");
        assert_eq!(left(text, 5, 23, 0), None);
        assert_eq!(left(text, 0, 5, 0), None, "Sunday's night");
        // From Sunday into the next week.
        assert_eq!(left("Sun 22:00-06:00", 0, 5, 0), Some(60));
        assert_eq!(left("fri-mon 08:00-18:00", 6, 8, 0), Some(600));
        assert_eq!(left("fri-mon 08:00-18:00", 2, 8, 0), None);
    }

    #[test]
    fn several_are_declined_together() {
        let text = "Mon-Fri 08:00-18:00, Sat,Sun";
        assert_eq!(left(text, 4, 12, 0), Some(360));
        assert_eq!(left(text, 5, 0, 0), Some(2 * 1440));
        assert_eq!(left(text, 0, 0, 0), None);
        assert_eq!(left("00:00-12:00, 12:00-13:00", 0, 11, 0), Some(120));
    }

    #[test]
    fn mistakes_are_named() {
        for text in [
            "",
            "22-06",
            "22:00",
            "25:00-06:00",
            "22:60-06:00",
            "22:0-06:00",
            "24:00-06:00",
            "22:00-06:00-07:00",
            "Mo 08:00-18:00",
            "Mon-Fry 08:00-18:00",
            "Mon 08:00 - 18:00",
            "08:00-08:00",
            "Mon,",
            "-1:00-02:00",
        ] {
            let error = utc(text).unwrap_err();
            assert!(error.contains("Mon-Fri 08:00-18:00"), "{text}: {error}");
        }
        for text in ["00:00-24:00", "Mon-Sun", "00:00-12:00,12:00-24:00"] {
            assert!(utc(text).unwrap_err().contains("whole week"), "{text}");
        }
        assert!(utc(&"Mon,".repeat(100)).unwrap_err().contains("256 bytes"));
        assert!(Zone::new("Moon/Base").unwrap_err().contains("Europe/Berlin"));
    }

    #[test]
    fn a_zone_has_its_own_hours() {
        // Not every machine knows the world's zones; all know their own.
        let zone = Zone { zone: TimeZone::fixed(jiff::tz::offset(2)), name: "+02".into() };
        let hours = DeclineHours::new("08:00-18:00", &zone).unwrap();
        assert_eq!(hours.left_min(at(0, 6, 0)), Some(600));
        assert_eq!(hours.left_min(at(0, 16, 0)), None);
        assert_eq!(hours.to_string(), "08:00-18:00 (+02)");
    }

    #[test]
    fn no_hours_decline_nothing() {
        assert_eq!(DeclineHours::default().left_min(at(0, 0, 0)), None);
    }
}
