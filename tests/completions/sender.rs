//! Sends whose buffers come back by completions in memory, and by the error queue if memory lacks
//! them.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sockstamp::completions::Completions;
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::timestamping;
use sockstamp::zerocopy::{CompletionsBy, NotSent, Options, Sent, ZeroCopySender};
use testbed::{Family, PATIENCE, within_attempts};
use with::completions::{Fixture, Reader, Service, until};
use with::skip;

const LENGTH: usize = 20_000;

type Buffers<S> = ZeroCopySender<S, Vec<u8>>;

/// A socket with the library's sender that uses the memory of `application`.
fn by_memory<S: AsFd>(socket: S, application: &Completions) -> Buffers<S> {
    let mut sender = ZeroCopySender::new(socket, Options::default().threshold(0)).unwrap();
    sender.use_memory(application, false).unwrap();
    assert_eq!(sender.completions_by(), CompletionsBy::Memory);
    sender
}

/// Buffer `number`, identified by its bytes.
fn buffer(number: u32) -> Vec<u8> {
    number.to_ne_bytes().repeat(LENGTH / 4)
}

fn number(buffer: &[u8]) -> u32 {
    u32::from_ne_bytes(buffer[..4].try_into().unwrap())
}

fn send<S: AsFd>(sender: &mut Buffers<S>, number: u32) {
    match sender.send(buffer(number)) {
        Ok(Sent::InFlight) => {}
        other => panic!("{other:?}"),
    }
}

/// Add those that are back by now; none has come before.
fn take<S: AsFd>(sender: &mut Buffers<S>, back: &mut BTreeSet<u32>) {
    while let Some(returned) = sender.next_returned() {
        assert!(
            back.insert(number(&returned.buffer)),
            "{} is back twice",
            number(&returned.buffer)
        );
        assert_eq!(returned.buffer, buffer(number(&returned.buffer)));
    }
}

fn look<S: AsFd>(sender: &mut Buffers<S>, queue: &mut ErrorQueue, back: &mut BTreeSet<u32>) {
    sender.drain(queue, |other| panic!("{other:?}")).unwrap();
    take(sender, back);
}

/// Send one after the other, and wait for each; the error queue is read once per 10 ms. The number
/// of completions between a reading of memory and one of the queue depends on time.
fn each_buffer_comes_back_once<S: AsFd>(mut sender: Buffers<S>) -> Result<(), String> {
    const SENDS: u32 = 500;
    let (mut queue, mut back) = (ErrorQueue::new(), BTreeSet::new());
    let start = Instant::now();
    for sent in 0..SENDS {
        send(&mut sender, sent);
        while sender.in_flight() > 4 {
            assert!(
                start.elapsed() < PATIENCE,
                "{:?}",
                sender.completion_counters()
            );
            look(&mut sender, &mut queue, &mut back);
        }
    }
    while sender.in_flight() > 0 {
        assert!(
            start.elapsed() < PATIENCE,
            "{:?}",
            sender.completion_counters()
        );
        look(&mut sender, &mut queue, &mut back);
    }
    let elapsed = start.elapsed();
    assert_eq!(back.len(), SENDS as usize);
    let (counters, by) = (sender.counters(), sender.completion_counters());
    assert_eq!(
        (counters.completed, counters.foreign),
        (u64::from(SENDS), 0)
    );
    assert_eq!(by.by_memory + by.by_queue, u64::from(SENDS));
    assert_eq!((by.overruns, by.services_ended), (0, 0));
    // By time, or by ranges that did not merge.
    let reads = 2 + elapsed.as_millis() / 10 + u128::from(SENDS) / 8;
    assert!(u128::from(by.queue_reads) <= reads, "{by:?} in {elapsed:?}");
    match by.by_memory > u64::from(SENDS) * 9 / 10 {
        true => Ok(()),
        false => Err(format!("{by:?} in {elapsed:?}")),
    }
}

#[test]
fn each_buffer_of_udp_comes_back_once() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    for family in [Family::V4, Family::V6] {
        within_attempts(|| {
            let (socket, receiver) = fixture.plain_udp(family);
            let _reader = Reader::of_datagrams(receiver);
            each_buffer_comes_back_once(by_memory(socket, &service.connect()))
        });
    }
}

