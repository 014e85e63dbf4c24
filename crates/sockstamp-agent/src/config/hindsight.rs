//! The last minutes on disk.

#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use sockstamp_model::stage::Stage;

use super::fields::{absolute, within};
use crate::values::{duration, seconds, some_duration, up_to_an_hour};

/// The recording of the last minutes.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HindsightTable {
    #[serde(deserialize_with = "directory")]
    pub(crate) directory: PathBuf,
    #[serde(
        default = "ten_minutes",
        deserialize_with = "kept",
        serialize_with = "seconds"
    )]
    pub(crate) keep: Duration,
    /// Megabytes of all files but those of snapshots.
    #[serde(default = "half_a_gigabyte", deserialize_with = "megabytes")]
    pub(crate) max_size: u32,
    /// Megabytes that the file system keeps free.
    #[serde(default = "half_a_gigabyte", deserialize_with = "megabytes")]
    pub(crate) min_free: u32,
    /// Only slower messages.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "some_duration"
    )]
    pub(crate) slow: Option<Duration>,
    /// Conditions at which a snapshot is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) keep_when: Vec<KeepWhen>,
}

const fn ten_minutes() -> Duration {
    Duration::from_secs(600)
}

const fn half_a_gigabyte() -> u32 {
    512
}

#[cfg(test)]
impl HindsightTable {
    /// All settings but this have their defaults.
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            keep: ten_minutes(),
            max_size: half_a_gigabyte(),
            min_free: half_a_gigabyte(),
            slow: None,
            keep_when: Vec::new(),
        }
    }
}

/// A condition: a quantile of a stage, over a time, is above a bound.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeepWhen {
    #[serde(deserialize_with = "stage")]
    pub(crate) stage: Stage,
    #[serde(default = "p99", deserialize_with = "quantile")]
    pub(crate) quantile: f64,
    #[serde(deserialize_with = "duration", serialize_with = "seconds")]
    pub(crate) above: Duration,
    #[serde(
        rename = "for",
        default = "one_minute",
        deserialize_with = "up_to_an_hour",
        serialize_with = "seconds"
    )]
    pub(crate) window: Duration,
}

const fn p99() -> f64 {
    0.99
}

const fn one_minute() -> Duration {
    Duration::from_secs(60)
}

fn stage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Stage, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(|error| {
        let names = Stage::ALL.map(Stage::name).join(", ");
        D::Error::custom(format!("{error}: there is {names}"))
    })
}

fn quantile<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let quantile = f64::deserialize(deserializer)?;
    match quantile > 0.0 && quantile < 1.0 {
        true => Ok(quantile),
        false => Err(D::Error::custom(
            "it is a number between 0 and 1, such as 0.99",
        )),
    }
}

fn kept<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let kept = duration(deserializer)?;
    match (1..=86_400).contains(&kept.as_secs()) {
        true => Ok(kept),
        false => Err(D::Error::custom("it is a time from 1s to 1440m")),
    }
}

fn megabytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, 1 << 24)
}

fn directory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    absolute(PathBuf::deserialize(deserializer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_that_cannot_be_met_are_refused() {
        for wrong in [
            "stage = \"rx.ap\"\nabove = \"1ms\"",
            "stage = \"rx.app\"",
            "stage = \"rx.app\"\nabove = \"1ms\"\nquantile = 1.0",
            "stage = \"rx.app\"\nabove = \"1ms\"\nfor = \"0s\"",
        ] {
            assert!(toml::from_str::<KeepWhen>(wrong).is_err(), "{wrong}");
        }
    }
}
