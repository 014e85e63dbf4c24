use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ids::Ids;
use super::settings::Settings;
use super::state::State;
use super::token::{Counters, Sent, Stamped, Token};
use super::watch::Watch;
use crate::Result;
use crate::error_queue::{DepartureError, ErrorQueue, NetworkError};
use crate::timestamping::{
    Destination, MessageOptions, Options, Received, TxKind, TxStamp, receive, restart_ids, send,
};

/// A socket whose sends have [`Token`]s, by which their stamps are known: of datagrams or of a
/// stream.
///
/// All sends of the socket must be made by this, and nothing else may read its error queue or
/// change its options. It blocks as the socket does, in sends and receives.
///
/// Stamps that nobody takes are kept, up to the [capacity](Settings::capacity), and older ones
/// dropped, with a [count](Counters::dropped).
#[derive(Debug)]
pub struct StampedSocket<S> {
    pub(super) socket: S,
    pub(super) options: Options,
    pub(super) ids: Ids,
    /// Held over a send that the kernel counts, and what is noted of it.
    pub(super) turn: Mutex<()>,
    queue: Mutex<ErrorQueue>,
    state: Mutex<State>,
    /// Threads wait by it that are not the one at the epoll.
    news: Condvar,
    watch: Watch,
}

impl<S: AsFd> StampedSocket<S> {
    /// Have each message of `socket` stamped as `options` request; [`id`](Options::id) and
    /// [`only_stamps`](Options::only_stamps) come with it. A stream must be connected.
    ///
    /// # Errors
    ///
    /// Those of [`Options::apply`], and [`Error::Call`](crate::Error::Call) if no descriptor is
    /// left.
    pub fn new(socket: S, options: Options) -> Result<Self> {
        Self::with(socket, options, Settings::new())
    }

