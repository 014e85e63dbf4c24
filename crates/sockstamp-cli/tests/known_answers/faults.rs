//! One fault at a time, made with ordinary programs: the last line of `stat` names it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use socket2::{Domain, Socket, Type};
use testbed::{Family, Host, LinkConfig, Process, within_attempts};

use crate::common::peer;
use crate::diagnosis::{TIMEOUT, last_line_on, last_line_while, tells};
use crate::full_qdisc::with_full_queue;
use crate::support::Pair;

/// Answers DNS questions for any name with 192.0.2.1 after 300 ms.
pub(crate) const SLOW_DNS: &str = "
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

pub(crate) fn run_peer_on(pair: &Pair, words: &str) -> String {
    let (address, peer) = (pair.address.to_string(), peer());
    let words: Vec<_> = words.split_whitespace().collect();
    last_line_on(
        &pair.client,
        &[&[&peer[..]], &words[..], &["--connect", &address]].concat(),
    )
}

#[test]
fn loss_is_diagnosed() {
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
fn a_slow_reader_at_the_peer_is_diagnosed() {
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
fn a_small_receive_window_at_the_peer_is_diagnosed() {
    let line = LinkConfig::default().delay(Duration::from_millis(15));
    let pair = Pair::relay(line, Family::V4);
    let _sink = pair.serve(&["sink", "--rcvbuf", "4000"]);
    within_attempts(|| {
        let line = run_peer_on(&pair, "blast --sends 8 --size 20000");
        tells(line, "or its receive buffer is small")
    });
}

#[test]
fn a_slow_reader_here_is_diagnosed() {
    let pair = Pair::veth(Family::V4);
    // It knows of a request by poll(2), and reads it 30 ms later.
    let server = pair.serve(&["serve", "--think", "30"]);
    let process = server.id().to_string();
    within_attempts(|| {
        let line = last_line_while(&["-p", &process], || {
            pair.run_peer("client --count 20");
        });
        tells(line, "the program, which comes late to read it (rx.app")
    });
}

/// The path is slow since another flow of the server's fills the queue of its uplink.
#[test]
fn a_full_queue_on_the_way_back_is_diagnosed() {
    let pair = Pair::veth(Family::V4);
    let device = pair.link.interface_b();
    let tbf = ["root", "tbf", "rate", "10mbit", "burst", "10kb", "limit", "1mb"];
    pair.server
        .run("tc", &[&["qdisc", "add", "dev", device], &tbf[..]].concat())
        .unwrap();
    let _serve = pair.serve(&["serve"]);
    let receiver = pair
        .client
        .udp_bind(SocketAddr::new(pair.link.address_a(Family::V4), 0))
        .unwrap();
    let sender = pair
        .server
        .udp_bind(SocketAddr::new(pair.address.ip(), 0))
        .unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let peer = pair.address.to_string();
    with_full_queue(&sender, || {
        within_attempts(|| {
            let line = run_peer_on(&pair, "client --count 10");
            tells(line.clone(), &peer)?;
            tells(line, ", of which the path is ")
        });
    });
}

/// On one CPU with a neighbour that has forty times the server's weight.
#[test]
fn a_neighbour_on_the_cpu_is_diagnosed() {
    let pair = Pair::veth(Family::V4);
    let port = pair.address.port().to_string();
    let on_one_cpu = |nice: &str, words: &[&str]| {
        let place = ["--cpu-list", "0", "nice", "-n", nice];
        pair.server
            .spawn("taskset", &[&place[..], words].concat())
            .unwrap()
    };
    let server = on_one_cpu("10", &[&peer(), "serve", "--port", &port]);
    pair.server.wait_for_port(pair.address, TIMEOUT).unwrap();
    let process = server.id().to_string();
    // Of one neighbour, a reader that slept for long often waits for less than a slice.
    let _neighbours = [(); 3].map(|()| on_one_cpu("-7", &["sh", "-c", "while :; do :; done"]));
    within_attempts(|| {
        let line = last_line_while(&["-p", &process], || {
            pair.run_peer("client --count 15 --interval-ms 40");
        });
        tells(line, "the reader's wait for a CPU (rx.wakeup)")
    });
}

#[test]
fn a_slow_handler_is_diagnosed() {
    let host = Host::new("web").unwrap();
    let _server = host.spawn("python3", &["-c", SLOW_WEB, "8081"]).unwrap();
    host.wait_for_port(SocketAddr::from(([127, 0, 0, 1], 8081)), TIMEOUT)
        .unwrap();
    within_attempts(|| {
        let line = last_line_on(&host, &["curl", "-s", "http://127.0.0.1:8081/"]);
        tells(line, "127.0.0.1:8081 takes 30")
    });
}

fn listen(host: &Host, backlog: i32) -> (TcpListener, SocketAddr) {
    host.enter(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).unwrap();
        socket.listen(backlog).unwrap();
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        (listener, address)
    })
}

