//! Make sockets of each kind on the loopback interface of a separate host, and read their error
//! queues.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};
use sockstamp::error_queue::{ErrorQueue, Report};
use sockstamp::timestamping::{
    Destination, Flag, MessageOptions, Options, Support, TxKind, TxStamp, TxTime, send,
};
use testbed::{Family, Host, PATIENCE};

pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// Payload of each message in bytes.
pub const PAYLOAD: usize = 10;
/// Stamp sends when the driver has them, without returning the packets.
pub const SND: Options = Options::new().tx_software().id().only_stamps();
/// Two stamps of each message, with its packet.
pub const SCHED_AND_SND: Options = Options::new().tx_sched().tx_software().id();
/// A protocol number for experiments (RFC 3692), which has no listener.
const PROTOCOL: i32 = 253;

/// Print why a test, or a part of it, cannot run here. Not by `eprintln!`, which the test harness
/// captures.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIP {test}: {reason}\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

/// The options that this kernel has, `None` with a word about it where it lacks one.
pub fn supported(test: &str, options: Options) -> Option<Options> {
    let missing: Vec<_> = Support::probe()
        .unwrap()
        .missing(options)
        .map(Flag::name)
        .collect();
    if missing.is_empty() {
        return Some(options);
    }
    skip(test, &format!("this kernel lacks {}", missing.join(", ")));
    None
}

/// Return true if a message can have its own id; print a skip otherwise.
pub fn own_ids(test: &str) -> bool {
    let supported = Support::probe().unwrap().own_id;
    if !supported {
        skip(test, "this kernel lacks SCM_TS_OPT_ID");
    }
    supported
}

/// A host with its loopback interface, on which root may open ping sockets.
pub fn host(name: &str) -> Host {
    let host = Host::new(name).unwrap();
    host.set_sysctl("net.ipv4.ping_group_range", "0 0").unwrap();
    host
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tcp,
    Udp,
    /// ICMP without privilege.
    Ping,
    /// IP, with a header by the kernel.
    Raw,
    /// IP, with a header by the sender.
    RawHeader,
    /// AF_PACKET.
    Packet,
}

pub const KINDS: [Kind; 6] = [
    Kind::Tcp,
    Kind::Udp,
    Kind::Ping,
    Kind::Raw,
    Kind::RawHeader,
    Kind::Packet,
];

/// A socket that sends to its own host.
#[derive(Debug)]
pub struct Sender {
    socket: Socket,
    message: Vec<u8>,
    to: Option<Destination>,
    /// Keeps the receiver alive.
    _peer: Option<Socket>,
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Sender {
    pub fn new(host: &Host, kind: Kind, family: Family) -> Self {
        host.enter(|| Self::here(kind, family))
    }

    fn here(kind: Kind, family: Family) -> Self {
        let domain = domain(family);
        let payload = vec![b'x'; PAYLOAD];
        let to = |address: SocketAddr| Some(address.into());
        let raw =
            |protocol| Socket::new(domain, Type::RAW, Some(Protocol::from(protocol))).unwrap();
        let (socket, message, to, peer) = match kind {
            Kind::Tcp => {
                let (sender, receiver) = tcp_pair(family);
                (sender.into(), payload, None, Some(receiver.into()))
            }
            Kind::Udp => {
                let peer = udp(family);
                let address = peer.local_addr().unwrap().as_socket().unwrap();
                (udp(family), payload, to(address), Some(peer))
            }
            Kind::Ping => {
                let protocol = match family {
                    Family::V4 => Protocol::ICMPV4,
                    Family::V6 => Protocol::ICMPV6,
                };
                let socket = Socket::new(domain, Type::DGRAM, Some(protocol)).unwrap();
                (
                    socket,
                    echo_request(family, &payload),
                    to(loopback(family, 0)),
                    None,
                )
            }
            Kind::Raw => (raw(PROTOCOL), payload, to(loopback(family, 0)), None),
            Kind::RawHeader => {
                // A v6 destination has the protocol in the place of the port (`rawv6_sendmsg()`,
                // net/ipv6/raw.c).
                let port = match family {
                    Family::V4 => 0,
                    Family::V6 => 255,
                };
                let packet = ip_packet(family, &payload);
                (
                    raw(libc::IPPROTO_RAW),
                    packet,
                    to(loopback(family, port)),
                    None,
                )
            }
            Kind::Packet => {
                let protocol = match family {
                    Family::V4 => libc::ETH_P_IP,
                    Family::V6 => libc::ETH_P_IPV6,
                };
                let socket = Socket::new(Domain::PACKET, Type::DGRAM, None).unwrap();
                let to = Destination::link(
                    interface_index("lo"),
                    u16::try_from(protocol).unwrap(),
                    [0; 6],
                );
                (socket, ip_packet(family, &payload), Some(to), None)
            }
        };
        Self {
            socket,
            message,
            to,
            _peer: peer,
        }
    }

    /// Return a UDP socket whose messages are stamped as by [`SND`].
    pub fn stamped(host: &Host) -> Self {
        let sender = Self::new(host, Kind::Udp, Family::V4);
        SND.apply(&sender).unwrap();
        sender
    }

    pub fn send(&self, options: MessageOptions) -> io::Result<usize> {
        send(
            &self.socket,
            &[IoSlice::new(&self.message)],
            self.to,
            options,
        )
    }
}

pub fn domain(family: Family) -> Domain {
    match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    }
}

