//! The alert rules and the dashboard in Debian's Prometheus, by traffic at which they must answer:
//! with native histograms, and with classic ones.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use testbed::{Direction, Family, Host, Link, LinkConfig};
use with::agent::{Agent, room_for_one_group, talk};
use with::prometheus::{Prometheus, promtool};
use with::{objects, packaging, run};

/// More than a hundredth of all connections.
const LATE: usize = 5;
/// From a connection to its accept, and from that to the read.
const UNACCEPTED: Duration = Duration::from_millis(300);
const UNREAD: Duration = Duration::from_millis(1100);
/// Connections whose sends wait for a reader, together for longer than all of this takes. The same
/// holds for the other counts, by their number.
const HELD_BACK: usize = 20;
const REFUSED: usize = 50;
/// More than a tenth of all messages.
const BROKEN: usize = 80;
/// Connections that lose segments, and how many each: the others tell the sender at once.
const LOSSY: usize = 20;
const LOST: u64 = 3;

/// A client, a server that is far away, and a line on which packets can be lost.
struct Place {
    client: Host,
    server: Host,
    link: Link,
}

impl Place {
    fn new() -> Self {
        let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
        let line = LinkConfig::default().offload(false);
        let link = Link::relay(&client, &server, line).unwrap();
        Self {
            client,
            server,
            link,
        }
    }

    /// Have something happen that each rule is about, at the same time.
    fn trouble(&self) {
        thread::scope(|scope| {
            for _ in 0..LATE {
                scope.spawn(|| self.read_and_accept_late());
            }
            scope.spawn(|| self.send_to_nobody());
            scope.spawn(|| (0..LOSSY).for_each(|_| self.lose_segments()));
            scope.spawn(|| self.fail_to_connect());
            scope.spawn(|| self.break_off());
            scope.spawn(|| self.send_datagrams());
        });
    }

