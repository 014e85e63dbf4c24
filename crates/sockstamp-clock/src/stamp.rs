use std::fmt;

use crate::control::{PacketInfo, Stamps};
use crate::time::{Clock, Phc, Realtime, Timestamp};

/// The point on its path where a sent message was stamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TxKind {
    /// Before the packet scheduler: SCM_TSTAMP_SCHED.
    Sched,
    /// The driver gave it to the hardware, or the hardware sent it (then the time is one of
    /// hardware): SCM_TSTAMP_SND.
    Snd,
    /// TCP: the peer has acknowledged all bytes up to the stamp's: SCM_TSTAMP_ACK.
    Ack,
    /// The hardware reports that it has sent it; only Bluetooth, as of v6.18:
    /// SCM_TSTAMP_COMPLETION.
    Completion,
}

impl TxKind {
    /// All of them, in the order of a message's path.
    pub const ALL: [Self; 4] = [Self::Sched, Self::Snd, Self::Completion, Self::Ack];

    /// The kind of a number SCM_TSTAMP_* of include/uapi/linux/errqueue.h; `None` for one of a
    /// later kernel.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Snd),
            1 => Some(Self::Sched),
            2 => Some(Self::Ack),
            3 => Some(Self::Completion),
            _ => None,
        }
    }

    /// Return the kernel's number SCM_TSTAMP_* (include/uapi/linux/errqueue.h).
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Snd => 0,
            Self::Sched => 1,
            Self::Ack => 2,
            Self::Completion => 3,
        }
    }
}

/// As users write it: sched, snd, ack, completion.
impl fmt::Display for TxKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sched => "sched",
            Self::Snd => "snd",
            Self::Ack => "ack",
            Self::Completion => "completion",
        })
    }
}

/// The time of a TX stamp, on the clock that took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxTime {
    /// The kernel.
    Software(Timestamp<Realtime>),
    /// The network interface's clock. Only a measured offset relates it to CLOCK_REALTIME.
    Hardware(Timestamp<Phc>),
}

impl TxTime {
    /// A software stamp has precedence, as in the comment at SCM_TSTAMP_SND
    /// (include/uapi/linux/errqueue.h, v6.18).
    pub(crate) fn from_stamps(stamps: Stamps) -> Option<Self> {
        let hardware = stamps.hardware.map(Self::Hardware);
        stamps.software.map(Self::Software).or(hardware)
    }

    /// The time if the kernel took it.
    #[must_use]
    pub fn software(self) -> Option<Timestamp<Realtime>> {
        match self {
            Self::Software(time) => Some(time),
            Self::Hardware(_) => None,
        }
    }

    /// The time if the network interface took it.
    #[must_use]
    pub fn hardware(self) -> Option<Timestamp<Phc>> {
        match self {
            Self::Software(_) => None,
            Self::Hardware(time) => Some(time),
        }
    }
}

/// The reading in seconds, and its clock.
impl fmt::Display for TxTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Software(time) => write!(f, "{time} {}", Realtime::NAME),
            Self::Hardware(time) => write!(f, "{time} {}", Phc::NAME),
        }
    }
}

/// A stamp of a sent message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TxStamp {
    /// The id of the message, if the socket has [`OptId`](crate::Flag::OptId), otherwise 0.
    ///
    /// A datagram's id is the number of stamped sends before it, or the sender's choice. TCP's is
    /// the number of the send's last byte; a [`Matcher`](crate::matcher::Matcher) knows the
    /// origin.
    pub id: u32,
    /// The point of the stamp.
    pub kind: TxKind,
    /// Its time.
    pub time: TxTime,
}

/// The stamps of a received message; all `None` where there are none.
///
/// A message that came in several packets has the stamp of its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RxStamp {
    /// The time at which the kernel received it.
    pub software: Option<Timestamp<Realtime>>,
    /// The time at which the network interface received it.
    pub hardware: Option<Timestamp<Phc>>,
    /// The receiving interface; only with a hardware stamp, and if the socket requested it
    /// ([`Flag::OptPktInfo`](crate::Flag::OptPktInfo)).
    pub packet: Option<PacketInfo>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_number_of_its_own() {
        for kind in TxKind::ALL {
            assert_eq!(TxKind::from_number(kind.number()), Some(kind));
        }
    }

    #[test]
    fn a_stamp_prints_its_point_and_the_clock_that_took_it() {
        let software = TxTime::Software(Timestamp::from_nanos(1_000_000_005));
        assert_eq!(software.to_string(), "1.000000005 CLOCK_REALTIME");
        let hardware = TxTime::Hardware(Timestamp::from_nanos(6));
        assert_eq!(hardware.to_string(), "0.000000006 PHC");
        assert_eq!(format!("{:<6}|", TxKind::Ack), "ack   |");
    }
}
