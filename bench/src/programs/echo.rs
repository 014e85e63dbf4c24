//! A UDP echo: a server that answers each datagram with itself, and a client that keeps several
//! requests under way.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;

const BYTES: usize = 64;
/// An answer that takes longer is lost: its request is replaced.
const PATIENCE: Duration = Duration::from_millis(100);

/// The line that announces that requests are answered.
pub(crate) const READY: &str = "ready";

/// Answer until it is killed.
pub(crate) fn serve(address: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(address)?;
    println!("{READY}");
    let mut datagram = [0; BYTES];
    loop {
        let (length, client) = socket.recv_from(&mut datagram)?;
        socket.send_to(&datagram[..length], client)?;
    }
}

/// Keep `window` requests under way for a time, and print one line of JSON.
pub(crate) fn ask(server: SocketAddr, window: usize, milliseconds: u64) -> Result<()> {
    let unspecified: SocketAddr = match server {
        SocketAddr::V4(_) => "0.0.0.0:0".parse()?,
        SocketAddr::V6(_) => "[::]:0".parse()?,
    };
    let socket = UdpSocket::bind(unspecified)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (began, time) = (Instant::now(), Duration::from_millis(milliseconds));
    let mut times = Vec::with_capacity(1 << 20);
    request(&socket, began, window)?;
    while began.elapsed() < time {
        match answer(&socket, began) {
            Ok(took) => {
                times.push(took);
                request(&socket, began, 1)?;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => request(&socket, began, window)?,
            Err(error) => return Err(error.into()),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    if times.is_empty() {
        bail!("nothing was answered");
    }
    times.sort_unstable();
    let rank =
        |of_hundred: usize| times[(times.len() * of_hundred).div_ceil(100) - 1].as_secs_f64() * 1e6;
    let (answers, p50, p99) = (times.len(), rank(50), rank(99));
    println!(
        "{}",
        json!({ "answers": answers, "seconds": seconds, "p50_us": p50, "p99_us": p99 })
    );
    Ok(())
}

/// Send requests, each with the time of its send.
fn request(socket: &UdpSocket, began: Instant, number: usize) -> io::Result<()> {
    for _ in 0..number {
        let mut datagram = [0; BYTES];
        let sent = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        datagram[..8].copy_from_slice(&sent.to_ne_bytes());
        socket.send(&datagram)?;
    }
    Ok(())
}

fn answer(socket: &UdpSocket, began: Instant) -> io::Result<Duration> {
    let mut datagram = [0; BYTES];
    socket.recv(&mut datagram)?;
    let sent = datagram
        .first_chunk()
        .map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    Ok(began.elapsed().saturating_sub(Duration::from_nanos(sent)))
}
