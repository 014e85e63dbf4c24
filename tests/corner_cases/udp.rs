//! Datagrams that are not sent or read in the ordinary way.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testbed::{Family, Host, Link, PATIENCE, within_attempts};
use with::{Stat, Trace, in_short, number, of_direction, plan, skip, stage};

/// The beginning of all programs below: a receiver, and a sender that is connected to it.
const PRELUDE: &str = r"
import socket, sys, threading, time
UDP, CORK, SEGMENT, GRO = 17, 1, 103, 104  # include/uapi/linux/udp.h

def bound(address='127.0.0.1'):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((address, 0))
    return s

def pair():
    receiver, sender = bound(), bound()
    sender.connect(receiver.getsockname())
    return receiver, sender

receiver, sender = pair()
";

fn run(host: &Host, program: &str) -> String {
    let process = host
        .spawn("python3", &["-c", &format!("{PRELUDE}{program}")])
        .unwrap();
    process.wait(PATIENCE).unwrap()
}

/// Run a program in a host of its own under `trace`.
fn trace(program: &str) -> Vec<Value> {
    let host = Host::new("udp").unwrap();
    let trace = Trace::start(&["--netns", host.netns_name(), "udp"]);
    run(&host, program);
    trace.finish()
}

/// Bytes and verdicts of a direction.
fn outline<'a>(messages: &'a [Value], direction: &str) -> Vec<(u64, &'a str)> {
    let messages = of_direction(messages, direction).into_iter();
    messages
        .map(|message| {
            (
                number(&message["bytes"]),
                message["verdict"].as_str().unwrap(),
            )
        })
        .collect()
}

fn valid<const N: usize>(bytes: [u64; N]) -> Vec<(u64, &'static str)> {
    bytes.map(|bytes| (bytes, "valid")).into()
}

#[test]
fn slow_keeps_only_datagrams_that_took_longer() {
    let host = Host::new("udp").unwrap();
    within_attempts(|| {
        let trace = Trace::start(&["--netns", host.netns_name(), "--slow", "40ms", "udp"]);
        run(
            &host,
            "
for size, wait in ((10, 0), (20, 0.05)):
    sender.send(bytes(size))
    time.sleep(wait)
    receiver.recv(100)
",
        );
        let messages = trace.finish();
        let slow = |message: &Value| message["total_ns"].as_u64() >= Some(40_000_000);
        assert!(messages.iter().all(slow), "{messages:?}");
        let (sent, read) = (outline(&messages, "tx"), outline(&messages, "rx"));
        assert!(read.ends_with(&valid([20])), "{read:?}");
        match sent.is_empty() && read.len() == 1 {
            true => Ok(()),
            false => Err(format!("others were slow, too: {messages:?}")),
        }
    });
}

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

/// sendmmsg(2) and recvmmsg(2), which Python lacks: a number of datagrams of equal size in one
/// call.
const MANY: &str = r"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)

class iovec(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]

class msghdr(ctypes.Structure):
    _fields_ = [('name', ctypes.c_void_p), ('namelen', ctypes.c_uint), ('iov', ctypes.POINTER(iovec)),
                ('iovlen', ctypes.c_size_t), ('control', ctypes.c_void_p), ('controllen', ctypes.c_size_t),
                ('flags', ctypes.c_int)]

class mmsghdr(ctypes.Structure):
    _fields_ = [('hdr', msghdr), ('len', ctypes.c_uint)]

def many(call, s, count, size):
    buffer = ctypes.create_string_buffer(size)
    part = iovec(ctypes.addressof(buffer), size)
    headers = (mmsghdr * count)()
    for header in headers:
        header.hdr.iov, header.hdr.iovlen = ctypes.pointer(part), 1
    done = call(s.fileno(), headers, count, 0, None) if call is libc.recvmmsg else call(s.fileno(), headers, count, 0)
    assert done == count, (done, ctypes.get_errno())
";

