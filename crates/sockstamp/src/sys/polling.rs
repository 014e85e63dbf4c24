//! Descriptors in a runtime of tokio.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use nix::sys::epoll::{EpollFlags, EpollTimeout};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::epoll::SocketEpoll;

/// Wait for EPOLLERR of `socket`, in the runtime that this is called in.
///
/// # Panics
///
/// Outside a runtime with I/O.
pub(crate) fn for_errors(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is open and the AsyncFd owns it from now on, so it stays open and
    // unchanged until the AsyncFd is dropped. An OwnedFd gives the same number each time.
    let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::ERROR) };
    Ok(registered?)
}

/// An epoll as a descriptor of the runtime: what it watches is this crate's affair.
///
/// A socket in the runtime itself counts as closed for writing once EPOLLERR came with EPOLLOUT
/// (`is_write_closed()`, src/sys/unix/selector/epoll.rs of mio 1.2), as it does with each stamp: no
/// task that waits for room would sleep again.
#[derive(Debug)]
pub(crate) struct Edges {
    epoll: AsyncFd<SocketEpoll>,
}

impl Edges {
    /// What an epoll has, which may have waiters elsewhere.
    ///
    /// # Panics
    ///
    /// Outside a runtime with I/O.
    pub(crate) fn of(epoll: SocketEpoll) -> io::Result<Self> {
        // SAFETY: as in `for_errors`: the AsyncFd owns the descriptor, which stays open and the
        // same until it is dropped.
        let epoll = unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE) }?;
        Ok(Self { epoll })
    }

    /// That an entry came into the error queue.
    pub(crate) fn errors() -> io::Result<Self> {
        Self::of(SocketEpoll::new(EpollFlags::empty())?)
    }

    /// That data or a connection came, or an end.
    pub(crate) fn readable() -> io::Result<Self> {
        Self::of(SocketEpoll::new(
            EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP,
        )?)
    }

    /// That there is room.
    pub(crate) fn writable() -> io::Result<Self> {
        Self::of(SocketEpoll::new(EpollFlags::EPOLLOUT)?)
    }

    /// Wait for an event of `socket` since the last time, which may have been one of the error
    /// queue. It must be the same socket each time.
    pub(crate) async fn wait(&self, socket: impl AsFd) -> io::Result<()> {
        self.epoll.get_ref().begin(socket)?;
        let mut ready = self.epoll.readable().await?;
        self.epoll.get_ref().wait(EpollTimeout::ZERO)?;
        ready.clear_ready();
        Ok(())
    }

    /// Do the same for one task, the last that called.
    pub(crate) fn poll(
        &self,
        socket: impl AsFd,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.epoll.get_ref().begin(socket)?;
        let mut ready = ready!(self.epoll.poll_read_ready(context))?;
        self.epoll.get_ref().wait(EpollTimeout::ZERO)?;
        ready.clear_ready();
        Poll::Ready(Ok(()))
    }

    /// Try until it does not find the socket busy.
    pub(crate) async fn attempt<T>(
        &self,
        socket: impl AsFd,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(&socket).await?;
                }
                result => return result,
            }
        }
    }

    /// Do the same for one task, the last that called.
    pub(crate) fn poll_attempt<T>(
        &self,
        socket: impl AsFd,
        context: &mut Context<'_>,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll(&socket, context))?;
                }
                result => return Poll::Ready(result),
            }
        }
    }
}
