//! Questions over Unix sockets, and their answers: programs of their own, attached only while a
//! process of the target has connected to a service behind one.

mod asking;
mod programs;
mod seen;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{Iter, Link, MapCore, MapFlags};
use sockstamp_host::unix::Unix;
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::{NetnsInode, SocketCookie};
use sockstamp_model::wait::{UnixWait, Waits};

use crate::abi::raw::{unix_flow, unix_wait};
use crate::clock::monotonic_now;
use crate::error::{Error, Tried};
use crate::facts::{Facts, Hook};
use crate::map_view;
use crate::object;
use crate::opening;
use crate::options::{Options, Target};
use crate::privilege::with_capabilities;
use crate::probe;
use crate::ring::Ring;
use crate::select::set_namespaces;
use crate::skeleton::unix::{UnixSkel, UnixSkelBuilder};
use crate::target::{Processes, select_tasks};
use crate::verified;

use asking::Asking;
use seen::Seen;

pub(crate) use asking::processes;
pub use programs::PROGRAMS;
pub(crate) use seen::{path, text};

/// Between two looks: at what the target has open, and at its questions.
const BETWEEN: Duration = Duration::from_secs(1);
/// The same of a command, and while a question is open: nothing tells when it is given up.
const WHILE_OPEN: Duration = Duration::from_millis(100);

/// The questions of a session's target.
pub(crate) struct Questions {
    target: Target,
    slow: Nanos,
    casts: bool,
    asking: Asking,
    loaded: Option<Loaded>,
    seen: Seen,
    next: Instant,
    /// The kernel has refused the programs.
    refused: bool,
    /// Programs came or went since this was asked last.
    changed: bool,
}

/// The programs, attached.
struct Loaded {
    // Fields are dropped in this order: nothing may run any more when the maps go.
    _links: Vec<Link>,
    walk: Link,
    ring: Ring<Vec<unix_wait>>,
    skeleton: UnixSkel<'static>,
    processes: Processes,
    /// Counts of the kernel's maps without room, as far as they were taken.
    counted: (u64, u64),
}

impl Questions {
    /// Begin with a target that names tasks: programs on the sends of everybody are not for a
    /// whole host, and no Unix socket has what a filter or an interface asks for. Where nothing
    /// waits for demand, as for a command, they are attached at once.
    pub(crate) fn start(
        facts: &Facts,
        options: &Options,
        slow: Nanos,
    ) -> Result<Option<Self>, Error> {
        let target = &options.target;
        let is_refused = target.filter.is_some() || target.interface.is_some();
        if is_refused || !has_hooks(facts) || !options.unix || !target.names_tasks() {
            return Ok(None);
        }
        let mut questions = Self {
            target: target.clone(),
            slow,
            casts: facts.casts == Some(true),
            asking: Asking::new(Unix::open()),
            loaded: None,
            seen: Seen::default(),
            next: Instant::now(),
            refused: false,
            changed: false,
        };
        if options.on_demand.is_none() {
            questions.asking.is_always();
        }
        questions.run()?;
        Ok(Some(questions))
    }

    /// Return the time until the next look.
    pub(crate) fn until_run(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Look, if it is time.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        if self.refused || !self.until_run().is_zero() {
            return Ok(());
        }
        let began = Instant::now();
        let done = self.look();
        if done.is_err() {
            self.refused = true;
            self.unload();
        }
        let between = match self.seen.has_open() || self.asking.is_of_command() {
            true => WHILE_OPEN,
            false => BETWEEN,
        };
        // Looks take a twentieth of the time at most, however many connections there are.
        let now = Instant::now();
        self.next = now + between.max((now - began) * 20);
        done
    }

    fn look(&mut self) -> Result<(), Error> {
        let is_needed = self.asking.look(&self.target);
        if let Some(loaded) = &mut self.loaded {
            loaded.look(&mut self.seen, self.asking.sockets())?;
        }
        match (is_needed, &self.loaded) {
            (true, None) => {
                let target = (&self.target, self.slow, self.casts);
                let loaded = with_capabilities(|| Loaded::start(target));
                // A process of the target that has just ended asks nobody.
                self.loaded = match loaded {
                    Err(Error::NoProcess { .. }) => None,
                    loaded => Some(loaded?),
                };
                self.seen.begin(self.asking.asking().clone());
                self.changed = self.loaded.is_some();
            }
            (false, Some(_)) => self.unload(),
            _ => {}
        }
        Ok(())
    }

    /// Detach the programs: nothing is known of connections from now on.
    fn unload(&mut self) {
        self.changed |= self.loaded.is_some();
        self.loaded = None;
        self.seen.forget_open();
    }

