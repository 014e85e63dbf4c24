//! The rules, one by one. If there are several methods, the most precise one comes first.

use std::borrow::Cow;
use std::collections::BTreeSet;

use sockstamp_model::part::Part;
use sockstamp_model::stage::Stage;

use super::method::Method;
use super::point::{Callback, Point};
use super::reason::{Obstacle, Reason, Release};
use super::request::{EntryHook, Hooks, Request};
use super::source::{Datagrams, Entry, Reads, Stamps};
use crate::facts::{Capability, Confinement, Facts, Function, Tracepoint};

const BPF_TIMESTAMPING: Release = Release(6, 15);
const ENTRY_TRACEPOINT: Release = Release(6, 16);
const CLOCK_OF_STAMPS: Release = Release(5, 18);
const READ_TRACEPOINTS: Release = Release(6, 12);
/// Both ends of a call of accept() are told apart by it.
const QUOTA_CLOCK: Release = Release(6, 6);
const CASTS: Release = Release(6, 2);
const CALL_REGISTERS: &str = "bpf_task_pt_regs";
/// Hooks of cgroups that show accepts of connections.
const ACCEPTS: [&str; 2] = ["cgroup/getpeername4", "cgroup/getpeername6"];
/// The hook of cgroups that shows the end of sockets.
const RELEASE: &str = "cgroup/sock_release";
const RECEIVER_OF_DROPS: Release = Release(6, 11);

/// Return the facts as a request wants them to be seen.
pub(super) fn seen_by(facts: &Facts, hooks: Hooks) -> Cow<'_, Facts> {
    match hooks {
        Hooks::Best => Cow::Borrowed(facts),
        Hooks::Older => Cow::Owned(facts.clone().of_an_older_kernel()),
    }
}

/// Return whether a fact is known to hold: nothing is loaded on a guess.
fn known(fact: Option<bool>) -> bool {
    fact == Some(true)
}

/// Return the defect of the kernel's BTF, if any.
#[must_use]
pub(super) fn no_btf(facts: &Facts) -> Option<Obstacle> {
    // That is the reason then.
    if facts.confinement.contains(&Confinement::MaskedSys) {
        return None;
    }
    match facts.btf {
        Some(true) => None,
        Some(false) => Some(Obstacle::NoBtf),
        None => Some(Obstacle::UnreadableBtf),
    }
}

/// Return that capabilities are missing, if any is.
#[must_use]
pub(super) fn no_capability(facts: &Facts) -> Option<Obstacle> {
    let missing = missing_capabilities(facts);
    (!missing.is_empty()).then_some(Obstacle::NoCapability(missing))
}

/// Return the capabilities that loading and attaching need and this process lacks. If it is unknown
/// whether one is in effect, the kernel will decide.
#[must_use]
pub fn missing_capabilities(facts: &Facts) -> Vec<Capability> {
    // CAP_BPF and CAP_PERFMON were split off CAP_SYS_ADMIN, which still covers them:
    // capabilities(7).
    let covered = !facts.lacks(Capability::SysAdmin);
    let needed = [
        (Capability::Bpf, !covered),
        (Capability::Perfmon, !covered),
        (Capability::NetAdmin, true),
    ];
    needed
        .into_iter()
        .filter_map(|(capability, needed)| {
            (needed && facts.lacks(capability)).then_some(capability)
        })
        .collect()
}

pub(super) fn nothing_to_measure(facts: &Facts) -> Option<Obstacle> {
    if !known(facts.btf) || reads(facts).is_ok() || datagrams(facts, true).is_ok() {
        return None;
    }
    stamps(facts)
        .err()
        .map(|reason| Obstacle::NothingToMeasure {
            kernel: facts.kernel.clone(),
            reason,
        })
}

/// Walks mark the sockets of tasks, adopt connections and take marks off.
pub(super) fn no_walk(facts: &Facts) -> Option<Obstacle> {
    facts
        .walks_refused
        .first()
        .map(|over| Obstacle::NoWalk(over))
}

/// Return why hooks of cgroups cannot be used, if so: those that `wanted` picks.
fn lacks_cgroup_hook(facts: &Facts, wanted: impl Fn(&str) -> bool) -> Option<Reason> {
    let any = |hooks: &BTreeSet<&'static str>| hooks.iter().any(|hook| wanted(hook));
    if any(&facts.cgroup_hooks_refused) {
        return Some(Reason::CgroupRefused);
    }
    any(&facts.cgroup_hooks_taken).then_some(Reason::NoFurtherProgram)
}