/// Connections to a listener, whether or not they come to be established.
fn knock(host: &Host, address: SocketAddr, count: usize) -> Vec<Socket> {
    let knock = |_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let error = socket.connect(&address.into()).err();
        let error = error.and_then(|error| error.raw_os_error());
        assert!(matches!(error, None | Some(libc::EINPROGRESS)), "{error:?}");
        socket
    };
    host.enter(|| (0..count).map(knock).collect())
}

#[test]
fn a_full_accept_queue_is_diagnosed() {
    let host = Host::new("queue").unwrap();
    let (_listener, address) = listen(&host, 1);
    let line = last_line_while(&["--netns", host.netns_name()], || {
        let _knocking = knock(&host, address, 8);
    });
    let expected = format!("the accept queue of {address} is full (2 of 1 at the end): 6 SYNs");
    tells(line, &expected).unwrap();
}

/// Its SYN finds the queue full, and the next one, a second later, room.
#[test]
fn a_connect_that_waits_for_an_accept_queue_is_diagnosed() {
    let host = Host::new("queue").unwrap();
    let (listener, address) = listen(&host, 0);
    within_attempts(|| {
        let _waiting = knock(&host, address, 1);
        thread::scope(|scope| {
            scope.spawn(|| {
                let begin = Instant::now();
                while dropped(&host) == 0 && begin.elapsed() < TIMEOUT {
                    thread::sleep(Duration::from_millis(20));
                }
                let _first = listener.accept().unwrap();
                let (mut asked, _) = listener.accept().unwrap();
                assert!(asked.read(&mut [0; 1000]).unwrap() > 0);
                asked.write_all(b"HTTP/1.0 204 No Content\r\n\r\n").unwrap();
            });
            let line = last_line_on(&host, &["curl", "-s", &format!("http://{address}/")]);
            tells(line.clone(), "connects take 1.0")?;
            tells(line, "1 SYN was sent again")
        })
    });
}

/// Return the SYNs that the kernel has dropped at the host's listeners.
fn dropped(host: &Host) -> u64 {
    let text = host.run("nstat", &["-asz", "TcpExtListenDrops"]).unwrap();
    let line = text.lines().find(|line| line.starts_with("TcpExtListenDrops"));
    line.unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_slow_upstream_behind_a_proxy_is_diagnosed() {
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
        tells(line, "127.0.0.1:8081 takes ")
    });
}

pub(crate) fn wait_for_file(path: &std::path::Path, server: &mut Process) {
    while !path.exists() {
        assert!(server.is_running().unwrap(), "{}", server.stderr());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn slow_dns_is_diagnosed() {
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
        tells(line, "127.0.0.1:53 (DNS) takes ")
    });
}

