//! Sockets whose sends have tokens.

use std::collections::BTreeMap;
use std::io::{IoSlice, Read};
use std::net::{TcpStream, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use sockstamp::stamped::{Settings, Stamped, StampedSocket, Token};
use sockstamp::timestamping::{Coverage, MessageOptions, Options, Outgoing, TxKind};
use testbed::{Family, PATIENCE};

use crate::common::{host, now, own_ids, read_all, software, tcp_pair};

const SCHED: Options = Options::new().tx_sched();
/// Each way to number datagrams.
const SETTINGS: [Settings; 2] = [Settings::new(), Settings::new().counted()];

/// A socket with room for all stamps of a test, and its peer.
pub fn connected(name: &str) -> (UdpSocket, UdpSocket) {
    let (socket, peer) = host(name).enter(|| {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(peer.local_addr().unwrap()).unwrap();
        (socket, peer)
    });
    setsockopt(&socket, sockopt::RcvBufForce, &(1 << 24)).unwrap();
    (socket, peer)
}

/// When each send began and ended, by the program's own clock.
type Times = BTreeMap<Token, RangeInclusive<u64>>;

/// Return how many stamps were not taken during their send.
fn wrong<'a>(stamps: impl IntoIterator<Item = &'a Stamped>, times: &Times) -> usize {
    let right = |stamped: &&Stamped| {
        let time = software(&stamped.stamp);
        times
            .get(&stamped.token)
            .is_some_and(|send| send.contains(&time))
    };
    let wrong = stamps.into_iter().filter(|stamped| !right(stamped));
    wrong.count()
}

#[test]
fn failed_sends_shift_no_stamp() {
    const SENDS: usize = 300;
    for settings in SETTINGS {
        let (socket, _peer) = connected("stamped-failed");
        let socket = StampedSocket::with(socket, SCHED, settings).unwrap();
        let (mut times, mut stamps) = (Times::new(), Vec::new());
        for number in 0..SENDS {
            // The kernel refuses a thousand segments after it has counted the datagram.
            let segment = i32::from(number % 10 == 3);
            setsockopt(socket.get_ref(), sockopt::UdpGsoSegment, &segment).unwrap();
            let before = now();
            let sent = socket.send(&[0; 1000]);
            assert_eq!(sent.is_err(), segment == 1);
            if let Ok(sent) = sent {
                times.insert(sent.token, before..=now());
            }
            if number % 16 == 0 {
                stamps.extend(socket.stamps().unwrap());
            }
        }
        stamps.extend(socket.stamps().unwrap());
        let counters = socket.counters();
        assert_eq!(wrong(&stamps, &times), 0, "{counters:?}");
        assert_eq!(stamps.len(), 270, "{counters:?}");
        assert_eq!((counters.tried, counters.failed), (300, 30));
        assert_eq!(counters.stamps.doubtful + counters.stamps.unknown, 0);
    }
}

/// The kernel refuses a thousand segments after it has counted the datagram.
#[test]
fn a_failure_within_a_batch_shifts_no_stamp() {
    const MESSAGES: usize = 50;
    for settings in SETTINGS {
        let (socket, peer) = connected("stamped-batch");
        let socket = StampedSocket::with(socket, SCHED, settings).unwrap();
        let payload = [0; 1000];
        let parts = [IoSlice::new(&payload)];
        let good = Outgoing::new(&parts);
        let bad = good.with(MessageOptions::new().segments(1));
        let messages: Vec<_> = (0..MESSAGES)
            .map(|number| if number % 20 == 13 { bad } else { good })
            .collect();
        let (mut times, mut failed) = (Times::new(), Vec::new());
        let mut rest = &messages[..];
        while !rest.is_empty() {
            let before = now();
            let sent = match socket.send_batch(rest) {
                Ok(sent) => sent,
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
                    failed.push(MESSAGES - rest.len());
                    rest = &rest[1..];
                    continue;
                }
            };
            times.extend(sent.iter().map(|sent| (sent.token, before..=now())));
            assert!(sent.iter().all(|sent| sent.bytes == 1000));
            rest = &rest[sent.len()..];
        }
        assert_eq!(failed, [13, 33], "{settings:?}");
        let stamps = socket.stamps().unwrap();
        let counters = socket.counters();
        assert_eq!(wrong(&stamps, &times), 0, "{counters:?}");
        assert_eq!(stamps.len(), MESSAGES - failed.len(), "{counters:?}");
        // Each bad message was tried within its batch, and again as the first of the next.
        assert_eq!((counters.tried, counters.failed), (52, 4), "{settings:?}");
        assert_eq!(counters.stamps.doubtful + counters.stamps.unknown, 0);
        assert_eq!(counters.stamps.unfinished, 0);
        let received = (0..stamps.len()).all(|_| peer.recv(&mut [0; 2000]).unwrap() == 1000);
        assert!(received);
    }
}

