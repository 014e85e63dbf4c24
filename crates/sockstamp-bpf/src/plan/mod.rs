//! Rules: derive what will be used from the host's facts and the request. They are a pure function,
//! so that each rule is tested by removing one fact.

mod method;
mod point;
mod reason;
mod request;
mod rules;
mod source;

#[cfg(test)]
mod tests;

use sockstamp_model::part::{Part, PartMap};
use sockstamp_model::stage::{Stage, StageMap};

pub use self::method::Method;
pub use self::point::{Callback, Point};
pub use self::reason::{Obstacle, Reason, Release};
pub use self::request::{EntryHook, Hooks, Request};
pub use self::rules::missing_capabilities;
use self::rules::{no_btf, no_capability};
pub use self::source::{Datagrams, Entry, Reads, Stamps};
use crate::facts::{Capability, Facts, Function, Tracepoint};

/// The whole decision about the programs and settings to load: nothing of the host is looked up
/// after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The method for each stage.
    pub stages: StageMap<Method>,
    /// The reason why a part is not distinguished from the rest of its stage, if so.
    pub parts: PartMap<Option<Reason>>,
    /// The method for TCP sends, if any.
    pub tx: Option<Stamps>,
    /// The hook for the entry of send calls, if any.
    pub entry: Option<Entry>,
    /// Waits for room in the send buffer are seen where they happen.
    pub waits: bool,
    /// Sends from a file have their own function (before Linux 6.5).
    pub pages: bool,
    /// Segments of half-closed connections are seen by a function: their sockets do not call back
    /// for them.
    pub half_closed: bool,
    /// The method for TCP reads, if any.
    pub rx: Option<Reads>,
    /// Packets without a key are seen where a driver takes them: parts of one that TCP split.
    pub untagged: bool,
    /// Arriving segments are examined: causes, delayed acknowledgements, head-of-line blocking.
    pub segments: bool,
    /// The causes of waiting in `tx.queue` are distinguished.
    pub causes: bool,
    /// The wait for a CPU is separated from the rest of reads.
    pub sched: bool,
    /// The scheduler's clock is readable; without it, that wait is the time in run queues.
    pub run_clock: bool,
    /// Retransmissions are counted.
    pub retransmits: bool,
    /// Waits for the link addresses of next hops are told from others.
    pub neighbours: bool,
    /// Messages in flight are counted when their socket is closed.
    pub close: bool,
    /// Connections that exist at the start are measured.
    pub existing: bool,
    /// Connections that exist are found in other network namespaces, too.
    pub namespaces: bool,
    /// Messages of some processes only are measured.
    pub by_process: bool,
    /// Sockets that processes of sockstamp have made are left out.
    pub spare_own: bool,
    /// Packets are followed through the host after the last interface that calls back.
    pub host_path: bool,
    /// The reason why they cannot be, if so.
    pub host_path_obstacle: Option<Reason>,
    /// Datagrams are followed, too.
    pub follows_datagrams: bool,
    /// Programs that few messages need are attached when the first such message comes.
    pub on_demand: bool,
    /// The beginning of every UDP send is seen by its function, also of connected sockets.
    pub udp_entries: bool,
    /// Programs may give memory a type.
    pub casts: bool,
    /// Processors that may ever be online: each has a bank of counters.
    pub processors: usize,
    /// The method for UDP sockets, in both directions, or the reason why there is none.
    pub udp: Result<Datagrams, Reason>,
}

impl Plan {
    /// Form the plan by which a request is carried out.
    ///
    /// # Errors
    ///
    /// The first of [`obstacles`].
    pub fn new(facts: &Facts, request: &Request) -> Result<Self, Obstacle> {
        match obstacles(facts, request).into_iter().next() {
            Some(obstacle) => Err(obstacle),
            None => Ok(Self::outlook(facts, request)),
        }
    }

    /// Form the plan as it would be without obstacles. Requests that cannot be met are left out.
    #[must_use]
    pub fn outlook(facts: &Facts, request: &Request) -> Self {
        let facts = rules::seen_by(facts, request.hooks);
        let facts = facts.as_ref();
        let tx = rules::stamps(facts);
        let rx = rules::reads(facts);
        let entry = rules::entry(facts, request.entry);
        let sched = rules::sched(facts, request.sched);
        let host_path_obstacle = rules::host_path_obstacle(facts);
        let host_path = request.host_path && host_path_obstacle.is_none();
        let packets = tx == Ok(Stamps::Packets);
        let udp = rules::datagrams(facts, request.udp);
        let can_trace = |function| rules::lacks_function(facts, function).is_none();
        let has = |tracepoint| rules::lacks(facts, tracepoint).is_none();
        Self {
            stages: StageMap::from_fn(|stage| rules::method(facts, stage, request)),
            parts: PartMap::from_fn(|part| rules::part_obstacle(facts, part, request)),
            tx: tx.ok(),
            entry: entry.ok(),
            waits: rules::waits(facts, request.entry),
            pages: packets && can_trace(Function::DoTcpSendpages),
            half_closed: packets && can_trace(Function::TcpRcvStateProcess),
            rx: rx.ok(),
            segments: rules::segments(facts, request),
            causes: request.causes,
            sched: rx.is_ok() && sched.is_ok(),
            run_clock: rx.is_ok() && sched == Ok(Point::SchedInfo),
            untagged: tx == Ok(Stamps::Callbacks) && has(Tracepoint::NetDevStartXmit),
            retransmits: tx.is_ok() && has(Tracepoint::TcpRetransmitSkb),
            neighbours: (tx.is_ok() || udp.is_ok()) && rules::neighbours(facts).is_none(),
            close: has(Tracepoint::InetSockSetState),
            existing: request.existing,
            // setns(2)
            namespaces: facts.holds(Capability::SysAdmin),
            by_process: request.by_process,
            spare_own: request.spare_own,
            host_path,
            host_path_obstacle,
            follows_datagrams: host_path && udp.is_ok() && has(Tracepoint::ConsumeSkb),
            on_demand: request.on_demand,
            udp_entries: udp == Ok(Datagrams::Tracepoints)
                && can_trace(Function::UdpSendmsg)
                && can_trace(Function::Udpv6Sendmsg),
            casts: facts.casts == Some(true),
            processors: facts.processors,
            udp,
        }
    }

