//! The interfaces by which a container's messages leave, and how far they can be followed through
//! its host.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;
use testbed::{Family, Host, PATIENCE, Result, Uplink, UplinkHosts};
use with::netfilter::NETFILTER;
use with::traced_hosts::{Connection, Message, Messages, outline, wait_acknowledged};
use with::{FAMILIES, Stat, Trace, end, number, skip, start, wait_until};

const REQUEST: usize = 100;

fn connect(setup: &UplinkHosts, family: Family) -> Connection {
    Connection::new(
        &setup.container,
        &setup.peer,
        setup.uplink.peer_address(family),
    )
}

/// Return the `trace` of `talk` over a connection, the container's only traffic.
fn trace(
    setup: &UplinkHosts,
    options: &[&str],
    family: Family,
    talk: impl FnOnce(&mut Connection),
) -> Messages {
    let target = [&["--netns", setup.container.netns_name()], options].concat();
    let trace = Trace::start(&target);
    talk(&mut connect(setup, family));
    Messages::new(trace.finish())
}

fn own_interface(setup: &UplinkHosts) -> (&str, u64) {
    (
        setup.uplink.container_interface(),
        setup.container.netns_inode(),
    )
}

fn uplink_interface(setup: &UplinkHosts) -> (&str, u64) {
    (setup.uplink.uplink_interface(), setup.host.netns_inode())
}

fn ip(inside: &Host, words: &str) {
    let words: Vec<_> = words.split(' ').collect();
    inside.run("ip", &words).unwrap();
}

fn request(connection: &mut Connection) {
    connection.client.write_all(&[0; REQUEST]).unwrap();
    connection.server.read_exact(&mut [0; REQUEST]).unwrap();
    wait_acknowledged(&connection.client);
}

fn only(messages: &Messages) -> &Message {
    let sent = messages.sent();
    assert_eq!(outline(&sent), [(REQUEST as u64, "valid")]);
    sent[0]
}

/// A bridge hands the packet to the uplink, and it belongs to the socket all the way.
#[test]
fn across_a_bridge_the_last_interface_is_the_uplink() {
    let setup = UplinkHosts::new(Uplink::bridged);
    for family in FAMILIES {
        for options in [&[][..], &["--host-path"]] {
            let messages = trace(&setup, options, family, request);
            let message = only(&messages);
            assert_eq!(message.interface("first"), own_interface(&setup));
            assert_eq!(message.interface("last"), uplink_interface(&setup));
            assert_eq!(
                message.number("repeats"),
                2,
                "a stamp of SCHED and of SND: {message:?}"
            );
        }
    }
}

/// A bridge that calls iptables takes the packet from its socket: setup_pre_routing(),
/// net/bridge/br_netfilter_hooks.c, v6.18.
#[test]
fn across_a_bridge_that_calls_iptables_the_way_is_followed_when_asked_for() {
    let setup = UplinkHosts::new(Uplink::bridged);
    for (family, setting) in [(Family::V4, "iptables"), (Family::V6, "ip6tables")] {
        let setting = format!("net.bridge.bridge-nf-call-{setting}");
        if setup.host.set_sysctl(&setting, "1").is_err() {
            skip(
                "across_a_bridge_that_calls_iptables",
                "this kernel has no br_netfilter",
            );
            return;
        }
        let messages = trace(&setup, &[], family, request);
        assert_eq!(only(&messages).interface("last"), own_interface(&setup));
        let messages = trace(&setup, &["--host-path"], family, request);
        assert_eq!(only(&messages).interface("last"), uplink_interface(&setup));
    }
}

/// ip_rcv_core() takes the packet from its socket: its callbacks end there.
#[test]
fn the_first_interface_is_the_last_before_a_routed_hop() {
    let setup = UplinkHosts::new(Uplink::routed);
    for family in FAMILIES {
        let messages = trace(&setup, &[], family, request);
        let message = only(&messages);
        assert_eq!(message.interface("first"), own_interface(&setup));
        assert_eq!(message.interface("last"), own_interface(&setup));
        assert_eq!(message.number("repeats"), 0);
    }
}

