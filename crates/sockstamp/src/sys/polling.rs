//! Descriptors in a runtime of tokio.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::task::{Context, Poll, ready};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

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

/// An edge-triggered epoll as a descriptor of the runtime: what it watches is this crate's affair.
///
/// A socket in the runtime itself counts as closed for writing once EPOLLERR came with EPOLLOUT
/// (`is_write_closed()`, src/sys/unix/selector/epoll.rs of mio 1.2), as it does with each stamp: no
/// task that waits for room would sleep again.
#[derive(Debug)]
pub(crate) struct Edges {
    epoll: AsyncFd<Descriptor>,
}

#[derive(Debug)]
struct Descriptor(Epoll);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

impl Edges {
    /// What an epoll has, which may have waiters elsewhere.
    ///
    /// # Panics
    ///
    /// Outside a runtime with I/O.
    pub(crate) fn of(epoll: impl AsFd) -> io::Result<Self> {
        let epoll = Descriptor(Epoll(epoll.as_fd().try_clone_to_owned()?));
        // SAFETY: as in `for_errors`: the AsyncFd owns the descriptor, which stays open and the
        // same until it is dropped.
        let epoll = unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE) }?;
        Ok(Self { epoll })
    }

    /// That an entry came into the error queue.
    pub(crate) fn errors(socket: impl AsFd) -> io::Result<Self> {
        Self::watch(socket, EpollFlags::empty())
    }

    /// That data or a connection came, or an end.
    pub(crate) fn readable(socket: impl AsFd) -> io::Result<Self> {
        Self::watch(socket, EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP)
    }

    /// That there is room.
    pub(crate) fn writable(socket: impl AsFd) -> io::Result<Self> {
        Self::watch(socket, EpollFlags::EPOLLOUT)
    }

    fn watch(socket: impl AsFd, what: EpollFlags) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(socket, EpollEvent::new(what | EpollFlags::EPOLLET, 0))?;
        Self::of(epoll.0)
    }

    /// Wait for an event since the last time, which may have been one of the error queue.
    pub(crate) async fn wait(&self) -> io::Result<()> {
        let mut ready = self.epoll.readable().await?;
        consume(self.epoll.get_ref())?;
        ready.clear_ready();
        Ok(())
    }

    /// Do the same for one task, the last that called.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ready = ready!(self.epoll.poll_read_ready(context))?;
        consume(self.epoll.get_ref())?;
        ready.clear_ready();
        Poll::Ready(Ok(()))
    }

    /// Try until it does not find the socket busy.
    pub(crate) async fn attempt<T>(
        &self,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait().await?,
                result => return result,
            }
        }
    }

    /// Do the same for one task, the last that called.
    pub(crate) fn poll_attempt<T>(
        &self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll(context))?;
                }
                result => return Poll::Ready(result),
            }
        }
    }
}

/// Take the events, so that the next one is a new edge.
fn consume(epoll: &Descriptor) -> io::Result<()> {
    epoll
        .0
        .wait(&mut [EpollEvent::empty(); 2], EpollTimeout::ZERO)?;
    Ok(())
}
