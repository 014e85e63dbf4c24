//! A peer that is on this host, in whatever network namespace.

use std::collections::BTreeSet;

use sockstamp_model::name::Name;

/// The program at the other end of a connection, on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct There {
    /// The process, and its name, where they are known; 0 for any process of that name.
    pub process: Option<(u32, Name)>,
    /// Its network namespace, where that is another one than that of the end that asks.
    pub netns: Option<Name>,
}

impl There {
    /// `python3 (PID 7), in network namespace blue of this host`; `None` if these are of several
    /// programs, or places.
    pub(in crate::diagnosis) fn words(all: &[&Self]) -> Option<String> {
        let first = all.first()?;
        let name = |there: &Self| there.process.as_ref().map(|(_, name)| name.clone());
        let is_alike = |there: &&Self| name(there) == name(first) && there.netns == first.netns;
        let pids = all.iter().filter_map(|there| there.process.as_ref());
        let pids: BTreeSet<u32> = pids.map(|(pid, _)| *pid).collect();
        let known = pids.iter().filter(|pid| **pid != 0).count();
        let program = match (&first.process, known) {
            (Some((pid, name)), 1) if !pids.contains(&0) => format!("{name} (PID {pid})"),
            (Some((_, name)), 0 | 1) => format!("{name} (several processes)"),
            (Some((_, name)), several) => format!("{name} ({several} processes)"),
            (None, _) => "the service".to_owned(),
        };
        all.iter().all(is_alike).then(|| first.placed(&program))
    }

    /// Forget which process it is.
    pub(in crate::diagnosis) fn of_any_process(mut self) -> Self {
        if let Some((pid, _)) = &mut self.process {
            *pid = 0;
        }
        self
    }

    fn placed(&self, program: &str) -> String {
        match &self.netns {
            Some(netns) => format!("{program}, in network namespace {netns} of this host"),
            None => format!("{program}, on this host"),
        }
    }
}
