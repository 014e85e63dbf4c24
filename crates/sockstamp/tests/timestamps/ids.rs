//! Datagrams whose sends fail after the kernel has counted them.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::UdpSocket;
use std::ops::RangeInclusive;

use nix::sys::socket::{setsockopt, sockopt};
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::timestamping::{
    Matcher, MatcherCounters, MessageOptions, Options, TxKind, restart_ids, send,
};

use crate::common::{host, now, own_ids, software};

const SENDS: u32 = 300;

/// What a message got, by its number.
struct Outcomes {
    sent: usize,
    counters: MatcherCounters,
    stamps: BTreeMap<u32, u64>,
    times: Vec<RangeInclusive<u64>>,
}

impl Outcomes {
    /// Return how many messages have a time that is not within their send.
    fn wrong(&self) -> usize {
        let wrong = |(number, time): &(&u32, &u64)| !self.times[**number as usize].contains(time);
        self.stamps.iter().filter(wrong).count()
    }
}

fn connected() -> (UdpSocket, UdpSocket) {
    host("failed").enter(|| {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(peer.local_addr().unwrap()).unwrap();
        (socket, peer)
    })
}

fn each_tenth(number: u32) -> bool {
    number % 10 == 3
}

/// A send that `fails` is one of a thousand segments, which the kernel refuses after it has counted
/// it.
fn try_to_send(socket: &UdpSocket, fails: bool, options: MessageOptions) -> io::Result<usize> {
    let segment = i32::from(fails);
    setsockopt(socket, sockopt::UdpGsoSegment, &segment).unwrap();
    send(socket, &[IoSlice::new(&[0; 1000])], None, options)
}

/// Give the stamps that have come to `matcher`, and keep the times of its messages.
fn look(socket: &UdpSocket, matcher: &mut Matcher<u32>, stamps: &mut BTreeMap<u32, u64>) {
    let report = |report: Report<'_>| match report {
        Report::Stamp { stamp, .. } => {
            matcher.stamp(&stamp, |matched| {
                stamps.insert(*matched.message, software(&stamp));
            });
        }
        other => panic!("{other:?}"),
    };
    ErrorQueue::new().drain(socket, report).unwrap();
}

/// Send, and look for stamps after 16 sends, and before a count begins anew.
fn outcomes(
    mut matcher: Matcher<u32>,
    mut send: impl FnMut(&UdpSocket, u32, &mut Matcher<u32>) -> bool,
    restart: bool,
) -> Outcomes {
    let (socket, _peer) = connected();
    Options::new()
        .tx_sched()
        .id()
        .only_stamps()
        .apply(&socket)
        .unwrap();
    let (mut sent, mut stamps, mut times) = (0, BTreeMap::new(), Vec::new());
    for number in 0..SENDS {
        let before = now();
        let succeeded = send(&socket, number, &mut matcher);
        times.push(before..=now());
        sent += usize::from(succeeded);
        let begins_anew = restart && !succeeded;
        if number % 16 == 15 || number + 1 == SENDS || begins_anew {
            look(&socket, &mut matcher, &mut stamps);
        }
        if begins_anew {
            restart_ids(&socket).unwrap();
            matcher.restarted();
        }
    }
    Outcomes {
        sent,
        counters: matcher.counters(),
        stamps,
        times,
    }
}

/// The kernel's count goes on where a program's does not: what this is about.
#[test]
fn a_failed_send_that_nobody_tells_of_shifts_all_later_stamps() {
    let matcher = Matcher::datagrams(64, &[TxKind::Sched]);
    let send = |socket: &UdpSocket, number, matcher: &mut Matcher<u32>| {
        let sent = try_to_send(socket, number == 3, MessageOptions::new());
        sent.is_ok_and(|bytes| {
            matcher.sent(bytes, number);
            true
        })
    };
    let outcomes = outcomes(matcher, send, false);
    assert!(outcomes.wrong() > 200, "{:?}", outcomes.counters);
}

#[test]
fn own_ids_survive_failed_sends() {
    if !own_ids("ids::own_ids_survive_failed_sends") {
        return;
    }
    let matcher = Matcher::chosen_ids(64, &[TxKind::Sched]);
    let send = |socket: &UdpSocket, number, matcher: &mut Matcher<u32>| {
        assert_eq!(matcher.sending(number, number), None);
        let options = MessageOptions::new().id(number);
        let sent = try_to_send(socket, each_tenth(number), options).is_ok();
        if !sent {
            assert_eq!(matcher.unsent(number), Some(number));
        }
        sent
    };
    let outcomes = outcomes(matcher, send, false);
    assert_eq!(outcomes.wrong(), 0);
    assert_eq!((outcomes.sent, outcomes.stamps.len()), (270, 270));
    let counters = outcomes.counters;
    let others = counters.merged + counters.duplicate + counters.past + counters.unknown;
    let lost = counters.doubtful + counters.unfinished;
    assert_eq!((counters.matched, others, lost), (270, 0, 0));
}

#[test]
fn a_count_that_begins_anew_gives_each_message_its_own_stamp() {
    let matcher = Matcher::datagrams(64, &[TxKind::Sched]);
    let send = |socket: &UdpSocket, number, matcher: &mut Matcher<u32>| {
        let sent = try_to_send(socket, each_tenth(number), MessageOptions::new());
        sent.is_ok_and(|bytes| {
            matcher.sent(bytes, number);
            true
        })
    };
    let outcomes = outcomes(matcher, send, true);
    let counters = outcomes.counters;
    assert_eq!(outcomes.wrong(), 0, "{counters:?}");
    assert_eq!(counters.matched, 270, "{counters:?}");
}

/// Threads agree on ids, and on no order of their sends.
#[test]
fn threads_with_own_ids_need_no_lock_over_the_send() {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    const THREADS: usize = 4;
    if !own_ids("ids::threads_with_own_ids_need_no_lock_over_the_send") {
        return;
    }
    let (socket, _peer) = connected();
    Options::new()
        .tx_sched()
        .id()
        .only_stamps()
        .apply(&socket)
        .unwrap();
    let total = THREADS * SENDS as usize;
    let matcher = Mutex::new(Matcher::chosen_ids(total, &[TxKind::Sched]));
    let (next, times) = (AtomicU32::new(0), Mutex::new(BTreeMap::new()));
    let mut stamps = BTreeMap::new();
    setsockopt(&socket, sockopt::RcvBufForce, &(1 << 24)).unwrap();
    let mut look = || {
        look(&socket, &mut matcher.lock().unwrap(), &mut stamps);
        stamps.len()
    };
    thread::scope(|scope| {
        let thread = || {
            for _ in 0..SENDS {
                let id = next.fetch_add(1, Ordering::Relaxed);
                matcher.lock().unwrap().sending(id, id);
                let before = now();
                let options = MessageOptions::new().id(id);
                send(&socket, &[IoSlice::new(&[0; 100])], None, options).unwrap();
                times.lock().unwrap().insert(id, before..=now());
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(thread)).collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            look();
        }
    });
    assert_eq!(look(), total);
    let times = times.into_inner().unwrap();
    let wrong = |(id, time): &(&u32, &u64)| !times[id].contains(time);
    assert_eq!(stamps.iter().filter(wrong).count(), 0);
}
