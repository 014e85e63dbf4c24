//! Rules: from what the host has to what will be used. Pure, so that each rule is tested by taking
//! one fact away.

use sockstamp_model::stage::{Stage, StageMap};

use crate::error::Error;
use crate::support::{Capability, Function, Support, Tracepoint};

/// How a stage is measured, or why it is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The hooks whose stamps the stage lies between.
    Hooks(&'static str),
    /// Absent, for this reason in three words or so.
    Absent(&'static str),
}

/// How the stamps of TCP's messages come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// BPF timestamping: selected sockets call for each.
    Callbacks,
    /// They are taken where the packets of selected sockets pass, and around the functions that send.
    Packets,
}

/// The hook that shows the entry of send calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Tracepoint `tcp_sendmsg_locked`, which every send of the host passes.
    Tracepoint,
    /// The sockops callback for header options, which selected sockets alone make: several times a send.
    Callback,
    /// The function of the same name as the tracepoint.
    Function,
}

/// The hooks that show when data came and when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Tracepoints `sk_data_ready` and `sock_recv_length`.
    Tracepoints,
    /// The functions that these are in.
    Functions,
}

/// The hooks that show messages of UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagrams {
    /// Tracepoints of socket calls, and hooks of the cgroup.
    Tracepoints,
    /// The functions that send, queue and read. Without `drops_tell_receiver`, only what finds no room in its
    /// receive buffer is known to be dropped.
    Functions {
        /// [`Support::drops_tell_receiver`]
        drops_tell_receiver: bool,
    },
}

/// What will be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// A line a stage.
    pub stages: StageMap<Way>,
    /// Send calls of TCP are measured, in this way.
    pub tx: Option<Stamps>,
    /// How the entry of send calls is seen, if it is.
    pub entry: Option<Entry>,
    /// What a send call waits for room in the send buffer is seen where it waits.
    pub waits: bool,
    /// What goes out of a file has a function of its own (before Linux 6.5).
    pub pages: bool,
    /// Segments of half-closed connections are looked at, too.
    pub half_closed: bool,
    /// Read calls of TCP are measured, by these hooks.
    pub rx: Option<Reads>,
    /// Arriving segments are looked at: causes, delayed acknowledgements, head-of-line blocking.
    pub segments: bool,
    /// Of reads, the wait for a CPU is told from the rest.
    pub sched: bool,
    /// The scheduler's clock is seen: without it, that is what the reader stood in run queues.
    pub run_clock: bool,
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
    /// How they are seen, if they are.
    pub datagrams: Option<Datagrams>,
}

impl Plan {
    /// What this host allows.
    #[must_use]
    pub fn new(support: &Support) -> Self {
        let tx = stamps(support);
        let rx = reads(support);
        let datagrams = datagrams(support);
        let entry = tx.ok().map(|stamps| match stamps {
            Stamps::Callbacks => best_entry(support),
            Stamps::Packets => Entry::Function,
        });
        let packets = tx == Ok(Stamps::Packets);
        let can_trace = |function| lacks_function(support, function).is_none();
        let sched = rx.is_ok() && run_times(support).is_none();
        Self {
            stages: StageMap::from_fn(|stage| way(support, stage, entry, tx, rx)),
            tx: tx.ok(),
            entry,
            waits: packets && can_trace(Function::SkStreamWaitMemory),
            pages: packets && can_trace(Function::DoTcpSendpages),
            half_closed: packets && can_trace(Function::TcpRcvStateProcess),
            rx: rx.ok(),
            segments: (tx.is_ok() || rx.is_ok()) && lacks(support, Tracepoint::TcpProbe).is_none(),
            sched,
            run_clock: sched && shows_run_clock(support),
            retransmits: tx.is_ok() && lacks(support, Tracepoint::TcpRetransmitSkb).is_none(),
            close: lacks(support, Tracepoint::InetSockSetState).is_none(),
            // setns(2)
            namespaces: holds(support, Capability::SysAdmin),
            host_path: false,
            udp: udp_way(datagrams),
            datagrams: datagrams.ok(),
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
        // Packets are followed by the same tracepoint as long as they are their socket's.
        if self.tx == Some(Stamps::Callbacks) {
            self.stages[Stage::TxQdisc] = Way::Hooks("sockops TSTAMP_SCHED → tp net_dev_start_xmit");
            self.stages[Stage::TxNetwork] = Way::Hooks("tp net_dev_start_xmit → sockops TSTAMP_ACK");
        }
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
            Entry::Function => (self.tx != Some(Stamps::Packets)).then_some("BPF timestamping is used"),
        };
        if let Some(reason) = obstacle {
            return Err(Error::NoEntry { reason });
        }
        self.entry = Some(entry);
        self.stages[Stage::TxCopy] = Way::Hooks(copy_hooks(self.entry));
        Ok(())
    }

