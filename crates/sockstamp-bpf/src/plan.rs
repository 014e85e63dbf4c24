//! Rules: from what the host has to what will be used. Pure, so that each rule is tested by taking
//! one fact away.

use sockstamp_model::stage::{Stage, StageMap};

use crate::error::Error;
use crate::support::{Capability, Support, Tracepoint};

/// How a stage is measured, or why it is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The hooks whose stamps the stage lies between.
    Hooks(&'static str),
    /// Absent, for this reason in three words or so.
    Absent(&'static str),
}

/// The hook that shows the entry of send calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Tracepoint `tcp_sendmsg_locked`, which every send of the host passes.
    Tracepoint,
    /// The sockops callback for header options, which selected sockets alone make: several times a send.
    Callback,
}

/// What will be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// A line a stage.
    pub stages: StageMap<Way>,
    /// Send calls: BPF timestamping callbacks are used.
    pub tx: bool,
    /// How the entry of send calls is seen, if it is.
    pub entry: Option<Entry>,
    /// Read calls are measured.
    pub rx: bool,
    /// Arriving segments are looked at: causes, delayed acknowledgements, head-of-line blocking.
    pub segments: bool,
    /// Of reads, the wait for a CPU is told from the rest.
    pub sched: bool,
    /// Retransmissions are counted.
    pub retransmits: bool,
    /// Messages in flight are counted when their socket goes away.
    pub close: bool,
    /// Connections that exist are found in other network namespaces, too.
    pub namespaces: bool,
    /// Packets are followed through the host behind the last interface that calls back.
    pub host_path: bool,
    /// Messages of UDP sockets, in both directions.
    pub udp: Way,
}

impl Plan {
    /// What this host allows.
    #[must_use]
    pub fn new(support: &Support) -> Self {
        let tx = callbacks(support);
        let entry = tx.is_none().then(|| best_entry(support));
        let rx = selection(support)
            .or_else(|| (!support.stamp_clock).then_some("needs Linux 6.11"))
            .or_else(|| lacks(support, Tracepoint::SkDataReady))
            .or_else(|| lacks(support, Tracepoint::SockRecvLength));
        let hol = rx.or_else(|| lacks(support, Tracepoint::TcpProbe));
        // It ends with a send and starts with a read.
        let service = tx.or(rx);
        let wakeup = rx.or_else(|| run_times(support));
        let nic = if support.nic_clock {
            "NIC clock unused"
        } else {
            "no NIC clock"
        };
        Self {
            stages: StageMap::from_fn(|stage| way(stage, entry, [tx, rx, hol, wakeup, service], nic)),
            tx: tx.is_none(),
            entry,
            rx: rx.is_none(),
            segments: (tx.is_none() || rx.is_none()) && lacks(support, Tracepoint::TcpProbe).is_none(),
            sched: wakeup.is_none(),
            retransmits: tx.is_none() && lacks(support, Tracepoint::TcpRetransmitSkb).is_none(),
            close: lacks(support, Tracepoint::InetSockSetState).is_none(),
            // setns(2)
            namespaces: holds(support, Capability::SysAdmin),
            host_path: false,
            udp: udp(support),
        }
    }

    /// The plan, if this process may carry it out and anything is left to measure.
    ///
    /// # Errors
    ///
    /// The first of [`obstacles`].
    pub fn require(support: &Support) -> Result<Self, Error> {
        match obstacles(support).into_iter().next() {
            Some(obstacle) => Err(obstacle),
            None => Ok(Self::new(support)),
        }
    }

    /// Takes the entry of send calls out, with the stage that starts there.
    pub fn leave_entry_out(&mut self) {
        self.entry = None;
        self.stages[Stage::TxCopy] = Way::Absent("switched off");
    }

    /// Moves the end of `tx.qdisc` to the last interface of the host.
    ///
    /// # Errors
    ///
    /// [`Error::NoHostPath`] if this host does not allow it.
    pub fn follow_host_path(&mut self, support: &Support) -> Result<(), Error> {
        if let Some(reason) = host_path_obstacle(support) {
            return Err(Error::NoHostPath { reason });
        }
        self.host_path = true;
        self.stages[Stage::TxQdisc] = Way::Hooks("sockops TSTAMP_SCHED → tp net_dev_start_xmit");
        self.stages[Stage::TxNetwork] = Way::Hooks("tp net_dev_start_xmit → sockops TSTAMP_ACK");
        Ok(())
    }

