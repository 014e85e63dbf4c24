//! Steps of CLOCK_REALTIME while the agent measures, records and sends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use sockstamp_metrics::wire::{Field, fields};
use sockstamp_model::verdict::Verdict;
use sockstamp_record::Reader;
use tempfile::TempDir;
use testbed::{Host, PATIENCE};
use with::agent::{Agent, Scrape};
use with::otlp::read_late;
use with::skip;

/// Delay each read by this.
const LATE: Duration = Duration::from_millis(60);
const READS: usize = 3;
/// Longer than it takes the agent to notice a step, under emulation.
const NOTICE: Duration = Duration::from_secs(1);
/// Between a step and the reading of both clocks next to it.
const TOLERANCE: i128 = 100_000_000;

fn read(clock: ClockId) -> i128 {
    let time = clock_gettime(clock).unwrap();
    i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec())
}

/// The time from one step of the clock to the next.
struct Phase {
    /// CLOCK_REALTIME less CLOCK_MONOTONIC.
    offset: i128,
    /// By CLOCK_MONOTONIC.
    begin: i128,
    end: i128,
}

impl Phase {
    fn begin() -> Self {
        let begin = read(ClockId::CLOCK_MONOTONIC);
        Self {
            offset: read(ClockId::CLOCK_REALTIME) - begin,
            begin,
            end: i128::MAX / 2,
        }
    }

    /// Return true if CLOCK_REALTIME had this time in the phase, in nanoseconds.
    fn has(&self, time: i128) -> bool {
        let range = self.begin - TOLERANCE..=self.end + TOLERANCE;
        range.contains(&(time - self.offset))
    }
}

fn step(phases: &mut Vec<Phase>, by: i64) {
    phases.last_mut().unwrap().end = read(ClockId::CLOCK_MONOTONIC);
    let now = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
    let then = TimeSpec::new(now.tv_sec() + by, now.tv_nsec());
    clock_settime(ClockId::CLOCK_REALTIME, then).unwrap();
    phases.push(Phase::begin());
}

/// Answer all requests; return their paths and bodies.
fn receive() -> (u16, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            thread::spawn(move || answer(&stream.unwrap(), &sender));
        }
    });
    (port, requests)
}

fn answer(stream: &TcpStream, requests: &Sender<(String, Vec<u8>)>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(rest) = line.strip_prefix("POST ") {
                path = rest.split(' ').next().unwrap().to_owned();
            }
            if let Some(rest) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = rest.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        // The test has ended.
        if requests.send((path, body)).is_err() {
            return;
        }
        let mut stream = stream;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
    }
}

/// The messages at the end of a path of field numbers.
fn below<'a>(message: &'a [u8], path: &[u32]) -> Vec<&'a [u8]> {
    let Some((first, rest)) = path.split_first() else {
        return vec![message];
    };
    let inside = fields(message).filter_map(|(field, value)| match value {
        Field::Bytes(bytes) if field == *first => Some(bytes),
        _ => None,
    });
    inside.flat_map(|bytes| below(bytes, rest)).collect()
}

fn number(message: &[u8], wanted: u32) -> Option<i128> {
    fields(message).find_map(|(field, value)| match value {
        Field::Number(number) if field == wanted => Some(number.into()),
        _ => None,
    })
}

/// `ExportMetricsServiceRequest`: no point is of another time, or of one before its beginning.
fn check_points(body: &[u8], phases: &[Phase]) -> usize {
    let metrics = below(body, &[1, 2, 2]);
    // gauge, sum, exponential_histogram
    let kinds = [5, 7, 10].map(|kind| {
        metrics
            .iter()
            .flat_map(|metric| below(metric, &[kind, 1]))
            .collect::<Vec<_>>()
    });
    let points = kinds.concat();
    for point in &points {
        let time = number(point, 3).unwrap();
        assert!(phases.iter().any(|phase| phase.has(time)), "{time}");
        assert!(number(point, 2).is_none_or(|begin| begin <= time), "{time}");
    }
    points.len()
}

/// `ExportTraceServiceRequest`: spans are of the time of their messages, and no longer.
fn check_spans(body: &[u8], phases: &[Phase]) -> usize {
    let spans = below(body, &[1, 2, 2]);
    for span in &spans {
        let [begin, end] = [7, 8].map(|field| number(span, field).unwrap());
        let within = |phase: &Phase| phase.has(begin) && phase.has(end);
        assert!(phases.iter().any(within) && begin <= end, "{begin} {end}");
    }
    spans.len()
}

