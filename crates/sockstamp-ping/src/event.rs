use std::io;
use std::net::IpAddr;

use sockstamp_model::clock::Nanos;

/// Which target, as [`Engine::add`](crate::Engine::add) numbered it. Never given twice by one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub(crate) u64);

impl TargetId {
    /// The number: 0, 1, 2, as targets are added.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What happened. `seq` counts the probes of a target from 1.
#[derive(Debug)]
pub enum Event {
    /// What became of a probe; once for each.
    Probe {
        /// Whose.
        target: TargetId,
        /// Which.
        seq: u64,
        /// What became of it.
        outcome: Outcome,
    },
    /// A probe was answered after it had been told lost.
    Late {
        /// Whose.
        target: TargetId,
        /// Which.
        seq: u64,
        /// The answer, with its times.
        answer: Answer,
    },
    /// A probe that had its answer already was answered again.
    Duplicate {
        /// Whose.
        target: TargetId,
        /// Which.
        seq: u64,
        /// The answer, with its times.
        answer: Answer,
    },
    /// Something came that answers no probe. It changes the outcome of none.
    Stray {
        /// Whose, if that can be told.
        target: Option<TargetId>,
        /// Who sent it.
        from: IpAddr,
        /// Why it is none.
        why: Stray,
    },
    /// Nothing more comes of this target.
    Ended {
        /// Whose.
        target: TargetId,
        /// Why.
        end: End,
    },
}

/// What became of a probe.
#[derive(Debug)]
pub enum Outcome {
    /// It was answered in time.
    Answered(Answer),
    /// Nothing came within the timeout.
    Lost,
    /// The network, or this host in its place, refused it: an ICMP error.
    Refused(Refusal),
    /// Its target ended before anything came and before the timeout.
    Abandoned,
    /// The kernel did not send it: ENOBUFS, ENETUNREACH, EMSGSIZE and others.
    NotSent(io::Error),
}

/// An answer and its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// What answered.
    pub kind: AnswerKind,
    /// Who sent it: for [`AnswerKind::PortUnreachable`] who says so.
    pub from: IpAddr,
    /// The round trip.
    pub times: Times,
    /// The TTL or hop limit that was left.
    pub hop_limit: Option<u8>,
    /// Bytes of payload of an echo reply or a datagram.
    pub bytes: usize,
    /// How many bytes of what was sent are missing at the end of an echo reply; 0 otherwise.
    pub missing: usize,
    /// A later probe of the target was answered before.
    pub reordered: bool,
}

/// A round trip, as the kernel saw it and as user space did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// From stamp to stamp; user space's where [`fallback`](Self::fallback) says so.
    pub rtt: Nanos,
    /// What a prober without stamps would say: from before the send call to after the read call.
    pub user_rtt: Nanos,
    /// Who stamped the probe, for `rtt`.
    pub tx: TxKind,
    /// Who stamped the answer, for `rtt`.
    pub rx: RxKind,
    /// Why `rtt` is user space's.
    pub fallback: Option<Fallback>,
    /// Where the prober's own time went.
    pub waits: Waits,
}

impl Times {
    /// What the prober added to the round trip, and others count as the network's: `user_rtt` − `rtt`.
    #[must_use]
    pub fn prober_delay(&self) -> Nanos {
        self.user_rtt.saturating_sub(self.rtt)
    }

    /// `hardware`, `software` or `user`: who took the stamps of `rtt`.
    #[must_use]
    pub fn stamps(&self) -> &'static str {
        match self.tx {
            TxKind::Hardware => "hardware",
            TxKind::Software | TxKind::Sched => "software",
            TxKind::User => "user",
        }
    }
}

/// What answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnswerKind {
    /// An echo reply.
    EchoReply,
    /// A datagram from the port.
    UdpReply,
    /// ICMP's "port unreachable", from whoever: somebody was there to say that nobody listens.
    PortUnreachable,
    /// The port is open.
    SynAck,
    /// The port is closed.
    Reset,
}