/// A stream takes a part of a message where there is no more room, and nothing behind it.
#[test]
fn a_batch_on_a_stream_ends_where_there_is_no_room() {
    let (socket, mut peer) = host("stamped-stream-batch").enter(|| tcp_pair(Family::V4));
    let socket = StampedSocket::new(socket, Options::new().tx_ack()).unwrap();
    let payload = vec![7; 100_000];
    let parts = [IoSlice::new(&payload)];
    let message = Outgoing::new(&parts).with(MessageOptions::new().dont_wait());
    let messages = [message; 200];
    let sent = socket.send_batch(&messages).unwrap();
    let bytes: usize = sent.iter().map(|sent| sent.bytes).sum();
    let (last, whole) = sent.split_last().unwrap();
    assert!(sent.len() < 200 && whole.iter().all(|sent| sent.bytes == 100_000));
    assert!(last.bytes > 0);
    let mut received = vec![0; bytes];
    peer.read_exact(&mut received).unwrap();
    let mut seen = Vec::new();
    while seen.len() < sent.len() {
        let stamps = socket.wait_stamps(PATIENCE).unwrap();
        assert!(!stamps.is_empty(), "{:?}", socket.counters());
        seen.extend(stamps.iter().map(|stamped| stamped.token));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, sent.iter().map(|sent| sent.token).collect::<Vec<_>>());
    peer.set_nonblocking(true).unwrap();
    assert!(peer.read(&mut [0]).is_err(), "nothing else was sent");
}

#[test]
fn threads_send_and_take_stamps_as_they_like() {
    const THREADS: usize = 4;
    const SENDS: usize = 300;
    for settings in SETTINGS {
        let (socket, _peer) = connected("stamped-threads");
        let settings = settings.capacity(THREADS * SENDS);
        let socket = StampedSocket::with(socket, SCHED, settings).unwrap();
        let (times, mut stamps) = (Mutex::new(Times::new()), Vec::new());
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..SENDS {
                        let before = now();
                        let sent = socket.send(&[0; 100]).unwrap();
                        times.lock().unwrap().insert(sent.token, before..=now());
                    }
                });
            }
            while stamps.len() < THREADS * SENDS {
                let came = socket.wait_stamps(PATIENCE).unwrap();
                assert!(!came.is_empty(), "{:?}", socket.counters());
                stamps.extend(came);
            }
        });
        let times = times.into_inner().unwrap();
        assert_eq!(wrong(&stamps, &times), 0, "{:?}", socket.counters());
        assert!(socket.stamps().unwrap().is_empty());
    }
}

/// Whoever reads the error queue reads it for all.
#[test]
fn each_thread_gets_the_stamp_that_it_waits_for() {
    for settings in SETTINGS {
        let (socket, _peer) = connected("stamped-awaited");
        let socket = StampedSocket::with(socket, SCHED.tx_software(), settings).unwrap();
        thread::scope(|scope| {
            for kind in [TxKind::Sched, TxKind::Snd, TxKind::Snd] {
                let socket = &socket;
                scope.spawn(move || {
                    for _ in 0..100 {
                        let before = now();
                        let result = socket.send_stamped(&[0; 100], kind, PATIENCE).unwrap();
                        let stamp = result.1.expect("PATIENCE is long");
                        assert_eq!(stamp.kind, kind);
                        assert!((before..=now()).contains(&software(&stamp)));
                    }
                });
            }
        });
        // The other of the two.
        let others = socket.stamps().unwrap();
        assert_eq!(others.len(), 300, "{:?}", socket.counters());
    }
}

