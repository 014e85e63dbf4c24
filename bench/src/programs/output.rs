//! The output of programs that make load.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// The result of a run. The times are microseconds; a bulk transfer has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) messages: f64,
    pub(crate) per_second: f64,
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
}

impl Outcome {
    /// A request and its answer are two messages.
    fn of_requests(requests: f64, per_second: f64, p50: f64, p99: f64) -> Self {
        Self {
            messages: requests * 2.0,
            per_second: per_second * 2.0,
            p50: Some(p50),
            p99: Some(p99),
        }
    }
}

/// Parse `redis-benchmark --csv` of one test with that many requests: a line of titles and a line
/// of values, the times in milliseconds.
pub(crate) fn redis_benchmark(text: &str, requests: u32) -> Result<Outcome> {
    let mut lines = text.lines().filter(|line| line.starts_with('"'));
    let (titles, values) = lines
        .next()
        .zip(lines.next())
        .with_context(|| format!("redis-benchmark gave no table: {text}"))?;
    let value = |title: &str| {
        let mut pairs = titles.split(',').zip(values.split(','));
        let (_, value) = pairs.find(|(name, _)| name.trim_matches('"') == title)?;
        value.trim_matches('"').parse::<f64>().ok()
    };
    let value = |title: &str| {
        value(title).with_context(|| format!("redis-benchmark gave no {title}: {text}"))
    };
    let (p50, p99) = (
        value("p50_latency_ms")? * 1e3,
        value("p99_latency_ms")? * 1e3,
    );
    Ok(Outcome::of_requests(
        requests.into(),
        value("rps")?,
        p50,
        p99,
    ))
}

/// Parse `wrk --latency`.
pub(crate) fn wrk(text: &str) -> Result<Outcome> {
    let field = |begin: &str| {
        let mut lines = text.lines().map(str::trim);
        lines
            .find_map(|line| line.strip_prefix(begin))
            .map(str::trim)
    };
    let requests = text
        .lines()
        .find_map(|line| line.split_once(" requests in "));
    let requests = requests.and_then(|(number, _)| number.trim().parse().ok());
    let per_second = field("Requests/sec:").and_then(|number| number.parse().ok());
    let quantile = |name| field(name).and_then(microseconds);
    let outcome = || {
        let (p50, p99) = (quantile("50%")?, quantile("99%")?);
        Some(Outcome::of_requests(requests?, per_second?, p50, p99))
    };
    outcome().with_context(|| format!("wrk gave no latencies: {text}"))
}

