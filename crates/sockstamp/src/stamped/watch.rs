//! A private epoll for the entries of one socket's error queue.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::epoll::{EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::sys::epoll::SocketEpoll;
use crate::{Error, Result};

/// Wakes who waits for stamps: once for each entry, and never again for one that was there. A
/// connection that is over wakes once, too, where poll(2) would not let anybody sleep.
#[derive(Debug)]
pub(super) struct Watch {
    epoll: SocketEpoll,
    wake: EventFd,
}

impl Watch {
    pub(super) fn new() -> Result<Self> {
        let failed = |call| Error::call(call, "a socket");
        let epoll = SocketEpoll::new(EpollFlags::empty()).map_err(failed("epoll_create"))?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_value_and_flags(0, flags).map_err(failed("eventfd"))?;
        epoll
            .add(&wake, EpollFlags::EPOLLIN)
            .map_err(failed("epoll_ctl"))?;
        Ok(Self { epoll, wake })
    }

    /// Have a waiter look again.
    pub(super) fn wake(&self) {
        // The sum does not reach 2^64 in the life of a host, and nothing else fails.
        let _ = self.wake.write(1);
    }

    /// Wait for news of this socket, at most this long.
    pub(super) fn wait(&self, socket: impl AsFd, longest: Duration) -> io::Result<()> {
        self.epoll.begin(socket)?;
        let millis = longest.as_nanos().div_ceil(1_000_000);
        let millis = i32::try_from(millis).unwrap_or(i32::MAX);
        self.epoll
            .wait(EpollTimeout::try_from(millis).unwrap_or(EpollTimeout::MAX))
    }

    /// The epoll, for tasks that wait.
    #[cfg(feature = "tokio")]
    pub(super) fn epoll(&self) -> io::Result<SocketEpoll> {
        self.epoll.try_clone()
    }
}