    /// Whether functions of the kernel are traced.
    pub(crate) fn traces_functions(&self) -> bool {
        self.tx == Some(Stamps::Packets)
            || self.rx == Some(Reads::Functions)
            || matches!(self.datagrams, Some(Datagrams::Functions { .. }))
    }

    /// Whether flows are selected by a bit on their sockets, that is to be taken back.
    pub(crate) fn uses_bit(&self) -> bool {
        self.tx == Some(Stamps::Callbacks)
    }

    /// Takes the scheduler out: what a reader waited for a CPU is part of `rx.app` then.
    pub fn leave_sched_out(&mut self) {
        self.sched = false;
        self.run_clock = false;
        self.stages[Stage::RxWakeup] = Way::Absent("in rx.app: switched off");
    }

    /// Takes UDP out: every packet of the target's sockets, those of TCP among them, has one hook less.
    pub fn leave_udp_out(&mut self) {
        self.udp = Way::Absent("switched off");
        self.datagrams = None;
    }

    /// Whether messages of UDP sockets are measured.
    #[must_use]
    pub fn measures_udp(&self) -> bool {
        self.datagrams.is_some()
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
    stamps(support)
        .err()
        .or_else(|| lacks(support, Tracepoint::NetDevStartXmit))
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
    obstacles.extend(no_capability(support));
    let plan = Plan::new(support);
    if let (true, Err(tx), None, false) = (support.btf, stamps(support), plan.rx, plan.measures_udp()) {
        obstacles.push(Error::NothingToMeasure {
            kernel: support.kernel.clone(),
            reason: tx.to_owned(),
        });
    }
    obstacles
}

/// That capabilities are missing, if so.
pub(crate) fn no_capability(support: &Support) -> Option<Error> {
    let missing = missing_capabilities(support);
    let names: Vec<_> = missing.iter().map(|capability| capability.name()).collect();
    (!names.is_empty()).then(|| Error::NoCapability {
        missing: names.join(", "),
    })
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
    } else if support.sockops_refused {
        Some("sockops program refused")
    } else {
        None
    }
}

/// How sends of TCP are measured, or why they are not.
fn stamps(support: &Support) -> Result<Stamps, &'static str> {
    match (callbacks(support), packets(support)) {
        (None, _) => Ok(Stamps::Callbacks),
        (_, None) => Ok(Stamps::Packets),
        (_, Some(reason)) => Err(reason),
    }
}

/// Why stamps cannot be taken where packets pass, if so.
fn packets(support: &Support) -> Option<&'static str> {
    let tracepoints = [
        Tracepoint::NetDevQueue,
        Tracepoint::NetDevStartXmit,
        Tracepoint::TcpProbe,
    ];
    let functions = [Function::TcpSendmsgLocked, Function::TcpPushPendingFrames];
    selection(support)
        .or_else(|| {
            functions
                .into_iter()
                .find_map(|needed| lacks_function(support, needed))
        })
        .or_else(|| tracepoints.into_iter().find_map(|needed| lacks(support, needed)))
        .map(|reason| match reason {
            NO_FENTRY => "needs Linux 6.15 or fentry",
            other => other,
        })
}

