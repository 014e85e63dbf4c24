//! Calls that send and read in another way: many at once, in parts, corked.

use serde_json::Value;
use testbed::{Host, within_attempts};
use with::{Stat, Trace, number, of_direction};

use super::{outline, run, trace, valid};

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