/// Who stamped a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxKind {
    /// The network interface.
    Hardware,
    /// The driver (SND).
    Software,
    /// The kernel before the packet scheduler (SCHED), where the driver does not stamp: `rtt` includes the scheduler.
    Sched,
    /// User space.
    User,
}

/// Who stamped an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RxKind {
    /// The network interface.
    Hardware,
    /// The kernel.
    Software,
    /// User space.
    User,
}

/// Why a round trip is user space's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// No stamp of the probe came in time ([`Limits::stamp_wait`](crate::Limits::stamp_wait)).
    NoTxStamp,
    /// The answer came without a stamp.
    NoRxStamp,
    /// CLOCK_REALTIME, in which the kernel stamps, was stepped while the probe was under way.
    ClockStep,
    /// The stamps contradict the time that passed in user space. Counted
    /// ([`Counters::implausible`](crate::Counters::implausible)).
    Implausible,
    /// A SYN of one's own needs CAP_NET_RAW, and the kernel stamps none of connect(2).
    NoPrivilege,
    /// Ids of stamps were uncertain after a failed send, on kernels before 6.13, so the probe asked for none.
    NoId,
}

impl Fallback {
    /// A word for it, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoTxStamp => "no-tx-stamp",
            Self::NoRxStamp => "no-rx-stamp",
            Self::ClockStep => "clock-step",
            Self::Implausible => "implausible",
            Self::NoPrivilege => "no-privilege",
            Self::NoId => "no-id",
        }
    }
}

/// Where the prober's own time went; what has no stamps is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// Before the send call, to entering the packet scheduler.
    pub send: Option<Nanos>,
    /// `tx.qdisc`: entering the packet scheduler, to being handed to the driver.
    pub qdisc: Option<Nanos>,
    /// `rx.stack` and `rx.wakeup` together: stamped by the kernel, to the prober running. Absent where it ran already.
    pub wakeup: Option<Nanos>,
    /// `rx.app`: the prober running, or the stamp where it ran already, to the answer being read.
    pub read: Option<Nanos>,
}

/// An ICMP error in the place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What it means.
    pub kind: RefusalKind,
    /// The router or host that says so; `None` where this host does.
    pub from: Option<IpAddr>,
    /// The type of the ICMP message.
    pub icmp_type: u8,
    /// Its code.
    pub icmp_code: u8,
    /// The error as in errno(3).
    pub errno: i32,
    /// The round trip to whoever refused it.
    pub times: Times,
}

impl Refusal {
    /// The error as one of the standard library.
    #[must_use]
    pub fn error(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno)
    }
}

/// What an ICMP error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// No route, no neighbour, a firewall.
    Unreachable,
    /// It was forwarded as often as its TTL or hop limit allowed.
    HopLimit,
    /// It is larger than the path takes.
    TooBig {
        /// What the path takes, in bytes; 0 where the router does not say.
        mtu: u32,
    },
    /// Any other.
    Other,
}

/// Why something that came answers no probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stray {
    /// It is from somebody who was asked nothing.
    Source,
    /// It lacks the cookie of the probe that it pretends to answer: forged.
    Cookie,
    /// Its probe was never sent, or is forgotten.
    Unknown,
    /// Too short to tell what it answers.
    Truncated,
}

impl Stray {
    /// A word for it, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Cookie => "cookie",
            Self::Unknown => "unknown",
            Self::Truncated => "truncated",
        }
    }
}

/// Why a target ended.
#[derive(Debug)]
pub enum End {
    /// All its probes have their outcome.
    Count,
    /// Its [deadline](crate::Settings::deadline) has passed.
    Deadline,
    /// [`Engine::remove`](crate::Engine::remove) or [`Engine::stop`](crate::Engine::stop).
    Removed,
    /// Its network namespace is gone: the process ended or the name was removed. What was in flight is abandoned.
    NamespaceGone,
    /// A system call failed that must not.
    Failed(String),
}
