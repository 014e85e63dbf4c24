//! Datagrams that leave a receive queue in another way than one read after the other: a read is
//! right or refused.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use socket2::{Domain, Protocol, SockFilter, SockRef, Type};
use testbed::{Family, Host, within_attempts};
use with::FAMILIES;
use with::datagrams::{Socket, WatchedLink, datagram, number_of};

/// A pause clearly longer than a read.
const GAP: Duration = Duration::from_millis(20);

/// Send a datagram whose checksum is wrong, and that is too long for the kernel to look before it
/// is read (`CHECKSUM_BREAK`, include/linux/skbuff.h).
fn send_damaged(host: &Host, from: SocketAddr, to: SocketAddr) {
    const BYTES: u16 = 300;
    let [IpAddr::V4(source), IpAddr::V4(destination)] = [from.ip(), to.ip()] else {
        panic!("IPv4 alone");
    };
    let length = 20 + 8 + BYTES;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    // No fragment, 64 hops, UDP. The kernel fills in the header's own checksum: raw(7).
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    for word in [from.port(), to.port(), 8 + BYTES, 0xbad] {
        packet.extend(word.to_be_bytes());
    }
    packet.resize(length.into(), 0);
    let protocol = Protocol::from(libc::IPPROTO_RAW);
    let raw = host.enter(|| socket2::Socket::new(Domain::IPV4, Type::RAW, Some(protocol)).unwrap());
    raw.send_to(&packet, &to.into()).unwrap();
}

/// The counter of UDP that /proc/net/snmp has by this name, of a host.
fn counter(host: &Host, name: &str) -> u64 {
    let text = host.run("cat", &["/proc/net/snmp"]).unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Udp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    columns
        .find(|(column, _)| *column == name)
        .unwrap()
        .1
        .parse()
        .unwrap()
}

/// All lengths are equal, so only the order distinguishes datagrams.
const BYTES: usize = 300;

fn pair(setup: &WatchedLink) -> (Socket<'_>, Socket<'_>) {
    let (sender, receiver) = (setup.sender(Family::V4), setup.receiver(Family::V4));
    sender.socket.connect(receiver.local).unwrap();
    (sender, receiver)
}

#[test]
fn a_read_that_meets_a_bad_checksum_first_is_right_or_refused() {
    within_attempts(|| damaged(|_| ()));
}

#[test]
fn a_poll_that_meets_a_bad_checksum_first_leaves_reads_right_or_refused() {
    within_attempts(|| damaged(wait_readable));
}

/// Wait as select(2) and epoll(7) do: the kernel then verifies the checksum, unless the socket does
/// not block (`udp_poll()`).
fn wait_readable(receiver: &Socket) {
    let mut set = [PollFd::new(receiver.socket.as_fd(), PollFlags::POLLIN)];
    poll(&mut set, PollTimeout::from(400_u16)).unwrap();
}

/// A reader that waits: now and then a damaged datagram comes, and a good one follows each after a
/// [`GAP`].
fn damaged(wait: impl Fn(&Socket) + Sync) -> Result<(), String> {
    const GOOD: u64 = 60;
    let setup = WatchedLink::veth();
    let (sender, receiver) = pair(&setup);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..GOOD {
                wait(&receiver);
                assert!(receiver.receive());
            }
        });
        for number in 0..GOOD {
            if number % 30 == 10 {
                send_damaged(&setup.a, sender.local, receiver.local);
            }
            thread::sleep(GAP);
            sender.send(number, BYTES, None);
        }
    });
    assert_eq!(counter(&setup.b, "InCsumErrors"), 2);
    setup.finish().check_reads()
}

/// After a damaged one in the same burst, and before it.
#[test]
fn bad_checksums_within_a_burst_leave_reads_right_or_refused() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        let (sender, receiver) = pair(&setup);
        for burst in 0..20 {
            for number in 0..40 {
                if burst % 2 == 0 && number == 20 {
                    send_damaged(&setup.a, sender.local, receiver.local);
                }
                sender.send(burst * 40 + number, BYTES, None);
            }
            for number in 0..40 {
                thread::sleep(Duration::from_micros(number % 3 * 300));
                assert!(receiver.receive());
            }
        }
        assert_eq!(counter(&setup.b, "InCsumErrors"), 10);
        setup.finish().check_reads()
    });
}

#[test]
fn datagrams_of_one_length_back_to_back_are_distinguished() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        let (sender, receiver) = pair(&setup);
        thread::scope(|scope| {
            scope.spawn(|| receiver.receive_all(|| Duration::ZERO));
            for number in 0..2000 {
                sender.send(number, BYTES, None);
                if number % 50 == 49 {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        });
        setup.finish().check_reads()
    });
}

