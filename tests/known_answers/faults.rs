//! One fault at a time, made with ordinary programs: the last line of `stat` names it.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use testbed::{Family, Host, LinkConfig, PATIENCE, Process, within_attempts};
use with::full_queue::with_full_queue;
use with::last_line::{
    download, last_line_on, last_line_while, of_a_download, room_for_a_page, tells, tells_among,
};
use with::pair::Pair;
use with::programs::{
    LOCALHOST, Redis, busy_neighbours, halves, nginx, nginx_with_page, redis_with_little_weight,
    run, start_chat, start_script, start_slow_dns, start_slow_web, wait_read, waiting,
};
use with::qdisc::kernel_counter;
use with::{stat_command, wait_until};

fn start_iperf3(pair: &Pair) -> Process {
    let server = pair.server.spawn("iperf3", &["-s"]).unwrap();
    let address = SocketAddr::new(pair.address.ip(), 5201);
    pair.server.wait_for_port(address, PATIENCE).unwrap();
    server
}

fn last_line_of_words(host: &Host, words: &str) -> String {
    last_line_on(host, &words.split(' ').collect::<Vec<_>>())
}

#[test]
fn loss_is_diagnosed() {
    let line = LinkConfig::default()
        .delay(Duration::from_millis(5))
        .loss(0.05)
        .offload(false);
    let pair = Pair::relay(line, Family::V4);
    let _server = start_iperf3(&pair);
    within_attempts(|| {
        let words = format!("iperf3 -c {} -b 5M -l 1400 -t 2", pair.address.ip());
        tells(
            last_line_of_words(&pair.client, &words),
            "packets are lost on the way there and sent again: ",
        )
    });
}

/// Check the time in a diagnosis that is the right one.
fn tells_time(line: String, expected: &str) -> Result<(), String> {
    if line.contains(expected) {
        Ok(())
    } else {
        Err(line)
    }
}

/// A program that comes late to read what curl writes to it.
const LATE: &str = "| { sleep 1.2; cat > /dev/null; }";

#[test]
fn a_slow_reader_at_the_peer_is_diagnosed() {
    let pair = Pair::veth(Family::V4);
    small_windows(&pair, 20_000);
    within_attempts(|| {
        tells(
            of_a_download(&pair, 1_000_000, LATE),
            "the peer's full receive window (rwnd): its program reads too slowly",
        )
    });
}

fn small_windows(pair: &Pair, bytes: u32) {
    room_for_a_page(pair);
    let window = format!("4096 {bytes} {bytes}");
    pair.client
        .set_sysctl("net.ipv4.tcp_rmem", &window)
        .unwrap();
}

#[test]
fn a_small_receive_window_at_the_peer_is_diagnosed() {
    let line = LinkConfig::default().delay(Duration::from_millis(15));
    let pair = Pair::relay(line, Family::V4);
    small_windows(&pair, 4096);
    within_attempts(|| {
        tells(
            of_a_download(&pair, 200_000, "> /dev/null"),
            "or its receive buffer is small",
        )
    });
}

/// curl reads no more before its output has room: its own pace, which a note tells.
#[test]
fn a_reader_that_waits_for_its_output_sets_its_own_pace() {
    let pair = Pair::veth(Family::V4);
    let folder = tempfile::tempdir().unwrap();
    let _server = nginx_with_page(&pair.server, folder.path(), 2_000_000, pair.address);
    within_attempts(|| {
        let measured = stat_command(&pair.client, &["sh", "-c", &download(&pair, LATE)]);
        let notes = measured.report["diagnosis"]["notes"].to_string();
        let is_told = notes.contains("curl reads data of ");
        is_told.then_some(()).ok_or(notes)
    });
}