/// Return why no flow can be selected, if so.
fn selection(facts: &Facts) -> Option<Reason> {
    match facts.btf {
        Some(false) => Some(Reason::NoBtf),
        None => Some(Reason::UnreadableBtf),
        Some(true) => facts.sockops_refused.then_some(Reason::SockopsRefused),
    }
}

/// Return how sends of TCP are measured, or why they are not.
pub(super) fn stamps(facts: &Facts) -> Result<Stamps, Reason> {
    match (callbacks(facts), packets(facts)) {
        // A packet that requests stamps also requests one of the NIC (SKBTX_HW_TSTAMP,
        // include/linux/skbuff.h, v6.18). A NIC with a single register for them
        // (igb_xmit_frame_ring(), drivers/net/ethernet/intel/igb) gives PTP none meanwhile.
        (None, _) if !facts.stamping_nics.is_empty() => {
            lacks_any(facts, &PASSING).map_or(Ok(Stamps::Unasked), Err)
        }
        (None, _) => Ok(Stamps::Callbacks),
        (_, None) => Ok(Stamps::Packets),
        (_, Some(reason)) => Err(reason),
    }
}

/// Return why no send callback comes, if so.
fn callbacks(facts: &Facts) -> Option<Reason> {
    let whole = known(facts.socket_bit) && known(facts.tx_timestamping);
    selection(facts).or_else(|| (!whole).then_some(Reason::Needs(BPF_TIMESTAMPING)))
}

/// Tracepoints on packets.
const PASSING: [Tracepoint; 3] = [
    Tracepoint::NetDevQueue,
    Tracepoint::NetDevStartXmit,
    Tracepoint::TcpProbe,
];

/// Return why stamps cannot be taken where packets pass, if so.
fn packets(facts: &Facts) -> Option<Reason> {
    let functions = [Function::TcpSendmsgLocked, Function::TcpPushPendingFrames];
    selection(facts)
        .or_else(|| lacks_any_function(facts, &functions))
        .or_else(|| lacks_any(facts, &PASSING))
        .map(|reason| match reason {
            Reason::FentryRefused => Reason::NeedsOrFentry(BPF_TIMESTAMPING),
            other => other,
        })
}

/// Return how reads of TCP are measured, or why they are not.
pub(super) fn reads(facts: &Facts) -> Result<Reads, Reason> {
    // Arrivals that a reset leaves unread are kept until their socket is released.
    let missing = selection(facts).or_else(|| lacks_cgroup_hook(facts, |hook| hook == RELEASE));
    if let Some(reason) = missing {
        return Err(reason);
    }
    if !known(facts.stamp_clock) {
        return Err(Reason::Needs(CLOCK_OF_STAMPS));
    }
    // Callbacks spare all other sockets a hook per segment, per wake-up and per read.
    if let (Some(receiving), None) = (facts.receive_callbacks, callbacks(facts)) {
        return Ok(Reads::Callbacks(receiving));
    }
    if lacks_any(
        facts,
        &[Tracepoint::SkDataReady, Tracepoint::SockRecvLength],
    )
    .is_none()
    {
        return Ok(Reads::Tracepoints);
    }
    match lacks_any_function(facts, &[Function::SockDefReadable, Function::TcpRecvmsg]) {
        None => Ok(Reads::Functions),
        Some(_) => Err(Reason::NeedsOrFentry(READ_TRACEPOINTS)),
    }
}

/// Return how the entry of sends is seen, or why it is not.
pub(super) fn entry(facts: &Facts, asked: EntryHook) -> Result<Entry, Reason> {
    stamps(facts)?;
    entry_by(facts, asked)
}

pub(super) fn no_entry(facts: &Facts, asked: EntryHook) -> Option<Obstacle> {
    match asked {
        EntryHook::Auto | EntryHook::Off => None,
        hook => entry_by(facts, hook).err().map(Obstacle::NoEntry),
    }
}

