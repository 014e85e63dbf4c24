//! The first line of `stat -- COMMAND`: for which peer the command waited, and how long. The
//! witness is curl, by its own clock.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::NamedTempFile;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE, Process, within_attempts};
use with::expected::{ms, within};
use with::programs::start_slow_dns;
use with::{hooks, number, sockstamp, stat_command};

const PORT: u16 = 8080;

/// Serves on the port given: `/300` answers after 300 ms.
const SERVER: &str = "
import http.server, socketserver, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(int(self.path[1:]) / 1000)
        self.send_response(200)
        self.send_header('Content-Length', '5')
        self.end_headers()
        self.wfile.write(b'done\\n')
    def log_message(self, *arguments):
        pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
Server(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
";

struct Web {
    host: Host,
    _server: Process,
}

impl Web {
    fn start() -> Self {
        let host = Host::new("web").unwrap();
        let _server = host
            .spawn("python3", &["-c", SERVER, &PORT.to_string()])
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], PORT));
        host.wait_for_port(address, PATIENCE).unwrap();
        Self { host, _server }
    }

    /// Run `stat -- sh -c script`; return its JSON and what the script printed.
    fn stat(&self, script: &str) -> (Value, String) {
        let output = NamedTempFile::new().unwrap();
        let path = output.path().to_str().unwrap();
        let mut arguments = vec![
            "stat".to_owned(),
            "--format".into(),
            "json".into(),
            "-o".into(),
        ];
        arguments.push(path.to_owned());
        arguments.extend(hooks());
        arguments.extend(["--", "sh", "-c", script].map(str::to_owned));
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let printed = self.host.run(sockstamp(), &arguments).unwrap();
        let report = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        (report, printed)
    }
}

/// Return the time of waits for data of this port's server, after checking that all parts add up.
fn waited(report: &Value) -> u64 {
    let wall_time = &report["wall_time"];
    println!("{wall_time}");
    let waits = wall_time["waits"].as_array().unwrap();
    let of = |wait: &Value| number(&wait["ns"]);
    let sum: u64 = waits.iter().map(of).sum();
    assert_eq!(
        sum + number(&wall_time["own_ns"]),
        number(&wall_time["wall_ns"])
    );
    let peer = format!("127.0.0.1:{PORT}");
    let ours = waits
        .iter()
        .filter(|wait| wait["peer"] == peer.as_str() && wait["kind"] == "waiting");
    ours.map(of).sum()
}

/// curl's seconds, as `%{time_starttransfer}`.
fn nanoseconds(seconds: &str) -> u64 {
    let (whole, part) = seconds.trim().split_once('.').unwrap();
    let micros: u64 = part.parse().unwrap();
    assert_eq!(part.len(), 6, "{seconds}");
    whole.parse::<u64>().unwrap() * ms(1_000) + micros * 1_000
}

#[test]
fn the_wait_for_an_answer_is_separate_from_the_commands_own_time() {
    let web = Web::start();
    let url = format!("http://127.0.0.1:{PORT}");
    let script = format!(
        "curl -s -o /dev/null -w '%{{time_pretransfer}} %{{time_starttransfer}}\\n' {url}/300; sleep 0.2"
    );
    within_attempts(|| {
        let (report, printed) = web.stat(&script);
        let (before, first) = printed.trim().split_once(' ').unwrap();
        // curl's times: from about to send the request to the first byte of the answer.
        let expected = nanoseconds(first) - nanoseconds(before);
        let waited = waited(&report);
        let own = number(&report["wall_time"]["own_ns"]);
        if waited.abs_diff(expected) > ms(5) || own < ms(200) || own > ms(280) {
            return Err(format!("waited {waited} ns, by curl {expected}; own {own}"));
        }
        Ok(())
    });
}

/// Side by side, 200 and 300 ms are 300 ms.
#[test]
fn waits_of_parallel_downloads_are_counted_once() {
    let web = Web::start();
    let url = format!("http://127.0.0.1:{PORT}");
    let script =
        format!("curl -s -Z --parallel-immediate {url}/200 -o /dev/null {url}/300 -o /dev/null");
    within_attempts(|| {
        let (report, _) = web.stat(&script);
        match waited(&report) {
            waited if (ms(300)..ms(320)).contains(&waited) => Ok(()),
            waited => Err(format!("waited {waited} ns")),
        }
    });
}

/// The name server answers after 300 ms, as dig says itself; the waits and the rest are the time
/// that a clock of the command's own saw, within 1 %: bash reads it without starting a program
/// (`EPOCHREALTIME`, in microseconds). With `-u` dig reads a clock of full resolution
/// (`isc_time_now_hires()`); otherwise one that is a timer tick behind.
#[test]
fn the_wait_for_a_name_server_is_separate_from_the_commands_own_time() {
    let host = Host::new("dns").unwrap();
    let _server = start_slow_dns(&host);
    let script = "LC_ALL=C; echo $EPOCHREALTIME; dig -r -u @127.0.0.1 +tries=1 +noedns one.test; \
                  sleep 2; echo $EPOCHREALTIME";
    within_attempts(|| {
        let measured = stat_command(&host, &["bash", "-c", script]);
        let wall_time = &measured.report["wall_time"];
        let times: Vec<u64> = measured
            .stdout
            .lines()
            .filter_map(|line| line.replacen('.', "", 1).parse::<u64>().ok())
            .map(|micros| micros * 1000)
            .collect();
        let [begin, end] = times[..] else {
            panic!("{}", measured.stdout);
        };
        let by_dig = measured.stdout.lines().find_map(|line| {
            let micros = line
                .strip_prefix(";; Query time: ")?
                .strip_suffix(" usec")?;
            micros.parse::<u64>().ok()
        });
        let by_dig = by_dig.unwrap_or_else(|| panic!("{}", measured.stdout)) * 1000;
        let [wait] = &wall_time["waits"].as_array().unwrap()[..] else {
            panic!("{wall_time}");
        };
        assert_eq!(wait["peer"], "127.0.0.1:53");
        let waited = number(&wait["ns"]);
        let sum = waited + number(&wall_time["own_ns"]);
        assert_eq!(sum, number(&wall_time["wall_ns"]));
        within("the wait", waited, ms(300)..=by_dig)?;
        within("the sum", sum, end - begin..=(end - begin) * 101 / 100)
    });
}

