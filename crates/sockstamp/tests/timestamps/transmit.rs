//! Test stamps of sent messages: each kind of socket, each IP version, each stamp.

use std::io::IoSlice;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::timestamping::{
    Flag, Matcher, MessageOptions, Options, Outcome, TxKind, TxStamp, send,
};
use testbed::{Family, Host, Link};

use crate::common::{
    FAMILIES, KINDS, Kind, PAYLOAD, SCHED_AND_SND, Sender, host, ids_and_kinds, interface_index,
    now, own_ids, send_to, software, stamps, supported, udp, wait_for_error_queue,
};

const MESSAGES: u32 = 3;

/// The source of the request for stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Socket,
    Message,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    kind: Kind,
    family: Family,
    asks: Asks,
    with_packet: bool,
    own_id: bool,
}

fn wanted(options: Options, kinds: &[TxKind]) -> Options {
    kinds.iter().fold(options, |options, kind| match kind {
        TxKind::Sched => options.tx_sched(),
        TxKind::Snd => options.tx_software(),
        TxKind::Ack => options.tx_ack(),
        TxKind::Completion => options.tx_completion(),
        other => panic!("no option for {other}"),
    })
}

fn wanted_of_message(options: MessageOptions, kinds: &[TxKind]) -> MessageOptions {
    kinds.iter().fold(options, |options, kind| match kind {
        TxKind::Sched => options.tx_sched(),
        TxKind::Snd => options.tx_software(),
        TxKind::Ack => options.tx_ack(),
        TxKind::Completion => options.tx_completion(),
        other => panic!("no option for {other}"),
    })
}

/// The ids of the stamps of [`MESSAGES`] messages.
fn ids(case: &Case) -> Vec<u32> {
    (0..MESSAGES)
        .map(|number| match case {
            Case { own_id: true, .. } => 42 + 7 * number,
            Case {
                kind: Kind::Tcp, ..
            } => (number + 1) * u32::try_from(PAYLOAD).unwrap() - 1,
            _ => number,
        })
        .collect()
}

/// Send [`MESSAGES`] messages, and give the stamps of each, which must lie between the send and
/// now, in this order.
fn check(host: &Host, case: &Case, kinds: &[TxKind]) {
    // A new one each time: the ids of TCP begin at the oldest byte that is not acknowledged.
    let sender = &Sender::new(host, case.kind, case.family);
    let socket_options = Options::new().software().id();
    let socket_options = match case {
        Case {
            asks: Asks::Socket, ..
        } => wanted(socket_options, kinds),
        Case {
            asks: Asks::Message,
            ..
        } => socket_options,
    };
    let socket_options = match case.with_packet {
        true => socket_options,
        false => socket_options.only_stamps(),
    };
    socket_options.apply(sender).unwrap();
    for (number, id) in (0..).zip(ids(case)) {
        let options = MessageOptions::new();
        let options = match case.asks {
            Asks::Socket => options,
            Asks::Message => wanted_of_message(options, kinds),
        };
        let options = if case.own_id { options.id(id) } else { options };
        let before = now();
        sender.send(options).unwrap();
        let got = stamps(sender, kinds.len());
        let seen: Vec<_> = got.iter().map(|stamp| (stamp.id, stamp.kind)).collect();
        let expected: Vec<_> = kinds.iter().map(|kind| (id, *kind)).collect();
        assert_eq!(seen, expected, "message {number} of {case:?}");
        let times: Vec<_> = got.iter().map(software).collect();
        let bounded = [&[before], &times[..], &[now()]].concat();
        assert!(
            bounded.is_sorted(),
            "message {number} of {case:?}: {bounded:?}"
        );
    }
}

fn check_each_stamp(host: &Host, case: &Case) {
    check(host, case, &[TxKind::Sched]);
    check(host, case, &[TxKind::Snd]);
    check(host, case, &[TxKind::Sched, TxKind::Snd]);
    if case.kind == Kind::Tcp {
        check(host, case, &[TxKind::Ack]);
        check(host, case, &[TxKind::Sched, TxKind::Snd, TxKind::Ack]);
    }
}

fn matrix(asks: Asks, with_packet: bool) {
    let host = host("transmit");
    for kind in KINDS {
        for family in FAMILIES {
            let case = Case {
                kind,
                family,
                asks,
                with_packet,
                own_id: false,
            };
            check_each_stamp(&host, &case);
        }
    }
}

#[test]
fn a_socket_requests_stamps_with_their_packets() {
    matrix(Asks::Socket, true);
}

#[test]
fn a_socket_requests_stamps_without_their_packets() {
    matrix(Asks::Socket, false);
}

#[test]
fn a_message_requests_stamps_with_their_packets() {
    matrix(Asks::Message, true);
}

#[test]
fn a_message_requests_stamps_without_their_packets() {
    matrix(Asks::Message, false);
}

