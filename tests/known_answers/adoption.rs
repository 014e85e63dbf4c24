//! 10 000 connections that clients and a real server have had for a while, some of them busy, are
//! adopted: later counts equal the requests and answers of the clients.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;
use tempfile::TempDir;
use testbed::{Family, Host, PATIENCE, Process};
use with::{Stat, in_short, number, over_both_families, skip};

const CONNECTIONS: usize = 10_000;
/// This many of them send without a pause while the measurement starts.
const BUSY: usize = 16;
/// Requests on each connection once they are adopted.
const ROUNDS: usize = 2;

mod redis {
    super::over_both_families!(super::check_redis);
}

mod nginx {
    super::over_both_families!(super::check_nginx);
}

fn check_redis(family: Family) {
    let Some(mut clients) = Clients::of_redis("adoption::redis", family) else {
        return;
    };
    let netns = clients.host.netns_name().to_owned();
    // Both ends are in this namespace.
    clients.check(&["--netns", &netns], 2);
}

#[test]
fn connections_of_a_process_are_adopted() {
    let Some(mut clients) =
        Clients::of_redis("adoption::connections_of_a_process_are_adopted", Family::V4)
    else {
        return;
    };
    let pid = clients.server.id().to_string();
    // Ours are those of another process.
    clients.check(&["-p", &pid], 1);
}

fn check_nginx(family: Family) {
    let folder = TempDir::new().unwrap();
    let configuration = folder.path().join("nginx.conf");
    let error_log = folder.path().join("error.log");
    let text = format!(
        "daemon off; user root; worker_processes 2; pid {0}/pid; worker_rlimit_nofile {1};
         events {{ worker_connections {1}; }}
         http {{ access_log off; keepalive_timeout 600; keepalive_requests 1000000;
           server {{ listen 80; listen [::]:80; location / {{ return 200 'hello'; }} }} }}",
        folder.path().display(),
        CONNECTIONS + 100
    );
    fs::write(&configuration, text).unwrap();
    let words = [
        "nginx",
        "-c",
        configuration.to_str().unwrap(),
        "-e",
        error_log.to_str().unwrap(),
    ];
    let request = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";
    let Some(mut clients) = Clients::new("adoption::nginx", family, &words, 80, request) else {
        return;
    };
    let netns = clients.host.netns_name().to_owned();
    clients.check(&["--netns", &netns], 2);
}

/// Connections to one server, each of which has had an answer.
struct Clients {
    connections: Vec<Client>,
    server: Process,
    host: Host,
}

impl Clients {
    fn of_redis(test: &str, family: Family) -> Option<Clients> {
        let limit = (CONNECTIONS + 100).to_string();
        let words = ["redis-server", "--save", "", "--maxclients", &limit];
        Clients::new(test, family, &words, 6379, b"PING\r\n")
    }

    /// `None`, and said so, where a process may not have that many files.
    fn new(
        test: &str,
        family: Family,
        server: &[&str],
        port: u16,
        request: &'static [u8],
    ) -> Option<Clients> {
        let needed = CONNECTIONS as u64 + 200;
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        if hard < needed {
            skip(
                test,
                &format!("a process may have {hard} open files, {needed} are needed"),
            );
            return None;
        }
        setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard).unwrap();
        let address: IpAddr = match family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        };
        let address = SocketAddr::new(address, port);
        let host = Host::new("adoption").unwrap();
        let server = host.spawn(server[0], &server[1..]).unwrap();
        host.wait_for_port(address, PATIENCE).unwrap();
        let connections = host.enter(|| {
            (0..CONNECTIONS)
                .map(|_| Client::connect(address, request))
                .collect()
        });
        Some(Clients {
            connections,
            server,
            host,
        })
    }

    /// Measure `target`, which holds this many ends of each connection.
    fn check(&mut self, target: &[&str], ends: u64) {
        let (busy, _) = self.connections.split_at_mut(BUSY);
        let asked = AtomicU64::new(0);
        let stopped = AtomicBool::new(false);
        let (stat, before) = thread::scope(|scope| {
            for half in busy.chunks_mut(BUSY / 2) {
                let (asked, stopped) = (&asked, &stopped);
                scope.spawn(move || {
                    while !stopped.load(Ordering::Relaxed) {
                        for client in &mut *half {
                            asked.fetch_add(1, Ordering::Relaxed);
                            client.ask();
                        }
                    }
                });
            }
            let stat = Stat::start(target);
            let before = asked.load(Ordering::Relaxed);
            thread::sleep(Duration::from_millis(100));
            stopped.store(true, Ordering::Relaxed);
            (stat, before)
        });
        for _ in 0..ROUNDS {
            self.connections.iter_mut().for_each(Client::ask);
        }
        let report = stat.finish();
        println!("adopted {}; {}", report["adopted"], in_short(&report));

        assert_eq!(number(&report["adopted"]), ends * CONNECTIONS as u64);
        let after = asked.into_inner() - before + (ROUNDS * CONNECTIONS) as u64;
        for direction in ["tx", "rx"] {
            let messages = number(&report[direction]["messages"]);
            // One of two threads may have been about to send a request when the count was read.
            let least = ends * (after - 2);
            assert!(
                (least..=ends * (after + before)).contains(&messages),
                "{direction}: {messages}, {after} after and {before} before"
            );
        }
        assert_only_adoption_refused(&report, 2 * ends * BUSY as u64);
    }
}

/// Only messages that were under way when the busy connections were adopted are refused.
fn assert_only_adoption_refused(report: &Value, most: u64) {
    for (verdict, count) in report["verdicts"].as_object().unwrap() {
        match verdict.as_str() {
            "valid" => assert!(number(count) > 0),
            "adopted" => assert!(number(count) <= most, "{report}"),
            _ => assert_eq!(number(count), 0, "{verdict}: {report}"),
        }
    }
}

/// One connection: a request is one send, and its answer comes in one piece.
struct Client {
    socket: TcpStream,
    request: &'static [u8],
    answer: usize,
}

impl Client {
    fn connect(address: SocketAddr, request: &'static [u8]) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut client = Client {
            socket,
            request,
            answer: 0,
        };
        client.answer = client.exchange();
        client
    }

    fn exchange(&mut self) -> usize {
        self.socket.write_all(self.request).unwrap();
        self.socket.read(&mut [0; 4096]).unwrap()
    }

    fn ask(&mut self) {
        let taken = self.exchange();
        assert_eq!(taken, self.answer);
        assert!(taken > 0, "the server closed the connection");
    }
}
