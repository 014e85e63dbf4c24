//! Stamps of what was sent, in memory.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::timestamping::{Options, TxKind, TxStamp};
use sockstamp_bpf::probe;
use testbed::Family;
use with::completions::{Fixture, Service, until};
use with::skip;

fn kinds(stamps: &[TxStamp], id: u32) -> BTreeSet<TxKind> {
    let of_message = stamps.iter().filter(|stamp| stamp.id == id);
    of_message.map(|stamp| stamp.kind).collect()
}

fn is_now(stamp: &TxStamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let then = Duration::from_nanos(stamp.time.software().unwrap().as_nanos());
    now.saturating_sub(then) < Duration::from_secs(60) && then < now
}

/// Earlier sends do not count, and the error queue stays empty.
#[test]
fn stamps_of_tcp_come_without_queue_entries() {
    if probe::facts().tx_timestamping != Some(true) {
        skip(
            "stamps::stamps_of_tcp_come_without_queue_entries",
            "BPF timestamping is from Linux 6.15 on",
        );
        return;
    }
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    for family in [Family::V4, Family::V6] {
        let (mut sender, mut receiver) = fixture.tcp(family);
        sender.write_all(&[0; 77]).unwrap();
        let mut registration = service.connect().register(&sender, true).unwrap();
        assert!(registration.has_stamps());
        let mut stamps = Vec::new();
        receiver.read_exact(&mut [0; 77]).unwrap();
        for message in 1..=10 {
            sender.write_all(&[0; 100]).unwrap();
            receiver.read_exact(&mut [0; 100]).unwrap();
            let all = BTreeSet::from([TxKind::Sched, TxKind::Snd, TxKind::Ack]);
            until(|| {
                registration.stamps(|stamp| stamps.push(stamp));
                kinds(&stamps, 100 * message - 1) == all
            });
        }
        assert_eq!(stamps.len(), 30, "{stamps:?}");
        assert!(stamps.iter().all(is_now), "{stamps:?}");
        assert_eq!(ErrorQueue::new().drain(&sender, |_| ()).unwrap(), 0);
    }
}

/// The socket's own requests bring the same stamps: those are in the error queue.
#[test]
fn stamps_come_once_where_the_socket_requests_them_as_well() {
    if probe::facts().tx_timestamping != Some(true) {
        skip(
            "stamps::stamps_come_once_where_the_socket_requests_them_as_well",
            "BPF timestamping is from Linux 6.15 on",
        );
        return;
    }
    const MESSAGES: usize = 50;
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (mut sender, mut receiver) = fixture.tcp(Family::V4);
    let mut registration = service.connect().register(&sender, true).unwrap();
    assert!(registration.has_stamps());
    let options = Options::new().tx_sched().tx_software().tx_ack();
    options.tcp_id().only_stamps().apply(&sender).unwrap();
    for _ in 0..MESSAGES {
        sender.write_all(&[0; 100]).unwrap();
        receiver.read_exact(&mut [0; 100]).unwrap();
    }
    let (mut stamps, mut queued) = (Vec::new(), 0);
    let mut queue = ErrorQueue::new();
    until(|| {
        registration.stamps(|stamp| stamps.push((stamp.id, stamp.kind)));
        queued += queue.drain(&sender, |_| ()).unwrap();
        stamps.len() >= 3 * MESSAGES && queued >= 3 * MESSAGES
    });
    let different: BTreeSet<_> = stamps.iter().collect();
    assert_eq!(
        (stamps.len(), different.len()),
        (3 * MESSAGES, 3 * MESSAGES)
    );
    assert_eq!(registration.lost(), 0);
}

#[test]
fn stamps_of_udp_equal_those_in_the_queue() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    for family in [Family::V4, Family::V6] {
        let (sender, _receiver) = fixture.udp(family);
        let options = Options::new()
            .tx_sched()
            .tx_software()
            .software()
            .id()
            .only_stamps();
        options.apply(&sender).unwrap();
        let mut registration = service.connect().register(&sender, true).unwrap();
        assert!(!registration.has_stamps());
        let mut stamps = Vec::new();
        for _ in 0..20 {
            sender.send(&[0; 100]).unwrap();
        }
        until(|| {
            registration.stamps(|stamp| stamps.push(stamp));
            stamps.len() == 40
        });
        let mut truth = Vec::new();
        let drained = ErrorQueue::new().drain(&sender, |report| match report {
            Report::Stamp { stamp, .. } => truth.push(stamp),
            other => panic!("{other:?}"),
        });
        assert_eq!(drained.unwrap(), 40);
        assert_eq!(stamps, truth);
        assert_eq!(registration.lost(), 0);
    }
}

/// More stamps come than fit while no task reads: overwritten ones are counted, and the others are
/// right.
#[test]
fn overwritten_stamps_are_counted() {
    const SENDS: u32 = 400;
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (sender, _receiver) = fixture.udp(Family::V4);
    let options = Options::new().tx_software().software().id().only_stamps();
    options.apply(&sender).unwrap();
    let mut registration = service.connect().register(&sender, false).unwrap();
    let mut queue = ErrorQueue::new();
    let mut truth = Vec::new();
    while truth.len() < SENDS as usize {
        sender.send(&[0; 100]).unwrap();
        queue
            .drain(&sender, |report| match report {
                Report::Stamp { stamp, .. } => truth.push(stamp),
                other => panic!("{other:?}"),
            })
            .unwrap();
    }
    let mut stamps = Vec::new();
    registration.stamps(|stamp| stamps.push(stamp));
    assert_eq!(
        stamps.len() as u64 + registration.lost(),
        truth.len() as u64
    );
    assert!(registration.lost() > 100);
    assert_eq!(stamps, truth[truth.len() - stamps.len()..]);
}
