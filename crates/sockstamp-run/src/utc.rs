//! Dates and times of day, for people and for names of files.

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

/// Return `2026-11-22`, `19` and `190507` of seconds since 1970.
#[must_use]
pub fn utc(seconds: u64) -> [String; 3] {
    let seconds = i64::try_from(seconds).ok();
    let time = seconds.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    // A hostile file may name any time.
    let time = time.unwrap_or(DateTime::<Utc>::MAX_UTC);
    ["%Y-%m-%d", "%H", "%H%M%S"].map(|format| time.format(format).to_string())
}

/// Read a date and a time of day, UTC unless it has an offset, in nanoseconds since 1970.
///
/// # Errors
///
/// If it is none, or before 1970.
pub fn moment(text: &str) -> Result<u64, String> {
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
    let time = here.or_else(|| there().map(|time| time.to_utc()));
    let nanos = time.and_then(|time| time.timestamp_nanos_opt());
    nanos
        .and_then(|nanos| u64::try_from(nanos).ok())
        .ok_or_else(|| "it is a date and a time, UTC, such as 2026-11-22T19:05:07".to_owned())
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
        for wrong in ["", "19:05", "2026-13-01", "1969-12-31", "5m", "yesterday"] {
            assert!(moment(wrong).is_err(), "{wrong}");
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
