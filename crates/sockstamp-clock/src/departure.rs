//! Departure times that the sender sets: SO_TXTIME.

use std::error::Error;
use std::fmt;

use crate::control::ExtendedError;
use crate::time::{Clock, Timestamp};

/// A message that the packet scheduler dropped for its
/// [departure time](crate::MessageOptions::departure).
///
/// Of Linux's packet schedulers etf reports these, to sockets that request it. Fq sends late
/// messages at once, and drops those beyond its horizon without a report.
///
/// Source: `report_sock_error()` in net/sched/sch_etf.c, v6.18.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DepartureError {
    /// Why it was dropped.
    pub reason: DepartureReason,
    /// The number as in errno(3): EINVAL or ECANCELED.
    pub errno: u32,
    nanos: u64,
}

/// Why a message was dropped for its departure time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DepartureReason {
    /// The time is of another clock or mode than the packet scheduler's, in the past, or missing:
    /// SO_EE_CODE_TXTIME_INVALID_PARAM.
    Invalid,
    /// The time passed while the message waited: SO_EE_CODE_TXTIME_MISSED.
    Missed,
    /// One of a later kernel.
    Other(u8),
}

impl DepartureError {
    /// The time at which the message was to leave, on the clock that the socket has for these
    /// times.
    #[must_use]
    pub const fn time<C: Clock>(self) -> Timestamp<C> {
        Timestamp::from_nanos(self.nanos)
    }

    pub(crate) fn from_entry(error: &ExtendedError) -> Self {
        Self {
            reason: DepartureReason::from_code(error.code),
            errno: error.errno,
            nanos: u64::from(error.data) << 32 | u64::from(error.info),
        }
    }
}

impl fmt::Display for DepartureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, nanos, .. } = self;
        write!(
            f,
            "a message with departure time {nanos} ns was dropped: {reason}"
        )
    }
}

impl DepartureReason {
    /// The number SO_EE_CODE_TXTIME_* of include/uapi/linux/errqueue.h, since v4.19.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Invalid => 1,
            Self::Missed => 2,
            Self::Other(code) => code,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Invalid,
            2 => Self::Missed,
            code => Self::Other(code),
        }
    }
}

impl fmt::Display for DepartureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid => f.pad("the packet scheduler does not take it"),
            Self::Missed => f.pad("it had passed"),
            Self::Other(code) => write!(f, "for reason {code} of SO_EE_ORIGIN_TXTIME"),
        }
    }
}

impl Error for DepartureError {}
