use std::io::Write;
use std::net::Shutdown;

use nix::sys::socket::{setsockopt, sockopt};
use sockstamp::error_queue::ErrorQueue;
use sockstamp::zerocopy::{How, NotSent, Sent, ZeroCopySender};
use testbed::{Family, PATIENCE};

use crate::common::{
    LOOPBACKS, Network, Pool, all_back, always, fill, reads_stream, send, tcp_pair,
};

const BUFFER: usize = 50_000;

#[test]
fn sent_bytes_arrive_while_buffers_are_reused() {
    for address in LOOPBACKS {
        let (client, server) = tcp_pair(address);
        let reader = reads_stream(server, 1);
        let mut sender = ZeroCopySender::new(client, always()).unwrap();
        let mut pool = Pool::new(4, BUFFER);
        for turn in 0..200 {
            let mut buffer = pool.take(&mut sender);
            fill(&mut buffer, 1, turn * BUFFER);
            pool.give(send(&mut sender, buffer, How::default()));
        }
        all_back(&mut sender);
        sender.socket().shutdown(Shutdown::Write).unwrap();
        assert_eq!(reader.join().unwrap(), 200 * BUFFER);
        let counters = sender.counters();
        assert_eq!((counters.lent, counters.completed), (200, 200));
        assert_eq!(
            counters.completed_copied, 200,
            "the kernel copies for receivers on this host"
        );
        assert_eq!((counters.foreign, counters.repeated), (0, 0));
    }
}

/// A call takes 1024 parts at most, and the send buffer less.
#[test]
fn parts_beyond_one_call_arrive_in_order() {
    const PARTS: usize = 3000;
    let (client, server) = tcp_pair(LOOPBACKS[0]);
    client.set_nonblocking(true).unwrap();
    let mut sender = ZeroCopySender::new(client, always()).unwrap();
    let mut whole = vec![0; PARTS * 1000];
    fill(&mut whole, 8, 0);
    let parts: Vec<_> = whole.chunks(1000).map(<[u8]>::to_vec).collect();
    let reader = reads_stream(server, 8);
    match sender.send(parts).unwrap() {
        Sent::InFlight | Sent::Partly { .. } => {}
        Sent::Copied(_) => panic!("a part was to be sent without a copy"),
    }
    let mut queue = ErrorQueue::new();
    while !sender.flush().unwrap() {
        sender
            .drain(&mut queue, |other| panic!("{other:?}"))
            .unwrap();
        std::thread::yield_now();
    }
    assert!(sender.wait_idle(&mut queue, PATIENCE, |_| {}).unwrap());
    assert_eq!(sender.next_returned().unwrap().buffer.len(), PARTS);
    drop(sender);
    assert_eq!(reader.join().unwrap(), whole.len());
}

#[test]
fn bytes_sent_over_a_link_arrive() {
    let network = Network::new();
    for family in [Family::V4, Family::V6] {
        let listener = network
            .b
            .tcp_listen((network.link.address_b(family), 0).into())
            .unwrap();
        let client = network
            .a
            .tcp_connect(listener.local_addr().unwrap())
            .unwrap();
        let reader = reads_stream(listener.accept().unwrap().0, 2);
        let mut sender = ZeroCopySender::new(client, always()).unwrap();
        let mut pool = Pool::new(8, BUFFER);
        for turn in 0..200 {
            let mut buffer = pool.take(&mut sender);
            fill(&mut buffer, 2, turn * BUFFER);
            pool.give(send(&mut sender, buffer, How::default()));
        }
        all_back(&mut sender);
        drop(sender);
        assert_eq!(reader.join().unwrap(), 200 * BUFFER);
    }
}

/// As `-c` of msg_zerocopy.c: several sends share a packet, copied ones among them.
#[test]
fn corked_sends_with_and_without_a_copy_arrive_in_order() {
    for address in LOOPBACKS {
        let (client, server) = tcp_pair(address);
        let reader = reads_stream(server, 3);
        let mut sender = ZeroCopySender::new(client, always().threshold(1000)).unwrap();
        let mut sent = 0;
        for turn in 0..90 {
            let mut buffer = vec![0; [3000, 10, 1500][turn % 3]];
            fill(&mut buffer, 3, sent);
            sent += buffer.len();
            let how = if turn % 9 == 8 {
                How::default()
            } else {
                How::default().more()
            };
            let copied = send(&mut sender, buffer, how);
            assert_eq!(
                copied.map(|buffer| buffer.len()),
                (turn % 3 == 1).then_some(10)
            );
        }
        assert_eq!(all_back(&mut sender).len(), 60);
        assert_eq!(sender.counters().below_threshold, 30);
        drop(sender);
        assert_eq!(reader.join().unwrap(), sent);
    }
}

