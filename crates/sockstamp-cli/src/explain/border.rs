//! Read the border between slow messages and others.

use sockstamp_explain::Border;

use crate::options::slow::limit;

/// Normal messages end at the 75th percentile.
const LEAST: u32 = 75_000;

/// Read `p99`, `p99.9` or a time.
pub(super) fn border(text: &str) -> Result<Border, String> {
    let Some(percent) = text.strip_prefix('p') else {
        // A bare number has seconds, but one of these may be meant as a percentile.
        let number = text.trim_end_matches('%');
        if number
            .parse()
            .is_ok_and(|number: f64| (75.0..100.0).contains(&number))
        {
            return Err(format!(
                "write p{number}, or {number}ms or {number}s for a time"
            ));
        }
        return limit(text).map(|time| Border::Time(time.into()));
    };
    let wrong = || format!("{text:?} is not a percentile from p75 to p99.999");
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() != 2
        || fraction.len() > 3
        || percent.ends_with('.')
        || !digits(whole)
        || !digits(fraction)
    {
        return Err(wrong());
    }
    let thousandths: u32 = format!("{whole}{fraction:0<3}")
        .parse()
        .map_err(|_| wrong())?;
    match thousandths >= LEAST {
        true => Ok(Border::Percentile(thousandths)),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;

    use super::*;

    #[test]
    fn a_border_is_a_percentile_or_a_time() {
        assert_eq!(border("p99"), Ok(Border::default()));
        assert_eq!(border("p99.9"), Ok(Border::Percentile(99_900)));
        assert_eq!(border("p75"), Ok(Border::Percentile(75_000)));
        assert_eq!(border("20ms"), Ok(Border::Time(Nanos(20_000_000))));
        assert_eq!(border("0.02"), border("20ms"));
        for text in [
            "p", "p50", "p100", "p99.", "p99.9999", "p+9", "99", "99.9", "p9.9",
        ] {
            assert!(border(text).is_err(), "{text}");
        }
    }
}
