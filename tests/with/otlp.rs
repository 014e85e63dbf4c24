//! A receiver of OpenTelemetry's protocol that has the published schema.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use testbed::{Host, PATIENCE, Process};

use crate::python;

pub struct Collector {
    pub process: Process,
    pub port: u16,
}

impl Collector {
    pub fn start(arguments: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/with/collector.py");
        let mut command = python();
        command.arg(script).args(arguments);
        let mut process = Process::spawn(command).unwrap();
        process.wait_for_stdout("\n", PATIENCE).unwrap();
        let said = process.stdout();
        let port = said.lines().next().unwrap().strip_prefix("PORT ").unwrap();
        Self {
            port: port.parse().unwrap(),
            process,
        }
    }

    /// The requests so far that are whole.
    pub fn requests(&self, kind: &str) -> Vec<Value> {
        let said = self.process.stdout();
        let complete = said.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let requests = complete
            .lines()
            .skip(1)
            .map(|line| serde_json::from_str(line).unwrap());
        requests
            .filter(|request: &Value| request["kind"] == kind)
            .collect()
    }

    pub fn wait_for(&self, kind: &str) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let requests = self.requests(kind);
            if !requests.is_empty() {
                return requests;
            }
            assert!(start.elapsed() < PATIENCE, "{}", self.process.stderr());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Return the spans so far, once one of them has this name.
    pub fn wait_for_span(&self, name: &str) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let spans = spans(&self.wait_for("spans"));
            if spans.iter().any(|span| span["name"] == name) {
                return spans;
            }
            assert!(start.elapsed() < PATIENCE, "no {name} in {spans:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// End it; all requests that it has answered can be read afterwards.
    pub fn end(&mut self) {
        self.process.signal(Signal::SIGKILL).unwrap();
        self.process.wait_status(PATIENCE).unwrap();
    }
}

pub fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// The metrics of one batch, by their names.
pub fn metrics(requests: &[Value]) -> BTreeMap<String, Value> {
    let of_request = |request: &Value| {
        let resources = items(&request["body"], "resourceMetrics").to_vec();
        let scopes = resources
            .into_iter()
            .flat_map(|one| items(&one, "scopeMetrics").to_vec());
        scopes
            .flat_map(|scope| items(&scope, "metrics").to_vec())
            .collect::<Vec<_>>()
    };
    let all = requests.iter().flat_map(of_request);
    all.map(|metric| (metric["name"].as_str().unwrap().to_owned(), metric))
        .collect()
}

pub fn settings(collector: &Collector, more: &str) -> String {
    let port = collector.port;
    format!("[otlp]\nendpoint = \"http://127.0.0.1:{port}/otlp\"\ninterval = \"1s\"\n{more}")
}

pub fn spans(requests: &[Value]) -> Vec<Value> {
    let scopes = requests
        .iter()
        .map(|request| &request["body"]["resourceSpans"][0]["scopeSpans"][0]);
    scopes
        .flat_map(|scope| items(scope, "spans").to_vec())
        .collect()
}

pub fn read_late(host: &Host, times: usize, late: Duration) {
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for _ in 0..times {
        client.write_all(&[0; 100]).unwrap();
        thread::sleep(late);
        server.read_exact(&mut [0; 100]).unwrap();
    }
}
