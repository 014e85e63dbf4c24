//! A time that may be left out: for `#[serde(with)]`.

use std::time::Duration;

use serde::Serializer;
use serde::de::Deserializer;

use super::{duration, seconds};

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

#[allow(clippy::ref_option, reason = "serde's signature")]
pub(crate) fn serialize<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => seconds(duration, serializer),
        None => serializer.serialize_none(),
    }
}