#[test]
fn a_socket_that_takes_a_part_gets_the_rest_before_anything_else() {
    for address in LOOPBACKS {
        let (client, server) = tcp_pair(address);
        setsockopt(&client, sockopt::SndBuf, &200_000).unwrap();
        client.set_nonblocking(true).unwrap();
        let mut sender = ZeroCopySender::new(client, always()).unwrap();
        let buffer = |turn: usize| {
            let mut buffer = vec![0; 3_000_000];
            fill(&mut buffer, 4, turn * 3_000_000);
            buffer
        };
        let Sent::Partly { left } = sender.send(buffer(0)).unwrap() else {
            panic!("3 MB fit into a send buffer of 400 kB");
        };
        assert!(left > 0 && left < 3_000_000, "{left}");
        assert!(!sender.flush().unwrap());
        let Err(NotSent::WouldBlock(second)) = sender.send(buffer(1)) else {
            panic!("the rest of the first buffer has not gone");
        };
        assert_eq!(second.len(), 3_000_000);

        let reader = reads_stream(server, 4);
        while !sender.flush().unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(sender.unsent(), 0);
        sender.socket().set_nonblocking(false).unwrap();
        assert_eq!(sender.send(second).unwrap(), Sent::InFlight);
        let back = all_back(&mut sender);
        assert_eq!(back.len(), 2);
        assert_eq!(back[0].buffer[..100], buffer(0)[..100], "in order");
        assert!(sender.counters().lent > 2, "the first took several calls");
        drop(sender);
        assert_eq!(reader.join().unwrap(), 6_000_000);
    }
}

#[test]
fn a_buffer_that_fails_comes_back_with_the_error() {
    let (client, server) = tcp_pair(LOOPBACKS[0]);
    let mut sender = ZeroCopySender::new(client, always()).unwrap();
    assert_eq!(sender.send(vec![1; BUFFER]).unwrap(), Sent::InFlight);
    drop(server);
    // The reset completes sends in flight, and the next send finds it.
    assert_eq!(all_back(&mut sender).len(), 1);
    let failed = loop {
        match sender.send(vec![2; BUFFER]) {
            Ok(_) => {}
            Err(failed) => break failed,
        }
    };
    let NotSent::Failed {
        buffer: Some(buffer),
        error,
    } = failed
    else {
        panic!("{failed:?}");
    };
    assert_eq!(buffer, vec![2; BUFFER]);
    assert!(
        error.to_string().starts_with("sendmsg on a socket: "),
        "{error}"
    );
}

/// The kernel continues to send after the sender and its socket have been dropped: these buffers
/// may never be written again.
#[test]
fn bytes_in_flight_arrive_unchanged_after_the_sender_is_dropped() {
    for address in LOOPBACKS {
        let (client, server) = tcp_pair(address);
        setsockopt(&client, sockopt::SndBufForce, &4_000_000).unwrap();
        client.set_nonblocking(true).unwrap();
        let mut sender = ZeroCopySender::new(client, always()).unwrap();
        let mut taken = 0;
        loop {
            let mut buffer = vec![0; BUFFER];
            fill(&mut buffer, 5, taken);
            match sender.send(buffer) {
                Ok(Sent::InFlight) => taken += BUFFER,
                Ok(Sent::Partly { left }) => taken += BUFFER - left,
                Ok(copied) => panic!("{copied:?}"),
                Err(NotSent::WouldBlock(_)) => break,
                Err(failed) => panic!("{failed}"),
            }
        }
        assert!(sender.in_flight() > 10, "{} in flight", sender.in_flight());
        drop(sender);
        let scribbled: Vec<Vec<u8>> = (0..taken / BUFFER * 2)
            .map(|_| vec![0xff; BUFFER])
            .collect();
        assert_eq!(reads_stream(server, 5).join().unwrap(), taken);
        drop(scribbled);
    }
}

#[test]
fn waiting_ends_in_time_if_the_peer_does_not_read() {
    let (client, mut server) = tcp_pair(LOOPBACKS[0]);
    setsockopt(&client, sockopt::SndBufForce, &4_000_000).unwrap();
    setsockopt(&server, sockopt::RcvBuf, &10_000).unwrap();
    server.write_all(b"x").unwrap();
    let mut sender = ZeroCopySender::new(client, always()).unwrap();
    assert_eq!(sender.send(vec![0; 1_000_000]).unwrap(), Sent::InFlight);
    let mut queue = ErrorQueue::new();
    let [short, long] = [50, 10_000].map(std::time::Duration::from_millis);
    let started = std::time::Instant::now();
    let idle = sender.wait_idle(&mut queue, short, |other| panic!("{other:?}"));
    assert!(!idle.unwrap());
    assert!((short..long).contains(&started.elapsed()));
    assert_eq!(sender.in_flight(), 1);
}
