//! List the programs of `sockstamp.bpf.c`. Loading, attaching, `doctor` and docs/kernel-support.md
//! iterate this table. [`packets`](crate::packets), [`completions`](crate::completions) and
//! [`stuck`](crate::stuck) and [`unix`](crate::unix) have one each, of the same kind.

use sockstamp_model::stage::Stage;

use crate::abi::raw::demand_for;
use crate::facts::Function::{
    DoTcpSendpages, SkStreamWaitMemory, SkbConsumeUdp, SockDefReadable, TcpPushPendingFrames,
    TcpRcvStateProcess, TcpRecvmsg, UdpEnqueueScheduleSkb, UdpSendmsg, Udpv6Sendmsg,
};
use crate::facts::Hook::{Cgroup, Entry, EveryCgroup, Return, Sockops, Timer, Walk};
use crate::facts::{Function, Hook, Tracepoint};
use crate::plan::{self, Datagrams, Plan, Reads, Stamps};

/// A use of programs that are attached on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Demand {
    /// A selected UDP socket moves data.
    Datagrams = demand_for::DEMAND_DATAGRAMS,
    /// A selected UDP socket has a peer, and may send at any time.
    Sends = demand_for::DEMAND_SENDS,
    /// TCP splits packets of selected sockets: parts of them have no key, and so no callback.
    Parts = demand_for::DEMAND_PARTS,
}

/// A program, and when a plan needs it.
#[derive(Debug)]
pub struct Program<P = Plan> {
    /// Its name in C.
    pub name: &'static str,
    /// The attach point.
    pub hook: Hook,
    /// The events that pay for it, selected or not.
    pub costs: &'static str,
    needed: fn(&P) -> bool,
    demands: fn(&P) -> &'static [Demand],
    windowed: bool,
    of_series: bool,
}

impl<P> Program<P> {
    /// Return whether a plan needs it.
    #[must_use]
    pub fn is_needed(&self, plan: &P) -> bool {
        self.is_built() && (self.needed)(plan)
    }

    /// Return whether this build has it.
    fn is_built(&self) -> bool {
        cfg!(feature = "series") || !self.of_series
    }

    /// Return the demands that attach it; none if it is attached from the start.
    #[must_use]
    pub fn demands(&self, plan: &P) -> &'static [Demand] {
        (self.demands)(plan)
    }

    /// Return whether it is gone between windows of measuring: messages alone need it. So are all
    /// that a demand attaches.
    #[must_use]
    pub fn is_windowed(&self) -> bool {
        self.windowed
    }

    const fn in_windows(self) -> Self {
        Self {
            windowed: true,
            ..self
        }
    }

    /// State that builds with the feature `series` alone have it.
    const fn of_series(self) -> Self {
        Self {
            of_series: true,
            ..self
        }
    }

    const fn on_demand(self, demands: fn(&P) -> &'static [Demand]) -> Self {
        Self { demands, ..self }
    }
}

/// Return a line of a table.
pub(crate) const fn program<P>(
    name: &'static str,
    hook: Hook,
    needed: fn(&P) -> bool,
    costs: &'static str,
) -> Program<P> {
    Program {
        name,
        hook,
        costs,
        needed,
        demands: |_| &[],
        windowed: false,
        of_series: false,
    }
}

pub(crate) const fn tp(tracepoint: Tracepoint) -> Hook {
    Hook::Tracepoint(tracepoint)
}

const SENDMSG: Function = Function::TcpSendmsgLocked;

const TCP_SEND: &str = "every TCP send";
const ASKED: &str =
    "every packet to a next hop whose link address is not known, or was not confirmed for long";
