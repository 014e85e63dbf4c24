//! Datagrams that are not sent or read one per call: in fragments, in segments, corked, many per
//! call, by io_uring.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types::Fd};
use nix::sys::socket::sockopt::UdpGsoSegment;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, setsockopt};
use socket2::SockRef;
use sockstamp::zerocopy::{Options, ZeroCopySender};
use testbed::{Family, within_attempts};
use with::FAMILIES;
use with::clock::now;
use with::datagrams::{Socket, WatchedLink, datagram, number_of};

/// A connected sender and its receiver.
fn pair(setup: &WatchedLink, family: Family) -> (Socket<'_>, Socket<'_>) {
    let (sender, receiver) = (setup.sender(family), setup.receiver(family));
    sender.socket.connect(receiver.local).unwrap();
    (sender, receiver)
}

/// Up to 60 kB, over an MTU of 1500: a datagram ends with the last of up to 42 fragments.
#[test]
fn datagrams_in_fragments_are_timed_to_the_last_of_them() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        for (kind, family) in (0..).zip(FAMILIES) {
            let (sender, receiver) = pair(&setup, family);
            thread::scope(|scope| {
                scope.spawn(|| receiver.receive_all(|| Duration::ZERO));
                for number in 0..100_u16 {
                    let bytes = 1000 + usize::from(number) * 590;
                    sender.send(kind * 1000 + u64::from(number), bytes, None);
                    thread::sleep(Duration::from_millis(1));
                }
            });
        }
        setup.finish().check()
    });
}

/// UDP_SEGMENT (udp(7)): one call sends many datagrams, which leave as one packet where the device
/// can, and are one datagram each at the receiver.
#[test]
fn segments_are_timed_as_on_the_wire() {
    within_attempts(|| segments(false));
}

/// A token bucket takes the packet apart (`tbf_segment()`): the call ends with the last segment.
#[test]
fn segments_that_leave_one_by_one_are_timed_to_the_last() {
    within_attempts(|| segments(true));
}

/// Datagrams that one call sends.
const SEGMENTS: u64 = 3;

fn segments(apart: bool) -> Result<(), String> {
    let setup = WatchedLink::veth();
    if apart {
        setup.shape("rate 20mbit burst 2kb limit 10mb");
    }
    for (kind, family) in (0..).zip(FAMILIES) {
        let (sender, receiver) = pair(&setup, family);
        setsockopt(&sender.socket, UdpGsoSegment, &1000).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| receiver.receive_all(|| Duration::ZERO));
            for round in 0..200 {
                let first = (kind * 1000 + round) * SEGMENTS;
                let numbers = first..first + SEGMENTS;
                let seen = if apart { numbers.end - 1 } else { first };
                sender.send_segments(numbers, seen);
                thread::sleep(Duration::from_millis(2));
            }
        });
    }
    if apart {
        // A walk refuses a message whose last segment left unseen.
        setup.wait_for_sends();
    }
    let mut evidence = setup.finish();
    if !apart {
        for call in &mut evidence.read {
            call.packet -= call.packet % SEGMENTS;
        }
    }
    evidence.check()
}

/// MSG_ZEROCOPY: the kernel has no copy, and a part of memory is sent again while segments of it
/// wait. A segment of the first call ends where the second one does.
#[test]
fn memory_that_is_lent_twice_at_once_has_right_times_or_none() {
    within_attempts(lent_twice_at_once);
}

fn lent_twice_at_once() -> Result<(), String> {
    let setup = WatchedLink::veth();
    setup.shape("rate 20mbit burst 2kb limit 10mb");
    let (sender, _receiver) = pair(&setup, Family::V4);
    setsockopt(&sender.socket, UdpGsoSegment, &1000).unwrap();
    // Sets SO_ZEROCOPY.
    ZeroCopySender::<_, Vec<u8>>::new(&sender.socket, Options::default()).unwrap();
    let socket = SockRef::from(&sender.socket);
    let mut buffers = vec![[0; 8192]; 30];
    for (round, buffer) in (0..).zip(&mut buffers) {
        // Numbers of both calls are in the same bytes: the last segment's number distinguishes
        // them.
        for segment in 0..6 {
            let number: u64 = round * 6 + segment;
            let at = usize::try_from(segment).unwrap() * 1000;
            buffer[at..at + 8].copy_from_slice(&number.to_be_bytes());
        }
        for segments in [6, 4] {
            let bytes = usize::try_from(segments).unwrap() * 1000;
            let begun = now();
            let sent = socket.send_with_flags(&buffer[..bytes], libc::MSG_ZEROCOPY);
            assert_eq!(sent.unwrap(), bytes);
            sender.sent(round * 6 + segments - 1, bytes, begun, now());
        }
        thread::sleep(Duration::from_millis(10));
    }
    setup.finish().none_is_wrong("tx")
}

