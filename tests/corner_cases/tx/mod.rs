//! Sends that are not one small packet which is acknowledged at once.

mod entries;
mod in_flight;
mod together;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::sendfile::sendfile;
use socket2::SockRef;
use testbed::{Direction, LinkConfig};
use with::blocked::spawn_blocked;
use with::share;
use with::traced_hosts::{Loopback, ONE_WAY, PAUSE, Wire, outline, pause, wait_acknowledged};

use entries::{
    a_send_from_a_bad_pointer_leaves_no_entry_to_the_next,
    a_send_of_nothing_is_no_message_and_leaves_no_entry,
    a_send_that_finds_the_buffer_full_leaves_no_entry_to_the_next,
    a_send_that_waits_before_its_first_byte_begins_before_the_wait,
};

/// Cases of one host and one measurement.
#[test]
fn sends_of_every_kind_are_right_or_refused() {
    share!(
        a_send_of_nothing_is_no_message_and_leaves_no_entry,
        a_send_that_finds_the_buffer_full_leaves_no_entry_to_the_next,
        a_send_that_waits_before_its_first_byte_begins_before_the_wait,
        a_send_from_a_bad_pointer_leaves_no_entry_to_the_next,
    );
}

/// Read whatever comes until the end.
fn drain(mut stream: TcpStream) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut chunk = vec![0; 65536];
        while matches!(stream.read(&mut chunk), Ok(1..)) {}
    })
}

/// End the sending side in order, so that nothing is in flight any more.
fn end(client: TcpStream, reader: JoinHandle<()>) {
    wait_acknowledged(&client);
    client.shutdown(Shutdown::Write).unwrap();
    reader.join().unwrap();
}

/// One send in many packets on a slow link: acknowledged in parts, complete with the last byte.
#[test]
fn a_large_send_ends_with_the_acknowledgement_of_its_last_byte() {
    const BYTES: u32 = 200_000;
    const RATE: u32 = 20_000_000;
    let config = LinkConfig::default()
        .rate_bits_per_second(u64::from(RATE))
        .offload(false);
    let setup = Wire::new(config);
    let mut connection = setup.connect();
    let reader = drain(connection.server.try_clone().unwrap());
    connection
        .client
        .write_all(&vec![0; BYTES as usize])
        .unwrap();
    end(connection.client, reader);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    assert_eq!(outline(&sent), [(u64::from(BYTES), "valid")]);
    let on_the_line = Duration::from_secs(8) * BYTES / RATE;
    let whole = sent[0].stamp("ack") - sent[0].stamp("entry");
    assert!(whole >= on_the_line, "{whole:?} {sent:?}");
}

#[test]
fn a_send_larger_than_the_buffer_waits_in_the_call() {
    const BYTES: usize = 1 << 20;
    let setup = Loopback::new();
    let connection = setup.connect();
    SockRef::from(&connection.client)
        .set_send_buffer_size(16 << 10)
        .unwrap();
    let mut client = connection.client.try_clone().unwrap();
    let start = Instant::now();
    let sender = spawn_blocked(move || client.write_all(&vec![0; BYTES]).unwrap());
    pause();
    let reader = drain(connection.server.try_clone().unwrap());
    sender.join().unwrap();
    let in_send = start.elapsed();
    end(connection.client, reader);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    assert_eq!(outline(&sent), [(BYTES as u64, "valid")]);
    let copy = sent[0].stage("tx.copy");
    assert!(PAUSE / 2 < copy && copy <= in_send, "{in_send:?} {sent:?}");
}

/// tcp_notsent_lowat() (include/net/tcp.h): a limit on what is not sent, of the whole network
/// namespace.
#[test]
fn a_send_beyond_the_limit_of_unsent_data_waits_in_the_call() {
    const BYTES: usize = 1 << 20;
    let config = LinkConfig::default().rate_bits_per_second(40_000_000);
    let setup = Wire::new(config);
    let limit = ["-q", "-w", "net.ipv4.tcp_notsent_lowat=16384"];
    setup.client.run("sysctl", &limit).unwrap();
    let mut connection = setup.connect();
    let reader = drain(connection.server.try_clone().unwrap());
    connection.client.write_all(&vec![0; BYTES]).unwrap();
    end(connection.client, reader);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    assert_eq!(outline(&sent), [(BYTES as u64, "valid")]);
    assert!(sent[0].stage("tx.copy") > PAUSE, "{sent:?}");
    let waited = sent[0].part("tx.copy", "sndbuf");
    assert!(waited > sent[0].stage("tx.copy") / 2, "{sent:?}");
}

/// The request was the last segment that `tcp_probe` showed.
#[test]
fn an_ack_that_comes_after_the_end_of_sending_is_not_taken_for_the_last_segment_before() {
    let setup = Wire::new(LinkConfig::default().delay(ONE_WAY));
    let mut connection = setup.connect();
    for _ in 0..2 {
        connection.server.write_all(&[0; 10]).unwrap();
        connection.client.read_exact(&mut [0; 10]).unwrap();
    }
    connection.client.write_all(&[0; 10]).unwrap();
    connection.client.shutdown(Shutdown::Write).unwrap();
    connection.server.read_exact(&mut [0; 10]).unwrap();
    wait_acknowledged(&connection.client);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    assert_eq!(outline(&sent), [(10, "valid")]);
    assert!(!sent[0].is("ack_with_data"), "{sent:?}");
}

#[test]
fn a_lost_packet_is_sent_again_and_the_wait_is_the_networks() {
    let setup = Wire::new(LinkConfig::default().delay(Duration::from_millis(5)));
    let mut connection = setup.connect();
    setup.link.lose_next_data(Direction::AToB, 1).unwrap();
    connection.client.write_all(&[0; 10]).unwrap();
    connection.server.read_exact(&mut [0; 10]).unwrap();
    wait_acknowledged(&connection.client);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    assert_eq!(outline(&sent), [(10, "valid")]);
    let message = sent[0];
    assert_eq!(message.number("retransmits"), 1);
    // SCHED and SND, once more each.
    assert_eq!(message.number("repeats"), 2);
    let again = message.stamp("snd_last") - message.stamp("snd");
    // RFC 8985, 7.2: a probe is sent after two round-trip times at the earliest.
    assert!(again >= Duration::from_millis(20), "{message:?}");
    assert!(
        message.stamp("sched_last") > message.stamp("snd"),
        "{message:?}"
    );
    assert!(message.stage("tx.network") > again, "{message:?}");
}

#[test]
fn a_file_goes_out_in_the_messages_that_the_kernel_makes_of_it() {
    const BYTES: usize = 100_000;
    let setup = Loopback::new();
    let connection = setup.connect();
    let file = tempfile::tempfile().unwrap();
    file.set_len(BYTES as u64).unwrap();
    let reader = drain(connection.server.try_clone().unwrap());
    let mut left = BYTES;
    while left > 0 {
        left -= sendfile(&connection.client, &file, None, left).unwrap();
    }
    end(connection.client, reader);

    let messages = setup.finish();
    let sent = messages.sent_from(connection.client_address);
    let bytes: u64 = sent.iter().map(|message| message.bytes()).sum();
    assert_eq!(bytes, BYTES as u64, "{sent:?}");
    assert!(
        sent.iter().all(|message| message.verdict() == "valid"),
        "{sent:?}"
    );
}