#[test]
fn a_datagram_that_was_looked_at_first_is_timed_to_its_read() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        let (sender, receiver) = pair(&setup);
        for round in 0..40 {
            for number in 0..5 {
                sender.send(round * 5 + number, BYTES, None);
            }
            for number in 0..5 {
                let mut buffer = [0; BYTES];
                for _ in 0..=number % 3 {
                    receiver.socket.peek(&mut buffer).unwrap();
                    assert_eq!(number_of(&buffer), round * 5 + number);
                }
                thread::sleep(Duration::from_millis(2));
                assert!(receiver.receive());
            }
        }
        setup.finish().check_reads()
    });
}

/// Lengths show which thread read what; their reads may end in any order. The kernel's queue tells
/// the order of most.
#[test]
fn most_of_two_readers_of_a_socket_have_right_times_and_the_others_none() {
    within_attempts(two_readers);
}

fn two_readers() -> Result<(), String> {
    let setup = WatchedLink::veth();
    let (sender, receiver) = pair(&setup);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| receiver.receive_all(|| Duration::ZERO));
        }
        for number in 0..1000 {
            sender.send(number, 100 + usize::try_from(number).unwrap(), None);
            if number % 10 == 9 {
                thread::sleep(Duration::from_millis(2));
            }
        }
    });
    let evidence = setup.finish();
    evidence.none_is_wrong("rx")?;
    let valid = evidence.verdict_count("rx", "valid");
    // The number of reads at once is a matter of time.
    match valid * 6 >= 1000 * 5 {
        true => Ok(()),
        false => Err(format!("{valid} of 1000 are valid")),
    }
}

/// Two CPUs deliver to one queue, in an order that our hook need not have seen.
#[test]
fn two_senders_at_once_leave_reads_right_or_refused() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        let receiver = setup.receiver(Family::V4);
        thread::scope(|scope| {
            scope.spawn(|| receiver.receive_all(|| Duration::ZERO));
            for first in [0, 1000] {
                let (sender, receiver) = (setup.sender(Family::V4), &receiver);
                let to = receiver.local;
                scope.spawn(move || {
                    for number in first..first + 600 {
                        sender.send(number, BYTES, Some(to));
                        if number % 20 == 19 {
                            // However late the reader is, its buffer has room for both.
                            receiver.wait_until_read();
                            thread::sleep(Duration::from_millis(4));
                        }
                    }
                });
            }
        });
        assert_eq!(counter(&setup.b, "RcvbufErrors"), 0);
        setup.finish().check_reads()
    });
}

#[test]
fn sockets_that_share_a_port_have_times_of_their_own() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        let to = SocketAddr::new(setup.link.address_b(Family::V4), 7000);
        let shared = || {
            let socket = setup.b.enter(|| {
                let socket = socket2::Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
                socket.set_reuse_port(true).unwrap();
                socket.bind(&to.into()).unwrap();
                socket
            });
            socket
                .set_read_timeout(Some(with::datagrams::SILENCE))
                .unwrap();
            setup.adopt(socket.into())
        };
        let receivers = [shared(), shared()];
        thread::scope(|scope| {
            for (receiver, pause) in receivers.iter().zip([0, 3]) {
                scope.spawn(move || receiver.receive_all(|| Duration::from_millis(pause)));
            }
            for number in 0..400 {
                let sender = setup.sender(Family::V4);
                sender.send(number, 100 + usize::try_from(number).unwrap(), Some(to));
                thread::sleep(Duration::from_micros(1500));
            }
        });
        setup.finish().check_reads()
    });
}

/// SO_ATTACH_FILTER (socket(7)): the kernel drops what it rejects, after our hook, or cuts it.
#[test]
fn a_filter_that_comes_and_goes_leaves_reads_right_or_refused() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        let (sender, receiver) = pair(&setup);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| receiver.receive_all(|| Duration::ZERO));
            scope.spawn(|| {
                let socket = SockRef::from(&receiver.socket);
                let filter = ODD_NUMBERS.map(|(code, jt, jf, k)| SockFilter::new(code, jt, jf, k));
                while !done.load(Ordering::Relaxed) {
                    socket.attach_filter(&filter).unwrap();
                    thread::sleep(Duration::from_millis(7));
                    socket.detach_filter().unwrap();
                    thread::sleep(Duration::from_millis(3));
                }
            });
            for number in 0..2000 {
                sender.send(number, BYTES, None);
                if number % 8 == 7 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        let evidence = setup.finish();
        assert!(
            evidence.read.len() < 1900,
            "{} were let through",
            evidence.read.len()
        );
        evidence.check_reads()
    });
}