/// Send and read like QUIC: bursts, with many datagrams per call. Each is a message.
#[test]
fn each_datagram_of_a_burst_is_a_message() {
    let program = r"
for _ in range(10):
    many(libc.sendmmsg, sender, 20, 1200)
    many(libc.recvmmsg, receiver, 20, 1200)
    time.sleep(.01)
";
    let messages = trace(&format!("{MANY}{program}"));
    for direction in ["tx", "rx"] {
        assert_eq!(
            outline(&messages, direction),
            vec![(1200, "valid"); 200],
            "{direction}"
        );
    }
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

/// A datagram in fragments ends with the last of them; the parts of one that the receiver does not
/// take whole (UDP_SEGMENT) are datagrams of their own there.
#[test]
fn fragments_and_segments_belong_to_their_send() {
    let messages = trace(
        r"
import subprocess
subprocess.run('ip link set lo mtu 1500', shell=True, check=True)
sender.send(b'f' * 5000)
receiver.recv(10000)
sender.setsockopt(UDP, SEGMENT, 1000)
sender.send(b's' * 2500)
for _ in range(3):
    receiver.recv(10000)
receiver.setsockopt(UDP, GRO, 1)
sender.send(b'g' * 3500)
receiver.recv(10000)
",
    );
    assert_eq!(outline(&messages, "tx"), valid([5000, 2500, 3500]));
    assert_eq!(
        outline(&messages, "rx"),
        valid([5000, 1000, 1000, 500, 3500])
    );
    let fragments = &of_direction(&messages, "tx")[0]["stamps"];
    assert!(
        number(&fragments["sched"]) < number(&fragments["sched_last"]),
        "{fragments}"
    );
    assert!(
        number(&fragments["sched_last"]) < number(&fragments["snd"]),
        "{fragments}"
    );
}

/// Options of IPv6 lie before the header of a fragment.
#[test]
fn fragments_behind_options_belong_to_their_send() {
    let messages = trace(
        r"
import subprocess
subprocess.run('ip link set lo mtu 1500', shell=True, check=True)
padding = bytes([0, 0, 1, 4, 0, 0, 0, 0])
taker = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
taker.bind(('::1', 0))
HOP, DESTINATION = socket.IPV6_HOPOPTS, socket.IPV6_DSTOPTS
for number, options in enumerate([[], [HOP], [DESTINATION], [HOP, DESTINATION]]):
    asker = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    for option in options:
        asker.setsockopt(socket.IPPROTO_IPV6, option, padding)
    asker.connect(taker.getsockname())
    asker.send(b'o' * (5000 + number))
    taker.recv(10000)
",
    );
    assert_eq!(outline(&messages, "tx"), valid([5000, 5001, 5002, 5003]));
    for sent in of_direction(&messages, "tx") {
        let stamps = &sent["stamps"];
        let [first, last, snd] = ["sched", "sched_last", "snd"].map(|stamp| number(&stamps[stamp]));
        assert!(first < last && last < snd, "{sent}");
    }
}

/// Bytes that wait for later ones leave with them, however they are let go.
#[test]
fn corked_sends_share_a_datagram() {
    let messages = trace(
        r"
sender.send(b'x' * 10, socket.MSG_MORE)
time.sleep(.02)
sender.send(b'x' * 20)
receiver.recv(100)
sender.setsockopt(UDP, CORK, 1)
sender.send(b'x' * 30)
sender.setsockopt(UDP, CORK, 0)
sender.send(b'x' * 40)
receiver.recv(100)
receiver.recv(100)
",
    );
    let sent = of_direction(&messages, "tx");
    let coalesced: Vec<_> = sent
        .iter()
        .map(|message| {
            (
                number(&message["bytes"]),
                message["coalesced"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        coalesced,
        [(10, true), (20, false), (30, true), (40, false)]
    );
    assert!(
        sent.iter().all(|message| message["verdict"] == "valid"),
        "{sent:?}"
    );
    assert_eq!(sent[0]["stamps"]["snd_last"], sent[1]["stamps"]["snd_last"]);
    assert_eq!(outline(&messages, "rx"), valid([30, 30, 40]));
}

/// Without a peer of its socket, a corked send has that of the bytes it adds to.
#[test]
fn corked_sends_of_a_socket_without_a_peer_are_in_their_filter() {
    let host = Host::new("udp").unwrap();
    let stat = Stat::start(&["--netns", host.netns_name(), "udp and dst port 9777"]);
    run(
        &host,
        r"
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    taker = socket.socket(family, socket.SOCK_DGRAM)
    taker.bind((address, 9777))
    giver = socket.socket(family, socket.SOCK_DGRAM)
    for _ in range(10):
        for more in (socket.MSG_MORE, socket.MSG_MORE, 0):
            giver.sendto(b'x' * 100, more, (address, 9777))
        taker.recv(1000)
",
    );
    let report = stat.finish();
    assert_eq!(number(&report["tx"]["messages"]), 60, "{report}");
    assert_eq!(number(&report["tx"]["bytes"]), 6000, "{report}");
    assert_eq!(number(&report["verdicts"]["valid"]), 80, "{report}");
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
    assert_eq!(number(&report["rx"]["messages"]), counts[0], "{report}");
    assert_eq!(
        number(&report["rx"]["total"]["count"]),
        counts[0],
        "{report}"
    );
    assert_eq!(number(&report["tx"]["messages"]), 50, "{report}");
}

/// In a token bucket each datagram waits 10 ms longer than the one before; a short queue drops.
#[test]
fn waits_and_drops_in_the_packet_scheduler_are_seen() {
    within_attempts(shaped_and_dropped);
}

fn shaped_and_dropped() -> Result<(), String> {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let (from, to) = (link.address_a(Family::V4), link.address_b(Family::V4));
    let device = link.interface_a();
    let trace = Trace::start(&["--netns", a.netns_name(), "udp"]);
    // Only ICMP answers for an unused port, which an unconnected sender does not receive. The first
    // ones bring the programs that follow datagrams, and are missed until these are attached; so do
    // those after tc(8), which may take long enough for the programs to go.
    run(
        &a,
        &format!(
            r"
import subprocess
def shape(what):
    subprocess.run('tc qdisc replace dev {device} root tbf burst 2kb ' + what, shell=True, check=True)

def begin(count):
    for _ in range(count):
        sender.sendto(b'x', ('{to}', 9))
        time.sleep(.05)

sender = bound('{from}')
begin(40)
shape('rate 1mbit limit 1mb')
begin(15)
for _ in range(20):
    sender.sendto(b'x' * 1208, ('{to}', 9))
time.sleep(.4)
shape('rate 100kbit limit 4kb')
begin(15)
for _ in range(20):
    sender.sendto(b'x' * 1207, ('{to}', 9))
time.sleep(.6)
"
        ),
    );
    trace.wait_for_text(r#""bytes":1207"#, 20);
    let messages = trace.finish();
    let sent = of_direction(&messages, "tx");
    let of_size = |bytes: u64| sent.iter().filter(move |sent| sent["bytes"] == bytes);
    let [first, last] = [1208, 1207].map(|bytes| of_size(bytes).count());
    assert_eq!([first, last], [20, 20]);
    let shaped: Vec<(u64, u64)> = (0..)
        .zip(of_size(1208))
        .filter(|(_, message)| message["verdict"] == "valid")
        .map(|(place, message)| (place, number(&message["stages"]["tx.qdisc"])))
        .collect();
    assert!(shaped.len() >= 19, "{shaped:?}");
    // 1250 bytes with their headers at 1 Mbit/s. One that is refused has left in its turn.
    for pair in shaped.windows(2).skip(3) {
        let ((before, shorter), (place, longer)) = (pair[0], pair[1]);
        let step = longer.saturating_sub(shorter) / (place - before);
        if !(9_000_000..11_000_000).contains(&step) {
            return Err(format!("a step is {step} ns: {shaped:?}"));
        }
    }
    let dropped = of_size(1207)
        .filter(|message| message["verdict"] == "dropped")
        .count();
    // A packet leaves each 100 ms, however long it takes to send them.
    match dropped >= 15 {
        true => Ok(()),
        false => Err(format!("{dropped} of 20 dropped")),
    }
}

/// Unmeasured messages wait in the packet scheduler too: no message may end with one of their
/// packets.
#[test]
fn a_message_does_not_end_with_a_packet_of_another() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let [from, to] = [link.address_a(Family::V4), link.address_b(Family::V4)];
    let program = format!(
        r"
import subprocess
subprocess.run('tc qdisc replace dev {} root tbf burst 2kb rate 1mbit limit 1mb', shell=True, check=True)
sender = bound('{from}')
sender.connect(('{to}', 9))
sender.send(b'x')
time.sleep(.2)
def send(count, size):
    for _ in range(count):
        try:
            sender.send(b'x' * size)
        except ConnectionRefusedError:
            sender.send(b'x' * size)
    time.sleep(.8)
",
        link.interface_a()
    );
    let measure = |option: &str, what: &str| {
        let stat = Stat::sampled(option, &["--netns", a.netns_name(), "udp"]);
        run(&a, &format!("{program}{what}"));
        let report = stat.finish();
        println!("{}", in_short(&report));
        report
    };

    // Each waits 10 ms longer than the one before.
    let whole = measure("--sample=1/4", "send(60, 1208)");
    assert_eq!(number(&whole["tx"]["messages"]), 61);
    assert!(stage(&whole, "tx.qdisc", "p50_ns") > 150_000_000, "{whole}");
    assert!(stage(&whole, "tx.qdisc", "max_ns") > 400_000_000, "{whole}");

    // The token bucket takes these apart (tbf_segment()), each waits 25 ms longer.
    for option in ["--every", "--sample=1/4"] {
        let report = measure(
            option,
            "sender.setsockopt(UDP, SEGMENT, 1000)\nsend(20, 3000)",
        );
        assert_eq!(number(&report["tx"]["messages"]), 21);
        assert!(
            stage(&report, "tx.qdisc", "p50_ns") > 150_000_000,
            "{report}"
        );
        assert!(
            stage(&report, "tx.qdisc", "max_ns") > 350_000_000,
            "{report}"
        );
        assert!(report["verdicts"]["no-snd-stamp"].is_null(), "{report}");
    }
}

/// Packets leave a token bucket in softirq, on top of whatever runs. A program that one of them
/// interrupts does not run for it, and no later packet shows it.
#[test]
fn every_message_behind_a_token_bucket_ends_though_its_socket_sends_no_more() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let device = link.interface_a();
    let [from, to] = [link.address_a(Family::V4), link.address_b(Family::V4)];
    let stat = Stat::start(&["--netns", a.netns_name(), "udp"]);
    run(
        &a,
        &format!(
            r"
import subprocess, threading
subprocess.run('tc qdisc replace dev {device} root tbf burst 20kb rate 200mbit limit 10mb', shell=True, check=True)
def send(count):
    sender = bound('{from}')
    for number in range(count):
        sender.sendto(b'x' * 500, ('{to}', 9))
        if number % 20 == 19:
            time.sleep(.001)
    senders.append(sender)
senders = []
threads = [threading.Thread(target=send, args=(1500,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
time.sleep(4)
"
        ),
    );
    let report = stat.finish();
    println!("{}", in_short(&report));
    assert_eq!(number(&report["tx"]["messages"]), 6000, "{report}");
    assert_eq!(number(&report["verdicts"]["in-flight"]), 0, "{report}");
}

/// Without pages that they share with the packet that they were made of, segments are not known
/// when they leave, so the end of their message is never seen.
#[test]
fn a_message_that_leaves_unseen_is_given_up_though_its_socket_sends_no_more() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let [from, to] = [link.address_a(Family::V4), link.address_b(Family::V4)];
    let device = link.interface_a();
    let stat = Stat::start(&["--netns", a.netns_name(), "udp"]);
    run(
        &a,
        &format!(
            r"
import ctypes, fcntl, struct
SIOCETHTOOL, ETHTOOL_SSG = 0x8946, 0x19  # scatter and gather: include/uapi/linux/ethtool.h
off = (ctypes.c_uint * 2)(ETHTOOL_SSG, 0)
fcntl.ioctl(sender, SIOCETHTOOL, struct.pack('16sP', b'{device}', ctypes.addressof(off)))
sender = bound('{from}')
sender.sendto(b'x', ('{to}', 9))
time.sleep(.2)
sender.setsockopt(UDP, SEGMENT, 1000)
sender.sendto(b'x' * 3000, ('{to}', 9))
time.sleep(5)
"
        ),
    );
    let report = stat.finish();
    println!("{}", in_short(&report));
    let verdicts = &report["verdicts"];
    assert_eq!(number(&report["tx"]["messages"]), 2, "{report}");
    assert_eq!(number(&verdicts["valid"]), 1, "{report}");
    assert_eq!(number(&verdicts["no-snd-stamp"]), 1, "{report}");
    assert_eq!(number(&verdicts["in-flight"]), 0, "{report}");
}

#[test]
fn neither_protocol_is_counted_with_the_other() {
    let host = Host::new("udp").unwrap();
    let stats =
        ["tcp", "udp"].map(|protocol| Stat::start(&["--netns", host.netns_name(), protocol]));
    run(
        &host,
        r"
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
for _ in range(50):
    client.send(b't' * 500)
    for _ in range(2):
        sender.send(b'u' * 70)
    server.recv(500, socket.MSG_WAITALL)
    for _ in range(2):
        receiver.recv(100)
",
    );
    let [tcp, udp] = stats.map(Stat::finish);
    for direction in ["tx", "rx"] {
        let counts =
            |report: &Value| ["messages", "bytes"].map(|name| number(&report[direction][name]));
        assert_eq!(counts(&tcp), [50, 25_000], "{direction}: {tcp}");
        assert_eq!(counts(&udp), [100, 7_000], "{direction}: {udp}");
    }
}
