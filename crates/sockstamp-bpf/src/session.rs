//! A measurement under way: the programs loaded and attached for one target, their counters and
//! records read, and everything taken away at the end.

use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, PrintLevel, RingBuffer, RingBufferBuilder};
use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};
use sockstamp::ReceiveStamping;
use sockstamp::clock::RealtimeOffset;
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::Protocol;
use sockstamp_model::group::{GroupKey, Groups};
use sockstamp_model::message::Message;
use sockstamp_model::summary::Summary;

use crate::error::{Error, Tried};
use crate::filter;
use crate::flow;
use crate::group;
use crate::histogram;
use crate::map_view::{self, Banks};
use crate::options::{EntryHook, Options, Sampling, Target};
use crate::path;
use crate::plan::{Entry, Plan};
use crate::record::raw::{COMM_LENGTH as RAW_COMM_LENGTH, INTERFACES};
use crate::record::{self, Record};
use crate::sched::{self, WakeFunctions};
use crate::skeleton::sockstamp::{OpenSockstampSkel, SockstampSkel, SockstampSkelBuilder};
use crate::support::{Support, is_cgroup2};
use crate::udp;

/// How long the kernel may take to begin to stamp packets.
const STAMPING_PATIENCE: Duration = Duration::from_secs(1);

/// What a session found at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Adopted {
    /// Connections that existed and were selected.
    pub connections: u64,
    /// How long that took.
    pub took: Duration,
}

/// How often what the programs cannot know themselves is refreshed, and records are fetched.
const POLL: Duration = Duration::from_millis(50);

const COMM_LENGTH: usize = RAW_COMM_LENGTH as usize;

/// A measurement under way. Dropping it detaches everything.
pub struct Session {
    // Fields are dropped in this order: nothing may run any more when the maps go.
    links: Vec<Link>,
    ring: Option<RingBuffer<'static>>,
    banks: Banks,
    skeleton: SockstampSkel<'static>,
    // Held because the kernel stamps received packets only while some socket asks.
    receive_stamping: ReceiveStamping,
    adopted: Adopted,
    groups: Option<group::Table>,
    plan: Plan,
    started: Instant,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Loads and attaches. `on_record` gets every record from within [`Session::poll`], if records
    /// were asked for.
    ///
    /// # Errors
    ///
    /// Everything in [`Error`]; nothing stays behind then.
    pub fn start(options: &Options, on_record: impl FnMut(&Record) + 'static) -> Result<Self, Error> {
        let support = Support::probe();
        let mut plan = Plan::require(&support)?;
        match options.entry {
            EntryHook::Auto => {}
            EntryHook::By(entry) => plan.enter_by(entry, &support)?,
            EntryHook::Off => plan.leave_entry_out(),
        }
        if options.host_path {
            plan.follow_host_path(&support)?;
        }
        if !options.sched {
            plan.leave_sched_out();
        }
        let filter = options.target.filter.as_ref();
        if !options.udp || filter.is_some_and(|filter| !filter.wants(Protocol::Udp)) {
            plan.leave_udp_out();
        }
        let cgroup2 = support.cgroup2.as_deref().ok_or(Error::NoCgroup2)?;
        let cgroup = target_cgroup(&options.target, cgroup2)?;
        let receive_stamping = ReceiveStamping::enable()
            .map_err(io::Error::from)
            .tried("switch receive stamping on")?;
        let cgroup_id = cgroup.metadata().tried("look at the cgroup")?.ino();
        let skeleton = load(options, &plan, &support, cgroup_id)?;
        let banks = Banks::map(&skeleton.maps.banks, support.processors).tried("map the counters")?;
        let ring = options.record.then(|| ring(&skeleton, on_record)).transpose()?;
        let groups = options
            .groups
            .as_ref()
            .map(|grouped| group::Table::new(grouped, cgroup2, &skeleton.maps))
            .transpose()?;
        let mut session = Self {
            links: Vec::new(),
            ring,
            banks,
            skeleton,
            receive_stamping,
            adopted: Adopted::default(),
            groups,
            plan,
            started: Instant::now(),
        };
        session.select_tasks(&options.target)?;
        session.refresh_clock()?;
        // Existing connections may be busy: what they read is to be measured from the start. Where it cannot be
        // seen whether packets are stamped, their reads will tell.
        let _ = session.receive_stamping.settle(STAMPING_PATIENCE);
        session.record(options.record);
        session.attach(&cgroup)?;
        session.started = Instant::now();
        if !options.new_only {
            session.adopt(&options.target)?;
        }
        Ok(session)
    }

