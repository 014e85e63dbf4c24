//! Prometheus' protobuf format, with native histograms.
//!
//! Messages are those of `io.prometheus.client` (client_model, `metrics.proto`, v0.6), written by
//! hand: ten messages are less than a generator of code.
//!
//! The kernel's buckets are those of a native histogram of schema 2: they are handed over as they
//! are. The zero bucket ends at 2^-24 s. Times above 64 s, which the kernel has in one bucket, are
//! in the first bucket above 64 s: there a quantile is too small.

use sockstamp_model::group::{GroupHistogram, SLOTS};
use sockstamp_model::histogram::ZERO_THRESHOLD_SECONDS;

use crate::buckets;
use crate::catalogue::{Kind, Metric};
use crate::exemplar::Exemplar;
use crate::point::{Point, Value};
use crate::text::seconds;
use crate::wire::{Fields, varint, zigzag};

/// 2^2 buckets per power of two.
const SCHEMA: i64 = 2;
/// Index of the bucket of slot 1, which ends at 2^(-24 + 1/4) s.
const FIRST_INDEX: i32 = -95;

/// Write a `MetricFamily` up to its series, with the length of all in front.
pub(crate) fn head(bytes: &mut Vec<u8>, metric: &Metric, length: usize) {
    let kind = match metric.kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Histogram => 4,
    };
    let message = Fields::new()
        .text(1, &metric.series())
        .text(2, metric.help)
        .number(3, kind);
    varint(bytes, (message.bytes().len() + length) as u64);
    bytes.extend(message.bytes());
}

/// Write a series: a `Metric` of the `MetricFamily`.
pub(crate) fn point(bytes: &mut Vec<u8>, kind: Kind, point: &Point<'_>) {
    Fields::append(bytes, |family| {
        family.nested(4, |message| add_point(message, point, kind))
    });
}

fn add_point(message: Fields, point: &Point<'_>, kind: Kind) -> Fields {
    let message = point.labels().fold(message, |message, (name, value)| {
        message.nested(1, |label| label.text(1, name).text(2, value))
    });
    let value = match point.value {
        Value::Histogram(histogram) => {
            return message.nested(7, |message| {
                add_histogram(message, histogram, point.exemplar)
            });
        }
        Value::Count(count) => count as f64,
        Value::Real(value) => value,
    };
    // `gauge` is 2, `counter` is 3.
    let field = if kind == Kind::Gauge { 2 } else { 3 };
    message.nested(field, |message| message.real(1, value))
}

/// `Histogram`: the classic buckets and the native ones. The exemplar belongs to both.
fn add_histogram(
    message: Fields,
    histogram: &GroupHistogram,
    exemplar: Option<Exemplar>,
) -> Fields {
    let mut of_bucket = exemplar;
    let head = message
        .number(1, histogram.count())
        .real(2, seconds(histogram.sum_ns()));
    let classic = buckets::cumulative(histogram).fold(head, |message, bucket| {
        message.nested(3, |message| {
            let message = message.number(1, bucket.count).real(2, bucket.bound);
            let exemplar = of_bucket.take_if(|exemplar| exemplar.seconds() <= bucket.bound);
            add_exemplar(message, 3, exemplar)
        })
    });
    let zero = histogram.slots().find(|&(slot, _)| slot == 0);
    let native = classic
        .signed(5, SCHEMA)
        .real(6, ZERO_THRESHOLD_SECONDS)
        .number(7, zero.map_or(0, |(_, count)| count));
    let (spans, deltas) = positive(histogram);
    let spanned = spans.iter().fold(native, |message, &(offset, length)| {
        message.nested(12, |message| {
            message.signed(1, offset.into()).number(2, length)
        })
    });
    let counted = spanned.packed(13, deltas.into_iter().map(zigzag));
    add_exemplar(counted, 16, exemplar)
}

/// `Exemplar`.
fn add_exemplar(message: Fields, field: u32, exemplar: Option<Exemplar>) -> Fields {
    let Some(exemplar) = exemplar else {
        return message;
    };
    message.nested(field, |message| {
        let labels = exemplar.labels();
        let labelled = labels.iter().fold(message, |message, (name, id)| {
            message.nested(1, |label| label.text(1, name).text(2, id))
        });
        let (seconds, nanoseconds) = exemplar.end();
        labelled
            .real(2, exemplar.seconds())
            .nested(3, |time| time.number(1, seconds).number(2, nanoseconds))
    })
}

