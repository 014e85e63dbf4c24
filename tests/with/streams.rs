//! TCP connections whose reader notes its calls, and whether the messages of its reads agree with
//! them and with the wire at its end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use crate::{Trace, number};
use serde_json::Value;
use socket2::SockRef;
use testbed::{Family, Host, Link, LinkConfig, Stolen, within_attempts};

use crate::capture::{Capture, Packet, Segment};
use crate::clock::now;

/// Largest difference of a time from its witness, absolute and relative to the age of the read's
/// last byte: whichever is more.
const SLACK_NS: u64 = 1_000_000;
const SLACK_PERCENT: u64 = 5;
/// Its bit among the flags of a segment.
const SYN: u8 = 2;
/// Smallest share of valid reads of a stream.
const VALID_PERCENT: usize = 95;

/// The writes of one end: bursts of sends, with pauses in between.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    pub bytes: usize,
    pub burst: usize,
    pub bursts: usize,
    pub pause: Duration,
}

impl Writer {
    fn write(self, mut stream: &TcpStream) {
        stream.set_nodelay(true).unwrap();
        let data = vec![7; self.bytes];
        for _ in 0..self.bursts {
            for _ in 0..self.burst {
                stream.write_all(&data).unwrap();
            }
            thread::sleep(self.pause);
        }
        stream.shutdown(Shutdown::Write).unwrap();
    }
}

/// The reads of the other end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    /// Bytes that it requests at once.
    pub bytes: usize,
    /// Time that it sleeps before it reads everything there; without it, it waits for data.
    pub sleep: Option<Duration>,
    /// Each read waits for all bytes that it requests.
    pub wait_all: bool,
    /// `SO_RCVBUF`.
    pub buffer: Option<usize>,
    /// The client closes its sending side at once.
    pub half_closed: bool,
}

impl Reader {
    /// Read to the end. The calls that returned bytes.
    fn read(self, stream: &TcpStream) -> Vec<Read> {
        let mut reads = Vec::new();
        let mut offset = 0;
        if self.half_closed {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        loop {
            if let Some(sleep) = self.sleep {
                thread::sleep(sleep);
            }
            loop {
                let begun = now();
                let bytes = match self.read_once(stream) {
                    Ok(0) => return reads,
                    Ok(bytes) => bytes as u64,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                };
                let ended = now();
                offset += bytes;
                reads.push(Read {
                    begun,
                    ended,
                    bytes,
                    end: offset,
                });
            }
        }
    }

    fn read_once(self, stream: &TcpStream) -> io::Result<usize> {
        let mut buffer = vec![MaybeUninit::uninit(); self.bytes];
        let mut flags = 0;
        if self.sleep.is_some() {
            flags |= libc::MSG_DONTWAIT;
        }
        if self.wait_all {
            flags |= libc::MSG_WAITALL;
        }
        SockRef::from(stream).recv_with_flags(&mut buffer, flags)
    }
}

/// A call that took bytes of a stream.
#[derive(Clone, Copy, Debug)]
struct Read {
    begun: u64,
    ended: u64,
    bytes: u64,
    /// Bytes of the stream that were read when it returned.
    end: u64,
}

/// One connection and what goes over it.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    pub family: Family,
    pub writer: Writer,
    pub reader: Reader,
}

/// Let all of them run together over a link and compare each valid read with the wire and the
/// reader's clock. All reads are messages, and of those of each stream most are valid: no machine
/// is so busy that this depends on it, or that a valid read is wrong, unless the hypervisor stops
/// it between a stamp and its witness.
pub fn compare(config: LinkConfig, streams: &[Stream]) {
    within_attempts(|| compare_once(config.clone(), streams));
}

