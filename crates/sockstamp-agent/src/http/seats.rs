//! The connections that are served at a time, and which of them makes room for another.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;

/// Connections at a time.
const SEATS: usize = 128;
/// A client that takes nothing for so long does not read.
const STALLED: Duration = Duration::from_secs(1);

/// The connections that are served.
#[derive(Default)]
pub(super) struct Seats(Vec<Seat>);

/// A connection, the oldest first in [`Seats`].
struct Seat {
    peer: IpAddr,
    turn: Rc<Cell<Turn>>,
    task: JoinHandle<()>,
}

/// Whom a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The client, for the rest of its request.
    Request,
    /// This thread, or the one that measures.
    Ours,
    /// The client, which has taken nothing since then.
    Reader(Instant),
}

impl Seats {
    pub(super) fn take(&mut self, peer: IpAddr, turn: Rc<Cell<Turn>>, task: JoinHandle<()>) {
        let peer = peer.to_canonical();
        self.0.push(Seat { peer, turn, task });
    }

    /// Return true if there is room for another connection, or one has made room, which is counted.
    pub(super) fn make_room(&mut self, dropped: &AtomicU64) -> bool {
        self.0.retain(|seat| !seat.task.is_finished());
        if self.0.len() < SEATS {
            return true;
        }
        let turns = self.0.iter().map(|seat| (seat.peer, seat.turn.get()));
        let turns: Vec<_> = turns.collect();
        let Some(least) = least_deserving(&turns, Instant::now()) else {
            return false;
        };
        self.0.remove(least).task.abort();
        dropped.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// Return the connection that goes first: one that has not sent its request, else one that takes no
/// answer. Of these, it is the oldest of the address that has most: nobody is sent away by others'
/// number. A client that reads, or whose answer is being made, stays.
fn least_deserving(seats: &[(IpAddr, Turn)], now: Instant) -> Option<usize> {
    let is_stalled = |turn: Turn| match turn {
        Turn::Reader(since) => now.duration_since(since) >= STALLED,
        Turn::Request | Turn::Ours => false,
    };
    oldest_of_most(seats, |turn| turn == Turn::Request)
        .or_else(|| oldest_of_most(seats, is_stalled))
}

fn oldest_of_most(seats: &[(IpAddr, Turn)], goes: impl Fn(Turn) -> bool) -> Option<usize> {
    let of = |peer: IpAddr| {
        let same = seats
            .iter()
            .filter(|(other, turn)| *other == peer && goes(*turn));
        same.count()
    };
    let going = seats
        .iter()
        .enumerate()
        .filter(|(_, (_, turn))| goes(*turn));
    // The first of those that are equal.
    going
        .rev()
        .max_by_key(|(_, (peer, _))| of(*peer))
        .map(|(place, _)| place)
}

/// A stream that notes whose turn it is.
pub(super) struct Watched<S> {
    stream: S,
    turn: Rc<Cell<Turn>>,
    asked: Rc<Cell<bool>>,
}

impl<S> Watched<S> {
    /// Watch a stream. `asked` tells whether the whole request has come.
    pub(super) fn new(stream: S, turn: Rc<Cell<Turn>>, asked: Rc<Cell<bool>>) -> Self {
        Self {
            stream,
            turn,
            asked,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if !self.asked.get() {
            self.turn.set(match read {
                Poll::Pending => Turn::Request,
                Poll::Ready(_) => Turn::Ours,
            });
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.turn.set(match (&written, self.turn.get()) {
            (Poll::Ready(_), _) => Turn::Ours,
            (Poll::Pending, stalled @ Turn::Reader(_)) => stalled,
            (Poll::Pending, _) => Turn::Reader(Instant::now()),
        });
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Duration = Duration::from_secs(5);

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn those_without_a_request_go_first_and_of_the_address_that_has_most() {
        let now = Instant::now();
        let seats = [
            (peer(1), Turn::Request),
            (peer(2), Turn::Ours),
            (peer(2), Turn::Request),
            (peer(2), Turn::Request),
            (peer(3), Turn::Reader(now)),
        ];
        assert_eq!(least_deserving(&seats, now + LATER), Some(2));
        // Connections that do something else are not counted.
        let seats = [seats[0], seats[1], seats[2], seats[1]];
        assert_eq!(least_deserving(&seats, now + LATER), Some(0));
    }

    #[test]
    fn those_that_take_nothing_go_next_and_others_stay() {
        let now = Instant::now();
        let seats = [
            (peer(1), Turn::Ours),
            (peer(1), Turn::Reader(now + LATER)),
            (peer(1), Turn::Reader(now)),
        ];
        assert_eq!(least_deserving(&seats, now + LATER), Some(2));
        assert_eq!(least_deserving(&seats[..2], now + LATER), None);
        assert_eq!(least_deserving(&[], now), None);
    }
}
