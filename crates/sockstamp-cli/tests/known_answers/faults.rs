//! One fault at a time, made with ordinary programs: the last line of `stat` names it.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use testbed::{Family, Host, LinkConfig, Process, within_attempts};

use crate::common::peer;
use crate::diagnosis::{TIMEOUT, last_line_on, last_line_while, tells};
use crate::full_qdisc::with_full_queue;
use crate::support::Pair;

/// Answers DNS questions for any name with 192.0.2.1 after 300 ms.
const SLOW_DNS: &str = "
import socket, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
open(sys.argv[2], 'w').close()
while True:
    question, peer = server.recvfrom(512)
    time.sleep(0.3)
    end = question.index(b'\\0', 12) + 5
    head = question[:2] + b'\\x85\\x80' + b'\\0\\1' + b'\\0\\1' + b'\\0' * 4
    answer = b'\\xc0\\x0c' + b'\\0\\1\\0\\1' + b'\\0\\0\\0\\x3c' + b'\\0\\4' + bytes([192, 0, 2, 1])
    server.sendto(head + question[12:end] + answer, peer)
";

/// Answers HTTP requests after 300 ms.
const SLOW_WEB: &str = "
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.3)
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
";

fn run_peer_on(pair: &Pair, words: &str) -> String {
    let (address, peer) = (pair.address.to_string(), peer());
    let words: Vec<_> = words.split_whitespace().collect();
    last_line_on(
        &pair.client,
        &[&[&peer[..]], &words[..], &["--connect", &address]].concat(),
    )
}

#[test]
fn loss() {
    let line = LinkConfig::default()
        .delay(Duration::from_millis(5))
        .loss(0.05)
        .offload(false);
    let pair = Pair::relay(line, Family::V4);
    let _sink = pair.serve(&["sink"]);
    within_attempts(|| {
        let line = run_peer_on(&pair, "blast --sends 400 --size 1400 --interval-ms 2");
        tells(line, "packets are lost: ")
    });
}

#[test]
fn a_reader_at_the_peer_that_is_slow() {
    let pair = Pair::veth(Family::V4);
    let _sink = pair.serve(&["sink", "--rate-limit", "200000", "--rcvbuf", "20000"]);
    within_attempts(|| {
        let line = run_peer_on(&pair, "blast --sends 40 --size 10000");
        tells(
            line,
            "the peer's full receive window: its program reads too slowly",
        )
    });
}

#[test]
fn a_reader_here_that_is_slow() {
    let pair = Pair::veth(Family::V4);
    // It knows of a request by poll(2), and reads it 30 ms later.
    let server = pair.serve(&["serve", "--think", "30"]);
    let process = server.id().to_string();
    within_attempts(|| {
        let line = last_line_while(&["-p", &process], || {
            pair.run_peer("client --count 20");
        });
        tells(line, "the program, which comes late to read it (rx.app)")
    });
}

#[test]
fn a_slow_upstream_behind_a_proxy() {
    let host = Host::new("proxy").unwrap();
    let _upstream = host.spawn("python3", &["-c", SLOW_WEB, "8081"]).unwrap();
    host.wait_for_port(SocketAddr::from(([127, 0, 0, 1], 8081)), TIMEOUT)
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let configuration = format!(
        "daemon off; master_process off; user root; pid {at}/pid; error_log {at}/errors; events {{}}\n\
         http {{ access_log off; server {{ listen 8080; location / {{ proxy_pass http://127.0.0.1:8081; }} }} }}\n"
    );
    let file = folder.path().join("nginx.conf");
    fs::write(&file, configuration).unwrap();
    let proxy = host.spawn("nginx", &["-c", file.to_str().unwrap()]).unwrap();
    host.wait_for_port(SocketAddr::from(([127, 0, 0, 1], 8080)), TIMEOUT)
        .unwrap();
    let process = proxy.id().to_string();
    within_attempts(|| {
        let line = last_line_while(&["-p", &process], || {
            for _ in 0..5 {
                host.run("curl", &["-s", "http://127.0.0.1:8080/"]).unwrap();
            }
        });
        tells(line, "peers take ")
    });
}

fn wait_for_file(path: &std::path::Path, server: &mut Process) {
    while !path.exists() {
        assert!(server.is_running().unwrap(), "{}", server.stderr());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn slow_dns() {
    let host = Host::new("dns").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let arguments = ["-c", SLOW_DNS, "127.0.0.1", ready.to_str().unwrap()];
    let mut server = host.spawn("python3", &arguments).unwrap();
    wait_for_file(&ready, &mut server);
    within_attempts(|| {
        let line = last_line_on(
            &host,
            &["dig", "-r", "@127.0.0.1", "+tries=1", "+noedns", "one.test"],
        );
        tells(line, "127.0.0.1:53 takes ")
    });
}

#[test]
fn a_queue_that_is_full_at_the_sender() {
    let pair = Pair::veth(Family::V4);
    let device = pair.link.interface_a();
    let tbf = ["root", "tbf", "rate", "10mbit", "burst", "10kb", "limit", "1mb"];
    pair.client
        .run("tc", &[&["qdisc", "add", "dev", device], &tbf[..]].concat())
        .unwrap();
    let _serve = pair.serve(&["serve"]);
    let receiver = pair
        .server
        .udp_bind(SocketAddr::new(pair.address.ip(), 0))
        .unwrap();
    let sender = pair
        .client
        .udp_bind(SocketAddr::new(pair.link.address_a(Family::V4), 0))
        .unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let expected = format!("the packet scheduler of {device} (tx.qdisc)");
    with_full_queue(&sender, || {
        within_attempts(|| tells(run_peer_on(&pair, "client --count 10"), &expected));
    });
}

#[test]
fn a_program_that_holds_back() {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve", "--request", "128"]);
    within_attempts(|| {
        let words = "client --count 20 --request 128 --pieces 2 --hold 30 --hold-back cork";
        tells(run_peer_on(&pair, words), "held back by the program itself")
    });
}
