//! Test the service: admission and refusals.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, socket,
};
use sockstamp::Error;
use sockstamp::completions::protocol::{Refusal, Reply};
use sockstamp::completions::{self, Completions};
use testbed::Family;
use with::completions::{Fixture, Service, completed, counts, drain, send, until};

static DATA: [u8; 20_000] = [7; 20_000];

#[test]
fn resources_of_an_application_are_freed_when_it_leaves() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (socket, _receiver) = fixture.udp(Family::V4);
    let in_use = || {
        let status = completions::status(service.path()).unwrap();
        (status.applications, status.sockets)
    };
    let application = service.connect();
    let registration = application.register(&socket, false).unwrap();
    assert_eq!(in_use(), (1, 1));
    drop(registration);
    until(|| in_use() == (1, 0));
    drop(application);
    until(|| in_use() == (0, 0));
}

/// Sends in flight when the service is killed are found in the queue, as are all that were
/// published before.
#[test]
fn nothing_is_lost_when_the_service_is_killed() {
    let (fixture, mut service) = (Fixture::new(), Service::start(&[]));
    let (sender, receiver) = fixture.udp(Family::V4);
    drop(receiver);
    let application = service.connect();
    let mut registration = application.register(&sender, false).unwrap();
    until(|| send(&sender, &DATA) > 0);
    completed(&mut registration, &mut Vec::new(), 1);
    assert!(registration.is_served());

    service.kill();
    until(|| !registration.is_served());
    until(|| send(&sender, &DATA) > 0);
    let mut ranges = Vec::new();
    until(|| {
        ranges.extend(drain(&sender));
        counts(&ranges).len() == 2
    });
    assert_eq!(counts(&ranges), [1, 1]);
    assert!(application.register(&sender, false).is_err());
}

/// A slot is given to another socket: events of the first one do not count for the second.
#[test]
fn a_place_that_was_given_back_is_another_sockets() {
    let (fixture, service) = (Fixture::new(), Service::start(&["--sockets", "1"]));
    let (first, receiver) = fixture.udp(Family::V4);
    let (second, other) = fixture.udp(Family::V4);
    drop((receiver, other));
    let application = service.connect();
    let registration = application.register(&first, false).unwrap();
    assert!(matches!(
        application.register(&second, false),
        Err(Error::Refused {
            refusal: Refusal::TooManySockets,
            ..
        })
    ));
    drop(registration);
    let mut registration = application.register(&second, false).unwrap();
    for _ in 0..10 {
        until(|| send(&first, &DATA) > 0);
    }
    until(|| send(&second, &DATA) > 0);
    let mut ranges = Vec::new();
    completed(&mut registration, &mut ranges, 1);
    assert_eq!(counts(&ranges), [1]);
    assert_eq!(counts(&drain(&first)), [1; 10]);
}

/// Neither by asking for them nor by having the same socket.
#[test]
fn applications_do_not_see_each_others() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (socket, receiver) = fixture.udp(Family::V4);
    let (others, also) = fixture.udp(Family::V4);
    drop((receiver, also));
    let (one, two) = (service.connect(), service.connect());
    let mut mine = one.register(&socket, false).unwrap();
    assert!(matches!(
        two.register(&socket, false),
        Err(Error::Refused {
            refusal: Refusal::AlreadyRegistered,
            ..
        })
    ));
    let mut theirs = two.register(&others, false).unwrap();
    until(|| send(&socket, &DATA) > 0);
    completed(&mut mine, &mut Vec::new(), 1);
    theirs.completed(|range| panic!("{range:?}"));
}

#[test]
fn descriptors_other_than_tcp_and_udp_sockets_are_refused() {
    let service = Service::start(&[]);
    let refusal = |result: Result<_, Error>| match result.map(drop) {
        Err(Error::Refused { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    };
    let (fixture, application) = (Fixture::new(), service.connect());
    let (sender, receiver) = fixture.udp(Family::V4);
    drop(receiver);
    let mut registration = application.register(&sender, false).unwrap();
    let file = File::open("/proc/self/status").unwrap();
    assert_eq!(
        refusal(application.register(&file, false)),
        Refusal::NotASocket
    );
    let (unix, _peer) = UnixDatagram::pair().unwrap();
    assert_eq!(
        refusal(application.register(&unix, false)),
        Refusal::WrongSocket
    );
    until(|| {
        service
            .log()
            .contains("refused: the descriptor is not a socket")
    });

    // The application loses nothing that it has.
    assert!(registration.is_served());
    until(|| send(&sender, &DATA) > 0);
    completed(&mut registration, &mut Vec::new(), 1);
}

#[test]
fn applications_per_user_are_limited() {
    let service = Service::start(&["--per-user", "2"]);
    let applications = [service.connect(), service.connect()];
    let third = Completions::connect(service.path());
    assert!(matches!(
        third,
        Err(Error::Refused {
            refusal: Refusal::TooManyApplications,
            ..
        })
    ));
    drop(applications);
    until(|| Completions::connect(service.path()).is_ok());
}

#[test]
fn garbage_ends_the_connection_that_it_came_by_alone() {
    let service = Service::start(&[]);
    let application = service.connect();
    for garbage in [&[0xff; 24][..], &[1; 3], &[0; 4096]] {
        let socket = seqpacket(&service);
        send_bytes(&socket, garbage);
        let mut reply = [0; 64];
        let length = recv(socket.as_raw_fd(), &mut reply, MsgFlags::empty()).unwrap();
        assert_eq!(
            Reply::from_bytes(&reply[..length]),
            Some(Reply::Refused(Refusal::Malformed))
        );
        assert_eq!(
            recv(socket.as_raw_fd(), &mut reply, MsgFlags::empty()).unwrap(),
            0
        );
    }
    assert!(application.is_served());
}

fn seqpacket(service: &Service) -> OwnedFd {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
    connect(socket.as_raw_fd(), &UnixAddr::new(&service.path()).unwrap()).unwrap();
    socket
}

fn send_bytes(socket: &OwnedFd, bytes: &[u8]) {
    assert_eq!(
        nix::sys::socket::send(socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL).unwrap(),
        bytes.len()
    );
}

/// The service is not the one that keeps a connection open.
#[test]
fn a_registered_connection_is_closed_when_its_application_closes_it() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (sender, mut receiver) = fixture.tcp(Family::V4);
    let registration = service.connect().register(&sender, false).unwrap();
    drop(sender);
    assert_eq!(receiver.read(&mut [0]).unwrap(), 0);
    drop(registration);
}

/// Later connections wait; the service reports the reason and does not spin.
#[test]
fn the_service_waits_for_descriptors_when_it_has_none() {
    let service = Service::start(&[]);
    let _served = service.connect();
    // Lower numbers are in use; poll(2) takes as many descriptors as may be open.
    limit_descriptors(&service, 4);
    let path = service.path();
    let late = thread::spawn(move || Completions::connect(path));
    until(|| service.log().contains("cannot accept a connection"));
    thread::sleep(Duration::from_millis(500));
    let lines = service.log().matches("cannot accept a connection").count();
    assert!(lines <= 2, "{}", service.log());
    limit_descriptors(&service, 1024);
    late.join().unwrap().unwrap();
}

fn limit_descriptors(service: &Service, to: u32) {
    let (pid, limit) = (service.id().to_string(), format!("--nofile={to}:1024"));
    let done = Command::new("prlimit")
        .args(["--pid", &pid, &limit])
        .status();
    assert!(done.unwrap().success());
}
