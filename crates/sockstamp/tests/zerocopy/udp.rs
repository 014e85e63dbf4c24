use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use sockstamp::error_queue::ErrorQueue;
use sockstamp::timestamping;
use sockstamp::zerocopy::{How, Sent, ZeroCopySender};
use testbed::{Family, PATIENCE};

use crate::common::{
    LOOPBACKS, Network, Pool, all_back, always, fill, first_difference, send, udp_pair,
};

/// Datagrams that wait for their reader at most: a receive buffer of the default size holds these.
const AHEAD: usize = 4;

fn receives(receiver: &UdpSocket, seed: u64, length: usize) {
    let mut bytes = vec![0; 65_536];
    let read = receiver.recv(&mut bytes).unwrap();
    assert_eq!(read, length);
    assert_eq!(first_difference(&bytes[..read], seed, 0), None);
}

/// Each datagram has content of its own, and the one before it is read after the next is sent.
fn sends_and_receives(sender: UdpSocket, receiver: &UdpSocket, length: usize) {
    let mut sender = ZeroCopySender::new(sender, always()).unwrap();
    let mut pool = Pool::new(AHEAD, length);
    for turn in 0..100 {
        let mut buffer = pool.take(&mut sender);
        fill(&mut buffer, turn, 0);
        pool.give(send(&mut sender, buffer, How::default()));
        if turn > 0 {
            receives(receiver, turn - 1, length);
        }
    }
    receives(receiver, 99, length);
    all_back(&mut sender);
    let counters = sender.counters();
    assert_eq!((counters.lent, counters.completed), (100, 100));
    assert_eq!(
        counters.completed_copied, 100,
        "the receiver is on this host"
    );
}

#[test]
fn datagrams_arrive_while_buffers_are_used_again() {
    for address in LOOPBACKS {
        for length in [1, 1472, 9000, 60_000] {
            let (sender, receiver) = udp_pair(address);
            sends_and_receives(sender, &receiver, length);
        }
    }
}

/// A part of a buffer that is shared is sent as it is, and comes back.
#[test]
fn shared_bytes_are_sent_and_come_back() {
    let (socket, receiver) = udp_pair(LOOPBACKS[0]);
    let mut sender = ZeroCopySender::new(socket, always()).unwrap();
    let whole = Bytes::from((0..=255).collect::<Vec<u8>>());
    let part = whole.slice(100..200);
    assert!(matches!(sender.send(part.clone()), Ok(Sent::InFlight)));
    let mut got = [0; 256];
    assert_eq!(receiver.recv(&mut got).unwrap(), 100);
    assert_eq!(got[..100], part);
    assert!(
        sender
            .wait_idle(&mut ErrorQueue::new(), PATIENCE, |_| {})
            .unwrap()
    );
    assert_eq!(
        sender.next_returned().map(|returned| returned.buffer),
        Some(part)
    );
}

/// More pieces than a packet can refer to are copied.
#[test]
fn buffers_that_lie_apart_arrive_as_one_datagram() {
    for address in LOOPBACKS {
        let (socket, receiver) = udp_pair(address);
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        for pieces in [2, 17, 18, 100] {
            let mut whole = vec![0; pieces * 10 + 50_000];
            fill(&mut whole, 9, 0);
            let (head, body) = whole.split_at(pieces * 10);
            let head: Vec<_> = head.chunks(10).map(<[u8]>::to_vec).collect();
            match sender.send((head, body.to_vec())).unwrap() {
                Sent::InFlight | Sent::Copied(_) => {}
                Sent::Partly { .. } => panic!("a datagram goes as a whole"),
            }
            receives(&receiver, 9, whole.len());
            let idle = sender.wait_idle(&mut ErrorQueue::new(), PATIENCE, |_| {});
            assert!(idle.unwrap());
        }
        let counters = sender.counters();
        let returned = std::iter::from_fn(|| sender.next_returned());
        let lent = returned
            .map(|returned| returned.buffer.0.len())
            .collect::<Vec<_>>();
        // The body of 50 000 bytes takes 13 pages at least.
        assert_eq!((&lent[..], counters.refused), (&[2][..], 3), "{counters:?}");
    }
}

/// The kernel reports each completion once, in one call with stamps of others.
#[test]
fn buffers_come_back_although_the_reader_of_stamps_panics() {
    for address in LOOPBACKS {
        let (socket, _receiver) = udp_pair(address);
        let stamps = timestamping::Options::new().tx_sched().id();
        stamps.only_stamps().apply(&socket).unwrap();
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        for _ in 0..5 {
            assert_eq!(send(&mut sender, vec![0; 100], How::default()), None);
        }
        let mut queue = ErrorQueue::new();
        let panics = catch_unwind(AssertUnwindSafe(|| {
            sender.drain_queue(&mut queue, |other| panic!("{other:?}"))
        }));
        assert!(panics.is_err());
        let idle = sender.wait_idle(&mut queue, PATIENCE, |_| {});
        assert!(idle.unwrap(), "{:?}", sender.counters());
        let returned = std::iter::from_fn(|| sender.next_returned()).count();
        assert_eq!((returned, sender.in_flight()), (5, 0));
    }
}