/// dig's question by TCP to dnsmasq, over a path of 60 ms.
#[test]
fn dns_by_tcp_on_a_long_path_is_diagnosed() {
    let line = LinkConfig::default().delay(Duration::from_millis(30));
    let pair = Pair::relay(line, Family::V4);
    let address = pair.address.ip().to_string();
    let listen = format!("--listen-address={address}");
    let words = [
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
    ];
    let more = [
        "--user=root",
        "--pid-file=",
        "--bind-interfaces",
        "--host-record=one.test,192.0.2.1",
    ];
    let _server = pair
        .server
        .spawn("dnsmasq", &[&words[..], &more, &[&listen]].concat())
        .unwrap();
    let dns = SocketAddr::new(pair.address.ip(), 53);
    pair.server.wait_for_port(dns, TIMEOUT).unwrap();
    let server = format!("@{address}");
    within_attempts(|| {
        let dig = ["dig", "-r", &server, "+tcp", "+tries=1", "one.test"];
        tells(
            last_line_on(&pair.client, &dig),
            &format!("answers of {dns} (DNS) take 6"),
        )
    });
}

#[test]
fn loss_on_the_way_here_is_diagnosed() {
    let line = LinkConfig::default()
        .delay(Duration::from_millis(10))
        .loss(0.05)
        .offload(false);
    let pair = Pair::relay(line, Family::V4);
    let sink = pair.serve(&["sink"]);
    let process = sink.id().to_string();
    within_attempts(|| {
        let line = last_line_while(&["-p", &process], || {
            pair.run_peer("blast --sends 400 --size 1400 --interval-ms 2");
        });
        tells(line, "packets to this host are lost or reordered")
    });
}

/// Serves one request after another, with a pause of 100 ms.
const ONE_BY_ONE: &str = "
import socket, sys, time
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))
while True:
    served, _ = listener.accept()
    served.recv(1000)
    served.sendall(b'HTTP/1.0 204 No Content\\r\\n\\r\\n')
    served.close()
    time.sleep(0.1)
";

#[test]
fn a_server_that_accepts_late_is_diagnosed() {
    let host = Host::new("late").unwrap();
    let server = host.spawn("python3", &["-c", ONE_BY_ONE, "8081"]).unwrap();
    host.wait_for_port(SocketAddr::from(([127, 0, 0, 1], 8081)), TIMEOUT)
        .unwrap();
    let process = server.id().to_string();
    let clients = "for i in 1 2 3 4 5; do curl -s http://127.0.0.1:8081/ & done; wait";
    within_attempts(|| {
        let line = last_line_while(&["-p", &process], || {
            host.run("sh", &["-c", clients]).unwrap();
        });
        tells(line.clone(), "python3 8081: connections wait ")?;
        tells(line, "to be accepted")
    });
}

#[test]
fn a_port_where_nothing_listens_is_diagnosed() {
    let host = Host::new("closed").unwrap();
    // curl fails with status 7.
    let script = "curl -s http://127.0.0.1:8081/ || true";
    let line = last_line_on(&host, &["sh", "-c", script]);
    tells(line, "1 of 1 connects failed, most as connect-refused").unwrap();
}

/// Reads a datagram every 10 ms, from a buffer with room for a few.
const SLOW_DATAGRAMS: &str = "
import socket, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
server.bind(('127.0.0.1', 5000))
open(sys.argv[1], 'w').close()
while True:
    server.recv(2000)
    time.sleep(0.01)
";

#[test]
fn a_receive_buffer_that_overflows_is_diagnosed() {
    let host = Host::new("overflow").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let arguments = ["-c", SLOW_DATAGRAMS, ready.to_str().unwrap()];
    let mut server = host.spawn("python3", &arguments).unwrap();
    wait_for_file(&ready, &mut server);
    let process = server.id().to_string();
    let sender = host.udp_bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let line = last_line_while(&["-p", &process, "--attach-all"], || {
        for _ in 0..100 {
            sender.send_to(&[0; 500], "127.0.0.1:5000").unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        // Until those that found room are read.
        thread::sleep(Duration::from_millis(100));
    });
    tells(line, "datagrams were dropped at their socket").unwrap();
}

#[test]
fn a_full_queue_at_the_sender_is_diagnosed() {
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
fn a_program_that_holds_data_back_is_diagnosed() {
    let pair = Pair::veth(Family::V4);
    let _serve = pair.serve(&["serve", "--request", "128"]);
    within_attempts(|| {
        let words = "client --count 20 --request 128 --pieces 2 --hold 30 --hold-back cork";
        tells(run_peer_on(&pair, words), "held back by the program itself")
    });
}
