//! Sends by sendmsg(2) with MSG_ZEROCOPY.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};
use std::{hint, thread};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, MsgFlags, SockType, getsockopt, sockopt};

use crate::completions::{Completions, Registration};
use crate::error_queue::{ErrorQueue, Report, ZeroCopyRange};
use crate::sys::message::{self, BATCH};
use crate::sys::options;
use crate::sys::zerocopy::StableBuffer;
use crate::timestamping::TxStamp;
use crate::zerocopy::copy_back::{ReturnedBySends, copies_back};
use crate::zerocopy::held::{Returned, Slot};
use crate::zerocopy::memory::{CompletionCounters, CompletionsBy, Memory};
use crate::zerocopy::options::{How, Options};
use crate::zerocopy::ranges::Window;
use crate::zerocopy::sender::{Ledger, Sender};
use crate::zerocopy::transport::{Taken, Transport};
use crate::{Error, Result};

/// Sends by sendmsg(2) with MSG_ZEROCOPY, and gets completions as ranges of ids: from the socket's
/// error queue, from memory, or from the caller.
///
/// # Reading the error queue
///
/// Completions share the error queue with stamps and network errors, and its reader gets all three.
/// [`drain`](Self::drain) empties it and passes everything that is no completion to the caller. A
/// program that reads the queue itself, or gets completions from elsewhere, passes each range to
/// [`complete`](Self::complete) and calls [`drained`](Self::drained) when the queue is empty.
///
/// # From memory
///
/// After [`use_memory`](Self::use_memory) the same calls learn of completions from memory that
/// `sockstamp notifications` writes. They read the error queue rarely: every 10 ms, when 8 ranges
/// in it did not merge, when a quarter of the receive buffer is full while stamps are in it, after
/// a failed or refused send, and before they sleep. Stamps and network errors from the queue come
/// then: up to 10 ms later, if the program looks that often. Stamps are in memory at once
/// ([`stamps`](Self::stamps)). If the service ends, or its memory overruns, the error queue has
/// everything that is missing, and the sender returns to it by itself.
///
/// **poll.** In between the queue is not empty, so poll(2) always reports POLLERR. A program that
/// sleeps in a poll of its own uses edge-triggered epoll, which wakes for each new entry, or calls
/// [`drain_queue`](Self::drain_queue) before.
///
/// # From send calls
///
/// After [`use_sends`](Self::use_sends), where the kernel has that, each send returns the
/// completions of earlier ones. [`drain`](Self::drain) reads the error queue only if no send was
/// made since the last time, every 10 ms, when a quarter of the receive buffer is full (after eight
/// sends, and each time that they have doubled), and after a failed or refused send; waiting reads
/// it as well.
///
/// # Receivers on the same host
///
/// Linux 6.18 may report a completion seconds late where a socket of the same host reads the data
/// on another processor: it releases such packets when the sending processor handles its next one
/// (`skb_attempt_defer_free()`, net/core/skbuff.c; v7.3 excepts zerocopy). A process that depends
/// on it can set `net.core.skb_defer_max` to 0.
///
/// # One sender for a socket
///
/// The kernel numbers the sends of a socket. If another user of the socket sends with MSG_ZEROCOPY,
/// its completions count as ours, and a buffer may return too early: the peer may then get bytes
/// written since. The kernel holds the pages, so it never reads freed memory. A socket that already
/// had SO_ZEROCOPY is not used ([`Support::InUse`]), and ids that no send of ours can have end
/// sending without copies ([`Counters::foreign`](super::Counters::foreign)).
pub type ZeroCopySender<S, B> = Sender<Calls<S>, B>;

/// A socket's ability to send without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Can send without a copy.
    Available,
    /// The kernel lacks SO_ZEROCOPY (before Linux 4.14), or lacks it for this kind of socket: TCP
    /// and UDP have it; Unix, ping, raw and packet sockets do not (`sk_setsockopt()` in
    /// net/core/sock.c, v6.18).
    Unsupported,
    /// SO_ZEROCOPY was set before, so ids may have been given to sends of someone else. A
    /// connection that was accepted has it from its listening socket.
    InUse,
}

/// The transport by sendmsg(2) on a socket.
#[derive(Debug)]
pub struct Calls<S> {
    socket: S,
    stream: bool,
    support: Support,
    ids: Ids,
    memory: Option<Memory>,
    /// Not together with memory.
    returned: Option<ReturnedBySends>,
    /// The error queue must be read next time, whatever memory has.
    queue_due: bool,
    counters: CompletionCounters,
}

/// The owner of the ids that the kernel reports.
#[derive(Debug)]
struct Ids {
    window: Window<Slot>,
    /// Failed sends that may or may not have an id.
    unsettled: u32,
    foreign: bool,
}

