//! Facts about the running host. No rule is here: what follows from them is in [`crate::plan`].

mod hook_points;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fmt, fs};

pub use hook_points::{Function, Tracepoint};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::ReferencesType;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Struct, Typedef};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use nix::unistd::{SysconfVar, sysconf};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use sockstamp::interface;

use crate::hooks::{Hook, Trial};
use crate::object::quiet_libbpf;
use crate::sched;

/// A capability that sockstamp needs (capabilities(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// To load programs and make maps.
    Bpf,
    /// To read kernel memory from programs and to attach to tracepoints.
    Perfmon,
    /// To attach to a cgroup, and for sockops programs.
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

    /// The bit in `CapEff` of proc(5); include/uapi/linux/capability.h.
    const fn bit(self) -> u32 {
        match self {
            Self::NetAdmin => 12,
            Self::SysAdmin => 21,
            Self::Perfmon => 38,
            Self::Bpf => 39,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the host has. Every field is a fact that was looked at, not concluded from a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// Release of the running kernel, as uname(2) gives it.
    pub kernel: String,
    /// `/sys/kernel/btf/vmlinux` can be read.
    pub btf: bool,
    /// Capabilities in effect.
    pub capabilities: BTreeMap<Capability, bool>,
    /// Where the cgroup2 hierarchy is mounted.
    pub cgroup2: Option<PathBuf>,
    /// The tracepoints this kernel has.
    pub tracepoints: BTreeMap<Tracepoint, bool>,
    /// Those of them that the kernel does not let us use, as far as that was tried.
    pub refused: BTreeSet<Tracepoint>,
    /// The functions this kernel has, by themselves and not only inlined into others.
    pub functions: BTreeMap<Function, bool>,
    /// Those of them that the kernel does not let us trace, as far as that was tried.
    pub functions_refused: BTreeSet<Function>,
    /// The kernel does not take our sockops program, as far as that was tried.
    pub sockops_refused: bool,
    /// `struct sock` has the bit that selects a socket (`sk_bpf_cb_flags`, v6.15).
    pub socket_bit: bool,
    /// The kfunc that asks for a message's stamps (`bpf_sock_ops_enable_tx_tstamp`, v6.15).
    pub tx_timestamping: bool,
    /// An skb tells the clock of its stamp (`tstamp_type`, v6.11; `mono_delivery_time`, v5.18).
    pub stamp_clock: bool,
    /// Programs may give memory a type (`bpf_rdonly_cast`, v6.2).
    pub casts: bool,
    /// `kfree_skb` tells the socket that a packet was for (its argument `rx_sk`, v6.11).
    pub drops_tell_receiver: bool,
    /// The scheduler notes when a task got a CPU (`CONFIG_SCHED_INFO`).
    pub sched_info: bool,
    /// The kernel has perf events, and lets us open one, as far as that was tried.
    pub perf_events: bool,
    /// The kernel shows us where its functions are (`/proc/kallsyms`).
    pub kernel_symbols: bool,
    /// The kernel was built with MPTCP, whose messages no callback shows.
    pub mptcp: bool,
    /// Some interface of this network namespace stamps in hardware.
    pub nic_clock: bool,
    /// Processors that may ever be online: each has a bank of counters.
    pub processors: usize,
}

/// For tests of what follows from facts.
#[cfg(any(test, feature = "fixtures"))]
impl Support {
    /// Of a host that lacks nothing that a plan needs, and no more than that.
    #[must_use]
    pub fn complete() -> Self {
        Self {
            kernel: "6.18.0".into(),
            btf: true,
            capabilities: BTreeMap::from([
                (Capability::Bpf, true),
                (Capability::Perfmon, true),
                (Capability::NetAdmin, true),
                (Capability::SysAdmin, false),
            ]),
            cgroup2: Some("/sys/fs/cgroup".into()),
            tracepoints: Tracepoint::ALL.map(|tracepoint| (tracepoint, true)).into(),
            refused: BTreeSet::new(),
            functions: Function::ALL.map(|function| (function, true)).into(),
            functions_refused: BTreeSet::new(),
            sockops_refused: false,
            socket_bit: true,
            tx_timestamping: true,
            stamp_clock: true,
            casts: true,
            drops_tell_receiver: true,
            sched_info: true,
            perf_events: true,
            kernel_symbols: true,
            mptcp: false,
            nic_clock: false,
            processors: 2,
        }
    }
}

impl Support {
    /// Looks at the host. Needs no privilege; what cannot be seen is false.
    #[must_use]
    pub fn probe() -> Self {
        // libbpf complains to standard error where there is no BTF: we say it ourselves, in one line.
        quiet_libbpf();
        let btf = Btf::from_vmlinux().ok();
        let has = |found: &dyn Fn(&Btf<'_>) -> bool| btf.as_ref().is_some_and(found);
        Self {
            kernel: kernel_release(),
            btf: btf.is_some(),
            capabilities: capabilities(),
            cgroup2: cgroup2_mount(),
            tracepoints: Tracepoint::ALL
                .into_iter()
                .map(|tracepoint| (tracepoint, has(&|btf| has_tracepoint(btf, tracepoint))))
                .collect(),
            refused: BTreeSet::new(),
            functions: Function::ALL
                .into_iter()
                .map(|function| (function, has(&|btf| has_function(btf, function.name()))))
                .collect(),
            functions_refused: BTreeSet::new(),
            sockops_refused: false,
            socket_bit: has(&|btf| has_field(btf, "sock", "sk_bpf_cb_flags")),
            tx_timestamping: has(&|btf| has_function(btf, "bpf_sock_ops_enable_tx_tstamp")),
            stamp_clock: has(&|btf| {
                has_field(btf, "sk_buff", "tstamp_type") || has_field(btf, "sk_buff", "mono_delivery_time")
            }),
            casts: has(&|btf| has_function(btf, "bpf_rdonly_cast")),
            drops_tell_receiver: has(&|btf| tracepoint_has_argument(btf, Tracepoint::KfreeSkb, 3)),
            sched_info: has(&|btf| has_field(btf, "sched_info", "last_arrival")),
            // The documented way to find out: perf_event_open(2).
            perf_events: Path::new("/proc/sys/kernel/perf_event_paranoid").exists(),
            kernel_symbols: sched::symbols_are_shown(),
            mptcp: Path::new("/proc/sys/net/mptcp").exists(),
            nic_clock: nic_clock(),
            processors: processors(),
        }
    }

    /// Adds whether the kernel lets functions be traced (fentry), as [`crate::hooks::functions_can_be_traced`]
    /// has found.
    #[must_use]
    pub fn with_functions_traced(mut self, traced: bool) -> Self {
        if !traced {
            self.functions_refused.extend(Function::ALL);
        }
        self
    }

    /// The same host, as if its kernel were one without BPF timestamping and without the tracepoints that
    /// came after v6.1: so that what takes their place can be compared with them on the same traffic.
    #[must_use]
    pub fn of_an_older_kernel(mut self) -> Self {
        self.socket_bit = false;
        self.tx_timestamping = false;
        for tracepoint in [
            Tracepoint::TcpSendmsgLocked,
            Tracepoint::SockSendLength,
            Tracepoint::SkDataReady,
            Tracepoint::SockRecvLength,
        ] {
            self.tracepoints.insert(tracepoint, false);
        }
        self
    }

    /// Adds what came of trying the hooks.
    #[must_use]
    pub fn after(mut self, hooks: &[Hook]) -> Self {
        for hook in hooks
            .iter()
            .filter(|hook| matches!(hook.trial, Trial::Refused(_)))
        {
            self.refused.extend(Tracepoint::of_section(&hook.section));
            self.functions_refused.extend(Function::of_section(&hook.section));
            self.sockops_refused |= hook.section == "sockops";
            self.perf_events &= hook.section != "perf_event";
        }
        self
    }
}

fn nic_clock() -> bool {
    let names = interface::names().unwrap_or_default();
    names
        .iter()
        .filter_map(|name| interface::capabilities(name).ok())
        .any(|can| can.tx_hardware || can.rx_hardware)
}

fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |release| release.trim().to_owned())
}

