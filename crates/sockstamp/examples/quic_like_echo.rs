//! Echo numbered datagrams in batches, as QUIC sends them, and print round trips by the kernel's
//! stamps beside those that the program sees.
//!
//!     cargo run -p sockstamp --example quic_like_echo -- 192.0.2.1:4433
//!
//! Without an address it sends to an echo of its own, on this host. The echo tells how long it had
//! each packet, as an ACK of QUIC does (RFC 9000, section 13.2.5), but from the kernel's stamp on.

use std::error::Error;
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use sockstamp::clock::{Delta, Nanos, Realtime, Timestamp};
use sockstamp::stamped::StampedSocket;
use sockstamp::timestamping::{Options, Outgoing};

/// The round trip of a packet.
#[derive(Debug, Clone, Copy)]
pub struct RoundTrip {
    /// From the driver to the kernel's receipt of the echo, without the echo's delay.
    pub path: Delta,
    /// What the echo says that it had the packet for.
    pub delay: Nanos,
    /// From before the send to after the receive, by the program's clock.
    pub seen: Nanos,
}

/// The number of the packet, and the delay of the echo.
const PACKET: usize = 16;
/// Packets that are sent by one call.
const BATCH: usize = 10;
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let server = match std::env::args().nth(1) {
        Some(address) => address.parse()?,
        None => echo()?,
    };
    let mut trips = exchange(server, 100)?;
    trips.sort_by_key(|trip| trip.path);
    for (name, at) in [("p50", trips.len() / 2), ("max", trips.len() - 1)] {
        let RoundTrip { path, delay, seen } = trips[at];
        println!("{name} {path} on the path, {delay} in the echo, {seen} as the program sees it");
    }
    Ok(())
}

/// Send this many packets, and return the round trips of those that came back with their stamps.
pub fn exchange(server: SocketAddr, packets: usize) -> Result<Vec<RoundTrip>, Box<dyn Error>> {
    let any = if server.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let socket = StampedSocket::new(socket, Options::new().tx_software().rx_software())?;
    // The kernel begins to stamp received packets some milliseconds later.
    thread::sleep(Duration::from_millis(50));
    let mut trips = Vec::new();
    for _ in 0..packets.div_ceil(BATCH) {
        trips.extend(exchange_batch(&socket)?);
    }
    Ok(trips)
}

fn exchange_batch(socket: &StampedSocket<UdpSocket>) -> Result<Vec<RoundTrip>, Box<dyn Error>> {
    let payloads: [[u8; PACKET]; BATCH] = std::array::from_fn(|number| packet(number, 0));
    let parts = payloads.each_ref().map(|payload| IoSlice::new(payload));
    let messages: Vec<_> = parts.chunks(1).map(Outgoing::new).collect();
    let start = Instant::now();
    let mut sent = Vec::new();
    while sent.len() < BATCH {
        sent.extend(socket.send_batch(&messages[sent.len()..])?);
    }
    let mut came = [None; BATCH];
    let mut payload = [0; PACKET];
    while came.iter().any(Option::is_none) {
        let Ok(received) = socket.receive(&mut payload) else {
            break; // Some were lost.
        };
        let (number, delay) = read(&payload).ok_or("the server is no echo")?;
        let place = came.get_mut(number).ok_or("the server is no echo")?;
        *place = received
            .stamp
            .software
            .map(|at| (at, delay, start.elapsed()));
    }
    let mut trips = Vec::new();
    for stamped in socket.wait_stamps(PATIENCE)? {
        let number = sent.iter().position(|sent| sent.token == stamped.token);
        let Some((at, delay, seen)) = number.and_then(|number| came[number]) else {
            continue;
        };
        let left = stamped
            .stamp
            .time
            .software()
            .ok_or("stamps of software are requested")?;
        let path = at - left - Delta(i64::try_from(delay.as_nanos())?);
        trips.push(RoundTrip {
            path,
            delay,
            seen: seen.into(),
        });
    }
    Ok(trips)
}

/// Send each packet back, with the time since its arrival, until the program ends.
pub fn echo() -> Result<SocketAddr, Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    let socket = StampedSocket::new(socket, Options::new().rx_software())?;
    thread::spawn(move || {
        let mut payload = [0; PACKET];
        while let Ok(received) = socket.receive(&mut payload) {
            let (Some(from), Some((number, _))) = (received.from, read(&payload)) else {
                continue;
            };
            let delay = received.stamp.software.and_then(since).unwrap_or(0);
            if socket.send_to(&packet(number, delay), from).is_err() {
                return;
            }
        }
    });
    Ok(address)
}

fn since(time: Timestamp<Realtime>) -> Option<u64> {
    let now = Timestamp::try_from(std::time::SystemTime::now()).ok()?;
    now.since(time).map(Nanos::as_nanos)
}

fn packet(number: usize, delay: u64) -> [u8; PACKET] {
    let mut packet = [0; PACKET];
    packet[..8].copy_from_slice(&(number as u64).to_be_bytes());
    packet[8..].copy_from_slice(&delay.to_be_bytes());
    packet
}

fn read(packet: &[u8; PACKET]) -> Option<(usize, Nanos)> {
    let (words, _) = packet.as_chunks::<8>();
    let number = usize::try_from(u64::from_be_bytes(words[0])).ok()?;
    Some((number, Nanos(u64::from_be_bytes(words[1]))))
}
