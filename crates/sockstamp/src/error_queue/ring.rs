use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use sockstamp_clock::Timestamp;

use crate::sys::stamp_ring::{self, Completion};
use crate::timestamping::{TxKind, TxStamp, TxTime};
use crate::{Error, Result};

/// Stamps of sent messages of many sockets by io_uring: one system call reads those of all. Feature
/// `io-uring`.
///
/// The kernel takes the stamps of watched sockets out of their error queues, and writes them into a
/// ring that it shares with this process, while the thread that made the ring
/// [`read`](Self::read)s or [`wait`](Self::wait)s: only that thread can use it. Until then they are
/// in the queues. Needs Linux 6.17; an older kernel ends
/// each watch at once ([`RingReport::Ended`] with EOPNOTSUPP). Takes only stamps without their
/// packets: the sockets must have [`only_stamps`](crate::timestamping::Options::only_stamps). Other
/// entries stay in the error queue.
///
/// Stamps for which the ring has no room stay in the error queue as well, until the next stamp
/// comes and there is room; an [`ErrorQueue`](super::ErrorQueue) may take them from there. So the
/// order may be lost, and no stamp.
///
/// Source: SOCKET_URING_OP_TX_TIMESTAMP in include/uapi/linux/io_uring.h, v6.18.
#[derive(Debug)]
pub struct StampRing {
    ring: stamp_ring::StampRing,
}

/// A result of a [`StampRing`].
#[derive(Debug)]
#[non_exhaustive]
pub enum RingReport {
    /// A sent message was stamped.
    Stamp {
        /// The key of the watched socket.
        key: u64,
        /// Message, point and time.
        stamp: TxStamp,
    },
    /// A socket is no longer watched.
    Ended {
        /// The key of its watch.
        key: u64,
        /// EOPNOTSUPP if the kernel lacks the operation, ECANCELED after [`StampRing::unwatch`].
        error: io::Error,
    },
}

impl StampRing {
    /// Create a ring with room for this many unread stamps.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the kernel has no io_uring, or the process may not use it (EPERM), or no
    /// memory is left.
    pub fn new(stamps: u32) -> Result<Self> {
        let ring = stamp_ring::StampRing::new(stamps)
            .map_err(Error::call("io_uring_setup", "a ring for stamps"))?;
        Ok(Self { ring })
    }

    /// Watches `socket`, whose stamps have this `key` from now on; any number but 2^64 - 1, and one
    /// that is not in use.
    ///
    /// The socket stays open until it is [`unwatch`](Self::unwatch)ed or this is dropped, even if
    /// its owner closes it.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if no memory is left.
    ///
    /// # Panics
    ///
    /// If `key` is 2^64 - 1.
    pub fn watch(&mut self, socket: impl AsFd, key: u64) -> Result<()> {
        assert_ne!(key, u64::MAX, "this key is taken");
        self.ring
            .watch(socket, key)
            .map_err(Error::call("io_uring_enter(TX_TIMESTAMP)", "a socket"))
    }

    /// No longer watches the socket of this key. Its last report is [`RingReport::Ended`].
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if no memory is left.
    pub fn unwatch(&mut self, key: u64) -> Result<()> {
        self.ring
            .cancel(key)
            .map_err(Error::call("io_uring_enter(ASYNC_CANCEL)", "a socket"))
    }

    /// Give all stamps that have come to `report`; how many reports there were. One system call,
    /// which never blocks; none if nothing has come.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the kernel refuses, for which there is no reason.
    pub fn read(&mut self, mut report: impl FnMut(RingReport)) -> Result<usize> {
        self.ring
            .read(|completion| report(understand(&completion)))
            .map_err(Error::call("io_uring_enter", "a ring for stamps"))
    }

    /// Return how many stamps were lost in the ring so far. Linux 6.18 may overwrite a time when
    /// more than half of the ring is unread: have room for twice the stamps that come between two
    /// reads.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ring.damaged()
    }

    /// Wait for a report, at most `longest`.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the kernel refuses, for which there is no reason.
    pub fn wait(&mut self, longest: Duration) -> Result<()> {
        self.ring
            .wait(longest)
            .map_err(Error::call("io_uring_enter", "a ring for stamps"))
    }
}

/// IORING_CQE_F_TSTAMP_HW of include/uapi/linux/io_uring.h, since v6.17.
pub(crate) const HARDWARE: u32 = 1 << 16;
/// IORING_TIMESTAMP_TYPE_SHIFT of the same.
pub(crate) const KIND_SHIFT: u32 = 17;

/// A stamp's watch continues; the last report of a watch is not a stamp.
fn understand(completion: &Completion) -> RingReport {
    let ended = |error| RingReport::Ended {
        key: completion.name,
        error,
    };
    if !completion.more() {
        return ended(io::Error::from_raw_os_error(-completion.result));
    }
    let [seconds, nanos] = completion.time;
    let nanos = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    let time = match completion.flags & HARDWARE {
        0 => TxTime::Software(Timestamp::from_nanos(nanos)),
        _ => TxTime::Hardware(Timestamp::from_nanos(nanos)),
    };
    match TxKind::from_number(completion.flags >> KIND_SHIFT) {
        Some(kind) => RingReport::Stamp {
            key: completion.name,
            stamp: TxStamp {
                id: completion.result.cast_unsigned(),
                kind,
                time,
            },
        },
        None => ended(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IORING_CQE_F_MORE
    const MORE: u32 = 1 << 1;

    fn completion(flags: u32, result: i32) -> Completion {
        Completion {
            name: 9,
            result,
            flags,
            time: [1, 5],
        }
    }

    #[test]
    fn completions_are_stamps_with_their_clock() {
        for (flags, time) in [
            (MORE, TxTime::Software(Timestamp::from_nanos(1_000_000_005))),
            (
                MORE | HARDWARE,
                TxTime::Hardware(Timestamp::from_nanos(1_000_000_005)),
            ),
        ] {
            match understand(&completion(flags | 2 << KIND_SHIFT, -1)) {
                RingReport::Stamp { key: 9, stamp } => {
                    let kind = TxKind::Ack;
                    assert_eq!(
                        stamp,
                        TxStamp {
                            id: u32::MAX,
                            kind,
                            time
                        }
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn the_last_completion_has_the_reason() {
        match understand(&completion(0, -libc::EOPNOTSUPP)) {
            RingReport::Ended { key: 9, error } => {
                assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP))
            }
            other => panic!("{other:?}"),
        }
    }
}
