use sockstamp_model::clock::{Phc, Realtime, Timestamp};

use crate::control::{PacketInfo, Stamps};

/// Where on its way a sent message was stamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TxKind {
    /// It was about to enter the packet scheduler: SCM_TSTAMP_SCHED.
    Sched,
    /// The driver gave it to the hardware, or the hardware sent it (then the time is one of hardware): SCM_TSTAMP_SND.
    Snd,
    /// TCP: the peer has acknowledged all bytes up to the stamp's: SCM_TSTAMP_ACK.
    Ack,
    /// The hardware says that it has sent it; Bluetooth alone, as of v6.18: SCM_TSTAMP_COMPLETION.
    Completion,
}

impl TxKind {
    /// All of them, in the order of a message's way.
    pub const ALL: [Self; 4] = [Self::Sched, Self::Snd, Self::Completion, Self::Ack];

    /// SCM_TSTAMP_* of include/uapi/linux/errqueue.h.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Snd),
            1 => Some(Self::Sched),
            2 => Some(Self::Ack),
            3 => Some(Self::Completion),
            _ => None,
        }
    }
}

/// The time of a TX stamp, on the clock of whoever took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxTime {
    /// The kernel.
    Software(Timestamp<Realtime>),
    /// The network interface. Its clock is nobody else's: nothing relates it to CLOCK_REALTIME but an offset that somebody
    /// measures.
    Hardware(Timestamp<Phc>),
}

impl TxTime {
    /// A software stamp has precedence, as in the comment at SCM_TSTAMP_SND (include/uapi/linux/errqueue.h, v6.18).
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

/// A stamp of a sent message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TxStamp {
    /// Which message, if the socket has [`OPT_ID`](crate::timestamping::Options::id), else 0.
    ///
    /// A datagram's is the number of stamped sends before it, or what its sender chose. TCP's is the number of the last
    /// byte of the send; a [`Matcher`](crate::timestamping::Matcher) knows from which origin.
    pub id: u32,
    /// Where it was stamped.
    pub kind: TxKind,
    /// When.
    pub time: TxTime,
}

/// The stamps of a received message; all `None` where there are none.
///
/// A message that came in several packets has the stamp of its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RxStamp {
    /// When the kernel received it.
    pub software: Option<Timestamp<Realtime>>,
    /// When the network interface received it.
    pub hardware: Option<Timestamp<Phc>>,
    /// Where it came in; beside a hardware stamp alone, and if the socket asked for it
    /// ([`Options::packet_info`](crate::timestamping::Options::packet_info)).
    pub packet: Option<PacketInfo>,
}
