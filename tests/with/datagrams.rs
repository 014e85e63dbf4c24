//! Numbered datagrams, the calls that sent and read them, and the comparison of messages with both.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::{Range, RangeInclusive};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::guarded::Guarded;
use crate::{Trace, number, of_direction};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use testbed::{Family, Host, Link, LinkConfig, PATIENCE, Stolen, Uplink};

use crate::capture::{Capture, Packet};
use crate::clock::now;

/// Largest difference of a time from its witness: whichever is more.
const SLACK_NS: u64 = 1_000_000;
const SLACK_PERCENT: u64 = 5;
/// Smallest share of valid messages.
const VALID_PERCENT: usize = 95;
/// Bytes at the beginning of a datagram with its number.
pub const NUMBER_BYTES: usize = 8;
/// A reader that receives nothing for this long has everything.
pub const SILENCE: Duration = Duration::from_secs(1);

/// One call, or one datagram of a call that takes many.
#[derive(Clone, Debug)]
pub struct Call {
    pub local: SocketAddr,
    pub number: u64,
    /// The number that its packet begins with: another one where a packet carries many datagrams.
    pub packet: u64,
    pub bytes: u64,
    pub begun: u64,
    pub ended: u64,
}

/// The connection between both hosts.
pub enum Between {
    Link(Box<Link>),
    /// Host a is a container of this host.
    Uplink(Host, Box<Uplink>),
}

impl Between {
    pub fn address_a(&self, family: Family) -> IpAddr {
        match self {
            Between::Link(link) => link.address_a(family),
            Between::Uplink(_, uplink) => uplink.container_address(family),
        }
    }

    pub fn address_b(&self, family: Family) -> IpAddr {
        match self {
            Between::Link(link) => link.address_b(family),
            Between::Uplink(_, uplink) => uplink.peer_address(family),
        }
    }

    /// Return the last device that sockstamp may follow a packet of host a to.
    pub fn last_device<'a>(&'a self, a: &'a Host) -> (&'a Host, &'a str) {
        match self {
            Between::Link(link) => (a, link.interface_a()),
            Between::Uplink(host, uplink) => (host, uplink.uplink_interface()),
        }
    }

    fn interface_b(&self) -> &str {
        match self {
            Between::Link(link) => link.interface_b(),
            Between::Uplink(_, uplink) => uplink.peer_interface(),
        }
    }
}

/// Two hosts on a way that is captured at both ends, while every message of this process is
/// traced.
pub struct WatchedLink {
    pub a: Host,
    pub b: Host,
    pub link: Between,
    guarded: Guarded,
    stolen: Stolen,
    captures: [Capture; 2],
    trace: Trace,
    sent: Mutex<Vec<Call>>,
    read: Mutex<Vec<Call>>,
}

impl WatchedLink {
    pub fn veth() -> WatchedLink {
        WatchedLink::on(Link::veth)
    }

    pub fn relay(config: LinkConfig) -> WatchedLink {
        WatchedLink::on(|a, b| Link::relay(a, b, config))
    }

    fn on(link: impl FnOnce(&Host, &Host) -> testbed::Result<Link>) -> WatchedLink {
        let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
        let link = link(&a, &b).unwrap();
        WatchedLink::between(a, b, link)
    }

    /// Create it from an existing pair.
    pub fn between(a: Host, b: Host, link: Link) -> WatchedLink {
        WatchedLink::traced(a, b, link, &[])
    }

    /// Create it from an existing pair, with further options of `trace`.
    pub fn traced(a: Host, b: Host, link: Link, options: &[&str]) -> WatchedLink {
        WatchedLink::watched(a, b, Between::Link(Box::new(link)), options)
    }

