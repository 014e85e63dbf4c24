//! Every way that a message can take, in both IP versions, opened from either side.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use sockstamp_bpf::plan::Stamps;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE};
use with::programs::AGAIN;
use with::traced_hosts::{Connection, Messages, outline, wait_acknowledged};
use with::{FAMILIES, Trace, plan};

const REQUEST: usize = 100;
const RESPONSE: usize = 2000;

/// A request and its response.
fn talk(connection: &mut Connection) {
    connection.client.write_all(&[0; REQUEST]).unwrap();
    connection.server.read_exact(&mut [0; REQUEST]).unwrap();
    connection.server.write_all(&[0; RESPONSE]).unwrap();
    // RFC 9293: parts of the response may arrive, and be read, one by one.
    connection.client.read_exact(&mut [0; RESPONSE]).unwrap();
    wait_acknowledged(&connection.server);
}

/// Assert what was sent and read in one [`talk`], as both ends show it.
fn assert_measured(messages: &Messages, connection: &Connection) {
    let (client, server) = (connection.client_address, connection.server_address);
    assert_eq!(
        outline(&messages.sent_from(client)),
        [(REQUEST as u64, "valid")]
    );
    messages.assert_answered(server, REQUEST, RESPONSE);
    let read = messages.read_at(client);
    assert!(
        read.iter().all(|message| message.verdict() == "valid"),
        "{read:?}"
    );
    let bytes: u64 = read.iter().map(|message| message.bytes()).sum();
    assert_eq!(bytes, RESPONSE as u64);
    for stage in ["tx.copy", "tx.queue", "tx.qdisc", "tx.network"] {
        assert!(messages.sent_from(client)[0].stage(stage) < Duration::from_secs(1));
    }
    for stage in ["rx.stack", "rx.app"] {
        assert!(messages.read_at(server)[0].stage(stage) < Duration::from_secs(1));
    }
}

/// Both hosts are watched: the client's open is active, the server's passive.
fn over_link(join: impl Fn(&Host, &Host) -> Link) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = join(&client, &server);
    for family in FAMILIES {
        let traces = Trace::start_in([&client, &server], &[]);
        let mut connection = Connection::new(&client, &server, link.address_b(family));
        talk(&mut connection);
        let messages = Messages::new(traces.into_iter().flat_map(Trace::finish).collect());
        assert_measured(&messages, &connection);
    }
}

#[test]
fn messages_over_veth_are_measured() {
    over_link(|client, server| Link::veth(client, server).unwrap());
}

#[test]
fn messages_over_a_tun_device_are_measured() {
    over_link(|client, server| Link::relay(client, server, LinkConfig::default()).unwrap());
}

#[test]
fn messages_over_loopback_are_measured() {
    let host = Host::new("corner").unwrap();
    let addresses: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    for address in addresses {
        let trace = Trace::start(&["--netns", host.netns_name()]);
        let mut connection = Connection::new(&host, &host, address);
        talk(&mut connection);
        assert_measured(&Messages::new(trace.finish()), &connection);
    }
}

/// ipv6(7): a socket of AF_INET6 that talks IPv4. It is shown as what is on the wire.
#[test]
fn a_v4_mapped_socket_is_shown_as_ipv4() {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::veth(&client, &server).unwrap();
    let traces = Trace::start_in([&client, &server], &[]);
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let listener = server.tcp_listen(any).unwrap();
    let mut connection = Connection::to(&client, &listener, link.address_b(Family::V4));
    assert!(connection.server.local_addr().unwrap().is_ipv6());
    talk(&mut connection);
    let messages = Messages::new(traces.into_iter().flat_map(Trace::finish).collect());
    assert!(connection.server_address.is_ipv4());
    assert_measured(&messages, &connection);
}

/// The macvlan device at `address` in `host`, on the device `lower` of `carrier`.
fn add_macvlan(carrier: &Host, lower: &str, host: &Host, address: &str) {
    let ip = |inside: &Host, words: &str| {
        let words: Vec<_> = words.split(' ').collect();
        inside.run("ip", &words).unwrap();
    };
    ip(
        carrier,
        &format!("link add macvlan0 link {lower} type macvlan mode bridge"),
    );
    ip(
        carrier,
        &format!("link set macvlan0 netns {}", host.netns_name()),
    );
    ip(host, &format!("address add {address}/24 dev macvlan0"));
    ip(host, "link set macvlan0 up");
}

/// Two macvlan devices on one lower device hand packets to each other: macvlan_queue_xmit() calls
/// no skb_tx_timestamp(), and no other driver sees them (drivers/net/macvlan.c, v6.18).
#[test]
fn a_driver_that_does_not_stamp_is_named() {
    let (carrier, other) = (Host::new("carrier").unwrap(), Host::new("other").unwrap());
    let link = Link::veth(&carrier, &other).unwrap();
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    add_macvlan(&carrier, link.interface_a(), &client, "10.78.0.1");
    add_macvlan(&carrier, link.interface_a(), &server, "10.78.0.2");
    let trace = Trace::start(&["--netns", client.netns_name()]);
    let mut connection = Connection::new(&client, &server, Ipv4Addr::new(10, 78, 0, 2).into());
    talk(&mut connection);
    let messages = Messages::new(trace.finish());
    let sent = messages.sent_from(connection.client_address);
    // A tracepoint that every driver passes is not the driver's to call.
    let verdict = match plan().tx {
        Some(Stamps::Packets) => "valid",
        _ => "no-snd-stamp",
    };
    assert_eq!(outline(&sent), [(REQUEST as u64, verdict)]);
}

#[test]
fn a_socket_that_is_connected_again_is_a_new_flow() {
    let host = Host::new("corner").unwrap();
    let trace = Trace::start(&["--netns", host.netns_name()]);
    let program = host.spawn("python3", &["-c", AGAIN]).unwrap();
    program.wait(PATIENCE).unwrap();

    let messages = Messages::new(trace.finish());
    for port in [7001, 7002] {
        let server = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        assert_eq!(outline(&messages.sent_to(server)), [(100, "valid")]);
        assert_eq!(outline(&messages.read_from(server)), [(50, "valid")]);
    }
}