    /// Do the same, with these settings.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub fn with(socket: S, options: Options, settings: Settings) -> Result<Self> {
        let Settings { capacity, counted } = settings;
        let watch = Watch::new()?;
        let (ids, matcher) = Ids::prepare(&socket, options, capacity, counted)?;
        Ok(Self {
            socket,
            options,
            ids,
            turn: Mutex::default(),
            queue: Mutex::default(),
            state: Mutex::new(State::new(matcher, capacity)),
            news: Condvar::new(),
            watch,
        })
    }

    /// The socket. To send by it gives its stamps to other sends.
    pub fn get_ref(&self) -> &S {
        &self.socket
    }

    /// Return the socket, with its options as they are.
    pub fn into_inner(self) -> S {
        self.socket
    }

    /// Send to where the socket is connected.
    ///
    /// # Errors
    ///
    /// A plain OS error, as from the standard library's `send`.
    pub fn send(&self, bytes: &[u8]) -> io::Result<Sent> {
        self.send_message(&[IoSlice::new(bytes)], None, MessageOptions::new())
    }

    /// Send a datagram to `to`.
    ///
    /// # Errors
    ///
    /// A plain OS error, as from the standard library's `send_to`.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<Sent> {
        self.send_message(
            &[IoSlice::new(bytes)],
            Some(to.into()),
            MessageOptions::new(),
        )
    }

    /// Send `parts` as one message, with stamps of its own. An [id](MessageOptions::id) in
    /// `options` is ignored.
    ///
    /// # Errors
    ///
    /// Those of [`send`](crate::timestamping::send).
    pub fn send_message(
        &self,
        parts: &[IoSlice<'_>],
        to: Option<Destination>,
        options: MessageOptions,
    ) -> io::Result<Sent> {
        self.send_awaited(parts, to, options, None)
    }

    /// Send, and wait for one stamp of it, at most this long. `None`: it did not come in time.
    /// Stamps of other kinds and of other sends are left for [`stamps`](Self::stamps).
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send) and of [`stamps`](Self::stamps).
    pub fn send_stamped(
        &self,
        bytes: &[u8],
        kind: TxKind,
        timeout: Duration,
    ) -> io::Result<(Sent, Option<TxStamp>)> {
        let parts = [IoSlice::new(bytes)];
        self.send_message_stamped(&parts, None, MessageOptions::new(), kind, timeout)
    }

    /// Do what [`send_message`](Self::send_message) and [`send_stamped`](Self::send_stamped) do.
    ///
    /// # Errors
    ///
    /// Those of [`send_stamped`](Self::send_stamped).
    pub fn send_message_stamped(
        &self,
        parts: &[IoSlice<'_>],
        to: Option<Destination>,
        options: MessageOptions,
        kind: TxKind,
        timeout: Duration,
    ) -> io::Result<(Sent, Option<TxStamp>)> {
        let sent = self.send_awaited(parts, to, options, Some(kind))?;
        let _awaited = self.awaited(sent.token);
        let stamp = self.wait_for(timeout, |state| state.awaited(sent.token))?;
        Ok((sent, stamp))
    }

    pub(super) fn send_awaited(
        &self,
        parts: &[IoSlice<'_>],
        to: Option<Destination>,
        options: MessageOptions,
        awaited: Option<TxKind>,
    ) -> io::Result<Sent> {
        match self.ids {
            Ids::Own => self.send_numbered(parts, to, options, awaited),
            Ids::Datagrams | Ids::Bytes => self.send_counted(parts, to, options, awaited),
        }
    }

    fn send_numbered(
        &self,
        parts: &[IoSlice<'_>],
        to: Option<Destination>,
        options: MessageOptions,
        awaited: Option<TxKind>,
    ) -> io::Result<Sent> {
        let token = {
            let mut state = self.state();
            let token = state.name(awaited);
            if options.requests_stamps(self.options.bits()) {
                state.matcher.sending(token.id(), token);
            }
            token
        };
        let result = send(&self.socket, parts, to, options.id(token.id()));
        if result.is_err() {
            let mut state = self.state();
            state.matcher.unsent(token.id());
            state.fail(token);
        }
        result.map(|bytes| Sent { token, bytes })
    }

    fn send_counted(
        &self,
        parts: &[IoSlice<'_>],
        to: Option<Destination>,
        options: MessageOptions,
        awaited: Option<TxKind>,
    ) -> io::Result<Sent> {
        let options = options.without_id();
        let stamped = options.requests_stamps(self.options.bits());
        let _turn = lock(&self.turn);
        self.state().begin_counted();
        let result = send(&self.socket, parts, to, options);
        let in_doubt = result.is_err() && stamped && self.ids == Ids::Datagrams;
        // Stamps that the kernel took before it refused are there by now.
        let restarted = if in_doubt {
            self.drain(0).and_then(|()| restart_ids(&self.socket))
        } else {
            Ok(())
        };
        let mut state = self.state();
        let token = state.name(awaited);
        match &result {
            Ok(bytes) if stamped => drop(state.matcher.sent(*bytes, token)),
            Ok(bytes) => state.matcher.sent_unstamped(*bytes),
            Err(_) => {
                state.fail(token);
                if in_doubt {
                    state.matcher.restarted();
                }
            }
        }
        let news = state.end_counted();
        drop(state);
        if news {
            self.tell(0);
        }
        restarted?;
        result.map(|bytes| Sent { token, bytes })
    }

    /// Return the stamps that have come, without waiting.
    ///
    /// # Errors
    ///
    /// Those of [`ErrorQueue::drain`].
    pub fn stamps(&self) -> io::Result<Vec<Stamped>> {
        self.drain(0)?;
        Ok(self.state().stamps().unwrap_or_default())
    }

    /// Return the stamps that have come, waiting for the first at most this long; none if none
    /// came.
    ///
    /// # Errors
    ///
    /// Those of [`stamps`](Self::stamps).
    pub fn wait_stamps(&self, timeout: Duration) -> io::Result<Vec<Stamped>> {
        let stamps = self.wait_for(timeout, State::stamps)?;
        Ok(stamps.unwrap_or_default())
    }

    /// Return the network errors that have come with the stamps that were taken: of ICMP, where the
    /// socket has IP_RECVERR or IPV6_RECVERR.
    pub fn network_errors(&self) -> Vec<NetworkError> {
        self.state().errors()
    }

    /// Return which messages the packet scheduler dropped for their departure time, as far as that
    /// has come with the stamps that were taken: where the socket
    /// [requests it](crate::departure::Departures::report_errors).
    pub fn departure_errors(&self) -> Vec<DepartureError> {
        self.state().departures()
    }

    /// Receive a message, with its stamps if the options request them.
    ///
    /// # Errors
    ///
    /// A plain OS error, as from the standard library's `recv`.
    pub fn receive(&self, payload: &mut [u8]) -> io::Result<Received> {
        receive(&self.socket, payload)
    }

    /// Return the counters so far.
    pub fn counters(&self) -> Counters {
        let queue = lock(&self.queue).counters();
        let state = self.state();
        Counters {
            stamps: state.matcher.counters(),
            queue,
            ..state.counters
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    #[cfg(feature = "tokio")]
    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Empty the error queue, for somebody who counts as `own` sleepers, and wake the others if
    /// there is news.
    pub(super) fn drain(&self, own: usize) -> Result<()> {
        let mut news = false;
        let drained = lock(&self.queue).drain(&self.socket, |report| {
            news |= self.state().take(&report);
        });
        if news {
            self.tell(own);
        }
        drained.map(drop)
    }

    /// Wake all that wait, but for `own` sleepers.
    pub(super) fn tell(&self, own: usize) {
        let sleepers = {
            let state = self.state();
            state.sleepers + usize::from(state.polls)
        };
        self.news.notify_all();
        if sleepers > own {
            self.watch.wake();
        }
    }

    /// Wait until `take` finds something. One thread sleeps at the epoll, others until it has news.
    fn wait_for<T>(
        &self,
        timeout: Duration,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let start = Instant::now();
        loop {
            self.drain(0)?;
            let mut state = self.state();
            let taken = take(&mut state);
            let left = timeout.saturating_sub(start.elapsed());
            if taken.is_some() || left.is_zero() {
                return Ok(taken);
            }
            if state.has_leader {
                let woken = self.news.wait_timeout(state, left);
                drop(woken.unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            state.has_leader = true;
            state.sleepers += 1;
            drop(state);
            let slept = self.watch.wait(&self.socket, left);
            let mut state = self.state();
            state.has_leader = false;
            state.sleepers -= 1;
            drop(state);
            self.news.notify_all();
            slept?;
        }
    }

    /// Forget who awaits a stamp of this send, when this is dropped.
    pub(super) fn awaited(&self, token: Token) -> Awaited<'_> {
        Awaited {
            state: &self.state,
            token,
        }
    }
}

impl<S: AsFd> AsFd for StampedSocket<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A send whose stamp somebody waits for.
#[derive(Debug)]
pub(super) struct Awaited<'a> {
    state: &'a Mutex<State>,
    token: Token,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        lock(self.state).forget(self.token);
    }
}

/// No call of ours panics half-way through a change.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