/// Read a time with a unit of wrk (`format_time_us()` of its src/units.c).
fn microseconds(text: &str) -> Option<f64> {
    let begin_of_unit = text.find(|character: char| character.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(begin_of_unit);
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// Parse `iperf3 --json` of writes of `length` bytes each, which are the messages.
pub(crate) fn iperf3(text: &str, length: u32) -> Result<Outcome> {
    let report: Value =
        serde_json::from_str(text).with_context(|| format!("iperf3 gave no JSON: {text}"))?;
    let received = &report["end"]["sum_received"];
    let value = |key: &str| {
        received[key]
            .as_f64()
            .with_context(|| format!("iperf3 gave no {key}: {text}"))
    };
    Ok(Outcome {
        messages: value("bytes")? / f64::from(length),
        per_second: value("bits_per_second")? / 8.0 / f64::from(length),
        p50: None,
        p99: None,
    })
}

/// Parse the line of `udp-echo-client`.
pub(crate) fn udp_echo(text: &str) -> Result<Outcome> {
    #[derive(Deserialize)]
    struct Line {
        answers: u32,
        seconds: f64,
        p50_us: f64,
        p99_us: f64,
    }
    let line: Line =
        serde_json::from_str(text).with_context(|| format!("nothing was answered: {text}"))?;
    let answers = f64::from(line.answers);
    Ok(Outcome::of_requests(
        answers,
        answers / line.seconds,
        line.p50_us,
        line.p99_us,
    ))
}

/// Return the number of messages that `sockstamp trace` reports as not shown.
pub(crate) fn lost(errors: &str) -> u32 {
    let line = errors
        .lines()
        .find(|line| line.contains(" messages could not be shown"));
    let mut words = line.unwrap_or_default().split_whitespace();
    words.find_map(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(outcome: &Outcome, messages: f64, per_second: f64, times: Option<(f64, f64)>) {
        assert!((outcome.messages - messages).abs() < 1e-6, "{outcome:?}");
        assert!(
            (outcome.per_second - per_second).abs() < 1e-6,
            "{outcome:?}"
        );
        let near =
            |time: Option<f64>, wanted: f64| time.is_some_and(|time| (time - wanted).abs() < 1e-6);
        match times {
            Some((p50, p99)) => assert!(
                near(outcome.p50, p50) && near(outcome.p99, p99),
                "{outcome:?}"
            ),
            None => assert_eq!((outcome.p50, outcome.p99), (None, None)),
        }
    }

    #[test]
    fn columns_of_redis_benchmark_are_found_by_their_titles() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                    \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                    \"GET\",\"9302.33\",\"0.455\",\"0.040\",\"0.095\",\"3.247\",\"7.991\",\"15.999\"\n";
        is(
            &redis_benchmark(text, 2000).unwrap(),
            4000.0,
            18604.66,
            Some((95.0, 7991.0)),
        );
        assert!(redis_benchmark("Could not connect\n", 2000).is_err());
        assert!(redis_benchmark("\"test\",\"rps\"\n\"GET\",\"1.0\"\n", 1).is_err());
    }

    #[test]
    fn latencies_of_wrk_have_units() {
        let text = "Running 1s test @ http://127.0.0.1:7998/\n  1 threads and 2 connections\n  \
                    Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
                    Latency     4.47ms    8.21ms  58.80ms   90.85%\n    \
                    Req/Sec     0.90k   244.31     1.25k    60.00%\n  Latency Distribution\n     \
                    50%  980.00us\n     75%    4.41ms\n     90%   11.31ms\n     99%   47.31ms\n  \
                    905 requests in 1.02s, 459.57KB read\nRequests/sec:    887.29\n\
                    Transfer/sec:    450.58KB\n";
        is(&wrk(text).unwrap(), 1810.0, 1774.58, Some((980.0, 47310.0)));
        assert!(wrk("unable to connect to 127.0.0.1:7998 Connection refused\n").is_err());
    }

    #[test]
    fn each_unit_of_wrk_is_read() {
        let texts = ["5.00us", "1.50ms", "2.00s", "1.00m", "7", "3.00h"];
        assert_eq!(
            texts.map(microseconds),
            [Some(5.0), Some(1500.0), Some(2e6), Some(60e6), None, None]
        );
    }

    #[test]
    fn a_message_of_iperf3_is_a_write() {
        let text = r#"{"end":{"sum_received":{"seconds":1.0,"bytes":1310720,"bits_per_second":10485760.0}}}"#;
        is(&iperf3(text, 131_072).unwrap(), 10.0, 10.0, None);
        assert!(iperf3(r#"{"error":"unable to connect to server"}"#, 1).is_err());
    }

    #[test]
    fn an_echo_is_two_messages() {
        let text = r#"{"answers":100,"seconds":0.5,"p50_us":10.5,"p99_us":20.0}"#;
        is(&udp_echo(text).unwrap(), 200.0, 400.0, Some((10.5, 20.0)));
        assert!(udp_echo("").is_err());
    }

    #[test]
    fn losses_of_trace_are_read_from_its_remark() {
        let remark =
            "sockstamp: 1234 messages could not be shown: the reader of the output was too slow\n";
        assert_eq!((lost(remark), lost("")), (1234, 0));
    }
}
