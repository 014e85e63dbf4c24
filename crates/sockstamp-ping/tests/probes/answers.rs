//! Test the answers to each kind of probe.

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;

use socket2::{Domain, Socket, Type};
use sockstamp_ping::{AnswerKind, End, Engine, Limits, Protocol, Sockets};
use testbed::{Family, Host, PATIENCE};

use crate::common::{FAMILIES, assert_stamped, probe, target};

const PROBES: u64 = 20;

fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

#[test]
fn echo_replies_by_ping_sockets_and_by_raw_ones() {
    for (range, sockets) in [("0 0", Sockets::Ping), ("1 0", Sockets::RawIcmp)] {
        let host = Host::new("echo").unwrap();
        host.set_sysctl("net.ipv4.ping_group_range", range).unwrap();
        for family in FAMILIES {
            let target = target(&host, loopback(family), Protocol::Icmp, PROBES);
            let (mut engine, _events) = Engine::start(Limits::default()).unwrap();
            assert_eq!(engine.add(target.clone()).unwrap().sockets, sockets);
            drop(engine);
            let story = probe([target]);
            for answer in story.all_answered(PROBES) {
                assert_eq!(
                    (answer.kind, answer.from),
                    (AnswerKind::EchoReply, loopback(family))
                );
                assert_eq!(
                    (answer.bytes, answer.missing, answer.hop_limit),
                    (56, 0, Some(64))
                );
                assert_stamped(&answer);
            }
            assert!(
                matches!(story.ends()[..], [(_, End::Count)]),
                "{:?}",
                story.ends()
            );
        }
    }
}

/// A raw socket of the same host gets a copy of each request, behind its header of IPv4.
#[test]
fn requests_have_the_wanted_identifier_and_the_number_that_is_told() {
    for range in ["0 0", "1 0"] {
        let host = Host::new("identifier").unwrap();
        host.set_sysctl("net.ipv4.ping_group_range", range).unwrap();
        let icmp = Some(socket2::Protocol::ICMPV4);
        let copies = host.enter(|| Socket::new(Domain::IPV4, Type::RAW, icmp).unwrap());
        copies.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut target = target(&host, loopback(Family::V4), Protocol::Icmp, 3);
        target.settings.identifier = Some(4321);
        assert_eq!(probe([target]).all_answered(3).len(), 3);
        let mut requests = Vec::new();
        while requests.len() < 3 {
            let mut packet = [0; 200];
            let length = (&copies).read(&mut packet).unwrap();
            let [8, 0, _, _, id_high, id_low, high, low, ..] = packet[20..length] else {
                continue;
            };
            requests.push([[id_high, id_low], [high, low]].map(u16::from_be_bytes));
        }
        assert_eq!(requests, [[4321, 1], [4321, 2], [4321, 3]]);
    }
}

#[test]
fn datagrams_are_answered_by_datagrams_and_by_port_unreachable() {
    let host = Host::new("udp").unwrap();
    for family in FAMILIES {
        let echo = host.udp_bind((loopback(family), 0).into()).unwrap();
        let port = echo.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let mut buffer = [0; 2_000];
            for _ in 0..PROBES {
                let (length, from) = echo.recv_from(&mut buffer).unwrap();
                echo.send_to(&buffer[..length], from).unwrap();
            }
        });
        let story = probe([target(
            &host,
            loopback(family),
            Protocol::Udp { port },
            PROBES,
        )]);
        server.join().unwrap();
        for answer in story.all_answered(PROBES) {
            assert_eq!(
                (answer.kind, answer.from),
                (AnswerKind::UdpReply, loopback(family))
            );
            assert_eq!((answer.bytes, answer.hop_limit), (56, Some(64)));
            assert_stamped(&answer);
        }
        // The port has no listener any more.
        let story = probe([target(
            &host,
            loopback(family),
            Protocol::Udp { port },
            PROBES,
        )]);
        for answer in story.all_answered(PROBES) {
            assert_eq!(
                (answer.kind, answer.from),
                (AnswerKind::PortUnreachable, loopback(family))
            );
            assert_stamped(&answer);
        }
    }
}

#[test]
fn syns_are_answered_by_open_and_by_closed_ports() {
    let host = Host::new("tcp").unwrap();
    for family in FAMILIES {
        let listener = host.tcp_listen((loopback(family), 0).into()).unwrap();
        let port = listener.local_addr().unwrap().port();
        for (kind, listener) in [
            (AnswerKind::SynAck, Some(listener)),
            (AnswerKind::Reset, None),
        ] {
            let story = probe([target(
                &host,
                loopback(family),
                Protocol::Tcp { port },
                PROBES,
            )]);
            for answer in story.all_answered(PROBES) {
                assert_eq!((answer.kind, answer.from), (kind, loopback(family)));
                assert_stamped(&answer);
            }
            if let Some(listener) = listener {
                // The kernel's RST: nothing was accepted.
                listener.set_nonblocking(true).unwrap();
                assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
            }
        }
    }
}
