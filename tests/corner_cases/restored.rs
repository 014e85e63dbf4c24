//! Connections that are restored (TCP_REPAIR, as CRIU does): connect(2) opens them without a SYN.

use with::Trace;
use with::traced_hosts::{Loopback, outline, pause};

/// Restores both ends of a connection, and sends one message each way: names of
/// include/uapi/linux/tcp.h. Without the windows of before, sends wait for probes of them.
const RESTORE: &str = r#"
import socket
REPAIR, QUEUE, SEQ, RECEIVED, SENT = 19, 20, 21, 1, 2
def restore(port, peer, sent, received):
    end = socket.socket()
    end.setsockopt(socket.IPPROTO_TCP, REPAIR, 1)
    end.bind(("127.0.0.1", port))
    for queue, number in ((SENT, sent), (RECEIVED, received)):
        end.setsockopt(socket.IPPROTO_TCP, QUEUE, queue)
        end.setsockopt(socket.IPPROTO_TCP, SEQ, number)
    end.connect(("127.0.0.1", peer))
    return end
a, b = restore(7001, 7002, 1000, 5000), restore(7002, 7001, 5000, 1000)
for end in (a, b): end.setsockopt(socket.IPPROTO_TCP, REPAIR, 0)
a.send(bytes(100)); b.recv(100, socket.MSG_WAITALL)
b.send(bytes(200)); a.recv(200, socket.MSG_WAITALL)
segments = open("/proc/net/snmp").read().split("Tcp:")[2].split()
print("opens", segments[4], segments[5])
"#;

/// The witness is the kernel's count of opened connections. Nothing tells which end asks.
#[test]
fn a_restored_connection_has_no_handshake() {
    let setup = Loopback::new();
    let connections = Trace::start(&["--netns", setup.host.netns_name()]);
    let printed = setup.host.run("python3", &["-c", RESTORE]).unwrap();
    assert_eq!(printed.trim(), "opens 0 0");
    pause();

    let opened = connections.finish_connections();
    assert!(opened.is_empty(), "{opened:?}");
    let messages = setup.finish();
    let (a, b) = (
        "127.0.0.1:7001".parse().unwrap(),
        "127.0.0.1:7002".parse().unwrap(),
    );
    messages.assert_answered(b, 100, 200);
    let read = messages.read_at(a);
    assert_eq!(outline(&read), [(200, "valid")]);
    assert!(!read[0].has_stage("peer.answer"), "{read:?}");
}
