//! Test the same by io_uring.

use std::net::{Shutdown, TcpStream};
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

use nix::sys::socket::{setsockopt, sockopt};
use sockstamp::zerocopy::{DeferredRingSender, How, NotSent, RingSender, Sent, Support};
use testbed::PATIENCE;

use crate::common::{
    LOOPBACKS, always, fill, first_difference, reads_stream, skip, tcp_pair, udp_pair,
};

type Buffers<S> = RingSender<S, Vec<u8>>;

const BUFFER: usize = 50_000;

fn supported<S: AsFd>(sender: &Buffers<S>, test: &str) -> bool {
    let supported = sender.support() == Support::Available;
    if !supported {
        skip(
            test,
            "the kernel has no IORING_OP_SENDMSG_ZC that tells of copies (Linux 6.2)",
        );
    }
    supported
}

#[test]
fn streams_arrive_while_buffers_are_used_again() {
    for address in LOOPBACKS {
        let (client, server) = tcp_pair(address);
        let mut sender: Buffers<TcpStream> = RingSender::new(client, always(), 8).unwrap();
        if !supported(&sender, "ring::streams_arrive_while_buffers_are_used_again") {
            return;
        }
        let reader = reads_stream(server, 1);
        let mut free = vec![vec![0; BUFFER]; 8];
        for turn in 0..200 {
            let mut buffer = loop {
                sender.reap().unwrap();
                free.extend(
                    std::iter::from_fn(|| sender.next_returned()).map(|returned| returned.buffer),
                );
                match free.pop() {
                    Some(buffer) if sender.flush().unwrap() => break buffer,
                    Some(buffer) => free.push(buffer),
                    None => {}
                }
                std::thread::yield_now();
            };
            fill(&mut buffer, 1, turn * BUFFER);
            loop {
                match sender.send(buffer) {
                    Ok(Sent::InFlight | Sent::Partly { .. }) => break,
                    Err(NotSent::WouldBlock(same)) => buffer = same,
                    other => panic!("{other:?}"),
                }
            }
        }
        while !sender.flush().unwrap() {
            std::thread::yield_now();
        }
        assert!(
            sender.wait_idle(PATIENCE).unwrap(),
            "{:?}",
            sender.counters()
        );
        let counters = sender.counters();
        assert!(counters.lent >= 200);
        assert_eq!(
            (counters.completed, counters.completed_copied),
            (counters.lent, counters.lent)
        );
        sender.socket().shutdown(Shutdown::Write).unwrap();
        assert_eq!(reader.join().unwrap(), 200 * BUFFER);
    }
}

#[test]
fn datagrams_segments_and_addresses_are_sent_by_io_uring() {
    for address in LOOPBACKS {
        let (socket, receiver) = udp_pair(address);
        let other = std::net::UdpSocket::bind((address, 0)).unwrap();
        let mut sender = RingSender::new(socket, always(), 8).unwrap();
        if !supported(
            &sender,
            "ring::datagrams_segments_and_addresses_are_sent_by_io_uring",
        ) {
            return;
        }
        let mut buffer = vec![0; 10_500];
        fill(&mut buffer, 2, 0);
        let how = How::default();
        let sends = [
            (how, &receiver, 10_500),
            (how.segments(1000), &receiver, 1000),
            (how.to(other.local_addr().unwrap()), &other, 10_500),
        ];
        for (how, receiver, length) in sends {
            assert_eq!(sender.send_by(buffer.clone(), how).unwrap(), Sent::InFlight);
            let mut bytes = vec![0; 20_000];
            for at in (0..10_500).step_by(length) {
                let read = receiver.recv(&mut bytes).unwrap();
                assert_eq!(read, length.min(10_500 - at));
                assert_eq!(first_difference(&bytes[..read], 2, at), None);
            }
        }
        assert!(sender.wait_idle(PATIENCE).unwrap());
        let returned: Vec<_> = std::iter::from_fn(|| sender.next_returned()).collect();
        assert_eq!(returned.len(), 3);
        assert!(
            returned
                .iter()
                .all(|returned| returned.copied && returned.buffer == buffer)
        );
    }
}

