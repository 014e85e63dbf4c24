//! Sends by io_uring: SENDMSG_ZC.

use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{SockType, getsockopt, sockopt};

use crate::sys::ring::{Notification, Outgoing, SendRing};
use crate::sys::zerocopy::StableBuffer;
use crate::zerocopy::calls::{self, Support};
use crate::zerocopy::held::{Returned, Slot};
use crate::zerocopy::options::{How, Options};
use crate::zerocopy::sender::Sender;
use crate::zerocopy::transport::{Taken, Transport};
use crate::{Error, Result};

/// Sends by io_uring (IORING_OP_SENDMSG_ZC, since Linux 6.1), and gets completions from memory that
/// the ring shares with the kernel.
///
/// It differs from a [`ZeroCopySender`](super::ZeroCopySender) as follows:
///
/// - A send never blocks, whatever the socket does:
///   [`NotSent::WouldBlock`](super::NotSent::WouldBlock).
/// - Completions come in the ring, not in the error queue, for each send by itself; other senders
///   of the socket do not matter.
/// - Completions that the kernel has no room for are kept by it, and count against no limit; locked
///   memory does.
pub type RingSender<S, B> = Sender<Ring<S>, B>;

/// The transport by io_uring on a socket.
#[derive(Debug)]
pub struct Ring<S> {
    socket: S,
    stream: bool,
    support: Support,
    ring: SendRing,
    notices: Notices,
}

/// Maps notifications to buffers.
///
/// A send that failed may be notified as well, so its name is not used again before.
#[derive(Debug, Default)]
struct Notices {
    expected: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Come, but not handed out.
    come: Vec<(Slot, bool)>,
}

impl Notices {
    fn name(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.expected.push(None);
            self.expected.len() - 1
        })
    }

    /// Nothing will come with that name.
    fn forget(&mut self, name: usize) {
        self.expected[name] = None;
        self.free.push(name);
    }

    fn came(&mut self, notification: Notification) {
        let Some(name) = usize::try_from(notification.name)
            .ok()
            .filter(|&name| name < self.expected.len())
        else {
            return;
        };
        self.free.push(name);
        if let Some(slot) = self.expected[name].take() {
            self.come.push((slot, notification.copied));
        }
    }
}

impl<S: AsFd, B: StableBuffer> Sender<Ring<S>, B> {
    /// Make a ring for the sends of `socket`. `notifications` is how many completions it has room
    /// for: as many as sends will be in flight is best.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if `socket` is no socket, or io_uring is not to be had (ENOSYS, EPERM).
    pub fn new(socket: S, options: Options, notifications: u32) -> Result<Self> {
        let kind = getsockopt(&socket, sockopt::SockType)
            .map_err(Error::call("getsockopt(SO_TYPE)", "a socket"))?;
        let mut ring = SendRing::new(notifications)
            .map_err(Error::call("io_uring_setup", "a ring of sends"))?;
        let support = support(&mut ring)?;
        let ring = Ring {
            socket,
            stream: kind == SockType::Stream,
            support,
            ring,
            notices: Notices::default(),
        };
        Ok(Self::over(ring, options))
    }

    /// Return the ability of kernel and socket to send without a copy. The first send finds out the
    /// socket's.
    pub fn support(&self) -> Support {
        self.transport.support
    }

    /// The socket.
    pub fn socket(&self) -> &S {
        &self.transport.socket
    }

    /// Match the completions that have come. Mostly without a system call; never blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if io_uring_enter(2) fails.
    pub fn reap(&mut self) -> Result<()> {
        let Ring { ring, notices, .. } = &mut self.transport;
        ring.reap(|notification| notices.came(notification))
            .map_err(Error::call("io_uring_enter", "a ring of sends"))?;
        for (slot, copied) in notices.come.drain(..) {
            self.ledger.complete(slot, copied);
        }
        Ok(())
    }

    /// The next buffer that the kernel is done with, waiting for it up to `timeout`. `None`: none
    /// came in that time, or nothing is in flight.
    ///
    /// # Errors
    ///
    /// Those of [`reap`](Self::reap).
    pub fn wait_returned(&mut self, timeout: Duration) -> Result<Option<Returned<B>>> {
        if let Some(returned) = self.next_returned() {
            return Ok(Some(returned));
        }
        self.wait_until(timeout, Self::has_returned)?;
        Ok(self.next_returned())
    }

    /// Wait until nothing is in flight or `timeout` is over. `true`: nothing is in flight.
    ///
    /// This does not send bytes that a stream socket has not taken yet; they count as in flight.
    ///
    /// # Errors
    ///
    /// Those of [`reap`](Self::reap).
    pub fn wait_idle(&mut self, timeout: Duration) -> Result<bool> {
        self.wait_until(timeout, |_| false)?;
        Ok(self.in_flight() == 0)
    }

    /// Until something is `done`, nothing more can complete, or `timeout` is over.
    fn wait_until(&mut self, timeout: Duration, done: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            self.reap()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if done(self) || self.all_complete() || left.is_zero() {
                return Ok(());
            }
            self.transport
                .ring
                .wait(left)
                .map_err(Error::call("io_uring_enter", "a ring of sends"))?;
        }
    }
}

impl<S: AsFd> Transport for Ring<S> {
    const CALL: &'static str = "io_uring sendmsg";

    fn is_stream(&self) -> bool {
        self.stream
    }

    fn lends(&self) -> bool {
        self.support == Support::Available
    }

    fn lend(&mut self, bytes: &[u8], how: &How, slot: Slot) -> nix::Result<Taken> {
        let Self {
            ring,
            notices,
            socket,
            ..
        } = self;
        let name = notices.name();
        let how = how.encode();
        let outgoing = Outgoing {
            bytes,
            to: how.to(),
            control: how.control(),
            flags: how.flags,
        };
        let mut own = None;
        let outcome = ring.send(&*socket, outgoing, name as u64, |notification| {
            if notification.name == name as u64 {
                own = Some(notification);
            } else {
                notices.came(notification);
            }
        })?;
        notices.expected[name] = outcome.result.is_ok().then_some(slot);
        match own {
            Some(notification) => notices.came(notification),
            None if outcome.notified => {}
            None => notices.forget(name),
        }
        if outcome.result == Err(Errno::EOPNOTSUPP) {
            self.support = Support::Unsupported;
        }
        Ok(Taken {
            bytes: outcome.result?,
            in_flight: outcome.notified,
        })
    }

    fn copy(&mut self, bytes: &[u8], how: &How) -> nix::Result<usize> {
        calls::send(&self.socket, bytes, how, libc::MSG_DONTWAIT)
    }
}

/// Test by a send on a socket without support: a kernel that knows the request and its flags
/// returns EOPNOTSUPP, any other EINVAL.
fn support(ring: &mut SendRing) -> Result<Support> {
    if !ring.knows_sends() {
        return Ok(Support::Unsupported);
    }
    let (socket, _peer) = UnixDatagram::pair().map_err(|error| Error::Call {
        call: "socketpair",
        on: "AF_UNIX".into(),
        errno: error,
    })?;
    let outgoing = Outgoing {
        bytes: &[0],
        to: &[],
        control: &[],
        flags: 0,
    };
    let outcome = ring
        .send(&socket, outgoing, u64::MAX, |_| {})
        .map_err(Error::call("io_uring_enter", "a ring of sends"))?;
    Ok(match outcome.result {
        Err(Errno::EOPNOTSUPP) => Support::Available,
        _ => Support::Unsupported,
    })
}
