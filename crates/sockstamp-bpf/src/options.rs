//! Define the options of a measurement: its target and its method.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use sockstamp_host::netns;
use sockstamp_model::clock::Nanos;
use sockstamp_model::filter::Filter;
use sockstamp_model::flow::{NetnsInode, Protocol};

use crate::abi::raw::{INTERFACES, NAMESPACES};
use crate::group::Grouped;
use crate::plan::{EntryHook, Hooks, Request};

/// The target. All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// Sockets of this cgroup and those below it; without it, of the whole host.
    pub cgroup: Option<PathBuf>,
    /// Messages that tasks of these thread groups send or read; empty: of any task.
    pub pids: Vec<u32>,
    /// Messages that processes of these names send or read; empty: of any name. The name is that of
    /// the process's first thread (`/proc/PID/comm`), of which the kernel keeps 15 bytes.
    pub comms: Vec<String>,
    /// Sockets of these network namespaces, up to [`MOST_NAMESPACES`](Self::MOST_NAMESPACES);
    /// empty: of any.
    pub netns: Vec<NetnsInode>,
    /// The namespaces of `netns`: held, so that their inodes are not used again while the target
    /// lives.
    pub held: Vec<netns::Held>,
    /// Sockets whose route leaves through the interface of this index in the first one.
    pub interface: Option<NonZeroU32>,
    /// Messages that go over such flows, in such a direction.
    pub filter: Option<Filter>,
}

impl Target {
    /// Network namespaces that a target may have.
    pub const MOST_NAMESPACES: usize = NAMESPACES as usize;

    /// Return true if it names tasks, in any way: a sockstamp is one like others then.
    pub(crate) fn names_tasks(&self) -> bool {
        self.by_process() || self.cgroup.is_some()
    }

    /// Return true if only messages of some processes are selected.
    pub(crate) fn by_process(&self) -> bool {
        !self.pids.is_empty() || !self.comms.is_empty()
    }
}

/// The sampling of a selected flow's messages, for each direction separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// All of them.
    Every,
    /// All up to this many per second, above that one in N.
    RateCap(u32),
    /// One in N.
    OneIn(u32),
    /// TCP messages whose bytes contain a sequence number that is a multiple of 2^`bits`, so both
    /// ends of a connection choose the same ones. Others as by [`RateCap`](Self::RateCap).
    InStep {
        /// 0 to [`MOST_BITS`](Self::MOST_BITS); more count as that.
        bits: u32,
        /// Messages per second.
        cap: u32,
    },
}

impl Sampling {
    /// Multiples of more than this are as far apart as sequence numbers of one window may be.
    pub const MOST_BITS: u32 = 30;
}

/// The most that a measurement may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// Millionths of one core's time.
    pub millionths: NonZeroU32,
    /// Measure in windows where lower rates do not suffice: counts are estimates then.
    pub windows: bool,
}

impl Ceiling {
    pub(crate) fn cores(&self) -> f64 {
        f64::from(self.millionths.get()) / 1e6
    }
}

/// The treatment of a read's wait for a missing segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HolView {
    /// A stage, `rx.hol`.
    #[default]
    Split,
    /// A part of `rx.stack`.
    Include,
    /// Such reads are refused.
    Exclude,
    /// No program looks for it, to measure the cost of doing so.
    Unseen,
}

