//! An OpenTelemetry Collector of others' making takes what the agent sends, by both protocols.
//! `cargo xtask test collector` builds one, from released modules, and runs this.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testbed::{Host, PATIENCE, Process};
use with::agent::Agent;

const READS: usize = 5;
const LATE: Duration = Duration::from_millis(60);

struct Collector {
    process: Process,
    directory: TempDir,
    port: u16,
}

impl Collector {
    /// Start one that writes all it receives to a file.
    fn start(protocol: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let settings = directory.path().join("collector.yaml");
        let output = directory.path().join("received.json");
        let text = format!(
            "receivers: {{otlp: {{protocols: {{{protocol}: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\n\
             exporters: {{file: {{path: {output:?}}}}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n\
             \x20   metrics: {{receivers: [otlp], exporters: [file]}}\n\
             \x20   traces: {{receivers: [otlp], exporters: [file]}}\n"
        );
        fs::write(&settings, text).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/collector.sh");
        let mut command = Command::new(script);
        command.arg("--config").arg(&settings);
        let process = Process::spawn(command).unwrap();
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < PATIENCE, "{}", process.stderr());
            thread::sleep(Duration::from_millis(50));
        }
        Self {
            process,
            directory,
            port,
        }
    }

    fn output(&self) -> PathBuf {
        self.directory.path().join("received.json")
    }

    /// Everything of this kind in the requests so far: `metrics` or `spans`.
    fn received(&self, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.output()).unwrap_or_default();
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let requests = complete
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let names = match kind {
            "spans" => ["resourceSpans", "scopeSpans"],
            _ => ["resourceMetrics", "scopeMetrics"],
        };
        let scopes = requests.flat_map(|request: Value| items(&request, names[0]));
        let scopes = scopes.flat_map(|resource| items(&resource, names[1]));
        scopes.flat_map(|scope| items(&scope, kind)).collect()
    }

    /// End it, so that all is written.
    fn end(&mut self) {
        self.process.signal(Signal::SIGTERM).unwrap();
        self.process.wait_status(PATIENCE).unwrap();
    }
}

fn items(value: &Value, name: &str) -> Vec<Value> {
    value[name].as_array().cloned().unwrap_or_default()
}

/// The server reads late.
fn talk(host: &Host) {
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for _ in 0..READS {
        client.write_all(&[0; 100]).unwrap();
        thread::sleep(LATE);
        server.read_exact(&mut [0; 100]).unwrap();
    }
}

/// Sum a figure of the last points of a metric.
fn sum(metrics: &[Value], name: &str, kind: &str, figure: &str) -> f64 {
    let of_name = metrics.iter().rfind(|metric| metric["name"] == name);
    let points = items(&of_name.unwrap()[kind], "dataPoints");
    // int64 is text in the JSON of Protocol Buffers.
    let figures = points
        .iter()
        .map(|point| point[figure].as_str().unwrap().parse::<f64>());
    figures.map(Result::unwrap).sum()
}

fn takes_all(protocol: &str) {
    let host = Host::new("collected").unwrap();
    let mut collector = Collector::start(protocol);
    let port = collector.port;
    let mut agent = Agent::of(
        &host,
        &format!(
            "[otlp]\nendpoint = \"http://127.0.0.1:{port}\"\nprotocol = \"{protocol}\"\ninterval = \"1s\"\n\
             slow = \"30ms\"\nspans_per_second = 1000\n"
        ),
    );
    talk(&host);
    let scrape = agent.scrape();
    // The last figures are sent at the end.
    agent.process.signal(Signal::SIGTERM).unwrap();
    assert!(agent.process.wait_status(PATIENCE).unwrap().success());
    assert!(
        !agent.process.stderr().contains("does not accept"),
        "{}",
        agent.process.stderr()
    );
    collector.end();

    let metrics = collector.received("metrics");
    let messages = sum(&metrics, "sockstamp_messages", "sum", "asInt");
    assert_eq!(messages, scrape.sum("sockstamp_messages_total", &[]));
    assert_eq!(messages, (2 * READS) as f64);
    let staged = sum(
        &metrics,
        "sockstamp_stage_seconds",
        "exponentialHistogram",
        "count",
    );
    assert_eq!(staged, scrape.sum("sockstamp_stage_seconds_count", &[]));
    let spans = collector.received("spans");
    let named = |name: &str| spans.iter().filter(|span| span["name"] == name).count();
    println!(
        "{protocol}: {} metrics, {} spans",
        metrics.len(),
        spans.len()
    );
    assert_eq!([named("read"), named("rx.app")], [READS; 2]);
}

#[test]
fn a_collector_takes_series_and_spans_by_http() {
    takes_all("http");
}

#[test]
fn a_collector_takes_series_and_spans_by_grpc() {
    takes_all("grpc");
}