    /// What is measured and how.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The connections that existed at the start, and how long it took to select them.
    #[must_use]
    pub fn adopted(&self) -> Adopted {
        self.adopted
    }

    fn select_tasks(&self, target: &Target) -> Result<(), Error> {
        if !target.by_process() {
            return Ok(());
        }
        for &pid in &target.pids {
            require_process(pid)?;
            self.skeleton
                .maps
                .pids
                .update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)
                .tried(format!("select process {pid}"))?;
        }
        for comm in &target.comms {
            self.skeleton
                .maps
                .comms
                .update(&comm_key(comm), &[1], MapFlags::ANY)
                .tried(format!("select processes called {comm}"))?;
        }
        flow::mark_sockets(&self.skeleton.progs.mark_sockets)
    }

    /// After the hooks are attached: a connection that is established meanwhile is theirs, or found here.
    fn adopt(&mut self, target: &Target) -> Result<(), Error> {
        let begun = Instant::now();
        let programs = &self.skeleton.progs;
        if self.plan.measures_udp() {
            udp::mark_existing(&programs.mark_datagram_sockets)?;
        }
        flow::adopt(&programs.adopt_flows, target.netns)?;
        if target.by_process() {
            // What a selected task has accepted or opened since its sockets were marked.
            flow::mark_sockets(&programs.mark_sockets)?;
            flow::adopt(&programs.adopt_flows, target.netns)?;
        }
        let counted = self.skeleton.maps.bss_data.as_ref();
        self.adopted = Adopted {
            connections: counted.map_or(0, |data| data.adopted_flows),
            took: begun.elapsed(),
        };
        Ok(())
    }

    fn attach(&mut self, cgroup: &File) -> Result<(), Error> {
        let programs = &self.skeleton.progs;
        if self.plan.sched {
            self.links.push(sched::attach_clock(&programs.on_run_clock)?);
        }
        let udp = self.plan.measures_udp();
        let tracepoints = [
            (&programs.on_tcp_sendmsg_locked, self.plan.traces_entry()),
            (&programs.on_sock_send_length, self.plan.traces_entry() || udp),
            (&programs.on_tcp_retransmit_skb, self.plan.retransmits),
            (&programs.on_tcp_probe, self.plan.segments),
            (&programs.on_sk_data_ready, self.plan.rx),
            (&programs.on_sock_recv_length, self.plan.rx || udp),
            (&programs.on_inet_sock_set_state, self.plan.close),
            (&programs.on_host_xmit, self.plan.host_path),
            (&programs.on_net_dev_queue, udp),
            (&programs.on_net_dev_start_xmit, udp),
            (&programs.on_kfree_skb, udp),
        ];
        for (program, wanted) in tracepoints {
            if wanted {
                let name = program.name().to_string_lossy().into_owned();
                self.links.push(program.attach().tried(format!("attach {name}"))?);
            }
        }
        if udp {
            self.links.extend(udp::attach(programs, cgroup)?);
        }
        // Last, since it selects flows: all hooks of a flow's first message are in place then.
        let link = programs
            .on_sockops
            .attach_cgroup(cgroup.as_raw_fd())
            .tried("attach to the cgroup")?;
        self.links.push(link);
        Ok(())
    }

    /// The last to come is the first to go: a send whose end is seen has had its entry seen, a read
    /// the arrival of its bytes.
    fn detach(&mut self) {
        while self.links.pop().is_some() {}
    }

    /// Waits up to `timeout` (in steps of at most 50 ms), gives new records to the callback and
    /// keeps the clocks' distance fresh. To be called all the time.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] or [`Error::Io`] where the kernel refuses.
    pub fn poll(&mut self, timeout: Duration) -> Result<(), Error> {
        let timeout = timeout.min(POLL);
        match &self.ring {
            // Records below the wake-up mark are there without an event.
            Some(ring) => {
                some_or_all(ring.poll(timeout)).tried("wait for records")?;
                some_or_all(ring.consume()).tried("read records")?;
            }
            None => std::thread::sleep(timeout),
        }
        self.refresh_clock()?;
        if let Some(groups) = &mut self.groups {
            groups.refresh(&self.skeleton.maps, &self.plan)?;
        }
        Ok(())
    }

    fn refresh_clock(&mut self) -> Result<RealtimeOffset, Error> {
        let measured = sockstamp::clock::measure()
            .map_err(io::Error::from)
            .tried("read the clocks")?;
        if let Some(data) = self.skeleton.maps.bss_data.as_mut() {
            data.clock_offsets.realtime_minus_monotonic = measured.offset.delta().0;
            data.clock_offsets.tai_minus_realtime = measured.tai().delta().0;
        }
        Ok(measured)
    }

    /// Whether records come: at first, if [`Options::record`] asks for them, and not without that. What completes
    /// meanwhile is counted all the same.
    pub fn record(&mut self, wanted: bool) {
        if let Some(data) = self.skeleton.maps.bss_data.as_mut() {
            data.recording = wanted;
        }
    }

    /// What was measured up to now.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let banks = self.banks.read();
        let mut summary = histogram::summary(&banks, &self.plan);
        summary.interfaces = path::interfaces(&banks, &self.plan, &self.skeleton.maps.interfaces);
        summary.duration = Nanos::from(self.started.elapsed());
        summary.adopted = self.adopted.connections;
        summary
    }

    /// What was measured up to now, in groups; `None` if they were not asked for. [`Summary::groups`] is
    /// this at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn groups(&mut self) -> Result<Option<Groups>, Error> {
        let table = self.groups.as_mut();
        table
            .map(|table| table.read(&self.skeleton.maps, &self.plan))
            .transpose()
    }

    /// The group that a [`Record`] names in its field `group`, as of the last [`Session::groups`]; the default key for
    /// what found no room. `None` for a group that is newer.
    #[must_use]
    pub fn group_at(&self, place: u32) -> Option<&GroupKey> {
        self.groups.as_ref()?.at(place)
    }

    /// Waits until messages that are still in flight have completed, at most for `patience`.
    ///
    /// # Errors
    ///
    /// As [`Session::poll`].
    pub fn settle(&mut self, patience: Duration) -> Result<(), Error> {
        let end = Instant::now() + patience;
        while self.summary().in_flight > 0 && Instant::now() < end {
            self.poll(Duration::from_millis(10))?;
        }
        Ok(())
    }

    /// Detaches everything, takes the marks off the sockets and gives the final numbers.
    ///
    /// # Errors
    ///
    /// As [`Session::poll`], for the records that were left.
    pub fn stop(mut self) -> Result<Summary, Error> {
        let duration = Nanos::from(self.started.elapsed());
        self.detach();
        if let Some(ring) = &self.ring {
            while !some_or_all(ring.consume()).tried("read the last records")? {}
        }
        let mut summary = self.summary();
        summary.duration = duration;
        summary.groups = self.groups()?;
        Ok(summary)
    }

    /// Descriptors of the programs that run for messages, by name, for who measures what they cost.
    #[must_use]
    pub fn programs(&self) -> Vec<(String, BorrowedFd<'_>)> {
        let programs = &self.skeleton.progs;
        [
            &programs.on_sockops,
            &programs.on_tcp_sendmsg_locked,
            &programs.on_sock_send_length,
            &programs.on_tcp_retransmit_skb,
            &programs.on_tcp_probe,
            &programs.on_sk_data_ready,
            &programs.on_sock_recv_length,
            &programs.on_inet_sock_set_state,
            &programs.on_net_dev_queue,
            &programs.on_net_dev_start_xmit,
            &programs.on_kfree_skb,
            &programs.on_cgroup_ingress,
            &programs.on_sock_create,
            &programs.on_sendmsg4,
            &programs.on_sendmsg6,
            &programs.on_host_xmit,
        ]
        .into_iter()
        .filter(|program| program.autoload())
        .map(|program| (program.name().to_string_lossy().into_owned(), program.as_fd()))
        .collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.detach();
        flow::deselect(&self.skeleton.progs.deselect_flows);
    }
}

