//! Messages cost no allocation, neither to send nor to drain, and a sender without messages in
//! flight leaves no memory allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{IoSlice, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, poll};
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::timestamping::{
    Matcher, MessageOptions, Options, Origin, Outcome, ReceiveBatch, TxKind, TxStamp, send,
};
use sockstamp::zerocopy::{self, Sent, ZeroCopySender};
use testbed::PATIENCE;

/// Counts the allocations of each thread: the test harness has its own threads.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all requests are passed to the system's allocator unchanged. Counting allocates nothing:
// the counters are constants without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        // SAFETY: the caller keeps the contract of GlobalAlloc.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Return the allocations of the work after some repetitions.
fn allocations_of(mut work: impl FnMut()) -> u64 {
    (0..20).for_each(|_| work());
    let before = ALLOCATIONS.get();
    (0..100).for_each(|_| work());
    ALLOCATIONS.get() - before
}

fn udp_pair() -> (UdpSocket, UdpSocket) {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (sender, receiver)
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Drain until the stamp of this kind came.
fn drains(socket: impl AsFd, queue: &mut ErrorQueue, last: TxKind, mut each: impl FnMut(&TxStamp)) {
    let mut came = false;
    while !came {
        let mut watched = [PollFd::new(socket.as_fd(), PollFlags::empty())];
        assert_eq!(poll(&mut watched, 10_000_u16), Ok(1), "no stamp came");
        let drained = queue.drain(&socket, |report| match report {
            Report::Stamp { stamp, .. } => {
                came |= stamp.kind == last;
                each(&stamp);
            }
            other => panic!("{other:?}"),
        });
        drained.unwrap();
    }
}

#[test]
fn allocations_are_counted() {
    let mut boxes = Vec::with_capacity(200);
    assert_eq!(allocations_of(|| boxes.push(Box::new(7))), 100);
}

#[test]
fn stamped_datagrams_allocate_nothing() {
    let (sender, receiver) = udp_pair();
    let options = Options::new().tx_software().rx_software().software().id();
    options.apply(&sender).unwrap();
    options.apply(&receiver).unwrap();
    let (mut queue, mut sends) = (ErrorQueue::new(), Matcher::datagrams(16, &[TxKind::Snd]));
    let mut batch = ReceiveBatch::new(100);
    let allocations = allocations_of(|| {
        let sent = send(
            &sender,
            &[IoSlice::new(b"hello")],
            None,
            MessageOptions::new(),
        )
        .unwrap();
        sends.sent(sent, ());
        drains(&sender, &mut queue, TxKind::Snd, |stamp| {
            assert_eq!(sends.stamp(stamp, |_| {}), Outcome::Matched);
        });
        let received = batch.receive(&receiver, |_, payload| assert_eq!(payload, b"hello"));
        assert_eq!(received.unwrap(), 1);
    });
    assert_eq!(allocations, 0);
}

#[test]
fn stamped_parts_of_a_stream_allocate_nothing() {
    let (sender, mut receiver) = tcp_pair();
    let options = Options::new()
        .tx_software()
        .tx_ack()
        .id()
        .only_stamps()
        .statistics();
    options.apply(&sender).unwrap();
    let origin = Origin::Unacknowledged { outstanding: 0 };
    let (mut queue, mut sends) = (
        ErrorQueue::new(),
        Matcher::stream(16, &[TxKind::Ack], origin),
    );
    let allocations = allocations_of(|| {
        let sent = send(
            &sender,
            &[IoSlice::new(b"hello")],
            None,
            MessageOptions::new(),
        )
        .unwrap();
        sends.sent(sent, ());
        receiver.read_exact(&mut [0; 5]).unwrap();
        drains(&sender, &mut queue, TxKind::Ack, |stamp| {
            assert_eq!(sends.stamp(stamp, |_| {}), Outcome::Matched);
        });
    });
    assert_eq!(allocations, 0);
}

/// Send one buffer repeatedly; `read` takes the received bytes.
fn assert_sends_allocate_nothing(socket: impl AsFd, mut read: impl FnMut(&mut [u8])) {
    let before = BYTES.get();
    let mut sender =
        ZeroCopySender::new(socket, zerocopy::Options::default().threshold(0)).unwrap();
    let (mut queue, mut buffer) = (ErrorQueue::new(), Some(vec![7; 20_000]));
    let mut received = vec![0; 20_000];
    let allocations = allocations_of(|| {
        let sent = sender.send(buffer.take().unwrap()).unwrap();
        assert_eq!(sent, Sent::InFlight);
        read(&mut received);
        let returned = sender.wait_returned(&mut queue, PATIENCE, |other| panic!("{other:?}"));
        buffer = returned.unwrap().map(|returned| returned.buffer);
    });
    assert_eq!(allocations, 0);
    drop((queue, buffer, received, sender));
    assert_eq!(BYTES.get(), before, "what nothing is in flight of is freed");
}

#[test]
fn datagrams_that_are_not_copied_allocate_nothing() {
    let (sender, receiver) = udp_pair();
    assert_sends_allocate_nothing(sender, |bytes| {
        assert_eq!(receiver.recv(bytes).unwrap(), bytes.len())
    });
}

#[test]
fn streams_that_are_not_copied_allocate_nothing() {
    let (sender, mut receiver) = tcp_pair();
    assert_sends_allocate_nothing(sender, |bytes| receiver.read_exact(bytes).unwrap());
}