impl Ids {
    /// Return how many sends the range completes.
    fn complete<B: StableBuffer>(&mut self, range: ZeroCopyRange, ledger: &mut Ledger<B>) -> u64 {
        let ahead = self.window.ahead(range);
        let matched = self
            .window
            .complete(range, |slot| ledger.complete(slot, range.copied));
        ledger.counters.repeated += matched.repeated;
        if ahead <= self.unsettled {
            self.unsettled -= ahead;
            self.window.skip(ahead);
        } else {
            self.foreign = true;
            ledger.counters.foreign += matched.unknown;
        }
        matched.completed
    }
}

impl<S: AsFd, B: StableBuffer> Sender<Calls<S>, B> {
    /// Set SO_ZEROCOPY on `socket`. If it cannot be set, everything is copied: see
    /// [`support`](Self::support).
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if `socket` is no socket.
    pub fn new(socket: S, options: Options) -> Result<Self> {
        let kind = getsockopt(&socket, sockopt::SockType)
            .map_err(Error::call("getsockopt(SO_TYPE)", "a socket"))?;
        let support =
            enable(&socket).map_err(Error::call("setsockopt(SO_ZEROCOPY)", "a socket"))?;
        let calls = Calls {
            socket,
            stream: kind == SockType::Stream,
            support,
            ids: Ids {
                window: Window::starting_at(0),
                unsettled: 0,
                foreign: false,
            },
            memory: None,
            returned: None,
            queue_due: false,
            counters: CompletionCounters::default(),
        };
        Ok(Self::over(calls, options))
    }

    /// Return the socket's ability to send without a copy.
    pub fn support(&self) -> Support {
        self.transport.support
    }

    /// The socket.
    pub fn socket(&self) -> &S {
        &self.transport.socket
    }

    /// Learns of completions from memory from now on, where the service still is; with `stamps` as
    /// [`Completions::register`] does. Where this fails nothing has changed.
    ///
    /// # Errors
    ///
    /// Those of [`Completions::register`].
    pub fn use_memory(&mut self, application: &Completions, stamps: bool) -> Result<()> {
        let registration = application.register(&self.transport.socket, stamps)?;
        self.complete_returned();
        self.transport.returned = None;
        self.transport.memory = Some(Memory::new(registration));
        // Read the queue soon: only it has earlier completions.
        self.transport.queue_due = true;
        Ok(())
    }

    /// Learns of completions from the send calls themselves from now on, where the running kernel
    /// has that ([`copies_back`]); `false` where it has not, or where memory is in use, which needs
    /// no help.
    ///
    /// # Errors
    ///
    /// Those of [`copies_back`].
    pub fn use_sends(&mut self) -> Result<bool> {
        let calls = &mut self.transport;
        let can = calls.support == Support::Available && calls.memory.is_none() && copies_back()?;
        if can && calls.returned.is_none() {
            calls.returned = Some(ReturnedBySends::new());
        }
        Ok(can)
    }

    /// Return the present source of completions.
    pub fn completions_by(&self) -> CompletionsBy {
        match (&self.transport.memory, &self.transport.returned) {
            (Some(_), _) => CompletionsBy::Memory,
            (None, Some(_)) => CompletionsBy::Sends,
            (None, None) => CompletionsBy::ErrorQueue,
        }
    }

    /// Return the sources of completions so far.
    pub fn completion_counters(&self) -> CompletionCounters {
        self.transport.counters
    }

    /// The socket's registration with the service, while memory is in use.
    pub fn registration(&self) -> Option<&Registration> {
        self.transport.memory.as_ref().map(Memory::registration)
    }

    /// Pass the stamps that came into memory since the last time to `each`: none if memory is not
    /// in use. Stamps that the socket requested by SO_TIMESTAMPING come again from
    /// [`drain`](Self::drain).
    pub fn stamps(&mut self, each: impl FnMut(TxStamp)) {
        if let Some(memory) = &mut self.transport.memory {
            memory.registration_mut().stamps(each);
        }
    }

