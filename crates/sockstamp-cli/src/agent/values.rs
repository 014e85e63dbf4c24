//! Read values of the configuration.

use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};

/// Read a value of a type that is parsed from text.
pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

/// Refuse a key that users may expect, with the reason.
pub(super) fn refused<'de, D: Deserializer<'de>>(why: &str) -> Result<Option<Infallible>, D::Error> {
    Err(D::Error::custom(why))
}