    /// Sees the entry of send calls by this hook.
    ///
    /// # Errors
    ///
    /// [`Error::NoEntry`] if this host does not have it.
    pub fn enter_by(&mut self, entry: Entry, support: &Support) -> Result<(), Error> {
        let obstacle = match entry {
            Entry::Tracepoint => callbacks(support).or_else(|| entry_tracepoint(support)),
            Entry::Callback => callbacks(support),
        };
        if let Some(reason) = obstacle {
            return Err(Error::NoEntry { reason });
        }
        self.entry = Some(entry);
        self.stages[Stage::TxCopy] = Way::Hooks(copy_hooks(self.entry));
        Ok(())
    }

    pub(crate) fn traces_entry(&self) -> bool {
        self.entry == Some(Entry::Tracepoint)
    }

    /// Takes the scheduler out: what a reader waited for a CPU is part of `rx.app` then.
    pub fn leave_sched_out(&mut self) {
        self.sched = false;
        self.stages[Stage::RxWakeup] = Way::Absent("in rx.app: switched off");
    }

    /// Takes UDP out: every packet of the target's sockets, those of TCP among them, has one hook less.
    pub fn leave_udp_out(&mut self) {
        self.udp = Way::Absent("switched off");
    }

    /// Whether messages of UDP sockets are measured.
    #[must_use]
    pub fn measures_udp(&self) -> bool {
        matches!(self.udp, Way::Hooks(_))
    }

    /// The stages that will be absent, each with its reason.
    pub fn absent(&self) -> impl Iterator<Item = (Stage, &'static str)> {
        self.stages.iter().filter_map(|(stage, way)| match way {
            Way::Absent(reason) => Some((stage, *reason)),
            Way::Hooks(_) => None,
        })
    }
}

/// Why packets cannot be followed through the host, if so.
#[must_use]
pub fn host_path_obstacle(support: &Support) -> Option<&'static str> {
    callbacks(support).or_else(|| lacks(support, Tracepoint::NetDevStartXmit))
}

/// Everything that stands in the way of measuring at all.
#[must_use]
pub fn obstacles(support: &Support) -> Vec<Error> {
    let mut obstacles = Vec::new();
    if !support.btf {
        obstacles.push(Error::NoBtf);
    }
    if support.cgroup2.is_none() {
        obstacles.push(Error::NoCgroup2);
    }
    let missing = missing_capabilities(support);
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|capability| capability.name()).collect();
        obstacles.push(Error::NoCapability {
            missing: names.join(", "),
        });
    }
    let plan = Plan::new(support);
    if support.btf && !plan.tx && !plan.rx {
        obstacles.push(Error::NothingToMeasure {
            kernel: support.kernel.clone(),
            reason: selection(support).unwrap_or("hooks are missing").to_owned(),
        });
    }
    obstacles
}

/// The capabilities that loading and attaching need and this process lacks.
#[must_use]
pub fn missing_capabilities(support: &Support) -> Vec<Capability> {
    // CAP_BPF and CAP_PERFMON were split off CAP_SYS_ADMIN, which still covers them: capabilities(7).
    let covered = holds(support, Capability::SysAdmin);
    let mut missing = Vec::new();
    for capability in [Capability::Bpf, Capability::Perfmon] {
        if !covered && !holds(support, capability) {
            missing.push(capability);
        }
    }
    if !holds(support, Capability::NetAdmin) {
        missing.push(Capability::NetAdmin);
    }
    missing
}

fn holds(support: &Support, capability: Capability) -> bool {
    support.capabilities.get(&capability).copied().unwrap_or(false)
}

/// Why no flow can be selected, if so.
fn selection(support: &Support) -> Option<&'static str> {
    if !support.btf {
        Some("no kernel BTF")
    } else if !support.socket_bit {
        Some("needs Linux 6.15")
    } else if support.sockops_refused {
        Some("sockops program refused")
    } else {
        None
    }
}

