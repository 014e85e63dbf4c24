//! Faults of ordinary programs: `explain` names each first, in the words of docs/diagnosis.md.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use testbed::{Cgroup, Direction, Family, Host, Link, LinkConfig, within_attempts};
use with::explained::{explained, names};
use with::programs::{
    LOCALHOST, Redis, busy_neighbours, nginx, nginx_with_page, redis_with_little_weight, run,
    start_slow_web, waiting,
};
use with::wait_until;

/// Return a counter of nstat(8).
fn counter(host: &Host, name: &str) -> u64 {
    let text = host.run("nstat", &["-asz", name]).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Connections that are opened while the server is stopped.
const OPENED: u64 = 64;

/// A server that is stopped, until this is dropped: also where a test fails, whose threads wait for
/// its answers.
struct Stopped<'a>(&'a Redis);

impl<'a> Stopped<'a> {
    fn new(redis: &'a Redis) -> Stopped<'a> {
        redis.server.signal(Signal::SIGSTOP).unwrap();
        // The server may accept a connection before the signal reaches it.
        let state = format!("/proc/{}/stat", redis.server.id());
        wait_until("the server stands still", || {
            fs::read_to_string(&state).unwrap().contains(") T ")
        });
        Stopped(redis)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.server.signal(Signal::SIGCONT).unwrap();
    }
}

/// Explain many requests by a connection each, and some while the server is stopped, three times:
/// until `stalled`, and then for 300 ms.
fn with_pauses(host: &Host, redis: &Redis, stalled: impl Fn() -> bool) -> String {
    let ask = || {
        let mut socket = host.tcp_connect(redis.address).unwrap();
        socket.write_all(b"PING\r\n").unwrap();
        socket.read_exact(&mut [0; b"+PONG\r\n".len()]).unwrap();
    };
    explained(
        &["--netns", host.netns_name(), "tcp", "port", "6379"],
        || {
            for _ in 0..3 {
                run(host, &redis.benchmark("-k 0 -c 8 -n 2000"));
                thread::scope(|scope| {
                    let _stopped = Stopped::new(redis);
                    for _ in 0..OPENED {
                        scope.spawn(ask);
                    }
                    wait_until("the queue is full", &stalled);
                    thread::sleep(Duration::from_millis(300));
                });
            }
        },
    )
}

/// The queue has room for 21, and the SYNs of the others are dropped.
#[test]
fn a_full_accept_queue_is_explained() {
    const BACKLOG: u64 = 20;
    let host = Host::new("queue").unwrap();
    let backlog = BACKLOG.to_string();
    let redis = Redis::start(&host, LOCALHOST, &["--tcp-backlog", &backlog]);
    within_attempts(|| {
        let text = with_pauses(&host, &redis, || waiting(&host) > BACKLOG);
        names(
            &text,
            "connects",
            "conn.handshake syn-again",
            "A longer accept queue or more accepting tasks at the peer",
        )?;
        let told: Vec<_> = text.split_whitespace().collect();
        let listener = "listener: the accept queue of 0.0.0.0:6379 is full";
        assert!(told.join(" ").contains(listener), "{text}");
        Ok(())
    });
}

#[test]
fn a_server_that_accepts_late_is_explained() {
    let host = Host::new("late").unwrap();
    let redis = Redis::start(&host, LOCALHOST, &[]);
    within_attempts(|| {
        let text = with_pauses(&host, &redis, || waiting(&host) >= OPENED);
        assert!(!text.contains(" listener:"), "{text}");
        names(&text, "accepts", "conn.accept", "more tasks that accept")
    });
}

fn linked(config: LinkConfig) -> (Host, Host, Link) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::relay(&client, &server, config).unwrap();
    (client, server, link)
}

#[test]
fn lost_syns_are_explained() {
    let (client, server, link) = linked(LinkConfig::default().loss(0.03));
    // Of a lost answer to a SYN, both ends send again after a second: chance decides whose it is.
    link.set_direction(Direction::BToA, LinkConfig::default())
        .unwrap();
    let redis = Redis::start(&server, link.address_b(Family::V4), &[]);
    within_attempts(|| {
        let before = counter(&client, "TcpExtTCPSynRetrans");
        let text = explained(&["--netns", client.netns_name(), "tcp"], || {
            run(&client, &redis.benchmark("-k 0 -c 50 -n 2500"));
        });
        assert!(counter(&client, "TcpExtTCPSynRetrans") > before + 20);
        names(
            &text,
            "connects",
            "conn.handshake syn-again",
            "a path that loses less",
        )
    });
}