fn processors() -> usize {
    sysconf(SysconfVar::_NPROCESSORS_CONF)
        .ok()
        .flatten()
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(1)
}

/// Every tracepoint leaves a typedef of its handlers' type (include/trace/bpf_probe.h).
fn has_tracepoint(btf: &Btf<'_>, tracepoint: Tracepoint) -> bool {
    btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{}", tracepoint.name()))
        .is_some()
}

fn has_function(btf: &Btf<'_>, name: &str) -> bool {
    btf.type_by_name::<Func<'_>>(name).is_some()
}

/// Whether its handlers get an argument at this place, counted from 0.
fn tracepoint_has_argument(btf: &Btf<'_>, tracepoint: Tracepoint, place: usize) -> bool {
    btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{}", tracepoint.name()))
        .and_then(|handler| btf.type_by_id::<Ptr<'_>>(handler.referenced_type_id()))
        .and_then(|pointer| btf.type_by_id::<FuncProto<'_>>(pointer.referenced_type_id()))
        // In front of its own, each handler gets the data it was registered with.
        .is_some_and(|handler| handler.len() > place + 1)
}

/// Looks into anonymous members too: `tstamp_type` is in one.
fn has_field(btf: &Btf<'_>, structure: &str, field: &str) -> bool {
    btf.type_by_name::<Struct<'_>>(structure)
        .is_some_and(|found| has_member(btf, &found, field))
}

fn has_member(btf: &Btf<'_>, structure: &Struct<'_>, field: &str) -> bool {
    use libbpf_rs::btf::types::Composite;

    fn search(btf: &Btf<'_>, composite: &Composite<'_>, field: &str) -> bool {
        composite.iter().any(|member| match member.name {
            Some(name) => name == field,
            None => btf
                .type_by_id::<Composite<'_>>(member.ty)
                .is_some_and(|inner| search(btf, &inner, field)),
        })
    }

    btf.type_by_id::<Composite<'_>>(libbpf_rs::btf::BtfType::type_id(structure))
        .is_some_and(|composite| search(btf, &composite, field))
}

fn capabilities() -> BTreeMap<Capability, bool> {
    let effective = fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| parse_effective(&status))
        .unwrap_or(0);
    Capability::ALL
        .into_iter()
        .map(|capability| (capability, effective >> capability.bit() & 1 == 1))
        .collect()
}

fn parse_effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Where this process sees the cgroup2 hierarchy, or else a mount of our own, which nobody else sees:
/// for the commands that it runs, ip-netns(8) mounts a /sys without what is mounted below. Such a
/// path is this process's alone.
#[must_use]
pub fn cgroup2_mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    parse_cgroup2(&mounts).or_else(|| {
        static DETACHED: OnceLock<Option<OwnedFd>> = OnceLock::new();
        let mount = DETACHED.get_or_init(|| detached_cgroup2().ok()).as_ref()?;
        Some(format!("/proc/self/fd/{}", mount.as_raw_fd()).into())
    })
}

