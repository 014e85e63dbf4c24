//! OpenTelemetry's protocol: the published schema reads what the agent sends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
};
use serde_json::Value;
use tempfile::NamedTempFile;
use testbed::{Cgroup, Host, PATIENCE, Process, within_attempts};
use with::agent::{Agent, Scrape, exchange, resident, talk, wait_for_line};
use with::authority::Authority;
use with::otlp::{Collector, items, metrics, read_late, settings, spans};

/// The labels of a data point that the other formats have as well.
fn labels(point: &Value) -> Vec<String> {
    let of = |attribute: &Value| {
        let (name, value) = (&attribute["key"], &attribute["value"]["stringValue"]);
        format!(
            "{}=\"{}\"",
            name.as_str().unwrap(),
            value.as_str().unwrap_or_default()
        )
    };
    items(point, "attributes").iter().map(of).collect()
}

/// int64 is text in the JSON of Protocol Buffers.
fn whole(value: &Value) -> u64 {
    value.as_str().map_or(0, |text| text.parse().unwrap())
}

/// Compare each count of messages and each distribution with the text that Prometheus reads.
#[track_caller]
fn agree(metrics: &BTreeMap<String, Value>, scrape: &Scrape) {
    let sums = items(&metrics["sockstamp_messages"]["sum"], "dataPoints");
    assert!(!sums.is_empty());
    for point in sums {
        let labels = labels(point);
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        let scraped = scrape.values("sockstamp_messages_total", &labels);
        assert_eq!(scraped, [whole(&point["asInt"]) as f64], "{labels:?}");
    }
    let histograms = &metrics["sockstamp_stage_seconds"]["exponentialHistogram"];
    assert_eq!(
        histograms["aggregationTemporality"],
        "AGGREGATION_TEMPORALITY_CUMULATIVE"
    );
    let points = items(histograms, "dataPoints");
    assert!(points.len() >= 8, "{points:?}");
    for point in points {
        agree_on_distribution(point, scrape);
    }
}

fn agree_on_distribution(point: &Value, scrape: &Scrape) {
    let labels = labels(point);
    let buckets = scraped_buckets(&labels, scrape);
    let (count, zero) = (whole(&point["count"]), whole(&point["zeroCount"]));
    assert_eq!(Some(&(f64::INFINITY, count)), buckets.last(), "{labels:?}");
    let offset = point["positive"]["offset"].as_i64().unwrap_or(0);
    let counts = items(&point["positive"], "bucketCounts");
    assert_eq!(
        count,
        zero + counts.iter().map(whole).sum::<u64>(),
        "{labels:?}"
    );
    assert_eq!(point["scale"], 2);
    // A bucket's upper end, by the specification: base^(index + 1), where base is 2^(2^-scale).
    for (bound, scraped) in &buckets[..buckets.len() - 1] {
        let ends = (offset + 1..).map(|end| 2_f64.powf(end as f64 / 4.0));
        let below = counts
            .iter()
            .zip(ends)
            .filter(|(_, end)| *end <= bound * 1.01);
        let below = zero + below.map(|(count, _)| whole(count)).sum::<u64>();
        assert_eq!(below, *scraped, "{labels:?} {bound}");
    }
}

/// The bounds and counts of a classic histogram.
fn scraped_buckets(labels: &[String], scrape: &Scrape) -> Vec<(f64, u64)> {
    let lines = scrape.0.lines().filter(|line| {
        line.starts_with("sockstamp_stage_seconds_bucket{")
            && labels.iter().all(|label| line.contains(label))
    });
    let bucket = |line: &str| {
        // An exemplar may follow.
        let line = line.split(" # ").next().unwrap();
        let (_, rest) = line.split_once("le=\"").unwrap();
        let (bound, count) = rest.split_once("\"} ").unwrap();
        (
            bound.trim_start_matches('+').parse().unwrap(),
            count.parse().unwrap(),
        )
    };
    lines.map(bucket).collect()
}

/// Have the last figures sent, with the scrape before them. End both.
fn finish(
    mut agent: Agent,
    collector: &mut Collector,
) -> (BTreeMap<String, Value>, Scrape, Vec<Value>) {
    let scrape = agent.scrape();
    let before = collector.requests("metrics").len();
    agent.process.signal(Signal::SIGTERM).unwrap();
    assert!(agent.process.wait_status(PATIENCE).unwrap().success());
    collector.end();
    let requests = collector.requests("metrics");
    assert!(
        requests.len() > before,
        "the last figures are sent at the end"
    );
    (metrics(&requests[requests.len() - 1..]), scrape, requests)
}