    /// Return the programs that run for messages, by name, if others did at the last call of this.
    pub(crate) fn take_changed(&mut self) -> Result<Option<Vec<(String, OwnedFd)>>, Error> {
        if !mem::take(&mut self.changed) {
            return Ok(None);
        }
        let loaded = self.loaded.as_ref().map(Loaded::for_messages).transpose();
        loaded.map(|programs| Some(programs.unwrap_or_default()))
    }

    /// Return the slow ones that have ended since the last call of this.
    pub(crate) fn new_ones(&mut self) -> &[UnixWait] {
        self.seen.new_ones()
    }

    /// Return all that have ended since the last call of this or of [`add_to`](Self::add_to).
    pub(crate) fn take_ended(&mut self) -> Vec<UnixWait> {
        let mut ended = self.seen.take_ended();
        name_servers(&mut ended, |wait| self.asking.name_server(wait));
        ended
    }

    /// Return the sockets of connections whose questions are followed.
    pub(crate) fn followed(&self) -> impl Iterator<Item = SocketCookie> {
        self.seen.followed()
    }

    /// Add those that have ended, and those that are open.
    pub(crate) fn add_to(&mut self, waits: &mut Waits) -> Result<(), Error> {
        if let Some(loaded) = &mut self.loaded {
            loaded.look(&mut self.seen, self.asking.sockets())?;
        }
        self.seen.add_to(waits, self.slow);
        name_servers(&mut waits.unix, |wait| self.asking.name_server(wait));
        Ok(())
    }
}

impl Loaded {
    fn start((target, slow, casts): (&Target, Nanos, bool)) -> Result<Self, Error> {
        let target = &living(target)?;
        let mut skeleton = load(target, slow, casts)?;
        let cgroup = target.cgroup.as_ref().map(File::open);
        if let Some(cgroup) = cgroup.transpose().tried("open the cgroup")? {
            let descriptor = cgroup.as_raw_fd().to_ne_bytes();
            let map = &skeleton.maps.unix_cgroup;
            map.update(&0_u32.to_ne_bytes(), &descriptor, MapFlags::ANY)
                .tried("select the cgroup")?;
        }
        let processes = select_tasks(target, &skeleton.maps.pids, &skeleton.maps.comms)?;
        let ring = Ring::of_records(&skeleton.maps.unix_waits)?;
        let walk = &skeleton.progs.tell_unix_flows;
        let walk = walk.attach_iter(skeleton.maps.unix_flows.as_fd());
        let walk = walk.tried("look at questions over Unix sockets")?;
        let mut links = Vec::new();
        for program in PROGRAMS {
            if !matches!(program.hook, Hook::Walk(_)) {
                let found = object::find(&mut skeleton, program.name);
                let link = found.attach().tried(format!("attach {}", program.name))?;
                links.push(link);
            }
        }
        Ok(Self {
            _links: links,
            walk,
            ring,
            skeleton,
            processes,
            counted: (0, 0),
        })
    }

    /// Take what has ended, and look at what is open.
    fn look(&mut self, seen: &mut Seen, unix: &Unix) -> Result<(), Error> {
        self.processes.deselect_ended(&self.skeleton.maps.pids)?;
        let flows = self.flows()?;
        self.ring.empty(&mut |wait| seen.ended(wait))?;
        let now = monotonic_now();
        let mut listed = BTreeMap::new();
        for flow in flows {
            let inode = flow.ends.inode;
            let netns = NetnsInode(flow.ends.netns);
            let open = listed.entry(netns).or_insert_with(|| unix.inodes(netns));
            let is_known = open.is_some();
            let is_listed = open.as_ref().is_some_and(|open| open.contains(&inode));
            // A list leaves a socket out if others were closed while it was made.
            let is_asked = flow.course.since != 0;
            let is_there = is_listed || is_known && is_asked && unix.is_open(netns, inode);
            if !is_there {
                // Nobody else takes it out.
                let _ = self
                    .skeleton
                    .maps
                    .unix_flows
                    .delete(&flow.ends.cookie.to_ne_bytes());
            }
            // Of a namespace that came later nothing tells when its sockets are closed.
            if is_known {
                seen.flow(flow, is_there, now);
            }
        }
        seen.looked();
        if let Some(data) = self.skeleton.maps.bss_data.as_ref() {
            let counts = (data.unix_untold, data.unix_lost);
            seen.without_room(counts.0 - self.counted.0, counts.1 - self.counted.1);
            self.counted = counts;
        }
        Ok(())
    }

