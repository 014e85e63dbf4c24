//! Options: the limits below which a time matters to nobody.

use clap::Args;
use sockstamp_explain::Least;
use sockstamp_run::duration::duration;

/// Options of what is too small to be a finding.
#[derive(Debug, Clone, Copy, Args)]
pub struct LeastOptions {
    /// What takes less of the whole time is no finding: a percentage
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "5%")]
    pub least_share: f64,
    /// What takes less time is no finding: a number with us, ms, s (default), m or h
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "100us")]
    pub least_time: f64,
}

impl From<LeastOptions> for Least {
    fn from(options: LeastOptions) -> Self {
        Self {
            time: options.least_time,
            share: options.least_share,
        }
    }
}

/// Read a percentage, as a part of 1.
fn share(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text
        .strip_suffix('%')
        .and_then(|number| number.trim().parse().ok());
    let share = percent.filter(|percent| (0.0..=100.0).contains(percent));
    share
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("{text:?} is no percentage, such as 5%"))
}

/// Read a time, in nanoseconds.
fn time(text: &str) -> Result<f64, String> {
    Ok(duration(text)?.as_secs_f64() * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_a_sign_and_times_may_have_a_unit() {
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("0 %"), Ok(0.0));
        assert_eq!(time("100us"), Ok(1e5));
        assert_eq!(time("2ms"), Ok(2e6));
        assert_eq!(time("0"), Ok(0.0));
        assert_eq!(time("1"), Ok(1e9));
        for text in ["5", "-1%", "101%", "x%", "NaN%"] {
            assert!(share(text).is_err(), "{text}");
        }
        for text in ["-1us", "NaNus", "ms"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
