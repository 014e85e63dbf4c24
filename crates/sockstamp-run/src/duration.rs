//! Durations as users write them.

use std::time::Duration;

use humantime::DurationError;

/// Read numbers with us, ms, s, m or h, such as 5ms or 1h30m; a bare number has seconds.
///
/// # Errors
///
/// If it is none.
pub fn duration(text: &str) -> Result<Duration, String> {
    // As ping -i .2 and sleep .2 have it.
    let whole = match text.as_bytes() {
        [b'.', b'0'..=b'9', ..] => "0",
        _ => "",
    };
    let text = &format!("{whole}{text}");
    let is_bare = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.'));
    let parsed = match is_bare {
        true => humantime::parse_duration(&format!("{text}s")),
        false => humantime::parse_duration(text),
    };
    parsed.map_err(|error| match error {
        DurationError::UnknownUnit { unit, .. } if !unit.is_empty() => {
            format!("unknown unit {unit:?}: use us, ms, s, m or h")
        }
        DurationError::NumberOverflow => format!("{text} is too long or too short"),
        _ => match of_clock(text) {
            Some(seconds) => format!("a time has no colons: write {seconds}s"),
            None => "it is not a number with us, ms, s, m or h".to_owned(),
        },
    })
}

/// Return the seconds of hours, minutes and seconds with colons between them.
fn of_clock(text: &str) -> Option<u64> {
    let parts = text.split(':').map(|part| part.parse::<u64>().ok());
    let parts: Vec<u64> = parts.collect::<Option<_>>()?;
    let [_, _, _] = parts[..] else {
        return None;
    };
    let mut parts = parts.iter();
    parts.try_fold(0_u64, |sum, part| sum.checked_mul(60)?.checked_add(*part))
}

/// Read how long something lasts: longer than no time.
///
/// # Errors
///
/// If it is none.
pub fn lasting(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("nothing is measured in no time".to_owned()),
        lasting => Ok(lasting),
    }
}

/// Read the length of an interval: no less than a millisecond.
///
/// # Errors
///
/// If it is none.
pub fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    match interval >= Duration::from_millis(1) {
        true => Ok(interval),
        false => Err("an interval is 1ms or longer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration(".2"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        for micros in ["100us", "100µs"] {
            assert_eq!(duration(micros), Ok(Duration::from_micros(100)));
        }
        assert_eq!(
            duration("2x").unwrap_err(),
            "unknown unit \"x\": use us, ms, s, m or h"
        );
        for wrong in ["", "s", "-1", ".", "1.2.3", "ms5"] {
            assert_eq!(
                duration(wrong).unwrap_err(),
                "it is not a number with us, ms, s, m or h"
            );
        }
        assert_eq!(
            duration("00:01:02").unwrap_err(),
            "a time has no colons: write 62s"
        );
        let ages = "9".repeat(20);
        for beyond in [&ages[..], "0.1ns"] {
            assert_eq!(
                duration(beyond).unwrap_err(),
                format!("{beyond} is too long or too short")
            );
        }
    }

    #[test]
    fn an_interval_is_no_shorter_than_a_millisecond() {
        assert_eq!(interval("1"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("1ms"), Ok(Duration::from_millis(1)));
        assert!(interval("999us").is_err() && interval("0").is_err());
    }
}
