//! Facts about a host, as plain data. They depend on nothing: [`crate::probe`] gathers them, and
//! [`crate::plan`] has the rules.
//!
//! A fact is `None` where the probe could not look. Unknown is not absent.

mod confinement;
mod hook_points;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

pub use confinement::Confinement;
pub use hook_points::{Function, Hook, Tracepoint};
pub use trial::{Trial, TriedHook};

/// A capability that sockstamp needs (capabilities(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Load programs and make maps.
    Bpf,
    /// Read kernel memory from programs, and attach to tracepoints.
    Perfmon,
    /// Attach to a cgroup, and load sockops programs.
    NetAdmin,
    /// Covers the first two on any kernel; also for the network namespaces of others.
    SysAdmin,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Bpf, Self::Perfmon, Self::NetAdmin, Self::SysAdmin];

    /// The name in capabilities(7).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpf => "CAP_BPF",
            Self::Perfmon => "CAP_PERFMON",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::SysAdmin => "CAP_SYS_ADMIN",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The numbers of the callbacks of receiving, and the bit that requests them for a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveCallbacks {
    /// `SK_BPF_CB_RX`
    pub bit: u32,
    /// `BPF_SOCK_OPS_TSTAMP_RCV_CB`
    pub segment: u32,
    /// `BPF_SOCK_OPS_TSTAMP_DATA_READY_CB`
    pub ready: u32,
    /// `BPF_SOCK_OPS_TSTAMP_RECVMSG_CB`
    pub read: u32,
}

/// The bit of `sk_bpf_cb_flags`, and the numbers of the callbacks, that only sends of UDP need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramCallbacks {
    /// `SK_BPF_CB_TX_EVERY_SKB`: the bit by which a socket calls back for each packet that it
    /// sends.
    pub packet_bit: u32,
    /// `BPF_SOCK_OPS_TSTAMP_SENDMSG_END_CB`
    pub end: u32,
    /// `BPF_SOCK_OPS_UDP_BOUND_CB`
    pub bound: u32,
}