/// Turns records into messages; holds the clocks' distance at the time it was made.
#[derive(Debug, Clone, Copy)]
pub struct Decoder {
    offset: RealtimeOffset,
}

impl Decoder {
    /// Measures the clocks.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a clock cannot be read.
    pub fn new() -> Result<Self, Error> {
        let offset = sockstamp::clock::measure()
            .map_err(io::Error::from)
            .tried("read the clocks")?;
        Ok(Self { offset })
    }

    /// The message of a record; `None` if it is none of ours.
    #[must_use]
    pub fn message(&self, record: &Record) -> Option<Message> {
        record::message(record, self.offset.offset)
    }
}

fn require_process(pid: u32) -> Result<(), Error> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| Error::NoProcess { pid })?;
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    match group.and_then(|group| group.trim().parse().ok()) {
        Some(group) if group != pid => Err(Error::IsThread { tid: pid, pid: group }),
        _ => Ok(()),
    }
}

/// A name as the kernel keeps it: it cuts what is longer than TASK_COMM_LEN - 1 (`__set_task_comm()`, fs/exec.c).
fn comm_key(name: &str) -> [u8; COMM_LENGTH] {
    let mut key = [0; COMM_LENGTH];
    let kept = name.len().min(COMM_LENGTH - 1);
    key[..kept].copy_from_slice(&name.as_bytes()[..kept]);
    key
}

