//! Stamps by io_uring.

use std::time::{Duration, Instant};

use sockstamp::error_queue::{ErrorQueue, Report, RingReport, StampRing};
use sockstamp::timestamping::{MessageOptions, Options, TxKind, TxStamp};
use testbed::PATIENCE;

use crate::common::{FAMILIES, Kind, Sender, host, now, skip, software};

/// Read until `count` stamps have come. The error that ended the watch if the kernel has none.
fn read(ring: &mut StampRing, count: usize) -> Result<Vec<(u64, TxStamp)>, i32> {
    let (mut stamps, mut ended) = (Vec::new(), None);
    let start = Instant::now();
    while stamps.len() < count && ended.is_none() && start.elapsed() < PATIENCE {
        ring.read(|report| match report {
            RingReport::Stamp { key, stamp } => stamps.push((key, stamp)),
            RingReport::Ended { error, .. } => ended = error.raw_os_error(),
            other => panic!("{other:?}"),
        })
        .unwrap();
        if stamps.len() < count && ended.is_none() {
            ring.wait(Duration::from_millis(100)).unwrap();
        }
    }
    match ended {
        None => Ok(stamps),
        Some(errno) => Err(errno),
    }
}

fn unsupported(test: &str, errno: i32) {
    assert!([libc::EOPNOTSUPP, libc::EINVAL].contains(&errno), "{errno}");
    skip(test, "this kernel has no stamps by io_uring");
}

#[test]
fn stamps_of_several_sockets_come_by_one_ring() {
    let host = host("ring");
    for family in FAMILIES {
        let senders = [Kind::Udp, Kind::Tcp].map(|kind| Sender::new(&host, kind, family));
        let mut ring = StampRing::new(64).unwrap();
        for (key, sender) in (0..).zip(&senders) {
            Options::new()
                .tx_sched()
                .tx_software()
                .id()
                .only_stamps()
                .apply(sender)
                .unwrap();
            ring.watch(sender, key).unwrap();
        }
        for round in 0..3 {
            let before = now();
            for sender in &senders {
                sender.send(MessageOptions::new()).unwrap();
            }
            let mut got = match read(&mut ring, 4) {
                Ok(got) => got,
                Err(errno) => {
                    return unsupported("ring::stamps_of_several_sockets_come_by_one_ring", errno);
                }
            };
            got.sort_by_key(|(key, stamp)| (*key, stamp.kind));
            let seen: Vec<_> = got
                .iter()
                .map(|(key, stamp)| (*key, stamp.id, stamp.kind))
                .collect();
            let (datagram, byte) = (round, 10 * round + 9);
            let expected = [
                (0, datagram, TxKind::Sched),
                (0, datagram, TxKind::Snd),
                (1, byte, TxKind::Sched),
                (1, byte, TxKind::Snd),
            ];
            assert_eq!(seen, expected, "{family:?}");
            for (_, stamp) in &got {
                assert!((before..=now()).contains(&software(stamp)), "{stamp:?}");
            }
        }
        // The ring has taken them.
        for sender in &senders {
            assert_eq!(ErrorQueue::new().drain(sender, |_| ()).unwrap(), 0);
        }
    }
}

#[test]
fn stamps_of_unwatched_sockets_stay_in_the_error_queue() {
    let sender = Sender::stamped(&host("unwatch"));
    let mut ring = StampRing::new(8).unwrap();
    ring.watch(&sender, 3).unwrap();
    sender.send(MessageOptions::new()).unwrap();
    if let Err(errno) = read(&mut ring, 1) {
        return unsupported(
            "ring::stamps_of_unwatched_sockets_stay_in_the_error_queue",
            errno,
        );
    }
    ring.unwatch(3).unwrap();
    assert_eq!(read(&mut ring, 1), Err(libc::ECANCELED));
    sender.send(MessageOptions::new()).unwrap();
    assert_eq!(ring.read(|report| panic!("{report:?}")).unwrap(), 0);
    assert_eq!(ErrorQueue::new().drain(&sender, |_| ()).unwrap(), 1);
}

/// More stamps than the ring has room for: the others are in the error queue, and each is in one of
/// the two.
#[test]
fn a_full_ring_loses_nothing() {
    let sender = Sender::stamped(&host("full-ring"));
    let mut ring = StampRing::new(2).unwrap();
    ring.watch(&sender, 0).unwrap();
    for _ in 0..40 {
        sender.send(MessageOptions::new()).unwrap();
    }
    let (mut ids, mut from_queue) = (Vec::new(), 0);
    match read(&mut ring, 2) {
        Ok(got) => ids.extend(got.iter().map(|(_, stamp)| stamp.id)),
        Err(errno) => return unsupported("ring::a_full_ring_loses_nothing", errno),
    }
    // When the ring has room again, the kernel resumes moving stamps.
    let start = Instant::now();
    while ids.len() < 40 && start.elapsed() < PATIENCE {
        ring.read(|report| match report {
            RingReport::Stamp { stamp, .. } => ids.push(stamp.id),
            other => panic!("{other:?}"),
        })
        .unwrap();
        let report = |report: Report<'_>| match report {
            Report::Stamp { stamp, .. } => ids.push(stamp.id),
            other => panic!("{other:?}"),
        };
        from_queue += ErrorQueue::new().drain(&sender, report).unwrap();
    }
    assert!(from_queue > 0, "the ring had room for all");
    ids.sort_unstable();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
}

/// Reads begin at each place of the ring, and go over its end.
#[test]
fn each_stamp_comes_once_wherever_a_read_begins() {
    const SENDS: u32 = 600;
    let sender = Sender::stamped(&host("ring-wraps"));
    let mut ring = StampRing::new(8).unwrap();
    ring.watch(&sender, 0).unwrap();
    let mut ids = Vec::new();
    while ids.len() < SENDS as usize {
        let sends = 1 + ids.len() % 4;
        for _ in 0..sends {
            sender.send(MessageOptions::new()).unwrap();
        }
        match read(&mut ring, sends) {
            Ok(got) => ids.extend(got.iter().map(|(_, stamp)| stamp.id)),
            Err(errno) => {
                return unsupported("ring::each_stamp_comes_once_wherever_a_read_begins", errno);
            }
        }
    }
    assert_eq!(ids, (0..).take(ids.len()).collect::<Vec<_>>());
    assert_eq!(ring.lost(), 0);
}