#[test]
fn a_far_peer_is_explained() {
    let [client, near, far] = ["client", "near", "far"].map(|name| Host::new(name).unwrap());
    let short = Link::veth(&client, &near).unwrap();
    let long = Link::relay(
        &client,
        &far,
        LinkConfig::default().delay(Duration::from_millis(20)),
    )
    .unwrap();
    let near = Redis::start(&near, short.address_b(Family::V4), &[]);
    let far = Redis::start(&far, long.address_b(Family::V4), &[]);
    within_attempts(|| {
        let text = explained(&["--netns", client.netns_name(), "tcp"], || {
            run(&client, &near.benchmark("-k 0 -c 8 -n 3000"));
            run(&client, &far.benchmark("-k 0 -c 8 -n 64"));
        });
        let whom = format!("for whom: peer {}", far.address.ip());
        names(&text, "connects", "conn.handshake round-trip", &whom)
    });
}

#[test]
fn a_cpu_quota_is_explained() {
    let host = Host::new("quota").unwrap();
    let mut quota = Cgroup::new("quota").unwrap();
    quota
        .set_cpu_quota(Duration::from_millis(5), Duration::from_millis(100))
        .unwrap();
    let mut command = host.command("redis-server");
    quota.start_in(&mut command).unwrap();
    let redis = Redis::spawn(command, &host, LOCALHOST, &[]);
    let process = redis.server.id().to_string();
    within_attempts(|| {
        let before = quota.cpu_throttled().unwrap();
        let text = explained(&["-p", &process], || {
            run(&host, &redis.benchmark("-c 30 -n 20000"));
        });
        let throttled = quota.cpu_throttled().unwrap() - before;
        assert!(throttled > Duration::from_millis(500), "{throttled:?}");
        names(&text, "reads", "rx.", "usual cure: A higher quota")
    });
}

/// The server waits for each question; the last ones come while neighbours are busy.
#[test]
fn a_neighbour_on_the_cpu_is_explained() {
    let host = Host::new("neighbour").unwrap();
    let redis = redis_with_little_weight(&host);
    let process = redis.server.id().to_string();
    let ask = |clients: u32, count: u32| {
        for _ in 0..clients {
            run(&host, &format!("redis-cli -r {count} ping"));
        }
    };
    within_attempts(|| {
        let text = explained(&["-p", &process, "--slow", "p97"], || {
            ask(25, 100);
            let _neighbours = busy_neighbours(&host);
            ask(25, 4);
        });
        names(
            &text,
            "reads",
            "rx.wakeup",
            "usual cure: Fewer neighbours, a higher CPU weight",
        )
    });
}

#[test]
fn a_slow_hop_behind_a_proxy_is_explained() {
    let host = Host::new("proxy").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [front, slow, fast] = [8080, 8081, 8082].map(|port| SocketAddr::new(LOCALHOST, port));
    let _slow = start_slow_web(&host, slow, ["0.03", "0"]);
    let _fast = nginx(
        &host,
        folder.path(),
        "fast",
        "server { listen 8082; return 204; }",
        &[fast],
    );
    let proxy = "server { listen 8080; location /slow { proxy_pass http://127.0.0.1:8081; }\n\
                 location / { proxy_pass http://127.0.0.1:8082; } }";
    let proxy = nginx(&host, folder.path(), "proxy", proxy, &[front]);
    let process = proxy.id().to_string();
    within_attempts(|| {
        let text = explained(&["-p", &process], || {
            thread::scope(|scope| {
                scope.spawn(|| run(&host, "wrk -t 1 -c 2 -d 2 http://127.0.0.1:8080/"));
                run(&host, "curl -s http://127.0.0.1:8080/slow?[1-50]");
            });
        });
        names(&text, "answers", "peer.answer peer", "for whom: port 8081")
    });
}

#[test]
fn loss_on_the_way_here_is_explained() {
    let config = LinkConfig::default()
        .delay(Duration::from_millis(5))
        .loss(0.01)
        .offload(false);
    let (client, server, link) = linked(config);
    let folder = tempfile::tempdir().unwrap();
    let address = SocketAddr::new(link.address_b(Family::V4), 8080);
    let _server = nginx_with_page(&server, folder.path(), 300_000, address);
    within_attempts(|| {
        let before = counter(&client, "TcpExtTCPOFOQueue");
        let target = ["--netns", client.netns_name(), "--slow", "p95", "tcp"];
        let text = explained(&target, || {
            for _ in 0..25 {
                run(
                    &client,
                    &format!("curl -s -o /dev/null http://{address}/page"),
                );
            }
        });
        assert!(counter(&client, "TcpExtTCPOFOQueue") > before);
        names(&text, "reads", "rx.hol", "retransmits at the peer")
    });
}