    /// Create a container and a peer of its host, with further options of `trace`.
    pub fn uplink(
        build: fn(&Host, &Host, &Host) -> testbed::Result<Uplink>,
        options: &[&str],
    ) -> WatchedLink {
        let [a, host, b] = ["container", "host", "peer"].map(|name| Host::new(name).unwrap());
        let uplink = build(&a, &host, &b).unwrap();
        WatchedLink::watched(a, b, Between::Uplink(host, Box::new(uplink)), options)
    }

    fn watched(a: Host, b: Host, link: Between, options: &[&str]) -> WatchedLink {
        let (host, device) = link.last_device(&a);
        let guarded = Guarded::start([device, link.interface_b()]);
        let captures = [
            Capture::start(host, device, "udp"),
            Capture::start(&b, link.interface_b(), "udp"),
        ];
        let pid = std::process::id().to_string();
        let trace = Trace::start(&[options, &["--pid", &pid, "udp"]].concat());
        WatchedLink {
            a,
            b,
            link,
            guarded,
            stolen: Stolen::begin(),
            captures,
            trace,
            sent: Mutex::default(),
            read: Mutex::default(),
        }
    }

    /// Put a token bucket (tc-tbf(8)) in front of the last device.
    pub fn shape(&self, bucket: &str) {
        let (host, device) = self.link.last_device(&self.a);
        let words = format!("qdisc replace dev {device} root tbf {bucket}");
        let words: Vec<&str> = words.split_whitespace().collect();
        host.run("tc", &words).unwrap();
    }

    /// A socket of host a.
    pub fn sender(&self, family: Family) -> Socket<'_> {
        self.socket(&self.a, SocketAddr::new(self.link.address_a(family), 0))
    }

    /// A socket of host b.
    pub fn receiver(&self, family: Family) -> Socket<'_> {
        self.socket(&self.b, SocketAddr::new(self.link.address_b(family), 0))
    }

    fn socket(&self, host: &Host, address: SocketAddr) -> Socket<'_> {
        let socket = host.udp_bind(address).unwrap();
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        self.adopt(socket)
    }

    /// A socket that was made otherwise.
    pub fn adopt(&self, socket: UdpSocket) -> Socket<'_> {
        let local = socket.local_addr().unwrap();
        Socket {
            setup: self,
            socket,
            local,
        }
    }

    pub fn note_sent(&self, call: Call) {
        self.sent.lock().unwrap().push(call);
    }

    pub fn note_read(&self, call: Call) {
        self.read.lock().unwrap().push(call);
    }

    /// Wait until each send has ended. A kernel that runs no tracing program on top of some tasks
    /// misses the end of a packet that is followed, and it is given up after five seconds.
    pub fn wait_for_sends(&self) {
        let sent = self.sent.lock().unwrap().len();
        self.trace.wait_for("tx", sent);
    }

    /// End it all: what was done, seen on the wire, and measured.
    pub fn finish(self) -> Evidence {
        let messages = self.trace.finish();
        let [at_a, at_b] = self.captures.map(Capture::finish);
        Evidence {
            unseen: self.guarded.finish().count(),
            stolen: self.stolen,
            sent: self.sent.into_inner().unwrap(),
            read: self.read.into_inner().unwrap(),
            at_a,
            at_b,
            messages,
        }
    }
}

/// A socket whose calls are noted.
pub struct Socket<'hosts> {
    setup: &'hosts WatchedLink,
    pub socket: UdpSocket,
    pub local: SocketAddr,
}

