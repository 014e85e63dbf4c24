//! All series at one moment, as formats take them.
//!
//! The series of a group are made one by one where they are written: there may be a hundred
//! thousand.

use std::sync::Arc;
use std::time::Duration;

use sockstamp_model::group::{GroupHistogram, GroupSummary};

use crate::catalogue::{HOOKS, Metric};
use crate::exemplar::{Exemplar, Exemplars, OfGroup};
use crate::grouped::GROUPED;
use crate::labels::Labels;
use crate::point::{Point, Value};

/// A group with the labels of its series.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// The labels.
    pub labels: Arc<Labels>,
    /// The counts.
    pub counts: Arc<GroupSummary>,
    /// The time from the beginning of all series to that of these.
    pub since: Duration,
    /// Messages that they count.
    pub(crate) exemplars: OfGroup,
}

/// The series of one metric that has no groups.
#[derive(Debug, Clone, PartialEq)]
struct Single {
    metric: &'static Metric,
    points: Vec<(Labels, Kept)>,
}

/// A value that outlives its reading.
#[derive(Debug, Clone, PartialEq)]
enum Kept {
    Plain(Value<'static>),
    Histogram(Arc<GroupHistogram>),
}

/// Everything that is passed at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition {
    groups: Vec<Labelled>,
    singles: Vec<Single>,
    /// The series by netstacklat's names are wanted.
    has_hooks: bool,
}

impl Exposition {
    /// Add the series of groups.
    pub(crate) fn add_groups(&mut self, groups: impl IntoIterator<Item = Labelled>) {
        self.groups.extend(groups);
    }

    /// Have the series by netstacklat's names. Groups must differ by protocol.
    #[must_use]
    pub fn with_hooks(self, has_hooks: bool) -> Self {
        Self { has_hooks, ..self }
    }

    /// Have examples beside the distributions of the groups that there are.
    pub fn add_exemplars(&mut self, exemplars: &Exemplars) {
        for group in &mut self.groups {
            group.exemplars = exemplars.of(&group.labels);
        }
    }

    /// Add a series; those of a metric are kept together.
    pub fn add(&mut self, metric: &'static Metric, labels: Labels, value: Value<'static>) {
        self.keep(metric, labels, Kept::Plain(value));
    }

    /// Add a distribution, which the exposition shares until it grows.
    pub fn add_histogram(
        &mut self,
        metric: &'static Metric,
        labels: Labels,
        times: Arc<GroupHistogram>,
    ) {
        self.keep(metric, labels, Kept::Histogram(times));
    }

    fn keep(&mut self, metric: &'static Metric, labels: Labels, value: Kept) {
        let known = self.singles.iter_mut();
        match known
            .rev()
            .find(|single| std::ptr::eq(single.metric, metric))
        {
            Some(single) => single.points.push((labels, value)),
            None => self.singles.push(Single {
                metric,
                points: vec![(labels, value)],
            }),
        }
    }

    /// Return each metric, also those that have no series now.
    pub fn metrics(&self) -> impl Iterator<Item = &'static Metric> {
        let grouped = GROUPED.iter().map(|(metric, _)| *metric);
        grouped.chain(self.singles.iter().map(|single| single.metric))
    }

    /// Pass the series of the metric at this place of [`metrics`](Self::metrics) that belong to a
    /// group, by its number; return false after the last group. A metric without groups has one.
    pub fn points(&self, metric: usize, group: usize, each: &mut dyn FnMut(&Point<'_>)) -> bool {
        match GROUPED.get(metric) {
            Some(&(metric, points)) => {
                let is_wanted = self.has_hooks || !std::ptr::eq(metric, &HOOKS);
                let Some(group) = self.groups.get(group).filter(|_| is_wanted) else {
                    return false;
                };
                points(&group.counts, &mut |values, value| {
                    each(&Point {
                        group: &group.labels,
                        names: metric.labels,
                        values,
                        since: group.since,
                        value,
                        exemplar: Exemplar::of(&group.exemplars, metric, values),
                    });
                });
            }
            None => {
                let single = self.singles.get(metric - GROUPED.len());
                let Some(single) = single.filter(|_| group == 0) else {
                    return false;
                };
                for (labels, value) in &single.points {
                    each(&Point {
                        group: labels,
                        names: &[],
                        values: &[],
                        since: Duration::ZERO,
                        value: match value {
                            Kept::Plain(value) => *value,
                            Kept::Histogram(times) => Value::Histogram(times),
                        },
                        exemplar: None,
                    });
                }
            }
        }
        true
    }
}