/// Everything that a plan depends on. Each field was probed, not concluded from a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Release of the running kernel, as uname(2) gives it.
    pub kernel: String,
    /// `/sys/kernel/btf/vmlinux` can be read; `None` if it exists but cannot be read.
    pub btf: Option<bool>,
    /// Capabilities in effect.
    pub capabilities: BTreeMap<Capability, Option<bool>>,
    /// Surroundings that take their effect away.
    pub confinement: BTreeSet<Confinement>,
    /// The mount point of the cgroup2 hierarchy.
    pub cgroup2: Option<PathBuf>,
    /// The tracepoints this kernel has.
    pub tracepoints: BTreeMap<Tracepoint, Option<bool>>,
    /// Tracepoints that the kernel refuses, as far as tried.
    pub refused: BTreeSet<Tracepoint>,
    /// The functions this kernel has, by themselves and not only inlined into others.
    pub functions: BTreeMap<Function, Option<bool>>,
    /// Functions that the kernel refuses to trace, as far as tried.
    pub functions_refused: BTreeSet<Function>,
    /// The kernel does not take our sockops program, as far as that was tried.
    pub sockops_refused: bool,
    /// Hooks of cgroups on which the kernel takes no program of ours, as far as tried.
    pub cgroup_hooks_refused: BTreeSet<&'static str>,
    /// Hooks of the target's cgroups that others have for themselves, as far as tried.
    pub cgroup_hooks_taken: BTreeSet<&'static str>,
    /// Walks over the kernel's objects that it does not let us do, as far as tried.
    pub walks_refused: BTreeSet<&'static str>,
    /// `struct sock` has the bit that selects a socket (`sk_bpf_cb_flags`, v6.15).
    pub socket_bit: Option<bool>,
    /// The kfunc that requests a message's stamps (`bpf_sock_ops_enable_tx_tstamp`, v6.15).
    pub tx_timestamping: Option<bool>,
    /// The number of the callback that a send call begins with, if the kernel has it:
    /// `BPF_SOCK_OPS_TSTAMP_SENDMSG_ENTRY_CB`, which `kernel/series` proposes.
    pub begin_callback: Option<u32>,
    /// The callbacks of receiving, if the kernel has them, which `kernel/series` proposes.
    pub receive_callbacks: Option<ReceiveCallbacks>,
    /// The callbacks of sends of UDP, if the kernel has them, which `kernel/series` proposes.
    pub datagram_callbacks: Option<DatagramCallbacks>,
    /// An skb shows the clock of its stamp (`tstamp_type`, v6.11; `mono_delivery_time`, v5.18).
    pub stamp_clock: Option<bool>,
    /// Programs may give memory a type (`bpf_rdonly_cast`, v6.2).
    pub casts: Option<bool>,
    /// `kfree_skb` shows the socket for which a packet was (its argument `rx_sk`, v6.11).
    pub drops_tell_receiver: Option<bool>,
    /// Programs of a cgroup see the system call that they run in (`bpf_task_pt_regs`, v5.15).
    pub call_registers: Option<bool>,
    /// The scheduler sums the time that each run queue of a cgroup was throttled
    /// (`throttled_clock_self_time` in `struct cfs_rq`, v6.6), and programs can find it.
    pub quota_clock: Option<bool>,
    /// The scheduler notes when a task got a CPU (`CONFIG_SCHED_INFO`).
    pub sched_info: Option<bool>,
    /// The kernel has perf events, and lets us open one, as far as that was tried.
    pub perf_events: Option<bool>,
    /// The scheduler's clock is the same on all processors.
    pub sched_clock_stable: Option<bool>,
    /// The kernel shows us where its functions are (`/proc/kallsyms`).
    pub kernel_symbols: Option<bool>,
    /// The kernel was built with MPTCP, whose messages no callback shows.
    pub mptcp: Option<bool>,
    /// Some interface of this network namespace stamps in hardware.
    pub nic_clock: Option<bool>,
    /// Interfaces, of all network namespaces that can be entered, whose NIC was found to stamp
    /// sends now, as for PTP.
    pub stamping_nics: BTreeSet<String>,
    /// As above, whose NIC stamps every packet that it receives.
    pub receiving_nics: BTreeSet<String>,
    /// Processors that may ever be online: each has a bank of counters.
    pub processors: usize,
}

impl Facts {
    /// Return whether a capability is known to be missing.
    #[must_use]
    pub fn lacks(&self, capability: Capability) -> bool {
        self.capabilities.get(&capability) == Some(&Some(false))
    }

    /// Return whether a capability is known to be in effect.
    #[must_use]
    pub fn holds(&self, capability: Capability) -> bool {
        self.capabilities.get(&capability) == Some(&Some(true))
    }

    /// Add whether the kernel lets functions be traced (fentry).
    #[must_use]
    pub fn with_functions_traced(mut self, traced: bool) -> Self {
        if !traced {
            self.functions_refused.extend(Function::ALL);
        }
        self
    }

    /// Return the same host as if its kernel had neither BPF timestamping nor the tracepoints added
    /// after v6.1, to compare their replacements with them on the same traffic.
    #[must_use]
    pub fn of_an_older_kernel(mut self) -> Self {
        self.socket_bit = Some(false);
        self.tx_timestamping = Some(false);
        self.begin_callback = None;
        self.receive_callbacks = None;
        self.datagram_callbacks = None;
        for tracepoint in [
            Tracepoint::TcpSendmsgLocked,
            Tracepoint::SockSendLength,
            Tracepoint::SkDataReady,
            Tracepoint::SockRecvLength,
        ] {
            self.tracepoints.insert(tracepoint, Some(false));
        }
        self
    }

    /// Add that the kernel does not take a program of ours on this hook.
    pub fn refuse(&mut self, hook: Hook) {
        match hook {
            Hook::Tracepoint(tracepoint) => {
                self.refused.insert(tracepoint);
            }
            Hook::Entry(function) | Hook::Return(function) => {
                self.functions_refused.insert(function);
            }
            Hook::Sockops => self.sockops_refused = true,
            Hook::Timer => self.perf_events = Some(false),
            Hook::Cgroup(name) | Hook::EveryCgroup(name) => {
                self.cgroup_hooks_refused.insert(name);
            }
            Hook::Walk(over) => {
                self.walks_refused.insert(over);
            }
        }
    }

