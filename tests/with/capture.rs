//! tcpdump on one end of a link, and what it saw.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::NamedTempFile;
use testbed::{Family, Host, PATIENCE, Process};

use crate::{clock, wait_until};

/// No packet is on its way after this long without one.
const QUIET: Duration = Duration::from_millis(150);
/// Where tcpdump writes fewer packets than the kernel counts, as on the loopback interface, where
/// libpcap leaves one of two out, it has written all of them after this long without one.
const LONG_QUIET: Duration = Duration::from_secs(1);
/// Bytes that are kept of each packet: its headers, and the beginning of what it carries.
const KEPT: &str = "256";

/// IP protocol numbers.
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// tcpdump, which captures until [`Capture::finish`].
#[derive(Debug)]
pub struct Capture {
    process: Process,
    file: NamedTempFile,
}

impl Capture {
    /// Start it on an interface of `host` and return when it captures what matches `filter` of
    /// pcap-filter(7).
    pub fn start(host: &Host, interface: &str, filter: &str) -> Capture {
        let file = NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let options = ["-i", interface, "-w", path, "-s", KEPT, "-U", "-Z", "root"];
        let more = [
            "--time-stamp-precision=nano",
            "--immediate-mode",
            "-B",
            "16384",
            filter,
        ];
        let mut process = host
            .spawn("tcpdump", &[&options[..], &more].concat())
            .unwrap();
        wait_until("tcpdump captures", || {
            assert!(process.is_running().unwrap(), "{}", process.stderr());
            process.stderr().contains("listening on")
        });
        Capture { process, file }
    }

    /// Return the file when it has all packets that have passed. A busy machine may let tcpdump
    /// wait for longer than packets are on their way: the kernel's count tells what it owes.
    pub fn file(&self) -> &Path {
        let (mut before, mut since) = (self.counts(), Instant::now());
        loop {
            thread::sleep(QUIET);
            let [written, received] = self.counts();
            if [written, received] != before {
                (before, since) = ([written, received], Instant::now());
            } else if written == received || since.elapsed() > LONG_QUIET {
                return self.file.path();
            }
        }
    }

    /// Ask tcpdump for the packets that it has written, each at once (`-U`), and for those that the
    /// kernel had for it: SIGUSR1, tcpdump(1).
    fn counts(&self) -> [u64; 2] {
        let before = self.process.stderr().len();
        self.process.signal(Signal::SIGUSR1).unwrap();
        let mut counts = Vec::new();
        wait_until("tcpdump tells its counts", || {
            let said = self.process.stderr();
            let line = said[before..]
                .lines()
                .find(|line| line.contains(" by kernel"));
            let words = line.unwrap_or_default().split_whitespace();
            counts = words.filter_map(|word| word.parse().ok()).collect();
            counts.len() == 3
        });
        [counts[0], counts[1]]
    }

    /// End it, and return the packets in the order in which they passed, none missing.
    pub fn finish(mut self) -> Vec<Packet> {
        self.file();
        self.process.signal(Signal::SIGINT).unwrap();
        let status = self.process.wait_status(PATIENCE).unwrap();
        let said = self.process.stderr();
        assert!(status.success(), "{status}: {said}");
        assert!(said.contains("\n0 packets dropped by kernel"), "{said}");
        packets(&fs::read(self.file.path()).unwrap())
    }
}

/// An IP packet, or a fragment of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// When it passed the interface: CLOCK_MONOTONIC in nanoseconds, as stamps are. tcpdump sees a
    /// packet that leaves as the driver takes it (`dev_queue_xmit_nit()`), one that comes as the
    /// stack does.
    pub time: u64,
    pub family: Family,
    pub protocol: u8,
    /// Port 0 in fragments but the first.
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Bytes that TCP or UDP carries in it. Of a first fragment, those in the fragment.
    pub length: u32,
    /// The beginning of those bytes, as far as it was captured.
    pub payload: Vec<u8>,
    /// IPv4, and fragments of IPv6: which packets belong together.
    pub id: u32,
    pub fragment: Option<Fragment>,
    pub tcp: Option<Segment>,
}

/// The place of a fragment in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    pub offset: u16,
    pub more: bool,
}

/// The header of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    pub seq: u32,
    pub ack: u32,
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16: RFC 9293.
    pub flags: u8,
    /// The window as sent, not scaled.
    pub window: u16,
    /// Bytes that came while earlier ones were missing, from a sequence number up to another: RFC
    /// 2018.
    pub sack: [Option<(u32, u32)>; 4],
    /// The number in a tag: RFC 6994, kind 253, experiment 0x5353.
    pub tag: Option<u32>,
    /// True if it has the option of the naive program in testbed-bpf, experiment 0x4e4e.
    pub is_naive: bool,
    /// True if it has a signature by MD5: RFC 2385, kind 19.
    pub is_signed: bool,
}

/// The packets in a file that tcpdump wrote on a little-endian machine: pcap-savefile(5).
pub fn packets(file: &[u8]) -> Vec<Packet> {
    const NANOSECONDS: u32 = 0xa1b2_3c4d;
    const HEADER: usize = 24;
    const RECORD: usize = 16;
    assert_eq!(le32(file, 0), NANOSECONDS, "a file of another kind");
    let link_type = le32(file, 20);
    let offset = clock::realtime_offset();
    let mut packets = Vec::new();
    let mut at = HEADER;
    while at < file.len() {
        let realtime = i64::from(le32(file, at)) * 1_000_000_000 + i64::from(le32(file, at + 4));
        let captured = le32(file, at + 8) as usize;
        let bytes = &file[at + RECORD..at + RECORD + captured];
        let time = u64::try_from(realtime - offset).unwrap();
        packets.extend(packet(link_type, bytes, time));
        at += RECORD + captured;
    }
    packets
}

