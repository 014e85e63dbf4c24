//! Reasons for which something is not measured, as data.

use std::fmt;

use super::point::Callback;
use crate::facts::{Capability, Confinement, Function, Tracepoint};

/// A release of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(pub u8, pub u8);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linux {}.{}", self.0, self.1)
    }
}

/// The reason why a stage is absent, or a hook cannot be used; displayed in about three words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// One host alone does not see it.
    NeedsBothHosts,
    /// The kernel does not describe its types.
    NoBtf,
    /// It does, but we cannot read that.
    UnreadableBtf,
    /// The kernel has it since this release.
    Needs(Release),
    /// The kernel has it since this release; before, functions that cannot be traced here take its
    /// place.
    NeedsOrFentry(Release),
    /// The kernel lacks a tracepoint.
    NeedsTracepoint(Tracepoint),
    /// The kernel lacks a function, or has it only inlined into others.
    NeedsFunction(Function),
    /// The kernel lacks a callback.
    NeedsCallback(Callback),
    /// The kernel lets programs of this kind not call a helper.
    NeedsHelper(&'static str),
    /// It is unknown if it does.
    UnseenHelper(&'static str),
    /// The kernel did not take a program on a hook of cgroups.
    CgroupRefused,
    /// The kernel did not take a program on a tracepoint.
    TracepointRefused,
    /// The kernel did not take a program on a function.
    FentryRefused,
    /// The kernel did not take the sockops program.
    SockopsRefused,
    /// A foreign program is attached exclusively to the target's cgroup: systemd attaches one for a
    /// service with restricted addresses.
    NoFurtherProgram,
    /// BPF timestamping is used, which stamps in another way.
    Callbacks,
    /// The kernel was built without CONFIG_SCHED_INFO.
    NeedsSchedInfo,
    /// The kernel does not let us open a perf event whose program gets typed arguments.
    NeedsPerfEvents,
    /// The scheduler's clock differs between CPUs.
    UnstableClock,
    /// The hook for the entry of sends does not see it.
    UnseenByEntry,
    /// The kernel hides where its functions are.
    NeedsSyslog,
    /// It is unknown if the kernel shows the addresses of its functions.
    UnseenSymbols,
    /// No interface stamps in hardware.
    NoNicClock,
    /// Some interface stamps in hardware, which is not used.
    UnusedNicClock,
    /// It is unknown if some interface stamps in hardware.
    UnseenNicClock,
    /// The request leaves it out.
    SwitchedOff,
    /// The time is part of `rx.app`, for this reason.
    InRxApp(&'static Reason),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NoBtf => "no kernel BTF",
            Self::UnreadableBtf => "kernel BTF not readable",
            Self::Needs(release) => return write!(f, "needs {release}"),
            Self::NeedsOrFentry(release) => return write!(f, "needs {release} or fentry"),
            Self::NeedsTracepoint(tracepoint) => {
                return write!(f, "needs tracepoint {}", tracepoint.name());
            }
            Self::NeedsCallback(callback) => {
                return write!(f, "needs callback {}", callback.name());
            }
            Self::NeedsFunction(function) => {
                return write!(f, "needs function {}", function.name());
            }
            Self::NeedsHelper(helper) => return write!(f, "needs helper {helper}"),
            Self::UnseenHelper(helper) => return write!(f, "helper {helper} could not be tried"),
            Self::CgroupRefused => "cgroup program refused",
            Self::TracepointRefused => "tracepoint program refused",
            Self::FentryRefused => "fentry refused",
            Self::SockopsRefused => "sockops program refused",
            Self::NoFurtherProgram => {
                "a program in the cgroup, such as that of IPAddressAllow= or IPAddressDeny=, admits no further one"
            }
            Self::NeedsBothHosts => "needs the recordings of both hosts",
            Self::Callbacks => "BPF timestamping is used",
            Self::NeedsSchedInfo => "needs CONFIG_SCHED_INFO",
            Self::NeedsPerfEvents => "needs perf events",
            Self::UnstableClock => "scheduler's clock unstable",
            Self::UnseenByEntry => "not seen by this entry",
            Self::NeedsSyslog => "needs CAP_SYSLOG",
            Self::UnseenSymbols => "kernel symbols could not be seen",
            Self::NoNicClock => "no NIC clock",
            Self::UnusedNicClock => "NIC clock unused",
            Self::UnseenNicClock => "NIC clock could not be seen",
            Self::SwitchedOff => "switched off",
            Self::InRxApp(reason) => return write!(f, "in rx.app: {reason}"),
        };
        f.write_str(text)
    }
}

/// The reason why there is no plan, in one line that names the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The kernel has no description of its types.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux): sockstamp needs one built with CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf,
    /// The description of the kernel's types cannot be read.
    #[error("the kernel's BTF cannot be read: check the permissions of /sys/kernel/btf/vmlinux")]
    UnreadableBtf,
    /// Something confines this process.
    #[error("{0}")]
    Confined(Confinement),
    /// No cgroup version 2 hierarchy is mounted.
    #[error("no cgroup2 file system is mounted: try `mount -t cgroup2 none /sys/fs/cgroup`")]
    NoCgroup2,
    /// The process may not load programs.
    #[error("missing {}: run as root, or `setcap cap_bpf,cap_perfmon,cap_net_admin+ep` the binary", list(.0))]
    NoCapability(Vec<Capability>),
    /// The kernel refuses a program that every measurement needs.
    #[error("this kernel refuses a program that walks over {0}; see `sockstamp doctor`")]
    NoWalk(&'static str),
    /// No stage can be measured on this kernel.
    #[error("no stage can be measured on Linux {kernel}: {reason}; see `sockstamp doctor`")]
    NothingToMeasure {
        /// Release of the running kernel.
        kernel: String,
        /// The reason why sends are not measured.
        reason: Reason,
    },
    /// The host has not the hook that was to show the entry of send calls.
    #[error("this hook cannot show the entry of send calls: {0}; omit --expert entry")]
    NoEntry(Reason),
    /// Packets cannot be followed after the last interface that calls back.
    #[error("packets cannot be followed through this host: {0}; omit --host-path")]
    NoHostPath(Reason),
    /// Programs that cannot go between windows of measuring.
    #[error(
        "this host cannot measure in windows: that needs the tracepoints and callbacks of Linux 6.16; omit --expert windows"
    )]
    NoWindows,
    /// No callback for options of TCP.
    #[error("this host cannot tag segments: that needs BPF timestamping, Linux 6.15; omit --tag")]
    NoTags,
}

fn list(capabilities: &[Capability]) -> String {
    let names: Vec<_> = capabilities
        .iter()
        .map(|capability| capability.name())
        .collect();
    names.join(", ")
}