const NEIGHBOUR: &str = "every answer to a look-up of a link address (ARP, neighbour discovery)";
const SIGNAL: &str = "every signal that interrupts a task";
const SEND: &str = "every send call";
const SEGMENT: &str = "every segment that arrives on an established TCP connection";
const DATA_READY: &str = "every wake-up of a socket's readers";
const READ: &str = "every read call";
const TCP_READ: &str = "every TCP read";
const PACKET: &str = "every packet that an interface sends";
const CONNECT: &str = "every connect() in the target's cgroup";
const DROP: &str = "every packet that the kernel drops";
const FREED: &str = "every packet that the kernel is done with";
const UDP_SEND: &str = "every UDP send";
const DATAGRAM: &str = "every UDP datagram that is queued";
const UDP_READ: &str = "every UDP datagram that is read";
const INGRESS: &str =
    "every packet that arrives at a socket of the target's cgroup; with `--host-path`, at any";
const CALLBACKS: &str = "stamps of selected sockets; connects and accepts in the target's cgroup";
const PEER_NAME: &str =
    "every accept() in the target's cgroup that asks for the peer's address, and getpeername()";
const ONCE: &str = "none: once per socket, at the start or the end";
const SWITCHED: &str = "every TCP socket, before and after a gap between windows of measuring";
const FILES: &str = "none: once per open file, at the start, and at most once per second while UDP messages are in flight";

