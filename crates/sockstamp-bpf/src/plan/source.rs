//! The hooks that messages are seen by, where there are several.

use std::fmt;

use super::point::{Callback, Point};
use crate::facts::{DatagramCallbacks, Function, ReceiveCallbacks, Tracepoint};

/// The source of TCP's stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// BPF timestamping: selected sockets call for each.
    Callbacks,
    /// Selected sockets call back when a message is queued, and the other stamps are taken where
    /// their packets pass. No packet requests stamps, because a NIC would take them as well.
    Unasked,
    /// Stamps are taken where the packets of selected sockets pass, and around the functions that
    /// send.
    Packets,
}

/// The hook that shows the entry of send calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Tracepoint `tcp_sendmsg_locked`, which every send of the host passes.
    Tracepoint,
    /// The sockops callback of this number, that a send call begins with, which selected sockets
    /// alone make.
    Begin(u32),
    /// The sockops callback for header options, which selected sockets alone make: several times a
    /// send.
    Callback,
    /// The function of the same name as the tracepoint.
    Function,
}

/// The hooks that show when data came and when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Sockops callbacks, which selected sockets alone make (`kernel/series`).
    Callbacks(ReceiveCallbacks),
    /// Tracepoints `sk_data_ready` and `sock_recv_length`.
    Tracepoints,
    /// The functions that these are in.
    Functions,
}

/// The hooks that show messages of UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagrams {
    /// Sockops callbacks, which selected sockets alone make (`kernel/series`), and the tracepoint
    /// at the end of send calls.
    Callbacks {
        /// The number of the callback that a send call begins with.
        begin: u32,
        /// The others.
        others: DatagramCallbacks,
    },
    /// Tracepoints of socket calls, and hooks of the cgroup.
    Tracepoints,
    /// The functions that send, queue and read. Without `drops_tell_receiver`, only datagrams
    /// without room in the receive buffer are known to be dropped.
    Functions {
        /// [`Facts::drops_tell_receiver`](crate::facts::Facts::drops_tell_receiver)
        drops_tell_receiver: bool,
    },
}

/// The hooks by which messages of UDP are seen: of sends, then of reads.
impl fmt::Display for Datagrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packets = [Tracepoint::NetDevQueue, Tracepoint::NetDevStartXmit].map(Tracepoint::name);
        let packets = format!("tp {}", packets.join(", "));
        match self {
            Self::Callbacks { .. } => {
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
