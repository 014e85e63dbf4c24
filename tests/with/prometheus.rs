//! A real Prometheus, and its checks.

use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sockstamp_metrics::catalogue::{Kind, Metric};
use tempfile::TempDir;
use testbed::{PATIENCE, Process};

use crate::agent::exchange;

/// Prometheus 3.8 or newer, to be tried in place of Debian's.
pub fn newer() -> Option<OsString> {
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
        let address = unused_address();
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
    pub fn exemplars(&self, query: &str) -> Vec<(Value, f64)> {
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

/// Return an address of the loopback interface that is this process's alone. A port that is free on
/// 127.0.0.1 may be a client's when Prometheus has started.
fn unused_address() -> SocketAddr {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    // A process number has 22 bits.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let port = 9090 + COUNT.fetch_add(1, Ordering::Relaxed);
    ([127, 64 + high, middle, low], port).into()
}

/// RFC 3986, section 2.1.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
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