#[test]
fn a_routed_packet_is_followed_to_the_uplink_when_asked_for() {
    let setup = UplinkHosts::new(Uplink::routed);
    for family in FAMILIES {
        let messages = trace(&setup, &["--host-path"], family, request);
        let message = only(&messages);
        assert_eq!(message.interface("first"), own_interface(&setup));
        assert_eq!(message.interface("last"), uplink_interface(&setup));
        assert_eq!(message.number("repeats"), 1, "of SND: {message:?}");
    }
}

/// A container that sends one datagram, the only traffic of its namespace.
struct Datagram<'a> {
    setup: &'a UplinkHosts,
    trace: Trace,
}

impl Datagram<'_> {
    fn traced<'a>(setup: &'a UplinkHosts, options: &[&str]) -> Datagram<'a> {
        let target = ["--netns", setup.container.netns_name(), "udp"];
        let trace = Trace::start(&[options, &target].concat());
        Datagram { setup, trace }
    }

    fn send(&self, to: SocketAddr) {
        let any = match to {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let client = self
            .setup
            .container
            .udp_bind(SocketAddr::new(any, 0))
            .unwrap();
        client.send_to(&[0; REQUEST], to).unwrap();
    }

    /// Send it to a socket of `host` that reads it, and return where it came from.
    fn send_to(&self, host: &Host, address: IpAddr) -> SocketAddr {
        let server = host.udp_bind(SocketAddr::new(address, 0)).unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        self.send(server.local_addr().unwrap());
        let (length, from) = server.recv_from(&mut [0; 2 * REQUEST]).unwrap();
        assert_eq!(length, REQUEST);
        from
    }

    fn finish(self) -> Messages {
        Messages::new(self.trace.finish())
    }
}

/// A datagram is not called back for behind its own interface, where the kernel calls back at all.
#[test]
fn a_datagram_ends_at_the_first_interface_unless_it_is_followed() {
    for build in [Uplink::routed, Uplink::bridged] {
        let setup = UplinkHosts::new(build);
        for family in FAMILIES {
            for (options, last) in [
                (&[][..], own_interface(&setup)),
                (&["--host-path"], uplink_interface(&setup)),
            ] {
                let datagram = Datagram::traced(&setup, options);
                datagram.send_to(&setup.peer, setup.uplink.peer_address(family));
                let messages = datagram.finish();
                let message = only(&messages);
                assert_eq!(message.interface("first"), own_interface(&setup));
                assert_eq!(message.interface("last"), last);
            }
        }
    }
}

/// A followed datagram passes the uplink, on a host that routes and on one with a bridge.
#[test]
fn each_further_interface_of_a_datagram_is_counted() {
    for (build, interfaces) in [
        (
            Uplink::routed as fn(&Host, &Host, &Host) -> Result<Uplink>,
            1,
        ),
        (Uplink::bridged, 1),
    ] {
        let setup = UplinkHosts::new(build);
        let datagram = Datagram::traced(&setup, &["--host-path"]);
        datagram.send_to(&setup.peer, setup.uplink.peer_address(Family::V4));
        assert_eq!(only(&datagram.finish()).number("repeats"), interfaces);
    }
}

/// NAT gives the packet another source; its memory stays.
#[test]
fn a_translated_datagram_is_followed_as_well() {
    let setup = UplinkHosts::new(Uplink::routed);
    setup
        .host
        .run("python3", &["-c", &format!("{NETFILTER}{MASQUERADE}")])
        .unwrap();
    for family in FAMILIES {
        let datagram = Datagram::traced(&setup, &["--host-path"]);
        let from = datagram.send_to(&setup.peer, setup.uplink.peer_address(family));
        assert_ne!(from.ip(), setup.uplink.container_address(family));
        assert_eq!(
            only(&datagram.finish()).interface("last"),
            uplink_interface(&setup)
        );
    }
}

