//! Look at the running host. No rule is here: what follows from the facts is in [`crate::plan`].

mod btf;
mod cgroup2;
mod hooks;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nix::unistd::{SysconfVar, sysconf};
use sockstamp::interface;

pub(crate) use self::cgroup2::is_cgroup2;
pub use self::cgroup2::mount as cgroup2_mount;
pub(crate) use self::hooks::obstacle;
pub use self::hooks::{functions_can_be_traced, try_all, try_what_is_used};

use self::btf::KernelTypes;
use crate::facts::{Capability, Facts, Function, Tracepoint};
use crate::{privilege, sched};

/// Gather the facts that can be had by looking. Needs no privilege; nothing on the host is changed.
#[must_use]
pub fn facts() -> Facts {
    let types = KernelTypes::read();
    Facts {
        kernel: kernel_release(),
        btf: types.readable(),
        capabilities: Capability::ALL
            .map(|capability| (capability, privilege::in_effect(capability).ok()))
            .into(),
        cgroup2: cgroup2_mount(),
        tracepoints: Tracepoint::ALL
            .map(|tracepoint| (tracepoint, types.have_tracepoint(tracepoint)))
            .into(),
        refused: BTreeSet::new(),
        functions: Function::ALL
            .map(|function| (function, types.have_function(function.name())))
            .into(),
        functions_refused: BTreeSet::new(),
        sockops_refused: false,
        socket_bit: types.have_field("sock", &["sk_bpf_cb_flags"]),
        tx_timestamping: types.have_function("bpf_sock_ops_enable_tx_tstamp"),
        stamp_clock: types.have_field("sk_buff", &["tstamp_type", "mono_delivery_time"]),
        casts: types.have_function("bpf_rdonly_cast"),
        drops_tell_receiver: types.have_argument(Tracepoint::KfreeSkb, 3),
        sched_info: types.have_field("sched_info", &["last_arrival"]),
        // The documented way to find out: perf_event_open(2).
        perf_events: exists("/proc/sys/kernel/perf_event_paranoid"),
        kernel_symbols: sched::symbols_are_shown(),
        mptcp: exists("/proc/sys/net/mptcp"),
        nic_clock: nic_clock(),
        processors: processors(),
    }
}

/// `None` where a directory on the way cannot be searched.
fn exists(path: &str) -> Option<bool> {
    Path::new(path).try_exists().ok()
}

/// An interface that vanishes meanwhile, or that does not tell, leaves it unknown whether it was the one.
fn nic_clock() -> Option<bool> {
    let names = interface::names().ok()?;
    let found: Vec<_> = names
        .iter()
        .map(|name| interface::capabilities(name).map(|can| can.tx_hardware || can.rx_hardware))
        .collect();
    if found.iter().any(|stamps| matches!(stamps, Ok(true))) {
        return Some(true);
    }
    found.iter().all(Result::is_ok).then_some(false)
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
