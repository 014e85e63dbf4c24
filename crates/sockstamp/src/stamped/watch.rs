//! A private epoll for the entries of one socket's error queue.

use std::io;
use std::os::fd::AsFd;
#[cfg(feature = "tokio")]
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::{Error, Result};

/// Wakes who waits for stamps: once for each entry, and never again for one that was there, as the
/// epoll is edge-triggered. A connection that is over wakes once, too, where poll(2) would not let
/// anybody sleep.
///
/// The socket is added with the first wait: the kernel calls the epoll for each send and each
/// stamp, which takes a tenth of their time, and who never waits does not need it.
#[derive(Debug)]
pub(super) struct Watch {
    epoll: Epoll,
    wake: EventFd,
    begun: AtomicBool,
}

/// Both of them.
const EVENTS: usize = 2;

impl Watch {
    pub(super) fn new() -> Result<Self> {
        let failed = |call| Error::call(call, "a socket");
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed("epoll_create"))?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_value_and_flags(0, flags).map_err(failed("eventfd"))?;
        let woken = EpollFlags::EPOLLET | EpollFlags::EPOLLIN;
        epoll
            .add(&wake, EpollEvent::new(woken, 1))
            .map_err(failed("epoll_ctl"))?;
        let begun = AtomicBool::new(false);
        Ok(Self { epoll, wake, begun })
    }

    /// Watch the socket from now on. What is in its error queue already wakes, too.
    pub(super) fn begin(&self, socket: impl AsFd) -> io::Result<()> {
        if self.begun.load(Ordering::Relaxed) {
            return Ok(());
        }
        // EPOLLERR comes unasked.
        let added = self
            .epoll
            .add(socket, EpollEvent::new(EpollFlags::EPOLLET, 0));
        match added {
            // Another thread may have begun as well.
            Ok(()) | Err(Errno::EEXIST) => self.begun.store(true, Ordering::Relaxed),
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// Have a waiter look again.
    pub(super) fn wake(&self) {
        // The sum does not reach 2^64 in the life of a host, and nothing else fails.
        let _ = self.wake.write(1);
    }

    /// Wait for news, at most this long.
    pub(super) fn wait(&self, longest: Duration) -> io::Result<()> {
        let millis = longest.as_nanos().div_ceil(1_000_000);
        let millis = i32::try_from(millis).unwrap_or(i32::MAX);
        let longest = EpollTimeout::try_from(millis).unwrap_or(EpollTimeout::MAX);
        match self.epoll.wait(&mut [EpollEvent::empty(); EVENTS], longest) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(feature = "tokio")]
impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
