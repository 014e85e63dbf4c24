//! Gather the facts of the running host. No rule is here: [`crate::plan`] decides.

mod btf;
mod cgroup;
mod confinement;
mod hooks;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use libbpf_rs::ProgramType;
use nix::unistd::{SysconfVar, sysconf};
use sockstamp::interface::{self, HardwareStamping, RxFilter, TxStamping};
use sockstamp_host::cgroup::mount;
use sockstamp_host::netns;

pub(crate) use self::hooks::obstacle;
pub use self::hooks::{functions_can_be_traced, try_all, try_what_is_used};

use self::btf::KernelTypes;
use crate::facts::{Capability, DatagramCallbacks, Facts, Function, ReceiveCallbacks, Tracepoint};
use crate::kernel::of_kernel;
use crate::{nic, plan, privilege, sched};

/// Gather the facts that can be had by looking. Needs no privilege; nothing on the host is changed.
#[must_use]
pub fn facts() -> Facts {
    let types = of_kernel().ok();
    let mut facts = by_looking(&KernelTypes::of(types.as_deref()));
    let may_load = plan::missing_capabilities(&facts).is_empty();
    facts.confinement = confinement::confinements(may_load);
    // Without them, the kernel refuses to answer.
    if may_load && facts.confinement.is_empty() {
        facts.call_registers = calls_are_seen();
    }
    facts
}

fn by_looking(types: &KernelTypes<'_>) -> Facts {
    let stamping: Vec<_> = netns::in_each(None, nic::stamping_here)
        .into_values()
        .flatten()
        .flatten()
        .collect();
    Facts {
        kernel: kernel_release(),
        btf: types.readable(),
        capabilities: Capability::ALL
            .map(|capability| (capability, privilege::in_effect(capability).ok()))
            .into(),
        confinement: BTreeSet::new(),
        cgroup2: mount(),
        tracepoints: Tracepoint::ALL
            .map(|tracepoint| (tracepoint, types.have_tracepoint(tracepoint)))
            .into(),
        refused: BTreeSet::new(),
        functions: Function::ALL
            .map(|function| (function, types.have_function(function.name())))
            .into(),
        functions_refused: BTreeSet::new(),
        sockops_refused: false,
        cgroup_hooks_refused: BTreeSet::new(),
        cgroup_hooks_taken: BTreeSet::new(),
        walks_refused: BTreeSet::new(),
        socket_bit: types.have_field("sock", &["sk_bpf_cb_flags"]),
        tx_timestamping: types.have_function("bpf_sock_ops_enable_tx_tstamp"),
        begin_callback: of_series(|| types.enumerator("BPF_SOCK_OPS_TSTAMP_SENDMSG_ENTRY_CB")),
        receive_callbacks: of_series(|| receive_callbacks(types)),
        datagram_callbacks: of_series(|| datagram_callbacks(types)),
        stamp_clock: types.have_field("sk_buff", &["tstamp_type", "mono_delivery_time"]),
        casts: types.have_function("bpf_rdonly_cast"),
        drops_tell_receiver: types.have_argument(Tracepoint::KfreeSkb, 3),
        call_registers: None,
        quota_clock: both(
            types.have_field("cfs_rq", &["throttled_clock_self_time"]),
            types.have_field("sched_entity", &["cfs_rq"]),
        ),
        sched_info: types.have_field("sched_info", &["last_arrival"]),
        // The documented way to find out: perf_event_open(2).
        perf_events: exists("/proc/sys/kernel/perf_event_paranoid"),
        sched_clock_stable: sched_clock_is_stable(types.have_function("sched_clock_stable")),
        kernel_symbols: sched::symbols_are_shown(),
        mptcp: exists("/proc/sys/net/mptcp"),
        nic_clock: nic_clock(),
        stamping_nics: names_of(&stamping, |now| now.tx != TxStamping::OFF),
        receiving_nics: names_of(&stamping, |now| now.rx == RxFilter::ALL),
        processors: processors(),
    }
}

fn both(first: Option<bool>, second: Option<bool>) -> Option<bool> {
    Some(first? && second?)
}

