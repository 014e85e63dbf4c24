//! Read values of the configuration.

pub(crate) mod listen;
pub(crate) mod some_duration;
pub(crate) mod some_rate;

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serializer};
use sockstamp_run::sample::Sample;

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

/// A sample is text; a bare number is told what it lacks.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it is text in quotes, such as \"100/s\"")]
enum SampleValue {
    Text(String),
    Number(i64),
}

/// Read how much is measured, as `--sample` does.
pub(crate) fn sample<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sample, D::Error> {
    let text = match SampleValue::deserialize(deserializer)? {
        SampleValue::Text(text) => text,
        SampleValue::Number(number) => number.to_string(),
    };
    sockstamp_run::sample::sample(&text).map_err(D::Error::custom)
}

/// Write a setting as users write it.
pub(crate) fn as_text<T: Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Write a time in seconds.
pub(crate) fn seconds<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{}s", duration.as_secs_f64()))
}
