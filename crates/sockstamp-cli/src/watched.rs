//! Collects slow messages while a measurement runs, under the names of their processes.

use std::ffi::OsString;
use std::time::Duration;

use sockstamp_explain::diagnosis::{Case, Diagnosis, Scope};
use sockstamp_host::pressure;
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::stage::Stage;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{Kind, Wait, Waits};
use sockstamp_run::process_names::ProcessNames;

use crate::cpu_times::CpuTimes;
use crate::descriptors::UsedUp;
use crate::measure::{self, Observer};
use crate::options::target::Target;
use crate::queues::Queues;
use crate::sleeps::Sleeps;
use crate::theirs::Theirs;

/// Collects slow messages.
#[derive(Debug)]
pub(crate) struct Watched {
    case: Case,
    slow: Nanos,
    /// Those that no message shows whole.
    waits: Vec<Wait>,
    names: ProcessNames,
    queues: Queues,
    cpu_times: CpuTimes,
    used_up: UsedUp,
    sleeps: Sleeps,
    theirs: Theirs,
    /// How long tasks had waited for disks at the start.
    pressure: Option<Duration>,
    /// Somebody waited for a peer since the queues were looked at.
    waited: bool,
}

/// Return what is slow, and whose time is asked about.
pub(crate) fn scope(target: &Target, command: &[OsString], slow: Nanos) -> Scope {
    let is_command = !command.is_empty();
    Scope {
        slow,
        is_command,
        is_program: is_command || target.processes.are_named(),
    }
}

impl Watched {
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            slow: scope.slow,
            case: Case::new(scope),
            waits: Vec::new(),
            names: ProcessNames::default(),
            queues: Queues::open(),
            cpu_times: CpuTimes::default(),
            used_up: UsedUp::default(),
            sleeps: Sleeps::open(),
            theirs: Theirs::default(),
            pressure: pressure::of_disks(),
            waited: false,
        }
    }

    pub(crate) fn diagnose(&self, summary: &Summary) -> Diagnosis {
        self.case.diagnose(summary)
    }

    /// Return the least time for which tasks of this host have waited for disks since the start.
    fn waited_for_disks(&self) -> Option<Nanos> {
        let since = pressure::of_disks()?.checked_sub(self.pressure?)?;
        Some(since.saturating_sub(pressure::AGE).into())
    }

    /// Return the waits that no message shows whole.
    pub(crate) fn waits(&self) -> &[Wait] {
        &self.waits
    }
}

impl Observer for Watched {
    fn message(&mut self, message: &Message) {
        let mut message = message.clone();
        self.names.rename(&mut message);
        self.waited |= message.stages[Stage::PeerAnswer].is_some();
        if message.stages[Stage::AppService].is_some() {
            self.cpu_times.add(message.pid);
        }
        if message.stages[Stage::ConnAccept].is_some_and(|time| time >= self.slow) {
            self.used_up.add(message.pid);
        }
        if message.serves() && message.is_slow(self.slow) {
            self.sleeps.add(message.pid);
        }
        self.case.message(&message);
    }

    fn round_is_over(&mut self) -> bool {
        if std::mem::take(&mut self.waited) {
            self.queues.look();
            self.theirs.look(&self.case.asked());
            self.theirs.pids().for_each(|pid| self.sleeps.add(pid));
        }
        self.used_up.look();
        true
    }

    /// Whoever hangs shows no message: its peer's tasks are looked at until the end.
    fn open(&mut self, waits: &[Wait]) {
        let asks = waits.iter().filter(|wait| wait.kind == Kind::Answer);
        let ends = |wait: &Wait| (wait.flow.netns, wait.service(), wait.flow.local);
        self.theirs.find(&asks.map(ends).collect());
        self.theirs.pids().for_each(|pid| self.sleeps.add(pid));
    }

    fn waits(&mut self, waits: &Waits) {
        let mut waits = waits.clone();
        self.names.rename_waits(&mut waits);
        self.case.waits(&waits);
        if let Ok(now) = measure::now() {
            self.case.ends(now);
        }
        self.waits.extend(waits.list);
        self.case.sleeps(self.sleeps.end());
        for (pid, cpu) in self.cpu_times.since() {
            self.case.cpu(pid, cpu);
        }
        self.theirs.find(&self.case.asked());
        for (&asked, there) in self.theirs.found() {
            self.case.there(asked, there.clone());
        }
        for pid in self.case.accepting() {
            self.used_up.add(pid);
        }
        self.used_up.look();
        for (pid, descriptors) in self.used_up.seen() {
            self.case.descriptors(pid, descriptors);
        }
        if let Some(time) = self.waited_for_disks() {
            self.case.disks(time);
        }
        for ((from, peer), backlog) in self.queues.backlogs(&self.case.peers()) {
            self.case.backlog(from, peer, backlog);
        }
        for ((from, peer), link) in self.queues.links(&self.case.lossy()) {
            self.case.link(from, peer, link);
        }
        for ((from, peer), neighbour) in self.queues.silent(&self.case.unheard()) {
            self.case.neighbour(from, peer, neighbour);
        }
    }
}
