//! The messages that entries of an error queue are about.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use crate::Result;
use crate::control::socket_address;
use crate::sys::message::{BATCH, Buffers, Received, receive_many};

use super::Report;
use super::queue::{ErrorQueue, FLAGS, taken};

/// Bytes of an offending packet: at least the headers that a router quotes, and the mark that a
/// program put before its payload.
const QUOTED: usize = 128;
const ADDRESS: usize = size_of::<libc::sockaddr_storage>();

/// The message that an entry is about, as far as the kernel returns it; empty for stamps without
/// their packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Original<'a> {
    /// The destination. The port is 0 on sockets without ports.
    pub destination: Option<SocketAddr>,
    /// The beginning of the packet, at most 128 bytes: the payload of UDP; the part after the IP
    /// header on raw and ping sockets.
    pub packet: &'a [u8],
}

/// Room for the originals of one system call: 8 KiB, allocated once.
#[derive(Debug)]
pub struct Originals {
    addresses: Box<[[u8; ADDRESS]; BATCH]>,
    packets: Box<[[u8; QUOTED]; BATCH]>,
}

impl Originals {
    /// Allocates it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            addresses: Box::new([[0; ADDRESS]; BATCH]),
            packets: Box::new([[0; QUOTED]; BATCH]),
        }
    }

    fn at(&self, index: usize, received: Received) -> Original<'_> {
        Original {
            destination: socket_address(&self.addresses[index][..received.address]),
            packet: &self.packets[index][..received.payload],
        }
    }
}

impl Default for Originals {
    fn default() -> Self {
        Self::new()
    }
}

impl ErrorQueue {
    /// Like [`drain`](Self::drain), with the message that each entry is about, so that a socket
    /// with many peers can tell which peer failed.
    ///
    /// # Errors
    ///
    /// Those of [`drain`](Self::drain).
    pub fn drain_with_originals(
        &mut self,
        originals: &mut Originals,
        socket: impl AsFd,
        mut report: impl FnMut(Report<'_>, Original<'_>),
    ) -> Result<usize> {
        let mut all = 0;
        loop {
            let addresses = originals.addresses.iter_mut();
            let buffers = addresses
                .zip(originals.packets.iter_mut())
                .zip(self.control.iter_mut());
            let buffers = buffers.map(|((address, payload), control)| Buffers {
                payload,
                address,
                control,
            });
            let count = taken(receive_many(&socket, buffers, &mut self.received, FLAGS))?;
            for index in 0..count {
                let original = originals.at(index, self.received[index]);
                self.hand_out(index, |understood| report(understood, original));
            }
            all += count;
            if count < BATCH {
                return Ok(all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread::sleep;
    use std::time::Duration;

    use nix::sys::socket::{setsockopt, sockopt};

    use super::*;
    use crate::timestamping::Options;

    #[test]
    fn an_error_names_datagram_peer_and_time() {
        let gone = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let nowhere = gone.map(|socket| socket.local_addr().unwrap());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true).unwrap();
        Options::new().rx_software().apply(&socket).unwrap();
        // The host begins to stamp with some delay.
        sleep(Duration::from_millis(300));
        let (mut queue, mut originals, mut seen) =
            (ErrorQueue::new(), Originals::new(), Vec::new());
        for (to, payload) in nowhere.iter().zip([&b"first"[..], b"second"]) {
            socket.send_to(payload, to).unwrap();
            queue
                .drain_with_originals(&mut originals, &socket, |report, original| match report {
                    Report::Network(error) => {
                        assert!(error.stamp.software.is_some());
                        seen.push((original.destination, original.packet.to_vec()));
                    }
                    other => panic!("{other:?}"),
                })
                .unwrap();
        }
        let expected = [
            (Some(nowhere[0]), b"first".to_vec()),
            (Some(nowhere[1]), b"second".to_vec()),
        ];
        assert_eq!(seen, expected);
        assert_eq!(queue.counters().entries, 2);
    }
}
