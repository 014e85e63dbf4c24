//! Read and write single settings, and refuse values out of bounds.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use sockstamp_bpf::Grouped;
use sockstamp_metrics::ledger::SERIES_PER_GROUP;
use sockstamp_model::UnknownName;
use sockstamp_model::filter::Filter;
use sockstamp_model::group::Dimension;
use sockstamp_run::max_cost::{MaxCost, max_cost};
use sockstamp_run::target::process_name;

use crate::rules::labels::Label;
use crate::values::duration;

pub(super) fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Label>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let mut labels = Vec::new();
    for name in names {
        match name.parse().map_err(unknown_label)? {
            refused @ Label::Dimension(Dimension::Pid | Dimension::Flow) => {
                return Err(D::Error::custom(format!(
                    "{refused} would make series without end: use comm, port or peer"
                )));
            }
            label if labels.contains(&label) => {
                return Err(D::Error::custom(format!("{label} is named twice")));
            }
            label => labels.push(label),
        }
    }
    Ok(labels)
}

fn unknown_label<E: serde::de::Error>(error: UnknownName) -> E {
    let names = Dimension::MEASURED.into_iter().map(Dimension::name);
    let possible = |name: &&str| !["pid", "flow"].contains(name);
    let names: Vec<_> = names.filter(possible).chain(Label::names()).collect();
    E::custom(format!("{error}: there is {}", names.join(", ")))
}

pub(super) fn within<'de, D: Deserializer<'de>>(
    deserializer: D,
    least: u32,
    most: u32,
) -> Result<u32, D::Error> {
    let value = u32::deserialize(deserializer)?;
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(D::Error::custom(format!(
            "it is a number from {least} to {most}"
        ))),
    }
}

pub(super) fn expiry<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let expire = duration(deserializer)?;
    match expire >= Duration::from_secs(1) {
        true => Ok(expire),
        // Series would end before a scrape.
        false => Err(D::Error::custom("it is a time of 1s or longer")),
    }
}

pub(super) fn cost<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MaxCost, D::Error> {
    max_cost(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

pub(super) fn memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, 65_536)
}

pub(super) fn groups<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, Grouped::LIMIT)
}

pub(super) fn series<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let series = usize::deserialize(deserializer)?;
    match series >= SERIES_PER_GROUP {
        true => Ok(series),
        false => Err(D::Error::custom(format!(
            "one group may need {SERIES_PER_GROUP} series"
        ))),
    }
}

pub(super) fn targets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, 10_000)
}

pub(super) fn sockets<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<PathBuf>, D::Error> {
    let paths = Vec::<PathBuf>::deserialize(deserializer)?;
    paths.into_iter().map(absolute).collect()
}

/// Refuse a path whose meaning depends on the directory that the agent is started in.
pub(super) fn absolute<E: serde::de::Error>(path: PathBuf) -> Result<PathBuf, E> {
    match path.is_absolute() {
        true => Ok(path),
        false => Err(E::custom(format!("{path:?} does not begin with /"))),
    }
}

/// Read a name or path.
pub(super) fn name<'de, D: Deserializer<'de>, T: From<String>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.is_empty() {
        true => Err(D::Error::custom(
            "it is empty: write a name, or remove the key",
        )),
        false => Ok(Some(text.into())),
    }
}

pub(super) fn comms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let checked = names.iter().map(|name| process_name(name));
    checked.collect::<Result<_, _>>().map_err(D::Error::custom)
}

pub(super) fn filter<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse::<Filter>() {
        Ok(_) => Ok(Some(text)),
        // Leave out the lines that draw the place: a log has one line per error.
        Err(error) => Err(D::Error::custom(format!(
            "filter, column {}: {}",
            error.column(),
            error.problem()
        ))),
    }
}
