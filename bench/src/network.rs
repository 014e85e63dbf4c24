//! Connect the senders of benchmarks to another host, over a veth pair.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread::{self, JoinHandle};

use anyhow::Result;
use nix::libc;
use nix::sys::socket::{MsgFlags, recv};
use testbed::{Family, Host, Link};

use crate::processor;

/// The fate of packets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Packets are dropped before they are received, and so before they are copied, as if the peer
    /// were another host and the device read memory by itself. TCP is acknowledged at each short
    /// segment, before the send call returns.
    Sink,
    /// Packets are received, for which the kernel copies lent pages.
    Socket,
}

/// Longest packet, including its IP header.
pub(crate) const LONGEST: usize = 65_535;

/// The link is removed first.
pub(crate) struct Network {
    link: Link,
    sender: Host,
    receiver: Host,
    peer: Peer,
    reader: usize,
}

impl Network {
    /// Create the network; the CPU `reader` reads arriving data.
    pub(crate) fn new(peer: Peer, reader: usize) -> Result<Self> {
        let (sender, receiver) = (Host::new("sender")?, Host::new("receiver")?);
        // Others pace, probe, or grow slowly: one round would be unlike the next.
        sender.set_sysctl("net.ipv4.tcp_congestion_control", "reno")?;
        let link = Link::veth(&sender, &receiver)?;
        if peer == Peer::Sink {
            receiver.enter(|| testbed_bpf::sink::attach(link.interface_b()))?;
        }
        let network = Self {
            link,
            sender,
            receiver,
            peer,
            reader,
        };
        network.set_mtu(LONGEST)?;
        Ok(network)
    }

    /// Limit packets to this size, without segmentation.
    pub(crate) fn set_mtu(&self, bytes: usize) -> Result<()> {
        let (near, far) = (self.link.interface_a(), self.link.interface_b());
        for (host, interface) in [(&self.receiver, far), (&self.sender, near)] {
            let mtu = bytes.to_string();
            host.run(
                "ip",
                &["link", "set", interface, "mtu", &mtu, "gso_max_segs", "1"],
            )?;
        }
        Ok(())
    }

    /// Return a socket that sends to another one, which no task reads: datagrams without room are
    /// dropped.
    pub(crate) fn udp(&self, family: Family) -> Result<(UdpSocket, UdpSocket)> {
        let receiver = self
            .receiver
            .udp_bind(SocketAddr::new(self.link.address_b(family), 0))?;
        let sender = self
            .sender
            .udp_bind(SocketAddr::new(self.link.address_a(family), 0))?;
        sender.connect(receiver.local_addr()?)?;
        Ok((sender, receiver))
    }

    /// A connection.
    pub(crate) fn tcp(&self, family: Family) -> Result<(TcpStream, Far)> {
        let listener = self
            .receiver
            .tcp_listen(SocketAddr::new(self.link.address_b(family), 0))?;
        let sender = self.sender.tcp_connect(listener.local_addr()?)?;
        sender.set_nodelay(true)?;
        // The window of a handshake has no scale: two long segments fill it.
        (&sender).write_all(&[0])?;
        let (stream, _) = listener.accept()?;
        let (reads, processor) = (stream.try_clone()?, self.reader);
        let reader =
            (self.peer == Peer::Socket).then(|| thread::spawn(move || read_all(&reads, processor)));
        Ok((
            sender,
            Far {
                _stream: stream,
                reader,
            },
        ))
    }
}

/// The far end of a connection.
#[derive(Debug)]
pub(crate) struct Far {
    _stream: TcpStream,
    reader: Option<JoinHandle<Result<()>>>,
}

impl Far {
    /// Call this after the near end is closed.
    pub(crate) fn finish(self) -> Result<()> {
        self.reader
            .map_or(Ok(()), |reader| reader.join().expect("reads to the end"))
    }
}

/// Without copying it, since it is the sender that is measured.
fn read_all(stream: &TcpStream, processor: usize) -> Result<()> {
    processor::stay_on(processor)?;
    let mut most = vec![0; 1 << 20];
    let flags = MsgFlags::from_bits_retain(libc::MSG_TRUNC);
    while recv(stream.as_raw_fd(), &mut most, flags)? > 0 {}
    Ok(())
}