/// None for a packet that is not IP.
fn packet(link_type: u32, bytes: &[u8], time: u64) -> Option<Packet> {
    // LINKTYPE_ETHERNET and LINKTYPE_RAW of https://www.tcpdump.org/linktypes.html.
    let ip = match link_type {
        1 => &bytes[14..],
        101 => bytes,
        other => panic!("link type {other}"),
    };
    match (link_type, ip.first()? >> 4, &bytes[12..14]) {
        (1, 4, [0x08, 0x00]) | (101, 4, _) => Some(ipv4(ip, time)),
        (1, 6, [0x86, 0xdd]) | (101, 6, _) => Some(ipv6(ip, time)),
        _ => None,
    }
}

fn ipv4(ip: &[u8], time: u64) -> Packet {
    let header = usize::from(ip[0] & 0xf) * 4;
    let address = |at: usize| {
        IpAddr::from(Ipv4Addr::from(
            <[u8; 4]>::try_from(&ip[at..at + 4]).unwrap(),
        ))
    };
    let place = be16(ip, 6);
    let fragment = Fragment {
        offset: (place & 0x1fff) * 8,
        more: place & 0x2000 != 0,
    };
    let packet = Packet {
        time,
        family: Family::V4,
        protocol: ip[9],
        source: SocketAddr::new(address(12), 0),
        destination: SocketAddr::new(address(16), 0),
        length: u32::from(be16(ip, 2)) - u32::try_from(header).unwrap(),
        payload: Vec::new(),
        id: be16(ip, 4).into(),
        fragment: (fragment.offset > 0 || fragment.more).then_some(fragment),
        tcp: None,
    };
    with_transport(packet, &ip[header..])
}

fn ipv6(ip: &[u8], time: u64) -> Packet {
    const HEADER: usize = 40;
    const FRAGMENT: u8 = 44;
    const FRAGMENT_HEADER: usize = 8;
    let address = |at: usize| {
        IpAddr::from(Ipv6Addr::from(
            <[u8; 16]>::try_from(&ip[at..at + 16]).unwrap(),
        ))
    };
    let mut packet = Packet {
        time,
        family: Family::V6,
        protocol: ip[6],
        source: SocketAddr::new(address(8), 0),
        destination: SocketAddr::new(address(24), 0),
        length: be16(ip, 4).into(),
        payload: Vec::new(),
        id: 0,
        fragment: None,
        tcp: None,
    };
    let rest = &ip[HEADER..];
    if packet.protocol != FRAGMENT {
        return with_transport(packet, rest);
    }
    let place = be16(rest, 2);
    packet.protocol = rest[0];
    packet.length -= u32::try_from(FRAGMENT_HEADER).unwrap();
    packet.id = u32::from(be16(rest, 4)) << 16 | u32::from(be16(rest, 6));
    packet.fragment = Some(Fragment {
        offset: place & 0xfff8,
        more: place & 1 != 0,
    });
    with_transport(packet, &rest[FRAGMENT_HEADER..])
}

/// Add the fields of the header of TCP or UDP. `bytes` may continue after the packet: Ethernet pads
/// short ones.
fn with_transport(mut packet: Packet, bytes: &[u8]) -> Packet {
    let bytes = &bytes[..bytes.len().min(packet.length as usize)];
    if packet.fragment.is_some_and(|fragment| fragment.offset > 0) {
        packet.payload = bytes.to_vec();
        return packet;
    }
    let header = match packet.protocol {
        UDP => 8,
        TCP => usize::from(bytes[12] >> 4) * 4,
        _ => return packet,
    };
    packet.source.set_port(be16(bytes, 0));
    packet.destination.set_port(be16(bytes, 2));
    packet.length -= u32::try_from(header).unwrap();
    packet.payload = bytes.get(header..).unwrap_or_default().to_vec();
    if packet.protocol == TCP {
        packet.tcp = Some(Segment {
            seq: be32(bytes, 4),
            ack: be32(bytes, 8),
            flags: bytes[13],
            window: be16(bytes, 14),
            sack: sack(&bytes[20..header]),
            tag: experiment(&bytes[20..header], [0x53; 2]),
            is_naive: experiment(&bytes[20..header], [0x4e; 2]).is_some(),
            is_signed: option(&bytes[20..header], |option| option[0] == 19).is_some(),
        });
    }
    packet
}

/// The blocks of the SACK option.
fn sack(options: &[u8]) -> [Option<(u32, u32)>; 4] {
    const SACK: u8 = 5;
    let Some(option) = option(options, |option| option[0] == SACK) else {
        return [None; 4];
    };
    let block =
        |at: usize| (at + 8 <= option.len()).then(|| (be32(option, at), be32(option, at + 4)));
    [2, 10, 18, 26].map(block)
}

/// The number in an option for experiments.
fn experiment(options: &[u8], id: [u8; 2]) -> Option<u32> {
    const EXPERIMENT: u8 = 253;
    let wanted = |option: &[u8]| option[0] == EXPERIMENT && option[1] == 8 && option[2..4] == id;
    Some(be32(option(options, wanted)?, 4))
}

/// The first option that is wanted, from its kind on.
fn option(mut options: &[u8], wanted: impl Fn(&[u8]) -> bool) -> Option<&[u8]> {
    const END: u8 = 0;
    const PADDING: u8 = 1;
    loop {
        let (option, rest) = match *options {
            [] | [_] | [END, ..] => return None,
            [PADDING, ..] => (&[][..], &options[1..]),
            [_, length, ..] => options.split_at_checked(usize::from(length))?,
        };
        if !option.is_empty() && wanted(option) {
            return Some(option);
        }
        options = rest;
    }
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap())
}
