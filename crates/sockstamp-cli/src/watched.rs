//! Collects slow messages while a measurement runs, under the names of their processes.

use std::collections::HashMap;
use std::fs;

use sockstamp_explain::diagnosis::{Case, Diagnosis, Scope};
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::stage::Stage;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{Wait, Waits};

use crate::cpu_times::CpuTimes;
use crate::measure::Observer;
use crate::queues::Queues;

/// Most processes whose names are kept.
const MOST_NAMES: usize = 4096;

/// Collects slow messages.
#[derive(Debug)]
pub(crate) struct Watched {
    case: Case,
    /// Those that no message shows whole.
    waits: Vec<Wait>,
    /// By process; `None` of those that were gone.
    names: HashMap<u32, Option<Name>>,
    queues: Queues,
    cpu_times: CpuTimes,
    /// Somebody waited for a peer since the queues were looked at.
    waited: bool,
}

impl Watched {
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            case: Case::new(scope),
            waits: Vec::new(),
            names: HashMap::new(),
            queues: Queues::open(),
            cpu_times: CpuTimes::default(),
            waited: false,
        }
    }

    pub(crate) fn diagnose(&self, summary: &Summary) -> Diagnosis {
        self.case.diagnose(summary)
    }

    /// Return the waits that no message shows whole.
    pub(crate) fn waits(&self) -> &[Wait] {
        &self.waits
    }

    /// Return the name of a process; a message has that of the thread that called.
    fn name(&mut self, pid: u32) -> Option<Name> {
        if pid == 0 || self.names.len() >= MOST_NAMES {
            return self.names.get(&pid).cloned().flatten();
        }
        let name = self.names.entry(pid).or_insert_with(|| {
            let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
            Some(Name::from(comm.trim_ascii_end()))
        });
        name.clone()
    }
}

impl Observer for Watched {
    fn message(&mut self, message: &Message) {
        let mut message = message.clone();
        if let Some(name) = self.name(message.pid) {
            message.comm = name;
        }
        self.waited |= message.stages[Stage::PeerAnswer].is_some();
        if message.stages[Stage::AppService].is_some() {
            self.cpu_times.add(message.pid);
        }
        self.case.message(&message);
    }

    fn round_is_over(&mut self) -> bool {
        if std::mem::take(&mut self.waited) {
            self.queues.look();
        }
        true
    }

    fn waits(&mut self, waits: &Waits) {
        let mut waits = waits.clone();
        for wait in &mut waits.list {
            if let Some(name) = self.name(wait.pid) {
                wait.comm = name;
            }
        }
        for attempts in &mut waits.attempts {
            if let Some(name) = self.name(attempts.key.pid) {
                attempts.comm = name;
            }
        }
        self.case.waits(&waits);
        self.waits.extend(waits.list);
        for (pid, cpu) in self.cpu_times.since() {
            self.case.cpu(pid, cpu);
        }
        for ((from, peer), backlog) in self.queues.backlogs(&self.case.peers()) {
            self.case.backlog(from, peer, backlog);
        }
    }
}
