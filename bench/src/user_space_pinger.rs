//! A pinger that takes its own times, built like those in Go (pro-bing): the sender puts the time
//! into the payload, the receiver passes packets to a third thread, and the round trip ends when
//! that one reads its own clock.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use socket2::{Domain, Protocol, Socket, Type};

const INTERVAL: Duration = Duration::from_millis(7);
const TIME: Duration = Duration::from_secs(5);
/// Longest time of a read, so that its thread notices the end.
const PATIENCE: Duration = Duration::from_millis(100);
/// RFC 792: type 8 code 0 and a checksum, an identifier and a sequence number, which are left 0.
const HEADER: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, 0];
const ECHO_REPLY: u8 = 0;
const PAYLOAD: usize = 56;
/// Bytes of an IPv4 header without options, which a raw socket receives.
const IP_HEADER: usize = 20;

/// Print a line for each answer.
pub(crate) fn ping(address: IpAddr) -> Result<()> {
    ensure!(address.is_ipv4(), "it knows IPv4 alone");
    let socket =
        Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).context("no raw socket")?;
    socket.connect(&SocketAddr::new(address, 0).into())?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let start = Instant::now();
    let (hand_over, received) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| receive(&socket, start, hand_over));
        scope.spawn(|| {
            received
                .into_iter()
                .for_each(|packet: Vec<u8>| look_at(&packet, start))
        });
        send(&socket, start)
    })?;
    Ok(())
}

/// Send by a ticker that drops ticks when the thread is late, as Go's does.
fn send(socket: &Socket, start: Instant) -> io::Result<()> {
    let mut tick = start;
    while start.elapsed() < TIME {
        let mut packet = HEADER.to_vec();
        packet.extend(nanos(start.elapsed()).to_be_bytes());
        packet.resize(HEADER.len() + PAYLOAD, 0);
        let sum = checksum(&packet).to_be_bytes();
        packet[2..4].copy_from_slice(&sum);
        socket.send(&packet)?;
        tick = (tick + INTERVAL).max(Instant::now());
        thread::sleep(tick.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn receive(mut socket: &Socket, start: Instant, hand_over: Sender<Vec<u8>>) {
    let mut buffer = [0; 256];
    while start.elapsed() < TIME + PATIENCE {
        // No answer came, or an error about an earlier probe.
        let Ok(length) = socket.read(&mut buffer) else {
            continue;
        };
        if hand_over.send(buffer[..length].to_vec()).is_err() {
            return;
        }
    }
}

fn look_at(packet: &[u8], start: Instant) {
    let (kind, sent) = (
        packet.get(IP_HEADER),
        packet.get(IP_HEADER + HEADER.len()..),
    );
    let sent = sent.and_then(|payload| payload.first_chunk());
    if let (Some(&ECHO_REPLY), Some(sent)) = (kind, sent) {
        let rtt = nanos(start.elapsed()).saturating_sub(u64::from_be_bytes(*sent));
        println!("time={} ms", Duration::from_nanos(rtt).as_secs_f64() * 1e3);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// RFC 1071, of an even number of bytes.
fn checksum(packet: &[u8]) -> u16 {
    let words = packet
        .chunks_exact(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    u16::try_from(!sum & 0xffff).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_with_its_checksum_sums_up_to_nothing() {
        let mut packet = HEADER.to_vec();
        packet.extend(0x0123_4567_89ab_cdef_u64.to_be_bytes());
        let sum = checksum(&packet).to_be_bytes();
        packet[2..4].copy_from_slice(&sum);
        assert_eq!(checksum(&packet), 0);
    }
}
