//! `sockstamp top`: its options, and the measurement that its screen shows.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use sockstamp_model::group::{Dimension, Grouping};
use sockstamp_print::colour::Colours;
use sockstamp_print::groups::dimension;
use sockstamp_print::output::Format;
use sockstamp_run::duration::duration;
use sockstamp_top::Settings;

use crate::measure::{Measurement, Recorded};
use crate::options::measuring::Measuring;
use crate::options::slow::Slow;
use crate::options::target::Target;
use crate::watched;

/// Options of `top`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    /// The target.
    pub target: Target,
    #[command(flatten)]
    /// Options of measuring.
    pub measuring: Measuring,
    #[command(flatten)]
    /// The messages that are marked.
    pub slow: Slow,
    /// Group messages by these dimensions, one row per group
    #[arg(long, value_name = "DIMENSION", value_delimiter = ',',
          value_parser = dimension(Dimension::MEASURED),
          default_value = "comm,port")]
    pub by: Vec<Dimension>,
    /// Time between two updates: a number with us, ms, s (default), m or h
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    pub interval: Duration,
    /// Stop after this time: a number with us, ms, s (default), m or h
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "once")]
    pub duration: Option<Duration>,
    /// Print one screen after one interval, and exit
    #[arg(long)]
    pub once: bool,
    /// Output format of --once
    #[arg(long, value_enum, default_value_t, requires = "once")]
    pub format: Format,
    /// The colours of the screen.
    #[command(flatten)]
    pub colours: Colours,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if !options.once {
        sockstamp_top::require_terminal()?;
    }
    let slow = options.slow.slow.into();
    let by = Grouping::new(options.by.iter().copied()).context("--by needs a dimension")?;
    let mut wanted = Measurement {
        target: &options.target,
        command: &[],
        duration: options.duration,
        recorded: if options.once {
            Recorded::None
        } else {
            Recorded::All
        },
        waits: (!options.once).then_some(slow),
        unix: true,
        groups: Some(by.clone()),
        measuring: &options.measuring,
        tag: false,
        told: None,
    }
    .options()?;
    wanted.max_cost = options.measuring.ceiling(true);
    sockstamp_top::run(Settings {
        wanted,
        scope: watched::scope(&options.target, &[], slow),
        by,
        interval: options.interval,
        duration: options.duration,
        once: options.once.then_some(options.format),
        colours: options.colours.color.has(true),
    })
}

/// Refuse intervals too short to read or too long to wait for: they are typing errors.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval) {
        Ok(interval)
    } else {
        Err("an interval is from 100ms to 60m".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_neither_too_short_nor_too_long() {
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert!(interval("0").is_err() && interval("61m").is_err());
    }
}
