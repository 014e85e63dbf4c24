use std::io;
use std::os::fd::AsFd;

use crate::control;
use crate::sys::message::{self, BATCH, Buffers};

use super::Received;

/// Bytes for the control messages of a message.
const CONTROL: usize = 512;
const ADDRESS: usize = size_of::<libc::sockaddr_storage>();

/// Put together what the kernel wrote into the buffers of a message.
fn understand(received: message::Received, address: &[u8], control: &[u8]) -> Received {
    let mut said = Received::parse(&control[..received.control]);
    said.length = received.payload;
    said.truncated = received.flags & libc::MSG_TRUNC != 0;
    said.from = control::socket_address(&address[..received.address]);
    said.stamp_lost |= received.flags & libc::MSG_CTRUNC != 0;
    said
}

/// Receive one message, with its stamps. Blocks as the socket does.
///
/// Source: recvmsg(2); `__sock_recv_timestamp()` in net/socket.c, v6.18.
///
/// # Errors
///
/// A plain OS error, as from the standard library's `recv`.
pub fn receive(socket: impl AsFd, payload: &mut [u8]) -> io::Result<Received> {
    receive_by(socket, payload, 0)
}

/// Do the same, and never block.
#[cfg(feature = "tokio")]
pub(crate) fn receive_now(socket: impl AsFd, payload: &mut [u8]) -> io::Result<Received> {
    receive_by(socket, payload, libc::MSG_DONTWAIT)
}

fn receive_by(socket: impl AsFd, payload: &mut [u8], flags: i32) -> io::Result<Received> {
    let (mut address, mut control) = ([0; ADDRESS], [0; CONTROL]);
    let mut buffers = Buffers {
        payload,
        address: &mut address,
        control: &mut control,
    };
    let received = message::receive(socket, &mut buffers, flags)?;
    Ok(understand(received, &address, &control))
}

/// Receives many messages in one call. Its buffers are allocated once.
#[derive(Debug)]
pub struct ReceiveBatch {
    payload: Vec<u8>,
    size: usize,
    addresses: Box<[[u8; ADDRESS]; BATCH]>,
    controls: Box<[[u8; CONTROL]; BATCH]>,
}

impl ReceiveBatch {
    /// The most messages of one call.
    pub const MESSAGES: usize = BATCH;

    /// Create one for datagrams of at most `size` bytes.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    #[must_use]
    pub fn new(size: usize) -> Self {
        assert!(size > 0, "a message needs a buffer");
        Self {
            payload: vec![0; size * BATCH],
            size,
            addresses: Box::new([[0; ADDRESS]; BATCH]),
            controls: Box::new([[0; CONTROL]; BATCH]),
        }
    }

    /// Wait for a message, as the socket does, take the available ones, at most
    /// [`MESSAGES`](Self::MESSAGES), and pass each with its payload to `message`; return their
    /// number.
    ///
    /// If `message` panics, the messages behind it are lost, at most 31.
    ///
    /// Source: recvmmsg(2) with MSG_WAITFORONE.
    ///
    /// # Errors
    ///
    /// Those of [`receive`].
    pub fn receive(
        &mut self,
        socket: impl AsFd,
        mut message: impl FnMut(Received, &[u8]),
    ) -> io::Result<usize> {
        let mut received = [message::Received::default(); BATCH];
        let payloads = self.payload.chunks_exact_mut(self.size);
        let controls = self.addresses.iter_mut().zip(self.controls.iter_mut());
        let buffers = payloads
            .zip(controls)
            .map(|(payload, (address, control))| Buffers {
                payload,
                address,
                control,
            });
        let count = message::receive_many(socket, buffers, &mut received, libc::MSG_WAITFORONE)?;
        let payloads = self.payload.chunks_exact(self.size);
        let controls = self.addresses.iter().zip(self.controls.iter());
        for ((payload, (address, control)), received) in
            payloads.zip(controls).zip(received).take(count)
        {
            let what = understand(received, address, control);
            message(what, &payload[..what.length]);
        }
        Ok(count)
    }
}
