use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Report;
use super::counters::Counters;
use super::queue::ErrorQueue;
use crate::Result;
use crate::sys::polling;

/// The error queue of one socket, for tasks of tokio. Feature `tokio`.
///
/// It has its own descriptor of the socket, so it can be used together with tokio's `TcpStream` or
/// `UdpSocket` for the same socket. Entries in the queue (EPOLLERR) wake its task.
///
/// **They also make tokio's socket writable for ever**: mio takes EPOLLERR with EPOLLOUT for a
/// closed peer (`is_write_closed()`), and tokio never forgets that. A task that waits for room, as
/// `write_all` does when the peer reads slowly, then tries again without rest and takes a whole
/// processor. Tasks that read are not concerned. Where a writer may have to wait, use
/// [`AsyncStampedSocket`](crate::stamped::AsyncStampedSocket) or
/// [`AsyncZeroCopySender`](crate::zerocopy::AsyncZeroCopySender).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use sockstamp::error_queue::{AsyncErrorQueue, Report};
/// use sockstamp::timestamping::Options;
///
/// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
/// Options::new().tx_software().id().only_stamps().apply(&socket)?;
/// let mut queue = AsyncErrorQueue::new(&socket)?;
/// socket.send_to(b"hello", socket.local_addr()?).await?;
/// queue.drain(|report| assert!(matches!(report, Report::Stamp { .. }))).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncErrorQueue {
    socket: AsyncFd<OwnedFd>,
    queue: ErrorQueue,
}

impl AsyncErrorQueue {
    /// Create one for this socket.
    ///
    /// # Errors
    ///
    /// If no descriptor is left, or it cannot be polled.
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio with I/O.
    pub fn new(socket: impl AsFd) -> io::Result<Self> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        Ok(Self {
            socket: polling::for_errors(socket)?,
            queue: ErrorQueue::new(),
        })
    }

    /// Wait until the queue has entries, and drain it as [`ErrorQueue::drain`] does. How many
    /// were taken, 1 at least.
    ///
    /// Cancel safe: entries that it takes are reported before it waits again. It waits forever if
    /// nothing more comes, even when the connection is over.
    ///
    /// # Errors
    ///
    /// Those of [`ErrorQueue::drain`].
    pub async fn drain(&mut self, mut report: impl FnMut(Report<'_>)) -> Result<usize> {
        loop {
            let mut ready = self
                .socket
                .ready(Interest::ERROR)
                .await
                .map_err(|error| crate::Error::io("epoll", "a socket", error))?;
            let taken = self.queue.drain(self.socket.get_ref(), &mut report)?;
            // The queue was empty at the end: an entry since then makes it ready again, as the poll
            // is edge-triggered.
            ready.clear_ready();
            if taken > 0 {
                return Ok(taken);
            }
        }
    }

    /// Return the same as [`ErrorQueue::counters`].
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.queue.counters()
    }
}
