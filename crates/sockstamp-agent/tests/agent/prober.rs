//! Probes of the peers of a container, which is a process in a cgroup of a container's name, over a
//! link of known delay.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testbed::{Cgroup, Direction, Family, Host, Link, LinkConfig, PATIENCE, Process};
use with::agent::{Agent, Scrape};
use with::wait_until;

const ONE_WAY: Duration = Duration::from_millis(5);
/// Round trips over the link, in seconds. The relay may be late, never early.
const ROUND_TRIP: std::ops::Range<f64> = 0.010..0.012;

const LATENCY: &str = "container_net_latency_seconds";
const PROBES: &str = "container_net_probes_total";

/// Connects to a port and stays.
const CLIENT: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print('there', flush=True)
s.recv(1)
";

/// Listens on a port, and stays with the first that connects.
const SERVER: &str = "
import socket, time
l = socket.create_server(('', 9000))
print('there', flush=True)
s, _ = l.accept()
for _ in range(20):
    s.sendall(b'x')
    time.sleep(0.02)
s.recv(1)
";

/// A container in a network namespace, and a host behind a link.
struct ProbedContainer {
    link: Link,
    near: Host,
    far: Host,
    cgroup: Cgroup,
    _top: Cgroup,
    id: String,
}

impl ProbedContainer {
    fn new() -> Self {
        let (near, far) = (Host::new("near").unwrap(), Host::new("far").unwrap());
        let link = Link::relay(&near, &far, LinkConfig::default().delay(ONE_WAY)).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let id = format!("{:08x}{:056x}", std::process::id(), now.as_nanos());
        let top = Cgroup::new("probed").unwrap();
        let cgroup = top.below(&format!("docker-{id}.scope")).unwrap();
        Self {
            link,
            near,
            far,
            cgroup,
            _top: top,
            id,
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Process {
        let mut command = self.near.command("python3");
        command.args(["-c", program]).args(arguments);
        self.cgroup.start_in(&mut command).unwrap();
        let mut process = Process::spawn(command).unwrap();
        process.wait_for_stdout("there", PATIENCE).unwrap();
        process
    }

    /// Have the container connect to the other host.
    fn connect(&self) -> (Process, TcpListener, TcpStream) {
        let address = SocketAddr::new(self.link.address_b(Family::V4), 0);
        let listener = self.far.tcp_listen(address).unwrap();
        let address = listener.local_addr().unwrap();
        let process = self.run(
            CLIENT,
            &[&address.ip().to_string(), &address.port().to_string()],
        );
        let (stream, _) = listener.accept().unwrap();
        (process, listener, stream)
    }

    fn agent(&self, more: &str) -> Agent {
        let interval = "[probe]\ninterval = \"1s\"\n";
        Agent::of(
            &self.near,
            &format!("by = [\"container\"]\n{more}{interval}"),
        )
    }

    /// The labels of the peer's series.
    fn labels(&self) -> [String; 2] {
        let peer = self.link.address_b(Family::V4);
        [
            format!("container_id=\"{}\"", self.id),
            format!("destination_ip=\"{peer}\""),
        ]
    }

    fn values(&self, scrape: &Scrape, name: &str, more: &[&str]) -> Vec<f64> {
        let labels = self.labels();
        let labels: Vec<_> = labels
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .collect();
        scrape.values(name, &labels)
    }

    fn count(&self, scrape: &Scrape, method: &str, result: &str) -> f64 {
        let labels = [
            &format!("method=\"{method}\"")[..],
            &format!("result=\"{result}\""),
        ];
        self.values(scrape, PROBES, &labels).iter().sum()
    }
}

fn assert_is_the_link(
    container: &ProbedContainer,
    agent: &Agent,
    is_there: impl Fn(&Scrape) -> bool,
) -> Scrape {
    // The relay is late at times; the shortest of some is not.
    let start = Instant::now();
    loop {
        let scrape = agent.scrape_until(&is_there);
        let values = container.values(&scrape, LATENCY, &[]);
        if let [value] = values[..] {
            assert!(value >= ROUND_TRIP.start, "{value}");
            if ROUND_TRIP.contains(&value) {
                return scrape;
            }
        }
        assert!(start.elapsed() < PATIENCE, "{values:?}");
    }
}

/// Messages and connections that the agent measured.
fn measured(scrape: &Scrape) -> [f64; 4] {
    [
        "sockstamp_messages_total",
        "sockstamp_message_bytes_total",
        "sockstamp_connections_total",
        "sockstamp_failed_connections_total",
    ]
    .map(|name| scrape.sum(name, &[]))
}

#[test]
fn the_gauge_is_the_delay_of_the_link_and_probes_are_in_no_other_figure() {
    let container = ProbedContainer::new();
    let _connection = container.connect();
    let packets = container.link.statistics().a_to_b.packets;
    let agent = container.agent("");
    let before = agent.scrape();
    let scrape = assert_is_the_link(&container, &agent, |scrape| {
        container.count(scrape, "icmp", "answered") >= 5.0
    });
    assert_eq!(measured(&scrape), measured(&before));
    let answered = container.count(&scrape, "icmp", "answered");
    assert!(container.link.statistics().a_to_b.packets >= packets + 5);
    let histogram = |name: &str| container.values(&scrape, name, &["method=\"icmp\""]);
    assert_eq!(histogram("container_net_probe_seconds_count"), [answered]);
    let mean = histogram("container_net_probe_seconds_sum")[0] / answered;
    assert!((ROUND_TRIP.start..0.1).contains(&mean), "{mean}");
    assert_eq!(scrape.values("sockstamp_probed_peers", &["icmp"]), [1.0]);
}

#[test]
fn a_peer_that_answers_no_echo_is_asked_for_a_connection() {
    let container = ProbedContainer::new();
    container
        .far
        .set_sysctl("net.ipv4.icmp_echo_ignore_all", "1")
        .unwrap();
    let (_process, listener, _stream) = container.connect();
    let agent = container.agent("");
    let before = agent.scrape();
    let scrape = assert_is_the_link(&container, &agent, |scrape| {
        container.count(scrape, "tcp", "answered") >= 3.0
    });
    assert_eq!(measured(&scrape), measured(&before));
    assert_eq!(
        scrape.values("sockstamp_unanswered_probe_methods_total", &["icmp"]),
        [1.0]
    );
    assert_eq!(
        container.values(&scrape, PROBES, &["method=\"icmp\""]),
        [] as [f64; 0]
    );
    // No probe was a connection.
    listener.set_nonblocking(true).unwrap();
    assert_eq!(
        listener.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
}

/// The container's own port is no port of the peer's.
#[test]
fn a_peer_that_answers_nothing_has_the_round_trip_of_its_flow() {
    let container = ProbedContainer::new();
    container
        .far
        .set_sysctl("net.ipv4.icmp_echo_ignore_all", "1")
        .unwrap();
    let _server = container.run(SERVER, &[]);
    let address = SocketAddr::new(container.link.address_a(Family::V4), 9000);
    let mut connection = container.far.tcp_connect(address).unwrap();
    let agent = container.agent("");
    let is_there = |scrape: &Scrape| scrape.values("sockstamp_probed_peers", &["flow"]) == [1.0];
    let scrape = assert_is_the_link(&container, &agent, is_there);
    assert_eq!(container.values(&scrape, PROBES, &[]), [] as [f64; 0]);
    // The gauge ends with the connection.
    connection.read_exact(&mut [0; 20]).unwrap();
    drop(connection);
    agent.scrape_until(|scrape| container.values(scrape, LATENCY, &[]).is_empty());
}

#[test]
fn a_peer_that_vanishes_is_lost() {
    let container = ProbedContainer::new();
    let _connection = container.connect();
    let agent = container.agent("expire = \"6s\"\n");
    agent.scrape_until(|scrape| container.count(scrape, "icmp", "answered") >= 2.0);
    let gone = LinkConfig::default().loss(1.0);
    container.link.set_direction(Direction::BToA, gone).unwrap();
    let scrape = agent.scrape_until(|scrape| container.count(scrape, "icmp", "lost") >= 4.0);
    assert_eq!(container.values(&scrape, LATENCY, &[]), [] as [f64; 0]);
    assert_eq!(
        scrape.sum("sockstamp_unanswered_probe_methods_total", &[]),
        0.0
    );
}

/// Return what an agent holds once it has held the same for a second: a connection of the last
/// scrape may still be closed.
fn held_for_long(agent: &Agent) -> (usize, usize, usize) {
    let start = Instant::now();
    let (mut last, mut since) = (held(agent), start);
    while since.elapsed() < Duration::from_secs(1) {
        assert!(start.elapsed() < PATIENCE, "{last:?} does not last");
        std::thread::sleep(Duration::from_millis(50));
        let now = held(agent);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

/// Threads of probers, threads and descriptors of an agent.
fn held(agent: &Agent) -> (usize, usize, usize) {
    let of = |what: &str| format!("/proc/{}/{what}", agent.process.id());
    let tasks = fs::read_dir(of("task"))
        .unwrap()
        .map(|task| task.unwrap().path());
    let names = tasks.filter_map(|task| fs::read_to_string(task.join("comm")).ok());
    let names: Vec<_> = names.collect();
    let probers = names
        .iter()
        .filter(|name| name.trim() == "sockstamp-ping")
        .count();
    (
        probers,
        names.len(),
        fs::read_dir(of("fd")).unwrap().count(),
    )
}

#[test]
fn a_namespace_that_vanishes_leaves_no_thread_and_no_descriptor() {
    let stays = Host::new("stays").unwrap();
    let container = ProbedContainer::new();
    let agent = Agent::start("expire = \"3s\"\n[probe]\ninterval = \"1s\"");
    agent.scrape();
    let before = held_for_long(&agent);
    assert_eq!(before.0, 0);
    let connection = container.connect();
    agent.scrape_until(|scrape| container.count(scrape, "icmp", "answered") >= 1.0);
    assert_eq!(held(&agent).0, 1);
    // CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_PTRACE, CAP_SYS_ADMIN (include/uapi/linux/capability.h).
    let needed = 1 << 12 | 1 << 13 | 1 << 19 | 1 << 21;
    assert_eq!(agent.capabilities()["sockstamp-ping"], needed);
    drop((connection, container));
    let start = Instant::now();
    while held(&agent) != before {
        assert!(
            start.elapsed() < PATIENCE,
            "{:?} is not {before:?}",
            held(&agent)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    agent.scrape_until(|scrape| scrape.values(PROBES, &[]).is_empty());
    drop(stays);
}

/// Return the echo requests that a host has sent, by the kernel's counters in proc_pid_net(5). The
/// link has packets of others: the kernel looks for its neighbours.
fn echoes(host: &Host) -> u64 {
    let [of_v4, of_v6] = host.enter(|| {
        ["snmp", "snmp6"]
            .map(|file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap())
    });
    let mut rows = of_v4.lines().filter_map(|line| line.strip_prefix("Icmp: "));
    let (names, values) = (
        rows.next().unwrap().split(' '),
        rows.next().unwrap().split(' '),
    );
    let mut columns = names.zip(values);
    let (_, sent) = columns.find(|(name, _)| *name == "OutEchos").unwrap();
    let count = |text: &str| text.trim().parse::<u64>().unwrap();
    let of_v6 = of_v6
        .lines()
        .find_map(|line| line.strip_prefix("Icmp6OutEchos"));
    count(sent) + of_v6.map_or(0, count)
}

#[test]
fn no_more_peers_are_probed_than_are_allowed_and_none_when_it_is_off() {
    let container = ProbedContainer::new();
    let _connections = [container.connect(), container.connect()];
    let address = SocketAddr::new(container.link.address_b(Family::V6), 0);
    let listener = container.far.tcp_listen(address).unwrap();
    let address = listener.local_addr().unwrap();
    let _second = container.run(
        CLIENT,
        &[&address.ip().to_string(), &address.port().to_string()],
    );
    let agent = container.agent("");
    agent.scrape_until(|scrape| scrape.values("sockstamp_probed_peers", &["icmp"]) == [2.0]);
    let netns = container.near.netns_name();
    let settings =
        |probe: &str| format!("[probe]\n{probe}\ninterval = \"1s\"\n[target]\nnetns = \"{netns}\"");
    let said = agent.reload(&settings("max_targets = 1"));
    assert!(said.contains("read again"), "{said}");
    let scrape = agent.scrape_until(|scrape| scrape.sum("sockstamp_probed_peers", &[]) == 1.0);
    assert_eq!(
        scrape.values("sockstamp_unprobed_peers", &["max_targets"]),
        [1.0]
    );
    agent.reload(&settings("enabled = false"));
    wait_until("nothing is held", || held(&agent).0 == 0);
    let sent = echoes(&container.near);
    assert!(sent > 0);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(echoes(&container.near), sent);
}
