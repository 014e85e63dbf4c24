//! Places in the kernel where a program may be attached, by the kernel's own names.

/// A tracepoint, by the name the kernel knows it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    missing_docs,
    reason = "each is the kernel's own name in another spelling"
)]
pub enum Tracepoint {
    SignalDeliver,
    TcpSendmsgLocked,
    SockSendLength,
    TcpRetransmitSkb,
    NeighEventSendDone,
    NeighUpdate,
    TcpProbe,
    SkDataReady,
    SockRecvLength,
    InetSockSetState,
    NetDevQueue,
    NetDevStartXmit,
    KfreeSkb,
    ConsumeSkb,
    NetifReceiveSkb,
    InetSkErrorReport,
}

impl Tracepoint {
    /// The hooks that a stage may need.
    pub const ALL: [Self; 14] = [
        Self::SignalDeliver,
        Self::TcpSendmsgLocked,
        Self::SockSendLength,
        Self::TcpRetransmitSkb,
        Self::NeighEventSendDone,
        Self::NeighUpdate,
        Self::TcpProbe,
        Self::SkDataReady,
        Self::SockRecvLength,
        Self::InetSockSetState,
        Self::NetDevQueue,
        Self::NetDevStartXmit,
        Self::KfreeSkb,
        Self::ConsumeSkb,
    ];

    /// The kernel's name of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SignalDeliver => "signal_deliver",
            Self::TcpSendmsgLocked => "tcp_sendmsg_locked",
            Self::SockSendLength => "sock_send_length",
            Self::TcpRetransmitSkb => "tcp_retransmit_skb",
            Self::NeighEventSendDone => "neigh_event_send_done",
            Self::NeighUpdate => "neigh_update",
            Self::TcpProbe => "tcp_probe",
            Self::SkDataReady => "sk_data_ready",
            Self::SockRecvLength => "sock_recv_length",
            Self::InetSockSetState => "inet_sock_set_state",
            Self::NetDevQueue => "net_dev_queue",
            Self::NetDevStartXmit => "net_dev_start_xmit",
            Self::KfreeSkb => "kfree_skb",
            Self::ConsumeSkb => "consume_skb",
            Self::NetifReceiveSkb => "netif_receive_skb",
            Self::InetSkErrorReport => "inet_sk_error_report",
        }
    }
}

/// A function of the kernel that is traced where there is no tracepoint (fentry, fexit). All have
/// callers in another file; of those in their own ([`Self::TcpSendmsgLocked`],
/// [`Self::DoTcpSendpages`], [`Self::UdpEnqueueScheduleSkb`], [`Self::SkbConsumeUdp`]), none is
/// inlined in Debian's 6.1, 6.12 and 7.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    missing_docs,
    reason = "each is the kernel's own name in another spelling"
)]
pub enum Function {
    TcpSendmsgLocked,
    DoTcpSendpages,
    TcpPushPendingFrames,
    SkStreamWaitMemory,
    TcpRcvStateProcess,
    SockDefReadable,
    TcpRecvmsg,
    UdpSendmsg,
    Udpv6Sendmsg,
    UdpEnqueueScheduleSkb,
    SkbConsumeUdp,
}

impl Function {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::TcpSendmsgLocked,
        Self::DoTcpSendpages,
        Self::TcpPushPendingFrames,
        Self::SkStreamWaitMemory,
        Self::TcpRcvStateProcess,
        Self::SockDefReadable,
        Self::TcpRecvmsg,
        Self::UdpSendmsg,
        Self::Udpv6Sendmsg,
        Self::UdpEnqueueScheduleSkb,
        Self::SkbConsumeUdp,
    ];

    /// The kernel's name of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpSendmsgLocked => "tcp_sendmsg_locked",
            Self::DoTcpSendpages => "do_tcp_sendpages",
            Self::TcpPushPendingFrames => "__tcp_push_pending_frames",
            Self::SkStreamWaitMemory => "sk_stream_wait_memory",
            Self::TcpRcvStateProcess => "tcp_rcv_state_process",
            Self::SockDefReadable => "sock_def_readable",
            Self::TcpRecvmsg => "tcp_recvmsg",
            Self::UdpSendmsg => "udp_sendmsg",
            Self::Udpv6Sendmsg => "udpv6_sendmsg",
            Self::UdpEnqueueScheduleSkb => "__udp_enqueue_schedule_skb",
            Self::SkbConsumeUdp => "skb_consume_udp",
        }
    }
}

/// The attach point of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hook {
    /// A tracepoint of the kernel, with arguments as BTF describes them.
    Tracepoint(Tracepoint),
    /// The entry of a function (fentry).
    Entry(Function),
    /// The return of a function (fexit).
    Return(Function),
    /// Callbacks of TCP sockets in a cgroup.
    Sockops,
    /// Another hook of a cgroup, by the name of its section.
    Cgroup(&'static str),
    /// The same of all cgroups, whatever the target's is.
    EveryCgroup(&'static str),
    /// A timer of the perf subsystem.
    Timer,
    /// An iterator, by what it walks over; it runs when it is read.
    Walk(&'static str),
}

impl Hook {
    /// Return the name of the section that libbpf knows it by.
    #[must_use]
    pub fn section(self) -> String {
        match self {
            Self::Tracepoint(tracepoint) => format!("tp_btf/{}", tracepoint.name()),
            Self::Entry(function) => format!("fentry/{}", function.name()),
            Self::Return(function) => format!("fexit/{}", function.name()),
            Self::Sockops => "sockops".to_owned(),
            Self::Cgroup(name) | Self::EveryCgroup(name) => name.to_owned(),
            Self::Timer => "perf_event".to_owned(),
            Self::Walk(over) => format!("iter/{over}"),
        }
    }

    /// Return true if messages make it run; others run by time, or once.
    #[must_use]
    pub fn runs_for_messages(self) -> bool {
        !matches!(self, Self::Timer | Self::Walk(_))
    }
}