/// Load the last byte of the number, after the 8 bytes of the header, and let odd ones pass:
/// `BPF_STMT` and `BPF_JUMP` of include/uapi/linux/filter.h.
const ODD_NUMBERS: [(u16, u8, u8, u32); 4] = [
    (0x30, 0, 0, 15),
    (0x45, 0, 1, 1),
    (0x06, 0, 0, 0xffff),
    (0x06, 0, 0, 0),
];

#[test]
fn a_full_buffer_leaves_reads_right_or_refused() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        let (sender, receiver) = pair(&setup);
        SockRef::from(&receiver.socket)
            .set_recv_buffer_size(8192)
            .unwrap();
        thread::scope(|scope| {
            scope.spawn(|| receiver.receive_all(|| Duration::from_micros(200)));
            for number in 0..3000 {
                sender.send(number, BYTES, None);
                if number % 50 == 49 {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        });
        assert!(counter(&setup.b, "RcvbufErrors") > 100);
        setup.finish().check_reads()
    });
}

/// Datagrams queued before the measurement began are in no ring.
#[test]
fn reads_of_what_came_before_the_start_are_refused_and_later_ones_right() {
    within_attempts(came_before_the_start);
}

fn came_before_the_start() -> Result<(), String> {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = testbed::Link::veth(&a, &b).unwrap();
    let bind = |host: &Host, ip| host.udp_bind(SocketAddr::new(ip, 0)).unwrap();
    let sender = bind(&a, link.address_a(Family::V4));
    let receiver = bind(&b, link.address_b(Family::V4));
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    for number in 0..3 {
        sender.send(&datagram(1_000_000 + number, BYTES)).unwrap();
    }
    let setup = WatchedLink::between(a, b, link);
    let (sender, receiver) = (setup.adopt(sender), setup.adopt(receiver));
    for number in 0..100 {
        sender.send(number, BYTES, None);
    }
    // They have no packet in the capture: a valid one is a wrong one.
    for _ in 0..103 {
        assert!(receiver.receive());
    }
    setup.finish().none_is_wrong("rx")
}

/// Almost as many as the default receive buffer takes: 768 bytes are counted for each.
const MANY: u64 = 250;

const SMALL: usize = 60;

/// More wait than have room in the socket's state.
fn read_late(receiver: &Socket, sender: &Socket, numbers: Range<u64>) {
    for number in numbers.clone() {
        sender.send(number, SMALL, None);
    }
    thread::sleep(GAP);
    for number in numbers {
        thread::sleep(Duration::from_micros(number % 3 * 200));
        assert!(receiver.receive());
    }
}

#[test]
fn a_reader_far_behind_has_right_times_of_all_datagrams() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        for (kind, family) in (0..).zip(FAMILIES) {
            let (sender, receiver) = (setup.sender(family), setup.receiver(family));
            sender.socket.connect(receiver.local).unwrap();
            for round in kind * 10..kind * 10 + 4 {
                read_late(&receiver, &sender, round * MANY..(round + 1) * MANY);
            }
        }
        assert_eq!(counter(&setup.b, "RcvbufErrors"), 0);
        setup.finish().check_reads()
    });
}

/// A receive buffer of the size that large servers set.
#[test]
fn datagrams_without_room_are_refused_and_later_ones_right() {
    within_attempts(without_room);
}

fn without_room() -> Result<(), String> {
    const SENT: u64 = 1500;
    let setup = WatchedLink::veth();
    let (sender, receiver) = pair(&setup);
    setsockopt(&receiver.socket, RcvBufForce, &(4 << 20)).unwrap();
    read_late(&receiver, &sender, 0..SENT);
    read_late(&receiver, &sender, SENT..SENT + MANY);
    let evidence = setup.finish();
    let refused = evidence.verdict_count("rx", "evicted");
    assert!((400..500).contains(&refused), "{refused} were evicted");
    evidence.none_is_wrong("rx")?;
    let valid = evidence.verdict_count("rx", "valid");
    assert!(
        valid + refused + 5 > evidence.read.len(),
        "{valid} are valid"
    );
    Ok(())
}

/// There is room for 256 datagrams of all sockets.
#[test]
fn closed_sockets_give_the_room_of_their_unread_datagrams_back() {
    within_attempts(|| {
        let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
        let link = testbed::Link::veth(&a, &b).unwrap();
        let setup = WatchedLink::traced(a, b, link, &["--max-memory", "1"]);
        for round in 0..10 {
            let (sender, _receiver) = pair(&setup);
            for number in 0..MANY {
                sender.send(1_000_000 + round * MANY + number, SMALL, None);
            }
        }
        let (sender, receiver) = pair(&setup);
        read_late(&receiver, &sender, 0..MANY);
        setup.finish().check_reads()
    });
}