/// Look for what `kernel/series` adds, if the programs were built to use it.
fn of_series<T>(look: impl FnOnce() -> Option<T>) -> Option<T> {
    if cfg!(feature = "series") {
        look()
    } else {
        None
    }
}

/// All three or none: reads need all of them.
fn receive_callbacks(types: &KernelTypes<'_>) -> Option<ReceiveCallbacks> {
    Some(ReceiveCallbacks {
        bit: types.enumerator("SK_BPF_CB_RX")?,
        segment: types.enumerator("BPF_SOCK_OPS_TSTAMP_RCV_CB")?,
        ready: types.enumerator("BPF_SOCK_OPS_TSTAMP_DATA_READY_CB")?,
        read: types.enumerator("BPF_SOCK_OPS_TSTAMP_RECVMSG_CB")?,
    })
}

/// All three or none: sends of UDP need all of them.
fn datagram_callbacks(types: &KernelTypes<'_>) -> Option<DatagramCallbacks> {
    Some(DatagramCallbacks {
        packet_bit: types.enumerator("SK_BPF_CB_TX_EVERY_SKB")?,
        end: types.enumerator("BPF_SOCK_OPS_TSTAMP_SENDMSG_END_CB")?,
        bound: types.enumerator("BPF_SOCK_OPS_UDP_BOUND_CB")?,
    })
}

/// The kernel tells by the verifier alone which programs may use a helper.
fn calls_are_seen() -> Option<bool> {
    /// Of include/uapi/linux/bpf.h.
    const BPF_FUNC_TASK_PT_REGS: u32 = 175;
    let supported = ProgramType::CgroupSockAddr.is_helper_supported(BPF_FUNC_TASK_PT_REGS);
    supported.ok()
}

/// `None` where a directory on the way cannot be searched.
fn exists(path: &str) -> Option<bool> {
    Path::new(path).try_exists().ok()
}

/// Return the names of interfaces that stamp so.
fn names_of(
    stamping: &[(String, HardwareStamping)],
    is_so: fn(&HardwareStamping) -> bool,
) -> BTreeSet<String> {
    let names = stamping.iter().filter(|(_, now)| is_so(now));
    names.map(|(name, _)| name.clone()).collect()
}

/// If an interface vanishes meanwhile, or its driver gives no answer, it is unknown whether it
/// stamps.
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

/// Return whether the scheduler's clock is the same on all processors. Only where it may be
/// unstable is `sched_clock_stable()` a function (`CONFIG_HAVE_UNSTABLE_SCHED_CLOCK`,
/// kernel/sched/clock.c). That is on x86, where the kernel gives up this clock and the clock source
/// together (`mark_tsc_unstable()`, arch/x86/kernel/tsc.c, v6.1), and does not list a source that
/// it gave up (`available_clocksource_show()`, kernel/time/clocksource.c).
fn sched_clock_is_stable(may_be_unstable: Option<bool>) -> Option<bool> {
    const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    if !may_be_unstable? {
        return Some(true);
    }
    fs::read_to_string(AVAILABLE)
        .ok()
        .map(|sources| has_tsc(&sources))
}

fn has_tsc(sources: &str) -> bool {
    sources.split_whitespace().any(|source| source == "tsc")
}

fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(
        |_| "unknown".to_owned(),
        |release| release.trim().to_owned(),
    )
}

fn processors() -> usize {
    sysconf(SysconfVar::_NPROCESSORS_CONF)
        .ok()
        .flatten()
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_stamp_counter_that_is_only_tried_early_is_not_trusted() {
        assert!(has_tsc("tsc kvm-clock \n"));
        assert!(!has_tsc("tsc-early hpet acpi_pm \n"));
        assert!(!has_tsc("hyperv_clocksource_tsc_page acpi_pm \n"));
    }

    #[test]
    fn a_clock_that_cannot_be_unstable_is_stable() {
        assert_eq!(sched_clock_is_stable(Some(false)), Some(true));
        assert_eq!(sched_clock_is_stable(None), None);
    }
}
