//! Start a measurement: load the programs, select tasks, attach, and adopt what exists.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{Object, Program};
use rustc_hash::FxHashSet;
use sockstamp::ReceiveStamping;
use sockstamp_model::clock::Timestamp;

use super::open_waits::OpenWaits;
use super::{Adopted, Session};
use crate::clock::{self, monotonic_now};
use crate::code_pages;
use crate::cost::Control;
use crate::demand::Standby;
use crate::error::{Error, Tried};
use crate::facts::{Facts, Hook, Tracepoint};
use crate::flow::{self, Missed};
use crate::group;
use crate::map_view::Banks;
use crate::nic::Nics;
use crate::object;
use crate::opening;
use crate::options::{Options, Target};
use crate::plan::{Obstacle, Plan};
use crate::probe;
use crate::programs::{self, PROGRAMS};
use crate::ring::Ring;
use crate::sched;
use crate::settings;
use crate::skeleton::sockstamp::{SockstampSkel, SockstampSkelBuilder};
use crate::target::{Cgroups, Processes, select_tasks};
use crate::udp;
use crate::unix::Questions;
use crate::wait::Waiting;
use crate::wakeups::Wakeups;
use crate::window::Windows;

/// Longest time for the kernel to begin stamping packets.
const STAMPING_PATIENCE: Duration = Duration::from_secs(1);

/// Time that connections are adopted after the last wait for the walk, which is repeated far more
/// often.
const ADOPTION_LEASE_NS: u64 = 1_000_000_000;

/// The hook whose program sees flows close.
const CLOSING: Hook = Hook::Tracepoint(Tracepoint::InetSockSetState);

impl Session {
    /// Do the same as [`Session::start`] on a host with only these facts: for tests that remove
    /// something.
    ///
    /// # Errors
    ///
    /// Those of [`Session::start`].
    #[doc(hidden)]
    pub fn start_on(facts: &Facts, options: &Options) -> Result<Self, Error> {
        match Self::start_as_planned(facts, options) {
            Err(refusal @ Error::Bpf { .. }) => {
                Self::start_without_refused(facts, options, refusal)
            }
            started => started,
        }
    }

    /// Start with the substitutes of what the kernel refuses. To find that out takes longer than a
    /// start.
    fn start_without_refused(
        facts: &Facts,
        options: &Options,
        refusal: Error,
    ) -> Result<Self, Error> {
        let (found, _) = probe::try_all(facts, options)?;
        let request = options.request();
        if Plan::new(&found, &request)? == Plan::new(facts, &request)? {
            return Err(refusal);
        }
        Self::start_as_planned(&found, options)
    }

    fn start_as_planned(facts: &Facts, options: &Options) -> Result<Self, Error> {
        let plan = Plan::new(facts, &options.request())?;
        let cgroup2 = facts.cgroup2.as_deref().ok_or(Obstacle::NoCgroup2)?;
        let cgroups = Cgroups::open(&options.target, cgroup2)?;
        let mut session = Self::load(options, plan, cgroup2, &cgroups)?;
        session.watch_sleepers(facts, options);
        session.begin(options, &cgroups)?;
        Ok(session)
    }

