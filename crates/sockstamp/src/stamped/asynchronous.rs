use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};

use super::settings::Settings;
use super::socket::StampedSocket;
use super::state::State;
use super::token::{Counters, Sent, Stamped};
use crate::error_queue::{DepartureError, NetworkError};
use crate::sys::polling::Edges;
use crate::timestamping::{
    Destination, MessageOptions, Options, Outgoing, Received, TxKind, TxStamp, receive_now,
};

/// A [`StampedSocket`] for tasks of tokio. Feature `tokio`.
///
/// It needs no nonblocking socket, and is not registered with the runtime itself: stamps wake who
/// waits for them, and a writer sleeps until there is room. A socket of tokio becomes one of these
/// by `into_std()`.
///
/// The forms `async` may be awaited by many tasks at once, and are cancel safe: what is cancelled
/// has sent or taken nothing, but [`send_stamped`](Self::send_stamped), which may have sent. Of the
/// forms `poll_…` the task that called last is woken, one for each form.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use std::net::UdpSocket;
/// use sockstamp::stamped::AsyncStampedSocket;
/// use sockstamp::timestamping::{Options, TxKind};
///
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// socket.connect(socket.local_addr()?)?;
/// let socket = AsyncStampedSocket::new(socket, Options::new().tx_software())?;
/// let (sent, left) = socket.send_stamped(b"hello", TxKind::Snd).await?;
/// println!("{} left at {:?}", sent.token, left.time);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncStampedSocket<S> {
    socket: StampedSocket<S>,
    entries: Edges,
    readable: Edges,
    writable: Edges,
}

impl<S: AsFd> AsyncStampedSocket<S> {
    /// Have each message of `socket` stamped, as [`StampedSocket::new`] does.
    ///
    /// # Errors
    ///
    /// Those of [`StampedSocket::new`].
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio with I/O.
    pub fn new(socket: S, options: Options) -> io::Result<Self> {
        Self::with(socket, options, Settings::new())
    }

    /// Do the same, with these settings.
    ///
    /// # Errors
    ///
    /// Those of [`StampedSocket::new`].
    ///
    /// # Panics
    ///
    /// Outside a runtime of tokio with I/O.
    pub fn with(socket: S, options: Options, settings: Settings) -> io::Result<Self> {
        let socket = StampedSocket::with(socket, options, settings)?;
        Ok(Self {
            entries: Edges::of(socket.watch().epoll()?)?,
            readable: Edges::readable()?,
            writable: Edges::writable()?,
            socket,
        })
    }

    /// The socket.
    pub fn get_ref(&self) -> &S {
        self.socket.get_ref()
    }

    /// Return the socket, with its options as they are.
    pub fn into_inner(self) -> S {
        self.socket.into_inner()
    }

