//! Sends that fail, wait before their first byte or have none, and the entry of the next one.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use socket2::SockRef;
use testbed::{Host, PATIENCE};
use with::Trace;
use with::blocked::spawn_blocked;
use with::traced_hosts::{Check, Loopback, Messages, PAUSE, outline, pause, wait_acknowledged};

use super::{drain, end};

pub(super) fn a_send_of_nothing_is_no_message_and_leaves_no_entry(setup: &Loopback) -> Check {
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

pub(super) fn a_send_that_finds_the_buffer_full_leaves_no_entry_to_the_next(
    setup: &Loopback,
) -> Check {
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

pub(super) fn a_send_that_waits_before_its_first_byte_begins_before_the_wait(
    setup: &Loopback,
) -> Check {
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
import fcntl, signal, socket, struct, sys, termios, time
listener = socket.create_server(('127.0.0.1', 0))
client = socket.socket()
client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 10)
client.connect(listener.getsockname())
server, _ = listener.accept()
filled = 0
for _ in range(10):
    try:
        while True:
            filled += client.send(bytes(1 << 16), socket.MSG_DONTWAIT)
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
while filled:
    filled -= len(server.recv(1 << 20))
time.sleep(0.3)
client.send(b'x' * 100)
assert server.recv(200) == b'x' * 100
# SIOCOUTQ of tcp(7): all is acknowledged.
while fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)) != bytes(4):
    time.sleep(0.01)
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

pub(super) fn a_send_from_a_bad_pointer_leaves_no_entry_to_the_next(setup: &Loopback) -> Check {
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
