//! Stopped programs at the other ends of processes that wait for their clients.

use std::collections::HashMap;
use std::time::Duration;

use sockstamp_explain::diagnosis::{Sleep, SleepLook};
use sockstamp_host::owner::{self, Ends};
use sockstamp_model::name::Name;

use super::spent;
use super::task::{place, states};

/// Stopped programs at the other ends of processes that wait for their clients.
#[derive(Debug, Default)]
pub(super) struct Halted {
    known: HashMap<u32, Search>,
    searches: usize,
    /// The CPU time of searches since it was taken: looks do not rest for it.
    spent: Duration,
}

/// Searches for the stopped peer of a process.
#[derive(Debug, Default)]
struct Search {
    /// Looks at the process until the next one.
    looks: usize,
    found: Option<Peer>,
}

/// A program at the other end of a connection.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pid: u32,
    pub(super) name: Name,
}

impl Halted {
    /// Between two searches for one process.
    const LOOKS: usize = 50;
    /// Before the first one: who waits for clients for a moment needs none.
    const FIRST: usize = 10;
    /// Searches that are made. Each goes through the descriptors of all processes.
    const MOST: usize = 2;

    pub(super) fn take_spent(&mut self) -> Duration {
        std::mem::take(&mut self.spent)
    }

    /// Return such a program of a process, which has not read what it was sent, if it still is
    /// stopped.
    pub(super) fn of(&mut self, pid: u32) -> Option<Name> {
        let Self {
            known,
            searches,
            spent,
        } = self;
        let first = || Search {
            looks: Self::FIRST,
            found: None,
        };
        let search = known.entry(pid).or_insert_with(first);
        search.looks = search.looks.saturating_sub(1);
        if search.found.is_none() && search.looks == 0 && *searches < Self::MOST {
            let begin = spent::spent();
            search.found = halted_peer(pid);
            search.looks = Self::LOOKS;
            *searches += 1;
            *spent += spent::spent().saturating_sub(begin);
        }
        let peer = search.found.as_ref()?;
        is_halted(peer.pid).then(|| peer.name.clone())
    }
}

/// Return a stopped program at the other end of a process' connections that has not read what it
/// was sent: anybody may have stopped another client. The search looks through the descriptors of
/// all processes.
pub(super) fn halted_peer(pid: u32) -> Option<Peer> {
    let connections = owner::connections(&place(pid));
    let peers = owner::of(&connections).into_iter();
    let mut peers = peers.filter_map(|(ends, owner)| Some((ends, owner.process?)));
    let is_it = |(ends, (process, _)): &(Ends, (u32, Name))| {
        *process != pid && is_halted(*process) && !owner::is_silent(*process, ends)
    };
    let (ends, (halted, name)) = peers.find(is_it)?;
    let remote = ends.remote;
    Some(Peer {
        pid: halted,
        name: Name::from(format!("{name} (PID {halted}) at {remote}")),
    })
}

/// Return true if all tasks of a process are stopped or frozen.
fn is_halted(process: u32) -> bool {
    let states = states(process);
    let halted = |state: &Option<Sleep>| matches!(state, Some(Sleep::Stopped | Sleep::Frozen));
    !states.is_empty() && states.iter().all(halted)
}

/// Note what a process may wait for whose tasks wait for its clients: a `halted` one.
pub(super) fn note_halted(look: &mut SleepLook, halted: impl FnOnce() -> Option<Name>) {
    if let Some(task) = look.for_clients.first().copied()
        && let Some(program) = halted()
    {
        look.for_clients.remove(&task);
        look.tasks.insert(task, Some(Sleep::Halted(program)));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::Command;
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// The witnesses are kill(1), and this process, which has the other end.
    #[test]
    fn a_stopped_client_counts_if_it_has_not_read_what_it_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(OwnedFd::from(client))
            .spawn()
            .unwrap();
        let pid = child.id().to_string();
        let stopped = Command::new("kill").args(["-STOP", &pid]).status();
        assert!(stopped.unwrap().success());
        let is_stopped = || states(child.id()) == [Some(Sleep::Stopped)];
        let begin = Instant::now();
        while !is_stopped() && begin.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(10));
        }
        let idle = halted_peer(std::process::id());
        served.write_all(b"news").unwrap();
        let sent = halted_peer(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(idle.is_none());
        assert_eq!(sent.unwrap().pid.to_string(), pid);
    }
}