#[test]
fn series_arrive_by_http_as_they_are_scraped() {
    let host = Host::new("otlp").unwrap();
    let mut collector = Collector::start(&["http", "1"]);
    let token = NamedTempFile::new().unwrap();
    write!(token.as_file(), "secret").unwrap();
    let agent = Agent::of(
        &host,
        &settings(&collector, &format!("token_file = {:?}", token.path())),
    );
    talk(&host, 50, Duration::ZERO);
    collector.wait_for("metrics");
    let sent = ["signal=\"metrics\"", "result=\"sent\""];
    agent.scrape_until(|scrape| scrape.sum("sockstamp_otlp_items_total", &sent) > 0.0);
    let (last, scrape, requests) = finish(agent, &mut collector);
    agree(&last, &scrape);
    assert!(
        requests
            .iter()
            .all(|request| request["authorization"] == "Bearer secret")
    );
    assert_eq!(collector.requests("refused").len(), 1);
    let resource = &requests[0]["body"]["resourceMetrics"][0]["resource"];
    assert!(
        labels(resource).contains(&"service.name=\"sockstamp\"".to_owned()),
        "{resource}"
    );
    let [sent, rejected] = ["sent", "rejected"].map(|fate| {
        let labels = ["signal=\"metrics\"", &format!("result=\"{fate}\"")];
        scrape.sum("sockstamp_otlp_items_total", &labels)
    });
    assert!(sent > 100.0 && rejected >= 1.0, "{sent} {rejected}");
}

#[test]
fn series_and_slow_messages_arrive_by_grpc() {
    let host = Host::new("otlp").unwrap();
    let mut collector = Collector::start(&["grpc"]);
    let more = "protocol = \"grpc\"\nslow = \"30ms\"";
    let settings = settings(&collector, more).replace("/otlp", "");
    let agent = Agent::of(&host, &settings);
    // The server reads late: 60 ms each time.
    let reads = 5;
    read_late(&host, reads, Duration::from_millis(60));
    let start = Instant::now();
    let spans = loop {
        let spans = spans(&collector.wait_for("spans"));
        if spans.iter().filter(|span| span["name"] == "read").count() == reads {
            break spans;
        }
        assert!(start.elapsed() < PATIENCE, "{spans:?}");
        thread::sleep(Duration::from_millis(100));
    };
    for read in spans.iter().filter(|span| span["name"] == "read") {
        stages_are_inside(read, &spans);
    }
    let (last, scrape, _) = finish(agent, &mut collector);
    agree(&last, &scrape);
}

/// The wait before the read is in rx.app, and its times are those of this minute.
fn stages_are_inside(read: &Value, spans: &[Value]) {
    let of = |span: &Value| ["startTimeUnixNano", "endTimeUnixNano"].map(|name| whole(&span[name]));
    let [begin, end] = of(read);
    let inside = spans
        .iter()
        .filter(|span| span["parentSpanId"] == read["spanId"]);
    let inside: Vec<_> = inside.collect();
    let names: BTreeSet<_> = inside
        .iter()
        .map(|span| span["name"].as_str().unwrap())
        .collect();
    assert!(names.contains("rx.app"), "{names:?}");
    for stage in &inside {
        assert_eq!(stage["traceId"], read["traceId"]);
        let [first, last] = of(stage);
        assert!(begin <= first && last <= end, "{stage} {read}");
    }
    let app = inside.iter().find(|span| span["name"] == "rx.app").unwrap();
    let [first, last] = of(app);
    assert!(last - first >= 55_000_000, "{app}");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    assert!(now - u128::from(end) < 120_000_000_000, "{read}");
    let attributes = read["attributes"].to_string();
    assert!(
        attributes.contains("127.0.0.1") && attributes.contains("network.peer.port"),
        "{attributes}"
    );
}

#[test]
fn a_receiver_that_hangs_holds_up_nothing_and_what_is_lost_is_counted() {
    within_attempts(have_a_receiver_that_hangs);
}