fn target_cgroup(target: &Target, root: &Path) -> Result<File, Error> {
    let path = target.cgroup.as_deref().unwrap_or(root);
    if !is_cgroup2(path) {
        return Err(Error::NotACgroup {
            path: path.to_owned(),
        });
    }
    File::open(path).tried(format!("open {}", path.display()))
}

fn load(
    options: &Options,
    plan: &Plan,
    support: &Support,
    cgroup_id: u64,
) -> Result<SockstampSkel<'static>, Error> {
    // The skeleton borrows its object, so one that outlives this call needs a place that does, too:
    // a few bytes a session that are never given back; the object in them is.
    let place = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = SockstampSkelBuilder::default()
        .open(place)
        .tried("read our own programs")?;
    configure(&mut open, options, plan, support, cgroup_id)?;
    open.load()
        .tried("load the programs (with SOCKSTAMP_DEBUG=1 the verifier says why)")
}

/// libbpf's own messages are no part of our output, except for who looks for a fault.
pub(crate) fn quiet_libbpf() {
    let debug = std::env::var_os("SOCKSTAMP_DEBUG").is_some();
    libbpf_rs::set_print(debug.then_some((PrintLevel::Warn, |_, text| eprint!("{text}"))));
}

fn configure(
    open: &mut OpenSockstampSkel<'_>,
    options: &Options,
    plan: &Plan,
    support: &Support,
    cgroup_id: u64,
) -> Result<(), Error> {
    let target = &options.target;
    let by_pid = target.by_process();
    if let Some(settings) = open.maps.rodata_data.as_mut() {
        settings.setting_record = options.record;
        settings.setting_by_pid = by_pid;
        settings.setting_pids = !target.pids.is_empty();
        settings.setting_comms = !target.comms.is_empty();
        settings.setting_adopt = !options.new_only;
        settings.setting_cgroup = cgroup_id;
        settings.setting_entry = plan.entry.is_some();
        settings.setting_entry_callback = plan.entry == Some(Entry::Callback);
        settings.setting_groups = group::setting(options.groups.as_ref());
        settings.setting_netns = target.netns.map_or(0, |netns| netns.0);
        settings.setting_interface = target.interface.map_or(0, NonZeroU32::get);
        settings.setting_host_path = plan.host_path;
        settings.setting_path_mask = paths(options) - 1;
        settings.setting_interface_mask = options.interfaces.clamp(1, INTERFACES).next_power_of_two() - 1;
        if let Some(filter) = &target.filter {
            filter::set_filter!(&mut *settings, filter);
        }
        (settings.setting_rate_cap, settings.setting_sample) = match options.sampling {
            Sampling::Every => (0, 0),
            Sampling::RateCap(cap) => (cap, 0),
            Sampling::OneIn(count) => (0, count),
        };
        settings.setting_slower_ns = options.slower_than.map_or(0, |least| least.0);
        settings.setting_hol = options.hol as u32;
        settings.setting_ring_wakeup = u64::from(options.ring_bytes / 4);
        settings.setting_udp = plan.measures_udp();
    }
    if plan.sched {
        set_wake_functions(open, WakeFunctions::find()?);
    }
    let processors = u32::try_from(support.processors).unwrap_or(u32::MAX);
    open.maps
        .banks
        .set_max_entries(processors)
        .tried("size the counters")?;
    group::size_maps(&mut open.maps, options.groups.as_ref())?;
    let ring_bytes = if options.record {
        options.ring_bytes
    } else {
        page_size()
    };
    open.maps
        .records
        .set_max_entries(ring_bytes)
        .tried("size the ring buffer")?;
    open.maps
        .paths
        .set_max_entries(if plan.host_path { paths(options) } else { 1 })
        .tried("size the table of packets")?;
    let udp = plan.measures_udp();
    let programs = &mut open.progs;
    for (program, wanted) in [
        (&mut programs.on_tcp_sendmsg_locked, plan.traces_entry()),
        (&mut programs.on_sock_send_length, plan.traces_entry() || udp),
        (&mut programs.on_tcp_retransmit_skb, plan.retransmits),
        (&mut programs.on_tcp_probe, plan.segments),
        (&mut programs.on_sk_data_ready, plan.rx),
        (&mut programs.on_sock_recv_length, plan.rx || udp),
        (&mut programs.on_inet_sock_set_state, plan.close),
        (&mut programs.mark_sockets, by_pid),
        (&mut programs.adopt_flows, !options.new_only),
        (&mut programs.on_host_xmit, plan.host_path),
        (&mut programs.on_run_clock, plan.sched),
        (&mut programs.on_net_dev_queue, udp),
        (&mut programs.on_net_dev_start_xmit, udp),
        (&mut programs.on_kfree_skb, udp),
        (&mut programs.on_cgroup_ingress, udp),
        (&mut programs.on_sock_create, udp),
        (&mut programs.on_sendmsg4, udp),
        (&mut programs.on_sendmsg6, udp),
        (&mut programs.mark_datagram_sockets, udp),
    ] {
        program.set_autoload(wanted);
    }
    Ok(())
}