/// Every program, in the order in which they are attached.
///
/// The end of a send comes before its beginning, so that sends in progress are not taken for new
/// ones. Hooks of the cgroup come after those of the host: events of a marked UDP socket are seen
/// from its first packet on. Selection of connections comes last: by then all hooks of a flow's
/// first message are in place. Walks come after all of these.
#[rustfmt::skip]
pub const PROGRAMS: [Program; 57] = [
    program("on_run_clock",           Timer,                            |plan| plan.run_clock,   "one CPU, 50 times per second"),
    program("on_signal_deliver",      tp(Tracepoint::SignalDeliver),    entry_tracepoint,        SIGNAL).in_windows(),
    program("on_tcp_sendmsg_locked",  tp(Tracepoint::TcpSendmsgLocked), entry_tracepoint,        TCP_SEND).in_windows(),
    program("on_sock_send_length",    tp(Tracepoint::SockSendLength),   udp_calls,               SEND).in_windows().on_demand(awaited),
    program("on_tcp_retransmit_skb",  tp(Tracepoint::TcpRetransmitSkb), |plan| plan.retransmits, "every TCP retransmission"),
    program("on_neigh_event_send",    tp(Tracepoint::NeighEventSendDone), |plan| plan.neighbours, ASKED),
    program("on_neigh_update",        tp(Tracepoint::NeighUpdate),      |plan| plan.neighbours,  NEIGHBOUR),
    program("on_tcp_probe",           tp(Tracepoint::TcpProbe),         probe,                   SEGMENT).in_windows(),
    program("on_rcv_state_process",   Entry(TcpRcvStateProcess),        |plan| plan.half_closed, "every segment of TCP handshakes and closes"),
    program("on_sk_data_ready",       tp(Tracepoint::SkDataReady),      read_tracepoints,        DATA_READY).in_windows(),
    program("on_sock_def_readable",   Entry(SockDefReadable),           read_functions,          DATA_READY),
    program("on_sock_recv_length",    tp(Tracepoint::SockRecvLength),   |plan| read_tracepoints(plan) || udp_calls(plan), READ).in_windows(),
    program("on_recvmsg_ended",       Return(TcpRecvmsg),               read_functions,          TCP_READ),
    program("on_inet_sock_set_state", tp(Tracepoint::InetSockSetState), |plan| plan.close,       "every change of a TCP socket's state"),
    program("on_host_xmit",           tp(Tracepoint::NetDevStartXmit),  |plan| plan.host_path,   PACKET),
    program("on_host_queue",          tp(Tracepoint::NetDevQueue),      datagram_path,           PACKET).in_windows().on_demand(followed),
    program("on_net_dev_queue",       tp(Tracepoint::NetDevQueue),      |plan| packets(plan) && !datagram_path(plan), PACKET).in_windows().on_demand(followed),
    program("on_net_dev_start_xmit",  tp(Tracepoint::NetDevStartXmit),  |plan| (packets(plan) || plan.untagged) && !plan.host_path, PACKET).in_windows().on_demand(taken),
    program("on_kfree_skb",           tp(Tracepoint::KfreeSkb),         |plan| plan.measures_udp() && !drops_unnamed(plan), DROP),
    program("on_packet_dropped",      tp(Tracepoint::KfreeSkb),         drops_unnamed,           DROP),
    program("on_consume_skb",         tp(Tracepoint::ConsumeSkb),       datagram_path,           FREED).in_windows().on_demand(followed),
    program("on_datagram",            Entry(UdpEnqueueScheduleSkb),     udp_functions,           DATAGRAM).in_windows(),
    program("on_datagram_queued",     Return(UdpEnqueueScheduleSkb),    drops_unnamed,           DATAGRAM),
    program("on_datagram_read",       Entry(SkbConsumeUdp),             udp_functions,           UDP_READ).in_windows(),
    program("on_sendmsg_ended",       Return(SENDMSG),                  tcp_packets,             TCP_SEND),
    program("on_sendpages_ended",     Return(DoTcpSendpages),           |plan| plan.pages,       "every TCP send out of a file"),
    program("on_udp_send_ended",      Return(UdpSendmsg),               udp_functions,           UDP_SEND).in_windows(),
    program("on_udpv6_send_ended",    Return(Udpv6Sendmsg),             udp_functions,           UDP_SEND).in_windows(),
    program("on_wait_ended",          Return(SkStreamWaitMemory),       |plan| plan.waits,       "every wait for a TCP send buffer"),
    program("on_wait_begun",          Entry(SkStreamWaitMemory),        |plan| plan.waits,       "every wait for a TCP send buffer"),
    program("on_push",                Entry(TcpPushPendingFrames),      tcp_packets,             TCP_SEND),
    program("on_sendpages_begun",     Entry(DoTcpSendpages),            |plan| plan.pages,       "every TCP send out of a file"),
    program("on_sendmsg_begun",       Entry(SENDMSG),                   tcp_packets,             TCP_SEND),
    program("on_udp_send_begun",      Entry(UdpSendmsg),                udp_begins,              UDP_SEND).in_windows(),
    program("on_udpv6_send_begun",    Entry(Udpv6Sendmsg),              udp_begins,              UDP_SEND).in_windows(),
    program("on_cgroup_ingress",      Cgroup("cgroup_skb/ingress"),     udp_calls,               INGRESS).in_windows().on_demand(followed),
    program("on_host_ingress",        EveryCgroup("cgroup_skb/ingress"), datagrams_arrive,       INGRESS).in_windows().on_demand(followed),
    program("on_connect4",            Cgroup("cgroup/connect4"),        udp_connects,            CONNECT),
    program("on_connect6",            Cgroup("cgroup/connect6"),        udp_connects,            CONNECT),
    program("on_sendmsg4",            Cgroup("cgroup/sendmsg4"),        unconnected_sends,           "every send of an unconnected UDP socket in the target's cgroup"),
    program("on_sendmsg6",            Cgroup("cgroup/sendmsg6"),        unconnected_sends,           "every send of an unconnected UDP socket in the target's cgroup"),
    program("on_getpeername4",        Cgroup("cgroup/getpeername4"),    |plan| plan.stages[Stage::ConnAccept].is_measured(), PEER_NAME),
    program("on_getpeername6",        Cgroup("cgroup/getpeername6"),    |plan| plan.stages[Stage::ConnAccept].is_measured(), PEER_NAME),
    program("on_sock_release",        Cgroup("cgroup/sock_release"),    ends,                    "every socket closed in the target's cgroup"),
    program("on_sock_create",         Cgroup("cgroup/sock_create"),     Plan::measures_udp,      "every socket made in the target's cgroup"),
    program("on_sockops",             Sockops,                          |plan| plan.uses_bit() && !plan.uses_series(), CALLBACKS),
    program("on_series",              Sockops,                          calls_back,              CALLBACKS).of_series(),
    program("on_connections",         Sockops,                          |plan| !plan.uses_bit(), CALLBACKS),
    program("mark_sockets",           Walk("task_file"),                |plan| plan.by_process || plan.spare_own, FILES),
    program("mark_listening_subflows", Walk("tcp"),                     |plan| plan.by_process,  ONCE),
    program("adopt_flows",            Walk("tcp"),                      |plan| plan.existing,    ONCE),
    program("mark_datagram_sockets",  Walk("task_file"),                Plan::measures_udp,      FILES),
    program("ask_datagram_sockets",   Walk("udp"),                      Plan::datagrams_call_back, ONCE).of_series(),
    program("give_up_datagrams",      Walk("task_file"),                Plan::measures_udp,      FILES),
    program("switch_flows",           Walk("tcp"),                      |plan| plan.uses_bit() && plan.has_windows(), SWITCHED),
    program("deselect_flows",         Walk("tcp"),                      Plan::uses_bit,          ONCE),
    program("deselect_datagram_sockets", Walk("udp"),                   Plan::datagrams_call_back, ONCE).of_series(),
];

