//! Ranges of zerocopy sends, in memory and in the error queue.

use std::io::Read;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::thread;

use testbed::Family;
use with::completions::{Fixture, Service, completed, counts, drain, send, until};

const SENDS: u32 = 500;
static DATA: [u8; 20_000] = [7; 20_000];

/// Each once, in memory as in the queue, which is read at the end alone. `end` has the peer let go
/// of what it holds.
fn each_send_completes_once(socket: impl AsFd, service: &Service, end: impl FnOnce()) -> usize {
    let mut bytes = 0;
    let mut registration = service.connect().register(&socket, false).unwrap();
    let mut ranges = Vec::new();
    for _ in 0..SENDS {
        until(|| {
            registration.completed(|range| ranges.push(range));
            let sent = send(&socket, &DATA);
            bytes += sent;
            sent > 0
        });
    }
    end();
    completed(&mut registration, &mut ranges, SENDS);
    assert_eq!(counts(&ranges), vec![1; SENDS as usize]);
    assert_eq!(registration.lost(), 0);
    assert_eq!(counts(&drain(&socket)), vec![1; SENDS as usize]);
    bytes
}

/// Unread bytes are held until the receiver's socket is closed: their sends complete out of order.
#[test]
fn each_send_of_udp_completes_once() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    for family in [Family::V4, Family::V6] {
        let (sender, receiver) = fixture.udp(family);
        each_send_completes_once(&sender, &service, || drop(receiver));
    }
}

#[test]
fn each_send_of_tcp_completes_once() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    for family in [Family::V4, Family::V6] {
        let (sender, receiver) = fixture.tcp(family);
        let reader = read_all(receiver);
        let sent = each_send_completes_once(&sender, &service, || ());
        drop(sender);
        assert_eq!(reader.join().unwrap(), sent);
    }
}

fn read_all(mut socket: TcpStream) -> thread::JoinHandle<usize> {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        let mut total = 0;
        loop {
            match socket.read(&mut buffer).unwrap() {
                0 => return total,
                read => total += read,
            }
        }
    })
}

/// Another thread reads the queue all the time: it has what memory misses, and memory has nothing
/// false.
#[test]
fn completions_read_from_the_queue_at_once_are_in_one_of_both() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (sender, receiver) = fixture.udp(Family::V4);
    drop(receiver);
    let mut registration = service.connect().register(&sender, false).unwrap();
    let socket = sender.try_clone().unwrap();
    let drainer = thread::spawn(move || {
        let mut ranges = Vec::new();
        while counts(&ranges).len() < SENDS as usize {
            ranges.extend(drain(&socket));
        }
        ranges
    });
    let mut seen = Vec::new();
    for sent in 0..SENDS {
        until(|| send(&sender, &DATA) > 0);
        registration.completed(|range| seen.push(range));
        assert!(
            counts(&seen).len() <= sent as usize + 1,
            "{seen:?} of {sent}"
        );
    }
    let truth = counts(&drainer.join().unwrap());
    assert_eq!(truth, vec![1; SENDS as usize]);
    assert!(counts(&seen).iter().all(|count| *count <= 1));
    assert!(!seen.is_empty());
}
