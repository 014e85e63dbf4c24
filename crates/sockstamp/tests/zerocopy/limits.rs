//! Test conditions under which sends are copied.

use std::net::{Shutdown, TcpStream};
use std::num::NonZeroU32;
use std::{panic, thread};

use caps::{CapSet, Capability};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{setsockopt, sockopt};
use sockstamp::zerocopy::{How, Options, Sent, ZeroCopySender};
use testbed::{Family, Host};

use crate::common::{
    LOOPBACKS, Network, all_back, always, fill, leave_little_memory, reads_stream, send, tcp_pair,
    udp_pair,
};

#[test]
fn a_send_below_the_threshold_is_copied_and_returned_at_once() {
    let (socket, receiver) = udp_pair(LOOPBACKS[0]);
    let mut sender = ZeroCopySender::new(socket, Options::default()).unwrap();
    for (length, lent) in [(0, 0), (Options::THRESHOLD - 1, 0), (Options::THRESHOLD, 1)] {
        assert_eq!(sender.lends(length), lent == 1);
        let copied = send(&mut sender, vec![7; length], How::default());
        assert_eq!(copied.is_some(), lent == 0);
        assert_eq!(sender.counters().lent, lent);
        assert_eq!(
            receiver.recv(&mut [0; 2 * Options::THRESHOLD]).unwrap(),
            length
        );
    }
    assert_eq!(sender.counters().below_threshold, 2);
    assert_eq!(all_back(&mut sender).len(), 1);
}

#[test]
fn asking_ends_when_the_kernel_copies_anyway() {
    let (socket, _receiver) = udp_pair(LOOPBACKS[0]);
    let options = always().stop_when_copied(NonZeroU32::new(3).unwrap());
    let mut sender = ZeroCopySender::new(socket, options).unwrap();
    for _ in 0..3 {
        assert_eq!(send(&mut sender, vec![0; 1000], How::default()), None);
        assert!(all_back(&mut sender)[0].copied);
    }
    assert_eq!(
        send(&mut sender, vec![8; 1000], How::default()),
        Some(vec![8; 1000])
    );
    assert_eq!(
        (sender.counters().lent, sender.counters().not_asked),
        (3, 1)
    );
    sender.ask_again();
    assert_eq!(send(&mut sender, vec![0; 1000], How::default()), None);
}

#[test]
fn a_stream_without_memory_for_completions_is_copied_and_arrives() {
    let host = Host::new("poor").unwrap();
    if !leave_little_memory(
        &host,
        "limits::a_stream_without_memory_for_completions_is_copied_and_arrives",
    ) {
        return;
    }
    for address in LOOPBACKS {
        let (client, server) = host.enter(|| tcp_pair(address));
        assert_refused_and_arrives(client, server);
    }
}

/// Send more than is taken without a copy before anybody reads.
fn assert_refused_and_arrives(client: TcpStream, server: TcpStream) {
    // Beyond net.core.wmem_max, which is too little for all of it on some kernels.
    setsockopt(&client, sockopt::SndBufForce, &20_000_000).unwrap();
    let mut sender = ZeroCopySender::new(client, always()).unwrap();
    // No task reads yet: bytes beyond the receive buffer stay in flight.
    let (mut sent, length) = (0, 400_000);
    for _ in 0..20 {
        let mut buffer = vec![0; length];
        fill(&mut buffer, 7, sent);
        sent += length;
        if let Sent::Partly { .. } = sender.send(buffer).unwrap() {
            panic!("the socket blocks");
        }
    }
    let refused = sender.counters().refused;
    assert!(refused > 0, "{:?}", sender.counters());
    let reader = reads_stream(server, 7);
    all_back(&mut sender);
    // Returned buffers are reused.
    let mut buffer = vec![0; length];
    fill(&mut buffer, 7, sent);
    sent += length;
    assert_eq!(sender.send(buffer).unwrap(), Sent::InFlight);
    all_back(&mut sender);
    sender.socket().shutdown(Shutdown::Write).unwrap();
    assert_eq!(reader.join().unwrap(), sent);
    assert_eq!(sender.counters().refused, refused);
}

/// The limit of locked memory for a user without CAP_IPC_LOCK, while this lives. Other threads of
/// this process have the capability: for them it is no limit.
struct LockedMemory {
    before: (u64, u64),
}