/// Return the programs that a plan needs, in the order in which they are attached.
pub(crate) fn needed(plan: &Plan) -> impl Iterator<Item = &'static Program> {
    PROGRAMS.iter().filter(|program| program.is_needed(plan))
}

/// Programs on packets that only messages of UDP need.
fn followed(plan: &Plan) -> &'static [Demand] {
    if plan.on_demand && (plan.datagrams_call_back() || udp_calls(plan) && !plan.looks_at_packets())
    {
        &[Demand::Datagrams]
    } else {
        &[]
    }
}

/// The program that sees the ends of send calls, also of sockets that are idle.
fn awaited(plan: &Plan) -> &'static [Demand] {
    match followed(plan) {
        [] => &[],
        followed if plan.udp_entries => followed,
        _ => &[Demand::Datagrams, Demand::Sends],
    }
}

/// The program that sees packets without a key leave: datagrams, and parts of what TCP split.
fn taken(plan: &Plan) -> &'static [Demand] {
    match plan.udp {
        _ if !plan.on_demand || plan.looks_at_packets() => &[],
        Ok(Datagrams::Functions { .. }) => &[],
        Ok(Datagrams::Callbacks { .. }) => &[Demand::Parts],
        Ok(Datagrams::Tracepoints) if plan.untagged => &[Demand::Datagrams, Demand::Parts],
        Ok(Datagrams::Tracepoints) => &[Demand::Datagrams],
        Err(_) => &[Demand::Parts],
    }
}

/// Sockets call back as only those of `kernel/series` do.
fn calls_back(plan: &Plan) -> bool {
    plan.uses_bit() && plan.uses_series()
}

fn entry_tracepoint(plan: &Plan) -> bool {
    plan.entry == Some(plan::Entry::Tracepoint)
}

/// Arrivals of TCP that a reset leaves unread are kept until their socket is closed.
fn ends(plan: &Plan) -> bool {
    plan.measures_udp() || plan.rx.is_some()
}

fn tcp_packets(plan: &Plan) -> bool {
    plan.tx == Some(Stamps::Packets)
}

fn packets(plan: &Plan) -> bool {
    plan.looks_at_packets() || (plan.measures_udp() && !plan.datagrams_call_back())
}

/// Segments of selected sockets alone call back where the kernel can do that.
fn probe(plan: &Plan) -> bool {
    plan.segments && !plan.reads_call_back()
}

fn read_tracepoints(plan: &Plan) -> bool {
    plan.rx == Some(Reads::Tracepoints)
}

fn read_functions(plan: &Plan) -> bool {
    plan.rx == Some(Reads::Functions)
}

