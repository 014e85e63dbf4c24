//! Read values of the configuration.

pub(crate) mod listen;
pub(crate) mod some_duration;

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::Serializer;
use serde::de::{Deserialize, Deserializer, Error};

/// Read a value of a type that is parsed from text.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

/// Read a time.
pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    sockstamp_run::duration::duration(&text).map_err(D::Error::custom)
}

/// Read a time of at least a second and at most an hour.
pub(crate) fn up_to_an_hour<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    let time = duration(deserializer)?;
    match (1..=3600).contains(&time.as_secs()) {
        true => Ok(time),
        false => Err(D::Error::custom("it is a time from 1s to 60m")),
    }
}

/// Write a time in seconds.
pub(crate) fn seconds<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{}s", duration.as_secs_f64()))
}