#[test]
fn each_buffer_of_tcp_comes_back_once() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    for family in [Family::V4, Family::V6] {
        within_attempts(|| {
            let (socket, receiver) = fixture.plain_tcp(family);
            let _reader = Reader::of_stream(receiver);
            each_buffer_comes_back_once(by_memory(socket, &service.connect()))
        });
    }
}

/// The kernel holds what the receiver has not read.
#[test]
fn no_buffer_comes_back_early_and_a_wait_ends_when_it_does() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (socket, receiver) = fixture.plain_udp(Family::V4);
    let mut sender = by_memory(socket, &service.connect());
    let mut queue = ErrorQueue::new();
    for sent in 0..5 {
        send(&mut sender, sent);
    }
    let short = Duration::from_millis(50);
    let returned = sender.wait_returned(&mut queue, short, |_| ()).unwrap();
    assert_eq!((returned, sender.in_flight()), (None, 5));
    let mut read = vec![0; LENGTH];
    for sent in 0..5 {
        receiver.recv(&mut read).unwrap();
        let returned = sender.wait_returned(&mut queue, PATIENCE, |_| ()).unwrap();
        assert_eq!(number(&returned.unwrap().buffer), sent);
    }
    assert!(sender.wait_idle(&mut queue, PATIENCE, |_| ()).unwrap());
}

/// Earlier completed sends are only in the queue.
#[test]
fn sends_completed_before_memory_was_used_are_not_lost() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (socket, receiver) = fixture.plain_udp(Family::V4);
    let mut sender = ZeroCopySender::new(&socket, Options::default().threshold(0)).unwrap();
    let (mut queue, mut back) = (ErrorQueue::new(), BTreeSet::new());
    let mut read = vec![0; LENGTH];
    for sent in 0..3 {
        send(&mut sender, sent);
    }
    receiver.recv(&mut read).unwrap();
    sender.use_memory(&service.connect(), false).unwrap();
    receiver.recv(&mut read).unwrap();
    receiver.recv(&mut read).unwrap();
    until(|| {
        look(&mut sender, &mut queue, &mut back);
        back.len() == 3
    });
    assert_eq!(sender.counters().foreign, 0);
}

/// Some complete before the service is killed, some while no task reads, some after.
#[test]
fn nothing_is_lost_when_the_service_is_killed_and_another_can_follow() {
    let (fixture, mut service) = (Fixture::new(), Service::start(&[]));
    let (socket, receiver) = fixture.plain_udp(Family::V4);
    let mut sender = by_memory(&socket, &service.connect());
    let (mut queue, mut back) = (ErrorQueue::new(), BTreeSet::new());
    let mut read = vec![0; LENGTH];
    for sent in 0..6 {
        send(&mut sender, sent);
    }
    let mut completes = |count: u32| {
        for _ in 0..count {
            receiver.recv(&mut read).unwrap();
        }
    };
    completes(2);
    service.kill();
    completes(2);
    until(|| {
        look(&mut sender, &mut queue, &mut back);
        sender.completions_by() == CompletionsBy::ErrorQueue
    });
    completes(2);
    until(|| {
        look(&mut sender, &mut queue, &mut back);
        back.len() == 6
    });
    let by = sender.completion_counters();
    assert_eq!((by.services_ended, by.by_memory + by.by_queue), (1, 6));

    let other = Service::start(&[]);
    sender.use_memory(&other.connect(), false).unwrap();
    assert_eq!(sender.completions_by(), CompletionsBy::Memory);
    send(&mut sender, 6);
    completes(1);
    until(|| {
        look(&mut sender, &mut queue, &mut back);
        back.len() == 7
    });
    assert_eq!(sender.counters().foreign, 0);
}

fn asks_for_stamps(socket: &UdpSocket, only_stamps: bool) {
    let options = timestamping::Options::new().tx_software().software().id();
    let options = if only_stamps {
        options.only_stamps()
    } else {
        options
    };
    options.apply(socket).unwrap();
}