/// It takes CAP_SYS_ADMIN, and goes with its descriptor: fsmount(2).
fn detached_cgroup2() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )
}

fn parse_cgroup2(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| path.replace("\\040", " ").into())
    })
}

/// Whether `path` is a directory of a cgroup2 file system.
pub(crate) fn is_cgroup2(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_capabilities_are_the_hexadecimal_mask() {
        let status = "Name:\tcat\nCapPrm:\t0000000000000000\nCapEff:\t000000c000001000\n";
        assert_eq!(parse_effective(status), Some(1 << 39 | 1 << 38 | 1 << 12));
        assert_eq!(parse_effective("Name:\tcat\n"), None);
    }

    #[test]
    fn a_refused_program_is_a_fact_about_its_hook() {
        let refused = |section: &str| Hook {
            section: section.into(),
            used: true,
            trial: Trial::Refused("Operation not permitted".into()),
        };
        let mut support = Support::probe();
        support = support.after(&[refused("tp_btf/sk_data_ready"), refused("fentry/tcp_sendmsg")]);
        assert_eq!(support.refused, BTreeSet::from([Tracepoint::SkDataReady]));
        assert!(!support.sockops_refused);
        support = support.after(&[refused("sockops"), refused("perf_event")]);
        assert!(support.sockops_refused && !support.perf_events);
    }

    #[test]
    fn the_cgroup2_mount_is_found_beside_version_1() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/my\\040unified cgroup2 rw 0 0\n";
        assert_eq!(parse_cgroup2(mounts), Some("/sys/fs/cgroup/my unified".into()));
        assert_eq!(parse_cgroup2("proc /proc proc rw 0 0\n"), None);
    }
}