/// The host itself reads it: its way has one interface.
#[test]
fn a_datagram_that_is_delivered_here_ends_at_the_container() {
    let setup = UplinkHosts::new(Uplink::routed);
    for family in FAMILIES {
        let datagram = Datagram::traced(&setup, &["--host-path"]);
        datagram.send_to(&setup.host, setup.uplink.gateway_address(family));
        let messages = datagram.finish();
        let message = only(&messages);
        assert_eq!(message.interface("last"), own_interface(&setup));
        assert_eq!(message.number("repeats"), 0);
    }
}

/// A datagram is dropped by the host's packet scheduler, or by the host because no socket takes it.
#[test]
fn a_followed_datagram_that_is_dropped_is_refused() {
    let setup = UplinkHosts::new(Uplink::routed);
    let closed = |address| SocketAddr::new(address, 9);
    let datagram = Datagram::traced(&setup, &["--host-path"]);
    datagram.send(closed(setup.uplink.gateway_address(Family::V4)));
    assert_eq!(
        outline(&datagram.finish().sent()),
        [(REQUEST as u64, "dropped")]
    );
    // No packet is as small as the bucket, so neighbours have to know each other before.
    let peer = setup.uplink.peer_address(Family::V4).to_string();
    setup.host.run("ping", &["-c", "1", "-q", &peer]).unwrap();
    setup.limit_uplink("rate 1mbit burst 20 limit 20");
    let datagram = Datagram::traced(&setup, &["--host-path"]);
    datagram.send(closed(setup.uplink.peer_address(Family::V4)));
    assert_eq!(
        outline(&datagram.finish().sent()),
        [(REQUEST as u64, "dropped")]
    );
}

/// The host has taken nearly all that the bucket gives in an hour.
#[test]
fn a_datagram_that_waits_too_long_is_given_up() {
    let setup = UplinkHosts::new(Uplink::routed);
    setup.limit_uplink("rate 8bit burst 2kb limit 1mb");
    let to = SocketAddr::new(setup.uplink.peer_address(Family::V4), 9);
    let others = setup
        .host
        .udp_bind((Ipv4Addr::UNSPECIFIED, 0).into())
        .unwrap();
    for _ in 0..2 {
        others.send_to(&[0; 950], to).unwrap();
    }
    let datagram = Datagram::traced(&setup, &["--host-path"]);
    datagram.send(to);
    datagram.trace.wait_for("tx", 1);
    assert_eq!(
        outline(&datagram.finish().sent()),
        [(REQUEST as u64, "no-snd-stamp")]
    );
}

/// Has packets leave with the address of the device, as
///
///     nft add table inet nat
///     nft add chain inet nat out { type nat hook postrouting priority 100 \; }
///     nft add rule inet nat out masquerade
const MASQUERADE: &str = "
commit(
    add(0, attribute(1, 'nat')),
    add(3, attribute(1, 'nat'), attribute(3, 'out'), nested(4, attribute(1, 4), attribute(2, 100)),
        attribute(7, 'nat')),
    add(6, attribute(1, 'nat'), attribute(2, 'out'), nested(4, nested(1, attribute(1, 'masq')))))
";

/// NAT gives the packet another source; the key of its stamps stays.
#[test]
fn a_translated_packet_is_followed_as_well() {
    let setup = UplinkHosts::new(Uplink::routed);
    setup
        .host
        .run("python3", &["-c", &format!("{NETFILTER}{MASQUERADE}")])
        .unwrap();
    for family in FAMILIES {
        let messages = trace(&setup, &["--host-path"], family, |connection| {
            let seen = connection.server.peer_addr().unwrap();
            assert_ne!(seen.ip(), connection.client.local_addr().unwrap().ip());
            request(connection);
        });
        assert_eq!(only(&messages).interface("last"), uplink_interface(&setup));
    }
}

fn cork(socket: &TcpStream, on: bool) {
    SockRef::from(socket).set_tcp_cork(on).unwrap();
}

