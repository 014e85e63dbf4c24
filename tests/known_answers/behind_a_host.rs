//! A container whose host has a full packet scheduler of 10 Mbit/s on its uplink: what a request
//! waits there is the backlog in front of it divided by the rate, wherever it is counted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use serde_json::Value;
use testbed::{Family, Host, PATIENCE, Uplink, UplinkHosts, within_attempts};
use with::expected::{ms, within};
use with::full_queue::{backlog_bytes, wait_behind, wait_of_requests, with_full_queue};
use with::guarded::Guarded;
use with::{Stat, Trace, in_short, median, number, of_direction, peer};

const REQUESTS: u64 = 8;

/// A measurement over the full queue.
struct Seen {
    report: Value,
    messages: Vec<Value>,
    /// The time that each message waited.
    wait: u64,
    /// Packets at the uplink that the kernel showed to no program: 0 on most kernels.
    unseen: usize,
}

impl Seen {
    fn finish(guarded: Guarded, stat: Stat, trace: Trace, wait: u64) -> Self {
        let (messages, report) = (trace.finish(), stat.finish());
        println!("{}; wait {wait}", in_short(&report));
        Self {
            report,
            messages,
            wait,
            unseen: guarded.finish().count(),
        }
    }

    /// Check that all messages, except those whose packets no program saw, have this interface as
    /// their last one, and return those that have it.
    fn at(&self, interface: &str) -> Vec<&Value> {
        let sent = of_direction(&self.messages, "tx");
        assert_eq!(sent.len() as u64, REQUESTS, "one send per request");
        let (at, elsewhere): (Vec<&Value>, Vec<&Value>) = sent.into_iter().partition(|message| {
            message["verdict"] == "valid" && message["interfaces"]["last"]["name"] == interface
        });
        assert!(elsewhere.len() <= self.unseen, "{elsewhere:?}");
        let named = &self.report["interfaces"][0];
        assert_eq!(named["name"], interface, "{}", self.report);
        let least = REQUESTS.saturating_sub(self.unseen as u64);
        assert!(number(&named["messages"]) >= least, "{}", self.report);
        at
    }
}

/// Send requests over the full queue.
fn request(setup: &UplinkHosts, options: &[&str], family: Family) -> Seen {
    let guarded = Guarded::start([setup.uplink.uplink_interface()]);
    // Not the datagrams that fill the queue.
    let target = [options, &["--netns", setup.container.netns_name(), "tcp"]].concat();
    let (stat, trace) = (Stat::start(&target), Trace::start(&target));
    let server = SocketAddr::new(setup.uplink.peer_address(family), 7000);
    let wait = wait_of_requests(&setup.container, server, REQUESTS, || uplink_backlog(setup));
    Seen::finish(guarded, stat, trace, wait)
}

fn uplink_backlog(setup: &UplinkHosts) -> u64 {
    backlog_bytes(&setup.host, setup.uplink.uplink_interface())
}

/// The stage that must have the wait, and the interface that must be named for it.
struct Answer {
    family: Family,
    options: &'static [&'static str],
    stage: &'static str,
    interface: fn(&UplinkHosts) -> String,
}

/// `filler` is the origin of the flow that fills the queue: its packets must belong to its socket
/// while they are queued, or its send buffer would not bound them.
fn check(setup: &UplinkHosts, filler: &Host, answers: &[Answer]) {
    setup.limit_uplink("rate 10mbit burst 10kb limit 1mb");
    let server = SocketAddr::new(setup.uplink.peer_address(Family::V4), 7000);
    let _serve = setup
        .peer
        .spawn(peer(), &["serve", "--port", "7000"])
        .unwrap();
    setup.peer.wait_for_port(server, PATIENCE).unwrap();
    let bind = |host: &Host, ip: IpAddr| host.udp_bind(SocketAddr::new(ip, 0)).unwrap();
    // Read what arrives, so the peer's kernel does not answer with ICMP.
    let receiver = bind(&setup.peer, server.ip());
    let sender = bind(filler, Ipv4Addr::UNSPECIFIED.into());
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    with_full_queue(&sender, || {
        for answer in answers {
            within_attempts(|| measure(setup, answer));
        }
    });
}

fn measure(setup: &UplinkHosts, answer: &Answer) -> Result<(), String> {
    let seen = request(setup, answer.options, answer.family);
    let (sent, wait) = (seen.at(&(answer.interface)(setup)), seen.wait);
    for stage in ["tx.copy", "tx.queue", "tx.qdisc", "tx.network"] {
        let bounds: RangeInclusive<u64> = if stage == answer.stage {
            wait - wait / 10..=wait + wait / 10
        } else {
            0..=ms(1)
        };
        within(
            format!("the median of {stage}"),
            median(&sent, stage),
            bounds,
        )?;
    }
    Ok(())
}

fn own(setup: &UplinkHosts) -> String {
    setup.uplink.container_interface().to_owned()
}

fn uplink(setup: &UplinkHosts) -> String {
    setup.uplink.uplink_interface().to_owned()
}

#[test]
fn behind_a_routed_hop_the_wait_is_the_networks_unless_it_is_followed() {
    let answers = [
        Answer {
            family: Family::V4,
            options: &[],
            stage: "tx.network",
            interface: own,
        },
        Answer {
            family: Family::V6,
            options: &["--host-path"],
            stage: "tx.qdisc",
            interface: uplink,
        },
    ];
    let setup = UplinkHosts::new(Uplink::routed);
    check(&setup, &setup.host, &answers);
}