#[test]
fn a_message_has_an_id_of_its_own() {
    if !own_ids("transmit::a_message_has_an_id_of_its_own") {
        return;
    }
    let host = host("own-id");
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Tcp) {
        for family in FAMILIES {
            for (asks, with_packet) in [(Asks::Socket, true), (Asks::Message, false)] {
                let case = Case {
                    kind,
                    family,
                    asks,
                    with_packet,
                    own_id: true,
                };
                check_each_stamp(&host, &case);
            }
        }
    }
}

/// Test it with the option, without it on the socket, and on TCP.
#[test]
fn an_own_id_is_refused_where_the_kernel_cannot() {
    let host = host("refused-id");
    for (kind, options) in [
        (Kind::Udp, Options::new().tx_software()),
        (Kind::Tcp, Options::new().tx_software().id()),
    ] {
        let sender = Sender::new(&host, kind, Family::V4);
        options.apply(&sender).unwrap();
        let error = sender.send(MessageOptions::new().id(7)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{kind:?}");
    }
}

#[test]
fn messages_with_an_own_id_are_not_counted() {
    if !own_ids("transmit::messages_with_an_own_id_are_not_counted") {
        return;
    }
    let sender = Sender::stamped(&host("mixed-ids"));
    let plain = MessageOptions::new();
    for options in [plain, plain.id(77), plain, plain.unstamped(), plain] {
        sender.send(options).unwrap();
    }
    let ids: Vec<_> = stamps(&sender, 4).iter().map(|stamp| stamp.id).collect();
    assert_eq!(ids, [0, 77, 1, 2]);
}

#[test]
fn a_message_without_stamps_has_none() {
    let host = host("unstamped");
    for kind in [Kind::Tcp, Kind::Udp] {
        let sender = Sender::new(&host, kind, Family::V4);
        let options = Options::new().tx_sched().tx_software().tx_ack();
        options.apply(&sender).unwrap();
        sender.send(MessageOptions::new().unstamped()).unwrap();
        assert_eq!(stamps(&sender, 0), [], "{kind:?}");
        assert!(
            !wait_for_error_queue(&sender, Duration::from_millis(50)),
            "{kind:?}"
        );
    }
}

#[test]
fn datagrams_have_no_ack() {
    let host = host("no-ack");
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Tcp) {
        for family in FAMILIES {
            let sender = Sender::new(&host, kind, family);
            Options::new()
                .tx_ack()
                .tx_software()
                .apply(&sender)
                .unwrap();
            sender.send(MessageOptions::new()).unwrap();
            let kinds: Vec<_> = stamps(&sender, 1).iter().map(|stamp| stamp.kind).collect();
            assert_eq!(kinds, [TxKind::Snd], "{kind:?} {family:?}");
        }
    }
}

#[test]
fn the_most_segments_are_as_many_datagrams_with_one_stamp() {
    const BYTES: u16 = 20;
    let (receiver, sender) = host("segments").enter(|| {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        (bind(), bind())
    });
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    Options::new().tx_software().apply(&sender).unwrap();
    let payload = [7; MessageOptions::MAX_SEGMENTS * BYTES as usize];
    let options = MessageOptions::new().segments(BYTES);
    let sent = send(&sender, &[IoSlice::new(&payload)], None, options);
    assert_eq!(sent.unwrap(), payload.len());
    for _ in 0..MessageOptions::MAX_SEGMENTS {
        assert_eq!(receiver.recv(&mut [0; 100]).unwrap(), BYTES.into());
    }
    assert_eq!(stamps(&sender, 1).len(), 1);
}

#[test]
fn an_unrequested_stamp_is_counted() {
    let sender = Sender::new(&host("not-given"), Kind::Udp, Family::V4);
    Options::new()
        .with(Flag::TxSoftware)
        .apply(&sender)
        .unwrap();
    sender.send(MessageOptions::new()).unwrap();
    assert!(wait_for_error_queue(&sender, Duration::from_secs(5)));
    let mut queue = ErrorQueue::new();
    let taken = queue.drain(&sender, |report| panic!("{report:?}")).unwrap();
    assert_eq!((taken, queue.counters().without_time), (1, 1));
}

#[test]
fn entries_wake_poll_until_they_are_drained() {
    let host = host("poll");
    for kind in KINDS {
        let sender = Sender::new(&host, kind, Family::V4);
        Options::new()
            .tx_software()
            .only_stamps()
            .apply(&sender)
            .unwrap();
        assert!(!wait_for_error_queue(&sender, Duration::ZERO), "{kind:?}");
        sender.send(MessageOptions::new()).unwrap();
        assert!(
            wait_for_error_queue(&sender, Duration::from_secs(5)),
            "{kind:?}"
        );
        stamps(&sender, 1);
        assert!(!wait_for_error_queue(&sender, Duration::ZERO), "{kind:?}");
    }
}