    /// Process all completions so far. Where the error queue is read, it is emptied, and entries
    /// other than completions are passed to `other`. Return the number of ranges and entries.
    ///
    /// Never blocks. The error queue is read each time, unless completions come from memory or from
    /// send calls.
    ///
    /// # Errors
    ///
    /// Those of [`ErrorQueue::drain`].
    pub fn drain(
        &mut self,
        queue: &mut ErrorQueue,
        other: impl FnMut(Report<'_>),
    ) -> Result<usize> {
        let ranges = self.read_memory() + self.complete_returned();
        if !self.transport.queue_is_due() {
            return Ok(ranges);
        }
        Ok(ranges + self.drain_queue(queue, other)?)
    }

    /// Do the same as [`drain`](Self::drain), and always empty the error queue; return the number
    /// of entries.
    ///
    /// # Errors
    ///
    /// Those of [`ErrorQueue::drain`].
    pub fn drain_queue(
        &mut self,
        queue: &mut ErrorQueue,
        other: impl FnMut(Report<'_>),
    ) -> Result<usize> {
        self.complete_returned();
        let (calls, ledger) = (&mut self.transport, &mut self.ledger);
        if let Some(memory) = &mut calls.memory {
            memory.queue_is_read();
        }
        calls.counters.queue_reads += 1;
        let complete = |range| calls.counters.by_queue += calls.ids.complete(range, ledger);
        let entries = queue.drain_completions(&calls.socket, complete, other)?;
        self.drained();
        Ok(entries)
    }

    /// Return the number of ranges that sends have returned since the last time.
    fn complete_returned(&mut self) -> usize {
        let (calls, ledger) = (&mut self.transport, &mut self.ledger);
        let Some(returned) = &mut calls.returned else {
            return 0;
        };
        let mut ranges = 0;
        for range in returned.take() {
            ranges += 1;
            calls.counters.by_sends += calls.ids.complete(range, ledger);
        }
        ranges
    }

    /// Return the number of new ranges.
    fn read_memory(&mut self) -> usize {
        let (calls, ledger) = (&mut self.transport, &mut self.ledger);
        let Some(memory) = &mut calls.memory else {
            return 0;
        };
        let (ids, counters) = (&mut calls.ids, &mut calls.counters);
        let mut ranges = 0;
        let overruns = memory.read(|range| {
            ranges += 1;
            counters.by_memory += ids.complete(range, ledger);
        });
        counters.overruns += overruns;
        calls.queue_due |= overruns > 0;
        ranges
    }

    /// Match a range of completed sends, from whatever source; a range may be reported twice.
    pub fn complete(&mut self, range: ZeroCopyRange) {
        self.complete_returned();
        let calls = &mut self.transport;
        calls.counters.by_queue += calls.ids.complete(range, &mut self.ledger);
    }

    /// Note that all completions known to the kernel now have been given to
    /// [`complete`](Self::complete).
    ///
    /// After a failed send of a datagram it is unknown whether the kernel has given it an id:
    /// firewalls and queues drop it after that (`udp_send_skb()` in net/ipv4/udp.c, v6.18). If they
    /// did, its completion exists when the send fails, since dropping frees it. Until this call,
    /// sends are copied.
    pub fn drained(&mut self) {
        self.complete_returned();
        self.transport.ids.unsettled = 0;
        self.transport.queue_due = false;
        if let Some(returned) = &mut self.transport.returned {
            returned.queue_is_read();
        }
    }

    /// The next buffer that the kernel is done with, waiting for it up to `timeout` and reading the
    /// error queue until it comes. `None`: none came in that time, or nothing is in flight.
    ///
    /// # Errors
    ///
    /// Those of [`drain`](Self::drain), and [`Error::Call`] if poll(2) fails.
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

    /// Wait until nothing is in flight or `timeout` is over, reading the error queue until then.
    /// `true`: nothing is in flight.
    ///
    /// This does not send bytes that a stream socket has not taken yet; they count as in flight.
    ///
    /// # Errors
    ///
    /// Those of [`drain`](Self::drain), and [`Error::Call`] if poll(2) fails.
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
        let mut deadline = None;
        loop {
            self.look(queue, &mut other, &done)?;
            if done(self) || self.all_complete() {
                return Ok(());
            }
            let now = Instant::now();
            let left = deadline
                .get_or_insert(now + timeout)
                .saturating_duration_since(now);
            if left.is_zero() {
                return Ok(());
            }
            self.wait_for_error_queue(left)?;
        }
    }

    /// Empty the error queue, unless something is `done` or nothing more can complete: remaining
    /// entries would end a sleep at once.
    fn look(
        &mut self,
        queue: &mut ErrorQueue,
        other: &mut impl FnMut(Report<'_>),
        done: &impl Fn(&Self) -> bool,
    ) -> Result<()> {
        if self.transport.memory.is_none() {
            self.complete_returned();
            if done(self) && self.transport.ids.unsettled == 0 {
                return Ok(());
            }
            return self.read_queue(queue, other, done);
        }
        self.drain(queue, &mut *other)?;
        if !self.watch_memory(done) && self.transport.memory.is_some() {
            self.drain_queue(queue, other)?;
        }
        Ok(())
    }

    /// Poll memory for as long as a sleep and a wake-up take, or until something is `done` or
    /// nothing more can complete.
    fn watch_memory(&mut self, done: &impl Fn(&Self) -> bool) -> bool {
        const SLEEP_AND_WAKE_UP: Duration = Duration::from_micros(10);
        let mut start = None;
        loop {
            if done(self) || self.all_complete() {
                return true;
            }
            let start = start.get_or_insert_with(Instant::now);
            if self.transport.memory.is_none() || start.elapsed() >= SLEEP_AND_WAKE_UP {
                return false;
            }
            hint::spin_loop();
            self.read_memory();
        }
    }

    /// Read the error queue until something is `done` or nothing more can complete, or to its end.
    fn read_queue(
        &mut self,
        queue: &mut ErrorQueue,
        other: &mut impl FnMut(Report<'_>),
        done: &impl Fn(&Self) -> bool,
    ) -> Result<()> {
        let (mut entries, mut room) = (0, queue.expected());
        self.transport.counters.queue_reads += 1;
        loop {
            let (calls, ledger) = (&mut self.transport, &mut self.ledger);
            let mut complete = |range| calls.counters.by_queue += calls.ids.complete(range, ledger);
            let taken = queue.take_completions(&calls.socket, room, &mut complete, other)?;
            entries += taken;
            let is_empty = taken < room;
            if is_empty {
                self.drained();
            }
            let settled = self.transport.ids.unsettled == 0;
            if is_empty || settled && (done(self) || self.all_complete()) {
                queue.expect(entries);
                return Ok(());
            }
            room = BATCH;
        }
    }

    /// A connection that is shut down polls as POLLHUP at all times: there, looking again is all
    /// that is left.
    fn wait_for_error_queue(&self, longest: Duration) -> Result<()> {
        const LOOK_AGAIN: Duration = Duration::from_millis(1);
        let mut fds = [PollFd::new(
            self.transport.socket.as_fd(),
            PollFlags::empty(),
        )];
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

impl<S: AsFd> Calls<S> {
    /// A send may bring stamps, whether it returns completions or not.
    fn count_send(&mut self) {
        if let Some(returned) = &mut self.returned {
            returned.count_send();
        }
    }

    /// Look after the service as well.
    fn queue_is_due(&mut self) -> bool {
        let Some(memory) = &mut self.memory else {
            let due = self.queue_due || self.ids.unsettled > 0;
            let (returned, socket) = (self.returned.as_mut(), &self.socket);
            return returned.is_none_or(|returned| returned.queue_is_due(socket)) || due;
        };
        let is_time = memory.is_time();
        let due =
            is_time || self.queue_due || self.ids.unsettled > 0 || memory.queue_fills(&self.socket);
        if is_time && !memory.registration().is_served() {
            self.memory = None;
            self.counters.services_ended += 1;
        }
        due
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

    fn lend(&mut self, parts: &[IoSlice<'_>], how: &How, slot: Slot) -> nix::Result<Taken> {
        if !self.ids.window.reserve() {
            return Err(Errno::ENOBUFS);
        }
        let sent = match &mut self.returned {
            Some(returned) if returned.has_room() => {
                returned.send(&self.socket, parts, *how, libc::MSG_ZEROCOPY)
            }
            _ => send(&self.socket, parts, how, libc::MSG_ZEROCOPY),
        };
        match sent {
            // Count a send as unsettled if it may have an id: tcp_sendmsg_locked() takes the id
            // back where it sends nothing, and so does __ip_append_data() where it fails
            // (msg_zerocopy_put_abort(), net/core/skbuff.c, v6.18), but a later failure keeps it.
            Err(errno) if !self.stream && errno != Errno::EAGAIN => self.ids.unsettled += 1,
            // Read the queue after ENOBUFS: unread entries may use up the memory.
            Err(errno) => self.queue_due |= errno == Errno::ENOBUFS,
            Ok(_) => {
                self.ids.window.issue(slot);
                self.count_send();
            }
        }
        sent.map(|bytes| Taken {
            bytes,
            in_flight: true,
        })
    }

    fn copy(&mut self, parts: &[IoSlice<'_>], how: &How) -> nix::Result<usize> {
        let sent = send(&self.socket, parts, how, 0)?;
        self.count_send();
        Ok(sent)
    }
}

/// Call sendmsg(2), or send(2) if there is neither an address nor a control message nor a second
/// part, which saves the kernel a header. Repeat the call if a signal interrupts it.
pub(super) fn send(
    to: impl AsFd,
    parts: &[IoSlice<'_>],
    how: &How,
    flags: i32,
) -> nix::Result<usize> {
    let how = how.encode();
    let flags = how.flags | flags;
    loop {
        let sent = match parts {
            [part] if how.to().is_empty() && how.control().is_empty() => {
                let flags = MsgFlags::from_bits_retain(flags);
                socket::send(to.as_fd().as_raw_fd(), part, flags)
            }
            _ => message::send(&to, parts, how.to(), how.control(), flags),
        };
        if sent != Err(Errno::EINTR) {
            return sent;
        }
    }
}

/// Set SO_ZEROCOPY.
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
