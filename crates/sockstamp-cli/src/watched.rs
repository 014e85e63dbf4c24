//! Collects slow messages while a measurement runs, under the names of their processes.

use std::collections::HashMap;
use std::fs;

use sockstamp_explain::diagnosis::{Case, Diagnosis, Scope};
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{Wait, Waits};

use crate::measure::Observer;

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
}

impl Watched {
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            case: Case::new(scope),
            waits: Vec::new(),
            names: HashMap::new(),
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
        self.case.message(&message);
    }

    fn round_is_over(&mut self) -> bool {
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
    }
}
