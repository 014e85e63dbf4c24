//! A UDP flow that keeps a packet scheduler of 10 Mbit/s full.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testbed::{Host, PATIENCE};

use crate::expected::ms;
use crate::{number, peer, wait_until};

const RATE_BITS: u64 = 10_000_000;

/// Bytes of a datagram: fills an Ethernet frame except for the headers of IPv6 and UDP.
const PAYLOAD: usize = 1400;

/// Keep the send buffer of a UDP socket full while `f` runs. What it has sent is in the packet
/// scheduler, so the backlog there stays the same to a packet or two.
///
/// A sender that blocks would be woken only when half of it is free: `sock_def_write_space()`,
/// net/core/sock.c.
pub fn with_full_queue(sender: &UdpSocket, f: impl FnOnce()) {
    sender.set_nonblocking(true).unwrap();
    let [full, done] = [(); 2].map(|()| AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                while sender.send(&[0; PAYLOAD]).is_ok() {}
                full.store(true, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(500));
            }
        });
        let _stop = SetOnDrop(&done);
        wait_until("the queue is full", || full.load(Ordering::Relaxed));
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

/// Send requests over the full queue; return what each waits there.
pub fn wait_of_requests(
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
pub fn wait_behind(mut backlogs: Vec<u64>) -> u64 {
    backlogs.sort_unstable();
    let wait = backlogs[backlogs.len() / 2] * 8 * 1_000_000_000 / RATE_BITS;
    assert!(wait > ms(50), "the queue is not full: {backlogs:?}");
    wait
}

pub fn backlog_bytes(host: &Host, device: &str) -> u64 {
    let text = host
        .run("tc", &["-s", "-j", "qdisc", "show", "dev", device])
        .unwrap();
    let qdiscs: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    number(&qdiscs[0]["backlog"])
}
