//! TCP connections whose sends are noted, and whether what was measured of them agrees with the
//! wire.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::guarded::Guarded;
use crate::{Trace, number};
use serde_json::Value;
use testbed::{Family, Host, Link, LinkConfig, TcpInfo};

use crate::capture::{Capture, Packet};
use crate::clock::now;

/// Largest time between a stamp and its witness, unless the CPU stands still in between. Whichever
/// is more: the share is of the time since the event before.
const SLACK_NS: u64 = 1_000_000;
const SLACK_PERCENT: u64 = 5;
/// The witness's clock is another one, whose distance from ours is read in a bracket of two reads.
const CLOCK_SLACK_NS: u64 = 50_000;
/// Smallest share of valid messages.
const VALID_PERCENT: usize = 95;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// One send call: the bytes of its stream that it ends with, and when it ran.
#[derive(Clone, Copy, Debug)]
struct Call {
    begun: u64,
    ended: u64,
}

/// The calls of a socket by where in its stream they end.
type Calls = BTreeMap<u32, Call>;

/// Two hosts on a link whose end at host a is captured, while every message that host a sends is
/// traced.
pub struct WatchedSender {
    pub a: Host,
    pub b: Host,
    link: Link,
    /// A device of the link holds packets back.
    shaped: bool,
    guarded: Guarded,
    capture: Capture,
    trace: Trace,
    sent: Mutex<HashMap<String, Calls>>,
}

/// A device of host a that sends by its link's interface.
#[derive(Clone, Copy, Debug)]
pub enum Upper {
    Macvlan,
    Bridge,
}

impl Upper {
    /// Create it on the interface, with the interface's own hardware address, and give it the
    /// addresses.
    fn put_on(self, host: &Host, link: &Link) {
        let lower = link.interface_a();
        let ip = |words: &str| {
            let words: Vec<&str> = words.split_whitespace().collect();
            host.run("ip", &words).unwrap();
        };
        ip(&format!("address flush dev {lower}"));
        match self {
            Upper::Macvlan => ip(&format!(
                "link add upper link {lower} type macvlan mode passthru"
            )),
            Upper::Bridge => {
                ip("link add upper type bridge");
                ip(&format!("link set {lower} master upper"));
            }
        }
        ip("link set upper up");
        for (family, prefix) in [(Family::V4, "24"), (Family::V6, "64 nodad")] {
            let address = link.address_a(family);
            ip(&format!("address add {address}/{prefix} dev upper"));
        }
    }
}

impl WatchedSender {
    pub fn new(config: LinkConfig) -> WatchedSender {
        let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
        let link = Link::relay(&a, &b, config).unwrap();
        WatchedSender::on(a, b, link, false)
    }

    /// Create it with another device on top of the link's interface, in front of which is a token
    /// bucket (tc-tbf(8)).
    pub fn stacked(upper: Upper, bucket: &str) -> WatchedSender {
        let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
        let link = Link::veth(&a, &b).unwrap();
        upper.put_on(&a, &link);
        let words = format!("qdisc add dev {} root tbf {bucket}", link.interface_a());
        let words: Vec<&str> = words.split_whitespace().collect();
        a.run("tc", &words).unwrap();
        WatchedSender::on(a, b, link, true)
    }

    /// Create it with a redirection of all that the link's interface sends to an ifb device (tc(8),
    /// tc-mirred(8)), in front of which is a token bucket.
    pub fn redirected(bucket: &str) -> WatchedSender {
        let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
        let link = Link::veth(&a, &b).unwrap();
        let ip = ["link add shaper type ifb", "link set shaper up"];
        let from = link.interface_a();
        let tc = [
            format!("qdisc add dev shaper root tbf {bucket}"),
            format!("qdisc add dev {from} clsact"),
            format!(
                "filter add dev {from} egress protocol all u32 match u32 0 0 \
                 action mirred egress redirect dev shaper"
            ),
        ];
        let run = |program: &str, words: &str| {
            let words: Vec<&str> = words.split_whitespace().collect();
            a.run(program, &words).unwrap();
        };
        ip.into_iter().for_each(|words| run("ip", words));
        tc.iter().for_each(|words| run("tc", words));
        WatchedSender::on(a, b, link, true)
    }

    fn on(a: Host, b: Host, link: Link, shaped: bool) -> WatchedSender {
        let guarded = Guarded::start([link.interface_a()]);
        let capture = Capture::start(&a, link.interface_a(), "tcp");
        let trace = Trace::start(&["--netns", a.netns_name(), "tcp"]);
        WatchedSender {
            a,
            b,
            link,
            shaped,
            guarded,
            capture,
            trace,
            sent: Mutex::default(),
        }
    }