fn udp_calls(plan: &Plan) -> bool {
    plan.udp == Ok(Datagrams::Tracepoints)
}

/// The programs that follow datagrams come as soon as a socket has a peer.
fn udp_connects(plan: &Plan) -> bool {
    udp_calls(plan) || (plan.datagrams_call_back() && datagram_path(plan))
}

/// Every UDP send shows its beginning.
fn udp_begins(plan: &Plan) -> bool {
    udp_functions(plan) || plan.udp_entries
}

/// Unconnected UDP sends alone show their beginning.
fn unconnected_sends(plan: &Plan) -> bool {
    udp_calls(plan) && !plan.udp_entries
}

/// Datagrams are followed through the host.
fn datagram_path(plan: &Plan) -> bool {
    plan.follows_datagrams
}

/// The arrival of a followed datagram needs a hook of its own: [`udp_functions`], where functions
/// are traced, show it anyway.
fn datagrams_arrive(plan: &Plan) -> bool {
    plan.follows_datagrams && !udp_functions(plan)
}

fn udp_functions(plan: &Plan) -> bool {
    matches!(plan.udp, Ok(Datagrams::Functions { .. }))
}

/// Drops do not tell the socket that they were for.
fn drops_unnamed(plan: &Plan) -> bool {
    let drops_tell_receiver = false;
    plan.udp
        == Ok(Datagrams::Functions {
            drops_tell_receiver,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completions;
    use crate::object::sections;
    use crate::packets;
    use crate::skeleton::completions::CompletionsSkelBuilder;
    use crate::skeleton::packets::PacketsSkelBuilder;
    use crate::skeleton::sockstamp::SockstampSkelBuilder;
    use crate::skeleton::stuck::StuckSkelBuilder;
    use crate::skeleton::unix::UnixSkelBuilder;
    use crate::{stuck, unix};

    /// Return the name and the section of each program of a table, sorted.
    fn listed<P>(table: &[Program<P>]) -> Vec<(String, String)> {
        let lines = table.iter().filter(|line| line.is_built());
        let mut lines: Vec<_> = lines
            .map(|program| (program.name.to_owned(), program.hook.section()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn each_table_has_every_program_of_its_object_on_its_hook() {
        let compiled = [
            sections(SockstampSkelBuilder::default()),
            sections(PacketsSkelBuilder::default()),
            sections(CompletionsSkelBuilder::default()),
            sections(StuckSkelBuilder::default()),
            sections(UnixSkelBuilder::default()),
        ];
        let tables = [
            listed(&PROGRAMS),
            listed(&packets::PROGRAMS),
            listed(&completions::PROGRAMS),
            listed(&stuck::PROGRAMS),
            listed(&unix::PROGRAMS),
        ];
        for (compiled, table) in compiled.into_iter().zip(tables) {
            let mut compiled = compiled.unwrap();
            compiled.sort();
            assert_eq!(table, compiled);
        }
    }

    #[test]
    fn connections_are_selected_when_every_other_hook_is_in_place() {
        let messages = PROGRAMS
            .iter()
            .filter(|program| program.hook.runs_for_messages());
        let selecting: Vec<_> = messages.map(|program| program.hook == Sockops).collect();
        let first = selecting.iter().position(|&selecting| selecting).unwrap();
        assert!(selecting[first..].iter().all(|&selecting| selecting));
    }

    #[test]
    fn the_end_of_a_send_is_hooked_before_its_beginning() {
        let place = |hook| {
            PROGRAMS
                .iter()
                .position(|program| program.hook == hook)
                .unwrap()
        };
        for function in [
            SENDMSG,
            DoTcpSendpages,
            SkStreamWaitMemory,
            UdpSendmsg,
            Udpv6Sendmsg,
        ] {
            assert!(
                place(Return(function)) < place(Entry(function)),
                "{function:?}"
            );
        }
    }
}