/// MSG_MORE: bytes wait for the call that sends them, and leave in one datagram with its own.
#[test]
fn corked_sends_are_timed_to_the_datagram_that_they_share() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        for (kind, family) in (0..).zip(FAMILIES) {
            let (sender, receiver) = pair(&setup, family);
            for number in kind * 1000..kind * 1000 + 60 {
                let begun = now();
                let socket = SockRef::from(&sender.socket);
                let half = datagram(number, 100);
                assert_eq!(socket.send_with_flags(&half, libc::MSG_MORE).unwrap(), 100);
                thread::sleep(Duration::from_millis(number % 5));
                let last = now();
                assert_eq!(socket.send(&[0; 200]).unwrap(), 200);
                let ended = now();
                // The first call's bytes enter the packet scheduler during the second.
                sender.sent(number, 100, begun, ended);
                sender.sent(number, 200, last, ended);
                assert!(receiver.receive());
            }
        }
        setup.finish().check()
    });
}

/// Send and read like QUIC: sendmmsg(2), recvmmsg(2).
#[test]
fn datagrams_of_one_call_are_timed_one_by_one() {
    const MANY: usize = 20;
    within_attempts(|| {
        let setup = WatchedLink::veth();
        let (sender, receiver) = pair(&setup, Family::V4);
        for round in 0..50 {
            let first = round * MANY as u64;
            let length = |number: u64| 100 + usize::try_from(number).unwrap();
            let numbers = first..first + MANY as u64;
            let data: Vec<Vec<u8>> = numbers
                .clone()
                .map(|number| datagram(number, length(number)))
                .collect();
            let slices: Vec<_> = data.iter().map(|data| [IoSlice::new(data)]).collect();
            let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(MANY, None);
            let no_address = [None; MANY];
            let begun = now();
            let results = sendmmsg(
                sender.socket.as_raw_fd(),
                &mut headers,
                &slices,
                no_address,
                [],
                MsgFlags::empty(),
            );
            assert_eq!(results.unwrap().count(), MANY);
            let ended = now();
            for number in numbers.clone() {
                sender.sent(number, length(number), begun, ended);
            }
            thread::sleep(Duration::from_millis(round % 4));
            let mut buffers = vec![[0; 2000]; MANY];
            let mut slices: Vec<_> = buffers
                .iter_mut()
                .map(|buffer| [IoSliceMut::new(buffer)])
                .collect();
            let begun = now();
            let socket = receiver.socket.as_raw_fd();
            let read = recvmmsg(
                socket,
                &mut headers,
                slices.iter_mut(),
                MsgFlags::empty(),
                None,
            )
            .unwrap();
            let lengths: Vec<usize> = read.map(|message| message.bytes).collect();
            let ended = now();
            for (buffer, bytes) in buffers.iter().zip(lengths) {
                receiver.read(number_of(buffer), bytes, begun, ended);
            }
        }
        setup.finish().check()
    });
}

/// Run one operation to its end. The caller keeps everything that it names borrowed until then.
fn complete(ring: &mut IoUring, operation: &squeue::Entry) -> usize {
    // SAFETY: what the operation names must stay valid until it is complete. Both callers hold it
    // during this call, which returns after the completion.
    unsafe { ring.submission().push(operation) }.unwrap();
    ring.submit_and_wait(1).unwrap();
    let completion = ring.completion().next().unwrap();
    usize::try_from(completion.result()).unwrap()
}

#[test]
fn sends_and_reads_by_io_uring_are_timed_as_on_the_wire() {
    within_attempts(|| {
        let setup = WatchedLink::veth();
        for (kind, family) in (0..).zip(FAMILIES) {
            let (sender, receiver) = pair(&setup, family);
            let numbers = kind * 1000..kind * 1000 + 200;
            let length = |number: u64| 100 + usize::try_from(number % 1000).unwrap();
            thread::scope(|scope| {
                let to_read = numbers.clone();
                scope.spawn(move || {
                    let mut ring = IoUring::new(4).unwrap();
                    let mut buffer = vec![0; 2000];
                    for _ in to_read {
                        let fd = Fd(receiver.socket.as_raw_fd());
                        let begun = now();
                        let bytes = complete(
                            &mut ring,
                            &opcode::Recv::new(fd, buffer.as_mut_ptr(), 2000).build(),
                        );
                        receiver.read(number_of(&buffer), bytes, begun, now());
                    }
                });
                let mut ring = IoUring::new(4).unwrap();
                for number in numbers {
                    let data = datagram(number, length(number));
                    let fd = Fd(sender.socket.as_raw_fd());
                    let bytes = u32::try_from(data.len()).unwrap();
                    let begun = now();
                    let sent = complete(
                        &mut ring,
                        &opcode::Send::new(fd, data.as_ptr(), bytes).build(),
                    );
                    sender.sent(number, sent, begun, now());
                    if number % 10 == 9 {
                        thread::sleep(Duration::from_millis(3));
                    }
                }
            });
        }
        setup.finish().check()
    });
}