#[test]
fn a_stamp_that_does_not_come_ends_the_wait_in_time() {
    let (socket, _peer) = connected("stamped-timeout");
    let socket = StampedSocket::new(socket, SCHED).unwrap();
    let short = Duration::from_millis(30);
    let (_, none) = socket.send_stamped(b"x", TxKind::Snd, short).unwrap();
    assert_eq!(none, None);
    let parts = [IoSlice::new(b"x")];
    let unstamped = MessageOptions::new().unstamped();
    socket.send_message(&parts, None, unstamped).unwrap();
    assert_eq!(socket.wait_stamps(short).unwrap().len(), 1, "of the first");
    assert!(socket.wait_stamps(short).unwrap().is_empty());
    assert_eq!(socket.counters().stamps.unknown, 0);
}

/// Stamps that nobody takes are bounded, and counted.
#[test]
fn stamps_that_nobody_takes_make_room_for_later_ones() {
    let (socket, _peer) = connected("stamped-dropped");
    let socket = StampedSocket::with(socket, SCHED, Settings::new().capacity(8)).unwrap();
    let mut last = None;
    for _ in 0..20 {
        let (sent, stamp) = socket
            .send_stamped(b"x", TxKind::Ack, Duration::ZERO)
            .unwrap();
        assert_eq!(stamp, None, "no datagram is acknowledged");
        last = Some(sent.token);
    }
    let stamps = socket.stamps().unwrap();
    assert_eq!(stamps.len(), 8);
    assert_eq!(stamps.last().map(|stamped| stamped.token), last);
    assert_eq!(socket.counters().dropped, 12);
}

fn stream(name: &str) -> (StampedSocket<TcpStream>, TcpStream) {
    let (client, server) = host(name).enter(|| tcp_pair(Family::V4));
    let options = SCHED.tx_software().tx_ack();
    (StampedSocket::new(client, options).unwrap(), server)
}

#[test]
fn sends_of_a_stream_are_acknowledged() {
    let (socket, server) = stream("stamped-stream");
    read_all(server);
    for length in [1, 1000, 100_000] {
        let before = now();
        let (sent, stamp) = socket
            .send_stamped(&vec![0; length], TxKind::Ack, PATIENCE)
            .unwrap();
        assert_eq!(sent.bytes, length);
        let acknowledged = software(&stamp.expect("the peer reads"));
        assert!((before..=now()).contains(&acknowledged));
    }
}

/// Sends that wait share a packet, and then its stamp.
#[test]
fn merged_stamps_of_a_stream_are_of_each_send() {
    let (socket, server) = stream("stamped-merged");
    socket.get_ref().set_nodelay(false).unwrap();
    let tokens: Vec<Token> = (0..50).map(|_| socket.send(b"x").unwrap().token).collect();
    read_all(server);
    let mut acknowledged = BTreeMap::new();
    while acknowledged.len() < tokens.len() {
        let stamps = socket.wait_stamps(PATIENCE).unwrap();
        assert!(!stamps.is_empty(), "{:?}", socket.counters());
        let acks = stamps
            .iter()
            .filter(|stamped| stamped.stamp.kind == TxKind::Ack);
        for stamped in acks {
            acknowledged.insert(stamped.token, stamped.coverage);
        }
    }
    assert!(acknowledged.keys().eq(&tokens));
    let merged = |coverage: &&Coverage| **coverage == Coverage::Merged;
    assert!(acknowledged.values().filter(merged).count() > 10);
}

#[test]
fn own_ids_are_used_where_the_kernel_has_them() {
    if !own_ids("stamped::own_ids_are_used_where_the_kernel_has_them") {
        return;
    }
    let (socket, _peer) = connected("stamped-own");
    let socket = StampedSocket::new(socket, SCHED).unwrap();
    socket.send(b"x").unwrap();
    // The kernel's count does not move: a send without an id of its own has the first.
    let parts = [IoSlice::new(b"x")];
    let counted = MessageOptions::new();
    sockstamp::timestamping::send(socket.get_ref(), &parts, None, counted).unwrap();
    let stamps = socket.stamps().unwrap();
    let ids: Vec<_> = stamps.iter().map(|stamped| stamped.stamp.id).collect();
    assert_eq!(ids, [0], "the second is the first's again");
    assert_eq!(socket.counters().stamps.duplicate, 1);
}