    /// Send to where the socket is connected, as soon as there is room.
    ///
    /// # Errors
    ///
    /// A plain OS error, as from the standard library's `send`.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<Sent> {
        self.send_message(&[IoSlice::new(bytes)], None, MessageOptions::new())
            .await
    }

    /// Send a datagram to `to`, as soon as there is room.
    ///
    /// # Errors
    ///
    /// A plain OS error, as from the standard library's `send_to`.
    pub async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<Sent> {
        let parts = [IoSlice::new(bytes)];
        self.send_message(&parts, Some(to.into()), MessageOptions::new())
            .await
    }

    /// Send `parts` as one message, as soon as there is room. An [id](MessageOptions::id) in
    /// `options` is ignored.
    ///
    /// # Errors
    ///
    /// Those of [`send`](crate::timestamping::send).
    pub async fn send_message(
        &self,
        parts: &[IoSlice<'_>],
        to: Option<Destination>,
        options: MessageOptions,
    ) -> io::Result<Sent> {
        let options = options.dont_wait();
        let send = || self.socket.send_awaited(parts, to, options, None);
        self.writable.attempt(self, send).await
    }

    /// Send `messages` in order, as soon as there is room for the first, and return those that were
    /// sent, as [`StampedSocket::send_batch`] does.
    ///
    /// # Errors
    ///
    /// Those of [`StampedSocket::send_batch`].
    pub async fn send_batch(&self, messages: &[Outgoing<'_>]) -> io::Result<Vec<Sent>> {
        let send = || {
            self.socket
                .send_batch_by(messages, MessageOptions::dont_wait)
        };
        self.writable.attempt(self, send).await
    }

    /// Send, and wait for one stamp of it. Stamps of other kinds and of other sends are left for
    /// [`stamps`](Self::stamps). A stamp may be lost: wait with a timeout.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send) and of [`stamps`](Self::stamps).
    pub async fn send_stamped(&self, bytes: &[u8], kind: TxKind) -> io::Result<(Sent, TxStamp)> {
        let parts = [IoSlice::new(bytes)];
        self.send_message_stamped(&parts, None, MessageOptions::new(), kind)
            .await
    }

    /// Do what [`send_message`](Self::send_message) and [`send_stamped`](Self::send_stamped) do.
    ///
    /// # Errors
    ///
    /// Those of [`send_stamped`](Self::send_stamped).
    pub async fn send_message_stamped(
        &self,
        parts: &[IoSlice<'_>],
        to: Option<Destination>,
        options: MessageOptions,
        kind: TxKind,
    ) -> io::Result<(Sent, TxStamp)> {
        let options = options.dont_wait();
        let send = || self.socket.send_awaited(parts, to, options, Some(kind));
        let sent = self.writable.attempt(self, send).await?;
        let _awaited = self.socket.awaited(sent.token);
        let stamp = self.wait_for(|state| state.awaited(sent.token)).await?;
        Ok((sent, stamp))
    }

    /// Wait for stamps; one at least. It waits forever if none comes, even when the connection is
    /// over.
    ///
    /// # Errors
    ///
    /// Those of [`ErrorQueue::drain`](crate::error_queue::ErrorQueue::drain).
    pub async fn stamps(&self) -> io::Result<Vec<Stamped>> {
        self.wait_for(State::stamps).await
    }

    /// Return the network errors that have come with the stamps that were taken: of ICMP, where the
    /// socket has IP_RECVERR or IPV6_RECVERR.
    pub fn network_errors(&self) -> Vec<NetworkError> {
        self.socket.network_errors()
    }

    /// Return the same as [`StampedSocket::departure_errors`].
    pub fn departure_errors(&self) -> Vec<DepartureError> {
        self.socket.departure_errors()
    }

    /// Receive a message, with its stamps if the options request them.
    ///
    /// # Errors
    ///
    /// A plain OS error, as from the standard library's `recv`.
    pub async fn receive(&self, payload: &mut [u8]) -> io::Result<Received> {
        self.readable
            .attempt(self, || receive_now(&self.socket, payload))
            .await
    }

    /// Receive by a call of the program's own, which does not block: `receive` is repeated, when
    /// something may have come, until it does not fail with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock).
    ///
    /// # Errors
    ///
    /// Those of `receive`.
    pub async fn receive_by<T>(
        &self,
        mut receive: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        self.readable
            .attempt(self, || receive(self.socket.get_ref()))
            .await
    }

    /// Do what [`send`](Self::send) does, for one task.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send).
    pub fn poll_send(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<Sent>> {
        let (parts, options) = ([IoSlice::new(bytes)], MessageOptions::new().dont_wait());
        let send = || self.socket.send_awaited(&parts, None, options, None);
        self.writable.poll_attempt(self, context, send)
    }

    /// Do what [`receive`](Self::receive) does, for one task.
    ///
    /// # Errors
    ///
    /// Those of [`receive`](Self::receive).
    pub fn poll_receive(
        &self,
        context: &mut Context<'_>,
        payload: &mut [u8],
    ) -> Poll<io::Result<Received>> {
        self.readable
            .poll_attempt(self, context, || receive_now(&self.socket, payload))
    }

    /// Do what [`stamps`](Self::stamps) does, for one task.
    ///
    /// # Errors
    ///
    /// Those of [`stamps`](Self::stamps).
    pub fn poll_stamps(&self, context: &mut Context<'_>) -> Poll<io::Result<Vec<Stamped>>> {
        self.socket.state().polls = false;
        loop {
            self.socket.drain(0)?;
            let mut state = self.socket.state();
            if let Some(stamps) = state.stamps() {
                return Poll::Ready(Ok(stamps));
            }
            state.polls = true;
            drop(state);
            ready!(self.entries.poll(self, context))?;
            self.socket.state().polls = false;
        }
    }

    /// Return the counters so far.
    pub fn counters(&self) -> Counters {
        self.socket.counters()
    }

    async fn wait_for<T>(&self, mut take: impl FnMut(&mut State) -> Option<T>) -> io::Result<T> {
        let _sleeper = Sleeper::new(&self.socket);
        loop {
            self.socket.drain(1)?;
            if let Some(taken) = take(&mut self.socket.state()) {
                return Ok(taken);
            }
            self.entries.wait(self).await?;
        }
    }
}

impl<S: AsFd> AsFd for AsyncStampedSocket<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A task that waits for news, until it is dropped.
struct Sleeper<'a, S: AsFd>(&'a StampedSocket<S>);

impl<'a, S: AsFd> Sleeper<'a, S> {
    fn new(socket: &'a StampedSocket<S>) -> Self {
        socket.state().sleepers += 1;
        Self(socket)
    }
}

impl<S: AsFd> Drop for Sleeper<'_, S> {
    fn drop(&mut self) {
        self.0.state().sleepers -= 1;
    }
}
