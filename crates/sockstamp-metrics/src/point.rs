//! One series at one moment: its labels and its value.

use std::time::Duration;

use sockstamp_model::group::GroupHistogram;

use crate::exemplar::Exemplar;
use crate::labels::Labels;

/// The value of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A whole number: a count, or a size.
    Count(u64),
    /// A number of seconds, or a share.
    Real(f64),
    /// A distribution of times.
    Histogram(&'a GroupHistogram),
}

/// One series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point<'a> {
    /// The labels of its group, or all of them.
    pub group: &'a Labels,
    /// The names of further labels, and their values.
    pub names: &'static [&'static str],
    /// One value per name.
    pub values: &'a [&'static str],
    /// The time from the beginning of all series to that of this one.
    pub since: Duration,
    /// The value.
    pub value: Value<'a>,
    /// A message that a distribution counts.
    pub exemplar: Option<Exemplar>,
}

impl<'a> Point<'a> {
    /// Return all labels.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let group = self
            .group
            .iter()
            .map(|(name, value)| (name.as_ref(), value.as_str()));
        let own = self.names.iter().zip(self.values);
        group.chain(own.map(|(&name, &value)| (name, value)))
    }
}
