//! The two text formats of Prometheus.

use std::fmt::{self, Display, Write as _};
use std::io::Write as _;
use std::sync::LazyLock;

use sockstamp_model::group::GroupHistogram;

use crate::buckets::{self, BUCKETS};
use crate::catalogue::{Kind, Metric};
use crate::exemplar::Exemplar;
use crate::format::Format;
use crate::point::{Point, Value};

/// Write the header of a metric's series.
pub(crate) fn head(bytes: &mut Vec<u8>, metric: &Metric, format: Format) {
    // The older format names a counter by its series.
    let name = match format {
        Format::OpenMetrics => metric.name.to_owned(),
        _ => metric.series(),
    };
    // Writing to a Vec cannot fail, here and below.
    let _ = writeln!(bytes, "# HELP {name} {}", metric.help);
    let _ = writeln!(bytes, "# TYPE {name} {}", metric.kind.name());
    if let (Format::OpenMetrics, Some(unit)) = (format, metric.unit) {
        let _ = writeln!(bytes, "# UNIT {name} {unit}");
    }
}

/// Write one series.
pub(crate) fn point(bytes: &mut Vec<u8>, metric: &Metric, point: &Point<'_>, format: Format) {
    let labels = label_text(point);
    let (name, end) = (
        metric.name,
        if metric.kind == Kind::Counter {
            "_total"
        } else {
            ""
        },
    );
    match point.value {
        Value::Count(count) => sample(bytes, name, end, &labels, count),
        Value::Real(value) => sample(bytes, name, end, &labels, Real(value)),
        Value::Histogram(histogram) => {
            let exemplar = point.exemplar.filter(|_| format == Format::OpenMetrics);
            distribution(bytes, name, &labels, histogram, exemplar);
        }
    }
}

fn sample(bytes: &mut Vec<u8>, name: &str, end: &str, labels: &str, value: impl Display) {
    let _ = match labels {
        "" => writeln!(bytes, "{name}{end} {value}"),
        _ => writeln!(bytes, "{name}{end}{{{labels}}} {value}"),
    };
}

/// The bounds as text, which each distribution has.
static BOUNDS: LazyLock<[String; BUCKETS]> =
    LazyLock::new(|| std::array::from_fn(|bucket| Real(buckets::bound(bucket)).to_string()));

fn distribution(
    bytes: &mut Vec<u8>,
    name: &str,
    labels: &str,
    histogram: &GroupHistogram,
    mut exemplar: Option<Exemplar>,
) {
    let comma = if labels.is_empty() { "" } else { "," };
    let before = format!("{name}_bucket{{{labels}{comma}le=\"");
    let mut count = 0;
    for (bucket, bound) in buckets::cumulative(histogram).zip(&*BOUNDS) {
        bytes.extend(before.as_bytes());
        bytes.extend(bound.as_bytes());
        let _ = write!(bytes, "\"}} {}", bucket.count);
        if let Some(exemplar) = exemplar.take_if(|exemplar| exemplar.seconds() <= bucket.bound) {
            add_exemplar(bytes, &exemplar);
        }
        bytes.push(b'\n');
        count = bucket.count;
    }
    sample(
        bytes,
        name,
        "_sum",
        labels,
        Real(seconds(histogram.sum_ns())),
    );
    sample(bytes, name, "_count", labels, count);
}

/// OpenMetrics 1.0, section "Exemplars".
fn add_exemplar(bytes: &mut Vec<u8>, exemplar: &Exemplar) {
    let labels = exemplar
        .labels()
        .map(|(name, id)| format!("{name}=\"{id}\""));
    let (seconds, nanoseconds) = exemplar.end();
    let time = Real(exemplar.seconds());
    let labels = labels.join(",");
    let _ = write!(bytes, " # {{{labels}}} {time} {seconds}.{nanoseconds:09}");
}

/// Return a sum of nanoseconds in seconds.
pub(crate) fn seconds(ns: u128) -> f64 {
    ns as f64 / 1e9
}

fn label_text(point: &Point<'_>) -> String {
    let mut text = String::new();
    for (name, value) in point.labels() {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}=\"{}\"", LabelValue(value));
    }
    text
}

