//! Datagrams of a container that are followed through its host (`--host-path`): each valid message
//! against what tcpdump saw at the host's last device.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGsoSegment;
use testbed::{Family, Host, Result, Uplink, within_attempts};
use with::datagrams::{Socket, WatchedLink};
use with::{FAMILIES, of_direction};

type Build = fn(&Host, &Host, &Host) -> Result<Uplink>;

const WAYS: [Build; 2] = [Uplink::bridged, Uplink::routed];
const FOLLOWED: &[&str] = &["--host-path"];
/// A datagram of the largest size waits half a millisecond for each one before it.
const BUCKET: &str = "rate 20mbit burst 5kb limit 10mb";

fn pair(setup: &WatchedLink, family: Family) -> (Socket<'_>, Socket<'_>) {
    let (sender, receiver) = (setup.sender(family), setup.receiver(family));
    sender.socket.connect(receiver.local).unwrap();
    (sender, receiver)
}

/// Check every send, and that the last device was always named.
fn check(setup: WatchedLink, device: &str) -> std::result::Result<(), String> {
    setup.wait_for_sends();
    let evidence = setup.finish();
    for message in of_direction(&evidence.messages, "tx") {
        if message["verdict"] == "valid" {
            assert_eq!(message["interfaces"]["last"]["name"], device, "{message}");
        }
    }
    evidence.check_sends()
}

fn last_device(setup: &WatchedLink) -> String {
    setup.link.last_device(&setup.a).1.to_owned()
}

/// Send bursts of twenty over both families, each datagram of a length of its own.
fn bursts(setup: &WatchedLink, count: u64) {
    for (kind, family) in (0..).zip(FAMILIES) {
        let (sender, receiver) = pair(setup, family);
        thread::scope(|scope| {
            scope.spawn(|| receiver.receive_all(|| Duration::ZERO));
            for number in kind * 1000..kind * 1000 + count {
                let bytes = 100 + usize::try_from(number).unwrap() % 1200;
                sender.send(number, bytes, None);
                if number % 20 == 19 {
                    thread::sleep(Duration::from_millis(10));
                }
            }
        });
    }
}

#[test]
fn waits_at_the_hosts_last_device_are_timed_as_on_the_wire() {
    for build in WAYS {
        within_attempts(|| {
            let setup = WatchedLink::uplink(build, FOLLOWED);
            setup.shape(BUCKET);
            bursts(&setup, 400);
            let device = last_device(&setup);
            check(setup, &device)
        });
    }
}

/// Another container's datagrams, and its peer's, take the memory that packets give back.
#[test]
fn packets_of_others_are_not_taken_for_followed_ones() {
    for build in WAYS {
        within_attempts(|| {
            let setup = WatchedLink::uplink(build, FOLLOWED);
            setup.shape(BUCKET);
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        setup
                            .a
                            .run("ping", &["-c", "300", "-f", "-q", &peer(&setup)])
                            .unwrap();
                    }
                });
                bursts(&setup, 400);
                done.store(true, Ordering::Relaxed);
            });
            let device = last_device(&setup);
            check(setup, &device)
        });
    }
}

fn peer(setup: &WatchedLink) -> String {
    setup.link.address_b(Family::V4).to_string()
}

/// Up to 30 kB over an MTU of 1500: the last fragment waits for all others.
#[test]
fn datagrams_in_fragments_are_timed_to_the_last_of_them() {
    for build in WAYS {
        within_attempts(|| {
            let setup = WatchedLink::uplink(build, FOLLOWED);
            setup.shape(BUCKET);
            for (kind, family) in (0..).zip(FAMILIES) {
                let (sender, receiver) = pair(&setup, family);
                thread::scope(|scope| {
                    scope.spawn(|| receiver.receive_all(|| Duration::ZERO));
                    for number in 0..50_u16 {
                        let bytes = 1000 + usize::from(number) * 590;
                        sender.send(kind * 1000 + u64::from(number), bytes, None);
                        thread::sleep(Duration::from_millis(8));
                    }
                });
            }
            let device = last_device(&setup);
            check(setup, &device)
        });
    }
}

/// UDP_SEGMENT (udp(7)): the token bucket takes the packet apart (`tbf_segment()`), and the call
/// ends with the last segment.
#[test]
fn segments_that_leave_one_by_one_are_timed_to_the_last() {
    for build in WAYS {
        within_attempts(|| {
            let setup = WatchedLink::uplink(build, FOLLOWED);
            setup.shape("rate 20mbit burst 2kb limit 10mb");
            for (kind, family) in (0..).zip(FAMILIES) {
                segments(&setup, family, kind * 1000);
            }
            let device = last_device(&setup);
            check(setup, &device)
        });
    }
}

/// Datagrams that one call sends.
const SEGMENTS: u64 = 3;

fn segments(setup: &WatchedLink, family: Family, from: u64) {
    let (sender, receiver) = pair(setup, family);
    setsockopt(&sender.socket, UdpGsoSegment, &1000).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| receiver.receive_all(|| Duration::ZERO));
        for round in 0..200 {
            let first = (from + round) * SEGMENTS;
            sender.send_segments(first..first + SEGMENTS, first + SEGMENTS - 1);
            thread::sleep(Duration::from_millis(2));
        }
    });
}

/// Each socket is closed as soon as its datagram is sent, while that waits in the host.
#[test]
fn messages_of_sockets_that_are_closed_at_once_end_at_the_last_device() {
    within_attempts(|| {
        let setup = WatchedLink::uplink(Uplink::routed, FOLLOWED);
        setup.shape("rate 1mbit burst 2kb limit 10mb");
        let receiver = setup.receiver(Family::V4);
        let any = SocketAddr::new(setup.link.address_a(Family::V4), 0);
        for number in 0..100_u64 {
            let socket = setup.adopt(setup.a.udp_bind(any).unwrap());
            socket.send(number, 500, Some(receiver.local));
        }
        receiver.receive_all(|| Duration::ZERO);
        let device = last_device(&setup);
        check(setup, &device)
    });
}
