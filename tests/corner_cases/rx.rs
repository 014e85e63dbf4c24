//! Reads that are not one read of one packet that has just arrived.

use std::io::{IoSliceMut, Read, Write, pipe};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{SpliceFFlags, splice};
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg};
use socket2::SockRef;
use testbed::{Direction, Family, Host, Link, LinkConfig, PATIENCE, within_attempts};
use with::traced_hosts::{
    Check, Connection, Loopback, Message, Messages, ONE_WAY, PAUSE, outline, pause,
    wait_acknowledged,
};
use with::{Stat, Trace, number, share};

/// Cases of one host and one measurement.
#[test]
fn reads_of_every_kind_are_right_or_refused() {
    share!(
        a_peek_is_no_message,
        reads_of_parts_have_waited_longer_and_longer,
        a_read_of_many_arrivals_has_the_times_of_its_last_byte_and_the_age_of_its_first,
        msg_waitall_is_one_message,
        each_message_of_recvmmsg_is_one,
        data_and_the_end_of_it_can_be_read_together,
        data_that_came_before_accept_waited_for_it,
        a_read_below_the_low_water_mark_is_refused,
        urgent_data_is_refused_and_later_reads_are_right,
        piled_up_arrivals_keep_their_own_times,
        a_read_of_a_pile_of_arrivals_has_the_age_of_its_first_byte,
        a_read_after_a_splice_is_refused_and_the_next_is_right,
    );
}

/// Send one message after another, each of which arrives by itself.
fn send_apart(mut client: &TcpStream, messages: usize, bytes: usize, apart: Duration) {
    for message in 0..messages {
        if message > 0 {
            thread::sleep(apart);
        }
        client.write_all(&vec![0; bytes]).unwrap();
        // A segment that is not acknowledged yet may still wait in the socket's backlog.
        wait_acknowledged(client);
    }
}

fn app(message: &Message) -> Duration {
    message.stage("rx.app")
}

fn a_peek_is_no_message(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    connection.client.write_all(&[0; 100]).unwrap();
    for _ in 0..3 {
        assert_eq!(connection.server.peek(&mut [0; 50]).unwrap(), 50);
    }
    pause();
    connection.server.read_exact(&mut [0; 100]).unwrap();
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        assert_eq!(outline(&read), [(100, "valid")]);
        assert!(app(read[0]) >= PAUSE, "{read:?}");
    })
}

fn reads_of_parts_have_waited_longer_and_longer(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    connection.client.write_all(&[0; 1000]).unwrap();
    for bytes in [300, 300, 400] {
        pause();
        connection.server.read_exact(&mut vec![0; bytes]).unwrap();
    }
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        assert_eq!(
            outline(&read),
            [(300, "valid"), (300, "valid"), (400, "valid")]
        );
        for (pauses, message) in (1..).zip(&read) {
            assert!(app(message) >= PAUSE * pauses, "{message:?}");
            assert_eq!(message.stage("rx.stack"), read[0].stage("rx.stack"));
        }
    })
}

fn a_read_of_many_arrivals_has_the_times_of_its_last_byte_and_the_age_of_its_first(
    setup: &Loopback,
) -> Check {
    let mut connection = setup.connect();
    send_apart(&connection.client, 3, 100, PAUSE);
    pause();
    let since_last = Instant::now();
    send_apart(&connection.client, 1, 100, PAUSE);
    connection.server.read_exact(&mut [0; 400]).unwrap();
    let since_last = since_last.elapsed();
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        assert_eq!(outline(&read), [(400, "valid")]);
        assert!(app(read[0]) < since_last, "{read:?}");
        assert!(
            read[0].oldest_age() >= Some(app(read[0]) + 3 * PAUSE),
            "{read:?}"
        );
    })
}

fn msg_waitall_is_one_message(setup: &Loopback) -> Check {
    let connection = setup.connect();
    let server = connection.server.try_clone().unwrap();
    let reader = thread::spawn(move || {
        let mut buffer = Vec::with_capacity(1000);
        let server = SockRef::from(&server);
        server
            .recv_with_flags(buffer.spare_capacity_mut(), libc::MSG_WAITALL)
            .unwrap()
    });
    send_apart(&connection.client, 1, 500, PAUSE);
    pause();
    let since_last = Instant::now();
    send_apart(&connection.client, 1, 500, PAUSE);
    assert_eq!(reader.join().unwrap(), 1000);
    let since_last = since_last.elapsed();
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        assert_eq!(outline(&read), [(1000, "valid")]);
        assert!(app(read[0]) < since_last, "{since_last:?} {read:?}");
        assert!(read[0].oldest_age() >= Some(PAUSE), "{read:?}");
    })
}