fn compare_once(config: LinkConfig, streams: &[Stream]) -> Result<(), String> {
    let stolen = Stolen::begin();
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::relay(&a, &b, config).unwrap();
    let capture = Capture::start(&b, link.interface_b(), "tcp");
    let trace = Trace::start(&["--netns", b.netns_name()]);
    let ended: Vec<Ended> = thread::scope(|scope| {
        let running: Vec<_> = streams
            .iter()
            .map(|stream| scope.spawn(|| run(*stream, &a, &b, &link)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let messages = trace.finish();
    let packets = capture.finish();
    let mut complaints = String::new();
    for ended in &ended {
        if let Err(reason) = ended.check(&packets, &messages) {
            writeln!(complaints, "{:?}: {reason}", ended.stream).unwrap();
        }
    }
    if complaints.is_empty() {
        return Ok(());
    }
    assert!(stolen.much().is_some(), "{complaints}");
    Err(complaints)
}

/// A connection that is over.
struct Ended {
    stream: Stream,
    writer: SocketAddr,
    reader: SocketAddr,
    reads: Vec<Read>,
}

fn run(stream: Stream, a: &Host, b: &Host, link: &Link) -> Ended {
    let listener: TcpListener = b
        .tcp_listen(SocketAddr::new(link.address_b(stream.family), 0))
        .unwrap();
    if let Some(buffer) = stream.reader.buffer {
        b.set_sysctl("net.core.rmem_max", "16777216").ok();
        SockRef::from(&listener)
            .set_recv_buffer_size(buffer)
            .unwrap();
    }
    let client = a.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (server, writer) = listener.accept().unwrap();
    let reader = server.local_addr().unwrap();
    let reads = thread::scope(|scope| {
        scope.spawn(|| stream.writer.write(&client));
        stream.reader.read(&server)
    });
    Ended {
        stream,
        writer,
        reader,
        reads,
    }
}

impl Ended {
    fn check(&self, packets: &[Packet], messages: &[Value]) -> Result<(), String> {
        let wire = Wire::new(packets, self.writer, self.reader);
        let local = self.reader.to_string();
        let remote = self.writer.to_string();
        let messages: Vec<&Value> = messages
            .iter()
            .filter(|message| {
                message["direction"] == "rx"
                    && message["local"] == local
                    && message["remote"] == remote
            })
            .collect();
        assert!(!self.reads.is_empty(), "nothing was read");
        assert_eq!(messages.len(), self.reads.len(), "one message per read");
        let valid: Vec<(&Value, &Read)> = messages
            .iter()
            .copied()
            .zip(&self.reads)
            .filter(|(message, _)| message["verdict"] == "valid")
            .collect();
        let wrong: Vec<String> = valid
            .iter()
            .filter_map(|(message, read)| {
                let reason = wire.compare(message, read).err()?;
                Some(format!("{reason}; {read:?}: {message}"))
            })
            .collect();
        println!(
            "{:?}: {} of {} valid, {} of them wrong, hol {}; {:?}",
            self.stream,
            valid.len(),
            messages.len(),
            wrong.len(),
            valid
                .iter()
                .filter(|(message, _)| !message["stages"]["rx.hol"].is_null())
                .count(),
            refusals(&messages)
        );
        if let Some(first) = wrong.first() {
            return Err(format!(
                "{} of {} are wrong: {first}",
                wrong.len(),
                valid.len()
            ));
        }
        if valid.len() * 100 < messages.len() * VALID_PERCENT {
            return Err(format!(
                "{} of {} are valid; {:?}",
                valid.len(),
                messages.len(),
                refusals(&messages)
            ));
        }
        Ok(())
    }
}

/// When the bytes of a stream came, as tcpdump saw it.
///
/// TCP drops segments without memory, unseen by tcpdump, even a segment for which others wait, and
/// its sender sends it again. Its acknowledgements show which copies it dropped, but some only
/// after the next copy has come: then it may have taken either copy.
struct Wire {
    /// Sequence number of the first byte.
    first: u32,
    /// From a byte up to another, all of which came at a time.
    came: BTreeMap<u64, (u64, u64)>,
    /// The time by which this many bytes from the first on were there.
    whole: Vec<(u64, u64)>,
    /// Copies of bytes that had come before, but were not acknowledged.
    again: Vec<Copy>,
}

/// Bytes of a stream in one packet.
#[derive(Clone, Copy, Debug)]
struct Copy {
    from: u64,
    to: u64,
    time: u64,
}

/// Longer than any packet.
const LONGEST: u64 = 1 << 17;

impl Wire {
    fn new(packets: &[Packet], source: SocketAddr, destination: SocketAddr) -> Wire {
        let segments = |from, to| {
            packets
                .iter()
                .filter(move |packet| packet.source == from && packet.destination == to)
                .filter_map(|packet| Some((packet, packet.tcp?)))
        };
        let (_, syn) = segments(source, destination)
            .find(|(_, segment)| segment.flags & SYN != 0)
            .expect("no SYN");
        let mut wire = Wire {
            first: syn.seq.wrapping_add(1),
            came: BTreeMap::new(),
            whole: Vec::new(),
            again: Vec::new(),
        };
        let mut copies = BTreeMap::new();
        let data = segments(source, destination).filter(|(packet, _)| packet.length > 0);
        for (number, (packet, segment)) in data.enumerate() {
            let from = wire.offset(segment.seq);
            let to = from + u64::from(packet.length);
            let time = packet.time;
            wire.add(from, to, time);
            copies.insert((from, number), Copy { from, to, time });
        }
        let acknowledgements: Vec<_> = segments(destination, source)
            .filter(|(_, segment)| segment.flags & SYN == 0)
            .collect();
        for (_, segment) in &acknowledgements {
            wire.leave_out_dropped(&mut copies, segment);
        }
        wire.take(copies.into_values().collect());
        let unacknowledged = |copy: &Copy| {
            acknowledgements
                .iter()
                .find(|(_, segment)| wire.offset(segment.ack) > copy.from)
                .is_none_or(|(packet, _)| packet.time > copy.time)
        };
        wire.again = wire.again.iter().copied().filter(unacknowledged).collect();
        wire
    }

    /// Bytes come with the first of these copies.
    fn take(&mut self, mut copies: Vec<Copy>) {
        copies.sort_by_key(|copy| copy.time);
        self.came.clear();
        for copy in copies.into_iter().filter(|copy| copy.from < copy.to) {
            if self.at(copy.from).is_some() {
                self.again.push(copy);
            }
            self.add(copy.from, copy.to, copy.time);
        }
        let (mut whole, mut latest) = (0, 0);
        while let Some((end, time)) = self.at(whole) {
            (whole, latest) = (end, latest.max(time));
            self.whole.push((whole, latest));
        }
    }

    fn offset(&self, seq: u32) -> u64 {
        seq.wrapping_sub(self.first).into()
    }

    /// TCP works on packets in the order in which they come. When it acknowledges bytes that came
    /// after a copy of the byte that it misses, it has dropped that copy.
    fn leave_out_dropped(
        &self,
        copies: &mut BTreeMap<(u64, usize), Copy>,
        acknowledgement: &Segment,
    ) {
        let missing = self.offset(acknowledgement.ack);
        let blocks = acknowledgement.sack.into_iter().flatten();
        let known = blocks
            .flat_map(|(from, to)| [self.offset(from), self.offset(to).wrapping_sub(1)])
            .chain(missing.checked_sub(1));
        let Some(latest) = known.filter_map(|byte| Some(self.at(byte)?.1)).max() else {
            return;
        };
        let near = copies.range_mut((missing.saturating_sub(LONGEST), 0)..=(missing, usize::MAX));
        for (_, copy) in near.filter(|(_, copy)| copy.time < latest) {
            copy.to = copy.to.min(missing);
        }
    }

    /// The bytes of a packet that had not come before.
    fn add(&mut self, mut from: u64, to: u64, time: u64) {
        while from < to {
            let end = match self.at(from) {
                Some((end, _)) => end,
                None => {
                    let next = self
                        .came
                        .range(from..to)
                        .next()
                        .map_or(to, |(start, _)| *start);
                    self.came.insert(from, (next, time));
                    next
                }
            };
            from = end;
        }
    }

    /// Up to where bytes came with this one, and when.
    fn at(&self, byte: u64) -> Option<(u64, u64)> {
        let (_, (end, time)) = self.came.range(..=byte).next_back()?;
        (*end > byte).then_some((*end, *time))
    }

    fn compare(&self, message: &Value, read: &Read) -> Result<(), String> {
        let end = u32::try_from(number(&message["seq_end"])).unwrap();
        if number(&message["bytes"]) != read.bytes
            || u64::from(end.wrapping_sub(self.first)) != read.end & 0xffff_ffff
        {
            return Err("another read".to_owned());
        }
        let (_, came) = self.at(read.end - 1).ok_or("no packet has come")?;
        let complete = self.whole.partition_point(|(whole, _)| *whole < read.end);
        let (_, ready) = *self
            .whole
            .get(complete)
            .ok_or("not all packets have come")?;
        let mut judged = judge(message, read, came, ready);
        let before = self
            .again
            .iter()
            .filter(|copy| copy.from < read.end && copy.time < read.ended);
        for copy in before {
            let ready = ready.max(copy.time);
            if copy.to >= read.end {
                judged =
                    judged.or_else(|reason| judge(message, read, copy.time, ready).or(Err(reason)));
            }
            judged = judged.or_else(|reason| judge(message, read, came, ready).or(Err(reason)));
        }
        judged
    }
}

/// Compare the times of a read with those of its last byte: when that came, and when it could be
/// read.
fn judge(message: &Value, read: &Read, came: u64, ready: u64) -> Result<(), String> {
    if read.ended < came.max(ready) {
        return Err("it was read before it came".to_owned());
    }
    let stages = &message["stages"];
    let of = |stage: &str| stages[stage].as_u64().unwrap_or(0);
    let begun = read.begun.max(ready);
    let stack = of("rx.stack");
    let slack = SLACK_NS.max((read.ended - came) * SLACK_PERCENT / 100);
    let about = |what, value, witness| about(what, value, witness, slack);
    let hol = ready.saturating_sub(came);
    about("rx.hol", of("rx.hol"), hol..=hol)?;
    about("rx.stack", stack, 0..=read.ended - ready)?;
    about(
        "rx.wakeup and rx.app",
        of("rx.wakeup") + of("rx.app"),
        (begun - ready).saturating_sub(stack)..=read.ended - ready,
    )?;
    about(
        "the total",
        number(&message["total_ns"]),
        begun.max(came) - came..=read.ended - came,
    )
}

/// Check that a time is within its witness's bounds, or little beyond.
fn about(what: &str, value: u64, witness: RangeInclusive<u64>, slack: u64) -> Result<(), String> {
    let beyond = witness
        .start()
        .saturating_sub(value)
        .max(value.saturating_sub(*witness.end()));
    if beyond <= slack {
        Ok(())
    } else {
        Err(format!("{what} is {value} ns, not {witness:?}"))
    }
}

/// Return the number of messages per verdict.
fn refusals(messages: &[&Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for message in messages {
        *counts.entry(message["verdict"].to_string()).or_default() += 1;
    }
    counts
}
