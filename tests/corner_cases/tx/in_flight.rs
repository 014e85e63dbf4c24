//! Messages in flight: their connection ends, there are many, or threads wait beside them.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::SockRef;
use testbed::{Direction, LinkConfig, TcpInfo, within_attempts};
use with::blocked::spawn_blocked;
use with::traced_hosts::{Loopback, Messages, ONE_WAY, Wire, outline, pause, wait_acknowledged};

use super::{drain, end};

fn lose_everything() -> LinkConfig {
    LinkConfig::default().loss(1.0)
}

#[test]
fn a_reset_refuses_messages_in_flight() {
    let setup = Wire::new(LinkConfig::default());
    let mut connection = setup.connect();
    setup
        .link
        .set_direction(Direction::AToB, lose_everything())
        .unwrap();
    connection.client.write_all(&[0; 10]).unwrap();
    connection.client.write_all(&[0; 20]).unwrap();
    // Linger 0: close sends a reset (tcp_close(), net/ipv4/tcp.c).
    SockRef::from(&connection.server)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(connection.server);
    let error = connection.client.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    assert_eq!(outline(&sent), [(10, "reset"), (20, "reset")]);
}

#[test]
fn a_socket_closed_at_once_refuses_messages_in_flight() {
    let setup = Wire::new(LinkConfig::default());
    let mut connection = setup.connect();
    setup.link.set_config(lose_everything()).unwrap();
    connection.client.write_all(&[0; 10]).unwrap();
    SockRef::from(&connection.client)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(connection.client);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    assert_eq!(outline(&sent), [(10, "closed")]);
}

#[test]
fn messages_acknowledged_after_close_are_valid() {
    let setup = Wire::new(LinkConfig::default().delay(ONE_WAY));
    let mut connection = setup.connect();
    connection.client.write_all(&[0; 10]).unwrap();
    drop(connection.client);
    let mut received = Vec::new();
    connection.server.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), 10);
    setup.trace.wait_for("tx", 1);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    assert_eq!(outline(&sent), [(10, "valid")]);
    assert!(sent[0].stage("tx.network") >= 2 * ONE_WAY, "{sent:?}");
}

/// `TX_INFLIGHT_MAX` of the programs.
const SLOTS: usize = 1024;
const MORE: usize = 8;

/// Send more messages than there are slots before the first is acknowledged, and another one when
/// all are. Return the messages, or why the machine was too slow for that.
fn more_than_slots() -> Result<(Messages, SocketAddr), String> {
    let setup = Wire::new(LinkConfig::default().delay(Duration::from_millis(100)));
    let mut connection = setup.connect();
    let acked = || TcpInfo::of(&connection.client).unwrap().bytes_acked;
    let before = acked();
    let start = Instant::now();
    for _ in 0..SLOTS + MORE {
        (&connection.client).write_all(&[0; 10]).unwrap();
    }
    if acked() != before {
        return Err(format!("{:?} for the sends", start.elapsed()));
    }
    connection
        .server
        .read_exact(&mut [0; (SLOTS + MORE) * 10])
        .unwrap();
    wait_acknowledged(&connection.client);
    connection.client.write_all(&[0; 10]).unwrap();
    wait_acknowledged(&connection.client);
    Ok((setup.finish(), connection.client_address))
}

#[test]
fn more_messages_in_flight_than_there_are_slots_are_refused() {
    within_attempts(|| {
        let (messages, client) = more_than_slots()?;
        let sent = messages.sent_from(client);
        let mut verdicts = BTreeMap::new();
        for message in &sent {
            *verdicts.entry(message.verdict()).or_insert(0) += 1;
        }
        assert_eq!(
            verdicts,
            BTreeMap::from([("inflight-full", MORE), ("valid", SLOTS + 1)])
        );
        Ok(())
    });
}

/// Start threads one after another that each send `bytes` on the same socket; how long each was in
/// its call.
fn send_together(client: &TcpStream, threads: usize, bytes: usize) -> Vec<JoinHandle<Duration>> {
    let start = |_| {
        let mut client = client.try_clone().unwrap();
        // Each finds the buffer full and waits.
        let sender = spawn_blocked(move || {
            let data = vec![0; bytes];
            let start = Instant::now();
            client.write_all(&data).unwrap();
            start.elapsed()
        });
        pause();
        sender
    };
    (0..threads).map(start).collect()
}

/// Return how long each thread was in its call, and the messages seen.
fn threads_on_one_socket(threads: usize) -> (Vec<Duration>, SocketAddr, Messages) {
    const BYTES: usize = 256 << 10;
    let setup = Loopback::new();
    let connection = setup.connect();
    SockRef::from(&connection.server)
        .set_recv_buffer_size(16 << 10)
        .unwrap();
    SockRef::from(&connection.client)
        .set_send_buffer_size(16 << 10)
        .unwrap();
    let senders = send_together(&connection.client, threads, BYTES);
    let reader = drain(connection.server.try_clone().unwrap());
    let mut in_send: Vec<_> = senders
        .into_iter()
        .map(|sender| sender.join().unwrap())
        .collect();
    end(connection.client, reader);
    in_send.sort();
    (in_send, connection.client_address, setup.finish())
}

/// A thread starts its clock before the call and stops it after; on a busy machine it waits for a
/// CPU.
const AROUND_THE_CALL: Duration = Duration::from_millis(25);

#[test]
fn two_threads_that_wait_in_send_on_one_socket_keep_their_own_times() {
    within_attempts(|| {
        let (in_send, client, messages) = threads_on_one_socket(2);
        let mut sent = messages.sent_from(client);
        assert_eq!(sent.len(), 2, "{sent:?}");
        sent.sort_by_key(|message| message.stage("tx.copy"));
        for (message, in_send) in sent.iter().zip(&in_send) {
            let copy = message.stage("tx.copy");
            assert!(copy <= *in_send, "{in_send:?} {message:?}");
            if *in_send - copy >= AROUND_THE_CALL {
                return Err(format!("{in_send:?} {message:?}"));
            }
        }
        Ok(())
    });
}

/// There is room for the entries of two.
#[test]
fn a_third_thread_that_waits_in_send_is_refused() {
    within_attempts(|| {
        let (in_send, client, messages) = threads_on_one_socket(3);
        let sent = messages.sent_from(client);
        assert_eq!(sent.len(), 3, "{sent:?}");
        let refused = sent
            .iter()
            .filter(|message| message.verdict() == "no-entry")
            .count();
        assert_eq!(refused, 1, "{sent:?}");
        for message in &sent {
            if message.verdict() == "valid" {
                let copy = message.stage("tx.copy");
                let near = |in_send: &Duration| in_send.abs_diff(copy) < AROUND_THE_CALL;
                if !in_send.iter().any(near) {
                    return Err(format!("{in_send:?} {message:?}"));
                }
            }
        }
        Ok(())
    });
}
