//! Places in the kernel where a program may be attached, by the kernel's own names.

/// A tracepoint that a stage may need, by the name the kernel knows it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the kernel's own name in another spelling")]
pub enum Tracepoint {
    TcpSendmsgLocked,
    SockSendLength,
    TcpRetransmitSkb,
    TcpProbe,
    SkDataReady,
    SockRecvLength,
    InetSockSetState,
    NetDevQueue,
    NetDevStartXmit,
    KfreeSkb,
}

impl Tracepoint {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::TcpSendmsgLocked,
        Self::SockSendLength,
        Self::TcpRetransmitSkb,
        Self::TcpProbe,
        Self::SkDataReady,
        Self::SockRecvLength,
        Self::InetSockSetState,
        Self::NetDevQueue,
        Self::NetDevStartXmit,
        Self::KfreeSkb,
    ];

    /// The kernel's name of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TcpSendmsgLocked => "tcp_sendmsg_locked",
            Self::SockSendLength => "sock_send_length",
            Self::TcpRetransmitSkb => "tcp_retransmit_skb",
            Self::TcpProbe => "tcp_probe",
            Self::SkDataReady => "sk_data_ready",
            Self::SockRecvLength => "sock_recv_length",
            Self::InetSockSetState => "inet_sock_set_state",
            Self::NetDevQueue => "net_dev_queue",
            Self::NetDevStartXmit => "net_dev_start_xmit",
            Self::KfreeSkb => "kfree_skb",
        }
    }

    /// The one that a program attaches to, if it attaches to any.
    pub(super) fn of_section(section: &str) -> Option<Self> {
        let name = section.strip_prefix("tp_btf/")?;
        Self::ALL.into_iter().find(|tracepoint| tracepoint.name() == name)
    }
}

/// A function of the kernel that is traced where there is no tracepoint (fentry, fexit). All have callers in
/// another file; of those in their own ([`Self::TcpSendmsgLocked`], [`Self::DoTcpSendpages`],
/// [`Self::UdpEnqueueScheduleSkb`], [`Self::SkbConsumeUdp`]), none is inlined in Debian's 6.1, 6.12 and 7.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the kernel's own name in another spelling")]
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

    /// The one that a program attaches to, if it attaches to any.
    pub(super) fn of_section(section: &str) -> Option<Self> {
        let name = section
            .strip_prefix("fentry/")
            .or_else(|| section.strip_prefix("fexit/"))?;
        Self::ALL.into_iter().find(|function| function.name() == name)
    }
}