fn set_wake_functions(open: &mut OpenSockstampSkel<'_>, functions: WakeFunctions) {
    if let Some(settings) = open.maps.rodata_data.as_mut() {
        settings.setting_sched = true;
        settings.setting_wake_stream = functions.stream;
        settings.setting_wake_datagram = functions.datagram;
        settings.setting_wake_poll = functions.poll;
        settings.setting_wake_epoll = functions.epoll;
        settings.setting_wake_uring = functions.uring;
    }
}

/// Records that are read at one go. Where they come faster than they are read, libbpf would go on forever.
const GO: u64 = 10_000;

/// Whether reading came to the end of the ring. If not, a signal came between, or as many records as are read at one
/// go: the rest stays.
fn some_or_all<T>(read: libbpf_rs::Result<T>) -> libbpf_rs::Result<bool> {
    match read {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// Places that a mask can tell apart.
fn paths(options: &Options) -> u32 {
    options.paths.clamp(1, 1 << 20).next_power_of_two()
}

fn ring(
    skeleton: &SockstampSkel<'static>,
    mut on_record: impl FnMut(&Record) + 'static,
) -> Result<RingBuffer<'static>, Error> {
    let mut count = 0_u64;
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&skeleton.maps.records, move |sample| {
            if let Some(record) = map_view::record(sample) {
                on_record(record);
            }
            count += 1;
            // A negative number ends the reading behind this record (ringbuf_process_ring() of libbpf).
            if count.is_multiple_of(GO) {
                -(Errno::EINTR as i32)
            } else {
                0
            }
        })
        .tried("read the ring buffer")?;
    builder.build().tried("read the ring buffer")
}

fn page_size() -> u32 {
    sysconf(SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|size| u32::try_from(size).ok())
        .unwrap_or(4096)
}
