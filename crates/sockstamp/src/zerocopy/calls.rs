//! Sends by sendmsg(2) with MSG_ZEROCOPY.

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{SockType, getsockopt, sockopt};

use crate::error_queue::{ErrorQueue, Report, ZeroCopyRange};
use crate::sys::message;
use crate::sys::options;
use crate::sys::zerocopy::StableBuffer;
use crate::zerocopy::held::{Place, Returned};
use crate::zerocopy::options::{How, Options};
use crate::zerocopy::ranges::Window;
use crate::zerocopy::sender::{Books, Sender};
use crate::zerocopy::transport::{Lent, Transport};
use crate::{Error, Result};

/// Sends by sendmsg(2) with MSG_ZEROCOPY, and learns of completions by ranges of ids: from the socket's error queue, or from
/// whoever else knows them.
///
/// # Who reads the error queue
///
/// Completions share it with stamps and network errors, and whoever reads it gets all three.
/// [`drain`](Self::drain) takes out everything and hands what is no completion to the caller. A program that reads the
/// queue itself, or gets completions from elsewhere, gives each range to [`complete`](Self::complete) and calls
/// [`drained`](Self::drained) when there were no more.
///
/// # One sender for a socket
///
/// The kernel numbers the sends of a socket. If someone else sends with MSG_ZEROCOPY by the same socket, completions
/// of theirs are taken for ours, and a buffer may come back too early: the peer may get what was written to it since.
/// It is never memory that may not be read: the kernel holds the pages. A socket that had SO_ZEROCOPY set before is not
/// asked ([`Support::InUse`]), and ids that no send of ours can have end the asking ([`Counters::foreign`](super::Counters::foreign)).
pub type ZeroCopySender<S, B> = Sender<Calls<S>, B>;

/// Whether a socket can send without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Available,
    /// The kernel has no SO_ZEROCOPY (before Linux 4.14), or the protocol does not: TCP and UDP do.
    Unsupported,
    /// SO_ZEROCOPY was set before, so ids may have been given to sends of someone else. A connection that was accepted
    /// has it from its listening socket.
    InUse,
}

/// sendmsg(2) on a socket.
#[derive(Debug)]
pub struct Calls<S> {
    socket: S,
    stream: bool,
    support: Support,
    ids: Ids,
}

/// Whose are the ids that the kernel reports.
#[derive(Debug)]
struct Ids {
    window: Window<Place>,
    /// Failed sends of which nobody knows yet whether they have an id.
    unsettled: u32,
    foreign: bool,
}

impl Ids {
    fn complete<B: StableBuffer>(&mut self, range: ZeroCopyRange, books: &mut Books<B>) {
        let ahead = self.window.ahead(range);
        let matched = self
            .window
            .complete(range, |place| books.complete(place, range.copied));
        books.counters.repeated += matched.repeated;
        if ahead <= self.unsettled {
            self.unsettled -= ahead;
            self.window.skip(ahead);
        } else {
            self.foreign = true;
            books.counters.foreign += matched.unknown;
        }
    }
}

impl<S: AsFd, B: StableBuffer> Sender<Calls<S>, B> {
    /// Sets SO_ZEROCOPY on `socket`. Where it cannot be set, all is copied: [`support`](Self::support) tells.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if `socket` is no socket.
    pub fn new(socket: S, options: Options) -> Result<Self> {
        let kind =
            getsockopt(&socket, sockopt::SockType).map_err(Error::call("getsockopt(SO_TYPE)", "a socket"))?;
        let support = enable(&socket).map_err(Error::call("setsockopt(SO_ZEROCOPY)", "a socket"))?;
        let calls = Calls {
            socket,
            stream: kind == SockType::Stream,
            support,
            ids: Ids {
                window: Window::starting_at(0),
                unsettled: 0,
                foreign: false,
            },
        };
        Ok(Self::over(calls, options))
    }

    /// Whether the socket can send without a copy.
    pub fn support(&self) -> Support {
        self.transport.support
    }

    /// The socket.
    pub fn socket(&self) -> &S {
        &self.transport.socket
    }

