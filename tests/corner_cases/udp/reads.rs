//! Reads out of a queue: shared, full, long, or begun before the measurement.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde_json::json;
use testbed::{Host, within_attempts};
use with::{Stat, Trace, number, of_direction, plan, skip};

use super::{outline, run, tells_reasons, trace, valid};

/// Forty are always in the queue, so each waits for 400 ms: hooks are attached 250 ms before a
/// window.
#[test]
fn a_datagram_that_waits_longer_than_windows_have_hooks_is_refused() {
    let name = "a_datagram_that_waits_longer_than_windows_have_hooks_is_refused";
    if !plan().has_windows() {
        return skip(name, "no windows on this kernel");
    }
    let host = Host::new("udp").unwrap();
    let target = ["--every", "--netns", host.netns_name()];
    let stat = Stat::sampled("--expert=windows=1/4", &target);
    run(
        &host,
        "
for number in range(640):
    sender.send(bytes(10))
    time.sleep(0.01)
    if number >= 40: receiver.recv(100)
",
    );
    let report = stat.finish();
    let verdicts = &report["verdicts"];
    let [sent, read] = ["tx", "rx"].map(|side| number(&report[side]["total"]["count"]));
    assert!(sent > 0 && read == 0, "{report}");
    assert_eq!(number(&verdicts["valid"]), sent, "{verdicts}");
    let found = 4 * number(&report["rx"]["measured"]);
    let refused = number(&verdicts["window"]);
    // A machine may run no program for a packet, while one of its tasks runs (guarded.rs).
    assert!(
        refused > 0 && found.abs_diff(refused) <= found / 50,
        "{found}: {verdicts}"
    );
}

/// SO_REUSEPORT (socket(7)): the kernel spreads the datagrams over the sockets of a port, here of
/// two processes.
#[test]
fn sockets_that_share_a_port_have_a_queue_each() {
    let messages = trace(
        r"
import os
def shared(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(('127.0.0.1', port))
    s.settimeout(2)
    return s

def drain(s):
    try:
        while True:
            s.recv(1000)
    except TimeoutError:
        pass

first = shared(0)
second = shared(first.getsockname()[1])
reader = os.fork()
if not reader:
    drain(second)
    os._exit(0)
for _ in range(50):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'r' * 100, first.getsockname())
    time.sleep(.002)
drain(first)
os.waitpid(reader, 0)
",
    );
    assert_eq!(outline(&messages, "rx"), vec![(100, "valid"); 50]);
    let readers: BTreeSet<_> = of_direction(&messages, "rx")
        .iter()
        .map(|message| number(&message["pid"]))
        .collect();
    assert_eq!(readers.len(), 2, "both have read");
}

#[test]
fn a_peek_is_no_message_and_truncated_bytes_are_not_counted() {
    let messages = trace(
        r"
sender.send(b'x' * 10)
sender.send(b'x' * 20)
sender.send(b'')
receiver.recv(100, socket.MSG_PEEK)
receiver.recv(100)
receiver.recv(5)
receiver.recv(5)
",
    );
    assert_eq!(outline(&messages, "rx"), valid([10, 5, 0]));
}

/// Threads that take turns at one socket: whatever is valid waited as long as its own datagram did.
#[test]
fn every_read_of_threads_side_by_side_is_a_message() {
    let messages = trace(
        r"
def read():
    while receiver.recv(100) != b'end':
        pass

threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(200):
    sender.send(b'x' * 50)
for _ in threads:
    sender.send(b'end')
for thread in threads:
    thread.join()
",
    );
    let read = outline(&messages, "rx");
    assert_eq!(read.len(), 204);
    let named = |verdict: &str| ["valid", "unmatched-read", "evicted"].contains(&verdict);
    assert!(read.iter().all(|(_, verdict)| named(verdict)), "{read:?}");
    assert_eq!(outline(&messages, "tx").len(), 204);
}

/// A read that waits when the measurement starts, and those after it: each has its own datagram's
/// time.
#[test]
fn a_reader_that_waits_at_the_start_is_in_step() {
    within_attempts(waits_at_the_start);
}

