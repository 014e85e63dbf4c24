//! The service and measurements request the same callbacks of the same sockets.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use sockstamp::completions::Registration;
use sockstamp::timestamping::TxKind;
use sockstamp_bpf::probe;
use testbed::Family;
use with::completions::{Fixture, Service, until};
use with::{Stat, number, skip};

fn can_stamp(test: &str) -> bool {
    let can = probe::facts().tx_timestamping == Some(true);
    if !can {
        skip(test, "BPF timestamping is from Linux 6.15 on");
    }
    can
}

/// A connection whose sends are stamped in memory.
struct Stamped {
    sender: TcpStream,
    receiver: TcpStream,
    registration: Registration,
    sent: u32,
}

impl Stamped {
    fn new(fixture: &Fixture, service: &Service) -> Stamped {
        let (sender, receiver) = fixture.tcp(Family::V4);
        let registration = service.connect().register(&sender, true).unwrap();
        assert!(registration.has_stamps());
        Stamped {
            sender,
            receiver,
            registration,
            sent: 0,
        }
    }

    fn send(&mut self) {
        self.sender.write_all(&[0; 100]).unwrap();
        self.receiver.read_exact(&mut [0; 100]).unwrap();
        self.sent += 100;
    }

    /// Each message has its three stamps.
    fn is_stamped(&mut self) {
        for _ in 0..10 {
            self.send();
            let mut kinds = Vec::new();
            until(|| {
                let last = self.sent - 1;
                self.registration.stamps(|stamp| {
                    assert_eq!(stamp.id, last);
                    kinds.push(stamp.kind);
                });
                kinds.len() == 3
            });
            kinds.sort_unstable();
            assert_eq!(kinds, [TxKind::Sched, TxKind::Snd, TxKind::Ack]);
        }
    }
}

/// Return the number of links to cgroup hooks that a process holds: proc_pid_fdinfo(5).
fn cgroup_links(pid: u32) -> usize {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo"))
        .unwrap()
        .flatten();
    let texts = entries.map(|entry| fs::read_to_string(entry.path()).unwrap_or_default());
    texts
        .filter(|text| {
            text.lines()
                .any(|line| line.split_whitespace().eq(["link_type:", "cgroup"]))
        })
        .count()
}

#[test]
fn a_measurement_that_ends_leaves_stamps_to_the_service() {
    if !can_stamp("a_measurement_that_ends_leaves_stamps_to_the_service") {
        return;
    }
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let mut connection = Stamped::new(&fixture, &service);
    connection.is_stamped();
    let stat = Stat::start(&["--netns", fixture.sender.netns_name(), "tcp"]);
    connection.is_stamped();
    let report = stat.finish();
    assert_eq!(number(&report["tx"]["messages"]), 10, "{report}");
    assert_eq!(number(&report["verdicts"]["valid"]), 10, "{report}");
    connection.is_stamped();
}

/// A measurement that exists before, and samples: messages that it passes over are stamped in
/// memory nevertheless.
#[test]
fn a_measurement_that_was_there_before_leaves_stamps_to_the_service() {
    if !can_stamp("a_measurement_that_was_there_before_leaves_stamps_to_the_service") {
        return;
    }
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let stat = Stat::sampled(
        "--sample=1/4",
        &["--netns", fixture.sender.netns_name(), "tcp"],
    );
    let mut connection = Stamped::new(&fixture, &service);
    connection.is_stamped();
    let report = stat.finish();
    assert_eq!(number(&report["tx"]["messages"]), 10, "{report}");
    connection.is_stamped();
}

#[test]
fn a_service_that_ends_leaves_flows_to_the_measurement() {
    if !can_stamp("a_service_that_ends_leaves_flows_to_the_measurement") {
        return;
    }
    let (fixture, mut service) = (Fixture::new(), Service::start(&[]));
    let mut connection = Stamped::new(&fixture, &service);
    let stat = Stat::start(&["--netns", fixture.sender.netns_name(), "tcp"]);
    connection.is_stamped();
    service.kill();
    for _ in 0..10 {
        connection.send();
    }
    let report = stat.finish();
    assert_eq!(number(&report["tx"]["messages"]), 20, "{report}");
    assert_eq!(number(&report["verdicts"]["valid"]), 20, "{report}");
}

/// A socket registered without stamps has none in memory, even if others request them.
#[test]
fn stamps_that_a_measurement_asked_for_are_not_in_memory() {
    if !can_stamp("stamps_that_a_measurement_asked_for_are_not_in_memory") {
        return;
    }
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let mut stamped = Stamped::new(&fixture, &service);
    let (mut sender, mut receiver) = fixture.tcp(Family::V4);
    let mut registration = service.connect().register(&sender, false).unwrap();
    let stat = Stat::start(&["--netns", fixture.sender.netns_name(), "tcp"]);
    for _ in 0..10 {
        sender.write_all(&[0; 100]).unwrap();
        receiver.read_exact(&mut [0; 100]).unwrap();
    }
    stamped.is_stamped();
    registration.stamps(|stamp| panic!("{stamp:?}"));
    let report = stat.finish();
    assert_eq!(number(&report["verdicts"]["valid"]), 20, "{report}");
}

/// Every connection of the host pays for the callbacks while they are attached.
#[test]
fn callbacks_are_attached_while_a_connection_is_stamped() {
    if !can_stamp("callbacks_are_attached_while_a_connection_is_stamped") {
        return;
    }
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let links = || cgroup_links(service.id());
    let (plain, _peer) = fixture.tcp(Family::V4);
    let _registration = service.connect().register(&plain, false).unwrap();
    assert_eq!(links(), 0);
    let (first, second) = (
        Stamped::new(&fixture, &service),
        Stamped::new(&fixture, &service),
    );
    // The one that selects is attached as long as an application may take to call it.
    assert_eq!(links(), 2);
    until(|| links() == 1);
    drop(first);
    let mut second = second;
    second.is_stamped();
    assert_eq!(links(), 1);
    drop(second);
    until(|| links() == 0);
    Stamped::new(&fixture, &service).is_stamped();
}