#[test]
fn datagrams_arrive_over_a_link() {
    let network = Network::new();
    for family in [Family::V4, Family::V6] {
        let receiver = network
            .b
            .udp_bind((network.link.address_b(family), 0).into())
            .unwrap();
        let sender = network
            .a
            .udp_bind((network.link.address_a(family), 0).into())
            .unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        sends_and_receives(sender, &receiver, 1400);
    }
}

#[test]
fn each_datagram_has_its_own_address() {
    for address in LOOPBACKS {
        let receivers = [(); 2].map(|()| UdpSocket::bind((address, 0)).unwrap());
        let socket = UdpSocket::bind((address, 0)).unwrap();
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        for (seed, receiver) in [0, 1, 2, 3].into_iter().zip(receivers.iter().cycle()) {
            let mut buffer = vec![0; 5000];
            fill(&mut buffer, seed, 0);
            let to = receiver.local_addr().unwrap();
            assert_eq!(send(&mut sender, buffer, How::default().to(to)), None);
            receives(receiver, seed, 5000);
        }
        assert_eq!(all_back(&mut sender).len(), 4);
    }
}

#[test]
fn segments_arrive_as_datagrams_with_and_without_a_copy() {
    for (address, threshold) in LOOPBACKS
        .into_iter()
        .flat_map(|address| [(address, 0), (address, 20_000)])
    {
        let (socket, receiver) = udp_pair(address);
        let mut sender = ZeroCopySender::new(socket, always().threshold(threshold)).unwrap();
        let mut buffer = vec![0; 10_500];
        fill(&mut buffer, 6, 0);
        let copied = send(&mut sender, buffer, How::default().segments(1000));
        assert_eq!(copied.is_some(), threshold > 10_500);
        let mut bytes = [0; 2000];
        for at in (0..10_500).step_by(1000) {
            let read = receiver.recv(&mut bytes).unwrap();
            assert_eq!(read, (10_500 - at).min(1000));
            assert_eq!(first_difference(&bytes[..read], 6, at), None);
        }
        assert_eq!(all_back(&mut sender).len(), usize::from(threshold == 0));
    }
}

/// `-c` of msg_zerocopy.c.
#[test]
fn parts_of_a_datagram_come_back_when_it_is_sent() {
    for address in LOOPBACKS {
        let (socket, receiver) = udp_pair(address);
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        for seed in 0..20 {
            for part in 0..4 {
                let mut buffer = vec![0; 700];
                fill(&mut buffer, seed, part * 700);
                let how = if part == 3 {
                    How::default()
                } else {
                    How::default().more()
                };
                assert_eq!(send(&mut sender, buffer, how), None);
            }
            receives(&receiver, seed, 4 * 700);
        }
        assert_eq!(all_back(&mut sender).len(), 80);
    }
}

/// Repeat the tx-only test of msg_zerocopy.sh: packets that are not received on this host are not
/// copied. A port of a bridge that is down drops packets before they are received
/// (`br_handle_frame()` in net/bridge/br_input.c, v6.18).
#[test]
fn datagrams_not_received_on_this_host_are_not_copied() {
    let network = Network::new();
    let (near, far) = (network.link.interface_a(), network.link.interface_b());
    for (host, arguments) in [
        (&network.a, format!("link set {near} mtu 65535")),
        (&network.b, format!("link set {far} mtu 65535")),
        (&network.b, "link add closed type bridge".into()),
        (&network.b, format!("link set {far} master closed")),
    ] {
        host.run("ip", &arguments.split(' ').collect::<Vec<_>>())
            .unwrap();
    }
    for family in [Family::V4, Family::V6] {
        let to = network.link.address_b(family);
        let neighbour = format!("neigh replace {to} lladdr 02:00:00:00:00:01 dev {near}");
        network
            .a
            .run("ip", &neighbour.split(' ').collect::<Vec<_>>())
            .unwrap();
        let socket = network
            .a
            .udp_bind((network.link.address_a(family), 0).into())
            .unwrap();
        socket.connect((to, 9)).unwrap();
        let mut sender = ZeroCopySender::new(socket, always()).unwrap();
        let mut pool = Pool::new(AHEAD, 40_000);
        for _ in 0..50 {
            let buffer = pool.take(&mut sender);
            assert_eq!(sender.send(buffer).unwrap(), Sent::InFlight);
        }
        all_back(&mut sender);
        let counters = sender.counters();
        assert_eq!(
            (counters.completed, counters.completed_copied),
            (50, 0),
            "{to}"
        );
    }
}