    fn for_messages(&self) -> Result<Vec<(String, OwnedFd)>, Error> {
        let is_walk = |name: &str| {
            let mut walks = PROGRAMS
                .iter()
                .filter(|one| matches!(one.hook, Hook::Walk(_)));
            walks.any(|walk| walk.name == name)
        };
        let programs = self.skeleton.object().progs();
        let named =
            programs.map(|program| (program.name().to_string_lossy().into_owned(), program));
        let running = named.filter(|(name, _)| !is_walk(name));
        let opened =
            running.map(|(name, program)| Ok((name, program.as_fd().try_clone_to_owned()?)));
        let opened: io::Result<_> = opened.collect();
        opened.tried("keep the programs for Unix sockets open")
    }

    fn flows(&self) -> Result<Vec<unix_flow>, Error> {
        const STEP: &str = "look at questions over Unix sockets";
        let mut bytes = Vec::new();
        let mut iterator = Iter::new(&self.walk).tried(STEP)?;
        iterator.read_to_end(&mut bytes).tried(STEP)?;
        let flows = bytes.chunks_exact(size_of::<unix_flow>());
        Ok(flows.filter_map(map_view::unix_flow).collect())
    }
}

/// Name the processes that serve these questions. Each search reads the descriptors of some
/// processes: where there are too many, the others have none.
fn name_servers(waits: &mut [UnixWait], mut name: impl FnMut(&mut UnixWait)) {
    const MOST: usize = 256;
    let is_named = |wait: &UnixWait| matches!(&wait.server, Some((_, name)) if !name.is_empty());
    let unnamed = waits.iter_mut().filter(|wait| !is_named(wait));
    for (number, wait) in unnamed.enumerate() {
        match number < MOST {
            true => name(wait),
            false => wait.server = None,
        }
    }
}

/// Return true if the kernel has the tracepoints of the programs, as far as is known.
fn has_hooks(facts: &Facts) -> bool {
    PROGRAMS.iter().all(|program| match program.hook {
        Hook::Tracepoint(of) => facts.tracepoints.get(&of) != Some(&Some(false)),
        _ => true,
    })
}

/// Load the programs, if this kernel has their hooks, and return the verifier's cost of each, by
/// its name.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn verified() -> Result<Vec<(String, u32)>, Error> {
    let facts = probe::facts();
    if !has_hooks(&facts) {
        return Ok(Vec::new());
    }
    // Each condition adds instructions.
    let target = Target {
        pids: vec![1],
        comms: vec!["one".into()],
        cgroup: Some("/".into()),
        netns: vec![NetnsInode(1)],
        ..Target::default()
    };
    let skeleton = load(&target, Nanos(1), facts.casts == Some(true))?;
    verified::of(skeleton.object())
}

/// Return the target without processes that have ended: others of it go on.
fn living(target: &Target) -> Result<Target, Error> {
    let mut living = target.clone();
    living
        .pids
        .retain(|pid| Path::new(&format!("/proc/{pid}")).exists());
    match (living.pids.is_empty(), target.pids.first()) {
        (true, Some(&pid)) => Err(Error::NoProcess { pid }),
        _ => Ok(living),
    }
}

fn load(target: &Target, slow: Nanos, casts: bool) -> Result<UnixSkel<'static>, Error> {
    let mut open = opening::open(UnixSkelBuilder::default())?;
    if let Some(settings) = open.maps.rodata_data.as_mut() {
        settings.setting_casts = casts;
        settings.setting_slow_ns = slow.0;
        set_namespaces(&mut settings.setting_netns, &target.netns);
        settings.setting_by_cgroup = target.cgroup.is_some();
        settings.setting_by_pid = target.by_process();
        settings.setting_pids = !target.pids.is_empty();
        settings.setting_comms = !target.comms.is_empty();
        settings.setting_spare_own = !target.names_tasks();
    }
    open.load().tried("load the programs for Unix sockets")
}

#[cfg(test)]
mod tests {
    use sockstamp_model::name::Name;

    use super::seen::tests::waited;
    use super::*;

    #[test]
    fn a_server_has_a_name_or_is_none_however_many_questions_there_are() {
        let of = |server| UnixWait { server, ..waited() };
        let nameless = || of(Some((7, Name::default())));
        let named = || of(Some((8, Name::from("db"))));
        let mut waits: Vec<_> = (0..300).flat_map(|_| [named(), nameless()]).collect();
        let mut searches = 0;
        name_servers(&mut waits, |wait| {
            searches += 1;
            wait.server = Some((7, Name::from("found")));
        });
        assert_eq!(searches, 256);
        let count = |name: &str| {
            let is_it = |wait: &&UnixWait| wait.server.as_ref().is_some_and(|(_, of)| *of == *name);
            waits.iter().filter(is_it).count()
        };
        assert_eq!((count("db"), count("found"), count("")), (300, 256, 0));
    }
}
