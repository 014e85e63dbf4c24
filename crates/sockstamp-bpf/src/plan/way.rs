//! The points that a stage lies between, as data.

use std::fmt;

use super::{Datagrams, Reason};
use crate::facts::{Function, Tracepoint};

/// A callback of a selected TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the kernel's own name in another spelling")]
pub enum Callback {
    TcpConnect,
    ActiveEstablished,
    PassiveEstablished,
    HdrOptLen,
    TstampSendmsgEntry,
    TstampSendmsg,
    TstampSched,
    TstampSnd,
    TstampAck,
    TstampRcv,
    TstampDataReady,
    TstampRecvmsg,
}

impl Callback {
    /// Return the kernel's name without `BPF_SOCK_OPS_` and `_CB`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpConnect => "TCP_CONNECT",
            Self::ActiveEstablished => "ACTIVE_ESTABLISHED",
            Self::PassiveEstablished => "PASSIVE_ESTABLISHED",
            Self::HdrOptLen => "HDR_OPT_LEN",
            Self::TstampSendmsgEntry => "TSTAMP_SENDMSG_ENTRY",
            Self::TstampSendmsg => "TSTAMP_SENDMSG",
            Self::TstampSched => "TSTAMP_SCHED",
            Self::TstampSnd => "TSTAMP_SND_SW",
            Self::TstampAck => "TSTAMP_ACK",
            Self::TstampRcv => "TSTAMP_RCV",
            Self::TstampDataReady => "TSTAMP_DATA_READY",
            Self::TstampRecvmsg => "TSTAMP_RECVMSG",
        }
    }
}

/// A point on a message's way that has a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// The socket calls back.
    Callback(Callback),
    /// The kernel passes a tracepoint.
    Tracepoint(Tracepoint),
    /// The kernel enters a function.
    Entry(Function),
    /// The kernel leaves a function.
    Return(Function),
    /// The kernel stamps a packet when the driver delivers it.
    ReceiveStamp,
    /// The scheduler notes when a task got a CPU.
    SchedInfo,
    /// The scheduler sums a task's time in run queues.
    RunDelay,
    /// The next send of the flow.
    NextSend,
    /// The send before an answer.
    LastSend,
    /// accept() asks the connection for its peer's address.
    PeerName,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::Callback(callback) => ("sockops ", callback.name()),
            Self::Tracepoint(tracepoint) => ("tp ", tracepoint.name()),
            Self::Entry(function) => ("fentry ", function.name()),
            Self::Return(function) => ("fexit ", function.name()),
            Self::ReceiveStamp => ("", "RX software stamp"),
            Self::SchedInfo => ("task ", "sched_info"),
            Self::RunDelay => ("task ", "run_delay"),
            Self::NextSend => ("", "the next send"),
            Self::LastSend => ("", "the last send"),
            Self::PeerName => ("cgroup ", "getpeername"),
        };
        write!(f, "{kind}{name}")
    }
}

/// The method for a stage, or the reason why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The difference between the times of two points.
    Between(Point, Point),
    /// The difference between the RX stamps of two packets, seen at this point.
    ReceiveStampsAt(Point),
    /// The stage is absent.
    Absent(Reason),
}

impl Way {
    /// Return why the stage is absent, if it is.
    #[must_use]
    pub fn absent(self) -> Option<Reason> {
        match self {
            Self::Absent(reason) => Some(reason),
            Self::Between(..) | Self::ReceiveStampsAt(_) => None,
        }
    }

    /// Return whether the stage is measured.
    #[must_use]
    pub fn is_measured(self) -> bool {
        self.absent().is_none()
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Both are callbacks of the same program.
            Self::Between(from @ Point::Callback(_), Point::Callback(to)) => {
                write!(f, "{from} → {}", to.name())
            }
            Self::Between(from, to) => write!(f, "{from} → {to}"),
            Self::ReceiveStampsAt(point) => write!(f, "{}s at {point}", Point::ReceiveStamp),
            Self::Absent(reason) => write!(f, "absent: {reason}"),
        }
    }
}

/// The hooks by which messages of UDP are seen: of sends, then of reads.
impl fmt::Display for Datagrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = [Tracepoint::NetDevQueue, Tracepoint::NetDevStartXmit].map(Tracepoint::name);
        let packets = format!("tp {}", packets.join(", "));
        match self {
            Self::Callbacks => {
                let sent = Point::Callback(Callback::TstampSendmsgEntry);
                let names = [Callback::TstampSched, Callback::TstampSnd].map(Callback::name);
                let ready = Point::Callback(Callback::TstampDataReady);
                let read = Callback::TstampRecvmsg.name();
                write!(f, "{sent}, {}; {ready} → {read}", names.join(", "))
            }
            Self::Tracepoints => {
                let read = Point::Tracepoint(Tracepoint::SockRecvLength);
                write!(f, "{packets}; cgroup_skb ingress → {read}")
            }
            Self::Functions { .. } => {
                let sent = Point::Entry(Function::UdpSendmsg);
                let queued = Point::Entry(Function::UdpEnqueueScheduleSkb);
                write!(
                    f,
                    "{sent}, {packets}; {queued} → {}",
                    Function::SkbConsumeUdp.name()
                )
            }
        }
    }
}
