//! Sends that share a packet.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use socket2::SockRef;
use testbed::{LinkConfig, within_attempts};
use with::traced_hosts::{
    Connection, Loopback, Message, ONE_WAY, PAUSE, Wire, outline, pause, wait_acknowledged,
};

fn coalesced(messages: &[&Message]) -> Vec<bool> {
    messages
        .iter()
        .map(|message| message.is_coalesced())
        .collect()
}

/// TCP holds corked bytes back no longer than this: `TCP_CORK` of tcp(7).
const CORKED: Duration = Duration::from_millis(200);

/// 100 bytes that waited a [`PAUSE`] for the 200 that they left in one packet with, unless the
/// machine was too slow for that.
fn left_together(
    setup: Loopback,
    connection: &mut Connection,
    took: Duration,
) -> Result<(), String> {
    if took >= CORKED {
        return Err(format!("{took:?} for the sends"));
    }
    connection.server.read_exact(&mut [0; 300]).unwrap();
    wait_acknowledged(&connection.client);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    assert_eq!(outline(&sent), [(100, "valid"), (200, "valid")]);
    assert_eq!(coalesced(&sent), [true, false]);
    assert_eq!(sent[0].stamp("sched"), sent[1].stamp("sched"));
    assert!(sent[0].stage("tx.queue") >= PAUSE, "{sent:?}");
    match sent[1].stage("tx.queue") < PAUSE {
        true => Ok(()),
        false => Err(format!("{sent:?}")),
    }
}

#[test]
fn corked_sends_share_a_packet_and_its_stamps() {
    within_attempts(|| {
        let setup = Loopback::new();
        let mut connection = setup.connect();
        let socket = SockRef::from(&connection.client);
        let start = Instant::now();
        socket.set_tcp_cork(true).unwrap();
        (&connection.client).write_all(&[0; 100]).unwrap();
        pause();
        (&connection.client).write_all(&[0; 200]).unwrap();
        socket.set_tcp_cork(false).unwrap();
        left_together(setup, &mut connection, start.elapsed())
    });
}

#[test]
fn msg_more_waits_for_the_next_send() {
    within_attempts(|| {
        let setup = Loopback::new();
        let mut connection = setup.connect();
        let socket = SockRef::from(&connection.client);
        let start = Instant::now();
        socket.send_with_flags(&[0; 100], libc::MSG_MORE).unwrap();
        pause();
        socket.send(&[0; 200]).unwrap();
        left_together(setup, &mut connection, start.elapsed())
    });
}

/// Nagle's algorithm (RFC 896) holds small sends back while an earlier one is in flight.
#[test]
fn sends_held_back_by_nagle_share_a_packet() {
    within_attempts(held_back_by_nagle);
}

fn held_back_by_nagle() -> Result<(), String> {
    let setup = Wire::new(LinkConfig::default().delay(ONE_WAY));
    let mut connection = setup.connect();
    connection.client.set_nodelay(false).unwrap();
    let start = Instant::now();
    for _ in 0..4 {
        connection.client.write_all(&[0; 10]).unwrap();
    }
    let took = start.elapsed();
    // Later ones find nothing in flight.
    if took >= 2 * ONE_WAY {
        return Err(format!("{took:?} for the sends"));
    }
    connection.server.read_exact(&mut [0; 40]).unwrap();
    wait_acknowledged(&connection.client);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    assert_eq!(outline(&sent), [(10, "valid"); 4]);
    assert_eq!(coalesced(&sent), [false, true, true, false]);
    if sent[0].stage("tx.queue") >= ONE_WAY {
        return Err(format!("{sent:?}"));
    }
    for held_back in &sent[1..] {
        // Until the acknowledgement of the first: there and back.
        assert!(held_back.stage("tx.queue") >= ONE_WAY, "{held_back:?}");
        assert!(
            held_back.stage("tx.network") >= 2 * ONE_WAY,
            "{held_back:?}"
        );
    }
    Ok(())
}
