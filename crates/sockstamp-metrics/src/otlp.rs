//! OpenTelemetry's protocol (OTLP 1.5): series as `ExportMetricsServiceRequest`s.
//!
//! Names are those of the Prometheus formats without `_total`, so that series have one name in a
//! Prometheus whichever way they came. All sums are cumulative. Distributions are exponential
//! histograms of scale 2, whose buckets are those of the kernel: bucket *i* holds times above
//! 2^(i/4) s, up to 2^((i+1)/4) s. Times above 64 s, which the kernel has in one bucket, are in the
//! first bucket above 64 s.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sockstamp_model::group::GroupHistogram;
use sockstamp_model::histogram::ZERO_THRESHOLD_SECONDS;

use crate::catalogue::{Kind, Metric};
use crate::exposition::Exposition;
use crate::ledger::OVERFLOW;
use crate::point::{Point, Value};
use crate::text::seconds;
use crate::wire::Fields;

/// A request ends with the group that takes it to this length: receivers of gRPC take 4 MB.
const LENGTH: usize = 1 << 20;
/// 2^2 buckets per power of two.
const SCALE: i64 = 2;
/// Index of the bucket of slot 1: it begins at 2^-24 s.
const FIRST_INDEX: i64 = -96;
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// The sender of series, and its times.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// Attributes of the resource: semantic conventions, "Resource".
    pub resource: Vec<(&'static str, String)>,
    /// The moment when everything was zero.
    pub began: SystemTime,
    /// The moment of the figures.
    pub now: SystemTime,
}

/// A request, encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its bytes.
    pub body: Vec<u8>,
    /// Series in it, or spans.
    pub items: u64,
}

/// All series, request by request: all at once may be tens of megabytes.
#[derive(Debug)]
pub struct Requests {
    exposition: Arc<Exposition>,
    origin: Origin,
    metrics: Vec<&'static Metric>,
    /// The places of the next metric and its next group.
    metric: usize,
    group: usize,
}

impl Requests {
    /// Encode all series.
    #[must_use]
    pub fn new(exposition: Arc<Exposition>, origin: Origin) -> Self {
        Self {
            metrics: exposition.metrics().collect(),
            exposition,
            origin,
            metric: 0,
            group: 0,
        }
    }

    /// Return the series of the metric that find room, and their number.
    fn points(&mut self, kind: Kind, room: usize) -> (Fields, u64) {
        let (mut points, mut count) = (Fields::new(), 0);
        while points.bytes().len() < room {
            let origin = &self.origin;
            let more = self
                .exposition
                .points(self.metric, self.group, &mut |point| {
                    let data = data_point(kind, point, origin);
                    points = std::mem::take(&mut points).message(1, &data);
                    count += 1;
                });
            self.group += 1;
            if !more {
                (self.metric, self.group) = (self.metric + 1, 0);
                break;
            }
        }
        (points, count)
    }
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let (mut metrics, mut items) = (scope(), 0);
        while let Some(&metric) = self.metrics.get(self.metric)
            && metrics.bytes().len() < LENGTH
        {
            let (points, count) = self.points(metric.kind, LENGTH - metrics.bytes().len());
            if count > 0 {
                metrics = metrics.message(2, &described(metric, points));
                items += count;
            }
        }
        (items > 0).then(|| request(&self.origin.resource, &metrics, items))
    }
}

