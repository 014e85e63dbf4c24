//! Send messages over a connection, and read them, in one thread.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};

/// Bytes of a message.
pub(crate) const SMALL: usize = 64;
/// Fits into the first buffers of a socket, so that one thread can send and read it.
pub(crate) const LARGE: usize = 32 << 10;

/// Messages, all of one kind.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Of so many bytes.
    Tcp(usize),
    /// Small, by a connected socket.
    Udp,
}

/// A connection over loopback.
enum Ends {
    Tcp(TcpStream, TcpStream),
    Udp(UdpSocket, UdpSocket),
}

/// Both ends, and a message.
pub(crate) struct Traffic {
    ends: Ends,
    message: Vec<u8>,
    buffer: Vec<u8>,
}

impl Ends {
    fn tcp() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let from =
            TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (to, _) = listener.accept().expect("the connection");
        from.set_nodelay(true).expect("TCP_NODELAY");
        Self::Tcp(from, to)
    }

    fn udp() -> Self {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let (from, to) = (bind(), bind());
        from.connect(to.local_addr().expect("an address"))
            .expect("a route");
        Self::Udp(from, to)
    }
}

impl Traffic {
    pub(crate) fn new(kind: Kind) -> Self {
        let (ends, bytes) = match kind {
            Kind::Tcp(bytes) => (Ends::tcp(), bytes),
            Kind::Udp => (Ends::udp(), SMALL),
        };
        Self {
            ends,
            message: vec![1; bytes],
            buffer: vec![0; bytes],
        }
    }

    pub(crate) fn is_udp(&self) -> bool {
        matches!(self.ends, Ends::Udp(..))
    }

    /// Send this many messages, and read each.
    pub(crate) fn pass(&mut self, messages: u64) {
        for _ in 0..messages {
            match &mut self.ends {
                Ends::Tcp(from, to) => {
                    from.write_all(&self.message).expect("a send");
                    to.read_exact(&mut self.buffer).expect("a read");
                }
                Ends::Udp(from, to) => {
                    from.send(&self.message).expect("a send");
                    to.recv(&mut self.buffer).expect("a read");
                }
            }
        }
    }
}
