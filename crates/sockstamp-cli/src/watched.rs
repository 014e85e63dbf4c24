//! Collects slow messages while a measurement runs, under the names of their processes.

use std::ffi::OsString;

use sockstamp_evidence::Evidence;
use sockstamp_explain::diagnosis::{Case, Diagnosis, Scope};
use sockstamp_host::clock;
use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;
use sockstamp_model::summary::Summary;
use sockstamp_model::wait::{UnixWait, Wait, Waits};
use sockstamp_run::process_names::ProcessNames;

use crate::measure::Observer;
use crate::options::target::Target;

/// Collects slow messages.
#[derive(Debug)]
pub(crate) struct Watched {
    case: Case,
    /// Those that no message shows whole.
    waits: Vec<Wait>,
    /// Waits over Unix sockets: no message shows them.
    unix: Vec<UnixWait>,
    names: ProcessNames,
    slow: Nanos,
    /// Looks at this host, from the beginning on.
    evidence: Option<Evidence>,
    /// True if the diagnosis is printed, with its notes.
    is_printed: bool,
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
            evidence: None,
            case: Case::new(scope),
            waits: Vec::new(),
            unix: Vec::new(),
            names: ProcessNames::default(),
            is_printed: true,
        }
    }

    /// Print what is found or not.
    pub(crate) fn printed(self, is_printed: bool) -> Self {
        Self { is_printed, ..self }
    }

    pub(crate) fn diagnose(&self, summary: &Summary) -> Diagnosis {
        self.case.diagnose(summary)
    }

    /// Return the waits that no message shows whole.
    pub(crate) fn waits(&self) -> &[Wait] {
        &self.waits
    }

    /// Return the questions over Unix sockets that were slow, failed or are open.
    pub(crate) fn unix(&self) -> &[UnixWait] {
        &self.unix
    }
}

impl Observer for Watched {
    fn begin(&mut self) {
        self.evidence = Some(Evidence::begin(self.slow));
    }

    fn message(&mut self, message: &Message) {
        let mut message = message.clone();
        self.names.rename(&mut message);
        if let Some(evidence) = &mut self.evidence {
            evidence.message(&message);
        }
        self.case.message(&message);
    }

    fn diagnoses(&self) -> bool {
        self.is_printed
    }

    fn round_is_over(&mut self) -> bool {
        if let Some(evidence) = &mut self.evidence {
            evidence.look(&self.case);
        }
        true
    }

    fn ended(&mut self, waits: &[Wait]) {
        if let Some(evidence) = &mut self.evidence {
            evidence.waits(waits);
        }
    }

    fn unix(&mut self, waits: &[UnixWait]) {
        if let Some(evidence) = &mut self.evidence {
            evidence.unix(waits);
        }
    }

    fn open(&mut self, waits: &[Wait]) {
        if let Some(evidence) = &mut self.evidence {
            evidence.waits(waits);
        }
    }

    fn waits(&mut self, waits: &Waits) {
        let mut waits = waits.clone();
        self.names.rename_waits(&mut waits);
        self.case.waits(&waits);
        if let Ok(now) = clock::now() {
            self.case.ends(now);
        }
        self.waits.extend(waits.list);
        self.unix.extend(waits.unix);
        if let Some(evidence) = &mut self.evidence {
            evidence.add_to(&mut self.case);
        }
    }
}
