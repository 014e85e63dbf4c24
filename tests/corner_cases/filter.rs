//! Filter expressions on real connections. What an expression means is tested in the model, and
//! that the kernel agrees with it in sockstamp-bpf.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tempfile::NamedTempFile;
use testbed::{Direction, Family, Host, Link, LinkConfig, PATIENCE, Process};
use with::programs::AGAIN;
use with::traced_hosts::{Connection, Messages, outline, wait_acknowledged};
use with::{Stat, Trace, hooks, number, report, sockstamp};

const REQUEST: usize = 100;
const ANSWER: usize = 50;

fn talk(connection: &mut Connection) {
    connection.client.write_all(&[0; REQUEST]).unwrap();
    connection.server.read_exact(&mut [0; REQUEST]).unwrap();
    connection.server.write_all(&[0; ANSWER]).unwrap();
    connection.client.read_exact(&mut [0; ANSWER]).unwrap();
    wait_acknowledged(&connection.client);
    wait_acknowledged(&connection.server);
}

/// Return the parts of a [`talk`] that were measured: the request and the answer, each as sent and
/// as read.
fn seen(messages: &Messages, connection: &Connection) -> [[bool; 2]; 2] {
    let (client, server) = (connection.client_address, connection.server_address);
    let is = |messages: &[_], bytes: usize| match outline(messages)[..] {
        [] => false,
        ref found => {
            assert_eq!(found, [(bytes as u64, "valid")]);
            true
        }
    };
    [
        [
            is(&messages.sent_from(client), REQUEST),
            is(&messages.read_at(server), REQUEST),
        ],
        [
            is(&messages.sent_from(server), ANSWER),
            is(&messages.read_at(client), ANSWER),
        ],
    ]
}

const ALL: [[bool; 2]; 2] = [[true, true], [true, true]];
const NOTHING: [[bool; 2]; 2] = [[false, false], [false, false]];