/// Why no tracepoint shows the entry of sends, if so.
fn entry_tracepoint(support: &Support) -> Option<&'static str> {
    lacks(support, Tracepoint::TcpSendmsgLocked)
        // Without it, the entry of a failed send would be taken for the next one's.
        .or_else(|| lacks(support, Tracepoint::SockSendLength))
}

/// Either costs a selected flow about the same (docs/benchmarks.md). The callback spares all other
/// flows a hook a send; but it does not tell waiting for the send buffer from copying, for which somebody asks
/// who looks at `tx.copy`.
fn best_entry(support: &Support) -> Entry {
    match entry_tracepoint(support) {
        None => Entry::Tracepoint,
        Some(_) => Entry::Callback,
    }
}

fn copy_hooks(entry: Option<Entry>) -> &'static str {
    match entry {
        Some(Entry::Callback) => "sockops HDR_OPT_LEN → TSTAMP_SENDMSG",
        _ => "tp tcp_sendmsg_locked → sockops TSTAMP_SENDMSG",
    }
}

/// Why no send callback comes, if so.
fn callbacks(support: &Support) -> Option<&'static str> {
    selection(support).or_else(|| (!support.tx_timestamping).then_some("needs Linux 6.15"))
}

/// Why it cannot be told when a task that waited got a CPU, if so.
fn run_times(support: &Support) -> Option<&'static str> {
    if !support.sched_info {
        Some("in rx.app: needs CONFIG_SCHED_INFO")
    } else if !support.perf_events {
        Some("in rx.app: no perf events")
    } else if !support.kernel_symbols {
        Some("in rx.app: needs CAP_SYSLOG")
    } else {
        None
    }
}

/// Why a tracepoint cannot be used, if so.
fn lacks(support: &Support, tracepoint: Tracepoint) -> Option<&'static str> {
    if support.refused.contains(&tracepoint) {
        return Some("tracepoint program refused");
    }
    if support.tracepoints.get(&tracepoint).copied().unwrap_or(false) {
        return None;
    }
    Some(match tracepoint {
        Tracepoint::TcpSendmsgLocked => "needs Linux 6.16",
        Tracepoint::SockSendLength => "needs tracepoint sock_send_length",
        Tracepoint::TcpRetransmitSkb => "needs tracepoint tcp_retransmit_skb",
        Tracepoint::TcpProbe => "needs tracepoint tcp_probe",
        Tracepoint::SkDataReady => "needs tracepoint sk_data_ready",
        Tracepoint::SockRecvLength => "needs tracepoint sock_recv_length",
        Tracepoint::InetSockSetState => "needs tracepoint inet_sock_set_state",
        Tracepoint::NetDevQueue => "needs tracepoint net_dev_queue",
        Tracepoint::NetDevStartXmit => "needs tracepoint net_dev_start_xmit",
        Tracepoint::KfreeSkb => "needs tracepoint kfree_skb",
    })
}

/// UDP is measured with all of these or not at all: without one of them, reads could be paired with the
/// wrong datagram, and sends with the wrong packet.
fn udp(support: &Support) -> Way {
    let missing = selection(support)
        .or_else(|| (!support.stamp_clock).then_some("needs Linux 6.11"))
        .or_else(|| {
            [
                Tracepoint::SockSendLength,
                Tracepoint::NetDevQueue,
                Tracepoint::NetDevStartXmit,
                Tracepoint::SockRecvLength,
                Tracepoint::KfreeSkb,
            ]
            .into_iter()
            .find_map(|tracepoint| lacks(support, tracepoint))
        });
    missing.map_or(
        Way::Hooks("tp net_dev_queue, net_dev_start_xmit; cgroup_skb ingress → tp sock_recv_length"),
        Way::Absent,
    )
}

