//! Departure times: messages that the packet scheduler holds until a time that the sender gives.
//!
//! ```
//! use std::io::IoSlice;
//! use std::net::UdpSocket;
//! use sockstamp::clock::{Monotonic, Timestamp};
//! use sockstamp::departure::Departures;
//! use sockstamp::timestamping::{MessageOptions, send};
//!
//! # let ahead: Timestamp<Monotonic> = Timestamp::from_nanos(1_000_000_000);
//! let socket = UdpSocket::bind("127.0.0.1:0")?;
//! socket.connect("127.0.0.1:9")?;
//! Departures::new().report_errors().apply::<Monotonic>(&socket)?;
//! let at = MessageOptions::new().departure(ahead);
//! send(&socket, &[IoSlice::new(b"later")], None, at)?;
//! # std::io::Result::Ok(())
//! ```
//!
//! What the scheduler drops for its time comes by the error queue:
//! [`Report::Departure`](crate::error_queue::Report::Departure).

use std::os::fd::AsFd;

use crate::clock::{Clock, Monotonic, Realtime, Tai};
use crate::control::SO_TXTIME;
use crate::sys::options::{SockTxTime, set};
use crate::{Error, Result};

/// A clock that departure times can be of.
///
/// Fq takes CLOCK_MONOTONIC, which needs no capability; the others need CAP_NET_ADMIN. Etf takes
/// CLOCK_TAI, where it is configured so.
pub trait DepartureClock: Clock {
    /// The number of clock_gettime(2).
    #[doc(hidden)]
    const ID: libc::clockid_t;
}

impl DepartureClock for Monotonic {
    const ID: libc::clockid_t = libc::CLOCK_MONOTONIC;
}

impl DepartureClock for Realtime {
    const ID: libc::clockid_t = libc::CLOCK_REALTIME;
}

impl DepartureClock for Tai {
    const ID: libc::clockid_t = libc::CLOCK_TAI;
}

/// That the messages of a socket may have a
/// [departure time](crate::timestamping::MessageOptions::departure): SO_TXTIME, since v4.19.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[must_use]
pub struct Departures {
    flags: u32,
}

impl Departures {
    /// Messages leave at their time or later, and are dropped silently where they cannot.
    pub const fn new() -> Self {
        Self { flags: 0 }
    }

    /// Messages leave at their time or earlier, as soon as they can: SOF_TXTIME_DEADLINE_MODE. Etf
    /// must be in the same mode.
    pub const fn deadline(self) -> Self {
        /// include/uapi/linux/net_tstamp.h, v6.18.
        const SOF_TXTIME_DEADLINE_MODE: u32 = 1 << 0;
        Self {
            flags: self.flags | SOF_TXTIME_DEADLINE_MODE,
        }
    }

    /// Report messages that are dropped for their time: SOF_TXTIME_REPORT_ERRORS.
    pub const fn report_errors(self) -> Self {
        /// include/uapi/linux/net_tstamp.h, v6.18.
        const SOF_TXTIME_REPORT_ERRORS: u32 = 1 << 1;
        Self {
            flags: self.flags | SOF_TXTIME_REPORT_ERRORS,
        }
    }

    /// Set this for `socket`, with times of clock `C`.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if `socket` is none, and with EPERM without CAP_NET_ADMIN for another clock
    /// than CLOCK_MONOTONIC.
    pub fn apply<C: DepartureClock>(self, socket: impl AsFd) -> Result<()> {
        let value = SockTxTime {
            clock: C::ID,
            flags: self.flags,
        };
        set(socket, libc::SOL_SOCKET, SO_TXTIME, &value)
            .map_err(Error::call("setsockopt(SO_TXTIME)", "a socket"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::net::UdpSocket;

    use super::*;
    use crate::clock::Timestamp;
    use crate::sys::options::get;
    use crate::timestamping::{MessageOptions, send};

    #[test]
    fn the_kernel_takes_options_and_times() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        let at = MessageOptions::new().departure(Timestamp::<Monotonic>::from_nanos(1));
        let sent = || send(&socket, &[IoSlice::new(b"x")], None, at);
        // `__sock_cmsg_send()` in net/core/sock.c: a time needs the option.
        assert_eq!(sent().unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let all = Departures::new().deadline().report_errors();
        all.apply::<Monotonic>(&socket).unwrap();
        let before = SockTxTime {
            clock: -1,
            flags: 0,
        };
        let (set, length) = get(&socket, libc::SOL_SOCKET, SO_TXTIME, before).unwrap();
        assert_eq!(
            (set.clock, set.flags, length),
            (libc::CLOCK_MONOTONIC, 3, 8)
        );
        assert_eq!(sent().unwrap(), 1);
    }
}