fn each_message_of_recvmmsg_is_one(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    connection.client.write_all(&[0; 300]).unwrap();
    wait_acknowledged(&connection.client);
    pause();
    let mut buffers = [[0; 100]; 3];
    let mut slices: Vec<_> = buffers
        .iter_mut()
        .map(|buffer| [IoSliceMut::new(buffer)])
        .collect();
    let mut headers = MultiHeaders::<()>::preallocate(slices.len(), None);
    let socket = connection.server.as_raw_fd();
    let received = recvmmsg(
        socket,
        &mut headers,
        slices.iter_mut(),
        MsgFlags::empty(),
        None,
    )
    .unwrap();
    assert_eq!(
        received.map(|message| message.bytes).collect::<Vec<_>>(),
        [100; 3]
    );
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        assert_eq!(outline(&read), [(100, "valid"); 3]);
        assert!(read.iter().all(|message| app(message) >= PAUSE), "{read:?}");
    })
}

/// The FIN has a sequence number of its own, which a read passes with the last byte.
fn data_and_the_end_of_it_can_be_read_together(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    SockRef::from(&connection.client)
        .set_tcp_cork(true)
        .unwrap();
    connection.client.write_all(&[0; 100]).unwrap();
    connection.client.shutdown(Shutdown::Write).unwrap();
    wait_acknowledged(&connection.client);
    pause();
    assert_eq!(connection.server.read(&mut [0; 1000]).unwrap(), 100);
    assert_eq!(connection.server.read(&mut [0; 1000]).unwrap(), 0);
    // The other direction of a half-closed connection works on.
    connection.server.write_all(&[0; 200]).unwrap();
    connection.client.read_exact(&mut [0; 200]).unwrap();
    wait_acknowledged(&connection.server);
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        assert_eq!(outline(&read), [(100, "valid")]);
        assert!(app(read[0]) >= PAUSE, "{read:?}");
        for half_closed in [
            messages.sent_from(connection.server_address),
            messages.read_at(connection.client_address),
        ] {
            assert_eq!(outline(&half_closed), [(200, "valid")]);
        }
    })
}

fn data_that_came_before_accept_waited_for_it(setup: &Loopback) -> Check {
    let listener = setup
        .host
        .tcp_listen("127.0.0.1:0".parse().unwrap())
        .unwrap();
    let server_address = listener.local_addr().unwrap();
    let mut client = setup.host.tcp_connect(server_address).unwrap();
    client.write_all(&[0; 100]).unwrap();
    pause();
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut [0; 100]).unwrap();
    Box::new(move |messages| {
        let read = messages.read_at(server_address);
        assert_eq!(outline(&read), [(100, "valid")]);
        assert!(app(read[0]) >= PAUSE, "{read:?}");
    })
}

/// RFC 9293, 3.10.7.4: segments after a missing one wait for it.
#[test]
fn reads_show_how_long_they_waited_for_a_missing_segment() {
    within_attempts(waited_for_a_missing_segment);
}

fn waited_for_a_missing_segment() -> Result<(), String> {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::relay(&client, &server, LinkConfig::default().delay(ONE_WAY)).unwrap();
    let trace = Trace::start(&["--netns", server.netns_name()]);
    let mut connection = Connection::new(&client, &server, link.address_b(Family::V4));
    link.lose_next_data(Direction::AToB, 1).unwrap();
    let start = Instant::now();
    connection.client.write_all(&[0; 100]).unwrap();
    connection.client.write_all(&[0; 200]).unwrap();
    let took = start.elapsed();
    // Later, the missing one is sent again before the other.
    if took >= 2 * ONE_WAY {
        return Err(format!("{took:?} for the sends"));
    }
    connection.server.read_exact(&mut [0; 100]).unwrap();
    connection.server.read_exact(&mut [0; 200]).unwrap();
    wait_acknowledged(&connection.client);
    connection.client.write_all(&[0; 300]).unwrap();
    connection.server.read_exact(&mut [0; 300]).unwrap();

    let messages = Messages::new(trace.finish());
    let read = messages.read_at(connection.server_address);
    assert_eq!(
        outline(&read),
        [(100, "valid"), (200, "valid"), (300, "valid")]
    );
    // The missing one waited for no other.
    let waited: Vec<_> = read.iter().map(|read| read.has_stage("rx.hol")).collect();
    assert_eq!(waited, [false, true, false]);
    // The segment was sent again after a round trip at the earliest.
    assert!(read[1].stage("rx.hol") > ONE_WAY, "{read:?}");
    match read.iter().all(|read| read.stage("rx.stack") < ONE_WAY) {
        true => Ok(()),
        false => Err(format!("{read:?}")),
    }
}