    /// Takes everything out of the socket's error queue: completions are matched, and all else is given to `other`. How
    /// many entries there were.
    ///
    /// Never blocks.
    ///
    /// # Errors
    ///
    /// As [`ErrorQueue::drain`].
    pub fn drain(&mut self, queue: &mut ErrorQueue, mut other: impl FnMut(Report<'_>)) -> Result<usize> {
        let (calls, books) = (&mut self.transport, &mut self.books);
        let entries = queue.drain(&calls.socket, |report| match report {
            Report::ZeroCopy(range) => calls.ids.complete(range, books),
            report => other(report),
        })?;
        self.drained();
        Ok(entries)
    }

    /// Matches a range of completed sends, from whatever source; a range may be told twice.
    pub fn complete(&mut self, range: ZeroCopyRange) {
        self.transport.ids.complete(range, &mut self.books);
    }

    /// Says that all completions known to the kernel now have been given to [`complete`](Self::complete).
    ///
    /// After a failed send of a datagram it is not known whether the kernel has given it an id: firewalls and queues drop it
    /// behind that (`udp_send_skb()` in net/ipv4/udp.c, v6.18). If they did, its completion is there when the send
    /// fails, since that frees it. Until this call, sends are copied.
    pub fn drained(&mut self) {
        self.transport.ids.unsettled = 0;
    }

    /// The next buffer that the kernel is done with, waiting for it up to `timeout` and draining the error queue. `None`: none
    /// came in that time, or nothing is in flight.
    ///
    /// # Errors
    ///
    /// As [`drain`](Self::drain), and [`Error::Call`] if poll(2) fails.
    pub fn wait_returned(
        &mut self,
        queue: &mut ErrorQueue,
        timeout: Duration,
        other: impl FnMut(Report<'_>),
    ) -> Result<Option<Returned<B>>> {
        if let Some(returned) = self.next_returned() {
            return Ok(Some(returned));
        }
        self.wait_until(queue, timeout, other, Self::has_returned)?;
        Ok(self.next_returned())
    }

    /// Waits until nothing is in flight or `timeout` is over, draining the error queue. `true`: nothing is in flight.
    ///
    /// What a stream socket has not taken yet is not sent by this, and counts as in flight.
    ///
    /// # Errors
    ///
    /// As [`drain`](Self::drain), and [`Error::Call`] if poll(2) fails.
    pub fn wait_idle(
        &mut self,
        queue: &mut ErrorQueue,
        timeout: Duration,
        other: impl FnMut(Report<'_>),
    ) -> Result<bool> {
        self.wait_until(queue, timeout, other, |_| false)?;
        Ok(self.in_flight() == 0)
    }

    /// Until something is `done`, nothing more can complete, or `timeout` is over.
    fn wait_until(
        &mut self,
        queue: &mut ErrorQueue,
        timeout: Duration,
        mut other: impl FnMut(Report<'_>),
        done: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            self.drain(queue, &mut other)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if done(self) || self.all_complete() || left.is_zero() {
                return Ok(());
            }
            self.wait_for_error_queue(left)?;
        }
    }

    /// A connection that is shut down polls as POLLHUP at all times: there, looking again is all that is left.
    fn wait_for_error_queue(&self, longest: Duration) -> Result<()> {
        const LOOK_AGAIN: Duration = Duration::from_millis(1);
        let mut fds = [PollFd::new(self.transport.socket.as_fd(), PollFlags::empty())];
        let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::call("poll", "a socket")(errno)),
        }
        let events = fds[0].revents().unwrap_or(PollFlags::empty());
        if events.contains(PollFlags::POLLHUP) && !events.contains(PollFlags::POLLERR) {
            thread::sleep(LOOK_AGAIN.min(longest));
        }
        Ok(())
    }
}

impl<S: AsFd> Transport for Calls<S> {
    const CALL: &'static str = "sendmsg";

    fn is_stream(&self) -> bool {
        self.stream
    }

    fn lends(&self) -> bool {
        self.support == Support::Available && self.ids.unsettled == 0 && !self.ids.foreign
    }

    fn lend(&mut self, bytes: &[u8], how: &How, place: Place) -> nix::Result<Lent> {
        if !self.ids.window.reserve() {
            return Err(Errno::ENOBUFS);
        }
        let sent = send(&self.socket, bytes, how, libc::MSG_ZEROCOPY);
        match sent {
            // tcp_sendmsg_locked() takes the id back where it sends nothing, and so does __ip_append_data() where it
            // fails (msg_zerocopy_put_abort(), net/core/skbuff.c, v6.18). What fails behind that has an id.
            Err(errno) if !self.stream && errno != Errno::EAGAIN => self.ids.unsettled += 1,
            Err(_) => {}
            Ok(_) => {
                self.ids.window.issue(place);
            }
        }
        sent.map(|bytes| Lent {
            bytes,
            in_flight: true,
        })
    }

    fn copy(&mut self, bytes: &[u8], how: &How) -> nix::Result<usize> {
        send(&self.socket, bytes, how, 0)
    }
}

/// sendmsg(2), also where a signal interrupts it.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], how: &How, flags: i32) -> nix::Result<usize> {
    let how = how.encode();
    loop {
        let sent = message::send(
            &socket,
            &[IoSlice::new(bytes)],
            how.to(),
            how.control(),
            how.flags | flags,
        );
        if sent != Err(Errno::EINTR) {
            return sent;
        }
    }
}

/// Sets SO_ZEROCOPY.
fn enable(socket: impl AsFd) -> nix::Result<Support> {
    let (before, _) = match options::get(&socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 0_i32) {
        Err(Errno::ENOPROTOOPT) => return Ok(Support::Unsupported),
        result => result?,
    };
    if before != 0 {
        return Ok(Support::InUse);
    }
    match options::set(&socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &1_i32) {
        Ok(()) => Ok(Support::Available),
        Err(Errno::EOPNOTSUPP | Errno::ENOPROTOOPT) => Ok(Support::Unsupported),
        Err(errno) => Err(errno),
    }
}
