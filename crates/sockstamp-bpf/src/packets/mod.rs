//! Every packet of selected flows: programs of their own, loaded for nothing else.

mod held;
mod programs;
mod record;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{Link, MapCore};
use sockstamp_host::netns;
use sockstamp_model::clock::{ClockOffset, Monotonic, Nanos, Realtime};
use sockstamp_model::packet::Packet;

use crate::abi::raw::packet_loss;
use crate::clock::{self, monotonic_now};
use crate::error::{Error, Tried};
use crate::facts::{Facts, Hook};
use crate::flow;
use crate::group::Names;
use crate::object;
use crate::opening;
use crate::options::Target;
use crate::plan::{Obstacle, cannot_load};
use crate::probe;
use crate::ring::Ring;
use crate::select::{filter, set_namespaces};
use crate::skeleton::packets::{PacketsSkel, PacketsSkelBuilder};
use crate::target::{Cgroups, Processes, select_tasks};
use crate::verified;
use crate::wakeups::Wakeups;

pub use programs::PROGRAMS;

use held::Held;
use programs::Plan;

/// The choice of packets, and of their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The target. Of processes it selects the flows that they send on, listen for or hold at the
    /// start.
    pub target: Target,
    /// Record every stage, not one for each direction.
    pub all_stages: bool,
    /// Bytes of each packet, from the IP header on; 0: the headers alone.
    pub snaplen: u32,
    /// Room for records, in bytes: a power of two, and a multiple of the page size.
    pub ring_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            target: Target::default(),
            all_stages: false,
            snaplen: 0,
            ring_bytes: 16 << 20,
        }
    }
}

/// The packets that were not recorded, by the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// The ring buffer was full: packets came faster than they were read.
    pub ring: u64,
    /// Their headers were not in the packet's linear memory.
    pub headers: u64,
    /// Fragments whose first one was not seen.
    pub fragments: u64,
    /// There was no room for their flow.
    pub flows: u64,
    /// Flows and ports, not packets, that were forgotten for others: their packets are missing
    /// until they are known again.
    pub forgotten: u64,
}

/// A packet is handed over when all that were seen before it have come: programs take the time just
/// before they reserve its place in the ring.
const SETTLED: Nanos = Nanos::from_millis(2);

/// A recording of packets under way. Dropping it detaches everything.
pub struct Packets {
    // Fields are dropped in this order: nothing may run any more when the maps go.
    links: Vec<Link>,
    ring: Ring<Held>,
    /// The ring has more of them.
    more: bool,
    wakeups: Wakeups,
    offset: ClockOffset<Monotonic, Realtime>,
    names: Names,
    /// Cgroups whose names were looked up.
    named: usize,
    skeleton: PacketsSkel<'static>,
    sees_sockets: bool,
    processes: Processes,
    // Held, so that its inode is no other namespace's.
    _netns: Vec<netns::Held>,
}

impl std::fmt::Debug for Packets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packets").finish_non_exhaustive()
    }
}

/// The descriptor can be read once packets have come, or the clock was stepped, until the next
/// [`Packets::wait`].
impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeups.as_fd()
    }
}

