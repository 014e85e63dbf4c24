//! Rules for groups, by live traffic.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use testbed::{Cgroup, Host, PATIENCE, Process, within_attempts};
use with::agent::{Agent, Scrape};
use with::wait_until;

const TX: &str = "direction=\"tx\"";

/// A connection to a port of its own.
struct Service {
    port: String,
    client: TcpStream,
    server: TcpStream,
    _listener: TcpListener,
}

impl Service {
    /// The lower port of a connection from before the start is the service's.
    fn new(host: &Host, port: u16) -> Self {
        let address = ([127, 0, 0, 1], port).into();
        let listener = host.tcp_listen(address).unwrap();
        let address = listener.local_addr().unwrap();
        let client = host.tcp_connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.set_nodelay(true).unwrap();
        Self {
            port: address.port().to_string(),
            client,
            server,
            _listener: listener,
        }
    }

    fn label(&self) -> String {
        format!("port=\"{}\"", self.port)
    }

    /// Send a message, and read it after a while. Return the time that all of it took.
    fn send(&mut self, late: Duration) -> Duration {
        let begun = Instant::now();
        self.client.write_all(&[0; 100]).unwrap();
        std::thread::sleep(late);
        self.server.read_exact(&mut [0; 100]).unwrap();
        begun.elapsed()
    }

    /// Send until the agent has seen the group, and rules hold for all windows of its flows.
    fn introduce(&mut self) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(3500) {
            self.send(Duration::from_millis(20));
        }
    }
}

fn count(scrape: &Scrape, name: &str, labels: &[&str]) -> f64 {
    scrape.sum(name, labels)
}

/// Programs count verdicts before groups are read.
#[test]
fn groups_that_are_off_are_not_measured_and_have_no_series() {
    let host = Host::new("rules").unwrap();
    let [mut off, mut on] = [9001, 9002].map(|port| Service::new(&host, port));
    let rule = format!(
        "by = [\"port\"]\n[[rule]]\nmatch = {{ port = {} }}\noff = true",
        off.port
    );
    let agent = Agent::of(&host, &rule);
    let measured = |scrape: &Scrape| count(scrape, "sockstamp_verdicts_total", &[]);
    off.introduce();
    let mut before = measured(&agent.scrape());
    wait_until("the rule holds", || {
        for _ in 0..50 {
            off.send(Duration::from_millis(20));
        }
        let earlier = std::mem::replace(&mut before, measured(&agent.scrape()));
        before == earlier
    });
    for _ in 0..50 {
        off.send(Duration::ZERO);
    }
    let between = agent.scrape();
    assert_eq!(measured(&between), before);
    for _ in 0..50 {
        on.send(Duration::ZERO);
    }
    let after = agent.scrape_until(|scrape| measured(scrape) >= before + 100.0);
    assert_eq!(measured(&after), before + 100.0);
    assert_eq!(
        after.values("sockstamp_messages_total", &[&off.label()]),
        [] as [f64; 0]
    );
    assert_eq!(
        count(&after, "sockstamp_messages_total", &[&on.label(), TX]),
        50.0
    );

    // Without the rule, the service is measured again.
    let netns = host.netns_name();
    let said = agent.reload(&format!(
        "sample = \"1000000/s\"\nmax_cost = \"none\"\nby = [\"port\"]\n[target]\nnetns = \"{netns}\""
    ));
    assert!(said.contains("read again"), "{said}");
    off.introduce();
    agent.scrape_until(|scrape| {
        count(
            scrape,
            "sockstamp_measured_messages_total",
            &[&off.label(), TX],
        ) > 50.0
    });
}

#[test]
fn a_rule_s_rate_cap_holds_for_its_groups_alone() {
    within_attempts(cap_one_group);
}

fn cap_one_group() -> Result<(), String> {
    const CAP: f64 = 5.0;
    let host = Host::new("rules").unwrap();
    let [mut capped, mut free] = [9001, 9002].map(|port| Service::new(&host, port));
    let port = &capped.port;
    let rule =
        format!("by = [\"port\"]\n[[rule]]\nmatch = {{ port = {port} }}\nsample = \"{CAP}/s\"");
    let agent = Agent::of(&host, &rule);
    capped.introduce();
    let before = agent.scrape();
    let start = Instant::now();
    for _ in 0..600 {
        capped.send(Duration::from_millis(5));
        free.send(Duration::ZERO);
    }
    let seconds = start.elapsed().as_secs_f64();
    let after = agent.scrape();
    let grown = |name: &str, service: &Service| {
        let labels = [&service.label()[..], TX];
        count(&after, name, &labels) - count(&before, name, &labels)
    };
    let measured = |service: &Service| grown("sockstamp_measured_messages_total", service);
    assert_eq!(grown("sockstamp_messages_total", &capped), 600.0);
    assert_eq!(measured(&free), 600.0);
    // A window that is faster than the last one measures up to twice as many.
    let most = 2.0 * CAP * (seconds + 2.0);
    let capped = measured(&capped);
    match capped >= seconds && capped <= most {
        true => Ok(()),
        false => Err(format!("{capped} in {seconds} s")),
    }
}