impl LockedMemory {
    fn limit(bytes: u64) -> Self {
        let before = getrlimit(Resource::RLIMIT_MEMLOCK).unwrap();
        setrlimit(Resource::RLIMIT_MEMLOCK, bytes, before.1).unwrap();
        Self { before }
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        setrlimit(Resource::RLIMIT_MEMLOCK, self.before.0, self.before.1).unwrap();
    }
}

/// Runs on a thread of its own that lacks CAP_IPC_LOCK.
fn without_the_capability(run: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            caps::drop(None, CapSet::Effective, Capability::CAP_IPC_LOCK).unwrap();
            run();
        });
        if let Err(panic) = thread.join() {
            panic::resume_unwind(panic);
        }
    });
}

/// Source: `mm_account_pinned_pages()` in net/core/skbuff.c, v6.18.
#[test]
fn a_stream_that_may_not_lock_its_memory_is_copied_and_arrives() {
    let _limit = LockedMemory::limit(1_000_000);
    for address in LOOPBACKS {
        let (client, server) = tcp_pair(address);
        without_the_capability(|| assert_refused_and_arrives(client, server));
    }
}

/// Datagrams of 1000 bytes, each of which counts for two pages, wait for a neighbour that never
/// answers.
#[test]
fn datagrams_that_may_not_lock_their_memory_are_copied() {
    const PAGES: u64 = 20;
    let _limit = LockedMemory::limit(PAGES * 4096);
    let network = Network::new();
    let mut sender = ZeroCopySender::new(network.udp_to_nobody(), always()).unwrap();
    without_the_capability(|| {
        let sends = (0..PAGES).map(|_| send(&mut sender, vec![1; 1000], How::default()));
        let copied = sends.flatten().collect::<Vec<_>>();
        assert!(copied.iter().all(|buffer| *buffer == [1; 1000]));
        let counters = sender.counters();
        assert!(counters.lent > 0 && counters.refused > 0, "{counters:?}");
        assert_eq!(counters.lent + copied.len() as u64, PAGES);
        assert_eq!(all_back(&mut sender).len() as u64, counters.lent);
        assert_eq!(
            send(&mut sender, vec![2; 1000], How::default()),
            None,
            "it is free again"
        );
        all_back(&mut sender);
    });
}

/// Datagrams wait for a neighbour that never answers.
#[test]
fn datagrams_without_memory_for_completions_are_copied_and_ids_stay_in_step() {
    let network = Network::new();
    if !leave_little_memory(
        &network.a,
        "limits::datagrams_without_memory_for_completions_are_copied_and_ids_stay_in_step",
    ) {
        return;
    }
    let receiver = network
        .b
        .udp_bind((network.link.address_b(Family::V4), 0).into())
        .unwrap();
    let there = How::default().to(receiver.local_addr().unwrap());
    let mut sender = ZeroCopySender::new(network.udp_to_nobody(), always()).unwrap();
    while sender.counters().refused == 0 {
        assert!(sender.counters().lent < 50, "{:?}", sender.counters());
        drop(send(&mut sender, vec![1; 1000], How::default()));
    }
    let (lent, in_flight) = (sender.counters().lent, sender.in_flight());
    assert!(in_flight > 1, "{in_flight}");
    // Until the queue is read it is not known whether the refused send has an id.
    assert!(send(&mut sender, vec![2; 1000], there).is_some());
    assert_eq!(
        (sender.counters().lent, sender.counters().not_asked),
        (lent, 1)
    );
    let mut queue = sockstamp::error_queue::ErrorQueue::new();
    assert!(
        sender
            .wait_idle(&mut queue, testbed::PATIENCE, |_| {})
            .unwrap()
    );
    let returned: Vec<_> = std::iter::from_fn(|| sender.next_returned()).collect();
    assert!(returned.iter().all(|returned| returned.buffer == [1; 1000]));
    assert_eq!(returned.len() as u64, lent);

    let sent = sender.send_by(vec![3; 1000], there);
    let sent = sent.or_else(|_| sender.send_by(vec![3; 1000], there));
    assert!(
        matches!(sent, Ok(Sent::InFlight | Sent::Copied(_))),
        "{sent:?}"
    );
    assert!(
        sender
            .wait_idle(&mut queue, testbed::PATIENCE, |_| {})
            .unwrap()
    );
    assert_eq!(sender.counters().foreign, 0);
}