/// A label's value, escaped: OpenMetrics 1.0, section "Overall Structure", `escaped-string`.
struct LabelValue<'a>(&'a str);

impl Display for LabelValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '"' => f.write_str("\\\"")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// A floating-point number in the canonical form of OpenMetrics, which Go also prints: at least one
/// digit after the point, two in an exponent.
struct Real(f64);

impl Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_infinite() {
            return f.write_str(if self.0 > 0.0 { "+Inf" } else { "-Inf" });
        }
        if self.0 != 0.0 && self.0.abs() < 1e-4 {
            let digits = format!("{:e}", self.0);
            let (mantissa, exponent) = digits.split_once("e-").unwrap_or((&digits, "0"));
            return write!(f, "{mantissa}e-{exponent:0>2}");
        }
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::sync::Arc;

    use sockstamp_model::clock::Nanos;

    use super::*;
    use crate::catalogue::{IN_FLIGHT, STAGE, VERDICTS};
    use crate::exposition::Exposition;

    fn text(exposition: Exposition, format: Format) -> Vec<String> {
        let bytes: Vec<_> = format.pieces(Arc::new(exposition)).flatten().collect();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_counter_is_named_as_its_format_wants() {
        let mut exposition = Exposition::default();
        let hostile = "a\"b\\c\nd\u{e9}".to_owned();
        exposition.add(
            &VERDICTS,
            vec![("verdict".into(), hostile)],
            Value::Count(7),
        );
        exposition.add(&IN_FLIGHT, Vec::new(), Value::Count(0));
        let sample = r#"sockstamp_verdicts_total{verdict="a\"b\\c\ndé"} 7"#;
        let open = text(exposition.clone(), Format::OpenMetrics);
        assert_eq!(open[1], "# TYPE sockstamp_verdicts counter");
        assert_eq!(open[2], sample);
        assert_eq!(open[5], "sockstamp_in_flight_messages 0");
        assert_eq!(open.last().unwrap(), "# EOF");
        let plain = text(exposition, Format::Plain);
        assert_eq!(plain[1], "# TYPE sockstamp_verdicts_total counter");
        assert_eq!(plain[2], sample);
        assert_eq!(plain.len(), 6);
    }

    #[test]
    fn a_distribution_is_cumulative_and_ends_with_sum_and_count() {
        let mut histogram = GroupHistogram::default();
        histogram.record(Nanos(500), 1);
        histogram.record(Nanos(250_000_000), 2);
        histogram.record(Nanos(100_000_000_000), 1);
        let labels = vec![("stage".into(), "rx.app".into())];
        let series = Point {
            group: &labels,
            names: &[],
            values: &[],
            since: Duration::ZERO,
            value: Value::Histogram(&histogram),
            exemplar: None,
        };
        let mut bytes = Vec::new();
        head(&mut bytes, &STAGE, Format::OpenMetrics);
        point(&mut bytes, &STAGE, &series, Format::OpenMetrics);
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines[2], "# UNIT sockstamp_stage_seconds seconds");
        let bucket = |bound: &str, count: u64| {
            format!("sockstamp_stage_seconds_bucket{{stage=\"rx.app\",le=\"{bound}\"}} {count}")
        };
        assert_eq!(lines[3], bucket("9.5367431640625e-07", 1));
        for line in [
            bucket("0.125", 1),
            bucket("0.25", 3),
            bucket("32.0", 3),
            bucket("+Inf", 4),
        ] {
            assert!(lines.contains(&line), "{line}");
        }
        assert!(
            lines.contains(&"sockstamp_stage_seconds_sum{stage=\"rx.app\"} 100.5000005".to_owned())
        );
        assert!(lines.contains(&"sockstamp_stage_seconds_count{stage=\"rx.app\"} 4".to_owned()));
    }

    #[test]
    fn numbers_are_canonical() {
        let written = [0.0, 1.0, 0.001, 1e-4, 1e-5, 2_f64.powi(-20), 1.5e10]
            .map(|value| Real(value).to_string());
        let wanted = [
            "0.0",
            "1.0",
            "0.001",
            "0.0001",
            "1e-05",
            "9.5367431640625e-07",
            "15000000000.0",
        ];
        assert_eq!(written, wanted);
    }
}