impl Socket<'_> {
    /// Send datagram `number`, to `to` where the socket is not connected.
    pub fn send(&self, number: u64, bytes: usize, to: Option<SocketAddr>) {
        let data = datagram(number, bytes);
        let begun = now();
        let sent = match to {
            Some(to) => self.socket.send_to(&data, to),
            None => self.socket.send(&data),
        };
        let ended = now();
        assert_eq!(sent.unwrap(), bytes);
        self.sent(number, bytes, begun, ended);
    }

    /// Send datagrams of 1000 bytes by one call (UDP_SEGMENT). `seen` is the one that begins the
    /// packet to compare the call with.
    pub fn send_segments(&self, numbers: Range<u64>, seen: u64) {
        let data: Vec<u8> = numbers.flat_map(|number| datagram(number, 1000)).collect();
        let begun = now();
        assert_eq!(self.socket.send(&data).unwrap(), data.len());
        self.sent(seen, data.len(), begun, now());
    }

    /// Note a send that was done otherwise.
    pub fn sent(&self, number: u64, bytes: usize, begun: u64, ended: u64) {
        self.setup.note_sent(self.call(number, bytes, begun, ended));
    }

    /// Note a read that was done otherwise.
    pub fn read(&self, number: u64, bytes: usize, begun: u64, ended: u64) {
        self.setup.note_read(self.call(number, bytes, begun, ended));
    }

    fn call(&self, number: u64, bytes: usize, begun: u64, ended: u64) -> Call {
        Call {
            local: self.local,
            number,
            packet: number,
            bytes: bytes as u64,
            begun,
            ended,
        }
    }

    /// Read one datagram; none came for [`SILENCE`] if false.
    pub fn receive(&self) -> bool {
        let mut buffer = vec![0; 1 << 16];
        let begun = now();
        let read = self.socket.recv(&mut buffer);
        let ended = now();
        match read {
            Ok(bytes) => {
                self.read(number_of(&buffer[..bytes]), bytes, begun, ended);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Return when nothing waits to be read.
    pub fn wait_until_read(&self) {
        let waiting = || {
            let mut set = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            poll(&mut set, PollTimeout::ZERO).unwrap() > 0
        };
        let start = Instant::now();
        while waiting() {
            assert!(start.elapsed() < PATIENCE, "nobody reads");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Read with `pause` before each read, until nothing comes any more.
    pub fn receive_all(&self, mut pause: impl FnMut() -> Duration) {
        loop {
            thread::sleep(pause());
            if !self.receive() {
                break;
            }
        }
    }
}

/// The bytes of a datagram.
pub fn datagram(number: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    data[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
    data
}

/// Find the datagram that begins so.
pub fn number_of(data: &[u8]) -> u64 {
    u64::from_be_bytes(data[..NUMBER_BYTES].try_into().unwrap())
}

/// The calls, the packets on the wire, and the measured messages.
pub struct Evidence {
    pub sent: Vec<Call>,
    pub read: Vec<Call>,
    at_a: Vec<Packet>,
    at_b: Vec<Packet>,
    /// Packets that the kernel showed to no program: messages of these may be missing or refused.
    unseen: usize,
    stolen: Stolen,
    pub messages: Vec<Value>,
}

impl Evidence {
    /// Compare each valid message with the wire and with the clock of its call. Every call is a
    /// message, and most are valid; times alone may be tried again.
    pub fn check(&self) -> Result<(), String> {
        self.check_sends()?;
        self.check_reads()
    }

    pub fn check_sends(&self) -> Result<(), String> {
        self.most_are_valid("tx");
        self.none_is_wrong("tx")
    }

    pub fn check_reads(&self) -> Result<(), String> {
        self.most_are_valid("rx");
        self.none_is_wrong("rx")?;
        self.few_wait_for_a_softirq()
    }

    /// Every call of a direction is one message, and each valid one is right. If the hypervisor
    /// stops the machine between a stamp and its witness, a message is wrong: that alone may be
    /// tried again.
    pub fn none_is_wrong(&self, direction: &str) -> Result<(), String> {
        let calls = if direction == "tx" {
            &self.sent
        } else {
            &self.read
        };
        let messages = of_direction(&self.messages, direction);
        assert!(!calls.is_empty(), "nothing happened");
        println!("{direction}: {:?}", verdicts(&messages));
        let least = calls.len().saturating_sub(self.unseen);
        assert!(
            (least..=calls.len()).contains(&messages.len()),
            "{direction}: a message per call: {} of {}, {} unseen",
            messages.len(),
            calls.len(),
            self.unseen
        );
        let valid: Vec<&&Value> = messages
            .iter()
            .filter(|message| message["verdict"] == "valid")
            .collect();
        let wrong: Vec<String> = valid
            .iter()
            .filter_map(|message| {
                let compared = self.compare(direction, message, calls);
                compared.err().map(|reason| format!("{reason}: {message}"))
            })
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let told = format!(
            "{direction}: {} of {} valid messages are wrong:\n{}",
            wrong.len(),
            valid.len(),
            wrong[..wrong.len().min(5)].join("\n")
        );
        assert!(self.stolen.much().is_some(), "{told}");
        Err(told)
    }

    /// Return how many messages of a direction have a verdict.
    pub fn verdict_count(&self, direction: &str, verdict: &str) -> usize {
        let messages = of_direction(&self.messages, direction);
        verdicts(&messages).get(verdict).copied().unwrap_or(0)
    }

    /// Few are refused, however late packets and calls are.
    fn most_are_valid(&self, direction: &str) {
        let messages = of_direction(&self.messages, direction);
        let verdicts = verdicts(&messages);
        let valid = verdicts.get("valid").copied().unwrap_or(0);
        assert!(
            (valid + self.unseen) * 100 >= messages.len() * VALID_PERCENT,
            "{direction}: too few are valid, {} unseen: {verdicts:?}",
            self.unseen
        );
    }

    /// No witness sees how long a datagram waits for its softirq; without a stall it is too short
    /// to be measured.
    fn few_wait_for_a_softirq(&self) -> Result<(), String> {
        let reads = of_direction(&self.messages, "rx");
        let valid = reads.iter().filter(|message| message["verdict"] == "valid");
        let waited = valid.filter(|message| number(&message["stages"]["rx.stack"]) > SLACK_NS);
        let waited = waited.count();
        if waited * 100 <= reads.len() * (100 - VALID_PERCENT) {
            return Ok(());
        }
        Err(format!(
            "rx: {waited} of {} waited in rx.stack",
            reads.len()
        ))
    }

    fn compare(&self, direction: &str, message: &Value, calls: &[Call]) -> Result<(), String> {
        let (stamp, compare): (_, fn(&Evidence, &Value, &Call) -> _) = match direction {
            // The datagram left its socket during the call; the address of its next hop came
            // later.
            "tx" if !message["stages"]["tx.queue"].is_null() => ("queued", Evidence::compare_send),
            "tx" => ("sched", Evidence::compare_send),
            _ => ("read", Evidence::compare_read),
        };
        let call = call_of(message, stamp, calls)?;
        compare(self, message, call).map_err(|reason| format!("{reason}; {call:?}"))
    }

    /// The last packet of the datagram has left when tcpdump saw it leave, and entered the packet
    /// scheduler, or the queue of its neighbour, during the call. tcpdump sees it just before the
    /// driver takes it, and the CPU may stand still in between: the driver took it before it came
    /// to the other end.
    fn compare_send(&self, message: &Value, call: &Call) -> Result<(), String> {
        let left = parts(&self.at_a, call.packet)
            .last()
            .ok_or("no packet has left")?
            .time;
        let came = last_parts(&self.at_b, call.packet);
        let came = came.last().map(|packet| packet.time);
        let came = came.filter(|time| *time >= left);
        let taken = came.unwrap_or(left.max(call.ended));
        let for_neighbour = message["stages"]["tx.queue"].as_u64().unwrap_or(0);
        let waited = for_neighbour + number(&message["stages"]["tx.qdisc"]);
        let witness = left.saturating_sub(call.ended)..=taken - call.begun;
        about("tx.queue and tx.qdisc", waited, witness)?;
        about(
            "snd_last",
            number(&message["stamps"]["snd_last"]),
            left..=taken,
        )?;
        let copy = message["stages"]["tx.copy"].as_u64().unwrap_or(0);
        about("tx.copy", copy, 0..=call.ended - call.begun)
    }

    /// The datagram has come when tcpdump saw its last packet come, and was taken during the call.
    /// Between the two it also waits for its softirq, which is `rx.stack`.
    fn compare_read(&self, message: &Value, call: &Call) -> Result<(), String> {
        let same = |other: &&Call| other.number == call.number && other.ended < call.ended;
        let earlier = self.read.iter().filter(same).count();
        let came = last_parts(&self.at_b, call.packet);
        let came = came.get(earlier).ok_or("no packet has come")?.time;
        let stamps = &message["stamps"];
        about("rx_software", number(&stamps["rx_software"]), came..=came)?;
        let least = call.begun.max(came) - came;
        let witness = least..=call.ended - came;
        about("the total", number(&message["total_ns"]), witness.clone())?;
        let stages = &message["stages"];
        let of = |stage: &str| stages[stage].as_u64().unwrap_or(0);
        let witness = least.saturating_sub(of("rx.stack"))..=call.ended - came;
        about(
            "rx.wakeup and rx.app",
            of("rx.app") + of("rx.wakeup"),
            witness,
        )
    }
}

/// The call whose message this may be: by its socket, its bytes and its time.
fn call_of<'a>(message: &Value, stamp: &str, calls: &'a [Call]) -> Result<&'a Call, String> {
    let local = message["local"].as_str().unwrap();
    let (bytes, time) = (number(&message["bytes"]), number(&message["stamps"][stamp]));
    let mut candidates = calls.iter().filter(|call| {
        call.local.to_string() == local
            && call.bytes == bytes
            && (call.begun..=call.ended).contains(&time)
    });
    match (candidates.next(), candidates.next()) {
        (Some(call), None) => Ok(call),
        (Some(_), Some(_)) => Err("two calls of the same bytes at once".to_owned()),
        (None, _) => Err("no such call was under way".to_owned()),
    }
}

/// Check that a time is within its witness's bounds, or little beyond.
fn about(what: &str, value: u64, witness: RangeInclusive<u64>) -> Result<(), String> {
    let beyond = if value < *witness.start() {
        witness.start() - value
    } else {
        value.saturating_sub(*witness.end())
    };
    // A stamp has no length that a share could be taken of.
    let slack = match what {
        "snd_last" | "rx_software" => SLACK_NS,
        _ => SLACK_NS.max(witness.end() * SLACK_PERCENT / 100),
    };
    if beyond <= slack {
        Ok(())
    } else {
        Err(format!("{what} is {value} ns, not {witness:?}"))
    }
}

/// The packets of a datagram: it whole, or its fragments.
fn parts(packets: &[Packet], number: u64) -> Vec<&Packet> {
    let is_first = |packet: &&Packet| {
        packet.fragment.is_none_or(|fragment| fragment.offset == 0)
            && packet.payload.len() >= NUMBER_BYTES
            && number_of(&packet.payload) == number
    };
    let Some(first) = packets.iter().find(is_first) else {
        return Vec::new();
    };
    if first.fragment.is_none() {
        return packets.iter().filter(is_first).collect();
    }
    let together = |packet: &&Packet| {
        packet.fragment.is_some()
            && packet.id == first.id
            && packet.source.ip() == first.source.ip()
            && packet.destination.ip() == first.destination.ip()
    };
    packets.iter().filter(together).collect()
}

/// The packet that each copy of a datagram ended with.
fn last_parts(packets: &[Packet], number: u64) -> Vec<&Packet> {
    let parts = parts(packets, number);
    match parts.first() {
        Some(first) if first.fragment.is_some() => parts.last().copied().into_iter().collect(),
        _ => parts,
    }
}

/// Return the number of messages per verdict.
fn verdicts<'a>(messages: &[&'a Value]) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for message in messages {
        *counts
            .entry(message["verdict"].as_str().unwrap())
            .or_default() += 1;
    }
    counts
}
