//! An epoll of one socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// Wakes who waits for a socket, and never again for what was there, as it is edge-triggered.
///
/// The socket is added with the first wait: the kernel calls the epoll for each send and each
/// stamp, which takes a tenth of their time, and who never waits does not need it.
#[derive(Debug)]
pub(crate) struct SocketEpoll {
    epoll: Epoll,
    /// EPOLLERR comes unasked.
    what: EpollFlags,
    begun: AtomicBool,
}

/// The socket, and one more.
const EVENTS: usize = 2;

impl SocketEpoll {
    pub(crate) fn new(what: EpollFlags) -> nix::Result<Self> {
        Ok(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            what,
            begun: AtomicBool::new(false),
        })
    }

    /// The same epoll, by a descriptor of its own.
    #[cfg(feature = "tokio")]
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll(self.epoll.0.try_clone()?),
            what: self.what,
            begun: AtomicBool::new(self.begun.load(Ordering::Relaxed)),
        })
    }

    /// Watch another descriptor as well.
    pub(crate) fn add(&self, other: impl AsFd, what: EpollFlags) -> nix::Result<()> {
        self.epoll
            .add(other, EpollEvent::new(what | EpollFlags::EPOLLET, 0))
    }

    /// Watch the socket from now on, the same with each call. Events that it has already wake, too.
    pub(crate) fn begin(&self, socket: impl AsFd) -> io::Result<()> {
        if self.begun.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.add(socket, self.what) {
            // Another thread may have begun as well.
            Ok(()) | Err(Errno::EEXIST) => self.begun.store(true, Ordering::Relaxed),
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// Wait for an event, at most this long, and take all that there are: the next one is a new
    /// edge.
    pub(crate) fn wait(&self, longest: EpollTimeout) -> io::Result<()> {
        match self.epoll.wait(&mut [EpollEvent::empty(); EVENTS], longest) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsRawFd for SocketEpoll {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.0.as_raw_fd()
    }
}
