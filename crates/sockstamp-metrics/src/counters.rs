//! Counters that only grow, from counts that restart with every measurement.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::catalogue::Metric;
use crate::exposition::Exposition;
use crate::labels::Labels;
use crate::point::Value;

/// A count at one reading.
#[derive(Debug, Clone, PartialEq)]
pub struct Count {
    /// The metric.
    pub metric: &'static Metric,
    /// Its labels.
    pub labels: Labels,
    /// Nanoseconds, if the metric is in seconds.
    pub value: u64,
}

impl Count {
    /// A count with at most one label.
    #[must_use]
    pub fn new(metric: &'static Metric, label: Option<&str>, value: u64) -> Self {
        let name = metric.labels.first();
        let labels = name
            .zip(label)
            .map(|(&name, value)| (Cow::Borrowed(name), value.to_owned()));
        Self {
            metric,
            labels: labels.into_iter().collect(),
            value,
        }
    }
}

#[derive(Debug, Default)]
struct Grown {
    last: u64,
    total: u64,
}

/// Counters that only grow.
#[derive(Debug, Default)]
pub struct Counters {
    /// By the metric's place in the exposition, then by its labels.
    counters: Vec<(&'static Metric, BTreeMap<Labels, Grown>)>,
}

impl Counters {
    /// Read the counts of a new measurement, without adding them.
    pub fn begin(&mut self, counts: Vec<Count>) {
        for (_, series) in &mut self.counters {
            series.values_mut().for_each(|grown| grown.last = 0);
        }
        for count in counts {
            self.series(count.metric, count.labels).last = count.value;
        }
    }

    /// Add the counts since the last reading.
    pub fn add(&mut self, counts: Vec<Count>) {
        for count in counts {
            let grown = self.series(count.metric, count.labels);
            grown.total = grown
                .total
                .saturating_add(count.value.saturating_sub(grown.last));
            grown.last = grown.last.max(count.value);
        }
    }

    fn series(&mut self, metric: &'static Metric, labels: Labels) -> &mut Grown {
        let place = self.counters.iter().position(|(known, _)| *known == metric);
        let place = place.unwrap_or_else(|| {
            self.counters.push((metric, BTreeMap::new()));
            self.counters.len() - 1
        });
        self.counters[place].1.entry(labels).or_default()
    }

    /// Add the series to an exposition.
    pub fn expose(&self, exposition: &mut Exposition) {
        for (metric, series) in &self.counters {
            for (labels, grown) in series {
                let value = match metric.unit {
                    Some("seconds") => Value::Real(crate::text::seconds(grown.total.into())),
                    _ => Value::Count(grown.total),
                };
                exposition.add(metric, labels.clone(), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{CPU, LOST};

    fn lost(value: u64) -> Vec<Count> {
        vec![
            Count::new(&LOST, Some("ring"), value),
            Count::new(&CPU, None, value),
        ]
    }

    fn values(counters: &Counters) -> Vec<Value<'static>> {
        let mut exposition = Exposition::default();
        counters.expose(&mut exposition);
        let mut values = Vec::new();
        for metric in 0..exposition.metrics().count() {
            exposition.points(metric, 0, &mut |point| {
                values.push(match point.value {
                    Value::Histogram(_) => unreachable!("counters have none"),
                    Value::Count(count) => Value::Count(count),
                    Value::Real(real) => Value::Real(real),
                });
            });
        }
        values
    }

    #[test]
    fn a_new_measurement_goes_on_where_the_last_one_ended() {
        let mut counters = Counters::default();
        counters.add(lost(5));
        counters.add(lost(7));
        counters.begin(lost(2));
        counters.add(lost(3));
        assert_eq!(values(&counters), [Value::Count(8), Value::Real(8e-9)]);
    }

    #[test]
    fn a_count_that_was_read_too_low_takes_nothing_away() {
        let mut counters = Counters::default();
        for value in [5, 4, 6] {
            counters.add(lost(value));
        }
        assert_eq!(values(&counters)[0], Value::Count(6));
    }
}
