//! Test the ownership of the ids that the kernel reports.

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockaddrStorage, sendto, setsockopt, sockopt};
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::zerocopy::{How, NotSent, Options, Sent, Support, ZeroCopySender};
use testbed::PATIENCE;

use crate::common::{LOOPBACKS, Network, all_back, always, send, udp_pair};

#[test]
fn many_completions_are_one_entry() {
    for address in LOOPBACKS {
        let (socket, _receiver) = udp_pair(address);
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        for _ in 0..200 {
            assert_eq!(send(&mut sender, vec![0; 100], How::default()), None);
        }
        let entries = sender
            .drain(&mut ErrorQueue::new(), |other| panic!("{other:?}"))
            .unwrap();
        assert_eq!((entries, sender.in_flight()), (1, 0));
        assert_eq!(std::iter::from_fn(|| sender.next_returned()).count(), 200);
    }
}

/// The first datagram waits for a neighbour that never answers, later ones leave at once.
#[test]
fn a_buffer_comes_back_before_those_sent_earlier_if_it_is_complete_earlier() {
    let network = Network::new();
    let socket = network.udp_to_nobody();
    let neighbour = network
        .b
        .udp_bind((network.link.address_b(testbed::Family::V4), 0).into())
        .unwrap();
    let there = How::default().to(neighbour.local_addr().unwrap());
    let mut sender = ZeroCopySender::new(socket, always()).unwrap();
    // The neighbour's address is known from now on.
    assert_eq!(send(&mut sender, vec![0; 1000], there), None);
    assert_eq!(all_back(&mut sender).len(), 1);

    assert_eq!(send(&mut sender, vec![1; 1000], How::default()), None);
    for _ in 0..3 {
        assert_eq!(send(&mut sender, vec![2; 1000], there), None);
    }
    let mut queue = ErrorQueue::new();
    while sender.in_flight() > 1 {
        sender
            .drain(&mut queue, |other| panic!("{other:?}"))
            .unwrap();
    }
    for _ in 0..3 {
        assert_eq!(sender.next_returned().unwrap().buffer, [2; 1000]);
    }
    assert_eq!(sender.next_returned(), None, "the first is still in flight");

    // The kernel gives up after some seconds; the host unreachable that it tells is the socket's
    // pending error.
    let idle = sender.wait_idle(&mut queue, PATIENCE, |_| {}).unwrap();
    assert!(idle, "{:?}", sender.counters());
    assert_eq!(sender.next_returned().unwrap().buffer, [1; 1000]);
}

/// The kernel takes the datagram, gives it an id, and finds then that it has too many segments.
#[test]
fn a_failed_send_with_an_id_does_not_shift_those_that_follow() {
    for address in LOOPBACKS {
        let (socket, _receiver) = udp_pair(address);
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        for round in 0..3 {
            assert_eq!(send(&mut sender, vec![1; 1000], How::default()), None);
            let failed = sender.send_by(vec![2; 30_000], How::default().segments(100));
            let Err(NotSent::Failed { buffer, .. }) = failed else {
                panic!("300 segments were sent: {failed:?}");
            };
            assert_eq!(buffer.unwrap(), [2; 30_000]);
            let copied = send(&mut sender, vec![3; 1000], How::default());
            assert_eq!(
                copied,
                Some(vec![3; 1000]),
                "it is not known what id it would have"
            );
            assert_eq!(all_back(&mut sender).len(), 1);
            let counters = sender.counters();
            assert_eq!((counters.lent, counters.not_asked), (round + 1, round + 1));
            assert_eq!((counters.foreign, counters.repeated), (0, 0));
        }
    }
}

/// A pending error fails a send before it has an id.
#[test]
fn a_failed_send_without_an_id_does_not_shift_those_that_follow() {
    for address in LOOPBACKS {
        let (socket, receiver) = udp_pair(address);
        let nowhere = receiver.local_addr().unwrap();
        drop(receiver);
        let there = UdpSocket::bind((address, 0)).unwrap();
        let how = How::default().to(there.local_addr().unwrap());
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        for round in 1..4 {
            assert_eq!(
                send(&mut sender, vec![1; 1000], How::default().to(nowhere)),
                None
            );
            let failed = sender.send_by(vec![2; 1000], how);
            assert!(
                matches!(failed, Err(NotSent::Failed { .. })),
                "refused by ICMP: {failed:?}"
            );
            assert_eq!(all_back(&mut sender).len(), 1);
            assert_eq!(send(&mut sender, vec![3; 1000], how), None);
            assert_eq!(all_back(&mut sender)[0].buffer, [3; 1000]);
            let counters = sender.counters();
            assert_eq!((counters.lent, counters.foreign), (2 * round, 0));
        }
    }
}