    /// Return whether functions of the kernel are traced.
    pub(crate) fn traces_functions(&self) -> bool {
        self.tx == Some(Stamps::Packets)
            || self.waits
            || self.half_closed
            || self.udp_entries
            || self.rx == Some(Reads::Functions)
            || matches!(self.udp, Ok(Datagrams::Functions { .. }))
    }

    /// Return whether flows are selected by a bit on their sockets, which must be cleared at the
    /// end.
    pub fn uses_bit(&self) -> bool {
        matches!(self.tx, Some(Stamps::Callbacks | Stamps::Unasked))
    }

    /// Return whether sockets call back as only `kernel/series` lets them.
    pub(crate) fn uses_series(&self) -> bool {
        matches!(self.entry, Some(Entry::Begin(_)))
            || self.reads_call_back()
            || self.datagrams_call_back()
    }

    /// Return whether no packet requests stamps, since that would request stamps of NICs as well.
    #[must_use]
    pub fn spares_nics(&self) -> bool {
        self.tx == Some(Stamps::Unasked)
    }

    /// Return whether reads are followed back to NICs.
    #[must_use]
    pub fn follows_nics(&self) -> bool {
        self.stages[Stage::RxNic].is_measured()
    }

    /// Return whether stamps of TCP are taken where its packets pass.
    #[must_use]
    pub fn looks_at_packets(&self) -> bool {
        matches!(self.tx, Some(Stamps::Packets | Stamps::Unasked))
    }

    /// Return whether reads of TCP, and segments that arrive, call back.
    #[must_use]
    pub fn reads_call_back(&self) -> bool {
        matches!(self.rx, Some(Reads::Callbacks(_)))
    }

    /// Return whether sockets of UDP call back for their messages.
    #[must_use]
    pub fn datagrams_call_back(&self) -> bool {
        matches!(self.udp, Ok(Datagrams::Callbacks { .. }))
    }

    /// Return whether messages of UDP sockets are measured.
    #[must_use]
    pub fn measures_udp(&self) -> bool {
        self.udp.is_ok()
    }

    /// Iterate over the stages that one host can measure, each with its method.
    pub fn methods(&self) -> impl Iterator<Item = (Stage, &Method)> {
        self.stages
            .iter()
            .filter(|(stage, _)| !stage.is_between_hosts())
    }

    /// Return whether messages may be measured in windows: between them no program is needed but
    /// the callbacks of selected TCP sockets.
    #[must_use]
    pub fn has_windows(&self) -> bool {
        let tcp = self.tx.is_some() || self.rx.is_some();
        let udp = self.measures_udp();
        (tcp || udp) && (!tcp || self.has_tcp_windows()) && !self.datagrams_call_back()
    }

    fn has_tcp_windows(&self) -> bool {
        let callbacks = self.tx == Some(Stamps::Callbacks) && self.rx == Some(Reads::Tracepoints);
        callbacks && self.segments && matches!(self.entry, None | Some(Entry::Tracepoint))
    }

    /// Iterate over the parts of measured stages, except the rest of each, with the reason why one
    /// is not distinguished.
    pub fn parts(&self) -> impl Iterator<Item = (Part, Option<Reason>)> {
        let parts = self.parts.iter().filter(|(part, _)| !part.is_rest());
        parts
            .filter(|(part, _)| self.stages[part.stage()].is_measured())
            .map(|(part, reason)| (part, *reason))
    }

    /// Return the stages that will be absent, each with its reason.
    pub fn absent(&self) -> impl Iterator<Item = (Stage, Reason)> {
        let methods = self.methods();
        methods.filter_map(|(stage, method)| Some((stage, method.absent()?)))
    }
}

/// Return what keeps every program from being loaded, if anything does.
#[must_use]
pub fn cannot_load(facts: &Facts) -> Option<Obstacle> {
    let confined = facts.confinement.first().copied();
    let confined = confined.map(Obstacle::Confined);
    confined
        .or_else(|| no_btf(facts))
        .or_else(|| no_capability(facts))
}

/// Return all obstacles to a request.
#[must_use]
pub fn obstacles(facts: &Facts, request: &Request) -> Vec<Obstacle> {
    let facts = rules::seen_by(facts, request.hooks);
    let facts = facts.as_ref();
    let confined = facts.confinement.iter().copied().map(Obstacle::Confined);
    let basis = [
        no_btf(facts),
        facts.cgroup2.is_none().then_some(Obstacle::NoCgroup2),
        no_capability(facts),
        rules::no_walk(facts),
        rules::nothing_to_measure(facts),
    ];
    let outlook = Plan::outlook(facts, request);
    let asked = [
        rules::no_entry(facts, request.entry),
        (request.windows && !outlook.has_windows()).then_some(Obstacle::NoWindows),
        (request.tag && !outlook.uses_bit()).then_some(Obstacle::NoTags),
        request
            .host_path
            .then(|| rules::host_path_obstacle(facts))
            .flatten()
            .map(Obstacle::NoHostPath),
    ];
    let others = basis.into_iter().chain(asked).flatten();
    confined.chain(others).collect()
}
