//! The sample of a rule, if it has one: the kernel has a rate for each group, and nothing else.

use std::num::NonZeroU32;

use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use sockstamp_run::sample::Sample;

use super::{as_text, sample};

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NonZeroU32>, D::Error> {
    match sample(deserializer)? {
        Sample::PerSecond(rate) => Ok(NonZeroU32::new(rate)),
        _ => Err(D::Error::custom(
            "the sample of a rule is N/s, such as \"100/s\"",
        )),
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::ref_option,
    reason = "the signature that serde wants"
)]
pub(crate) fn serialize<S: Serializer>(
    rate: &Option<NonZeroU32>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let sample = rate.map(|rate| Sample::PerSecond(rate.get()));
    as_text(&sample.unwrap_or_default(), serializer)
}