fn have_a_receiver_that_hangs() -> Result<(), String> {
    let host = Host::new("otlp").unwrap();
    // A receiver that accepts, and never answers.
    let hung = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", hung.local_addr().unwrap());
    let more = "slow = \"1ms\"\nspans_per_second = 1";
    let settings = format!("[otlp]\nendpoint = \"{endpoint}\"\ninterval = \"1s\"\n{more}");
    let mut agent = Agent::of(&host, &settings);
    read_late(&host, 20, Duration::from_millis(5));
    let start = Instant::now();
    loop {
        let asked = Instant::now();
        let (head, _) = exchange(agent.address, "/readyz", "");
        assert!(head.contains(" 200 "), "{head}");
        soon("an answer", asked, 5)?;
        let scrape = agent.scrape();
        let lost = |signal: &str, fate: &str| {
            let labels = [format!("signal=\"{signal}\""), format!("result=\"{fate}\"")];
            scrape.sum("sockstamp_otlp_items_total", &[&labels[0], &labels[1]])
        };
        if lost("metrics", "behind") > 0.0 && lost("spans", "rate") > 0.0 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{}", scrape.0);
        thread::sleep(Duration::from_millis(200));
    }
    // Nor does a reload wait for it.
    let reloading = Instant::now();
    let netns = host.netns_name();
    let said = agent.reload(&format!(
        "sample = \"1000000/s\"\nmax_cost = \"none\"\n[target]\nnetns = \"{netns}\""
    ));
    assert!(said.contains("read again"), "{said}");
    soon("a reload", reloading, 4)?;
    let ending = Instant::now();
    agent.process.signal(Signal::SIGTERM).unwrap();
    assert!(agent.process.wait_status(PATIENCE).unwrap().success());
    soon("the end", ending, 30)?;
    assert!(
        agent.process.stderr().contains("does not accept metrics: "),
        "{}",
        agent.process.stderr()
    );
    Ok(())
}

fn soon(what: &str, begun: Instant, seconds: u64) -> Result<(), String> {
    match begun.elapsed() {
        time if time < Duration::from_secs(seconds) => Ok(()),
        time => Err(format!("{what} took {time:?}")),
    }
}

/// Sends to itself, and reads late.
const LATE_READER: &str = "
import socket, time
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
print(listener.getsockname()[1], flush=True)
while True:
    client.sendall(b'x' * 100)
    time.sleep(0.1)
    server.recv(100)
";

/// More memory than what waits for the receiver takes.
const WAITING_KB: u64 = 8_000;

/// Time without a receiver; set SOCKSTAMP_AWAY_SECONDS for a longer one.
fn away() -> Duration {
    let seconds = std::env::var("SOCKSTAMP_AWAY_SECONDS");
    let seconds = seconds.map_or(10, |seconds| seconds.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

#[test]
fn a_receiver_that_was_away_has_all_figures_again_and_lost_spans_are_counted() {
    let host = Host::new("otlp").unwrap();
    let mut collector = Collector::start(&["http"]);
    let more = "slow = \"30ms\"\nspans_per_second = 1000";
    let settings = settings(&collector, more);
    let agent = Agent::of(&host, &settings);
    let late = || read_late(&host, 2, Duration::from_millis(60));
    late();
    let spans_of = |scrape: &Scrape, fate: &str| {
        let labels = ["signal=\"spans\"", &format!("result=\"{fate}\"")];
        scrape.sum("sockstamp_otlp_items_total", &labels)
    };
    agent.scrape_until(|scrape| spans_of(scrape, "sent") > 0.0);
    collector.end();
    let held = hold(collector.port);
    let mut received = count_of_spans(&collector);
    let (port, memory) = (collector.port, resident(&agent));
    let begun = Instant::now();
    while begun.elapsed() < away() || spans_of(&agent.scrape(), "behind") == 0.0 {
        assert!(begun.elapsed() < away() + PATIENCE, "no span is lost");
        late();
        // Series and spans wait for the receiver in bounded memory.
        let now = resident(&agent);
        assert!(now < memory + WAITING_KB, "{memory} {now}");
    }
    collector = Collector::start(&[&format!("http:{port}")]);
    drop(held);
    collector.wait_for("metrics");
    late();
    let (last, scrape, _) = finish(agent, &mut collector);
    agree(&last, &scrape);
    received += count_of_spans(&collector);
    let of = |fate: &str| spans_of(&scrape, fate);
    // Spans of the last message may come after the scrape.
    let received = f64::from(u32::try_from(received).unwrap());
    let sent = of("sent");
    assert!(sent > 0.0 && received >= sent, "{received}: {}", scrape.0);
    assert!(of("behind") > 0.0 && of("rate") == 0.0, "{}", scrape.0);
}

#[test]
fn a_connection_that_waits_to_be_accepted_is_a_span() {
    let host = Host::new("otlp").unwrap();
    let collector = Collector::start(&["http"]);
    let _agent = Agent::of(&host, &settings(&collector, "slow = \"50ms\""));
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let _client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    thread::sleep(Duration::from_millis(100));
    let _server = listener.accept().unwrap();
    let spans = collector.wait_for_span("conn.accept");
    let of = |key: &str, value: &Value| spans.iter().find(|span| span[key] == *value).unwrap();
    let stage = of("name", &"conn.accept".into());
    let opened = of("spanId", &stage["parentSpanId"]);
    assert_eq!(opened["name"], "open connection");
    let times = ["startTimeUnixNano", "endTimeUnixNano"].map(|name| whole(&stage[name]));
    assert!(times[1] - times[0] >= 95_000_000, "{stage}");
}

/// Keep a port from clients, to which the kernel gives none that is bound, but from no server.
fn hold(port: u16) -> OwnedFd {
    let held = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    );
    let held = held.unwrap();
    setsockopt(&held, sockopt::ReuseAddr, &true).unwrap();
    bind(held.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port)).unwrap();
    held
}