    pub fn listen(&self, family: Family) -> TcpListener {
        let address = SocketAddr::new(self.link.address_b(family), 0);
        self.b.tcp_listen(address).unwrap()
    }

    /// Connect host a to a listener of host b.
    pub fn connect(&self, listener: &TcpListener) -> Stream<'_> {
        let socket = self.a.tcp_connect(listener.local_addr().unwrap()).unwrap();
        Stream {
            setup: self,
            local: socket.local_addr().unwrap().to_string(),
            socket,
            end: 0,
        }
    }

    /// A connection to a reader that takes all that comes, while `send` runs.
    pub fn with_reader(&self, family: Family, send: impl FnOnce(&mut Stream<'_>)) {
        let listener = self.listen(family);
        let mut stream = self.connect(&listener);
        let (mut peer, _) = listener.accept().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while peer.read(&mut buffer).unwrap() > 0 {}
            });
            send(&mut stream);
            stream.drain();
        });
    }

    /// Compare each valid message with the wire. Every call is a message, most are valid, and no
    /// machine makes a valid one wrong. That each has its witnesses near, a busy machine may miss.
    /// Messages may be missing or refused for packets that the kernel showed to no program.
    pub fn check(self) -> Result<(), String> {
        let messages = self.trace.finish();
        let packets = self.capture.finish();
        let unseen = self.guarded.finish().count();
        let sent: Vec<&Value> = messages
            .iter()
            .filter(|message| message["direction"] == "tx")
            .collect();
        let flows = flows(&packets);
        let calls = self.sent.into_inner().unwrap();
        let count: usize = calls.values().map(BTreeMap::len).sum();
        assert!(
            (count - unseen.min(count)..=count).contains(&sent.len()),
            "one message per call: {} of {count}, {unseen} unseen",
            sent.len()
        );
        let valid: Vec<&&Value> = sent
            .iter()
            .filter(|message| message["verdict"] == "valid")
            .collect();
        println!("{} of {} valid", valid.len(), sent.len());
        let mut wrong = Vec::new();
        let mut prompt = 0;
        for message in &valid {
            let local = message["local"].as_str().unwrap();
            match compare(message, &flows[local], &calls[local], self.shaped) {
                Ok(near) => prompt += usize::from(near),
                Err(reason) => wrong.push(format!("{reason}: {message}")),
            }
        }
        if !wrong.is_empty() {
            let mut text = format!(
                "{} of {} valid messages are wrong",
                wrong.len(),
                valid.len()
            );
            for reason in wrong.iter().take(5) {
                write!(text, "\n  {reason}").unwrap();
            }
            panic!("{text}");
        }
        assert!(
            (valid.len() + unseen) * 100 >= sent.len() * VALID_PERCENT,
            "{} of {} are valid, {unseen} unseen: {:?}",
            valid.len(),
            sent.len(),
            verdicts(&sent)
        );
        if prompt < valid.len() {
            return Err(format!(
                "{prompt} of {} valid ones left and came promptly",
                valid.len()
            ));
        }
        Ok(())
    }
}

/// A connection of host a.
pub struct Stream<'hosts> {
    setup: &'hosts WatchedSender,
    local: String,
    pub socket: TcpStream,
    end: u32,
}

impl Stream<'_> {
    /// Send this many bytes by one call.
    pub fn send(&mut self, bytes: usize) {
        let data = vec![7; bytes];
        self.call(|mut socket| socket.write(&data).unwrap());
    }

    /// Send by `call`, which returns how many bytes it sent.
    pub fn call(&mut self, call: impl FnOnce(&TcpStream) -> usize) {
        let begun = now();
        let bytes = call(&self.socket);
        let ended = now();
        self.end += u32::try_from(bytes).unwrap();
        let mut sent = self.setup.sent.lock().unwrap();
        let calls = sent.entry(self.local.clone()).or_default();
        calls.insert(self.end, Call { begun, ended });
    }

    pub fn receive(&mut self, bytes: usize) {
        self.socket.read_exact(&mut vec![0; bytes]).unwrap();
    }

    /// End the stream when the peer has acknowledged all of it. A FIN in front of that would be
    /// another state.
    pub fn drain(&mut self) {
        let all_acknowledged = |info: TcpInfo| info.unacked == 0 && info.notsent_bytes == 0;
        while !all_acknowledged(TcpInfo::of(&self.socket).unwrap()) {
            thread::sleep(Duration::from_millis(5));
        }
        self.socket.shutdown(Shutdown::Write).unwrap();
        // Until the peer closes as well.
        while self.socket.read(&mut [0; 4096]).unwrap_or(0) > 0 {}
    }
}

