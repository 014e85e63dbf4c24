//! Sends by io_uring: SENDMSG_ZC.

use std::io::IoSlice;
use std::marker::PhantomData;
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

/// A [`RingSender`] of one thread, whose completions the kernel writes when that thread
/// [asks](Sender::reap), all in one system call, and with each send.
///
/// The kernel does not interrupt the thread for each completion then. That is for programs that
/// look rarely, and have other work in between. Another thread cannot have it:
///
/// ```compile_fail,E0277
/// # use sockstamp::zerocopy::{DeferredRingSender, Options};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
/// let mut sender = DeferredRingSender::new(socket, Options::default(), 8).unwrap();
/// std::thread::spawn(move || sender.send(vec![0; 40_000]));
/// ```
///
/// Source: IORING_SETUP_DEFER_TASKRUN in io_uring_setup(2), since v6.1.
pub type DeferredRingSender<S, B> = Sender<Ring<S, OneThread>, B>;

/// The transport by io_uring on a socket, for the threads `T`: [`AnyThread`] or [`OneThread`].
#[derive(Debug)]
pub struct Ring<S, T = AnyThread> {
    socket: S,
    stream: bool,
    support: Support,
    ring: SendRing,
    notices: Notices,
    _threads: PhantomData<T>,
}

/// Any thread may have the ring.
#[derive(Debug)]
pub struct AnyThread(());

/// The thread that made the ring keeps it.
#[derive(Debug)]
pub struct OneThread(PhantomData<*const ()>);

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

    /// No completion will come with that name.
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
        Self::with_ring(socket, options, SendRing::new(notifications, false))
    }
}

impl<S: AsFd, B: StableBuffer> Sender<Ring<S, OneThread>, B> {
    /// Make a ring for the sends of `socket` by this thread. `notifications` is how many
    /// completions it has room for: as many as sends will be in flight is best.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if `socket` is no socket, or io_uring is not to be had (ENOSYS, EPERM), or
    /// has no such rings (EINVAL, before Linux 6.1).
    pub fn new(socket: S, options: Options, notifications: u32) -> Result<Self> {
        Self::with_ring(socket, options, SendRing::new(notifications, true))
    }
}

impl<S: AsFd, T, B: StableBuffer> Sender<Ring<S, T>, B> {
    fn with_ring(socket: S, options: Options, ring: nix::Result<SendRing>) -> Result<Self> {
        let kind = getsockopt(&socket, sockopt::SockType)
            .map_err(Error::call("getsockopt(SO_TYPE)", "a socket"))?;
        let mut ring = ring.map_err(Error::call("io_uring_setup", "a ring of sends"))?;
        let support = support(&mut ring)?;
        let ring = Ring {
            socket,
            stream: kind == SockType::Stream,
            support,
            ring,
            notices: Notices::default(),
            _threads: PhantomData,
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

impl<S: AsFd, T> Transport for Ring<S, T> {
    const CALL: &'static str = "io_uring sendmsg";

    fn is_stream(&self) -> bool {
        self.stream
    }

    fn lends(&self) -> bool {
        self.support == Support::Available
    }

    fn lend(&mut self, parts: &[IoSlice<'_>], how: &How, slot: Slot) -> nix::Result<Taken> {
        let Self {
            ring,
            notices,
            socket,
            ..
        } = self;
        let name = notices.name();
        let how = how.encode();
        let outgoing = Outgoing {
            parts,
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

    fn copy(&mut self, parts: &[IoSlice<'_>], how: &How) -> nix::Result<usize> {
        calls::send(&self.socket, parts, how, libc::MSG_DONTWAIT)
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
        parts: &[IoSlice::new(&[0])],
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