/// Return the entry by a hook, or why that cannot be used.
fn entry_by(facts: &Facts, hook: EntryHook) -> Result<Entry, Reason> {
    let by_packets = stamps(facts) == Ok(Stamps::Packets);
    match hook {
        EntryHook::Auto | EntryHook::Function if by_packets => Ok(Entry::Function),
        EntryHook::Auto => Ok(best_entry(facts)),
        EntryHook::Function => Err(Reason::Callbacks),
        EntryHook::Off => Err(Reason::SwitchedOff),
        EntryHook::Callback => callbacks(facts).map_or(Ok(Entry::Callback), Err),
        EntryHook::Begin => match callbacks(facts) {
            None => begin_callback(facts).map(Entry::Begin),
            Some(reason) => Err(reason),
        },
        EntryHook::Tracepoint => {
            let missing = callbacks(facts).or_else(|| entry_tracepoint(facts));
            missing.map_or(Ok(Entry::Tracepoint), Err)
        }
    }
}

/// Return why no tracepoint shows the entry of sends, if so.
fn entry_tracepoint(facts: &Facts) -> Option<Reason> {
    // Without the second, the entry of an interrupted send could count as the next one's.
    lacks_any(
        facts,
        &[Tracepoint::TcpSendmsgLocked, Tracepoint::SignalDeliver],
    )
}

/// Return the number of the callback that a send call begins with, or why none comes.
fn begin_callback(facts: &Facts) -> Result<u32, Reason> {
    facts
        .begin_callback
        .ok_or(Reason::NeedsCallback(Callback::TstampSendmsgEntry))
}

/// Each costs a selected flow about the same (docs/benchmarks.md). The callbacks save all other
/// flows a hook per send, but cannot distinguish waiting for the send buffer from copying, which
/// readers of `tx.copy` need to know. With the callback at the start of a call, the hook on the
/// waiting function can.
fn best_entry(facts: &Facts) -> Entry {
    let waits = lacks_function(facts, Function::SkStreamWaitMemory);
    if let (Ok(begin), None) = (begin_callback(facts), waits) {
        return Entry::Begin(begin);
    }
    match entry_tracepoint(facts) {
        None => Entry::Tracepoint,
        Some(_) => Entry::Callback,
    }
}

/// Return the source of the time at which a waiting task got a CPU, or the reason why there is
/// none. The scheduler's clock can be read in the context of a perf event's program, if that is
/// typed, and on one CPU: it must be the same on all.
pub(super) fn sched(facts: &Facts, wanted: bool) -> Result<Point, Reason> {
    let obstacle = if !wanted {
        Some(&Reason::SwitchedOff)
    } else if !known(facts.sched_info) {
        Some(&Reason::NeedsSchedInfo)
    } else {
        match facts.kernel_symbols {
            Some(true) => None,
            Some(false) => Some(&Reason::NeedsSyslog),
            None => Some(&Reason::UnseenSymbols),
        }
    };
    match obstacle {
        Some(reason) => Err(Reason::InRxApp(reason)),
        None => {
            let clock = [facts.casts, facts.perf_events, facts.sched_clock_stable];
            let shown = clock.into_iter().all(known);
            Ok(if shown {
                Point::SchedInfo
            } else {
                Point::RunDelay
            })
        }
    }
}

/// Return why a part is not distinguished from the rest of its stage, if so.
pub(super) fn part_obstacle(facts: &Facts, part: Part, request: &Request) -> Option<Reason> {
    let absent = method(facts, part.stage(), request).absent();
    absent.or_else(|| match part {
        Part::Sndbuf => unseen_waits(facts, request.entry),
        Part::Cwnd
        | Part::Rwnd
        | Part::Pacing
        | Part::Tsq
        | Part::Nagle
        | Part::Cork
        | Part::Retransmit
        | Part::DelayedAck => causes(facts, request),
        Part::Neighbour => causes(facts, request).or_else(|| neighbours(facts)),
        Part::HandshakeNeighbour => neighbours(facts),
        Part::WakeupThrottled | Part::AppThrottled | Part::ServiceThrottled => {
            (!known(facts.quota_clock)).then_some(Reason::Needs(QUOTA_CLOCK))
        }
        Part::Running
        | Part::Runnable
        | Part::Blocked
        | Part::ServiceRunning
        | Part::ServiceRunnable
        | Part::ServiceBlocked => run_times(facts, request.sched),
        _ => None,
    })
}

/// Return whether waits for room in the send buffer are seen where they happen.
pub(super) fn waits(facts: &Facts, asked: EntryHook) -> bool {
    let wanted =
        stamps(facts) == Ok(Stamps::Packets) || matches!(entry(facts, asked), Ok(Entry::Begin(_)));
    wanted && lacks_function(facts, Function::SkStreamWaitMemory).is_none()
}

