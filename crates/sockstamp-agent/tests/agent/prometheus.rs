//! A real Prometheus scrapes the agent, and its queries answer as `stat` does.

use std::fs;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testbed::{Host, within_attempts};
use with::agent::{Agent, exchange, talk};
use with::otlp::Collector;
use with::prometheus::{Prometheus, newer, promtool};
use with::{Stat, otlp, stage};

/// A quantile is between two times, and they differ much where a few messages were slow.
#[test]
fn a_real_prometheus_has_the_quantiles_of_stat() {
    within_attempts(quantiles_of_stat);
}

fn quantiles_of_stat() -> Result<(), String> {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "by = [\"comm\"]");
    let prometheus = Prometheus::start(agent.address, &[]);
    let stat = Stat::start(&["--netns", host.netns_name()]);
    talk(&host, 50, Duration::from_millis(12));
    let report = stat.finish();
    prometheus.query("sum(sockstamp_messages_total{direction=\"tx\"})", |count| {
        count == 100.0
    });
    // A scrape may fail in between: Prometheus waits a quarter of a second for each.
    prometheus.query("up", |up| up == 1.0);
    for name in ["app.service", "peer.answer", "tx.copy"] {
        let series = format!("sockstamp_stage_seconds_bucket{{stage=\"{name}\"}}");
        for (q, figure) in [("0.5", "p50_ns"), ("0.9", "p90_ns")] {
            let told = prometheus.query(
                &format!("histogram_quantile({q}, sum by (le) ({series}))"),
                |_| true,
            );
            let exact = stage(&report, name, figure) as f64 / 1e9;
            // Buckets end at powers of two.
            let ratio = told / exact;
            if !(0.45..2.2).contains(&ratio) {
                return Err(format!("{name} {q}: {told} s against {exact} s"));
            }
        }
    }
    Ok(())
}

/// The kernel's own buckets, four per power of two, by Protocol Buffers.
#[test]
fn native_histograms_have_the_quantiles_of_stat_more_closely() {
    within_attempts(native_quantiles_of_stat);
}

fn native_quantiles_of_stat() -> Result<(), String> {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "by = [\"comm\"]");
    let prometheus = Prometheus::native("sockstamp", agent.address);
    let stat = Stat::start(&["--netns", host.netns_name()]);
    talk(&host, 50, Duration::from_millis(12));
    let report = stat.finish();
    let service = "sockstamp_stage_seconds{stage=\"app.service\"}";
    // Only a native histogram has this count.
    let count = stage(&report, "app.service", "count") as f64;
    prometheus.query(&format!("sum(histogram_count({service}))"), |told| {
        told == count
    });
    for name in ["app.service", "peer.answer", "tx.copy"] {
        let series = format!("sum(sockstamp_stage_seconds{{stage=\"{name}\"}})");
        for (q, figure) in [("0.5", "p50_ns"), ("0.9", "p90_ns")] {
            let told = prometheus.query(&format!("histogram_quantile({q}, {series})"), |_| true);
            let exact = stage(&report, name, figure) as f64 / 1e9;
            // A bucket is a factor of 2^(1/4) wide, and both may be in neighbouring ones.
            let ratio = told / exact;
            if !(0.7..1.42).contains(&ratio) {
                return Err(format!("{name} {q}: {told} s against {exact} s"));
            }
        }
        let sum = prometheus.query(&format!("histogram_sum({series})"), |_| true);
        let exact = stage(&report, name, "sum_ns") as f64 / 1e9;
        // Where both stamp one call, each finds the other's programs in its stage.
        let programs = 2e-6 * stage(&report, name, "count") as f64;
        if (sum - exact).abs() >= 0.2 * exact + programs {
            return Err(format!("{name}: {sum} s against {exact} s"));
        }
    }
    assert_eq!(
        prometheus.query("sum(sockstamp_messages_total)", |_| true),
        200.0
    );
    Ok(())
}

/// In each format, the receiver of spans has the trace that an exemplar names.
#[test]
fn exemplars_name_the_traces_of_slow_messages() {
    const LATE: Duration = Duration::from_millis(60);
    const ALMOST: f64 = 0.055;
    let host = Host::new("agent").unwrap();
    let collector = Collector::start(&["http"]);
    let settings = otlp::settings(&collector, "slow = \"30ms\"");
    let agent = Agent::of(&host, &format!("by = [\"port\"]\n{settings}"));
    let begun = Instant::now();
    otlp::read_late(&host, 1, LATE);
    let most = begun.elapsed().as_secs_f64();
    let spans = collector.wait_for_span("read");
    let read = spans.iter().find(|span| span["name"] == "read").unwrap();

    let native = match newer() {
        Some(_) => ("scrape_native_histograms: true", "exemplar-storage"),
        None => ("scheme: http", "native-histograms,exemplar-storage"),
    };
    for (how, features) in [("scheme: http", "exemplar-storage"), native] {
        let option = format!("--enable-feature={features}");
        let prometheus = Prometheus::scraping(agent.address, how, &[&option]);
        let of_message = "{__name__=~'sockstamp_message_seconds.*', direction='rx'}";
        let of_stage = "{__name__=~'sockstamp_stage_seconds.*', stage='rx.app'}";
        // Of native histograms, 3.16 takes the first exemplar of a metric and no other: its parser
        // counts on from series to series.
        let of_stage = (newer().is_none() || (how, features) != native).then_some(of_stage);
        for query in [of_message].into_iter().chain(of_stage) {
            let found = prometheus.exemplars(query);
            for (labels, time) in &found {
                assert_eq!(labels["trace_id"], read["traceId"], "{query}");
                assert_eq!(labels["span_id"], read["spanId"], "{query}");
                assert!((ALMOST..most).contains(time), "{query}: {time} of {most}");
            }
            assert_eq!(found.len(), 1, "{query}: {found:?}");
        }
    }
    let sent = collector.requests("metrics").last().unwrap().to_string();
    let exemplar = format!("\"traceId\":{}", read["traceId"]);
    assert!(sent.contains(&exemplar), "{sent}");
}

/// promtool finds nothing to complain about.
#[test]
fn the_text_is_as_promtool_wants_it() {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "");
    talk(&host, 5, Duration::ZERO);
    let (_, text) = exchange(agent.address, "/metrics", "");
    let file = TempDir::new().unwrap();
    let path = file.path().join("metrics");
    fs::write(&path, &text).unwrap();
    assert_eq!(
        promtool(&["check", "metrics"], Some(&path)),
        (true, String::new()),
        "{text}"
    );
}