/// Wrap what one scope has into a request, of metrics as of spans: their fields have one shape.
#[must_use]
pub fn request(resource: &[(&'static str, String)], scoped: &Fields, items: u64) -> Request {
    let attributes = resource
        .iter()
        .fold(Fields::new(), |message, (name, value)| {
            message.message(1, &text(name, value))
        });
    let of_resource = Fields::new().message(1, &attributes).message(2, scoped);
    Request {
        body: Fields::new().message(1, &of_resource).into_bytes(),
        items,
    }
}

/// Begin `ScopeMetrics` or `ScopeSpans`.
#[must_use]
pub fn scope() -> Fields {
    let scope = Fields::new()
        .text(1, "sockstamp")
        .text(2, env!("CARGO_PKG_VERSION"));
    Fields::new().message(1, &scope)
}

/// Return a `KeyValue` with text.
#[must_use]
pub fn text(name: &str, value: &str) -> Fields {
    key_value(name, &Fields::new().text(1, value))
}

/// Return a `KeyValue` with a number.
#[must_use]
pub fn number(name: &str, value: u64) -> Fields {
    key_value(name, &Fields::new().number(3, value))
}

fn key_value(name: &str, value: &Fields) -> Fields {
    Fields::new().text(1, name).message(2, value)
}

/// Return a moment in nanoseconds since 1970.
#[must_use]
pub fn unix_nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// `Metric`.
fn described(metric: &Metric, points: Fields) -> Fields {
    let head = Fields::new().text(1, metric.name).text(2, metric.help);
    let head = match metric.unit {
        Some("seconds") => head.text(3, "s"),
        Some("bytes") => head.text(3, "By"),
        // A Prometheus appends `_ratio` to the name of a gauge whose unit is 1.
        _ => head,
    };
    match metric.kind {
        Kind::Gauge => head.message(5, &points),
        Kind::Counter => head.message(7, &points.number(2, CUMULATIVE).number(3, 1)),
        Kind::Histogram => head.message(10, &points.number(2, CUMULATIVE)),
    }
}

fn data_point(kind: Kind, point: &Point<'_>, origin: &Origin) -> Fields {
    let times = |fields: Fields| {
        let began = match kind {
            Kind::Gauge => fields,
            Kind::Counter | Kind::Histogram => {
                fields.fixed(2, unix_nanos(origin.began + point.since))
            }
        };
        began.fixed(3, unix_nanos(origin.now))
    };
    match point.value {
        Value::Histogram(histogram) => {
            let data = of_histogram(times(attributes(1, point)), histogram);
            match point.exemplar {
                Some(exemplar) => data.message(11, &exemplar.otlp()),
                None => data,
            }
        }
        Value::Count(count) => times(attributes(7, point)).fixed(6, count),
        Value::Real(value) => times(attributes(7, point)).real(4, value),
    }
}

fn attributes(field: u32, point: &Point<'_>) -> Fields {
    point
        .labels()
        .fold(Fields::new(), |message, (name, value)| {
            let attribute = match name {
                // "Metrics SDK", section "Overflow attribute".
                OVERFLOW => key_value("otel.metric.overflow", &Fields::new().number(2, 1)),
                _ => text(name, value),
            };
            message.message(field, &attribute)
        })
}

/// The rest of an `ExponentialHistogramDataPoint`.
fn of_histogram(point: Fields, histogram: &GroupHistogram) -> Fields {
    let slots: Vec<_> = histogram.slots().collect();
    let zero = slots.iter().find(|(slot, _)| *slot == 0);
    let head = point
        .fixed(4, histogram.count())
        .real(5, seconds(histogram.sum_ns()))
        .signed(6, SCALE)
        .fixed(7, zero.map_or(0, |(_, count)| *count))
        .real(14, ZERO_THRESHOLD_SECONDS);
    let above: Vec<_> = slots.into_iter().filter(|(slot, _)| *slot > 0).collect();
    let Some(&(first, _)) = above.first() else {
        return head;
    };
    let offset = FIRST_INDEX + i64::try_from(first).unwrap_or(0) - 1;
    let counts = above.into_iter().map(|(_, count)| count);
    head.message(8, &Fields::new().signed(1, offset).packed(2, counts))
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;

    use super::*;
    use crate::catalogue::{ALL, CPU, IN_FLIGHT, LOST};

    fn origin() -> Origin {
        Origin {
            resource: vec![("service.name", "sockstamp".to_owned())],
            began: UNIX_EPOCH + Duration::from_secs(1),
            now: UNIX_EPOCH + Duration::from_secs(2),
        }
    }

    /// Field 3, of length 1. A Prometheus appends words for units that a name does not end with,
    /// and `_ratio` for the unit 1 of a gauge.
    #[test]
    fn no_unit_changes_a_name() {
        for metric in ALL {
            let bytes = described(metric, Fields::new()).into_bytes();
            let has = |unit: &[u8]| bytes.windows(unit.len()).any(|part| part == unit);
            assert!(!has(b"\x1a\x011"), "{}", metric.name);
            assert_eq!(
                has(b"\x1a\x01s"),
                metric.unit == Some("seconds"),
                "{}",
                metric.name
            );
            assert_eq!(
                has(b"\x1a\x02By"),
                metric.unit == Some("bytes"),
                "{}",
                metric.name
            );
        }
    }

    /// Bucket -1 ends at 1 s, inclusive; bucket 23 at 64 s.
    #[test]
    fn buckets_begin_after_the_zero_bucket() {
        let of = |latencies: &[u64]| {
            let mut histogram = GroupHistogram::default();
            for &latency in latencies {
                histogram.record(Nanos(latency), 3);
            }
            of_histogram(Fields::new(), &histogram).into_bytes()
        };
        let ends = |bytes: &[u8], offset: i64, counts: &[u64]| {
            let buckets = Fields::new()
                .signed(1, offset)
                .packed(2, counts.iter().copied());
            let end = Fields::new().message(8, &buckets);
            assert!(bytes.ends_with(end.bytes()), "{bytes:?}");
        };
        let second = 1_000_000_000;
        ends(&of(&[second]), -1, &[3]);
        ends(&of(&[second + 1]), 0, &[3]);
        ends(&of(&[59, 60, second / 2]), -96, &{
            let mut counts = [0; 92];
            (counts[0], counts[91]) = (3, 3);
            counts
        });
        ends(&of(&[65 * second]), 24, &[3]);
        let only_zero = of(&[59]);
        assert!(only_zero.ends_with(&ZERO_THRESHOLD_SECONDS.to_le_bytes()));
    }

    #[test]
    fn requests_are_bounded_and_have_every_series_once() {
        let mut exposition = Exposition::default();
        for number in 0..60_000 {
            let labels = vec![("reason".into(), format!("{number:030}"))];
            exposition.add(&LOST, labels, Value::Count(number));
        }
        exposition.add(&IN_FLIGHT, Vec::new(), Value::Count(7));
        exposition.add(&CPU, Vec::new(), Value::Real(0.5));
        let requests: Vec<_> = Requests::new(Arc::new(exposition), origin()).collect();
        let items: u64 = requests.iter().map(|request| request.items).sum();
        assert_eq!(items, 60_002);
        assert!(Requests::new(Arc::default(), origin()).next().is_none());
    }
}