/// The tracepoint shows each turn of a send call, and so its waits.
fn unseen_waits(facts: &Facts, asked: EntryHook) -> Option<Reason> {
    let seen = entry(facts, asked) == Ok(Entry::Tracepoint) || waits(facts, asked);
    (!seen).then_some(Reason::UnseenByEntry)
}

fn causes(facts: &Facts, request: &Request) -> Option<Reason> {
    match request.causes {
        false => Some(Reason::SwitchedOff),
        true if segments(facts, request) => None,
        true => lacks(facts, Tracepoint::TcpProbe),
    }
}

/// Return why waits for the link addresses of next hops are not seen, if so.
pub(super) fn neighbours(facts: &Facts) -> Option<Reason> {
    lacks(facts, Tracepoint::NeighEventSendDone).or_else(|| lacks(facts, Tracepoint::NeighUpdate))
}

/// Return why it is unknown what a task did before it read, if so.
fn run_times(facts: &Facts, wanted: bool) -> Option<Reason> {
    match sched(facts, wanted) {
        Ok(Point::SchedInfo) => None,
        Err(Reason::InRxApp(reason)) => Some(*reason),
        Err(reason) => Some(reason),
        Ok(_) if !known(facts.casts) => Some(Reason::Needs(CASTS)),
        Ok(_) if !known(facts.perf_events) => Some(Reason::NeedsPerfEvents),
        Ok(_) => Some(Reason::UnstableClock),
    }
}

/// Return why packets cannot be followed through the host, if so.
pub(super) fn host_path_obstacle(facts: &Facts) -> Option<Reason> {
    let sends = stamps(facts).err();
    sends.or_else(|| lacks(facts, Tracepoint::NetDevStartXmit))
}

/// Return how messages of UDP are seen, or why they are not. It is with all of these hooks or not
/// at all: without one of them, reads could be paired with the wrong datagram, and sends with the
/// wrong packet.
pub(super) fn datagrams(facts: &Facts, wanted: bool) -> Result<Datagrams, Reason> {
    if !wanted {
        return Err(Reason::SwitchedOff);
    }
    if let Some(reason) = lacks_cgroup_hook(facts, |hook| !ACCEPTS.contains(&hook)) {
        return Err(reason);
    }
    let packets = [
        Tracepoint::KfreeSkb,
        Tracepoint::NetDevQueue,
        Tracepoint::NetDevStartXmit,
    ];
    let missing = selection(facts)
        .or_else(|| (!known(facts.stamp_clock)).then_some(Reason::Needs(CLOCK_OF_STAMPS)))
        .or_else(|| lacks(facts, Tracepoint::KfreeSkb));
    if let Some(reason) = missing {
        return Err(reason);
    }
    let drops_tell_receiver = known(facts.drops_tell_receiver);
    let newest = known(facts.casts) && drops_tell_receiver;
    if let (true, Ok(begin), Some(others), Ok(Reads::Callbacks(_))) = (
        newest,
        begin_callback(facts),
        facts.datagram_callbacks,
        reads(facts),
    ) {
        return Ok(Datagrams::Callbacks { begin, others });
    }
    if let Some(reason) = lacks_any(facts, &packets) {
        return Err(reason);
    }
    let calls = [Tracepoint::SockSendLength, Tracepoint::SockRecvLength];
    if lacks_any(facts, &calls).is_none() && newest {
        return Ok(Datagrams::Tracepoints);
    }
    let functions = [
        Function::UdpSendmsg,
        Function::Udpv6Sendmsg,
        Function::UdpEnqueueScheduleSkb,
        Function::SkbConsumeUdp,
    ];
    match lacks_any_function(facts, &functions) {
        None => Ok(Datagrams::Functions {
            drops_tell_receiver,
        }),
        Some(_) => Err(Reason::NeedsOrFentry(RECEIVER_OF_DROPS)),
    }
}

/// Return why a tracepoint cannot be used, if so.
pub(super) fn lacks(facts: &Facts, tracepoint: Tracepoint) -> Option<Reason> {
    if facts.refused.contains(&tracepoint) {
        return Some(Reason::TracepointRefused);
    }
    if known(facts.tracepoints.get(&tracepoint).copied().flatten()) {
        return None;
    }
    Some(match tracepoint {
        Tracepoint::TcpSendmsgLocked => Reason::Needs(ENTRY_TRACEPOINT),
        other => Reason::NeedsTracepoint(other),
    })
}