fn count_of_spans(collector: &Collector) -> usize {
    spans(&collector.requests("spans")).len()
}

fn attribute<'a>(span: &'a Value, name: &str) -> Option<&'a Value> {
    let mut attributes = items(span, "attributes").iter();
    Some(&attributes.find(|attribute| attribute["key"] == name)?["value"])
}

/// The id is that of OpenTelemetry's conventions: neither the runtime's prefix nor its suffix is
/// part of it.
#[test]
fn spans_have_the_id_of_the_container_by_which_its_runtime_knows_it() {
    let host = Host::new("otlp").unwrap();
    let collector = Collector::start(&["http"]);
    let more = "slow = \"50ms\"\nspans_per_second = 1000";
    let agent = Agent::of(&host, &settings(&collector, more));
    let top = Cgroup::new("otlp").unwrap();
    let id = |number: usize| format!("{:08x}{number:056x}", std::process::id());
    let paths = [
        format!("system.slice/docker-{}.scope", id(0)),
        format!("kubepods.slice/pod.slice/cri-containerd-{}.scope", id(1)),
        format!("machine.slice/libpod-{}.scope/container", id(2)),
        format!("kubepods/burstable/pod1/{}", id(3)),
    ];
    let readers = paths.map(|path| {
        let cgroup = top.below(&path).unwrap();
        let mut command = host.command("python3");
        command.args(["-c", LATE_READER]);
        cgroup.start_in(&mut command).unwrap();
        let mut process = Process::spawn(command).unwrap();
        process.wait_for_stdout("\n", PATIENCE).unwrap();
        (process.stdout().trim().to_owned(), cgroup, process)
    });
    let start = Instant::now();
    loop {
        let spans = spans(&collector.wait_for("spans"));
        let reads: Vec<_> = spans.iter().filter(|span| span["name"] == "read").collect();
        let known = |(number, (port, ..)): (usize, &(String, _, _))| {
            let of_port = reads.iter().filter(|span| {
                attribute(span, "network.local.port")
                    .is_some_and(|value| value["intValue"] == **port)
            });
            // Spans before the group was met have none.
            let ids: BTreeSet<_> = of_port
                .filter_map(|span| attribute(span, "container.id")?["stringValue"].as_str())
                .collect();
            assert!(ids.iter().all(|found| *found == id(number)), "{ids:?}");
            !ids.is_empty()
        };
        if readers.iter().enumerate().all(known) {
            break;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "{reads:?} {}",
            agent.process.stderr()
        );
        thread::sleep(Duration::from_millis(200));
    }
}

/// gRPC's own server takes TLS only with HTTP/2 agreed on in the handshake.
#[test]
fn a_receiver_is_sent_nothing_before_its_certificate_is_verified() {
    let (host, authority, stranger) = (
        Host::new("otlp").unwrap(),
        Authority::new(),
        Authority::new(),
    );
    let [certificate, key] = ["own.crt", "own.key"].map(|name| authority.file(name));
    for protocol in ["http", "grpc"] {
        let files = [&certificate, &key].map(|file| file.to_str().unwrap());
        let collector = Collector::start(&[protocol, "0", files[0], files[1]]);
        let trusted = NamedTempFile::new().unwrap();
        let trust = |authority: &Authority| {
            fs::copy(authority.file("ca.crt"), trusted.path()).unwrap();
        };
        let settings = {
            let (port, trusted) = (collector.port, trusted.path());
            let path = if protocol == "http" { "/otlp" } else { "" };
            format!(
                "[otlp]\nendpoint = \"https://localhost:{port}{path}\"\nprotocol = \"{protocol}\"\n\
                 interval = \"1s\"\nca_file = {trusted:?}\n"
            )
        };
        let target = format!("[target]\nnetns = \"{}\"\n", host.netns_name());
        trust(&stranger);
        let agent = Agent::start(&format!("{settings}{target}"));
        let why = wait_for_line(&agent.process, "does not accept metrics: ");
        assert!(why.contains("invalid peer certificate"), "{why}");
        assert_eq!(collector.requests("metrics").len(), 0);
        // Another content of the same file.
        trust(&authority);
        let said = agent.reload(&format!("{settings}{target}"));
        assert!(said.contains("read again"), "{said}");
        assert!(!collector.wait_for("metrics").is_empty());
    }
}
