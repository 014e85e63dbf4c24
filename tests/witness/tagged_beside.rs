//! `--tag` on connections that have options of their own, against tcpdump on both hosts:
//! signatures, another program's options, Fast Open and MPTCP. No connection breaks.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use nix::sys::socket::{setsockopt, sockopt::TcpFastOpenConnect};
use socket2::{Domain, Protocol, Socket, Type};
use sockstamp_bpf::probe;
use sockstamp_model::flow::NetnsInode;
use testbed::{Family, Host, set_signature_key};
use testbed_bpf::naive::Naive;
use with::capture::{Capture, Packet, Segment};
use with::tagged::{Hosts, MESSAGES, exchange, figures_of, joined_messages, tagged};

const KEY: &[u8] = b"a key of both";
const SYN: u8 = 2;

/// Connect with signatures by MD5 on both ends: 20 bytes of 40.
fn connect_signed(hosts: &Hosts) -> [TcpStream; 2] {
    let [first, second] = [
        hosts.link.address_a(Family::V4),
        hosts.link.address_b(Family::V4),
    ];
    let listener = hosts.hosts[1].tcp_listen(hosts.address()).unwrap();
    set_signature_key(&listener, first, KEY).unwrap();
    let client = hosts.hosts[0].enter(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        set_signature_key(&socket, second, KEY).unwrap();
        socket.connect(&hosts.address().into()).unwrap();
        TcpStream::from(socket)
    });
    let (server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    [client, server]
}

/// Write an option into each segment of a host's connections from now on.
fn write_options(host: &Host) -> Naive {
    let root = probe::facts().cgroup2.unwrap();
    let netns = NetnsInode(host.netns_inode().try_into().unwrap());
    Naive::attach(&root, Some(netns)).unwrap()
}

/// Return the segments with data of the first host.
fn data(packets: &[Packet]) -> Vec<Segment> {
    let sent = packets
        .iter()
        .filter(|packet| packet.destination.port() == 7000 && packet.length > 0);
    sent.map(|packet| packet.tcp.unwrap()).collect()
}

fn all_is_joined(hosts: &Hosts) {
    for count in joined_messages(&hosts.join(&[])) {
        assert!(count > MESSAGES as u64 * 7 / 10, "{count} of {MESSAGES}");
    }
}

/// A signature leaves room for a tag, which is no part of what is signed.
#[test]
fn signed_segments_carry_a_tag() {
    let hosts = Hosts::new();
    let recorders = [0, 1].map(|host| hosts.record(host, &["--tag"]));
    let captures = hosts.capture();
    exchange(&mut connect_signed(&hosts), MESSAGES);
    let packets = captures.map(Capture::finish);
    for figure in recorders.map(figures_of) {
        let figures = ["written", "read", "sent again"].map(figure);
        assert_eq!(figures, [1, 1, 0]);
    }
    for packets in &packets {
        let tags = tagged(packets);
        assert_eq!(tags.len(), 2, "{tags:?}");
        assert!(packets.iter().all(|packet| packet.tcp.unwrap().is_signed));
    }
    all_is_joined(&hosts);
}

/// A signature and the room that other programs reserve leave four bytes of the header.
#[test]
fn headers_without_room_get_no_tag() {
    let hosts = Hosts::new();
    let _naive = [(); 2].map(|()| write_options(&hosts.hosts[0]));
    let recorder = hosts.record(0, &["--tag"]);
    let captures = hosts.capture();
    exchange(&mut connect_signed(&hosts), MESSAGES);
    let packets = captures.map(Capture::finish);
    let figure = figures_of(recorder);
    let figures = ["written", "without room", "sent again"].map(figure);
    assert_eq!(figures, [0, 1, 0]);
    assert_eq!(tagged(&packets[1]).len(), 0);
    let data = data(&packets[1]);
    assert_eq!(data.len(), MESSAGES);
    assert!(
        data.iter()
            .all(|segment| segment.is_signed && segment.is_naive)
    );
}