/// One direction of a connection as the wire saw it.
#[derive(Default)]
struct Flow {
    /// Sequence number of the first byte.
    first: u32,
    /// First and last byte of each packet with data, in the order in which they left.
    sent: Vec<(u64, u32, u32)>,
    /// The acknowledgement in each packet of the peer.
    acks: Vec<(u64, u32)>,
}

/// Both directions of all connections that were captured, by the socket that sends.
fn flows(packets: &[Packet]) -> HashMap<String, Flow> {
    let mut flows: HashMap<String, Flow> = HashMap::new();
    for packet in packets {
        let Some(tcp) = packet.tcp else { continue };
        let sender = flows.entry(packet.source.to_string()).or_default();
        if tcp.flags & SYN != 0 {
            sender.first = tcp.seq.wrapping_add(1);
        }
        if packet.length > 0 {
            let last = tcp.seq.wrapping_add(packet.length - 1);
            sender.sent.push((packet.time, tcp.seq, last));
        }
        if tcp.flags & ACK != 0 {
            let receiver = flows.entry(packet.destination.to_string()).or_default();
            receiver.acks.push((packet.time, tcp.ack));
        }
    }
    flows
}

/// Check a message's stamps against its last byte on the wire. tcpdump sees a packet between the
/// packet scheduler and the driver, and an acknowledgement before TCP does: a stamp on the wrong
/// side of that is of another packet. Return false if the CPU stood still between the two.
fn compare(message: &Value, flow: &Flow, calls: &Calls, shaped: bool) -> Result<bool, String> {
    let end = u32::try_from(number(&message["seq_end"])).unwrap();
    let call = calls
        .get(&end.wrapping_sub(flow.first))
        .ok_or("no call ended there")?;
    let (left, acknowledged) = flow.times(end).ok_or("not on the wire")?;
    let stamp = |name: &str| number(&message["stamps"][name]);
    let order = [
        ("entry", call.begun, stamp("entry")),
        ("queued", stamp("queued"), call.ended),
        ("sched", stamp("sched"), left),
        ("snd", left, stamp("snd")),
        ("ack", acknowledged, stamp("ack")),
    ];
    for (name, earlier, later) in order {
        if earlier > later + CLOCK_SLACK_NS {
            return Err(format!("{name}: {earlier} is not before {later}"));
        }
    }
    stages_are_between(message)?;
    let prompt = |earlier: u64, later: u64, witness: u64| {
        later.saturating_sub(earlier) <= SLACK_NS.max(witness * SLACK_PERCENT / 100)
    };
    let waited = left.saturating_sub(stamp("queued"));
    Ok((shaped || prompt(stamp("sched"), left, waited))
        && prompt(left, stamp("snd"), 0)
        && prompt(acknowledged, stamp("ack"), acknowledged - left))
}

/// Check that each stage is the time between its stamps.
fn stages_are_between(message: &Value) -> Result<(), String> {
    let stages = [
        ("tx.copy", "entry", "queued"),
        ("tx.queue", "queued", "sched"),
        ("tx.qdisc", "sched", "snd"),
        ("tx.network", "snd", "ack"),
    ];
    for (stage, from, to) in stages {
        let stamp = |name: &str| number(&message["stamps"][name]);
        let stage_ns = message["stages"][stage].as_u64().unwrap_or(0);
        // A packet may leave while its call still copies: then nothing waited in TCP.
        if stage_ns != stamp(to).saturating_sub(stamp(from)) {
            return Err(format!("{stage} is {stage_ns} ns"));
        }
    }
    Ok(())
}

impl Flow {
    /// When the byte in front of `end` first left, and when it was acknowledged.
    fn times(&self, end: u32) -> Option<(u64, u64)> {
        let last = end.wrapping_sub(1);
        let carries =
            |&&(_, from, to): &&(u64, u32, u32)| last.wrapping_sub(from) <= to.wrapping_sub(from);
        let left = self.sent.iter().find(carries)?.0;
        let covers = |&&(time, ack): &&(u64, u32)| time >= left && ack.wrapping_sub(end) < 1 << 31;
        let acknowledged = self.acks.iter().find(covers)?.0;
        Some((left, acknowledged))
    }
}

/// Return the number of messages per verdict.
fn verdicts(messages: &[&Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for message in messages {
        *counts.entry(message["verdict"].to_string()).or_default() += 1;
    }
    counts
}
