//! Metrics with their values, as formats take them.

use std::borrow::Cow;

use sockstamp_model::group::GroupHistogram;

use crate::catalogue::Metric;

/// Names and values, in the order in which they are printed.
pub type Labels = Vec<(Cow<'static, str>, String)>;

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
#[derive(Debug, Clone, PartialEq)]
pub struct Point<'a> {
    /// The labels.
    pub labels: Labels,
    /// The value.
    pub value: Value<'a>,
}

/// The series of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Family<'a> {
    /// The metric.
    pub metric: &'static Metric,
    /// Its series.
    pub points: Vec<Point<'a>>,
}

/// All that is handed over at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition<'a> {
    /// Metrics that have a series.
    pub families: Vec<Family<'a>>,
}

impl<'a> Exposition<'a> {
    /// Add a series; those of a metric are kept together.
    pub fn add(&mut self, metric: &'static Metric, labels: Labels, value: Value<'a>) {
        let point = Point { labels, value };
        match self.families.iter_mut().rfind(|family| family.metric == metric) {
            Some(family) => family.points.push(point),
            None => self.families.push(Family {
                metric,
                points: vec![point],
            }),
        }
    }
}
