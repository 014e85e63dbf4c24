//! A real Prometheus scrapes the agent, and its queries answer as `stat` does.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sockstamp_metrics::catalogue::{ALL, Kind, Metric};
use tempfile::TempDir;
use testbed::{Host, PATIENCE, Process, within_attempts};
use with::{Stat, stage};

use crate::otlp::{self, Collector};
use crate::running::{Agent, exchange, talk};

/// Prometheus 3.8 or newer, to be tried in place of Debian's.
fn newer() -> Option<OsString> {
    std::env::var_os("SOCKSTAMP_TEST_PROMETHEUS")
}

/// A Prometheus that scrapes one address.
pub struct Prometheus {
    _process: Process,
    address: SocketAddr,
    _directory: TempDir,
}

impl Prometheus {
    pub fn start(target: SocketAddr, options: &[&str]) -> Prometheus {
        Prometheus::with("sockstamp", target, "scheme: http", options)
    }

    /// Start one with a job of this name, which takes native histograms.
    pub fn native(job: &str, target: SocketAddr) -> Prometheus {
        match newer() {
            Some(_) => Prometheus::with(job, target, "scrape_native_histograms: true", &[]),
            None => Prometheus::with(
                job,
                target,
                "scheme: http",
                &["--enable-feature=native-histograms"],
            ),
        }
    }

    /// Start one whose settings for the scrape have these as well.
    pub fn scraping(target: SocketAddr, how: &str, options: &[&str]) -> Prometheus {
        Prometheus::with("sockstamp", target, how, options)
    }

    fn with(job: &str, target: SocketAddr, how: &str, options: &[&str]) -> Prometheus {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("prometheus.yml");
        let settings = format!(
            "global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}\n\
             scrape_configs: [{{job_name: {job}, {how}, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        fs::write(&file, settings).unwrap();
        // Another program may take the port in between; none of the tests does.
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut command = Command::new(newer().unwrap_or_else(|| "prometheus".into()));
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .args(options);
        Prometheus {
            _process: Process::spawn(command).unwrap(),
            address,
            _directory: directory,
        }
    }

    /// The value of a query that has one, as soon as it has.
    pub fn query(&self, query: &str, fits: impl Fn(f64) -> bool) -> f64 {
        let start = Instant::now();
        let mut last = None;
        while start.elapsed() < PATIENCE {
            if TcpStream::connect(self.address).is_ok() {
                let value = self.query_at(query, SystemTime::now());
                if let Some(value) = value.filter(|value| fits(*value)) {
                    return value;
                }
                last = value;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("no answer to {query}: {last:?}");
    }

    /// The labels and the values of the exemplars of a query, once there are any.
    fn exemplars(&self, query: &str) -> Vec<(Value, f64)> {
        let start = Instant::now();
        loop {
            let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
            let (begin, end) = (now - 600, now + 1);
            let query = encoded(query);
            let path = format!("/api/v1/query_exemplars?query={query}&start={begin}&end={end}");
            let found = TcpStream::connect(self.address).ok().and_then(|_| {
                let (_, body) = exchange(self.address, &path, "");
                let answer = serde_json::from_str::<Value>(&body).ok()?;
                Some(answer["data"].as_array()?.clone())
            });
            let series = found.unwrap_or_default();
            if !series.is_empty() {
                let exemplars = series.iter().flat_map(|of| of["exemplars"].as_array());
                let value = |exemplar: &Value| exemplar["value"].as_str().unwrap().parse();
                return exemplars
                    .flatten()
                    .map(|exemplar| (exemplar["labels"].clone(), value(exemplar).unwrap()))
                    .collect();
            }
            assert!(start.elapsed() < PATIENCE, "no exemplars");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The value of a query at this time, if it has one.
    pub fn query_at(&self, query: &str, time: SystemTime) -> Option<f64> {
        let time = time.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let path = format!("/api/v1/query?query={}&time={time}", encoded(query));
        let (_, body) = exchange(self.address, &path, "");
        let answer = serde_json::from_str::<Value>(&body).ok()?;
        let value = answer.pointer("/data/result/0/value/1")?;
        value.as_str()?.parse().ok()
    }
}

/// RFC 3986, section 2.1.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

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
    assert_eq!(prometheus.query("up", |_| true), 1.0);
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
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "by = [\"comm\"]");
    let prometheus = Prometheus::native("sockstamp", agent.address);
    let stat = Stat::start(&["--netns", host.netns_name()]);
    talk(&host, 50, Duration::from_millis(12));
    let report = stat.finish();
    let service = "sockstamp_stage_seconds{stage=\"app.service\"}";
    // Nothing but a native histogram has this count.
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
            assert!(
                (0.7..1.42).contains(&ratio),
                "{name} {q}: {told} s against {exact} s"
            );
        }
        let sum = prometheus.query(&format!("histogram_sum({series})"), |_| true);
        let exact = stage(&report, name, "sum_ns") as f64 / 1e9;
        assert!(
            (sum / exact - 1.0).abs() < 0.2,
            "{name}: {sum} s against {exact} s"
        );
    }
    assert_eq!(
        prometheus.query("sum(sockstamp_messages_total)", |_| true),
        200.0
    );
}

/// In each format, the receiver of spans has the trace that an exemplar names.
#[test]
fn exemplars_name_the_traces_of_slow_messages() {
    const LATE: Duration = Duration::from_millis(60);
    const ALMOST: f64 = 0.055;
    let host = Host::new("agent").unwrap();
    let collector = Collector::start(&["http"]);
    let settings = otlp::settings(&collector, "slower_than = \"30ms\"");
    let agent = Agent::of(&host, &format!("by = [\"port\"]\n{settings}"));
    otlp::read_late(&host, 1, LATE);
    let spans = otlp::spans(&collector.wait_for("spans"));
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
                assert!((ALMOST..1.0).contains(time), "{query}: {time}");
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

pub fn promtool(arguments: &[&str], input: Option<&Path>) -> (bool, String) {
    let input = input.map_or_else(Stdio::null, |path| fs::File::open(path).unwrap().into());
    let output = Command::new("promtool")
        .args(arguments)
        .stdin(input)
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), text)
}

/// The rules are valid, and query existing metrics.
#[test]
fn alerts_are_about_metrics_of_the_agent() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/prometheus/sockstamp.rules.yml");
    let (good, said) = promtool(&["check", "rules", file.to_str().unwrap()], None);
    assert!(good && said.contains("SUCCESS"), "{said}");
    let names = |metric: &&Metric| [vec![metric.series()], series_of(metric)].concat();
    let known: BTreeSet<_> = ALL.iter().flat_map(names).collect();
    let text = fs::read_to_string(file).unwrap();
    let words =
        text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let named: Vec<_> = words
        .filter(|word| word.starts_with("sockstamp_"))
        .collect();
    assert!(named.len() > 5);
    for name in named {
        assert!(known.contains(name), "no metric is named {name}");
    }
}

/// The series of a metric; those of a native histogram have the metric's name.
pub fn series_of(metric: &Metric) -> Vec<String> {
    let series = metric.series();
    match metric.kind {
        Kind::Histogram => ["_bucket", "_sum", "_count"]
            .map(|end| format!("{series}{end}"))
            .to_vec(),
        Kind::Counter | Kind::Gauge => vec![series],
    }
}