/// The kernel writes completions with the next call, be it a send or a look.
#[test]
fn a_ring_of_one_thread_gets_all_completions_in_one_look() {
    const SENDS: u8 = 20;
    let (socket, receiver) = udp_pair(LOOPBACKS[0]);
    let mut sender = DeferredRingSender::new(socket, always(), 32).unwrap();
    if sender.support() != Support::Available {
        skip(
            "ring::a_ring_of_one_thread_gets_all_completions_in_one_look",
            "the kernel has no IORING_OP_SENDMSG_ZC that tells of copies (Linux 6.2)",
        );
        return;
    }
    for number in 0..SENDS {
        let sent = sender.send((vec![number; 4], vec![number; 5000])).unwrap();
        assert_eq!(sent, Sent::InFlight);
        let mut bytes = [0; 6000];
        assert_eq!(receiver.recv(&mut bytes).unwrap(), 5004);
        assert!(bytes[..5004].iter().all(|byte| *byte == number));
    }
    assert!(sender.next_returned().is_none());
    sender.reap().unwrap();
    let first = std::iter::from_fn(|| sender.next_returned()).count();
    assert!(first > 1, "{first} of {SENDS}");
    assert!(sender.wait_idle(PATIENCE).unwrap());
    let rest = std::iter::from_fn(|| sender.next_returned()).count();
    assert_eq!(first + rest, usize::from(SENDS));
    assert_eq!(sender.counters().completed, u64::from(SENDS));
}

/// A failed send is notified as well, and that must return no other buffer.
#[test]
fn failed_sends_give_their_buffer_back_and_no_other() {
    let (socket, _receiver) = udp_pair(LOOPBACKS[0]);
    let mut sender = RingSender::new(socket, always(), 2).unwrap();
    if !supported(
        &sender,
        "ring::failed_sends_give_their_buffer_back_and_no_other",
    ) {
        return;
    }
    for round in 0..100_u8 {
        let failed = sender.send_by(vec![0; 30_000], How::default().segments(100));
        assert!(
            matches!(
                failed,
                Err(NotSent::Failed {
                    buffer: Some(_),
                    ..
                })
            ),
            "{failed:?}"
        );
        assert_eq!(sender.send(vec![round; 100]).unwrap(), Sent::InFlight);
    }
    assert!(sender.wait_idle(PATIENCE).unwrap());
    let mut rounds: Vec<u8> = std::iter::from_fn(|| sender.next_returned())
        .map(|returned| returned.buffer[0])
        .collect();
    rounds.sort_unstable();
    assert_eq!(rounds, (0..100).collect::<Vec<u8>>());
}

#[test]
fn a_full_socket_and_an_unsupported_one_are_reported() {
    let (client, server) = tcp_pair(LOOPBACKS[0]);
    setsockopt(&client, sockopt::SndBuf, &100_000).unwrap();
    let options = always().stop_when_copied(NonZeroU32::MIN);
    let mut sender = RingSender::new(client, options, 8).unwrap();
    if !supported(
        &sender,
        "ring::a_full_socket_and_an_unsupported_one_are_reported",
    ) {
        return;
    }
    let mut buffer = vec![0; 6_000_000];
    fill(&mut buffer, 3, 0);
    let Sent::Partly { left } = sender.send(buffer).unwrap() else {
        panic!("6 MB fit into a send buffer of 200 kB");
    };
    assert!(left > 0);
    assert!(matches!(sender.send(vec![1]), Err(NotSent::WouldBlock(_))));
    let reader = reads_stream(server, 3);
    while !sender.flush().unwrap() {
        sender.reap().unwrap();
        std::thread::yield_now();
    }
    assert!(sender.wait_idle(PATIENCE).unwrap());
    assert!(
        sender.counters().not_asked > 0,
        "all of it was copied: {:?}",
        sender.counters()
    );
    drop(sender);
    assert_eq!(reader.join().unwrap(), 6_000_000);

    let (local, _peer) = UnixDatagram::pair().unwrap();
    let mut sender = RingSender::new(local, always(), 2).unwrap();
    assert_eq!(
        sender.send(vec![6; 100]).unwrap(),
        Sent::Copied(vec![6; 100])
    );
    assert_eq!(sender.support(), Support::Unsupported);
}
