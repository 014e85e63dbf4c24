use std::fmt;
use std::io;
use std::os::fd::AsFd;

use crate::error_queue::{ErrorQueue, Report};
use crate::sys::options::set_nonblocking;
use crate::sys::polling::Edges;
use crate::sys::zerocopy::StableBuffer;
use crate::zerocopy::calls::ZeroCopySender;
use crate::zerocopy::held::Returned;
use crate::zerocopy::options::{How, Options};
use crate::zerocopy::sender::{NotSent, Sent};
use crate::{Error, Result};

/// A [`ZeroCopySender`] for tasks of tokio. Feature `tokio`.
///
/// Its readiness comes from epolls of its own: a completion wakes who waits for buffers, and a send
/// sleeps until there is room. It reads the error queue itself, so completions come while it waits,
/// for room as well.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::net::UdpSocket;
/// use sockstamp::zerocopy::{AsyncZeroCopySender, Options, Sent};
///
/// let receiver = UdpSocket::bind("127.0.0.1:0")?;
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// socket.connect(receiver.local_addr()?)?;
/// let mut sender = AsyncZeroCopySender::new(socket, Options::default())?;
/// if let Sent::Copied(buffer) = sender.send(vec![7; 40_000]).await? {
///     drop(buffer);
/// }
/// while let Some(returned) = sender.returned().await? {
///     println!("{} bytes to use again", returned.buffer.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct AsyncZeroCopySender<S, B: StableBuffer> {
    sender: ZeroCopySender<S, B>,
    queue: ErrorQueue,
    other: Box<dyn FnMut(Report<'_>) + Send>,
    entries: Edges,
    writable: Edges,
}

impl<S: AsFd, B: StableBuffer> AsyncZeroCopySender<S, B> {
    /// Make one of a socket, which becomes nonblocking, as [`ZeroCopySender::new`] does.
    ///
    /// # Errors
    ///
    /// Those of [`ZeroCopySender::new`], and [`Error::Call`] if no descriptor is left.
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio with I/O.
    pub fn new(socket: S, options: Options) -> Result<Self> {
        set_nonblocking(&socket).map_err(Error::call("ioctl(FIONBIO)", "a socket"))?;
        let (entries, writable) = (Edges::errors(), Edges::writable());
        Ok(Self {
            sender: ZeroCopySender::new(socket, options)?,
            queue: ErrorQueue::new(),
            other: Box::new(|_| {}),
            entries: entries.map_err(failed)?,
            writable: writable.map_err(failed)?,
        })
    }

    /// Pass entries of the error queue that are no completions, stamps among them, to `other`.
    /// Without this they are dropped.
    pub fn on_other(&mut self, other: impl FnMut(Report<'_>) + Send + 'static) {
        self.other = Box::new(other);
    }

    /// The sender, for what needs no waiting.
    pub fn get_mut(&mut self) -> &mut ZeroCopySender<S, B> {
        &mut self.sender
    }

    /// Send all of `buffer` to where the socket is connected, as soon as there is room.
    ///
    /// If it is cancelled, the buffer is dropped, or it is sent in part and comes back; the rest is
    /// sent with the next one.
    ///
    /// # Errors
    ///
    /// [`NotSent`], with the buffer; never [`NotSent::WouldBlock`].
    pub async fn send(&mut self, buffer: B) -> std::result::Result<Sent<B>, NotSent<B>> {
        self.send_by(buffer, How::default()).await
    }

    /// Send all of `buffer` to an address, in segments, or as a part of a datagram. It is otherwise
    /// like [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send).
    pub async fn send_by(
        &mut self,
        mut buffer: B,
        how: How,
    ) -> std::result::Result<Sent<B>, NotSent<B>> {
        loop {
            match self.sender.send_by(buffer, how) {
                Err(NotSent::WouldBlock(back)) => buffer = back,
                Ok(Sent::Partly { .. }) => {
                    let flushed = self.flush().await;
                    return flushed
                        .map(|()| Sent::InFlight)
                        .map_err(|error| NotSent::Failed {
                            buffer: None,
                            error,
                        });
                }
                result => return result,
            }
            if let Err(error) = self.room().await {
                return Err(NotSent::Failed {
                    buffer: Some(buffer),
                    error,
                });
            }
        }
    }

    /// Send bytes that a stream socket has not taken yet: those of a send that was cancelled.
    ///
    /// # Errors
    ///
    /// Those of [`Sender::flush`](super::Sender::flush).
    pub async fn flush(&mut self) -> Result<()> {
        while !self.sender.flush()? {
            self.room().await?;
        }
        Ok(())
    }

    /// Wait for the next buffer that the kernel is done with. `None`: nothing is in flight.
    ///
    /// # Errors
    ///
    /// Those of [`ErrorQueue::drain`].
    pub async fn returned(&mut self) -> Result<Option<Returned<B>>> {
        loop {
            if let Some(returned) = self.sender.next_returned() {
                return Ok(Some(returned));
            }
            self.drain()?;
            if self.sender.has_returned() {
                continue;
            }
            if self.sender.in_flight() == 0 {
                return Ok(None);
            }
            let socket = self.sender.socket();
            self.entries.wait(socket).await.map_err(failed)?;
        }
    }

    /// Wait for room, and give the kernel back what completions take of it.
    async fn room(&mut self) -> Result<()> {
        // Entries wake this, too: EPOLLERR comes unasked.
        let socket = self.sender.socket();
        self.writable.wait(socket).await.map_err(failed)?;
        self.drain()
    }

    fn drain(&mut self) -> Result<()> {
        self.sender.drain_queue(&mut self.queue, &mut self.other)?;
        Ok(())
    }
}

fn failed(error: io::Error) -> Error {
    Error::io("epoll", "a socket", error)
}

impl<S: fmt::Debug, B: StableBuffer + fmt::Debug> fmt::Debug for AsyncZeroCopySender<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncZeroCopySender")
            .field("sender", &self.sender)
            .finish_non_exhaustive()
    }
}