/// The second number of the option brings the same.
#[test]
fn wide_times_are_the_same() {
    let host = host("wide");
    for kind in [Kind::Tcp, Kind::Udp, Kind::Packet] {
        let sender = Sender::new(&host, kind, Family::V6);
        Options::new()
            .tx_software()
            .id()
            .wide()
            .apply(&sender)
            .unwrap();
        let before = now();
        sender.send(MessageOptions::new()).unwrap();
        let got: Vec<TxStamp> = stamps(&sender, 1);
        let time = software(&got[0]);
        assert!((before..=now()).contains(&time), "{kind:?}: {time}");
    }
}

#[test]
fn a_stamp_has_its_interface() {
    let host = host("interface");
    let Some(options) = supported(
        "transmit::a_stamp_has_its_interface",
        Options::new().packet_control(),
    ) else {
        return;
    };
    let loopback = host.enter(|| interface_index("lo"));
    for family in FAMILIES {
        let sender = Sender::new(&host, Kind::Udp, family);
        match family {
            Family::V4 => setsockopt(&sender, sockopt::Ipv4PacketInfo, &true).unwrap(),
            Family::V6 => setsockopt(&sender, sockopt::Ipv6RecvPacketInfo, &true).unwrap(),
        }
        options.tx_software().apply(&sender).unwrap();
        sender.send(MessageOptions::new()).unwrap();
        assert!(wait_for_error_queue(&sender, Duration::from_secs(5)));
        let mut interfaces = Vec::new();
        let mut keep = |report: Report<'_>| match report {
            Report::Stamp { interface, .. } => interfaces.push(interface),
            other => panic!("{other:?}"),
        };
        ErrorQueue::new().drain(&sender, &mut keep).unwrap();
        assert_eq!(interfaces, [Some(loopback)], "{family:?}");
    }
}

#[test]
fn an_interface_without_a_clock_gives_no_hardware_stamp() {
    let host = host("no-clock");
    for (options, kinds) in [
        (Options::new().tx_hardware(), vec![]),
        (
            Options::new().tx_hardware().tx_software(),
            vec![TxKind::Snd],
        ),
        (
            Options::new().tx_hardware().tx_software().both(),
            vec![TxKind::Snd],
        ),
    ] {
        let sender = Sender::new(&host, Kind::Udp, Family::V4);
        options.apply(&sender).unwrap();
        sender.send(MessageOptions::new()).unwrap();
        let got = stamps(&sender, kinds.len());
        assert!(
            got.iter().all(|stamp| stamp.time.software().is_some()),
            "{got:?}"
        );
        assert_eq!(
            got.iter().map(|stamp| stamp.kind).collect::<Vec<_>>(),
            kinds
        );
    }
}

/// A socket of IPv6 that speaks IPv4.
#[test]
fn mapped_addresses_are_stamped() {
    let (socket, peer) = host("mapped").enter(|| {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        (UdpSocket::bind(any).unwrap(), udp(Family::V4))
    });
    SCHED_AND_SND.apply(&socket).unwrap();
    let port = peer.local_addr().unwrap().as_socket().unwrap().port();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port));
    for id in 0..2 {
        send_to(&socket, to);
        assert_eq!(
            ids_and_kinds(&socket, 2),
            [(id, TxKind::Sched), (id, TxKind::Snd)]
        );
    }
}

/// The kernel drops stamps silently; ids show which.
#[test]
fn stamps_beyond_the_receive_buffer_are_lost_and_known() {
    const SENDS: usize = 200;
    let sender = Sender::new(&host("overflow"), Kind::Udp, Family::V4);
    setsockopt(&sender, sockopt::RcvBuf, &1).unwrap();
    Options::new().tx_software().id().apply(&sender).unwrap();
    let mut matcher = Matcher::datagrams(SENDS, &[TxKind::Snd]);
    for number in 0..SENDS {
        sender.send(MessageOptions::new()).unwrap();
        matcher.sent(PAYLOAD, number);
    }
    let mut came = Vec::new();
    for stamp in stamps(&sender, 1) {
        let outcome = matcher.stamp(&stamp, |matched| came.push(*matched.message));
        assert_eq!(outcome, Outcome::Matched);
    }
    assert!(!came.is_empty() && came.len() < SENDS, "{came:?}");
    let lost: Vec<_> = matcher.unfinished().copied().collect();
    let expected: Vec<_> = (0..SENDS).filter(|number| !came.contains(number)).collect();
    assert_eq!(lost, expected);
}

/// An interface to another host gives the same stamps as loopback.
#[test]
fn a_veth_is_stamped() {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::veth(&client, &server).unwrap();
    for family in FAMILIES {
        let peer = server.udp_bind((link.address_b(family), 0).into()).unwrap();
        let socket = client.udp_bind((link.address_a(family), 0).into()).unwrap();
        socket.connect(peer.local_addr().unwrap()).unwrap();
        SCHED_AND_SND.apply(&socket).unwrap();
        for id in 0..3 {
            socket.send(b"x").unwrap();
            assert_eq!(
                ids_and_kinds(&socket, 2),
                [(id, TxKind::Sched), (id, TxKind::Snd)],
                "{family:?}"
            );
        }
    }
}
