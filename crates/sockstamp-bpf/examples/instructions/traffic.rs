//! Send messages over a connection, and read them, in one thread.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Bytes of a message.
pub(crate) const SMALL: usize = 64;
/// Fits into the first buffers of a socket, so that one thread can send and read it.
pub(crate) const LARGE: usize = 32 << 10;

/// A connection over loopback.
pub(crate) struct Traffic {
    from: TcpStream,
    to: TcpStream,
    message: Vec<u8>,
    buffer: Vec<u8>,
}

impl Traffic {
    pub(crate) fn new(bytes: usize) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let from = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (to, _) = listener.accept().expect("the connection");
        from.set_nodelay(true).expect("TCP_NODELAY");
        Self {
            from,
            to,
            message: vec![1; bytes],
            buffer: vec![0; bytes],
        }
    }

    /// Send this many messages, and read each.
    pub(crate) fn pass(&mut self, messages: u64) {
        for _ in 0..messages {
            self.from.write_all(&self.message).expect("a send");
            self.to.read_exact(&mut self.buffer).expect("a read");
        }
    }
}