/// How reads of TCP are measured, or why they are not.
fn reads(support: &Support) -> Result<Reads, &'static str> {
    if let Some(reason) = selection(support) {
        return Err(reason);
    }
    if !support.stamp_clock {
        return Err("needs Linux 5.18");
    }
    let tracepoints = [Tracepoint::SkDataReady, Tracepoint::SockRecvLength];
    let functions = [Function::SockDefReadable, Function::TcpRecvmsg];
    if tracepoints
        .into_iter()
        .all(|needed| lacks(support, needed).is_none())
    {
        return Ok(Reads::Tracepoints);
    }
    match functions
        .into_iter()
        .find_map(|needed| lacks_function(support, needed))
    {
        None => Ok(Reads::Functions),
        Some(_) => Err("needs Linux 6.12 or fentry"),
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
        Some(Entry::Function) => "fentry tcp_sendmsg_locked → fentry __tcp_push_pending_frames",
        _ => "tp tcp_sendmsg_locked → sockops TSTAMP_SENDMSG",
    }
}

/// Why no send callback comes, if so.
fn callbacks(support: &Support) -> Option<&'static str> {
    let whole = support.socket_bit && support.tx_timestamping;
    selection(support).or_else(|| (!whole).then_some("needs Linux 6.15"))
}

/// Why it cannot be told when a task that waited got a CPU, if so.
fn run_times(support: &Support) -> Option<&'static str> {
    if !support.sched_info {
        Some("in rx.app: needs CONFIG_SCHED_INFO")
    } else if !support.kernel_symbols {
        Some("in rx.app: needs CAP_SYSLOG")
    } else {
        None
    }
}

/// Whether the scheduler's clock can be read: from the context of a perf event's program, which is given a type.
fn shows_run_clock(support: &Support) -> bool {
    support.casts && support.perf_events
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

const NO_FENTRY: &str = "fentry refused";

/// Why a function cannot be traced, if so.
fn lacks_function(support: &Support, function: Function) -> Option<&'static str> {
    if support.functions_refused.contains(&function) {
        return Some(NO_FENTRY);
    }
    if support.functions.get(&function).copied().unwrap_or(false) {
        return None;
    }
    Some(match function {
        Function::TcpSendmsgLocked => "needs function tcp_sendmsg_locked",
        Function::DoTcpSendpages => "needs function do_tcp_sendpages",
        Function::TcpPushPendingFrames => "needs function __tcp_push_pending_frames",
        Function::SkStreamWaitMemory => "needs function sk_stream_wait_memory",
        Function::TcpRcvStateProcess => "needs function tcp_rcv_state_process",
        Function::SockDefReadable => "needs function sock_def_readable",
        Function::TcpRecvmsg => "needs function tcp_recvmsg",
        Function::UdpSendmsg => "needs function udp_sendmsg",
        Function::Udpv6Sendmsg => "needs function udpv6_sendmsg",
        Function::UdpEnqueueScheduleSkb => "needs function __udp_enqueue_schedule_skb",
        Function::SkbConsumeUdp => "needs function skb_consume_udp",
    })
}

/// How messages of UDP are seen, or why they are not. It is with all of these hooks or not at all: without one
/// of them, reads could be paired with the wrong datagram, and sends with the wrong packet.
fn datagrams(support: &Support) -> Result<Datagrams, &'static str> {
    let packets = [
        Tracepoint::NetDevQueue,
        Tracepoint::NetDevStartXmit,
        Tracepoint::KfreeSkb,
    ];
    let missing = selection(support)
        .or_else(|| (!support.stamp_clock).then_some("needs Linux 5.18"))
        .or_else(|| packets.into_iter().find_map(|needed| lacks(support, needed)));
    if let Some(reason) = missing {
        return Err(reason);
    }
    let calls = [Tracepoint::SockSendLength, Tracepoint::SockRecvLength];
    let called = calls.into_iter().all(|needed| lacks(support, needed).is_none());
    if called && support.casts && support.drops_tell_receiver {
        return Ok(Datagrams::Tracepoints);
    }
    let functions = [
        Function::UdpSendmsg,
        Function::Udpv6Sendmsg,
        Function::UdpEnqueueScheduleSkb,
        Function::SkbConsumeUdp,
    ];
    match functions
        .into_iter()
        .find_map(|needed| lacks_function(support, needed))
    {
        None => Ok(Datagrams::Functions {
            drops_tell_receiver: support.drops_tell_receiver,
        }),
        Some(_) => Err("needs Linux 6.11 or fentry"),
    }
}