/// The options of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The target.
    pub target: Target,
    /// Send a record of every message to user space, in addition to counting it.
    pub record: bool,
    /// Records may be missing of the messages that request a program, for [`on_demand`]: messages
    /// are sampled anyway, say. Otherwise all programs that records need are attached at the start.
    ///
    /// [`on_demand`]: Self::on_demand
    pub partial: bool,
    /// Leave connections alone that exist at the start.
    pub new_only: bool,
    /// The hooks that stamps come from.
    pub hooks: Hooks,
    /// The hook that shows the entry of send calls, for `tx.copy`.
    pub entry: EntryHook,
    /// Follow packets through the host after the last interface that calls back for their socket.
    pub host_path: bool,
    /// Also sum messages in groups.
    pub groups: Option<Grouped>,
    /// The sampling.
    pub sampling: Sampling,
    /// Send the sequence numbers of bytes on this host to the other ends of TCP connections, by an
    /// option in a segment's header, and read theirs: numbers of received bytes are then the
    /// sender's.
    pub tag: bool,
    /// Send the records of those messages alone that somebody waited longer for
    /// ([`Message::slow_time`](sockstamp_model::message::Message::slow_time)).
    pub slow: Option<Nanos>,
    /// Send at most 1000 of these records per second and CPU: they only show the owners of slow
    /// messages.
    pub notable: bool,
    /// Report waits that took at least this long, and all that failed or were asked again, by
    /// [`Session::waits`]. None: none.
    ///
    /// [`Session::waits`]: crate::Session::waits
    pub waits: Option<Nanos>,
    /// Follow questions over Unix sockets of a target that names tasks, too, and look at what waits
    /// there, if waits are reported.
    pub unix: bool,
    /// Measure in windows, for one Nth of the time. None: all the time.
    pub windows: Option<NonZeroU32>,
    /// The ceiling of the measurement's cost: rates are lowered to keep below it. None: any cost.
    pub max_cost: Option<Ceiling>,
    /// The treatment of a read's wait for a missing segment.
    pub hol: HolView,
    /// Stamps per second that are requested from NICs that stamp sends, for the whole host. None:
    /// no stamp.
    pub nic_stamps: Option<NonZeroU32>,
    /// Reads per second that are followed back to the NIC, if one stamps received packets, for the
    /// whole host. None: no read.
    pub nic_reads: Option<NonZeroU32>,
    /// Separate the wait for a CPU, `rx.wakeup`, from `rx.app`.
    pub sched: bool,
    /// Examine arriving segments. Without this, and if stamps come from callbacks, every segment
    /// that the host receives passes one hook fewer: `tx.queue` has no causes, `tx.network` no
    /// delayed acknowledgements, and reads that waited for a missing segment are refused.
    pub causes: bool,
    /// Measure UDP sockets too. Without it, every packet of the target's sockets, those of TCP
    /// among them, passes one hook fewer on its way in, and every packet of the host two fewer on
    /// its way out.
    pub udp: bool,
    /// Attach programs that few messages need when the first such message comes, which is then not
    /// measured, and detach them when none has come for this long. None: attach all at the start.
    pub on_demand: Option<Duration>,
    /// Connections and UDP sockets that may have state at one time: of others no message is
    /// measured. None: as many as `memory` is for.
    pub max_flows: Option<u32>,
    /// Kernel memory for the state of connections and UDP sockets, in bytes.
    pub memory: u64,
    /// Room for records, in bytes: a power of two, and a multiple of the page size.
    pub ring_bytes: u32,
    /// Room for distinct interfaces: a power of two, at most 512.
    pub interfaces: u32,
    /// Room for packets of TCP that are followed through the host at one time: a power of two.
    /// Datagrams have as much room, but at most 4096.
    pub paths: u32,
}

/// Attaching takes the kernel some milliseconds in all; messages that come meanwhile are not
/// measured.
const IDLE: Duration = Duration::from_secs(10);

impl Default for Options {
    fn default() -> Self {
        Self {
            target: Target::default(),
            record: false,
            partial: false,
            new_only: false,
            hooks: Hooks::Best,
            entry: EntryHook::Auto,
            host_path: false,
            groups: None,
            sampling: Sampling::Every,
            tag: false,
            slow: None,
            notable: false,
            waits: None,
            unix: false,
            windows: None,
            max_cost: None,
            hol: HolView::Split,
            nic_stamps: None,
            nic_reads: None,
            sched: true,
            causes: true,
            udp: true,
            on_demand: Some(IDLE),
            max_flows: None,
            memory: 256 << 20,
            ring_bytes: 8 << 20,
            interfaces: INTERFACES,
            paths: 16 << 10,
        }
    }
}

impl Options {
    /// Return whether there may be times in which TCP is not measured.
    pub(crate) fn may_have_windows(&self) -> bool {
        self.windows.is_some() || self.max_cost.is_some_and(|ceiling| ceiling.windows)
    }

    /// Return the part of the options that a plan follows from.
    #[must_use]
    pub fn request(&self) -> Request {
        let filter = self.target.filter.as_ref();
        Request {
            hooks: self.hooks,
            entry: self.entry,
            host_path: self.host_path,
            sched: self.sched,
            causes: self.causes,
            udp: self.udp && filter.is_none_or(|filter| filter.wants(Protocol::Udp)),
            existing: !self.new_only,
            by_process: self.target.by_process(),
            spare_own: !self.target.names_tasks(),
            // Each datagram needs UDP's programs.
            on_demand: self.on_demand.is_some()
                && (!self.record || self.notable || self.partial)
                && filter.is_none_or(|filter| filter.wants(Protocol::Tcp)),
            windows: self.windows.is_some(),
            tag: self.tag,
            nic_stamps: self.nic_stamps.is_some(),
            nic_reads: self.nic_reads.is_some(),
        }
    }
}