/// Also over a socket of IPv6 that talks IPv4.
#[test]
fn source_and_destination_are_those_of_the_message() {
    let host = Host::new("filter").unwrap();
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    for (address, version) in [
        (IpAddr::from(Ipv4Addr::LOCALHOST), "ip"),
        (Ipv6Addr::LOCALHOST.into(), "ip6"),
        (mapped.into(), "ip"),
    ] {
        let listener = host.tcp_listen(SocketAddr::new(address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        for (filter, expected) in [
            (
                format!("{version} and tcp src port {port}"),
                [[false, false], [true, true]],
            ),
            (
                format!("dst port {port} and {version}"),
                [[true, true], [false, false]],
            ),
            (format!("not (port {port} and {version})"), NOTHING),
        ] {
            let trace = Trace::start(&["--netns", host.netns_name(), &filter]);
            let mut connection = Connection::to(&host, &listener, address);
            talk(&mut connection);
            let messages = Messages::new(trace.finish());
            assert_eq!(seen(&messages, &connection), expected, "{filter} {address}");
        }
    }
}

#[test]
fn filters_distinguish_addresses_and_ip_versions() {
    let host = Host::new("filter").unwrap();
    let filter = ["net", "127.0.0.2/31", "or", "ip6", "and", "net", "::/0"];
    let trace = Trace::start(&[&["--netns", host.netns_name()][..], &filter].concat());
    let mut connections = [
        "127.0.0.1",
        "127.0.0.2",
        "127.0.0.4",
        "::1",
        "::ffff:127.0.0.1",
    ]
    .map(|address| Connection::new(&host, &host, address.parse().unwrap()));
    connections.iter_mut().for_each(talk);
    let messages = Messages::new(trace.finish());
    // And and or associate to the left: (net 127.0.0.2/31 or ip6) and net ::/0.
    let expected = [NOTHING, NOTHING, NOTHING, ALL, NOTHING];
    assert_eq!(
        connections
            .each_ref()
            .map(|connection| seen(&messages, connection)),
        expected
    );

    let filter = "net 127.0.0.2/31 or (ip6 and net ::/0)";
    let trace = Trace::start(&["--netns", host.netns_name(), filter]);
    let mut connections = [
        "127.0.0.1",
        "127.0.0.2",
        "127.0.0.4",
        "::1",
        "::ffff:127.0.0.3",
    ]
    .map(|address| Connection::new(&host, &host, address.parse().unwrap()));
    connections.iter_mut().for_each(talk);
    let messages = Messages::new(trace.finish());
    let expected = [NOTHING, ALL, NOTHING, ALL, ALL];
    assert_eq!(
        connections
            .each_ref()
            .map(|connection| seen(&messages, connection)),
        expected
    );
}

/// The other direction is neither counted nor refused, however much it carries, and its end leaves
/// nothing behind.
#[test]
fn a_direction_that_is_not_selected_leaves_no_trace() {
    let host = Host::new("filter").unwrap();
    let address = IpAddr::from(Ipv4Addr::LOCALHOST);
    let listener = host.tcp_listen(SocketAddr::new(address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    for (filter, client) in [
        (format!("src port {port}"), false),
        (format!("dst port {port}"), true),
    ] {
        let stat = Stat::start(&["--netns", host.netns_name(), &filter]);
        let mut connection = Connection::to(&host, &listener, address);
        // More arrivals than slots, unread until all have come.
        for _ in 0..100 {
            connection.client.write_all(&[0; 10]).unwrap();
            connection.server.write_all(&[0; 20]).unwrap();
            wait_acknowledged(&connection.client);
            wait_acknowledged(&connection.server);
        }
        connection.server.read_exact(&mut [0; 1000]).unwrap();
        connection.client.read_exact(&mut [0; 2000]).unwrap();
        drop(connection);

        let report = stat.finish();
        let bytes = if client { 1000 } else { 2000 };
        for (direction, messages) in [("tx", 100), ("rx", 1)] {
            assert_eq!(
                number(&report[direction]["messages"]),
                messages,
                "{filter}: {report}"
            );
            assert_eq!(
                number(&report[direction]["bytes"]),
                bytes,
                "{filter}: {report}"
            );
        }
        // Arrivals of the direction that is measured, at most.
        assert!(
            number(&report["lost"]["evicted"]) < 100,
            "{filter}: {report}"
        );
        let verdicts = report["verdicts"].as_object().unwrap();
        assert_eq!(
            verdicts.values().map(number).sum::<u64>(),
            101,
            "{filter}: {report}"
        );
    }
}

/// Segments that come out of order are of the direction that is read, retransmissions of the other.
#[test]
fn counters_without_messages_follow_the_filters_direction() {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::relay(&client, &server, LinkConfig::default()).unwrap();
    let address = link.address_b(Family::V4);
    let listener = server.tcp_listen(SocketAddr::new(address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    for (selected, counted) in [("dst", true), ("src", false)] {
        let filter = format!("{selected} port {port}");
        let stats = Stat::start_in([&client, &server], &[&filter]);
        let mut connection = Connection::to(&client, &listener, address);
        talk(&mut connection);
        link.lose_next_data(Direction::AToB, 1).unwrap();
        for _ in 0..3 {
            connection.client.write_all(&[0; REQUEST]).unwrap();
        }
        connection.server.read_exact(&mut [0; 3 * REQUEST]).unwrap();
        wait_acknowledged(&connection.client);
        let [at_client, at_server] = stats.map(Stat::finish);
        assert_eq!(
            number(&at_client["tx"]["retransmits"]) > 0,
            counted,
            "{filter}: {at_client}"
        );
        assert_eq!(
            number(&at_server["rx"]["out_of_order"]) > 0,
            counted,
            "{filter}: {at_server}"
        );
    }
}

/// A socket's next connection is another flow.
#[test]
fn a_socket_that_is_connected_again_is_asked_again() {
    let host = Host::new("filter").unwrap();
    let servers = [7001, 7002].map(|port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
    for (selected, other) in [(servers[0], servers[1]), (servers[1], servers[0])] {
        let filter = format!("port {}", selected.port());
        let trace = Trace::start(&["--netns", host.netns_name(), &filter]);
        let program = host.spawn("python3", &["-c", AGAIN]).unwrap();
        program.wait(PATIENCE).unwrap();

        let messages = Messages::new(trace.finish());
        assert_eq!(outline(&messages.sent_to(selected)), [(100, "valid")]);
        assert_eq!(outline(&messages.read_from(selected)), [(50, "valid")]);
        for unselected in [messages.sent_to(other), messages.read_from(other)] {
            assert_eq!(outline(&unselected), []);
        }
        for unselected in [messages.sent_from(other), messages.read_at(other)] {
            assert_eq!(outline(&unselected), []);
        }
    }
}

#[test]
fn connections_that_are_adopted_are_asked_too() {
    let host = Host::new("filter").unwrap();
    let mut older = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)]
        .map(|address| Connection::new(&host, &host, address.into()));
    let port = older[1].server_address.port();
    let filter = format!("dst host 127.0.0.2 and dst port {port}");
    let trace = Trace::start(&["--netns", host.netns_name(), "-i", "lo", &filter]);
    older.iter_mut().for_each(talk);
    let messages = Messages::new(trace.finish());
    let expected = [NOTHING, [[true, true], [false, false]]];
    assert_eq!(
        older
            .each_ref()
            .map(|connection| seen(&messages, connection)),
        expected
    );
}

/// Two connections, of which the filter is for one.
const TWO: &str = "
import socket
for port in (7001, 7002):
    listener = socket.create_server(('127.0.0.1', port))
    client = socket.create_connection(('127.0.0.1', port))
    server, _ = listener.accept()
    client.sendall(b'x')
    assert server.recv(10) == b'x'
";

/// The words of the filter need no quotes, and the command's come after them.
#[test]
fn a_filter_before_a_command_needs_no_quotes() {
    let host = Host::new("filter").unwrap();
    let output = NamedTempFile::new().unwrap();
    let mut command = host.command(sockstamp());
    command.args([
        "stat", "--format", "json", "tcp", "dst", "port", "7002", "-o",
    ]);
    command.arg(output.path()).args(hooks());
    command.args(["--comm", "python3", "-i", "lo", "--", "python3", "-c", TWO]);
    let mut process = Process::spawn(command).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    assert!(status.success(), "{}", process.stderr());
    let report = report(output.path());
    assert_eq!(number(&report["tx"]["messages"]), 1, "{report}");
    assert_eq!(number(&report["rx"]["messages"]), 1, "{report}");
    assert_eq!(number(&report["verdicts"]["valid"]), 2, "{report}");
}