fn check_rows(directory: &Path, phases: &[Phase]) -> u32 {
    let mut valid = 0;
    for file in fs::read_dir(directory.join("recent")).unwrap() {
        for message in Reader::open(&file.unwrap().path()).unwrap().messages() {
            let message = message.unwrap();
            if message.verdict == Verdict::Valid {
                let time = i128::from(message.time.as_nanos());
                assert!(phases.iter().any(|phase| phase.has(time)), "{message:?}");
                // Opening and accepting connections are rows as well, but no messages.
                valid += u32::from(!message.is_connection());
            }
        }
    }
    valid
}

/// Times of an hour would be in the last bucket alone.
fn check_histograms(scrape: &Scrape) {
    for metric in [
        "sockstamp_stage_seconds_bucket",
        "sockstamp_message_seconds_bucket",
    ] {
        let [short, all] = ["le=\"32.0\"", "le=\"+Inf\""].map(|bound| scrape.sum(metric, &[bound]));
        assert!(all > 0.0 && short == all, "{metric}: {short} of {all}");
    }
}

fn verdict(scrape: &Scrape, name: &str) -> f64 {
    scrape.sum(
        "sockstamp_verdicts_total",
        &[&format!("verdict=\"{name}\"")],
    )
}

/// Run only in the lab: the clock is global, and a step would disturb other users of this host.
#[test]
fn no_time_is_wrong_after_the_clock_was_stepped() {
    if !fs::read_to_string("/proc/cmdline")
        .unwrap()
        .contains("sockstamp.lab")
    {
        let name = "clock_step::no_time_is_wrong_after_the_clock_was_stepped";
        return skip(name, "the clock of this host is others', too");
    }
    let (host, directory) = (Host::new("step").unwrap(), TempDir::new().unwrap());
    let (port, requests) = receive();
    let mut phases = vec![Phase::begin()];
    let mut agent = Agent::of(
        &host,
        &format!(
            "[hindsight]\ndirectory = {:?}\nmin_free = 1\n[otlp]\nendpoint = \"http://127.0.0.1:{port}\"\n\
             interval = \"1s\"\nslow = \"30ms\"\nspans_per_second = 1000\n",
            directory.path()
        ),
    );
    read_late(&host, READS, LATE);
    for by in [3_600, -7_200, 3_600] {
        // The agent cannot notice the step before these messages.
        agent.process.signal(Signal::SIGSTOP).unwrap();
        step(&mut phases, by);
        read_late(&host, READS, LATE);
        agent.process.signal(Signal::SIGCONT).unwrap();
        thread::sleep(NOTICE);
        let noticed = verdict(&agent.scrape(), "clock-step");
        read_late(&host, READS, LATE);
        assert_eq!(verdict(&agent.scrape(), "clock-step"), noticed);
    }
    let scrape = agent.scrape();
    agent.process.signal(Signal::SIGTERM).unwrap();
    assert!(agent.process.wait_status(PATIENCE).unwrap().success());

    check_histograms(&scrape);
    let [valid, stepped] = ["valid", "clock-step"].map(|name| verdict(&scrape, name));
    println!("{valid} valid, {stepped} refused for the step");
    let all = 7 * 2 * READS;
    assert_eq!(valid + stepped, all as f64, "{}", scrape.0);
    // Messages right after a step: the segments that acknowledge sends arrive then, too.
    let reads = scrape.sum("sockstamp_refused_messages_total", &["direction=\"rx\""]);
    assert_eq!(reads, (3 * READS) as f64);
    assert!(stepped <= 2.0 * reads, "{stepped}");
    assert_eq!(f64::from(check_rows(directory.path(), &phases)), valid);
    let (mut points, mut spans) = (0, 0);
    for (path, body) in requests.try_iter() {
        match path.as_str() {
            "/v1/metrics" => points += check_points(&body, &phases),
            _ => spans += check_spans(&body, &phases),
        }
    }
    println!("{points} points, {spans} spans");
    assert!(points > 100 && spans >= 4 * READS, "{points} {spans}");
}