/// Below SO_RCVLOWAT (socket(7)) a socket is not readable for poll(2), but a read that does not
/// wait gets the available bytes: the kernel never reported their arrival.
const BELOW_LOW_WATER: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 7001))
client = socket.create_connection(('127.0.0.1', 7001))
server, _ = listener.accept()
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1000)
client.sendall(b'x' * 100)
assert len(server.recv(1000, socket.MSG_DONTWAIT)) == 100
client.sendall(b'x' * 1000)
assert len(server.recv(1000)) == 1000
";

fn a_read_below_the_low_water_mark_is_refused(setup: &Loopback) -> Check {
    let program = setup
        .host
        .spawn("python3", &["-c", BELOW_LOW_WATER])
        .unwrap();
    program.wait(PATIENCE).unwrap();
    Box::new(move |messages| {
        let read = messages.read_at("127.0.0.1:7001".parse().unwrap());
        assert_eq!(outline(&read), [(100, "lost-event"), (1000, "valid")]);
    })
}

/// Urgent data (tcp(7)) leaves the stream out of order, so neither read has the expected position.
fn urgent_data_is_refused_and_later_reads_are_right(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    SockRef::from(&connection.client)
        .send_out_of_band(b"!")
        .unwrap();
    wait_acknowledged(&connection.client);
    let mut urgent = [MaybeUninit::uninit()];
    let server = SockRef::from(&connection.server);
    assert_eq!(server.recv_out_of_band(&mut urgent).unwrap(), 1);
    for bytes in [100, 200] {
        connection.client.write_all(&vec![0; bytes]).unwrap();
        connection.server.read_exact(&mut vec![0; bytes]).unwrap();
    }
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        let refused = "unmatched-read";
        assert_eq!(
            outline(&read),
            [(1, refused), (100, refused), (200, "valid")]
        );
    })
}

/// More arrivals than have room in a flow: `ARRIVALS` of the programs.
const PILE: usize = 40;

fn piled_up_arrivals_keep_their_own_times(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    let apart = Duration::from_millis(5);
    send_apart(&connection.client, PILE, 10, apart);
    pause();
    for _ in 0..PILE {
        connection.server.read_exact(&mut [0; 10]).unwrap();
    }
    connection.client.write_all(&[0; 20]).unwrap();
    connection.server.read_exact(&mut [0; 20]).unwrap();
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        let mut expected = vec![(10, "valid"); PILE];
        expected.push((20, "valid"));
        assert_eq!(outline(&read), expected);
        for pair in read[..PILE].windows(2) {
            let came = [pair[0], pair[1]].map(|read| read.stamp("ready"));
            assert!(came[1] - came[0] >= apart, "{pair:?}");
        }
    })
}

/// Reads that are passed over do not search their bytes in the ring.
#[test]
fn arrivals_of_reads_that_were_passed_over_are_not_missed() {
    const SENDS: usize = 1000;
    let host = Host::new("corner").unwrap();
    let stat = Stat::sampled("--sample=1/128", &["--netns", host.netns_name()]);
    let mut connection = Connection::new(&host, &host, [127, 0, 0, 1].into());
    // One is always left, so that no read has taken everything.
    connection.client.write_all(&[0; 20]).unwrap();
    for _ in 0..SENDS {
        connection.client.write_all(&[0; 20]).unwrap();
        for _ in 0..2 {
            connection.server.read_exact(&mut [0; 10]).unwrap();
        }
    }

    let report = stat.finish();
    let measured = number(&report["rx"]["measured"]);
    assert!(measured >= 15, "{report}");
    assert_eq!(report["rx"]["total"]["count"], measured * 128, "{report}");
}

fn a_read_of_a_pile_of_arrivals_has_the_age_of_its_first_byte(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    send_apart(&connection.client, PILE, 10, Duration::from_millis(1));
    pause();
    connection.server.read_exact(&mut [0; PILE * 10]).unwrap();
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        assert_eq!(outline(&read), [(PILE as u64 * 10, "valid")]);
        assert!(app(read[0]) >= PAUSE, "{read:?}");
        let piled = Duration::from_millis(PILE as u64 - 1);
        assert!(
            read[0].oldest_age() >= Some(app(read[0]) + piled),
            "{read:?}"
        );
    })
}

