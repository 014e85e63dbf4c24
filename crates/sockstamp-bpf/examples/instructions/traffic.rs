//! Send messages over a connection, and read them, in one thread.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

const MESSAGE: [u8; 64] = [1; 64];

/// A connection over loopback.
pub(crate) struct Traffic {
    from: TcpStream,
    to: TcpStream,
}

impl Traffic {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let from = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (to, _) = listener.accept().expect("the connection");
        from.set_nodelay(true).expect("TCP_NODELAY");
        Self { from, to }
    }

    /// Send so many messages, and read each.
    pub(crate) fn pass(&mut self, messages: u64) {
        let mut buffer = MESSAGE;
        for _ in 0..messages {
            self.from.write_all(&MESSAGE).expect("a send");
            self.to.read_exact(&mut buffer).expect("a read");
        }
    }
}
