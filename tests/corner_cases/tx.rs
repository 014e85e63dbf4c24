//! Sends that are not one small packet which is acknowledged at once.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::sendfile::sendfile;
use socket2::SockRef;
use testbed::{Direction, Host, LinkConfig, PATIENCE, TcpInfo, within_attempts};
use with::blocked::spawn_blocked;
use with::traced_hosts::{
    Check, Connection, Loopback, Message, Messages, ONE_WAY, PAUSE, Wire, outline, pause,
    wait_acknowledged,
};
use with::{Trace, share};

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

fn coalesced(messages: &[&Message]) -> Vec<bool> {
    messages
        .iter()
        .map(|message| message.is_coalesced())
        .collect()
}

/// End the sending side in order, so that nothing is in flight any more.
fn end(client: TcpStream, reader: JoinHandle<()>) {
    wait_acknowledged(&client);
    client.shutdown(Shutdown::Write).unwrap();
    reader.join().unwrap();
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

fn a_send_of_nothing_is_no_message_and_leaves_no_entry(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    let socket = SockRef::from(&connection.client);
    assert_eq!(socket.send(&[]).unwrap(), 0);
    pause();
    socket.send(&[0; 10]).unwrap();
    connection.server.read_exact(&mut [0; 10]).unwrap();
    wait_acknowledged(&connection.client);
    Box::new(move |messages| {
        let sent = messages.sent_from(connection.client_address);
        assert_eq!(outline(&sent), [(10, "valid")]);
        assert!(sent[0].stage("tx.copy") < PAUSE, "{sent:?}");
    })
}

/// Send without waiting until the buffer is full, and return how many bytes it took.
fn fill(mut stream: &TcpStream) -> usize {
    stream.set_nonblocking(true).unwrap();
    let mut filled = 0;
    loop {
        match stream.write(&[0; 65536]) {
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    stream.set_nonblocking(false).unwrap();
    filled
}

fn a_send_that_finds_the_buffer_full_leaves_no_entry_to_the_next(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    SockRef::from(&connection.client)
        .set_send_buffer_size(16 << 10)
        .unwrap();
    let filled = fill(&connection.client);
    pause();
    let reader = drain(connection.server.try_clone().unwrap());
    wait_acknowledged(&connection.client);
    connection.client.write_all(&[0; 10]).unwrap();
    end(connection.client, reader);
    Box::new(move |messages| {
        let sent = messages.sent_from(connection.client_address);
        let bytes: u64 = sent.iter().map(|message| message.bytes()).sum();
        assert_eq!(bytes, filled as u64 + 10);
        let last = sent.last().unwrap();
        assert_eq!((last.bytes(), last.verdict()), (10, "valid"));
        assert!(last.stage("tx.copy") < PAUSE, "{last:?}");
    })
}

fn a_send_that_waits_before_its_first_byte_begins_before_the_wait(setup: &Loopback) -> Check {
    let mut connection = setup.connect();
    SockRef::from(&connection.client)
        .set_send_buffer_size(16 << 10)
        .unwrap();
    let filled = fill(&connection.client);
    let client = connection.client.try_clone().unwrap();
    let sender = spawn_blocked(move || (&client).write_all(&[0; 10]).unwrap());
    pause();
    connection.server.read_exact(&mut vec![0; filled]).unwrap();
    sender.join().unwrap();
    connection.server.read_exact(&mut [0; 10]).unwrap();
    wait_acknowledged(&connection.client);
    Box::new(move |messages| {
        let sent = messages.sent_from(connection.client_address);
        let last = sent.last().unwrap();
        assert_eq!((last.bytes(), last.verdict()), (10, "valid"));
        assert!(last.stage("tx.copy") > PAUSE / 2, "{last:?}");
        assert!(last.part("tx.copy", "sndbuf") > PAUSE / 2, "{last:?}");
    })
}

/// Wait in vain for room, and send the same bytes when there is some.
const GIVE_UP: &str = "
import signal, socket, struct, sys, time
listener = socket.create_server(('127.0.0.1', 0))
client = socket.socket()
client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 10)
client.connect(listener.getsockname())
server, _ = listener.accept()
for _ in range(10):
    try:
        while True:
            client.send(bytes(1 << 16), socket.MSG_DONTWAIT)
    except BlockingIOError:
        time.sleep(0.02)
def stop(*_):
    raise InterruptedError
if sys.argv[1] == 'time':
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('ll', 0, 300000))
else:
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    client.send(b'x' * 100)
    sys.exit('it was sent')
except (BlockingIOError, InterruptedError):
    pass
server.settimeout(0.3)
try:
    while True:
        server.recv(1 << 20)
except TimeoutError:
    pass
client.send(b'x' * 100)
assert server.recv(200) == b'x' * 100
time.sleep(0.1)
";

/// No hook shows that the first send has ended: the second one is refused, or has its own time.
#[test]
fn a_send_that_gave_up_adds_no_wait_to_the_next_one() {
    for reason in ["time", "signal"] {
        let host = Host::new("corner").unwrap();
        let trace = Trace::start(&["--netns", host.netns_name()]);
        let program = host.spawn("python3", &["-c", GIVE_UP, reason]).unwrap();
        program.wait(PATIENCE).unwrap();

        let messages = Messages::new(trace.finish());
        let sent = messages.sent();
        let last = sent.last().unwrap();
        assert_eq!(last.bytes(), 100, "{reason}: {sent:?}");
        match last.verdict() {
            "valid" => assert!(last.stage("tx.copy") < PAUSE, "{reason}: {last:?}"),
            verdict => assert_eq!(verdict, "no-entry", "{reason}: {last:?}"),
        }
    }
}

/// Address 0 is not mapped: the kernel copies nothing and the call fails with EFAULT.
const BAD_POINTER: &str = "
import ctypes, errno, socket, sys, time
c = ctypes.CDLL(None, use_errno=True)
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
sent = c.send(s.fileno(), ctypes.c_void_p(0), ctypes.c_size_t(1000), 0)
assert (sent, ctypes.get_errno()) == (-1, errno.EFAULT), (sent, ctypes.get_errno())
time.sleep(0.05)
s.sendall(b'x' * 10)
s.recv(1)
";

fn a_send_from_a_bad_pointer_leaves_no_entry_to_the_next(setup: &Loopback) -> Check {
    let listener = setup
        .host
        .tcp_listen("127.0.0.1:0".parse().unwrap())
        .unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let client = setup
        .host
        .spawn("python3", &["-c", BAD_POINTER, &port])
        .unwrap();
    let (mut server, client_address) = listener.accept().unwrap();
    server.read_exact(&mut [0; 10]).unwrap();
    server.write_all(b"x").unwrap();
    client.wait(PATIENCE).unwrap();
    Box::new(move |messages| {
        let sent = messages.sent_from(client_address);
        assert_eq!(outline(&sent), [(10, "valid")]);
        assert!(sent[0].stage("tx.copy") < PAUSE, "{sent:?}");
    })
}

/// Make enough small sends that only one in eight is measured. Then make one with a page that is
/// missing for two seconds: until the end of the rate's window, in which few messages were sent.
/// userfaultfd(2), ioctl_userfaultfd(2).
const LATE_PAGE: &str = "
import ctypes, fcntl, mmap, os, socket, struct, sys, threading, time
SO_SNDBUFFORCE, MISSING = 32, 1
UFFDIO_API, UFFDIO_REGISTER, UFFDIO_ZEROPAGE = 0xc018aa3f, 0xc020aa00, 0xc020aa04
SIZE, PAGE, LATE = 512 << 10, mmap.PAGESIZE, 128 << 10
c = ctypes.CDLL(None, use_errno=True)
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
client.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
memory[:LATE] = bytes(LATE)
memory[LATE + PAGE:] = bytes(SIZE - LATE - PAGE)
faults = c.syscall(int(sys.argv[1]), os.O_CLOEXEC)
fcntl.ioctl(faults, UFFDIO_API, bytearray(struct.pack('QQQ', 0xaa, 0, 0)))
fcntl.ioctl(faults, UFFDIO_REGISTER, bytearray(struct.pack('QQQQ', start + LATE, PAGE, MISSING, 0)))

def read():
    while server.recv(1 << 20):
        pass

def fault():
    os.read(faults, 32)
    time.sleep(2)
    fcntl.ioctl(faults, UFFDIO_ZEROPAGE, bytearray(struct.pack('QQQq', start + LATE, PAGE, 0, 0)))

for _ in range(14):
    client.send(b'x' * 10)
threads = [threading.Thread(target=work) for work in (read, fault)]
for thread in threads:
    thread.start()
assert c.send(client.fileno(), ctypes.c_void_p(start), ctypes.c_size_t(SIZE), 0) == SIZE
client.shutdown(socket.SHUT_WR)
for thread in threads:
    thread.join()
";

#[test]
fn a_window_that_ends_inside_a_send_makes_no_entry_of_its_later_turn() {
    const BYTES: u64 = 512 << 10;
    let host = Host::new("corner").unwrap();
    let trace = Trace::sampled("--sample=8/s", &["--netns", host.netns_name()]);
    let userfaultfd = libc::SYS_userfaultfd.to_string();
    let program = host
        .spawn("python3", &["-c", LATE_PAGE, &userfaultfd])
        .unwrap();
    program.wait(PATIENCE).unwrap();

    let messages = Messages::new(trace.finish());
    let sent = messages.sent();
    assert!(sent.len() >= 8, "{sent:?}");
    // One in eight times it is measured.
    for large in sent.iter().filter(|message| message.bytes() == BYTES) {
        assert!(
            large.stage("tx.copy") >= Duration::from_secs(2),
            "{large:?}"
        );
    }
}

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