fn a_read_after_a_splice_is_refused_and_the_next_is_right(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    connection.client.write_all(&[0; 1000]).unwrap();
    let (_out, to) = pipe().unwrap();
    let spliced = splice(
        &connection.server,
        None,
        &to,
        None,
        400,
        SpliceFFlags::empty(),
    );
    assert_eq!(spliced, Ok(400));
    connection.server.read_exact(&mut [0; 600]).unwrap();
    connection.client.write_all(&[0; 100]).unwrap();
    connection.server.read_exact(&mut [0; 100]).unwrap();
    Box::new(move |messages| {
        let read = messages.read_at(connection.server_address);
        assert_eq!(outline(&read), [(600, "unmatched-read"), (100, "valid")]);
    })
}

#[test]
fn a_socket_that_was_only_spliced_from_counts_as_unseen() {
    let host = Host::new("corner").unwrap();
    let stat = Stat::start(&["--netns", host.netns_name()]);
    let mut connection = Connection::new(&host, &host, [127, 0, 0, 1].into());
    connection.client.write_all(&[0; 1000]).unwrap();
    let (_out, to) = pipe().unwrap();
    let spliced = splice(
        &connection.server,
        None,
        &to,
        None,
        1000,
        SpliceFFlags::empty(),
    );
    assert_eq!(spliced, Ok(1000));
    drop(connection.client);
    drop(connection.server);

    assert_unseen(&stat.finish());
}

/// One read of the server was not seen, and no other was there.
fn assert_unseen(report: &serde_json::Value) {
    assert_eq!(number(&report["verdicts"]["unseen-read"]), 1, "{report}");
    assert_eq!(
        number(&report["rx"]["stages"]["rx.app"]["count"]),
        0,
        "{report}"
    );
}

/// `getsockopt(TCP_ZEROCOPY_RECEIVE)` with room to copy to: `receive_fallback_to_copy()` in
/// net/ipv4/tcp.c, the one part of it that does not depend on how the data lies in pages.
const ZEROCOPY: &str = "
import ctypes, select, socket, struct
c = ctypes.CDLL(None, use_errno=True)
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
client.sendall(b'x' * 1000)
select.select([server], [], [])
buffer = ctypes.create_string_buffer(4096)
argument = ctypes.create_string_buffer(struct.pack('=QIIIiQiIQQII',
    0, 4096, 0, 0, 0, ctypes.addressof(buffer), 4096, 0, 0, 0, 0, 0), 64)
length = ctypes.c_uint32(64)
assert c.getsockopt(server.fileno(), socket.IPPROTO_TCP, 35, argument, ctypes.byref(length)) == 0, ctypes.get_errno()
assert buffer.raw[:1000] == b'x' * 1000
client.close()
server.close()
";

#[test]
fn zerocopy_receive_counts_as_unseen() {
    let host = Host::new("corner").unwrap();
    let stat = Stat::start(&["--netns", host.netns_name()]);
    let program = host.spawn("python3", &["-c", ZEROCOPY]).unwrap();
    program.wait(PATIENCE).unwrap();
    assert_unseen(&stat.finish());
}

/// Each read is one message, refused if the other reader moved the socket's position meanwhile, and
/// none that is believed took longer than the slowest of the whole test.
#[test]
fn two_readers_of_one_socket_are_right_or_refused() {
    const MESSAGES: usize = 200;
    const BYTES: usize = 10;
    let setup = Loopback::new();
    let connection = setup.connect();
    let start = Instant::now();
    let readers = [(); 2].map(|()| {
        let mut server = connection.server.try_clone().unwrap();
        thread::spawn(move || {
            let mut reads = 0;
            while let Ok(1..) = server.read(&mut [0; BYTES]) {
                reads += 1;
            }
            reads
        })
    });
    send_apart(&connection.client, MESSAGES, BYTES, Duration::ZERO);
    connection.client.shutdown(Shutdown::Write).unwrap();
    let reads: usize = readers
        .into_iter()
        .map(|reader| reader.join().unwrap())
        .sum();
    let whole = start.elapsed();

    let messages = setup.finish();
    let read = messages.read_at(connection.server_address);
    assert_eq!(read.len(), reads);
    for message in &read {
        match message.verdict() {
            "valid" => assert!(app(message) < whole, "{message:?}"),
            verdict => assert_eq!(verdict, "unmatched-read", "{message:?}"),
        }
    }
    let sum: u64 = read.iter().map(|message| message.bytes()).sum();
    assert_eq!(sum, (MESSAGES * BYTES) as u64);
}