fn lacks_any(facts: &Facts, tracepoints: &[Tracepoint]) -> Option<Reason> {
    tracepoints
        .iter()
        .find_map(|&tracepoint| lacks(facts, tracepoint))
}

/// Return why a function cannot be traced, if so.
pub(super) fn lacks_function(facts: &Facts, function: Function) -> Option<Reason> {
    if facts.functions_refused.contains(&function) {
        return Some(Reason::FentryRefused);
    }
    let there = known(facts.functions.get(&function).copied().flatten());
    (!there).then_some(Reason::NeedsFunction(function))
}

fn lacks_any_function(facts: &Facts, functions: &[Function]) -> Option<Reason> {
    functions
        .iter()
        .find_map(|&function| lacks_function(facts, function))
}

/// Return how a stage is measured.
pub(super) fn method(facts: &Facts, stage: Stage, request: &Request) -> Method {
    let method = match stage {
        Stage::TxCopy => copying(facts, request.entry),
        Stage::TxQueue => sent(facts, QUEUED, SCHED),
        Stage::TxQdisc => sent(facts, SCHED, snd(facts, request)),
        Stage::TxNetwork => sent(facts, snd(facts, request), ACK),
        Stage::RxStack => reads(facts).map(|rx| Method::Between(Point::ReceiveStamp, ready(rx))),
        Stage::RxApp => reads(facts).map(|rx| Method::Between(ready(rx), read(rx))),
        Stage::TxNic => sent_by_nic(facts, request),
        Stage::RxNic => received_by_nic(facts, request),
        Stage::RxHol => head_of_line(facts, request),
        Stage::RxWakeup => wake_up(facts, request.sched),
        // The time of a service ends with a send and starts with a read.
        Stage::AppService => stamps(facts)
            .and_then(|_| reads(facts))
            .map(|rx| Method::Between(read(rx), Point::NextSend)),
        Stage::PeerAnswer => sent(facts, QUEUED, QUEUED)
            .and_then(|_| reads(facts))
            .map(|rx| Method::Between(Point::LastSend, ready(rx))),
        Stage::PeerRest => sent(facts, QUEUED, QUEUED)
            .and_then(|_| reads(facts))
            .map(|rx| Method::Between(read(rx), ready(rx))),
        Stage::ClientPause => sent(facts, QUEUED, QUEUED)
            .and_then(|_| reads(facts))
            .map(|rx| Method::Between(Point::LastSend, ready(rx))),
        Stage::ClientRequest => stamps(facts)
            .and_then(|_| reads(facts))
            .map(|rx| Method::Between(ready(rx), ready(rx))),
        Stage::ConnHandshake => connection(
            facts,
            Callback::TcpConnect,
            Point::Callback(Callback::ActiveEstablished),
        ),
        Stage::ConnAccept => accepted(facts),
        Stage::NetForward | Stage::NetBack => Err(Reason::NeedsBothHosts),
    };
    method.unwrap_or_else(Method::Absent)
}

fn accepted(facts: &Facts) -> Result<Method, Reason> {
    if let Some(reason) = lacks_cgroup_hook(facts, |hook| ACCEPTS.contains(&hook)) {
        return Err(reason);
    }
    match facts.call_registers {
        Some(true) => connection(facts, Callback::PassiveEstablished, Point::PeerName),
        Some(false) => Err(Reason::NeedsHelper(CALL_REGISTERS)),
        None => Err(Reason::UnseenHelper(CALL_REGISTERS)),
    }
}

/// Each sockops program is called for connections.
fn connection(facts: &Facts, from: Callback, to: Point) -> Result<Method, Reason> {
    selection(facts).map_or(Ok(Method::Between(Point::Callback(from), to)), Err)
}

/// The points of a send that stages share: by callbacks, and by packets.
type Sent = (Point, Point);

const QUEUED: Sent = (
    Point::Callback(Callback::TstampSendmsg),
    Point::Entry(Function::TcpPushPendingFrames),
);
const SCHED: Sent = (
    Point::Callback(Callback::TstampSched),
    Point::Tracepoint(Tracepoint::NetDevQueue),
);
const ACK: Sent = (
    Point::Callback(Callback::TstampAck),
    Point::Tracepoint(Tracepoint::TcpProbe),
);

/// With a host path, it is the last interface of the host. Without callbacks, the same tracepoint
/// follows packets as long as they belong to their socket.
fn snd(facts: &Facts, request: &Request) -> Sent {
    let packets = Point::Tracepoint(Tracepoint::NetDevStartXmit);
    if request.host_path && host_path_obstacle(facts).is_none() {
        (packets, packets)
    } else {
        (Point::Callback(Callback::TstampSnd), packets)
    }
}

