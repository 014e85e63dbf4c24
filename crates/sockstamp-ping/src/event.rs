use std::io;
use std::net::IpAddr;

use sockstamp_model::clock::Nanos;

/// The number of a target, as [`Engine::add`](crate::Engine::add) returned it. An engine never
/// reuses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub(crate) u64);

impl TargetId {
    /// The number: 0, 1, 2, as targets are added.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// An event. `seq` counts the probes of a target from 1.
#[derive(Debug)]
pub enum Event {
    /// The result of a probe; once for each.
    Probe {
        /// The target.
        target: TargetId,
        /// The probe.
        seq: u64,
        /// The result.
        outcome: Outcome,
    },
    /// A probe was answered after it had been reported lost.
    Late {
        /// The target.
        target: TargetId,
        /// The probe.
        seq: u64,
        /// The answer, with its times.
        answer: Answer,
    },
    /// A probe was refused after it had been reported lost: a neighbour that does not answer ARP
    /// is known to be unreachable after three seconds.
    LateRefusal {
        /// The target.
        target: TargetId,
        /// The probe.
        seq: u64,
        /// The ICMP error.
        refusal: Refusal,
    },
    /// A probe that had its answer already was answered again.
    Duplicate {
        /// The target.
        target: TargetId,
        /// The probe.
        seq: u64,
        /// The answer, with its times.
        answer: Answer,
    },
    /// Something came that answers no probe. It changes the outcome of none.
    Stray {
        /// The target, if known.
        target: Option<TargetId>,
        /// The sender.
        from: IpAddr,
        /// The reason why it answers no probe.
        why: Stray,
    },
    /// The target has ended: no more events of it come.
    Ended {
        /// The target.
        target: TargetId,
        /// The reason.
        end: End,
    },
    /// No event, but a [`Waker`](crate::Waker) ended the wait.
    Woken,
}

/// The result of a probe.
#[derive(Debug)]
pub enum Outcome {
    /// An answer came in time.
    Answered(Answer),
    /// No answer came within the timeout.
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
    /// The kind of answer.
    pub kind: AnswerKind,
    /// The sender; for [`AnswerKind::PortUnreachable`] that of the ICMP message.
    pub from: IpAddr,
    /// The round trip.
    pub times: Times,
    /// The TTL or hop limit that was left.
    pub hop_limit: Option<u8>,
    /// Bytes of payload of an echo reply or a datagram.
    pub bytes: usize,
    /// Bytes missing at the end of an echo reply; otherwise 0.
    pub missing: usize,
    /// A later probe of the target was answered before.
    pub reordered: bool,
}

/// A round trip, as the kernel saw it and as user space did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The time from stamp to stamp; the time in user space if there is a
    /// [`fallback`](Self::fallback).
    pub rtt: Nanos,
    /// The time that a user-space pinger would report: from before the send call to after the read
    /// call.
    pub user_rtt: Nanos,
    /// The source of the probe's stamp, for `rtt`.
    pub tx: TxKind,
    /// The source of the answer's stamp, for `rtt`.
    pub rx: RxKind,
    /// The reason why `rtt` was taken in user space.
    pub fallback: Option<Fallback>,
    /// The parts of the prober's own time.
    pub waits: Waits,
}

impl Times {
    /// Return the prober's share of the round trip, which a user-space pinger attributes to the
    /// network: `user_rtt` − `rtt` − [`qdisc`](Self::qdisc) − [`neighbour`](Self::neighbour).
    #[must_use]
    pub fn prober_delay(&self) -> Nanos {
        self.user_rtt
            .saturating_sub(self.rtt)
            .saturating_sub(self.qdisc())
            .saturating_sub(self.neighbour())
    }

    /// Return the probe's wait for the neighbour's address (`tx.neighbour`: ARP, or neighbour
    /// discovery of IPv6), which is neither the prober's nor the path's; zero where it had none, or
    /// where it is in `rtt` ([`TxKind::User`]).
    #[must_use]
    pub fn neighbour(&self) -> Nanos {
        match self.tx {
            TxKind::User => Nanos(0),
            _ => self.waits.neighbour.unwrap_or_default(),
        }
    }

