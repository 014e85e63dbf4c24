//! Completions from memory, and when the error queue must also be read.
//!
//! Every completion is in the error queue, whatever memory has, so reading the queue yields
//! everything that memory lacks: completions before the registration, overwritten ones, those that
//! the programs missed, and all after the end of the service. The question is only how long that
//! may wait.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::completions::Registration;
use crate::error_queue::ZeroCopyRange;
use crate::sys::options;

/// A sender's source of completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompletionsBy {
    /// Memory that `sockstamp completions` writes; the error queue is read rarely.
    Memory,
    /// Send calls that return them; the error queue is read rarely.
    Sends,
    /// The error queue.
    ErrorQueue,
}

/// A sender's sources of completions. Counts never decrease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompletionCounters {
    /// Sends that were known to be complete from memory.
    pub by_memory: u64,
    /// Sends that a later send call returned as complete.
    pub by_sends: u64,
    /// Sends completed by the error queue, or by calls of
    /// [`complete`](super::ZeroCopySender::complete).
    pub by_queue: u64,
    /// Reads of the error queue.
    pub queue_reads: u64,
    /// Ranges that were written over in memory before they were read: the error queue had them.
    pub overruns: u64,
    /// Times that the service ended, so that the error queue took over.
    pub services_ended: u64,
}

/// Longest time between reads of the queue. It bounds the delay of completions that memory misses,
/// of network errors, which only the queue has, and of noticing the service's end. It also keeps
/// merged ranges short enough to distinguish older ids from newer ones.
const LONGEST: Duration = Duration::from_millis(10);

/// Ranges that did not merge. Each takes about 800 bytes of net.core.optmem_max until it is read
/// (`sock_omalloc()`, net/core/sock.c, v6.18), of which Linux 6.1 has 20 kB per socket: two thirds
/// stay for sends in flight.
const MOST_RANGES: u64 = 8;

/// The part of the receive buffer that may be in use before stamps are taken out of it: stamps that
/// find it full are dropped (`sock_queue_err_skb()`, net/core/skbuff.c, v6.18).
const RECEIVE_BUFFER_PART: u32 = 4;

#[derive(Debug)]
pub(super) struct Memory {
    registration: Registration,
    /// The queue was read because this much time had passed.
    timed: Duration,
    lost: u64,
    /// The number of stamps in the queue from which on the fill of the receive buffer is checked.
    stamps_allowed: u64,
}

impl Memory {
    pub(super) fn new(registration: Registration) -> Self {
        Self {
            registration,
            timed: Duration::ZERO,
            lost: 0,
            stamps_allowed: 0,
        }
    }

    pub(super) fn registration(&self) -> &Registration {
        &self.registration
    }

    pub(super) fn registration_mut(&mut self) -> &mut Registration {
        &mut self.registration
    }

    /// Pass new ranges to `each`; return the number of ranges lost since the last time.
    pub(super) fn read(&mut self, each: impl FnMut(ZeroCopyRange)) -> u64 {
        self.registration.completed(each);
        let lost = self.registration.ranges_lost();
        lost - std::mem::replace(&mut self.lost, lost)
    }

    /// Return true if it is time to look for the service, and for what it missed.
    pub(super) fn is_time(&mut self) -> bool {
        let now = coarse_time();
        let is_time = now.saturating_sub(self.timed) >= LONGEST;
        if is_time {
            self.timed = now;
        }
        is_time
    }

    /// Return true if the queue must be emptied now.
    pub(super) fn queue_fills(&mut self, socket: impl AsFd) -> bool {
        let stamps = self.registration.stamps_queued();
        self.registration.ranges_queued() >= MOST_RANGES
            || stamps > self.stamps_allowed && {
                self.stamps_allowed = stamps_allowed(stamps, receive_buffer(socket));
                stamps > self.stamps_allowed
            }
    }

    /// The queue is about to be read to its end.
    pub(super) fn queue_is_read(&mut self) {
        self.stamps_allowed = 0;
        self.registration.queue_is_read();
    }
}

/// The fill of a receive buffer, in bytes.
#[derive(Debug, Clone, Copy)]
struct ReceiveBuffer {
    used: u32,
    size: u32,
}

/// Return how many stamps may be in the queue before the receive buffer is checked again, with
/// `stamps` in it now: as many again take as much space again. Return none if that would be too
/// much.
fn stamps_allowed(stamps: u64, buffer: Option<ReceiveBuffer>) -> u64 {
    match buffer {
        Some(ReceiveBuffer { used, size }) if used < size / RECEIVE_BUFFER_PART => 2 * stamps,
        _ => 0,
    }
}

fn receive_buffer(socket: impl AsFd) -> Option<ReceiveBuffer> {
    let (memory, _) = options::get(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MEMINFO,
        options::Memory::default(),
    )
    .ok()?;
    Some(ReceiveBuffer {
        used: memory.receive_used,
        size: memory.receive_size,
    })
}

/// Exact to a tick, some milliseconds, and read without a system call whatever the clock source.
fn coarse_time() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map_or(Duration::MAX, Duration::from)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn the_buffer_is_looked_at_each_time_that_stamps_have_doubled_and_emptied_at_a_quarter() {
        let buffer = |used| Some(ReceiveBuffer { used, size: 4_000 });
        assert_eq!(stamps_allowed(1, buffer(10)), 2);
        assert_eq!(stamps_allowed(64, buffer(999)), 128);
        assert_eq!(stamps_allowed(64, buffer(1_000)), 0);
        assert_eq!(stamps_allowed(1, None), 0);
    }

    /// `SK_MEMINFO_*` of include/uapi/linux/sock_diag.h.
    #[test]
    fn the_kernel_reports_the_fill_of_a_receive_buffer() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let empty = receive_buffer(&receiver).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender
            .send_to(&[0; 1_000], receiver.local_addr().unwrap())
            .unwrap();
        let filled = receive_buffer(&receiver).unwrap();
        assert_eq!((empty.used, empty.size), (0, filled.size));
        assert!((1_000..filled.size).contains(&filled.used), "{filled:?}");
    }
}
