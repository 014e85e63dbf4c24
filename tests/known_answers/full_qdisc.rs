//! A UDP flow fills a packet scheduler of 10 Mbit/s: what a TCP request waits there is the backlog
//! in front of it divided by the rate.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testbed::{Family, Host, Link, PATIENCE, within_attempts};
use with::{Stat, Trace, in_short, number, of_direction, peer, stage};

use crate::support::{median_within, ms, over_both_families, within};

over_both_families!(check);

const RATE_BITS: u64 = 10_000_000;
const REQUESTS: u64 = 30;
/// Bytes of a datagram: fills an Ethernet frame except for the headers of IPv6 and UDP.
const PAYLOAD: usize = 1400;

fn check(family: Family) {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::veth(&client, &server).unwrap();
    let device = link.interface_a();
    let tbf = [
        "root", "tbf", "rate", "10mbit", "burst", "10kb", "limit", "1mb",
    ];
    client
        .run("tc", &[&["qdisc", "add", "dev", device], &tbf[..]].concat())
        .unwrap();
    let address = SocketAddr::new(link.address_b(family), 7000);
    let _serve = server.spawn(peer(), &["serve", "--port", "7000"]).unwrap();
    server.wait_for_port(address, PATIENCE).unwrap();
    // Read what arrives, so the server's kernel does not answer with ICMP.
    let receiver = server.udp_bind(SocketAddr::new(address.ip(), 0)).unwrap();
    let sender = client
        .udp_bind(SocketAddr::new(link.address_a(family), 0))
        .unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    with_full_queue(&sender, || {
        within_attempts(|| measure(&client, device, address));
    });
}

/// Keep the send buffer of a UDP socket full while `f` runs. What it has sent is in the packet
/// scheduler, so the backlog there stays the same to a packet or two.
///
/// A sender that blocks would be woken only when half of it is free: `sock_def_write_space()`,
/// net/core/sock.c.
pub(crate) fn with_full_queue(sender: &UdpSocket, f: impl FnOnce()) {
    sender.set_nonblocking(true).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                while sender.send(&[0; PAYLOAD]).is_ok() {}
                thread::sleep(Duration::from_micros(500));
            }
        });
        let _stop = SetOnDrop(&done);
        thread::sleep(Duration::from_millis(100));
        f();
    });
}

/// Also where a test panics: the thread would keep it from ending.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn measure(client: &Host, device: &str, address: SocketAddr) -> Result<(), String> {
    // Not what fills the queue: that is this process.
    let target = ["--netns", client.netns_name(), "--comm", "testbed-peer"];
    let (stat, trace) = (Stat::start(&target), Trace::start(&target));
    let wait = wait_of_requests(client, address, REQUESTS, || backlog_bytes(client, device));
    let (messages, report) = (trace.finish(), stat.finish());
    println!("{}; wait {wait}", in_short(&report));

    let sent = of_direction(&messages, "tx");
    assert_eq!(sent.len() as u64, REQUESTS, "one send per request");
    assert_eq!(report["tx"]["retransmits"], 0, "{report}");
    median_within(
        "tx.qdisc",
        &sent,
        &report,
        wait - wait / 10..=wait + wait / 10,
    )?;
    for name in ["tx.copy", "tx.queue", "tx.network", "rx.stack", "rx.app"] {
        within(
            format!("p50 of {name}"),
            stage(&report, name, "p50_ns"),
            0..=ms(1),
        )?;
    }
    Ok(())
}

/// Send requests over the full queue; return what each waits there.
pub(crate) fn wait_of_requests(
    client: &Host,
    server: SocketAddr,
    count: u64,
    backlog: impl Fn() -> u64,
) -> u64 {
    let (server, count) = (server.to_string(), count.to_string());
    let arguments = ["client", "--connect", &server, "--count", &count];
    let mut flow = client.spawn(peer(), &arguments).unwrap();
    let mut backlogs = Vec::new();
    while flow.is_running().unwrap() {
        backlogs.push(backlog());
        thread::sleep(Duration::from_millis(20));
    }
    flow.wait(PATIENCE).unwrap();
    wait_behind(backlogs)
}

/// Return the time that the median backlog takes to leave.
pub(crate) fn wait_behind(mut backlogs: Vec<u64>) -> u64 {
    backlogs.sort_unstable();
    let wait = backlogs[backlogs.len() / 2] * 8 * 1_000_000_000 / RATE_BITS;
    assert!(wait > ms(50), "the queue is not full: {backlogs:?}");
    wait
}

pub(crate) fn backlog_bytes(host: &Host, device: &str) -> u64 {
    let text = host
        .run("tc", &["-s", "-j", "qdisc", "show", "dev", device])
        .unwrap();
    let qdiscs: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    number(&qdiscs[0]["backlog"])
}