/// The other program continues to work, whether it was attached earlier or later.
#[test]
fn another_programs_options_are_left_alone() {
    for is_first in [true, false] {
        let hosts = Hosts::new();
        let earlier = is_first.then(|| write_options(&hosts.hosts[0]));
        let recorders = [0, 1].map(|host| hosts.record(host, &["--tag"]));
        let later = (!is_first).then(|| write_options(&hosts.hosts[0]));
        let captures = hosts.capture();
        exchange(&mut hosts.connect(), MESSAGES);
        let packets = captures.map(Capture::finish);
        drop((earlier, later));
        for figure in recorders.map(figures_of) {
            let figures = ["written", "read", "changed", "sent again"].map(figure);
            assert_eq!(figures, [1, 1, 0, 0], "is first: {is_first}");
        }
        let data = data(&packets[1]);
        let both = data.iter().filter(|segment| segment.tag.is_some());
        println!("is first: {is_first}, of {} segments:", data.len());
        assert_eq!(both.count(), 1);
        assert_eq!(data.len(), MESSAGES);
        let naive = data.iter().filter(|segment| segment.is_naive).count();
        assert_eq!(naive, MESSAGES, "is first: {is_first}");
        all_is_joined(&hosts);
    }
}

/// Data in the SYN (RFC 7413) carries no tag; later data does.
#[test]
fn connections_of_fast_open_are_tagged_after_the_syn() {
    const BOTH: &str = "1027";
    const CONNECTIONS: usize = 2;
    let hosts = Hosts::new();
    for host in &hosts.hosts {
        host.set_sysctl("net.ipv4.tcp_fastopen", BOTH).unwrap();
    }
    let recorders = [0, 1].map(|host| hosts.record(host, &["--tag"]));
    let captures = hosts.capture();
    let listener = hosts.hosts[1].tcp_listen(hosts.address()).unwrap();
    for _ in 0..CONNECTIONS {
        let mut client = hosts.hosts[0].enter(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            setsockopt(&socket, TcpFastOpenConnect, &true).unwrap();
            socket.connect(&hosts.address().into()).unwrap();
            TcpStream::from(socket)
        });
        client.write_all(&[1; 100]).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.read_exact(&mut [0; 100]).unwrap();
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
        }
        exchange(&mut [client, server], MESSAGES);
    }
    let packets = captures.map(Capture::finish);
    for figure in recorders.map(figures_of) {
        let figures = ["written", "read", "sent again"].map(figure);
        assert_eq!(figures, [CONNECTIONS as u64, CONNECTIONS as u64, 0]);
    }
    let is_syn = |packet: &&Packet| packet.tcp.unwrap().flags & SYN != 0;
    let syns: Vec<_> = packets[1].iter().filter(is_syn).collect();
    assert!(syns.iter().any(|syn| syn.length == 100), "{syns:?}");
    assert!(
        syns.iter().all(|syn| syn.tcp.unwrap().tag.is_none()),
        "{syns:?}"
    );
    assert_eq!(tagged(&packets[1]).len(), 2 * CONNECTIONS);
}

/// Subflows of MPTCP (RFC 8684) are not measured, and not tagged. They stay what they are.
#[test]
fn connections_of_mptcp_get_no_tag() {
    let hosts = Hosts::new();
    for host in &hosts.hosts {
        host.set_sysctl("net.mptcp.enabled", "1").unwrap();
    }
    let recorders = [0, 1].map(|host| hosts.record(host, &["--tag"]));
    let captures = hosts.capture();
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
    let address: SocketAddr = hosts.address();
    let listener = hosts.hosts[1].enter(|| {
        let listener = socket();
        listener.bind(&address.into()).unwrap();
        listener.listen(1).unwrap();
        listener
    });
    let client = hosts.hosts[0].enter(|| {
        let client = socket();
        client.connect(&address.into()).unwrap();
        client
    });
    let (server, _) = listener.accept().unwrap();
    exchange(&mut [client.into(), server.into()], MESSAGES);
    let packets = captures.map(Capture::finish);
    for figure in recorders.map(figures_of) {
        let figures = ["written", "read", "sent again"].map(figure);
        assert_eq!(figures, [0, 0, 0]);
    }
    assert_eq!(tagged(&packets[1]).len(), 0);
    let read = || fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let counters = hosts.hosts[1].enter(read);
    assert_eq!(counter(&counters, "MPCapableACKRX"), 1);
    assert_eq!(counter(&counters, "MPFallbackTokenInit"), 0);
    assert_eq!(counter(&counters, "DSSCorruptionFallback"), 0);
}

/// Return a counter of /proc/net/netstat, whose lines are names and values in turn.
fn counter(counters: &str, name: &str) -> u64 {
    let lines: Vec<_> = counters
        .lines()
        .filter(|line| line.starts_with("MPTcpExt"))
        .collect();
    let [names, values] = lines[..] else {
        panic!("no counters of MPTCP: {counters}");
    };
    let named = names.split(' ').zip(values.split(' '));
    let found = named
        .filter(|(own, _)| *own == name)
        .map(|(_, value)| value.parse::<u64>().unwrap());
    found.sum()
}