impl Packets {
    /// Load and attach. [`Packets::wait`] hands packets over.
    ///
    /// # Errors
    ///
    /// Everything in [`Error`]; nothing stays behind then.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let facts = probe::facts();
        if let Some(obstacle) = cannot_load(&facts) {
            return Err(obstacle.into());
        }
        let root = facts.cgroup2.as_deref().ok_or(Obstacle::NoCgroup2)?;
        let cgroups = Cgroups::open(&options.target, root)?;
        let plan = Plan {
            all_stages: options.all_stages,
            sees_sockets: options.all_stages && facts.casts == Some(true),
        };
        let mut skeleton = load(options, &plan, &facts, &cgroups.target)?;
        let processes = select_tasks(&options.target, &skeleton.maps.pids, &skeleton.maps.comms)?;
        let ring = Ring::open(&skeleton.maps.packet_ring, Held::add)?;
        let wakeups = Wakeups::new(&[skeleton.maps.packet_ring.as_fd()])?;
        wakeups.add(processes.descriptors())?;
        let links = attach(&mut skeleton, &plan, &cgroups)?;
        // After the hooks: what is made meanwhile is theirs, or found here.
        flow::run_once(&skeleton.progs.packets_held, "look at existing sockets")?;
        Ok(Self {
            links,
            ring,
            more: false,
            wakeups,
            offset: offset()?,
            names: Names::new(root),
            named: 0,
            skeleton,
            sees_sockets: plan.sees_sockets,
            processes,
            _netns: options.target.held.clone(),
        })
    }

    /// Return the same as [`Session::verified`](crate::Session::verified).
    ///
    /// # Errors
    ///
    /// Those of that function.
    pub fn verified(&self) -> Result<Vec<(String, u32)>, Error> {
        verified::of(self.skeleton.object())
    }

    /// Return the same as
    /// [`Session::has_outlived_its_target`](crate::Session::has_outlived_its_target).
    #[must_use]
    pub fn have_outlived_their_target(&self) -> bool {
        self.processes.have_ended()
    }

    /// Return whether arrivals at sockets are recorded, if all stages were asked for.
    #[must_use]
    pub fn sees_sockets(&self) -> bool {
        self.sees_sockets
    }

    /// Wait until packets come, one of `others` can be read or `timeout` has passed, and hand
    /// packets over in the order of their times.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] or [`Error::Io`] where the kernel refuses.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        others: &[BorrowedFd<'_>],
        on_packet: &mut impl FnMut(&Packet<'_>),
    ) -> Result<(), Error> {
        if self.ring.inbox().is_empty() {
            if let Some(data) = self.skeleton.maps.bss_data.as_mut() {
                data.packet_reader_sleeps = true;
            }
            fence(Ordering::SeqCst);
            // Look again: records that came before this setting wake no reader.
            self.read()?;
        }
        let patience = self.patience();
        let timeout = timeout.map_or(patience, |timeout| timeout.min(patience));
        if self.wakeups.wait(Some(timeout), others)? {
            self.offset = offset()?;
        }
        self.processes.deselect_ended(&self.skeleton.maps.pids)?;
        self.read_and_hand_over(on_packet)
    }

    /// Return the time after which [`Packets::wait`] must be called again, even if the descriptor
    /// of these packets does not become readable.
    pub fn patience(&mut self) -> Duration {
        match self.more {
            true => Duration::ZERO,
            false => self.wakeups.patience(!self.ring.inbox().is_empty()),
        }
    }

    /// Hand over what is left, and return what was lost.
    ///
    /// # Errors
    ///
    /// Those of [`Packets::wait`].
    pub fn stop(mut self, on_packet: &mut impl FnMut(&Packet<'_>)) -> Result<Lost, Error> {
        self.links.clear();
        self.read_and_hand_over(on_packet)?;
        while self.more {
            self.read_and_hand_over(on_packet)?;
        }
        self.hand_over(u64::MAX, on_packet)?;
        Ok(self.lost())
    }

    fn lost(&self) -> Lost {
        let counts = self.skeleton.maps.bss_data.as_ref();
        let count =
            |loss: packet_loss::Type| counts.map_or(0, |data| data.packet_losses[loss as usize]);
        Lost {
            ring: count(packet_loss::PACKET_LOSS_RING),
            headers: count(packet_loss::PACKET_LOSS_HEADERS),
            fragments: count(packet_loss::PACKET_LOSS_FRAGMENT),
            flows: count(packet_loss::PACKET_LOSS_FLOW),
            forgotten: self.forgotten(),
        }
    }

    fn forgotten(&self) -> u64 {
        let maps = &self.skeleton.maps;
        let added = maps.bss_data.as_ref().map_or((0, 0), |data| {
            (data.packet_flows_added, data.packet_ports_added)
        });
        // See in the maps what was added before.
        fence(Ordering::Acquire);
        gone(&maps.packet_flows, added.0) + gone(&maps.packet_ports, added.1)
    }

    fn read(&mut self) -> Result<(), Error> {
        self.ring.inbox().begin();
        self.more = !self.ring.go()?;
        Ok(())
    }

    fn read_and_hand_over(&mut self, on_packet: &mut impl FnMut(&Packet<'_>)) -> Result<(), Error> {
        let begun = monotonic_now();
        self.read()?;
        // Records that are left in the ring got their places after the last one that was read.
        let read = match self.more {
            true => self.ring.inbox().last(),
            false => begun,
        };
        self.hand_over(read.saturating_sub(SETTLED.as_nanos()), on_packet)
    }

    /// Hand over packets that were seen up to `settled`.
    fn hand_over(
        &mut self,
        settled: u64,
        on_packet: &mut impl FnMut(&Packet<'_>),
    ) -> Result<(), Error> {
        let mut held = self.ring.inbox();
        let cgroups = held.cgroups();
        if cgroups.len() > self.named {
            self.named = cgroups.len();
            self.names
                .learn(cgroups, &BTreeSet::new(), &BTreeSet::new())?;
        }
        let (mut cgroup, mut path) = (0, None);
        for (record, bytes) in held.until(settled) {
            if record.cgroup != cgroup {
                cgroup = record.cgroup;
                path = self.names.cgroup(cgroup);
            }
            // By reference: a packet is moved otherwise, and has some hundred bytes.
            if let Some(packet) = &record::packet(record, bytes, self.offset, path) {
                on_packet(packet);
            }
        }
        held.forget(settled);
        Ok(())
    }
}

/// Return how many of the added elements are no longer there.
fn gone(map: &impl MapCore, added: u64) -> u64 {
    // The kernel makes room a little before a map is full. A look at each element is a system call.
    if added <= u64::from(map.max_entries()) / 2 {
        return 0;
    }
    added.saturating_sub(map.keys().count() as u64)
}

fn offset() -> Result<ClockOffset<Monotonic, Realtime>, Error> {
    let measured = clock::measure().map_err(io::Error::from);
    Ok(measured.tried("read the clocks")?.offset)
}

/// Bytes behind the linear part can be read from Linux 6.12 on; there is no other way to know.
fn load(
    options: &Options,
    plan: &Plan,
    facts: &Facts,
    cgroup: &File,
) -> Result<PacketsSkel<'static>, Error> {
    if options.snaplen > 0
        && let Ok(skeleton) = try_load(options, plan, facts, cgroup, true)
    {
        return Ok(skeleton);
    }
    try_load(options, plan, facts, cgroup, false)
}

fn try_load(
    options: &Options,
    plan: &Plan,
    facts: &Facts,
    cgroup: &File,
    paged: bool,
) -> Result<PacketsSkel<'static>, Error> {
    let mut open = opening::open(PacketsSkelBuilder::default())?;
    let target = &options.target;
    let cgroup = cgroup.metadata().tried("inspect the cgroup")?.ino();
    if let Some(settings) = open.maps.rodata_data.as_mut() {
        settings.setting_casts = facts.casts == Some(true);
        settings.setting_paged = paged;
        settings.setting_snaplen = options.snaplen;
        settings.setting_once = !options.all_stages;
        settings.setting_ring_wakeup = u64::from(options.ring_bytes / 4);
        settings.setting_cgroup = if target.cgroup.is_some() { cgroup } else { 0 };
        set_namespaces(&mut settings.setting_netns, &target.netns);
        settings.setting_interface = target.interface.map_or(0, NonZeroU32::get);
        settings.setting_by_pid = target.by_process();
        settings.setting_spare_own = !options.target.names_tasks();
        settings.setting_pids = !target.pids.is_empty();
        settings.setting_comms = !target.comms.is_empty();
        if let Some(filter) = &target.filter {
            filter::set_filter!(&mut *settings, filter);
        }
    }
    let ring = open.maps.packet_ring.set_max_entries(options.ring_bytes);
    ring.tried("size the ring buffer")?;
    object::choose(&mut open, &PROGRAMS, plan);
    open.load().tried("load the programs for packets")
}

fn attach(
    skeleton: &mut PacketsSkel<'static>,
    plan: &Plan,
    cgroups: &Cgroups,
) -> Result<Vec<Link>, Error> {
    let needed = PROGRAMS.iter().filter(|program| program.is_needed(plan));
    needed
        .filter(|program| !matches!(program.hook, Hook::Walk(_)))
        .map(|program| object::attach(skeleton, program, cgroups))
        .collect()
}
