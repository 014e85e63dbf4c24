//! Dates and times of day, for people and for names of files.

use chrono::{DateTime, Utc};

/// Return `2026-11-22`, `19` and `190507` of seconds since 1970.
#[must_use]
pub fn utc(seconds: u64) -> [String; 3] {
    let seconds = i64::try_from(seconds).ok();
    let time = seconds.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    // A hostile file may name any time.
    let time = time.unwrap_or(DateTime::<Utc>::MAX_UTC);
    ["%Y-%m-%d", "%H", "%H%M%S"].map(|format| time.format(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

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