#[test]
fn stamps_and_completions_share_the_queue_and_neither_is_lost() {
    /// With stamps between them completions do not merge, and Linux 6.1 has room for about 25
    /// (net.core.optmem_max).
    const SENDS: u32 = 15;
    for address in LOOPBACKS {
        let (socket, _receiver) = udp_pair(address);
        let asked = libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        let flags = nix::sys::socket::TimestampingFlag::from_bits_retain(asked);
        setsockopt(&socket, sockopt::Timestamping, &flags).unwrap();
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        let (mut queue, mut stamps) = (ErrorQueue::new(), Vec::new());
        for _ in 0..SENDS {
            assert_eq!(send(&mut sender, vec![0; 2000], How::default()), None);
        }
        let idle = sender.wait_idle(&mut queue, PATIENCE, |other| match other {
            Report::Stamp { stamp, .. } => stamps.push(stamp.id),
            other => panic!("{other:?}"),
        });
        assert!(idle.unwrap());
        stamps.sort_unstable();
        assert_eq!(stamps, (0..SENDS).collect::<Vec<u32>>());
        assert_eq!(
            std::iter::from_fn(|| sender.next_returned()).count(),
            SENDS as usize
        );
        assert_eq!(queue.counters().lost(), 0);
    }
}

/// A program that reads the queue itself hands completions on.
#[test]
fn completions_may_come_from_anywhere_and_more_than_once() {
    let (socket, _receiver) = udp_pair(LOOPBACKS[0]);
    let mut sender = ZeroCopySender::new(&socket, always()).unwrap();
    for _ in 0..10 {
        assert!(matches!(sender.send(vec![0; 100]).unwrap(), Sent::InFlight));
    }
    let mut ranges = Vec::new();
    ErrorQueue::new()
        .drain(&socket, |report| match report {
            Report::ZeroCopy(range) => ranges.push(range),
            other => panic!("{other:?}"),
        })
        .unwrap();
    for _ in 0..2 {
        for &range in &ranges {
            sender.complete(range);
        }
    }
    assert_eq!(sender.in_flight(), 0);
    let counters = sender.counters();
    assert_eq!(
        (counters.completed, counters.repeated, counters.foreign),
        (10, 10, 0)
    );
}

#[test]
fn a_stranger_that_sends_without_a_copy_is_noticed() {
    let (socket, receiver) = udp_pair(LOOPBACKS[0]);
    let mut sender = ZeroCopySender::new(&socket, always()).unwrap();
    assert_eq!(sender.send(vec![0; 100]).unwrap(), Sent::InFlight);
    let to = SockaddrStorage::from(receiver.local_addr().unwrap());
    let flags = MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY);
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    assert_eq!(sendto(fd, &[0; 100], &to, flags), Ok(100));
    sender
        .drain(&mut ErrorQueue::new(), |other| panic!("{other:?}"))
        .unwrap();
    assert_eq!(
        (sender.counters().completed, sender.counters().foreign),
        (1, 1)
    );
    assert!(matches!(
        sender.send(vec![0; 100]).unwrap(),
        Sent::Copied(_)
    ));
}

#[test]
fn a_sockets_support_is_a_value() {
    let (socket, _receiver) = udp_pair(LOOPBACKS[0]);
    let first = ZeroCopySender::<_, Vec<u8>>::new(&socket, always()).unwrap();
    assert_eq!(first.support(), Support::Available);
    let mut second = ZeroCopySender::new(&socket, always()).unwrap();
    assert_eq!(second.support(), Support::InUse);
    assert_eq!(
        second.send(vec![5; 100]).unwrap(),
        Sent::Copied(vec![5; 100])
    );

    let (local, peer) = UnixDatagram::pair().unwrap();
    let mut sender = ZeroCopySender::new(local, always()).unwrap();
    assert_eq!(sender.support(), Support::Unsupported);
    assert_eq!(
        sender.send(vec![6; 100]).unwrap(),
        Sent::Copied(vec![6; 100])
    );
    assert_eq!(peer.recv(&mut [0; 200]).unwrap(), 100);
    assert_eq!(sender.counters().not_asked, 1);

    let file = std::fs::File::open("/proc/self/status").unwrap();
    let error = ZeroCopySender::<_, Vec<u8>>::new(file, Options::default()).unwrap_err();
    let said = std::io::Error::from(Errno::ENOTSOCK);
    assert_eq!(
        error.to_string(),
        format!("getsockopt(SO_TYPE) on a socket: {said}")
    );
}
