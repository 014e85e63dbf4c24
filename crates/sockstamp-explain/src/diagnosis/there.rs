//! A peer that is on this host, in whatever network namespace.

use std::collections::BTreeSet;

use sockstamp_model::name::Name;

/// The program at the other end of a connection, on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct There {
    /// The process, and its name, where they are known.
    pub process: Option<(u32, Name)>,
    /// Its network namespace, where that is another one than that of the end that asks.
    pub netns: Option<Name>,
}

impl There {
    /// `python3 (PID 7), in network namespace blue of this host`; `None` if these are of several
    /// programs, or places.
    pub(super) fn words(all: &[&Self]) -> Option<String> {
        let first = all.first()?;
        let name = |there: &Self| there.process.as_ref().map(|(_, name)| name.clone());
        let is_alike = |there: &&Self| name(there) == name(first) && there.netns == first.netns;
        let pids = all.iter().filter_map(|there| there.process.as_ref());
        let pids: BTreeSet<u32> = pids.map(|(pid, _)| *pid).collect();
        let program = match (&first.process, pids.len()) {
            (Some((pid, name)), 1) => format!("{name} (PID {pid})"),
            (Some((_, name)), several) => format!("{name} ({several} processes)"),
            (None, _) => "the service".to_owned(),
        };
        all.iter().all(is_alike).then(|| first.placed(&program))
    }

    fn placed(&self, program: &str) -> String {
        match &self.netns {
            Some(netns) => format!("{program}, in network namespace {netns} of this host"),
            None => format!("{program}, on this host"),
        }
    }
}