/// The path is slow since another flow of the server's fills the queue of its uplink.
#[test]
fn a_full_queue_on_the_way_back_is_diagnosed() {
    let pair = Pair::veth(Family::V4);
    let device = pair.link.interface_b();
    let tbf = [
        "root", "tbf", "rate", "10mbit", "burst", "10kb", "limit", "1mb",
    ];
    pair.server
        .run("tc", &[&["qdisc", "add", "dev", device], &tbf[..]].concat())
        .unwrap();
    let redis = Redis::start(&pair.server, pair.address.ip(), &[]);
    let receiver = pair
        .client
        .udp_bind(SocketAddr::new(pair.link.address_a(Family::V4), 0))
        .unwrap();
    let sender = pair
        .server
        .udp_bind(SocketAddr::new(pair.address.ip(), 0))
        .unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let expected = format!("{} takes ", redis.address);
    let folder = tempfile::tempdir().unwrap();
    let [begun, full] = ["begun", "full"].map(|name| folder.path().join(name));
    // The first round trip shows how short the path is.
    let ping = redis.client("ping");
    let pings = redis.client("-r 10 ping");
    let script = format!(
        "{ping}; touch {}; until [ -e {} ]; do sleep 0.01; done; {pings}",
        begun.display(),
        full.display()
    );
    within_attempts(|| {
        for file in [&begun, &full] {
            let _ = fs::remove_file(file);
        }
        let line = thread::scope(|scope| {
            scope.spawn(|| {
                wait_until("the queue is due", || begun.exists());
                with_full_queue(&sender, || {
                    fs::write(&full, "").unwrap();
                    thread::sleep(Duration::from_secs(3));
                });
            });
            last_line_on(&pair.client, &["sh", "-c", &script])
        });
        tells(line.clone(), &expected)?;
        tells(line, "; or the way there and back")
    });
}

#[test]
fn a_neighbour_on_the_cpu_is_diagnosed() {
    let host = Host::new("neighbour").unwrap();
    let redis = redis_with_little_weight(&host);
    let process = redis.server.id().to_string();
    let _neighbours = busy_neighbours(&host);
    within_attempts(|| {
        // Half of the waits are about as long as the default of --slow.
        let line = last_line_while(&["-p", &process, "--slow", "2ms"], || {
            run(&host, &redis.client("-r 15 -i 0.04 ping"));
        });
        tells(line, "it waits for a CPU (")
    });
}

#[test]
fn a_slow_handler_is_diagnosed() {
    let host = Host::new("web").unwrap();
    let _server = start_slow_web(&host, SocketAddr::new(LOCALHOST, 8081), ["0.3", "0"]);
    within_attempts(|| {
        let line = last_line_on(&host, &["curl", "-s", "http://127.0.0.1:8081/"]);
        tells(line.clone(), "127.0.0.1:8081 takes ")?;
        tells_time(line, "127.0.0.1:8081 takes 30")
    });
}

/// While the server is stopped, this many clients find room in its queue.
const QUEUE: u64 = 2;

#[test]
fn a_full_accept_queue_is_diagnosed() {
    const CLIENTS: u64 = 8;
    let host = Host::new("queue").unwrap();
    let redis = Redis::start(&host, LOCALHOST, &["--tcp-backlog", "1"]);
    within_attempts(|| {
        let before = [dropped(&host), overflows(&host)];
        // The clients' handshakes, which take as long, are not its messages.
        let line = last_line_while(&["-p", &redis.server.id().to_string()], || {
            redis.server.signal(Signal::SIGSTOP).unwrap();
            thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(|| run(&host, &redis.client("ping")));
                }
                wait_until("the queue is full", || {
                    dropped(&host) >= before[0] + CLIENTS - QUEUE
                });
                redis.server.signal(Signal::SIGCONT).unwrap();
            });
        });
        tells(line.clone(), "the accept queue of 0.0.0.0:6379 is full (")?;
        let all = overflows(&host) - before[1];
        let expected = format!("{all} SYNs or ends of handshakes were dropped");
        assert!(line.contains(&expected), "{all} by nstat; {line}");
        Ok(())
    });
}

fn overflows(host: &Host) -> u64 {
    kernel_counter(host, "TcpExtListenOverflows")
}

/// Its SYN finds the queue full, and the next one, a second later, finds room.
#[test]
fn a_connect_that_waits_for_an_accept_queue_is_diagnosed() {
    let host = Host::new("queue").unwrap();
    let redis = Redis::start(&host, LOCALHOST, &["--tcp-backlog", "1"]);
    within_attempts(|| {
        redis.server.signal(Signal::SIGSTOP).unwrap();
        let before = dropped(&host);
        let line = thread::scope(|scope| {
            for _ in 0..QUEUE {
                scope.spawn(|| run(&host, &redis.client("ping")));
            }
            wait_until("the queue is full", || waiting(&host) == QUEUE);
            scope.spawn(|| {
                wait_until("a SYN is dropped", || dropped(&host) > before);
                redis.server.signal(Signal::SIGCONT).unwrap();
            });
            last_line_of_words(&host, &redis.client("ping"))
        });
        tells(line.clone(), "redis-cli waits ")?;
        assert!(line.contains("s to connect to 127.0.0.1:6379"), "{line}");
        assert!(line.contains("SYNs are sent again"), "{line}");
        tells_time(line, "redis-cli waits 1.0")
    });
}

