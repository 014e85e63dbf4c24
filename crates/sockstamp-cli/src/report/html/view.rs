//! Sum the messages of one kind and group.

use sockstamp_explain::{Component, Kind, Sample};
use sockstamp_model::clock::Nanos;
use sockstamp_model::histogram::{BUCKETS, Histogram, slot};
use sockstamp_model::message::Message;

/// Messages of a kind.
#[derive(Debug)]
pub(super) struct View {
    pub(super) kind: Kind,
    pub(super) components: Vec<Component>,
    pub(super) times: Histogram,
    /// For each bucket of `times`, the sum of each component in nanoseconds.
    sums: Vec<f64>,
    pub(super) heat: Heat,
}

impl View {
    pub(super) fn new(kind: Kind, columns: usize) -> Self {
        let components = kind.components();
        Self {
            kind,
            times: Histogram::new(),
            sums: vec![0.0; BUCKETS * components.len()],
            components,
            heat: Heat::new(columns),
        }
    }

    /// Add a message that takes this time; `position` is its place between the first message and
    /// the last, of 1.
    pub(super) fn add(&mut self, message: &Message, time: Nanos, position: f64) {
        self.times.record(time, message.weight.into());
        let slot = slot(time.0);
        let width = self.components.len();
        let sums = &mut self.sums[slot * width..(slot + 1) * width];
        for (sum, component) in sums.iter_mut().zip(&self.components) {
            *sum += component.of(message).0 as f64 * f64::from(message.weight);
        }
        self.heat.add(slot, position, message.weight.into());
    }

    /// Return the mean of each component over the messages of a bucket.
    pub(super) fn means(&self, slot: usize) -> Vec<f64> {
        let count = self.times.buckets()[slot].count.max(1) as f64;
        let width = self.components.len();
        let sums = &self.sums[slot * width..(slot + 1) * width];
        sums.iter().map(|sum| sum / count).collect()
    }

    /// Return the first and the last bucket that has messages.
    pub(super) fn slots(&self) -> Option<(usize, usize)> {
        let buckets = self.times.buckets();
        let first = buckets.iter().position(|bucket| bucket.count > 0)?;
        let last = buckets.iter().rposition(|bucket| bucket.count > 0)?;
        Some((first, last))
    }
}

/// Counts by time and duration.
#[derive(Debug)]
pub(super) struct Heat {
    pub(super) columns: usize,
    counts: Vec<u64>,
}

impl Heat {
    fn new(columns: usize) -> Self {
        Self {
            columns,
            counts: vec![0; columns * BUCKETS],
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the product is not negative, and casts from floats saturate"
    )]
    fn add(&mut self, slot: usize, position: f64, weight: u64) {
        let column = (position * self.columns as f64) as usize;
        let column = column.min(self.columns - 1);
        self.counts[column * BUCKETS + slot] += weight;
    }

    /// Return the counts of a column, by bucket.
    pub(super) fn column(&self, column: usize) -> &[u64] {
        &self.counts[column * BUCKETS..(column + 1) * BUCKETS]
    }
}

/// Messages that are shown one by one.
#[derive(Debug)]
pub(super) struct Lives {
    kind: Kind,
    most: usize,
    /// The slowest, the fastest of them first.
    worst: Vec<(Nanos, Message)>,
    sample: Sample<Message>,
}

/// A message that is shown, and why.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) message: Message,
    pub(super) time: Nanos,
    pub(super) why: &'static str,
}

impl Lives {
    /// Keep this many: half of them the slowest ones, the others typical ones.
    pub(super) fn new(kind: Kind, most: usize) -> Self {
        Self {
            kind,
            most,
            worst: Vec::new(),
            sample: Sample::default(),
        }
    }

    pub(super) fn add(&mut self, message: &Message, time: Nanos) {
        self.sample.add(|| message.clone());
        let slowest = self.most.div_ceil(2);
        if self.worst.len() == slowest {
            if self.worst.first().is_none_or(|(least, _)| time <= *least) {
                return;
            }
            self.worst.remove(0);
        }
        let place = self.worst.partition_point(|(other, _)| *other < time);
        self.worst.insert(place, (time, message.clone()));
    }

    /// Return the slowest messages, the slowest first, then those at and around the percentiles 99,
    /// 90 and 50 of a sample.
    pub(super) fn finish(self) -> Vec<Life> {
        let typical = self.most - self.most.div_ceil(2);
        let mut sample: Vec<(Nanos, Message)> = (self.sample.into_kept().into_iter())
            .filter_map(|message| Some((self.kind.time(&message)?, message)))
            .filter(|(time, _)| self.worst.first().is_none_or(|(least, _)| time < least))
            .collect();
        sample.sort_by_key(|(time, _)| *time);
        let worst = self.worst.into_iter().rev();
        let mut lives: Vec<Life> = worst
            .map(|(time, message)| Life {
                message,
                time,
                why: "slowest",
            })
            .collect();
        let quantiles = [("near p99", 990), ("near p90", 900), ("near p50", 500)];
        for (place, (why, thousandths)) in quantiles.into_iter().enumerate() {
            let wanted = (typical + place) / quantiles.len();
            let middle = sample.len() * thousandths / 1000;
            let begin = middle
                .saturating_sub(wanted / 2)
                .min(sample.len().saturating_sub(wanted));
            let end = (begin + wanted).min(sample.len());
            // Values of a lower percentile come before.
            let taken = sample.drain(begin..end).rev();
            lives.extend(taken.map(|(time, message)| Life { message, time, why }));
        }
        lives
    }
}
