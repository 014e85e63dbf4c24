//! Sends of a stamped socket, as far as it knows them.

use std::collections::VecDeque;

use super::token::{Counters, Stamped, Token};
use crate::error_queue::{DepartureError, NetworkError, Report};
use crate::timestamping::{Matcher, TxKind, TxStamp};

impl Token {
    /// Return the name of a later send of the same batch.
    pub(super) const fn later(self, by: usize) -> Self {
        Self(self.0 + by as u64)
    }

    /// The id of a datagram with this token.
    pub(super) fn id(self) -> u32 {
        let [a, b, c, d, ..] = self.0.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

/// Waits for one stamp of one send.
#[derive(Debug)]
struct Waiter {
    token: Token,
    kind: TxKind,
    stamp: Option<TxStamp>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) matcher: Matcher<Token>,
    capacity: usize,
    next: u64,
    /// A send is under way that the kernel counts, and that the matcher does not know.
    sending: bool,
    /// Stamps that may be of that send.
    early: Vec<TxStamp>,
    stamps: VecDeque<Stamped>,
    errors: VecDeque<NetworkError>,
    departures: VecDeque<DepartureError>,
    waiters: Vec<Waiter>,
    /// How many wait for news by the private epoll.
    pub(super) sleepers: usize,
    /// One of them is a thread.
    pub(super) has_leader: bool,
    /// A task is to be woken besides them.
    pub(super) polls: bool,
    pub(super) counters: Counters,
}

impl State {
    pub(super) fn new(matcher: Matcher<Token>, capacity: usize) -> Self {
        Self {
            matcher,
            capacity,
            next: 0,
            sending: false,
            early: Vec::new(),
            stamps: VecDeque::new(),
            errors: VecDeque::new(),
            departures: VecDeque::new(),
            waiters: Vec::new(),
            sleepers: 0,
            has_leader: false,
            polls: false,
            counters: Counters::default(),
        }
    }

    /// Name the next send, and keep its stamp of the kind that is awaited.
    pub(super) fn name(&mut self, awaited: Option<TxKind>) -> Token {
        let token = Token(self.next);
        self.next += 1;
        self.counters.tried += 1;
        if let Some(kind) = awaited {
            self.waiters.push(Waiter {
                token,
                kind,
                stamp: None,
            });
        }
        token
    }

    /// Name this many sends of a batch, of which none has been tried; return the first's name.
    pub(super) fn name_batch(&mut self, sends: usize) -> Token {
        let first = Token(self.next);
        self.next += sends as u64;
        first
    }

    /// Of a batch, this many sends were tried.
    pub(super) fn tried(&mut self, sends: usize, failed: bool) {
        self.counters.tried += sends as u64;
        self.counters.failed += u64::from(failed);
    }

    pub(super) fn begin_counted(&mut self) {
        self.sending = true;
    }

    /// The matcher knows of the send. Return `true` if there is news for somebody.
    pub(super) fn end_counted(&mut self) -> bool {
        self.sending = false;
        let early = std::mem::take(&mut self.early);
        early
            .into_iter()
            .fold(false, |news, stamp| self.stamp(stamp) | news)
    }

    pub(super) fn fail(&mut self, token: Token) {
        self.counters.failed += 1;
        self.forget(token);
    }

    /// Nobody waits for a stamp of this send any more.
    pub(super) fn forget(&mut self, token: Token) {
        self.waiters.retain(|waiter| waiter.token != token);
    }

    /// The stamp that a waiter got.
    pub(super) fn awaited(&mut self, token: Token) -> Option<TxStamp> {
        let waiter = self.waiters.iter().find(|waiter| waiter.token == token);
        waiter?.stamp
    }

    /// Keep what is reported. Return `true` if it is news for somebody.
    pub(super) fn take(&mut self, report: &Report<'_>) -> bool {
        match report {
            Report::Stamp { stamp, .. } => return self.stamp(*stamp),
            Report::Network(error) => {
                self.counters.dropped += push(&mut self.errors, *error, self.capacity);
                return true;
            }
            Report::Departure(error) => {
                self.counters.dropped += push(&mut self.departures, *error, self.capacity);
                return true;
            }
            _ => self.counters.others += 1,
        }
        false
    }

    fn stamp(&mut self, stamp: TxStamp) -> bool {
        if self.sending && self.matcher.is_ahead(stamp.id) && self.early.len() < self.capacity {
            self.early.push(stamp);
            return false;
        }
        let Self {
            matcher,
            stamps,
            waiters,
            counters,
            capacity,
            ..
        } = self;
        let mut news = false;
        matcher.stamp(&stamp, |matched| {
            news = true;
            let token = *matched.message;
            let waiter = waiters.iter_mut().find(|waiter| {
                waiter.token == token && waiter.kind == stamp.kind && waiter.stamp.is_none()
            });
            match waiter {
                Some(waiter) => waiter.stamp = Some(stamp),
                None => {
                    let stamped = Stamped {
                        token,
                        stamp,
                        coverage: matched.coverage,
                    };
                    counters.dropped += push(stamps, stamped, *capacity);
                }
            }
        });
        news
    }

    /// Return the stamps that nobody took, if there are any.
    pub(super) fn stamps(&mut self) -> Option<Vec<Stamped>> {
        (!self.stamps.is_empty()).then(|| self.stamps.drain(..).collect())
    }

    pub(super) fn errors(&mut self) -> Vec<NetworkError> {
        self.errors.drain(..).collect()
    }

    pub(super) fn departures(&mut self) -> Vec<DepartureError> {
        self.departures.drain(..).collect()
    }
}

/// Return how many had to go for it.
fn push<T>(queue: &mut VecDeque<T>, element: T, capacity: usize) -> u64 {
    let full = queue.len() >= capacity;
    if full {
        queue.pop_front();
    }
    queue.push_back(element);
    u64::from(full)
}
