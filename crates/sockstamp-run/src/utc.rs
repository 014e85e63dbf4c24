//! Dates and times of day, for people and for names of files.

use chrono::{DateTime, Days, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};

use crate::duration::duration;

/// Return `2026-11-22`, `19` and `190507` of seconds since 1970.
#[must_use]
pub fn utc(seconds: u64) -> [String; 3] {
    let seconds = i64::try_from(seconds).ok();
    let time = seconds.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    // A hostile file may name any time.
    let time = time.unwrap_or(DateTime::<Utc>::MAX_UTC);
    ["%Y-%m-%d", "%H", "%H%M%S"].map(|format| time.format(format).to_string())
}

/// Read a moment, in nanoseconds since 1970: a date and a time of day, UTC unless it has an offset;
/// a time of day alone, of today, or behind `yesterday`; `now`; or a time before now, as `-5m` or
/// `5m ago`.
///
/// # Errors
///
/// If it is none, or before 1970.
pub fn moment(text: &str) -> Result<u64, String> {
    moment_at(text, Utc::now())
}

fn moment_at(text: &str, now: DateTime<Utc>) -> Result<u64, String> {
    let time = by_clock(text)
        .or_else(|| by_day(text, now))
        .or_else(|| before(text, now))
        .or_else(|| by_seconds(text));
    let nanos = time.and_then(|time| time.timestamp_nanos_opt());
    nanos
        .and_then(|nanos| u64::try_from(nanos).ok())
        .ok_or_else(|| {
            "it is a date and a time, UTC, such as 2026-11-22T19:05:07, or 19:05, 'yesterday 19:05' \
             or -5m"
                .to_owned()
        })
}

/// Read `19:05` and `19:05:07`, `today` and `yesterday`, and a time of day behind these.
fn by_day(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    const FORMATS: [&str; 2] = ["%H:%M:%S%.f", "%H:%M"];
    let (word, behind) = text.split_once(' ').unwrap_or((text, ""));
    let today = now.date_naive();
    let (day, time) = match word {
        "today" => (today, behind),
        "yesterday" => (today.checked_sub_days(Days::new(1))?, behind),
        _ => (today, text),
    };
    let of_day = |time| {
        let mut formats = FORMATS.iter();
        formats.find_map(|format| NaiveTime::parse_from_str(time, format).ok())
    };
    let time = match time {
        "" if !word.is_empty() => NaiveTime::MIN,
        _ => of_day(time)?,
    };
    Some(day.and_time(time).and_utc())
}

/// Read `now`, `-5m`, `now-5m` and `5m ago`.
fn before(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    if text == "now" {
        return Some(now);
    }
    let behind = text.strip_prefix("now").unwrap_or(text);
    let ago = behind
        .strip_prefix('-')
        .or_else(|| text.strip_suffix(" ago"))?;
    let ago = TimeDelta::from_std(duration(ago.trim()).ok()?).ok()?;
    now.checked_sub_signed(ago)
}

/// Read `@1795374307`, as date(1) has it.
fn by_seconds(text: &str) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(text.strip_prefix('@')?.parse().ok()?, 0)
}

/// Read a date, with a time of day or as its first moment.
fn by_clock(text: &str) -> Option<DateTime<Utc>> {
    const FORMATS: [&str; 4] = [
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M",
    ];
    let bare = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let local = FORMATS
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(bare, format).ok());
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    let midnight = || day().and_then(|day| day.and_hms_opt(0, 0, 0));
    let here = local.or_else(midnight).map(|time| time.and_utc());
    let there = || DateTime::parse_from_rfc3339(text).ok();
    here.or_else(|| there().map(|time| time.to_utc()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_utc_unless_they_have_an_offset() {
        const AT: u64 = 1_795_374_307_000_000_000;
        for text in [
            "2026-11-22T19:05:07",
            "2026-11-22 19:05:07",
            "2026-11-22T19:05:07Z",
            "2026-11-22T20:05:07+01:00",
        ] {
            assert_eq!(moment(text), Ok(AT), "{text}");
        }
        assert_eq!(moment("2026-11-22T19:05:07.5"), Ok(AT + 500_000_000));
        assert_eq!(moment("2026-11-22 19:05"), Ok(AT - 7_000_000_000));
        assert_eq!(moment("1970-01-02"), Ok(86_400_000_000_000));
        for wrong in [
            "",
            "2026-13-01",
            "1969-12-31",
            "5m",
            "25:00",
            "tomorrow",
            "-5x",
        ] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments_may_be_told_from_now() {
        const AT: u64 = 1_795_374_307_000_000_000;
        let now = DateTime::from_timestamp_nanos(1_795_374_307_000_000_000);
        let second = |text: &str| moment_at(text, now).map(|nanos| (AT - nanos) / 1_000_000_000);
        for (text, ago) in [
            ("now", 0),
            ("-5m", 300),
            ("now-5m", 300),
            ("5m ago", 300),
            ("5 minutes ago", 300),
            ("-1h30m", 5_400),
            ("@1795374300", 7),
            ("19:05:07", 0),
            ("19:05", 7),
            ("today 19:00", 307),
            ("today", 68_707),
            ("yesterday 19:05", 86_407),
            ("yesterday", 155_107),
        ] {
            assert_eq!(second(text), Ok(ago), "{text}");
        }
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(utc(0), ["1970-01-01", "00", "000000"]);
        assert_eq!(utc(951_827_696), ["2000-02-29", "12", "123456"]);
        assert_eq!(utc(1_795_374_307), ["2026-11-22", "19", "190507"]);
        assert_eq!(utc(4_102_444_799), ["2099-12-31", "23", "235959"]);
    }

    #[test]
    fn a_time_beyond_all_years_is_the_last_one() {
        assert_eq!(utc(u64::MAX), ["+262142-12-31", "23", "235959"]);
    }
}