fn way(
    stage: Stage,
    entry: Option<Entry>,
    [tx, rx, hol, wakeup, service]: [Option<&'static str>; 5],
    nic: &'static str,
) -> Way {
    let unless = |absent: Option<&'static str>, hooks| absent.map_or(Way::Hooks(hooks), Way::Absent);
    match stage {
        Stage::TxCopy => unless(tx, copy_hooks(entry)),
        Stage::TxQueue => unless(tx, "sockops TSTAMP_SENDMSG → TSTAMP_SCHED"),
        Stage::TxQdisc => unless(tx, "sockops TSTAMP_SCHED → TSTAMP_SND_SW"),
        Stage::TxNetwork => unless(tx, "sockops TSTAMP_SND_SW → TSTAMP_ACK"),
        Stage::RxStack => unless(rx, "RX software stamp → tp sk_data_ready"),
        Stage::RxApp => unless(rx, "tp sk_data_ready → tp sock_recv_length"),
        Stage::TxNic | Stage::RxNic => Way::Absent(nic),
        Stage::RxHol => unless(hol, "RX software stamps at tp tcp_probe"),
        Stage::RxWakeup => unless(wakeup, "tp sk_data_ready → task sched_info"),
        Stage::AppService => unless(service, "tp sock_recv_length → the next send"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Everything that a host can have.
    fn complete() -> Support {
        Support {
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
            sockops_refused: false,
            socket_bit: true,
            tx_timestamping: true,
            stamp_clock: true,
            sched_info: true,
            perf_events: true,
            kernel_symbols: true,
            mptcp: false,
            nic_clock: false,
            processors: 2,
        }
    }

    fn without(take: impl FnOnce(&mut Support)) -> Support {
        let mut support = complete();
        take(&mut support);
        support
    }

    fn without_tracepoint(tracepoint: Tracepoint) -> Plan {
        Plan::new(&without(|support| {
            support.tracepoints.insert(tracepoint, false);
        }))
    }

    fn only_obstacle(support: &Support) -> String {
        let obstacles = obstacles(support);
        assert_eq!(obstacles.len(), 1, "{obstacles:?}");
        let required = Plan::require(support).unwrap_err().to_string();
        assert_eq!(required, obstacles[0].to_string());
        required
    }

    #[test]
    fn a_complete_host_measures_every_stage_that_there_is() {
        let plan = Plan::require(&complete()).unwrap();
        assert!(plan.tx && plan.rx && plan.segments && plan.sched);
        assert_eq!(plan.entry, Some(Entry::Tracepoint));
        assert!(plan.retransmits && plan.close);
        let absent: Vec<_> = plan.absent().map(|(stage, _)| stage.name()).collect();
        assert_eq!(absent, ["tx.nic", "rx.nic"]);
    }

    #[test]
    fn without_btf_nothing_is_planned() {
        let support = without(|support| support.btf = false);
        assert!(only_obstacle(&support).contains("no BTF"));
        assert_eq!(
            Plan::new(&support).stages[Stage::TxQueue],
            Way::Absent("no kernel BTF")
        );
    }

    #[test]
    fn without_cgroup2_nothing_can_be_attached() {
        assert!(only_obstacle(&without(|support| support.cgroup2 = None)).contains("mount -t cgroup2"));
    }

    #[test]
    fn every_missing_capability_is_named() {
        for capability in [Capability::Bpf, Capability::Perfmon, Capability::NetAdmin] {
            let support = without(|support| {
                support.capabilities.insert(capability, false);
            });
            let obstacle = only_obstacle(&support);
            assert!(
                obstacle.starts_with(&format!("missing {capability}:")),
                "{obstacle}"
            );
        }
    }

    #[test]
    fn sys_admin_covers_bpf_and_perfmon_alone() {
        let capabilities = |net_admin| {
            without(|support| {
                support.capabilities =
                    BTreeMap::from([(Capability::SysAdmin, true), (Capability::NetAdmin, net_admin)]);
            })
        };
        assert!(missing_capabilities(&capabilities(true)).is_empty());
        assert_eq!(missing_capabilities(&capabilities(false)), [Capability::NetAdmin]);
    }

    #[test]
    fn other_namespaces_need_sys_admin() {
        let with = |held| {
            without(|support| {
                support.capabilities.insert(Capability::SysAdmin, held);
            })
        };
        assert!(Plan::new(&with(true)).namespaces);
        assert!(!Plan::new(&with(false)).namespaces);
    }

    #[test]
    fn without_the_bit_on_the_socket_no_flow_is_selected() {
        let support = without(|support| support.socket_bit = false);
        let plan = Plan::new(&support);
        assert!(!plan.tx && !plan.rx && plan.entry.is_none() && !plan.retransmits);
        assert!(only_obstacle(&support).contains("needs Linux 6.15"));
    }

    #[test]
    fn without_the_kfunc_reads_alone_are_measured() {
        let plan = Plan::require(&without(|support| support.tx_timestamping = false)).unwrap();
        assert!(!plan.tx && plan.entry.is_none() && !plan.retransmits && plan.rx);
        assert_eq!(plan.stages[Stage::TxCopy], Way::Absent("needs Linux 6.15"));
    }

    #[test]
    fn without_the_clock_of_stamps_sends_alone_are_measured() {
        let plan = Plan::require(&without(|support| support.stamp_clock = false)).unwrap();
        assert!(plan.tx && plan.entry.is_some() && !plan.rx);
        assert_eq!(plan.stages[Stage::RxStack], Way::Absent("needs Linux 6.11"));
    }

    #[test]
    fn without_both_its_tracepoints_the_entry_of_sends_is_seen_by_the_callback() {
        for (tracepoint, reason) in [
            (Tracepoint::TcpSendmsgLocked, "needs Linux 6.16"),
            (Tracepoint::SockSendLength, "needs tracepoint sock_send_length"),
        ] {
            let support = without(|support| {
                support.tracepoints.insert(tracepoint, false);
            });
            let mut plan = Plan::new(&support);
            assert_eq!(plan.entry, Some(Entry::Callback));
            assert_eq!(
                plan.stages[Stage::TxCopy],
                Way::Hooks("sockops HDR_OPT_LEN → TSTAMP_SENDMSG")
            );
            let refused = plan.enter_by(Entry::Tracepoint, &support).unwrap_err();
            assert!(refused.to_string().contains(reason), "{refused}");
            assert_eq!(plan.entry, Some(Entry::Callback));
        }
    }

    #[test]
    fn the_hook_of_the_entry_can_be_chosen() {
        let mut plan = Plan::new(&complete());
        plan.enter_by(Entry::Callback, &complete()).unwrap();
        assert_eq!(plan.entry, Some(Entry::Callback));
        plan.leave_entry_out();
        assert_eq!(plan.entry, None);
        assert_eq!(plan.stages[Stage::TxCopy], Way::Absent("switched off"));
    }

    #[test]
    fn reads_need_both_their_tracepoints() {
        for tracepoint in [Tracepoint::SkDataReady, Tracepoint::SockRecvLength] {
            let plan = without_tracepoint(tracepoint);
            assert!(plan.tx && plan.entry.is_some() && !plan.rx);
            assert!(matches!(plan.stages[Stage::RxApp], Way::Absent(_)));
        }
    }

    #[test]
    fn without_a_look_at_segments_reads_that_waited_are_refused() {
        let plan = without_tracepoint(Tracepoint::TcpProbe);
        assert!(!plan.segments && plan.tx && plan.rx);
        assert_eq!(
            plan.stages[Stage::RxHol],
            Way::Absent("needs tracepoint tcp_probe")
        );
    }

    #[test]
    fn wake_ups_need_what_the_scheduler_notes_its_clock_and_the_names_of_functions() {
        let takes: [(fn(&mut Support), _); 3] = [
            (
                |support| support.sched_info = false,
                "in rx.app: needs CONFIG_SCHED_INFO",
            ),
            (|support| support.perf_events = false, "in rx.app: no perf events"),
            (
                |support| support.kernel_symbols = false,
                "in rx.app: needs CAP_SYSLOG",
            ),
        ];
        for (take, reason) in takes {
            let plan = Plan::new(&without(take));
            assert!(plan.rx && !plan.sched);
            assert_eq!(plan.stages[Stage::RxWakeup], Way::Absent(reason));
            assert!(matches!(plan.stages[Stage::RxApp], Way::Hooks(_)));
        }
    }

    #[test]
    fn without_reads_there_are_no_wake_ups() {
        let plan = without_tracepoint(Tracepoint::SockRecvLength);
        assert!(!plan.sched);
        assert!(matches!(plan.stages[Stage::RxWakeup], Way::Absent(_)));
    }

    #[test]
    fn what_is_switched_off_is_said() {
        let mut plan = Plan::new(&complete());
        plan.leave_sched_out();
        assert!(plan.rx && !plan.sched);
        assert_eq!(
            plan.stages[Stage::RxWakeup],
            Way::Absent("in rx.app: switched off")
        );
    }

    #[test]
    fn udp_needs_all_its_tracepoints() {
        assert!(Plan::new(&complete()).measures_udp());
        for (tracepoint, reason) in [
            (Tracepoint::SockSendLength, "needs tracepoint sock_send_length"),
            (Tracepoint::NetDevQueue, "needs tracepoint net_dev_queue"),
            (Tracepoint::NetDevStartXmit, "needs tracepoint net_dev_start_xmit"),
            (Tracepoint::SockRecvLength, "needs tracepoint sock_recv_length"),
            (Tracepoint::KfreeSkb, "needs tracepoint kfree_skb"),
        ] {
            assert_eq!(without_tracepoint(tracepoint).udp, Way::Absent(reason));
        }
        let plan = Plan::new(&without(|support| support.stamp_clock = false));
        assert_eq!(plan.udp, Way::Absent("needs Linux 6.11"));
    }

    #[test]
    fn udp_can_be_left_out() {
        let mut plan = Plan::new(&complete());
        plan.leave_udp_out();
        assert_eq!(plan.udp, Way::Absent("switched off"));
        assert!(plan.tx && plan.rx);
    }

    #[test]
    fn counts_beside_the_stages_have_a_tracepoint_each() {
        let plan = without_tracepoint(Tracepoint::TcpRetransmitSkb);
        assert!(!plan.retransmits && plan.tx && plan.close);
        let plan = without_tracepoint(Tracepoint::InetSockSetState);
        assert!(!plan.close && plan.tx && plan.retransmits);
    }

    #[test]
    fn the_way_through_the_host_is_followed_when_asked_for() {
        let mut plan = Plan::new(&complete());
        assert!(!plan.host_path);
        let usual = plan.stages[Stage::TxQdisc].clone();
        plan.follow_host_path(&complete()).unwrap();
        assert!(plan.host_path);
        assert_ne!(plan.stages[Stage::TxQdisc], usual);
    }

    #[test]
    fn the_way_through_the_host_needs_callbacks_and_its_tracepoint() {
        let refused = |take: &dyn Fn(&mut Support)| {
            let support = without(take);
            let mut plan = Plan::new(&support);
            let error = plan.follow_host_path(&support).unwrap_err().to_string();
            assert!(!plan.host_path, "{error}");
            error
        };
        let no_tracepoint = refused(&|support| {
            support.tracepoints.insert(Tracepoint::NetDevStartXmit, false);
        });
        assert!(
            no_tracepoint.contains("needs tracepoint net_dev_start_xmit"),
            "{no_tracepoint}"
        );
        let no_callbacks = refused(&|support| support.tx_timestamping = false);
        assert!(no_callbacks.contains("needs Linux 6.15"), "{no_callbacks}");
    }

    #[test]
    fn a_refused_program_is_no_matter_of_the_version() {
        let plan = Plan::new(&without(|support| {
            support.refused.insert(Tracepoint::TcpProbe);
        }));
        assert_eq!(
            plan.stages[Stage::RxHol],
            Way::Absent("tracepoint program refused")
        );
        let support = without(|support| support.sockops_refused = true);
        assert!(only_obstacle(&support).contains("sockops program refused"));
    }

    #[test]
    fn a_nic_that_stamps_is_not_called_missing() {
        let plan = Plan::new(&without(|support| support.nic_clock = true));
        assert_eq!(plan.stages[Stage::TxNic], Way::Absent("NIC clock unused"));
    }
}
