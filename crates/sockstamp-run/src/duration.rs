//! Durations as users write them.

use std::time::Duration;

/// Read a number with ms, s (default) or m.
///
/// # Errors
///
/// If it is none.
pub fn duration(text: &str) -> Result<Duration, String> {
    let unit = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let scale = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        _ if number.is_empty() => return Err("it is not a number with ms, s or m".to_owned()),
        _ => return Err(format!("unknown unit {unit:?}: use ms, s or m")),
    };
    let seconds = number
        .parse::<f64>()
        .map_err(|_| format!("{number:?} is not a number"))?
        * scale;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} is too long"))
}

/// Read a time as [`duration`] does, but without a default unit: a bare number would rarely mean
/// seconds.
///
/// # Errors
///
/// If it is no such time.
pub fn with_unit(text: &str) -> Result<Duration, String> {
    if text.ends_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("it needs a unit: {text}ms or {text}s"));
    }
    duration(text)
}

/// Read the length of an interval: no less than a millisecond.
///
/// # Errors
///
/// If it is none.
pub fn interval(text: &str) -> Result<Duration, String> {
    let interval = with_unit(text)?;
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
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("2h").is_err());
        assert!(duration("s").is_err());
        assert_eq!(
            duration("-1").unwrap_err(),
            "it is not a number with ms, s or m"
        );
        let ages = "9".repeat(20);
        assert_eq!(duration(&ages).unwrap_err(), format!("{ages} is too long"));
    }

    #[test]
    fn a_bare_number_may_need_its_unit() {
        assert_eq!(with_unit("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(with_unit("5").unwrap_err(), "it needs a unit: 5ms or 5s");
    }
}