    fn listen(&self) -> (TcpListener, SocketAddr) {
        let listener = self
            .client
            .tcp_listen("127.0.0.1:0".parse().unwrap())
            .unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn read_and_accept_late(&self) {
        let (listener, address) = self.listen();
        let mut client = self.client.tcp_connect(address).unwrap();
        client.write_all(&[0; 100]).unwrap();
        thread::sleep(UNACCEPTED);
        let (mut server, _) = listener.accept().unwrap();
        thread::sleep(UNREAD);
        server.read_exact(&mut [0; 100]).unwrap();
        server.write_all(&[0; 100]).unwrap();
        client.read_exact(&mut [0; 100]).unwrap();
    }

    /// More than the receivers' first windows, and less than the senders' buffers.
    fn send_to_nobody(&self) {
        let mut pairs: Vec<_> = (0..HELD_BACK).map(|_| self.full_connection()).collect();
        thread::sleep(UNREAD);
        for (client, server) in &mut pairs {
            client.shutdown(std::net::Shutdown::Write).unwrap();
            server.read_to_end(&mut Vec::new()).unwrap();
        }
    }

    fn full_connection(&self) -> (TcpStream, TcpStream) {
        let (listener, address) = self.listen();
        let mut client = self.client.tcp_connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        setsockopt(&client, sockopt::SndBuf, &(1 << 20)).unwrap();
        client.set_write_timeout(Some(UNREAD)).unwrap();
        // The timeout ends a send for which there is no buffer: the rest of it has been sent.
        let _ = client.write(&[0; 180_000]).unwrap();
        (client, server)
    }

    fn lose_segments(&self) {
        let address = SocketAddr::new(self.link.address_b(Family::V4), 0);
        let listener = self.server.tcp_listen(address).unwrap();
        let mut client = self
            .client
            .tcp_connect(listener.local_addr().unwrap())
            .unwrap();
        let (mut server, _) = listener.accept().unwrap();
        self.link.lose_next_data(Direction::AToB, LOST).unwrap();
        client.write_all(&[0; 12_000]).unwrap();
        server.read_exact(&mut [0; 12_000]).unwrap();
    }

    fn fail_to_connect(&self) {
        let (listener, address) = self.listen();
        drop(listener);
        for _ in 0..REFUSED {
            self.client.tcp_connect(address).unwrap_err();
        }
    }

    /// Reset connections with messages in flight.
    fn break_off(&self) {
        for _ in 0..BROKEN {
            drop(self.full_connection().1);
        }
    }

    /// A second group, for which there is no room. The programs for UDP come with the first
    /// datagrams.
    fn send_datagrams(&self) {
        let [one, other] = [(); 2].map(|()| {
            self.client
                .udp_bind("127.0.0.1:0".parse().unwrap())
                .unwrap()
        });
        for _ in 0..15 {
            one.send_to(&[0; 10], other.local_addr().unwrap()).unwrap();
            other.recv(&mut [0; 10]).unwrap();
            thread::sleep(UNREAD / 10);
        }
    }
}

/// The expressions of the rules by their names.
fn rules() -> Vec<(String, String)> {
    let text = fs::read_to_string(packaging("prometheus/sockstamp.rules.yml")).unwrap();
    let groups = objects(&text);
    let rules = groups[0]["groups"][0]["rules"].as_array().unwrap().clone();
    let text = |rule: &Value, key: &str| rule[key].as_str().unwrap().to_owned();
    let rules: Vec<_> = rules
        .iter()
        .map(|rule| (text(rule, "alert"), text(rule, "expr")))
        .collect();
    assert!(rules.len() > 5);
    rules
}

/// The queries of the dashboard's panels by their titles.
fn panels() -> Vec<(String, String)> {
    let text = fs::read_to_string(packaging("grafana/sockstamp.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap().to_owned();
            queries.push((title, target["expr"].as_str().unwrap().to_owned()));
        }
    }
    queries
}

/// A query as Grafana sends it, of a shorter time.
fn within(window: Duration, query: &str) -> String {
    let window = format!("{}ms", window.as_millis());
    let short = ["[5m]", "[15m]", "[1h]"]
        .iter()
        .fold(query.to_owned(), |query, usual| {
            query.replace(usual, &format!("[{window}]"))
        });
    short
        .replace("$__rate_interval", &window)
        .replace("$instance", ".*")
        .replace("$container", ".*")
}

#[test]
fn rules_fire_and_panels_show_with_native_and_classic_histograms() {
    let place = Place::new();
    let agent = Agent::of(&place.client, &room_for_one_group(1));
    let classic = Prometheus::start(agent.address, &[]);
    // As a cluster's annotations have it found, under another job.
    let native = Prometheus::native("kubernetes-pods", agent.address);
    talk(&place.client, 3, Duration::ZERO);
    agent.scrape();
    // Counters show their growth from the second time on.
    place.trouble();
    let all = "sum(sockstamp_verdicts_total) + sum(sockstamp_failed_connections_total)";
    let wait_for_all = || {
        let scrape = agent.scrape();
        let told = [
            "sockstamp_verdicts_total",
            "sockstamp_failed_connections_total",
        ];
        let known: f64 = told.map(|name| scrape.sum(name, &[])).iter().sum();
        for prometheus in [&classic, &native] {
            prometheus.query(all, |count| count >= known);
        }
    };
    wait_for_all();
    let start = Instant::now();
    place.trouble();
    let most = start.elapsed().as_secs_f64();
    wait_for_all();
    let (now, window) = (SystemTime::now(), start.elapsed() + Duration::from_secs(1));
    for (kind, prometheus) in [("classic", &classic), ("native", &native)] {
        let buckets = "count(sockstamp_stage_seconds_bucket)";
        let has_buckets = prometheus.query_at(buckets, now).is_some();
        assert_eq!(has_buckets, kind == "classic", "{kind}");
        // The agent is up, and no question is open for a minute.
        let is_in_trouble = |name: &str| !["SockstampDown", "SockstampUnanswered"].contains(&name);
        for (name, rule) in rules().iter().filter(|(name, _)| is_in_trouble(name)) {
            let rule = within(window, rule);
            let value = prometheus.query_at(&rule, now);
            println!("{kind} {name}: {value:?}");
            let value = value.unwrap_or_else(|| panic!("{kind} {name} does not fire: {rule}"));
            // A bucket of a classic histogram is a factor of two wide.
            let least = match name.as_str() {
                "SockstampApplicationBusy" | "SockstampSlowAnswers" => UNREAD,
                "SockstampAcceptQueue" => UNACCEPTED,
                _ => continue,
            };
            let least = least.as_secs_f64();
            assert!(
                (least * 0.5..most * 2.0).contains(&value),
                "{kind} {name}: {value} s"
            );
        }
        // No message may be lost here, nothing waits for a second, and no container is probed: that
        // the agent has such series is for the tests of each.
        let unsure = [
            "sockstamp_losses_total",
            "sockstamp_waiting_oldest_seconds",
            "sockstamp_finding_lost_seconds",
            "container_net_",
        ];
        let is_sure =
            |(_, query): &(String, String)| !unsure.iter().any(|name| query.contains(*name));
        for (title, query) in panels().into_iter().filter(is_sure) {
            let query = within(window, &query);
            assert!(
                prometheus.query_at(&query, now).is_some(),
                "{kind}: the panel {title} shows nothing: {query}"
            );
        }
    }
    agent.process.signal(Signal::SIGTERM).unwrap();
    let rules = rules();
    let (_, down) = rules
        .iter()
        .find(|(name, _)| name == "SockstampDown")
        .unwrap();
    for prometheus in [&classic, &native] {
        prometheus.query(down, |_| true);
    }
}

/// Made-up series show which alerts fire, and which do not.
#[test]
fn rules_fire_at_their_bounds() {
    let file = packaging("prometheus/sockstamp.test.yml");
    let (good, said) = promtool(&["test", "rules", file.to_str().unwrap()], None);
    assert!(good && said.contains("SUCCESS"), "{said}");
    let text = fs::read_to_string(file).unwrap();
    for (name, _) in rules() {
        assert!(
            text.contains(&format!("alertname: {name}\n")),
            "{name} is not tested"
        );
    }
}

/// The settings that documents give to Prometheus are settings of Prometheus. The key for native
/// histograms is newer than Debian's.
#[test]
fn snippets_for_prometheus_are_valid() {
    for document in ["agent.md", "adopting.md"] {
        let text = fs::read_to_string(packaging("../docs").join(document)).unwrap();
        let snippets: Vec<_> = text
            .split("```yaml\n")
            .skip(1)
            .filter_map(|rest| rest.split_once("```"))
            .filter(|(snippet, _)| snippet.contains("scrape_configs"))
            .collect();
        assert_eq!(snippets.len(), 1, "{document}");
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("prometheus.yml");
        let rules = packaging("prometheus/sockstamp.rules.yml");
        fs::copy(rules, directory.path().join("sockstamp.rules.yml")).unwrap();
        let known: Vec<_> = snippets[0]
            .0
            .lines()
            .filter(|line| !line.trim().starts_with("scrape_native_histograms: true"))
            .collect();
        assert!(known.len() < snippets[0].0.lines().count(), "{document}");
        fs::write(&file, known.join("\n")).unwrap();
        run(Command::new("promtool")
            .args(["check", "config"])
            .arg(&file));
    }
}
