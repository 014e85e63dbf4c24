//! A peer that is on this host, in whatever network namespace.

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
    /// `python3 (PID 7), in network namespace blue of this host`.
    pub(super) fn words(&self) -> String {
        let program = match &self.process {
            Some((pid, name)) => format!("{name} (PID {pid})"),
            None => "the service".to_owned(),
        };
        match &self.netns {
            Some(netns) => format!("{program}, in network namespace {netns} of this host"),
            None => format!("{program}, on this host"),
        }
    }
}