    /// Return the probe's time in this host's packet scheduler (`tx.qdisc`), which is neither the
    /// prober's nor the network's; zero where it is unknown, or in `rtt` ([`TxKind::User`]).
    #[must_use]
    pub fn qdisc(&self) -> Nanos {
        match self.tx {
            TxKind::User => Nanos(0),
            _ => self.waits.qdisc.unwrap_or_default(),
        }
    }

    /// Return `hardware`, `software` or `user`: the source of the stamps of `rtt`.
    #[must_use]
    pub fn stamps(&self) -> &'static str {
        match self.tx {
            TxKind::Hardware => "hardware",
            TxKind::Software | TxKind::Sched => "software",
            TxKind::User => "user",
        }
    }
}

/// The kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnswerKind {
    /// An echo reply.
    EchoReply,
    /// A datagram from the port.
    UdpReply,
    /// ICMP "port unreachable", from any host: the path works, and nothing listens.
    PortUnreachable,
    /// The port is open.
    SynAck,
    /// The port is closed.
    Reset,
}

/// The source of a probe's stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxKind {
    /// The network interface.
    Hardware,
    /// The driver (SND).
    Software,
    /// The kernel before the packet scheduler (SCHED), where the driver does not stamp: `rtt`
    /// includes the scheduler.
    Sched,
    /// User space.
    User,
}

/// The source of an answer's stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RxKind {
    /// The network interface.
    Hardware,
    /// The kernel.
    Software,
    /// User space.
    User,
}

/// The reason for a round trip in user-space time.
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
    /// Ids of stamps were uncertain after a failed send, on kernels before 6.13, so the probe
    /// requested none.
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

/// The parts of the prober's own time; parts without stamps are absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// From before the send call until the packet scheduler, or until the end of the call.
    pub send: Option<Nanos>,
    /// `tx.neighbour`: from the end of the send call to the packet scheduler. Absent where the
    /// neighbour's address was known.
    pub neighbour: Option<Nanos>,
    /// `tx.qdisc`: entering the packet scheduler, to being handed to the driver.
    pub qdisc: Option<Nanos>,
    /// `rx.stack` and `rx.wakeup` together: stamped by the kernel, to the prober running. Absent
    /// where it ran already.
    pub wakeup: Option<Nanos>,
    /// `rx.app`: the prober running, or the stamp where it ran already, to the answer being read.
    pub read: Option<Nanos>,
}

/// An ICMP error in the place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The meaning of the error.
    pub kind: RefusalKind,
    /// The router or host that reports it; `None` if this host does.
    pub from: Option<IpAddr>,
    /// The type of the ICMP message.
    pub icmp_type: u8,
    /// Its code.
    pub icmp_code: u8,
    /// The error as in errno(3).
    pub errno: i32,
    /// The round trip to the refusing host.
    pub times: Times,
}

impl Refusal {
    /// The error as one of the standard library.
    #[must_use]
    pub fn error(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno)
    }
}

/// The meaning of an ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// No route, no neighbour, a firewall.
    Unreachable,
    /// Forwarded as often as its TTL or hop limit allowed.
    HopLimit,
    /// Longer than the path MTU.
    TooBig {
        /// The path MTU in bytes; 0 if the router does not report it.
        mtu: u32,
    },
    /// Any other.
    Other,
}

/// The reason why a packet answers no probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stray {
    /// The answer is from a host that was not probed.
    Source,
    /// Without the cookie of the probe that it claims to answer: forged.
    Cookie,
    /// Its probe was never sent, or is forgotten.
    Unknown,
    /// The answer is too short to identify its probe.
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

/// The reason why a target ended.
#[derive(Debug)]
pub enum End {
    /// All its probes have their outcome.
    Count,
    /// An answer came, and more are not wanted ([`crate::Settings::until_answered`]).
    Answered,
    /// Its [deadline](crate::Settings::deadline) has passed.
    Deadline,
    /// [`Engine::remove`](crate::Engine::remove) or [`Engine::stop`](crate::Engine::stop).
    Removed,
    /// Its network namespace no longer exists: the process ended or the name was removed. Probes in
    /// flight are abandoned.
    NamespaceGone,
    /// A system call failed that must not.
    Failed(String),
}