#[test]
fn across_a_bridge_the_wait_is_the_packet_schedulers() {
    let answers = [Answer {
        family: Family::V6,
        options: &[],
        stage: "tx.qdisc",
        interface: uplink,
    }];
    let setup = UplinkHosts::new(Uplink::bridged);
    check(&setup, &setup.container, &answers);
}

/// Send datagrams over the full queue.
fn send(setup: &UplinkHosts, options: &[&str], family: Family) -> Seen {
    let guarded = Guarded::start([setup.uplink.uplink_interface()]);
    let bind = |host: &Host, ip| host.udp_bind(SocketAddr::new(ip, 0)).unwrap();
    let receiver = bind(&setup.peer, setup.uplink.peer_address(family));
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = receiver.local_addr().unwrap();
    let sender = bind(&setup.container, setup.uplink.container_address(family));
    // Neighbours have to know each other.
    sender.send_to(&[0; 100], to).unwrap();
    receiver.recv(&mut [0; 1000]).unwrap();
    // Not the datagrams that fill the queue.
    let filter = format!("udp and dst port {}", to.port());
    let target = [options, &["--netns", setup.container.netns_name(), &filter]].concat();
    let (stat, trace) = (Stat::start(&target), Trace::start(&target));
    let mut backlogs = Vec::new();
    for _ in 0..REQUESTS {
        backlogs.push(uplink_backlog(setup));
        sender.send_to(&[0; 100], to).unwrap();
        assert_eq!(receiver.recv(&mut [0; 1000]).unwrap(), 100);
    }
    Seen::finish(guarded, stat, trace, wait_behind(backlogs))
}

/// Without `--host-path` a datagram's time ends at the container's own interface, and the wait
/// behind it is nobody's.
fn check_datagrams(setup: &UplinkHosts, filler: &Host) {
    setup.limit_uplink("rate 10mbit burst 10kb limit 1mb");
    let bind = |host: &Host, ip: IpAddr| host.udp_bind(SocketAddr::new(ip, 0)).unwrap();
    let receiver = bind(&setup.peer, setup.uplink.peer_address(Family::V4));
    let sender = bind(filler, Ipv4Addr::UNSPECIFIED.into());
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    with_full_queue(&sender, || {
        for family in [Family::V4, Family::V6] {
            within_attempts(|| measure_datagrams(setup, family, false));
            within_attempts(|| measure_datagrams(setup, family, true));
        }
    });
}

fn measure_datagrams(setup: &UplinkHosts, family: Family, follows: bool) -> Result<(), String> {
    let options = if follows { &["--host-path"][..] } else { &[] };
    let seen = send(setup, options, family);
    let last = if follows { uplink(setup) } else { own(setup) };
    let (sent, wait) = (seen.at(&last), seen.wait);
    for message in &sent {
        assert_eq!(message["interfaces"]["first"]["name"], own(setup));
    }
    assert_eq!(number(&seen.report["lost"]["host_path"]), 0);
    let bounds = match follows {
        true => wait - wait / 10..=wait + wait / 10,
        false => 0..=ms(1),
    };
    within("the median of tx.qdisc", median(&sent, "tx.qdisc"), bounds)
}

#[test]
fn a_datagrams_wait_behind_a_routed_hop_is_seen_if_it_is_followed() {
    let setup = UplinkHosts::new(Uplink::routed);
    check_datagrams(&setup, &setup.host);
}

#[test]
fn a_datagrams_wait_across_a_bridge_is_seen_if_it_is_followed() {
    let setup = UplinkHosts::new(Uplink::bridged);
    check_datagrams(&setup, &setup.container);
}

const LARGE: usize = 10_000;

/// A token bucket lets no packet through that is larger than itself: it splits it (tbf_segment(),
/// v6.18), and the message's last byte leaves with the last segment, once all but a bucket of
/// tokens is paid for.
#[test]
fn a_message_that_is_split_leaves_with_its_last_segment() {
    use std::io::{Read, Write};

    const BYTES_PER_SECOND: u64 = 125_000;
    const BURST: u64 = 2048;
    /// Bytes of Ethernet, IPv4, and TCP headers with timestamps, per segment.
    const HEADERS: u64 = 66;
    const SEGMENTS: u64 = LARGE.div_ceil(1448) as u64;
    let expected = (LARGE as u64 + HEADERS * SEGMENTS - BURST) * 1_000_000_000 / BYTES_PER_SECOND;

    let setup = UplinkHosts::new(Uplink::routed);
    setup.limit_uplink("rate 1mbit burst 2kb limit 1mb");
    within_attempts(|| {
        let trace = Trace::start(&[
            "--netns",
            setup.container.netns_name(),
            "--host-path",
            "tcp",
        ]);
        let address = SocketAddr::new(setup.uplink.peer_address(Family::V4), 0);
        let listener = setup.peer.tcp_listen(address).unwrap();
        let mut client = setup
            .container
            .tcp_connect(listener.local_addr().unwrap())
            .unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[0; LARGE]).unwrap();
        server.read_exact(&mut [0; LARGE]).unwrap();
        // Until it is acknowledged.
        server.write_all(&[0]).unwrap();
        client.read_exact(&mut [0]).unwrap();
        let messages = trace.finish();
        let sent = of_direction(&messages, "tx");
        let large: Vec<_> = sent
            .into_iter()
            .filter(|message| message["bytes"] == LARGE)
            .collect();
        assert_eq!(large.len(), 1, "{messages:?}");
        assert_eq!(large[0]["interfaces"]["last"]["name"], uplink(&setup));
        let bounds = expected - expected / 10..=expected + expected / 10;
        within("tx.qdisc", median(&large, "tx.qdisc"), bounds)
    });
}