/// 100 ms of link, and no longer than curl's own `time_connect`.
#[test]
fn the_wait_for_a_connection_is_separate_from_the_commands_own_time() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::relay(
        &a,
        &b,
        LinkConfig::default().delay(Duration::from_millis(50)),
    )
    .unwrap();
    let address = SocketAddr::new(link.address_b(Family::V4), 0);
    let listener = b.tcp_listen(address).unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("http://{address}/");
    let curl = [
        "curl",
        "-s",
        "-w",
        "%{time_connect}",
        "-o",
        "/dev/null",
        &url,
    ];
    let measured = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut served, _) = listener.accept().unwrap();
            // curl sends its request at once.
            assert!(served.read(&mut [0; 4096]).unwrap() > 0);
            served
                .write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        });
        stat_command(&a, &curl)
    });
    let by_curl = nanoseconds(&measured.stdout);
    let waits = measured.report["wall_time"]["waits"].as_array().unwrap();
    let peer = address.to_string();
    let connecting = waits
        .iter()
        .find(|wait| wait["kind"] == "connecting" && wait["peer"] == peer.as_str());
    let connecting = connecting.unwrap_or_else(|| panic!("{}", measured.report["wall_time"]));
    let ns = number(&connecting["ns"]);
    assert!(
        (ms(100)..=by_curl).contains(&ns),
        "by curl {by_curl}: {connecting}"
    );
}

/// Computes half a second of a CPU that it shares, while another thread waits for what comes each
/// 20 ms; prints the time that its first thread has run, and waited for the CPU.
const COMPUTING: &str = "
import os, socket, sys, threading, time
os.sched_setaffinity(0, {0})
port = int(sys.argv[1])
beats = socket.create_connection(('127.0.0.1', port))
def take():
    while beats.recv(100):
        pass
threading.Thread(target=take, daemon=True).start()
while time.thread_time() < 0.5:
    pass
print(*open('/proc/self/schedstat').read().split()[:2], flush=True)
os._exit(0)
";

/// While its first thread computes, or waits for its CPU, the command waits for nobody.
#[test]
fn a_wait_for_a_cpu_is_no_wait_of_another_thread_for_a_peer() {
    let host = Host::new("computes").unwrap();
    let _hog = host
        .spawn("taskset", &["-c", "0", "sh", "-c", "while :; do :; done"])
        .unwrap();
    let listener = host.tcp_listen(([127, 0, 0, 1], 0).into()).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let measured = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut beats, _) = listener.accept().unwrap();
            while beats.write_all(b"beat").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        stat_command(&host, &["python3", "-c", COMPUTING, &port])
    });
    let wall_time = &measured.report["wall_time"];
    println!("{} {wall_time}", measured.stdout);
    let mut by_kernel = measured.stdout.split_whitespace().map(str::parse::<u64>);
    let mut next = || by_kernel.next().unwrap().unwrap();
    let (ran, delayed) = (next(), next());
    assert!(delayed > ms(100), "it had the CPU for itself");
    assert!(number(&wall_time["own_ns"]) >= ran + delayed, "{wall_time}");
    // Some of it is of the other thread, and of Python's start.
    let [running, runnable] =
        ["running_ns", "runnable_ns"].map(|part| number(&wall_time["own"][part]));
    assert!(
        running >= ran && running + runnable >= ran + delayed,
        "{wall_time}"
    );
}

#[test]
fn the_first_line_of_stat_names_the_peer_that_a_command_waited_for() {
    let web = Web::start();
    let output = NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap();
    let url = format!("http://127.0.0.1:{PORT}/300");
    let mut arguments = vec!["stat", "-o", path, "--", "curl", "-s", "-o", "/dev/null"];
    arguments.push(&url);
    within_attempts(|| {
        web.host.run(sockstamp(), &arguments).unwrap();
        let text = fs::read_to_string(path).unwrap();
        // The sentence continues in the next lines if it is too long for a terminal.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let first = words.split_inclusive(" own").next().unwrap_or_default();
        let peer = format!(" ms waiting for 127.0.0.1:{PORT}, ");
        let parts = first
            .split_once(": ")
            .and_then(|(_, waits)| waits.split_once(&peer));
        let (waited, own) = parts.unwrap_or_else(|| panic!("{first}"));
        assert!(own.ends_with(" own"), "{first}");
        match waited.starts_with("30") {
            true => Ok(()),
            false => Err(first.to_owned()),
        }
    });
}