/// Messages that share a packet share its way, too.
#[test]
fn coalesced_messages_leave_by_the_same_interface() {
    for (build, options) in [
        (
            Uplink::bridged as fn(&Host, &Host, &Host) -> Result<Uplink>,
            &[][..],
        ),
        (Uplink::routed, &["--host-path"]),
    ] {
        let setup = UplinkHosts::new(build);
        let messages = trace(&setup, options, Family::V4, |connection| {
            cork(&connection.client, true);
            for _ in 0..3 {
                connection.client.write_all(&[0; REQUEST]).unwrap();
            }
            cork(&connection.client, false);
            connection.server.read_exact(&mut [0; 3 * REQUEST]).unwrap();
            wait_acknowledged(&connection.client);
        });
        let sent = messages.sent();
        assert_eq!(outline(&sent), [(REQUEST as u64, "valid"); 3]);
        assert!(
            sent[1].is_coalesced(),
            "Nagle keeps the second for the third: {sent:?}"
        );
        for message in sent {
            assert_eq!(message.interface("last"), uplink_interface(&setup));
        }
    }
}

/// The answers to the first transmission get lost. What follows it is the network's time, as
/// without a host between.
#[test]
fn a_retransmission_does_not_move_the_last_stamp() {
    let setup = UplinkHosts::new(Uplink::routed);
    let container = setup
        .container
        .run("ip", &["-4", "-o", "address", "show", "scope", "global"])
        .unwrap();
    let address = container
        .split_whitespace()
        .nth(3)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let messages = trace(&setup, &["--host-path"], Family::V4, |connection| {
        ip(&setup.peer, &format!("route add blackhole {address}"));
        connection.client.write_all(&[0; REQUEST]).unwrap();
        wait_until("it is sent again", || {
            testbed::TcpInfo::of(&connection.client)
                .unwrap()
                .total_retrans
                > 0
        });
        ip(&setup.peer, &format!("route delete blackhole {address}"));
        wait_acknowledged(&connection.client);
    });
    let message = only(&messages);
    assert!(message.number("retransmits") > 0);
    assert_eq!(message.interface("last"), uplink_interface(&setup));
    assert!(
        message.stage("tx.qdisc") < Duration::from_millis(100),
        "{message:?}"
    );
    assert!(message.stamp("snd_last") > message.stamp("snd"));
    // RFC 6298: a retransmission timeout is 200 ms at least, here (TCP_RTO_MIN).
    assert!(
        message.stage("tx.network") > Duration::from_millis(150),
        "{message:?}"
    );
}

fn interfaces(report: &Value) -> &[Value] {
    report["interfaces"].as_array().unwrap()
}

#[test]
fn stat_reports_that_the_nic_is_out_of_sight() {
    let setup = UplinkHosts::new(Uplink::routed);
    let netns = setup.container.netns_name();
    let seen = |options: &[&str], (name, inode): (&str, u64), leads_on: bool| {
        let stat = Stat::start(&[&["--netns", netns], options].concat());
        request(&mut connect(&setup, Family::V4));
        let report = stat.finish();
        let [only] = interfaces(&report) else {
            panic!("one interface: {report}");
        };
        assert_eq!(only["name"], name);
        assert_eq!(number(&only["netns"]), inode);
        assert_eq!(only["kind"], "veth");
        assert_eq!(only["leads_on"], leads_on);
        assert_eq!(number(&only["messages"]), 1);
        assert_eq!(number(&report["lost"]["host_path"]), 0);
    };
    seen(&[], own_interface(&setup), true);
    seen(&["--host-path"], uplink_interface(&setup), false);
}

#[test]
fn text_shows_interface_names() {
    let setup = UplinkHosts::new(Uplink::bridged);
    let output = tempfile::NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap();
    for (subcommand, expected) in [
        (
            "stat",
            format!(
                " interfaces: {}@{} 1 (veth)\n             the way goes on in this host",
                uplink_interface(&setup).0,
                setup.host.netns_name()
            ),
        ),
        (
            "trace",
            format!(
                "  via {} → {}@{}\n",
                own_interface(&setup).0,
                uplink_interface(&setup).0,
                setup.host.netns_name()
            ),
        ),
    ] {
        let process = start(&[
            subcommand,
            "--netns",
            setup.container.netns_name(),
            "-o",
            path,
        ]);
        request(&mut connect(&setup, Family::V4));
        end(process);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(&expected), "{expected} in {text}");
    }
}