pub fn loopback(family: Family, port: u16) -> SocketAddr {
    let address: IpAddr = match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    };
    (address, port).into()
}

pub fn udp(family: Family) -> Socket {
    let socket = Socket::new(domain(family), Type::DGRAM, None).unwrap();
    socket.bind(&loopback(family, 0).into()).unwrap();
    socket
}

pub fn tcp_pair(family: Family) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(loopback(family, 0)).unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    sender.set_nodelay(true).unwrap();
    (sender, listener.accept().unwrap().0)
}

/// Read until the connection ends, on a thread that ends with it.
pub fn read_all(mut stream: TcpStream) {
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
    });
}

/// Send one byte.
pub fn send_to(socket: impl AsFd, to: SocketAddr) {
    let bytes = [IoSlice::new(b"x")];
    assert_eq!(
        send(socket, &bytes, Some(to.into()), MessageOptions::new()).unwrap(),
        1
    );
}

/// Return ids and kinds of the stamps, when `count` have come.
pub fn ids_and_kinds(socket: impl AsFd, count: usize) -> Vec<(u32, TxKind)> {
    stamps(socket, count)
        .iter()
        .map(|stamp| (stamp.id, stamp.kind))
        .collect()
}

/// Within [`Host::enter`] the index there.
pub fn interface_index(name: &str) -> u32 {
    nix::net::if_::if_nametoindex(name).unwrap()
}

fn echo_request(family: Family, payload: &[u8]) -> Vec<u8> {
    let kind = match family {
        Family::V4 => 8,
        Family::V6 => 128,
    };
    [&[kind, 0, 0, 0, 0, 0, 0, 1], payload].concat()
}

/// Return a packet to the loopback address, of a protocol without a listener. The kernel fills in
/// the length and the checksum of IPv4 for raw sockets; for packet sockets the receiver drops wrong
/// packets, after they were stamped.
fn ip_packet(family: Family, payload: &[u8]) -> Vec<u8> {
    let protocol = u8::try_from(PROTOCOL).unwrap();
    let length = u8::try_from(payload.len()).unwrap();
    let header = match family {
        Family::V4 => {
            let local = Ipv4Addr::LOCALHOST.octets();
            let fields = [0x45, 0, 0, 20 + length, 0, 0, 0, 0, 64, protocol, 0, 0];
            [&fields[..], &local, &local].concat()
        }
        Family::V6 => {
            let local = Ipv6Addr::LOCALHOST.octets();
            [
                &[0x60, 0, 0, 0, 0, length, protocol, 64][..],
                &local,
                &local,
            ]
            .concat()
        }
    };
    [&header, payload].concat()
}

/// CLOCK_REALTIME in nanoseconds.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

/// The time of a stamp that the kernel took.
pub fn software(stamp: &TxStamp) -> u64 {
    match stamp.time {
        TxTime::Software(time) => time.as_nanos(),
        TxTime::Hardware(_) => panic!("no interface here has a clock: {stamp:?}"),
    }
}

/// Drain the error queue until `count` stamps have come, and once more; [`PATIENCE`] ends the
/// wait.
pub fn stamps(socket: impl AsFd, count: usize) -> Vec<TxStamp> {
    let mut queue = ErrorQueue::new();
    let mut stamps = Vec::new();
    let start = Instant::now();
    let mut drain = || {
        queue
            .drain(&socket, |report| match report {
                Report::Stamp { stamp, .. } => stamps.push(stamp),
                // Ignore errors: raw sockets may learn that their protocol has no listener.
                Report::Network(_) => {}
                other => panic!("{other:?}"),
            })
            .unwrap();
        stamps.len()
    };
    while drain() < count && start.elapsed() < PATIENCE {
        wait_for_error_queue(&socket, Duration::from_millis(100));
    }
    // Look for one stamp too many as well.
    thread::sleep(Duration::from_millis(5));
    drain();
    assert_eq!(queue.counters().lost(), 0, "{:?}", queue.counters());
    stamps
}

/// Return true if the error queue had an entry within that time.
pub fn wait_for_error_queue(socket: impl AsFd, timeout: Duration) -> bool {
    let mut sockets = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    poll(&mut sockets, PollTimeout::try_from(timeout).unwrap()).unwrap();
    sockets[0]
        .revents()
        .is_some_and(|events| events.contains(PollFlags::POLLERR))
}