    /// Load the programs, and map what they write. None of them runs yet.
    fn load(
        options: &Options,
        plan: Plan,
        cgroup2: &Path,
        cgroups: &Cgroups,
    ) -> Result<Self, Error> {
        let receive_stamping = ReceiveStamping::enable()
            .map_err(io::Error::from)
            .tried("switch receive stamping on")?;
        let cgroup_id = cgroups.target.metadata().tried("inspect the cgroup")?.ino();
        let mut skeleton = load(options, &plan, cgroup_id)?;
        let nics = Nics::open(options, &plan, &skeleton.maps)?;
        let ring = (options.record || nics.is_some())
            .then(|| Ring::of_records(&skeleton.maps.records))
            .transpose()?;
        let standby = Standby::new(
            Cgroups::open(&options.target, cgroup2)?,
            &mut skeleton,
            &plan,
            options.on_demand.unwrap_or_default(),
        )?;
        let programs = for_messages(skeleton.object()).tried("keep the programs open")?;
        Ok(Self {
            links: Vec::new(),
            closing: None,
            standby,
            windows: Windows::new(options, &plan),
            cost: Control::new(options, &programs, &plan)?,
            refusal: None,
            refused: false,
            giving_up: None,
            waiting: options
                .waits
                .map(|_| Waiting::new(&skeleton.maps, Timestamp::from_nanos(monotonic_now())))
                .transpose()?,
            open_waits: None,
            unix: None,
            wakeups: wakeups(&skeleton, ring.is_some())?,
            ring,
            records_come: false,
            clock_read: Instant::now(),
            offset: clock::measure()
                .map_err(io::Error::from)
                .tried("read the clocks")?
                .offset,
            banks: Banks::map(&skeleton.maps.banks, plan.processors).tried("map the counters")?,
            programs,
            passing: Vec::new(),
            receive_stamping,
            adopted: Adopted::default(),
            older: FxHashSet::default(),
            stuck: BTreeSet::new(),
            netns: options.target.netns.clone(),
            groups: options
                .groups
                .as_ref()
                .map(|grouped| group::Table::new(grouped, cgroup2, &skeleton.maps))
                .transpose()?,
            tags: options.tag,
            nics,
            plan,
            skeleton,
            started: Instant::now(),
            deselected: false,
            is_whole: false,
            processes: Processes::default(),
            _netns: options.target.held.clone(),
        })
    }

    /// Start the looks at open waits, and the questions at Unix sockets. Everything else is
    /// measured without them.
    fn watch_sleepers(&mut self, facts: &Facts, options: &Options) {
        let Some(slow) = options.waits else { return };
        let unix = Questions::start(facts, options, slow);
        self.unix = unix.unwrap_or_else(|error| self.go_without(error));
        let open_waits = OpenWaits::start(facts, &options.target, slow, self.unix.is_some());
        self.open_waits = (open_waits.map(Some)).unwrap_or_else(|error| self.go_without(error));
    }

    fn go_without<T>(&mut self, refused: Error) -> Option<T> {
        self.refusal.get_or_insert(refused);
        None
    }

    /// Select, attach, and adopt what exists.
    fn begin(&mut self, options: &Options, cgroups: &Cgroups) -> Result<(), Error> {
        if let Some(windows) = &mut self.windows {
            windows.begin(&mut self.skeleton);
        }
        self.processes = self.select_tasks(&options.target)?;
        self.wakeups.add(self.processes.descriptors())?;
        self.refresh_clock()?;
        // Wait, because existing connections may be busy, and their reads must be measured from the
        // start. If it is unknown whether packets are stamped, their reads will show it.
        let _ = self.receive_stamping.settle(STAMPING_PATIENCE);
        self.record(options.record);
        self.attach(cgroups)?;
        if let (true, Some(data)) = (self.plan.run_clock, &self.skeleton.maps.bss_data) {
            sched::await_clock(&data.run_clock.at);
        }
        self.started = Instant::now();
        self.adopt(&options.target)?;
        self.standby.run(&mut self.skeleton, &self.plan);
        self.count_unix()?;
        if let Some(cost) = &mut self.cost {
            cost.admit(options.sampling)?;
        }
        code_pages::release();
        if let Some(cost) = &mut self.cost {
            cost.begin_account();
        }
        Ok(())
    }

    fn select_tasks(&self, target: &Target) -> Result<Processes, Error> {
        if !self.plan.by_process {
            return Ok(Processes::default());
        }
        let maps = &self.skeleton.maps;
        let processes = select_tasks(target, &maps.pids, &maps.comms)?;
        self.mark_sockets(target)?;
        Ok(processes)
    }

    /// Mark the open files of the selected tasks.
    fn mark_sockets(&self, target: &Target) -> Result<(), Error> {
        let programs = &self.skeleton.progs;
        flow::mark_sockets(&programs.mark_sockets)?;
        let counted = self.skeleton.maps.bss_data.as_ref();
        match counted.map_or(0, |data| data.found_listening_subflows) {
            0 => Ok(()),
            _ => {
                let mut visited = || counted.map_or(0, |data| data.visited_sockets);
                let program = &programs.mark_listening_subflows;
                flow::mark_listening_subflows(program, &target.netns, &mut visited)
            }
        }
    }