/// Return runs of buckets, each with its distance from the last, and the difference of each
/// bucket's count from the one before.
fn positive(histogram: &GroupHistogram) -> (Vec<(i32, u64)>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<(i32, u64)>::new(), Vec::new());
    let (mut next, mut last) = (0, 0_i64);
    for (slot, count) in histogram
        .slots()
        .filter(|&(slot, count)| slot > 0 && count > 0)
    {
        let index = FIRST_INDEX + i32::try_from(slot).unwrap_or(0) - 1;
        match spans.last_mut() {
            Some((_, length)) if index == next => *length += 1,
            _ => spans.push((index - next, 1)),
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        deltas.push(count.saturating_sub(last));
        (next, last) = (index + 1, count);
    }
    // A native histogram without a span would be a classic one.
    if spans.is_empty() {
        spans.push((0, 0));
    }
    (spans, deltas)
}

const _: () = assert!(SLOTS == 122, "the last slot is the first bucket above 64 s");

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sockstamp_model::clock::Nanos;

    use super::*;
    use crate::catalogue::{IN_FLIGHT, VERDICTS};
    use crate::exposition::Exposition;
    use crate::format::Format;

    fn of(latencies: &[(u64, u64)]) -> GroupHistogram {
        let mut histogram = GroupHistogram::default();
        for &(latency, weight) in latencies {
            histogram.record(Nanos(latency), weight);
        }
        histogram
    }

    fn rendered(exposition: Exposition) -> Vec<u8> {
        Format::Protobuf
            .pieces(Arc::new(exposition))
            .flatten()
            .collect()
    }

    /// As `protoc --decode` reads them.
    #[test]
    fn numbers_have_the_bytes_of_the_format() {
        let mut exposition = Exposition::default();
        let labels = vec![("verdict".into(), "hol".to_owned())];
        exposition.add(&VERDICTS, labels, Value::Count(3));
        let bytes = rendered(exposition);
        let (length, family) = bytes.split_at(2);
        let [low, high] = [length[0] & 0x7f, length[1]].map(usize::from);
        assert_eq!(low | high << 7, family.len());
        let name = b"\x0a\x18sockstamp_verdicts_total";
        assert!(family.starts_with(name), "{family:?}");
        let kind_and_point = b"\x18\x00\x22\x1b\x0a\x0e\x0a\x07verdict\x12\x03hol\x1a\x09\x09";
        let mut end = kind_and_point.to_vec();
        end.extend(3_f64.to_le_bytes());
        assert!(family.ends_with(&end), "{family:?}");

        let mut exposition = Exposition::default();
        exposition.add(&IN_FLIGHT, Vec::new(), Value::Count(0));
        let gauge = b"\x18\x01\x22\x0b\x12\x09\x09\0\0\0\0\0\0\0\0";
        assert!(rendered(exposition).ends_with(gauge));
    }

    /// Bucket 0 ends at 1 s, inclusive; bucket 24 at 64 s.
    #[test]
    fn spans_and_differences_describe_the_buckets() {
        let second = 1_000_000_000;
        assert_eq!(positive(&of(&[(second, 5)])), (vec![(0, 1)], vec![5]));
        assert_eq!(positive(&of(&[(second + 1, 5)])), (vec![(1, 1)], vec![5]));
        let latencies = [
            (second / 2, 7),
            (second, 5),
            (second + 1, 9),
            (64 * second, 2),
            (65 * second, 1),
        ];
        let spans = vec![(-4, 1), (3, 2), (22, 2)];
        assert_eq!(positive(&of(&latencies)), (spans, vec![7, -2, 4, -7, -1]));
        assert_eq!(positive(&of(&[(60, 1)])).0, [(FIRST_INDEX, 1)]);
        assert_eq!(positive(&of(&[(59, 1)])), (vec![(0, 0)], Vec::new()));
    }
}