/// Return the SYNs that the kernel has dropped at the host's listeners.
fn dropped(host: &Host) -> u64 {
    let text = host.run("nstat", &["-asz", "TcpExtListenDrops"]).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("TcpExtListenDrops"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn a_slow_upstream_behind_a_proxy_is_diagnosed() {
    let host = Host::new("proxy").unwrap();
    let [front, upstream] = [8080, 8081].map(|port| SocketAddr::new(LOCALHOST, port));
    let _upstream = start_slow_web(&host, upstream, ["0.3", "0"]);
    let folder = tempfile::tempdir().unwrap();
    let servers = "server { listen 8080; location / { proxy_pass http://127.0.0.1:8081; } }";
    let proxy = nginx(&host, folder.path(), "proxy", servers, &[front]);
    let process = proxy.id().to_string();
    within_attempts(|| {
        let line = last_line_while(&["-p", &process], || {
            for _ in 0..5 {
                run(&host, "curl -s http://127.0.0.1:8080/");
            }
        });
        tells(line, "127.0.0.1:8081 takes ")
    });
}

#[test]
fn slow_dns_is_diagnosed() {
    let host = Host::new("dns").unwrap();
    let _server = start_slow_dns(&host);
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
    pair.server.wait_for_port(dns, PATIENCE).unwrap();
    let server = format!("@{address}");
    within_attempts(|| {
        let dig = ["dig", "-r", &server, "+tcp", "+tries=1", "one.test"];
        tells(
            last_line_on(&pair.client, &dig),
            &format!("for each request to {dns} (DNS), a new connection included"),
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
    let folder = tempfile::tempdir().unwrap();
    let _server = nginx_with_page(&pair.server, folder.path(), 500_000, pair.address);
    within_attempts(|| {
        let words = format!("curl -s -o /dev/null http://{}/page", pair.address);
        let line = last_line_of_words(&pair.client, &words);
        // The SYN may be lost, too.
        let others = ["SYNs are sent again"];
        tells_among(line, "packets to this host are lost or reordered", &others)
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
    host.wait_for_port(SocketAddr::from(([127, 0, 0, 1], 8081)), PATIENCE)
        .unwrap();
    let process = server.id().to_string();
    let clients = "for i in $(seq 15); do curl -s http://127.0.0.1:8081/ & done; wait";
    within_attempts(|| {
        let line = last_line_while(&["-p", &process], || {
            host.run("sh", &["-c", clients]).unwrap();
        });
        tells(line.clone(), "connections wait ")?;
        tells(line, "to be accepted by python3 at :8081")
    });
}

#[test]
fn a_port_where_nothing_listens_is_diagnosed() {
    let host = Host::new("closed").unwrap();
    // curl fails with status 7.
    let script = "curl -s http://127.0.0.1:8081/ || true";
    within_attempts(|| {
        let line = last_line_on(&host, &["sh", "-c", script]);
        tells(line, "connects of curl to 127.0.0.1:8081 were refused")
    });
}

/// Read a datagram every 10 ms, from a buffer with room for a few.
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
    let server = start_script(&host, SLOW_DATAGRAMS);
    let process = server.id().to_string();
    let send = "exec 3> /dev/udp/127.0.0.1/5000; for i in {1..100}; do printf %500s >&3; sleep 0.001; done";
    within_attempts(|| {
        let line = last_line_while(&["-p", &process, "--expert=attach=all"], || {
            host.run("bash", &["-c", send]).unwrap();
            wait_read(&host, 5000);
        });
        tells(line, "datagrams were dropped at their socket")
    });
}

#[test]
fn a_full_queue_at_the_sender_is_diagnosed() {
    let pair = Pair::veth(Family::V4);
    let device = pair.link.interface_a();
    let tbf = [
        "root", "tbf", "rate", "10mbit", "burst", "10kb", "limit", "1mb",
    ];
    pair.client
        .run("tc", &[&["qdisc", "add", "dev", device], &tbf[..]].concat())
        .unwrap();
    let redis = Redis::start(&pair.server, pair.address.ip(), &[]);
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
        let client = redis.client("-r 10 ping");
        within_attempts(|| tells(last_line_of_words(&pair.client, &client), &expected));
    });
}

#[test]
fn a_program_that_holds_data_back_is_diagnosed() {
    let pair = Pair::veth(Family::V4);
    let _chat = start_chat(&pair.server, pair.address);
    let client = halves(pair.address, "0.03", true);
    let client: Vec<_> = client.iter().map(String::as_str).collect();
    within_attempts(|| {
        tells(
            last_line_on(&pair.client, &client),
            "held back by the program itself",
        )
    });
}