fn udp_way(datagrams: Result<Datagrams, &'static str>) -> Way {
    match datagrams {
        Ok(Datagrams::Tracepoints) => {
            Way::Hooks("tp net_dev_queue, net_dev_start_xmit; cgroup_skb ingress → tp sock_recv_length")
        }
        Ok(Datagrams::Functions { .. }) => Way::Hooks(
            "fentry udp_sendmsg, tp net_dev_queue, net_dev_start_xmit; \
             fentry __udp_enqueue_schedule_skb → skb_consume_udp",
        ),
        Err(reason) => Way::Absent(reason),
    }
}

fn way(
    support: &Support,
    stage: Stage,
    entry: Option<Entry>,
    tx: Result<Stamps, &'static str>,
    rx: Result<Reads, &'static str>,
) -> Way {
    let unless = |absent: Option<&'static str>, hooks| absent.map_or(Way::Hooks(hooks), Way::Absent);
    let sent = |callbacks, packets| match tx {
        Ok(Stamps::Callbacks) => Way::Hooks(callbacks),
        Ok(Stamps::Packets) => Way::Hooks(packets),
        Err(reason) => Way::Absent(reason),
    };
    let read = |tracepoints, functions| match rx {
        Ok(Reads::Tracepoints) => Way::Hooks(tracepoints),
        Ok(Reads::Functions) => Way::Hooks(functions),
        Err(reason) => Way::Absent(reason),
    };
    match stage {
        Stage::TxCopy => unless(tx.err(), copy_hooks(entry)),
        Stage::TxQueue => sent(
            "sockops TSTAMP_SENDMSG → TSTAMP_SCHED",
            "fentry __tcp_push_pending_frames → tp net_dev_queue",
        ),
        Stage::TxQdisc => sent(
            "sockops TSTAMP_SCHED → TSTAMP_SND_SW",
            "tp net_dev_queue → tp net_dev_start_xmit",
        ),
        Stage::TxNetwork => sent(
            "sockops TSTAMP_SND_SW → TSTAMP_ACK",
            "tp net_dev_start_xmit → tp tcp_probe",
        ),
        Stage::RxStack => read(
            "RX software stamp → tp sk_data_ready",
            "RX software stamp → fentry sock_def_readable",
        ),
        Stage::RxApp => read(
            "tp sk_data_ready → tp sock_recv_length",
            "fentry sock_def_readable → fexit tcp_recvmsg",
        ),
        Stage::TxNic | Stage::RxNic if support.nic_clock => Way::Absent("NIC clock unused"),
        Stage::TxNic | Stage::RxNic => Way::Absent("no NIC clock"),
        Stage::RxHol => unless(
            rx.err().or_else(|| lacks(support, Tracepoint::TcpProbe)),
            "RX software stamps at tp tcp_probe",
        ),
        Stage::RxWakeup => match run_times(support).filter(|_| rx.is_ok()) {
            Some(reason) => Way::Absent(reason),
            None if shows_run_clock(support) => read(
                "tp sk_data_ready → task sched_info",
                "fentry sock_def_readable → task sched_info",
            ),
            None => read(
                "tp sk_data_ready → task run_delay",
                "fentry sock_def_readable → task run_delay",
            ),
        },
        // It ends with a send and starts with a read.
        Stage::AppService => match tx {
            Err(reason) => Way::Absent(reason),
            Ok(_) => read(
                "tp sock_recv_length → the next send",
                "fexit tcp_recvmsg → the next send",
            ),
        },
    }
}

#[cfg(test)]
mod tests;