fn waits_at_the_start() -> Result<(), String> {
    const GAP: Duration = Duration::from_millis(50);
    let host = Host::new("udp").unwrap();
    let receiver = host.udp_bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let sender = host.udp_bind("127.0.0.1:0".parse().unwrap()).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let reader = thread::spawn(move || {
        for _ in 0..10 {
            receiver.recv(&mut [0; 100]).unwrap();
        }
    });
    let trace = Trace::start(&["--netns", host.netns_name(), "udp"]);
    for _ in 0..10 {
        sender.send(b"x").unwrap();
        thread::sleep(GAP);
    }
    reader.join().unwrap();
    let messages = trace.finish();
    let read = of_direction(&messages, "rx");
    assert_eq!(outline(&messages, "rx"), valid([1; 10]));
    let longest = read
        .iter()
        .map(|message| number(&message["total_ns"]))
        .max();
    // The datagram before it would be older than the gap.
    match longest {
        Some(longest) if u128::from(longest) < GAP.as_nanos() => Ok(()),
        _ => Err(format!("{longest:?} ns for a read")),
    }
}

/// The socket's own filter takes none of ten; the witness is the count of drops of the socket.
#[test]
fn datagrams_that_the_sockets_own_filter_refuses_are_counted_by_that_reason() {
    if !tells_reasons() {
        skip("drop reasons", "the kernel tells no receiver of drops");
        return;
    }
    let host = Host::new("udp").unwrap();
    let stat = Stat::start(&["--netns", host.netns_name(), "udp"]);
    let printed = run(
        &host,
        r"
import ctypes, struct
# BPF_RET | BPF_K: a packet of 0 bytes is left (linux/filter.h)
program = ctypes.create_string_buffer(struct.pack('HBBI', 0x06, 0, 0, 0))
sender.send(b'x')
receiver.recv(10)
receiver.setsockopt(socket.SOL_SOCKET, 26, struct.pack('HL', 1, ctypes.addressof(program)))
for _ in range(10):
    sender.send(b'x')
drops = [line.split()[-1] for line in open('/proc/thread-self/net/udp') if ':' in line]
print(max(map(int, drops)))
",
    );
    let report = stat.finish();
    assert_eq!(printed.trim(), "10");
    let reasons = json!({"SOCKET_FILTER": 10});
    assert_eq!(report["rx"]["drop_reasons"], reasons, "{report}");
}

/// `Udp: RcvbufErrors` of /proc/net/snmp counts the same.
#[test]
fn datagrams_dropped_by_a_full_receive_buffer_are_counted() {
    let host = Host::new("udp").unwrap();
    let stat = Stat::start(&["--netns", host.netns_name(), "udp"]);
    let printed = run(
        &host,
        r"
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
for _ in range(50):
    sender.send(b'x' * 500)
receiver.setblocking(False)
read = 0
try:
    while receiver.recv(1000):
        read += 1
except BlockingIOError:
    pass
names, values = [line.split() for line in open('/proc/thread-self/net/snmp') if line.startswith('Udp:')]
print(read, dict(zip(names, values))['RcvbufErrors'])
",
    );
    let report = stat.finish();
    let counts: Vec<u64> = printed
        .split_whitespace()
        .map(|count| count.parse().unwrap())
        .collect();
    assert!(counts[1] > 0, "nothing was dropped: {printed}");
    assert_eq!(counts[0] + counts[1], 50);
    assert_eq!(number(&report["rx"]["drops"]), counts[1], "{report}");
    if tells_reasons() {
        let reasons = json!({"SOCKET_RCVBUFF": counts[1]});
        assert_eq!(report["rx"]["drop_reasons"], reasons, "{report}");
    }
    assert_eq!(number(&report["rx"]["messages"]), counts[0], "{report}");
    assert_eq!(
        number(&report["rx"]["total"]["count"]),
        counts[0],
        "{report}"
    );
    assert_eq!(number(&report["tx"]["messages"]), 50, "{report}");
}