fn sent(facts: &Facts, from: Sent, to: Sent) -> Result<Method, Reason> {
    let stamps = stamps(facts)?;
    let point = |of: Sent| match stamps {
        Stamps::Callbacks => of.0,
        Stamps::Unasked if of == QUEUED => of.0,
        Stamps::Unasked | Stamps::Packets => of.1,
    };
    Ok(Method::Between(point(from), point(to)))
}

fn copying(facts: &Facts, asked: EntryHook) -> Result<Method, Reason> {
    let (from, to) = match entry(facts, asked)? {
        Entry::Tracepoint => (Point::Tracepoint(Tracepoint::TcpSendmsgLocked), QUEUED.0),
        Entry::Begin(_) => (Point::Callback(Callback::TstampSendmsgEntry), QUEUED.0),
        Entry::Callback => (Point::Callback(Callback::HdrOptLen), QUEUED.0),
        Entry::Function => (Point::Entry(Function::TcpSendmsgLocked), QUEUED.1),
    };
    Ok(Method::Between(from, to))
}

fn ready(rx: Reads) -> Point {
    match rx {
        Reads::Callbacks(_) => Point::Callback(Callback::TstampDataReady),
        Reads::Tracepoints => Point::Tracepoint(Tracepoint::SkDataReady),
        Reads::Functions => Point::Entry(Function::SockDefReadable),
    }
}

fn read(rx: Reads) -> Point {
    match rx {
        Reads::Callbacks(_) => Point::Callback(Callback::TstampRecvmsg),
        Reads::Tracepoints => Point::Tracepoint(Tracepoint::SockRecvLength),
        Reads::Functions => Point::Return(Function::TcpRecvmsg),
    }
}

/// Return whether arriving segments are examined. If stamps come from packets, ACKs come from
/// segments.
pub(super) fn segments(facts: &Facts, request: &Request) -> bool {
    let (tx, rx) = (stamps(facts), reads(facts));
    let seen = matches!(rx, Ok(Reads::Callbacks(_)))
        || (tx.is_ok() || rx.is_ok()) && lacks(facts, Tracepoint::TcpProbe).is_none();
    seen && (request.causes || matches!(tx, Ok(Stamps::Packets | Stamps::Unasked)))
}

fn head_of_line(facts: &Facts, request: &Request) -> Result<Method, Reason> {
    let rx = reads(facts)?;
    if !request.causes && !segments(facts, request) {
        return Err(Reason::SwitchedOff);
    }
    match lacks(facts, Tracepoint::TcpProbe) {
        _ if matches!(rx, Reads::Callbacks(_)) => Ok(Method::ReceiveStampsAt(Point::Callback(
            Callback::TstampRcv,
        ))),
        Some(reason) => Err(reason),
        None => Ok(Method::ReceiveStampsAt(Point::Tracepoint(
            Tracepoint::TcpProbe,
        ))),
    }
}

/// Prefer the request's exclusion to a missing feature as the reason.
fn wake_up(facts: &Facts, wanted: bool) -> Result<Method, Reason> {
    let point = sched(facts, wanted);
    if !wanted {
        point?;
    }
    let rx = reads(facts)?;
    Ok(Method::Between(ready(rx), point?))
}

/// Messages for which a NIC was asked have the stage; `tx.network` of others begins at the driver.
fn sent_by_nic(facts: &Facts, request: &Request) -> Result<Method, Reason> {
    match stamps(facts) {
        Ok(Stamps::Unasked) if request.nic_stamps => {
            Ok(Method::Between(snd(facts, request).1, Point::NicStamp))
        }
        _ => Err(nic(facts)),
    }
}

/// Reads that are followed have the stage; the total of others begins at the kernel's stamp.
fn received_by_nic(facts: &Facts, request: &Request) -> Result<Method, Reason> {
    if !request.nic_reads || facts.receiving_nics.is_empty() {
        return Err(nic(facts));
    }
    reads(facts).map(|_| Method::Between(Point::NicStamp, Point::ReceiveStamp))
}

fn nic(facts: &Facts) -> Reason {
    match facts.nic_clock {
        Some(true) => Reason::UnusedNicClock,
        Some(false) => Reason::NoNicClock,
        None => Reason::UnseenNicClock,
    }
}