    /// Add that the target's cgroup admits no program of ours on this hook, because others have it
    /// for themselves.
    pub fn find_taken(&mut self, hook: Hook) {
        if let Hook::Cgroup(name) | Hook::EveryCgroup(name) = hook {
            self.cgroup_hooks_taken.insert(name);
        }
    }
}

/// Sample facts for tests.
#[cfg(any(test, feature = "fixtures"))]
impl Facts {
    /// Add what `kernel/series` does.
    #[must_use]
    pub fn with_series(mut self) -> Self {
        self.begin_callback = Some(21);
        self.receive_callbacks = Some(ReceiveCallbacks {
            bit: 4,
            segment: 22,
            ready: 23,
            read: 24,
        });
        self.datagram_callbacks = Some(DatagramCallbacks {
            packet_bit: 2,
            end: 25,
            bound: 26,
        });
        self
    }

    /// Return a host that lacks nothing that a plan needs, and has no more than that.
    #[must_use]
    pub fn complete() -> Self {
        const YES: Option<bool> = Some(true);
        Self {
            kernel: "6.18.0".into(),
            btf: YES,
            capabilities: BTreeMap::from([
                (Capability::Bpf, YES),
                (Capability::Perfmon, YES),
                (Capability::NetAdmin, YES),
                (Capability::SysAdmin, Some(false)),
            ]),
            confinement: BTreeSet::new(),
            cgroup2: Some("/sys/fs/cgroup".into()),
            tracepoints: Tracepoint::ALL.map(|tracepoint| (tracepoint, YES)).into(),
            refused: BTreeSet::new(),
            functions: Function::ALL.map(|function| (function, YES)).into(),
            functions_refused: BTreeSet::new(),
            sockops_refused: false,
            cgroup_hooks_refused: BTreeSet::new(),
            cgroup_hooks_taken: BTreeSet::new(),
            walks_refused: BTreeSet::new(),
            socket_bit: YES,
            tx_timestamping: YES,
            begin_callback: None,
            receive_callbacks: None,
            datagram_callbacks: None,
            stamp_clock: YES,
            casts: YES,
            drops_tell_receiver: YES,
            call_registers: YES,
            quota_clock: YES,
            sched_info: YES,
            perf_events: YES,
            sched_clock_stable: YES,
            kernel_symbols: YES,
            mptcp: Some(false),
            nic_clock: Some(false),
            stamping_nics: BTreeSet::new(),
            receiving_nics: BTreeSet::new(),
            processors: 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_program_is_a_fact_about_its_hook() {
        let mut facts = Facts::complete();
        facts.refuse(Hook::Tracepoint(Tracepoint::SkDataReady));
        facts.refuse(Hook::Return(Function::TcpRecvmsg));
        assert_eq!(facts.refused, BTreeSet::from([Tracepoint::SkDataReady]));
        assert_eq!(
            facts.functions_refused,
            BTreeSet::from([Function::TcpRecvmsg])
        );
        assert!(!facts.sockops_refused && facts.perf_events == Some(true));
        facts.refuse(Hook::Sockops);
        facts.refuse(Hook::Timer);
        assert!(facts.sockops_refused && facts.perf_events == Some(false));
        facts.refuse(Hook::Cgroup("cgroup/connect4"));
        facts.refuse(Hook::EveryCgroup("cgroup_skb/ingress"));
        facts.refuse(Hook::Walk("tcp"));
        assert_eq!(
            facts.cgroup_hooks_refused,
            BTreeSet::from(["cgroup/connect4", "cgroup_skb/ingress"])
        );
        assert_eq!(facts.walks_refused, BTreeSet::from(["tcp"]));
    }

    #[test]
    fn an_unknown_capability_is_neither_held_nor_missing() {
        let mut facts = Facts::complete();
        facts.capabilities.insert(Capability::Bpf, None);
        assert!(!facts.holds(Capability::Bpf) && !facts.lacks(Capability::Bpf));
        assert!(facts.lacks(Capability::SysAdmin) && facts.holds(Capability::NetAdmin));
    }
}