/// Times of the messages that the page shows of a port.
fn shown(agent: &Agent, service: &Service) -> usize {
    let slow: serde_json::Value = serde_json::from_str(&agent.get("/slow")).unwrap();
    let port = format!(":{}", service.port);
    let is_its = |message: &&serde_json::Value| {
        ["local", "remote"]
            .iter()
            .any(|end| message[end].as_str().unwrap().ends_with(&port))
    };
    slow.as_array().unwrap().iter().filter(is_its).count()
}

#[test]
fn a_rule_s_threshold_stands_in_the_place_of_the_page_s() {
    within_attempts(pass_a_threshold);
}

/// Fail if a message that should be quick took as long as a slow one, by this program's clock.
fn pass_a_threshold() -> Result<(), String> {
    const QUICK: Duration = Duration::from_millis(250);
    let host = Host::new("rules").unwrap();
    let [mut patient, mut usual] = [9001, 9002].map(|port| Service::new(&host, port));
    let port = &patient.port;
    let agent = Agent::of(
        &host,
        &format!(
            "by = [\"port\"]\n[page]\nslow = \"10ms\"\n\
             [[rule]]\nmatch = {{ port = {port} }}\nslow = \"300ms\""
        ),
    );
    patient.introduce();
    let before = shown(&agent, &patient);
    for _ in 0..5 {
        let took = patient.send(Duration::from_millis(30));
        if took > QUICK {
            return Err(format!("{took:?} for a quick message"));
        }
        usual.send(Duration::from_millis(30));
    }
    patient.send(Duration::from_millis(350));
    let start = Instant::now();
    while shown(&agent, &usual) < 5 || shown(&agent, &patient) < before + 1 {
        assert!(start.elapsed() < PATIENCE, "{}", agent.get("/slow"));
    }
    assert_eq!(
        [shown(&agent, &usual), shown(&agent, &patient)],
        [5, before + 1]
    );
    Ok(())
}

#[test]
fn rules_and_labels_know_namespaces_and_protocols() {
    let host = Host::new("rules").unwrap();
    let mut service = Service::new(&host, 9001);
    let name = host.netns_name();
    let agent = Agent::of(
        &host,
        &format!(
            "by = [\"netns\", \"proto\"]\n[[rule]]\nmatch = {{ netns = \"{name}\" }}\n\
             labels = {{ place = \"here\" }}"
        ),
    );
    let socket = host.udp_bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let peer = host.udp_bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.connect(peer.local_addr().unwrap()).unwrap();
    let send_datagram = || {
        socket.send(&[0; 100]).unwrap();
        peer.recv(&mut [0; 100]).unwrap();
    };
    let place = format!("netns=\"{name}\"");
    let sent = |scrape: &Scrape, proto: &str| {
        let labels = [&place[..], proto, "place=\"here\"", TX];
        count(scrape, "sockstamp_messages_total", &labels)
    };
    let protocols = ["proto=\"tcp\"", "proto=\"udp\""];
    // The programs for UDP come with the first datagrams.
    agent.scrape_until(|scrape| {
        send_datagram();
        sent(scrape, protocols[1]) > 0.0
    });
    let before = agent.scrape();
    for _ in 0..10 {
        service.send(Duration::ZERO);
        send_datagram();
    }
    for proto in protocols {
        let expected = sent(&before, proto) + 10.0;
        agent.scrape_until(|scrape| sent(scrape, proto) == expected);
        let labels = [proto, "stage=\"tx.qdisc\""];
        agent.scrape_until(|scrape| count(scrape, "sockstamp_stage_seconds_count", &labels) > 0.0);
    }
}

/// Sends itself a hundred messages.
const TALK: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
for _ in range(100):
    client.sendall(b'x')
    server.recv(1)
";

/// A container's last counts are there until it expires; then they are gone, which is counted.
#[test]
fn the_series_of_a_dead_container_show_its_last_counts_and_end() {
    let host = Host::new("expiry").unwrap();
    let id = format!("{:064x}", std::process::id());
    let top = Cgroup::new("expiry").unwrap();
    let container = top.below(&format!("docker-{id}.scope")).unwrap();
    let agent = Agent::of(&host, "by = [\"container\"]\nexpire = \"10s\"");
    let mut command = host.command("python3");
    command.args(["-c", TALK]);
    container.start_in(&mut command).unwrap();
    let mut talking = Process::spawn(command).unwrap();
    assert!(talking.wait_status(PATIENCE).unwrap().success());
    let label = format!("container=\"{id}\"");
    let sent = |scrape: &Scrape| scrape.values("sockstamp_messages_total", &[&label, TX]);
    let expired = |scrape: &Scrape| count(scrape, "sockstamp_expired_groups_total", &[]);
    // Names are learned within a second.
    agent.scrape_until(|scrape| sent(scrape) == [100.0]);
    drop(container);
    let last = agent.scrape();
    assert_eq!(
        (sent(&last), expired(&last)),
        (vec![100.0], 0.0),
        "{}",
        last.0
    );
    let after = agent.scrape_until(|scrape| sent(scrape).is_empty());
    assert_eq!(expired(&after), 1.0);
    let read = after.values("sockstamp_stage_seconds_count", &[&label]);
    assert_eq!(read, [] as [f64; 0]);
}
