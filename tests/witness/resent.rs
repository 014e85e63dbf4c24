//! Segments that TCP sent again although the network lost nothing, against the counters of the
//! kernel and of the link.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;
use testbed::{Family, LinkConfig, within_attempts};
use with::kernel_counts::wait_closed;
use with::pair::Pair;
use with::qdisc::kernel_counter;
use with::{Stat, Trace, in_short, number, wait_until};

const DELAY: Duration = Duration::from_millis(5);

fn resent(report: &Value, why: &str) -> u64 {
    number(&report["tx"]["resent"][why])
}

/// No packet was lost, by the link.
fn nothing_lost(pair: &Pair) {
    let link = pair.link.statistics();
    assert_eq!((link.a_to_b.lost, link.b_to_a.lost), (0, 0));
}

/// The path becomes longer than TCP expects: it probes, and the first ones arrive all the same.
#[test]
fn probes_that_a_peer_reports_as_duplicates_are_no_loss() {
    const CONNECTIONS: usize = 8;
    let pair = Pair::relay(LinkConfig::default().delay(DELAY), Family::V4);
    let client = &pair.client;
    let _sink = pair.serve(&["sink"]);
    let stat = Stat::start(&["--netns", client.netns_name(), "tcp"]);
    let connect = |_| {
        let connection = client.tcp_connect(pair.address).unwrap();
        connection.set_nodelay(true).unwrap();
        connection
    };
    let mut connections: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
    for _ in 0..4 {
        connections
            .iter_mut()
            .for_each(|connection| connection.write_all(&[1; 100]).unwrap());
        thread::sleep(4 * DELAY);
    }
    let config = LinkConfig::default().delay(24 * DELAY);
    pair.link.set_config(config).unwrap();
    for connection in &mut connections {
        connection.write_all(&[1; 100]).unwrap();
        connection.write_all(&[1; 100]).unwrap();
    }
    let counted = |name: &str| kernel_counter(client, name);
    wait_until("all duplicates are reported", || {
        let resent = counted("TcpRetransSegs");
        resent > 0 && counted("TcpExtTCPDSACKRecvSegs") == resent
    });
    drop(connections);
    wait_closed(client);
    let report = stat.finish();
    println!("{}", in_short(&report));
    nothing_lost(&pair);
    assert_eq!(
        number(&report["tx"]["retransmits"]),
        counted("TcpRetransSegs"),
        "{report}"
    );
    let probes = counted("TcpExtTCPLossProbes");
    assert!(probes > 0);
    assert_eq!(resent(&report, "probes"), probes, "{report}");
    assert_eq!(
        resent(&report, "needless"),
        counted("TcpExtTCPDSACKRecvSegs"),
        "{report}"
    );
    assert_eq!(resent(&report, "syns"), 0, "{report}");
}

/// The reader's window closes on data in flight, which it drops: TCP takes that for a loss.
#[test]
fn a_closed_window_is_the_peers_and_no_loss() {
    within_attempts(closed_window);
}

fn closed_window() -> Result<(), String> {
    let pair = Pair::relay(LinkConfig::default().delay(DELAY), Family::V4);
    let client = &pair.client;
    let stat = Stat::start(&["--netns", client.netns_name(), "tcp"]);
    let at = SocketAddr::new(pair.address.ip(), 0);
    let listener = pair.server.tcp_listen(at).unwrap();
    let mut sender = client.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (reader, _) = listener.accept().unwrap();
    SockRef::from(&reader).set_recv_buffer_size(4096).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for length in (400..1200).cycle().step_by(7).take(100) {
                sender.write_all(&vec![1; length]).unwrap();
                thread::sleep(DELAY);
            }
            drop(sender);
        });
        thread::sleep(Duration::from_millis(1500));
        wait_until("the window has closed on data", || {
            kernel_counter(client, "TcpRetransSegs") > 0
        });
        std::io::copy(&mut &reader, &mut std::io::sink()).unwrap();
    });
    drop(reader);
    wait_closed(client);
    let report = stat.finish();
    println!("{}", in_short(&report));
    nothing_lost(&pair);
    let resents = kernel_counter(client, "TcpRetransSegs");
    assert_eq!(number(&report["tx"]["retransmits"]), resents, "{report}");
    // A tail loss probe follows where the machine stands still for longer than TCP expects an
    // answer.
    let by_window = resent(&report, "window");
    assert!(by_window > 0, "{report}");
    assert_eq!(by_window + resent(&report, "probes"), resents, "{report}");
    let part = |name: &str| number(&report["tx"]["parts"]["tx.queue"][name]["sum_ns"]);
    let waited = number(&report["tx"]["stages"]["tx.queue"]["sum_ns"]);
    assert_eq!(part("retransmit"), 0, "{report}");
    match waited > 1_000_000_000 && part("rwnd") * 10 >= waited * 9 {
        true => Ok(()),
        false => Err(report.to_string()),
    }
}

/// The answer to the first SYN comes after the second was sent, which the wire shows.
#[test]
fn a_syn_that_is_answered_late_is_not_lost() {
    let pair = Pair::relay(
        LinkConfig::default().delay(Duration::from_millis(600)),
        Family::V4,
    );
    let client = &pair.client;
    let trace = Trace::start(&["--netns", client.netns_name(), "tcp"]);
    let at = SocketAddr::new(pair.address.ip(), 0);
    let listener = pair.server.tcp_listen(at).unwrap();
    let connection = client.tcp_connect(listener.local_addr().unwrap()).unwrap();
    drop((connection, listener));
    let connections = trace.finish_connections();
    nothing_lost(&pair);
    let [connection] = &connections[..] else {
        panic!("{connections:?}");
    };
    assert_eq!(number(&connection["retransmits"]), 1, "{connection}");
    assert_eq!(kernel_counter(client, "TcpExtTCPSynRetrans"), 1);
    let handshake = number(&connection["stages"]["conn.handshake"]);
    let parts = &connection["parts"]["conn.handshake"];
    assert!(parts["syn-again"].is_null(), "{connection}");
    assert_eq!(number(&parts["round-trip"]), handshake, "{connection}");
    assert!(handshake >= 1_200_000_000, "{connection}");
}
