use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};

use sockstamp::error_queue::ErrorQueue;
use sockstamp::zerocopy::{How, Options, Returned, Sent, ZeroCopySender};
use testbed::{Host, Link, PATIENCE};

pub const LOOPBACKS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

pub type Buffers<S> = ZeroCopySender<S, Vec<u8>>;

/// Print past the test harness, which hides the output of passing tests.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIP {test}: {reason}\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Leave the sockets of `host` 3000 bytes for options, of which each send without a copy takes
/// some 500 (`sock_omalloc()`).
pub fn leave_little_memory(host: &Host, test: &str) -> bool {
    let set = host.set_sysctl("net.core.optmem_max", "3000").is_ok();
    if !set {
        skip(
            test,
            "net.core.optmem_max is of the whole host, as on Linux 6.1",
        );
    }
    set
}

/// Request every send without a copy.
pub fn always() -> Options {
    Options::default().threshold(0)
}

/// Byte number `at` of a stream, or of a datagram that `seed` identifies.
pub fn byte(seed: u64, at: usize) -> u8 {
    let mixed = (seed + at as u64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (8 * (at % 8))).to_le_bytes()[0]
}

pub fn fill(buffer: &mut [u8], seed: u64, from: usize) {
    for (at, to) in buffer.iter_mut().enumerate() {
        *to = byte(seed, from + at);
    }
}

/// The first byte that differs from the stream of `seed`.
pub fn first_difference(bytes: &[u8], seed: u64, from: usize) -> Option<usize> {
    (0..bytes.len()).find(|&at| bytes[at] != byte(seed, from + at))
}

pub fn tcp_pair(address: IpAddr) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Two sockets, the first connected to the second.
pub fn udp_pair(address: IpAddr) -> (UdpSocket, UdpSocket) {
    let receiver = UdpSocket::bind((address, 0)).unwrap();
    let sender = UdpSocket::bind((address, 0)).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    (sender, receiver)
}

/// Read to the end on a thread and compare; return how many bytes came.
pub fn reads_stream(mut stream: TcpStream, seed: u64) -> JoinHandle<usize> {
    thread::spawn(move || {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (mut received, mut bytes) = (0, vec![0; 100_000]);
        loop {
            let read = stream.read(&mut bytes).unwrap();
            if read == 0 {
                return received;
            }
            assert_eq!(
                first_difference(&bytes[..read], seed, received),
                None,
                "at {received}"
            );
            received += read;
        }
    })
}

/// Send a buffer that the socket blocks for; it is back when it was copied.
pub fn send<S: AsFd>(sender: &mut Buffers<S>, buffer: Vec<u8>, how: How) -> Option<Vec<u8>> {
    match sender.send_by(buffer, how).unwrap() {
        Sent::InFlight => None,
        Sent::Copied(buffer) => Some(buffer),
        Sent::Partly { left } => panic!("{left} bytes are left, of a socket that blocks"),
    }
}

/// Wait until nothing is in flight, and return everything that came back.
pub fn all_back<S: AsFd>(sender: &mut Buffers<S>) -> Vec<Returned<Vec<u8>>> {
    let mut queue = ErrorQueue::new();
    let idle = sender
        .wait_idle(&mut queue, PATIENCE, |other| panic!("{other:?}"))
        .unwrap();
    assert!(idle, "{:?}", sender.counters());
    std::iter::from_fn(|| sender.next_returned()).collect()
}

/// Buffers that go round: taken while there are free ones, waited for when there are none.
pub struct Pool {
    free: Vec<Vec<u8>>,
    queue: ErrorQueue,
}

impl Pool {
    pub fn new(buffers: usize, length: usize) -> Pool {
        Pool {
            free: vec![vec![0; length]; buffers],
            queue: ErrorQueue::new(),
        }
    }

    pub fn take<S: AsFd>(&mut self, sender: &mut Buffers<S>) -> Vec<u8> {
        while self.free.is_empty() {
            sender
                .drain(&mut self.queue, |other| panic!("{other:?}"))
                .unwrap();
            let returned = std::iter::from_fn(|| sender.next_returned());
            self.free.extend(returned.map(|returned| returned.buffer));
            thread::yield_now();
        }
        self.free.pop().unwrap()
    }

    pub fn give(&mut self, buffer: Option<Vec<u8>>) {
        self.free.extend(buffer);
    }
}

/// Two hosts with a link between them. The link is removed first.
pub struct Network {
    pub link: Link,
    pub a: Host,
    pub b: Host,
}

impl Network {
    pub fn new() -> Network {
        let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
        let link = Link::veth(&a, &b).unwrap();
        Network { link, a, b }
    }

    /// Return a socket of `a`, connected to an unused address of the link.
    pub fn udp_to_nobody(&self) -> UdpSocket {
        let IpAddr::V4(address) = self.link.address_b(testbed::Family::V4) else {
            unreachable!("asked for IPv4");
        };
        let [net, link, number, _] = address.octets();
        let socket = self
            .a
            .udp_bind(SocketAddr::from(([0, 0, 0, 0], 0)))
            .unwrap();
        socket
            .connect((Ipv4Addr::new(net, link, number, 99), 9))
            .unwrap();
        socket
    }
}
