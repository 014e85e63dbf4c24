//! Ask a server for the time as NTP does, and print what of the error is this host's own.
//!
//!     cargo run -p sockstamp --example time_client -- 192.0.2.1:123
//!
//! Without an address it asks a server of its own, on this host.

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, SystemTime};

use sockstamp::clock::{Delta, Nanos, Realtime, Timestamp};
use sockstamp::stamped::StampedSocket;
use sockstamp::timestamping::{Options, TxKind};

/// What an exchange tells.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// How far the server's clock is ahead, if both ways take as long.
    pub offset: Delta,
    /// How long both ways took; the offset is wrong by half of it at most.
    pub delay: Nanos,
    /// From the program to the driver: without stamps, half of it is in the offset.
    pub sending: Delta,
    /// From the kernel to the program: without stamps, half of it is in the offset.
    pub reading: Delta,
}

fn main() -> Result<(), Box<dyn Error>> {
    let server = match std::env::args().nth(1) {
        Some(address) => address.parse()?,
        None => own_server()?,
    };
    let answer = ask(server)?;
    println!("offset {}, delay {}", answer.offset, answer.delay);
    println!("the error is at most {}", Nanos(answer.delay.0 / 2));
    println!(
        "stamps keep {} of sending and {} of reading out of it",
        answer.sending, answer.reading
    );
    Ok(())
}

/// Ask once.
pub fn ask(server: SocketAddr) -> Result<Answer, Box<dyn Error>> {
    let any = if server.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let options = Options::new().tx_software().rx_software();
    let socket = StampedSocket::new(socket, options)?;
    // The kernel begins to stamp received packets some milliseconds later.
    thread::sleep(Duration::from_millis(50));

    let mut packet = [0; PACKET];
    packet[0] = VERSION_4 | CLIENT;
    let asked = now()?;
    let patience = Duration::from_secs(1);
    let (_, left) = socket.send_stamped(&packet, TxKind::Snd, patience)?;
    let came = socket.receive(&mut packet)?;
    let read = now()?;

    let left = left.and_then(|stamp| stamp.time.software());
    let left = left.ok_or("the stamp of the request is missing")?;
    let came = came
        .stamp
        .software
        .ok_or("the stamp of the answer is missing")?;
    let (there, back) = (time(&packet[RECEIVED..])?, time(&packet[SENT..])?);
    Ok(Answer {
        offset: Delta(((there - left) + (back - came)).0 / 2),
        delay: ((came - left) - (back - there))
            .to_nanos()
            .unwrap_or(Nanos::ZERO),
        sending: left - asked,
        reading: read - came,
    })
}

/// Answer with the time, until the program ends.
pub fn own_server() -> Result<SocketAddr, Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    let socket = StampedSocket::new(socket, Options::new().rx_software())?;
    thread::spawn(move || {
        let mut packet = [0; PACKET];
        while let Ok(request) = socket.receive(&mut packet) {
            let (Some(from), Some(came)) = (request.from, request.stamp.software) else {
                continue;
            };
            packet[0] = VERSION_4 | SERVER;
            packet[RECEIVED..SENT].copy_from_slice(&bytes(came));
            let Ok(sent) = now() else { return };
            packet[SENT..].copy_from_slice(&bytes(sent));
            if socket.send_to(&packet, from).is_err() {
                return;
            }
        }
    });
    Ok(address)
}

/// The header of NTP (RFC 5905, figure 8), and the places of two times in it.
const PACKET: usize = 48;
const RECEIVED: usize = 32;
const SENT: usize = 40;
const VERSION_4: u8 = 4 << 3;
const CLIENT: u8 = 3;
const SERVER: u8 = 4;
/// Seconds from 1900 to 1970.
const EPOCH: u64 = 2_208_988_800;

fn now() -> Result<Timestamp<Realtime>, Box<dyn Error>> {
    Timestamp::try_from(SystemTime::now()).map_err(|_| "the clock is not set".into())
}

/// Seconds since 1900, and 32 bits of their fraction.
fn time(field: &[u8]) -> Result<Timestamp<Realtime>, Box<dyn Error>> {
    let word = |at: usize| -> Result<u64, Box<dyn Error>> {
        Ok(u32::from_be_bytes(field[at..at + 4].try_into()?).into())
    };
    let seconds = word(0)?
        .checked_sub(EPOCH)
        .ok_or("the server has no time")?;
    let nanos = (word(4)? * 1_000_000_000) >> 32;
    Ok(Timestamp::from_nanos(seconds * 1_000_000_000 + nanos))
}

fn bytes(stamp: Timestamp<Realtime>) -> [u8; 8] {
    let (seconds, nanos) = (
        stamp.as_nanos() / 1_000_000_000,
        stamp.as_nanos() % 1_000_000_000,
    );
    // Rounded up, so that it comes back as it was.
    let fraction = (nanos << 32).div_ceil(1_000_000_000);
    (((seconds + EPOCH) << 32) | fraction).to_be_bytes()
}
