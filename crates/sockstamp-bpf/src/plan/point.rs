//! The points in the kernel at which stamps are taken.

use std::fmt;

use crate::facts::{Function, Tracepoint};

/// A callback of a selected TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    missing_docs,
    reason = "each is the kernel's own name in another spelling"
)]
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
    /// accept() reads the peer's address of the connection.
    PeerName,
    /// The NIC stamps a packet when it sends or receives it.
    NicStamp,
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
            Self::NicStamp => ("", "NIC stamp"),
        };
        write!(f, "{kind}{name}")
    }
}