    /// After the hooks are attached: a connection that is established meanwhile is theirs, or found
    /// here.
    fn adopt(&mut self, target: &Target) -> Result<(), Error> {
        let begun = Instant::now();
        let programs = &self.skeleton.progs;
        let mut missed = Missed::default();
        if self.plan.spare_own {
            flow::mark_sockets(&programs.mark_sockets)?;
        }
        if self.plan.existing {
            if self.plan.measures_udp() {
                udp::mark_existing(&programs.mark_datagram_sockets)?;
            }
            missed = self.adopt_flows(target)?;
        }
        #[cfg(feature = "series")]
        if self.plan.datagrams_call_back() {
            // Also one that was made when its hook was attached, and got its port when that for
            // ports was not yet.
            let counted = self.skeleton.maps.bss_data.as_ref();
            let mut visited = || counted.map_or(0, |data| data.visited_sockets);
            let program = &self.skeleton.progs.ask_datagram_sockets;
            flow::ask_datagram_sockets(program, &target.netns, &mut visited)?;
        }
        if self.plan.by_process {
            // Mark again: selected tasks may have accepted or opened sockets, and listeners, since.
            self.mark_sockets(target)?;
            if self.plan.existing {
                missed = self.adopt_flows(target)?;
            }
        }
        let counted = self.skeleton.maps.bss_data.as_ref();
        self.stuck = missed.places;
        self.adopted = Adopted {
            connections: counted.map_or(0, |data| data.adopted_flows),
            missed: missed.connections,
            took: begun.elapsed(),
        };
        Ok(())
    }

    fn adopt_flows(&mut self, target: &Target) -> Result<Missed, Error> {
        let data = &mut self.skeleton.maps.bss_data;
        let mut visited = || {
            data.as_mut().map_or(0, |data| {
                data.adopt_until_ns = monotonic_now().saturating_add(ADOPTION_LEASE_NS);
                data.visited_sockets
            })
        };
        let missed = flow::adopt(
            &self.skeleton.progs.adopt_flows,
            &target.netns,
            &mut visited,
        );
        if let Some(data) = data.as_mut() {
            data.adopt_until_ns = 0;
        }
        missed
    }

    fn attach(&mut self, cgroups: &Cgroups) -> Result<(), Error> {
        let at_once = |program: &&programs::Program| program.demands(&self.plan).is_empty();
        for program in programs::needed(&self.plan).filter(at_once) {
            if matches!(program.hook, Hook::Walk(_)) {
                continue;
            }
            let link = object::attach(&mut self.skeleton, program, cgroups)?;
            if let (true, Some(windows)) = (program.is_windowed(), &mut self.windows) {
                windows.keep(link);
            } else if program.hook == CLOSING && self.plan.uses_bit() {
                self.closing = Some(link);
            } else {
                self.links.push(link);
            }
        }
        if self.plan.measures_udp() {
            let program = &self.skeleton.progs.give_up_datagrams;
            self.giving_up = Some(udp::GivingUp::attach(program)?);
        }
        Ok(())
    }
}

/// Wake the reader for programs that ask for it, and for records.
fn wakeups(skeleton: &SockstampSkel<'_>, has_records: bool) -> Result<Wakeups, Error> {
    let records = has_records.then(|| skeleton.maps.records.as_fd());
    let rings: Vec<_> = [Some(skeleton.maps.knocks.as_fd()), records]
        .into_iter()
        .flatten()
        .collect();
    Wakeups::new(&rings)
}

/// Hold the loaded programs that messages make run, by name.
fn for_messages(object: &Object) -> io::Result<Vec<(String, OwnedFd)>> {
    let for_messages = PROGRAMS
        .iter()
        .filter(|program| program.hook.runs_for_messages());
    let names: BTreeSet<_> = for_messages.map(|program| program.name).collect();
    let loaded = object.progs().filter(Program::autoload);
    loaded
        .map(|program| (program.name().to_string_lossy().into_owned(), program))
        .filter(|(name, _)| names.contains(name.as_str()))
        .map(|(name, program)| Ok((name, program.as_fd().try_clone_to_owned()?)))
        .collect()
}

fn load(options: &Options, plan: &Plan, cgroup_id: u64) -> Result<SockstampSkel<'static>, Error> {
    let mut open = opening::open(SockstampSkelBuilder::default())?;
    settings::apply(&mut open, options, plan, cgroup_id)?;
    open.load()
        .tried("load the programs (set SOCKSTAMP_DEBUG=1 for the log of the verifier)")
}