/// Stamps between them keep ranges from merging: there are more of them than memory has room for.
#[test]
fn completions_and_stamps_overwritten_in_memory_come_from_the_queue() {
    /// Beyond the 32 that memory has room for, and within the smallest net.core.optmem_max but
    /// Linux 6.1's.
    const SENDS: u32 = 60;
    if optmem() < 100_000 {
        skip(
            "sender::completions_and_stamps_overwritten_in_memory_come_from_the_queue",
            "net.core.optmem_max has no room for that many completions",
        );
        return;
    }
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (socket, receiver) = fixture.plain_udp(Family::V4);
    asks_for_stamps(&socket, true);
    let mut sender = by_memory(socket, &service.connect());
    let (mut queue, mut back, mut stamps) = (ErrorQueue::new(), BTreeSet::new(), Vec::new());
    // The queue is not read in between, however long it takes.
    sender.drain(&mut queue, |_| ()).unwrap();
    let mut read = vec![0; LENGTH];
    for sent in 0..SENDS {
        send(&mut sender, sent);
        receiver.recv(&mut read).unwrap();
    }
    until(|| {
        sender
            .drain(&mut queue, |other| match other {
                Report::Stamp { stamp, .. } => stamps.push(stamp.id),
                other => panic!("{other:?}"),
            })
            .unwrap();
        take(&mut sender, &mut back);
        back.len() == SENDS as usize && stamps.len() == SENDS as usize
    });
    stamps.sort_unstable();
    assert_eq!(stamps, (0..SENDS).collect::<Vec<_>>());
    let by = sender.completion_counters();
    assert!(by.overruns > 0, "{by:?}");
    assert_eq!(
        (by.by_memory + by.by_queue, sender.counters().foreign),
        (u64::from(SENDS), 0)
    );
}

/// Each stamp brings its packet along, and ten of them fill the receive buffer: the queue is read
/// before.
#[test]
fn stamps_are_taken_out_before_the_receive_buffer_is_full() {
    const SENDS: u32 = 300;
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (socket, receiver) = fixture.plain_udp(Family::V4);
    asks_for_stamps(&socket, false);
    let _reader = Reader::of_datagrams(receiver);
    let mut sender = by_memory(socket, &service.connect());
    let (mut queue, mut back, mut stamps) = (ErrorQueue::new(), BTreeSet::new(), Vec::new());
    let mut from_memory = Vec::new();
    let mut look = |sender: &mut Buffers<UdpSocket>, stamps: &mut Vec<u32>| {
        let report = |other: Report<'_>| match other {
            Report::Stamp { stamp, .. } => stamps.push(stamp.id),
            other => panic!("{other:?}"),
        };
        sender.drain(&mut queue, report).unwrap();
        sender.stamps(|stamp| from_memory.push(stamp.id));
        take(sender, &mut back);
    };
    for sent in 0..SENDS {
        send(&mut sender, sent);
        look(&mut sender, &mut stamps);
    }
    until(|| {
        look(&mut sender, &mut stamps);
        sender.in_flight() == 0 && stamps.len() == SENDS as usize
    });
    assert_eq!(stamps, (0..SENDS).collect::<Vec<_>>());
    // Each has several: the first of a packet may come before the last of the one before.
    let ids = from_memory.iter().collect::<BTreeSet<_>>();
    assert!(ids.len() > SENDS as usize / 2, "{from_memory:?}");
}

fn optmem() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/core/optmem_max").unwrap();
    text.trim().parse().unwrap()
}

/// A failed send of a datagram may have an id: the queue is read for that, and memory is used
/// again.
#[test]
fn a_failed_send_does_not_shift_those_that_follow() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (socket, receiver) = fixture.plain_udp(Family::V4);
    let mut sender = by_memory(socket, &service.connect());
    let (mut queue, mut back) = (ErrorQueue::new(), BTreeSet::new());
    let mut read = vec![0; LENGTH];
    for round in 0..10 {
        let failed = sender.send(vec![0; 100_000]);
        assert!(
            matches!(
                failed,
                Err(NotSent::Failed {
                    buffer: Some(_),
                    ..
                })
            ),
            "too long: {failed:?}"
        );
        look(&mut sender, &mut queue, &mut back);
        send(&mut sender, round);
        receiver.recv(&mut read).unwrap();
        until(|| {
            look(&mut sender, &mut queue, &mut back);
            sender.in_flight() == 0
        });
    }
    assert_eq!((back.len(), sender.counters().foreign), (10, 0));
}
