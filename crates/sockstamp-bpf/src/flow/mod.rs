//! Sockets that exist already: marked and adopted at the start, given back at the end.

#[expect(
    unsafe_code,
    reason = "fork(2) has no safe wrapper, and libbpf-rs shows no descriptor of an iterator"
)]
mod walk;

mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use libbpf_rs::{Iter, Link, ProgramMut};
use sockstamp_host::netns;
use sockstamp_model::flow::NetnsInode;

use crate::error::{Error, Tried};

pub use turn::Place;
use walk::{Sockets, Walk};

/// Mark the TCP sockets that a selected task holds, or one that is left out.
pub(crate) fn mark_sockets(program: &ProgramMut<'_>) -> Result<(), Error> {
    run_once(program, "look at the sockets that processes hold")
}

/// Run an iterator program once over everything that it can see without locking a socket.
pub(crate) fn run_once(program: &ProgramMut<'_>, step: &str) -> Result<(), Error> {
    let run = |link: &Link| {
        let mut iterator = Iter::new(link).map_err(io::Error::other)?;
        io::copy(&mut iterator.by_ref(), &mut io::sink()).map(drop)
    };
    let link = program.attach().tried(step)?;
    run(&link).tried(step)
}

/// Walks that are stuck in a place at most when another one begins, of all sockstamps together: a
/// namespace whose sockets cannot be adopted keeps no walk from taking marks off.
mod turns {
    pub(super) const OF_THE_START: u8 = 1;
    /// The second walk gives back what the first one took until it was stuck.
    pub(super) const OF_WINDOWS: u8 = 2;
    pub(super) const OF_THE_END: u8 = 3;
}

/// Connections that walks did not come to, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct Missed {
    pub(crate) connections: u64,
    /// Where a task does not release a socket's lock.
    pub(crate) places: BTreeSet<Place>,
}

/// Mark the subflows by which MPTCP sockets of the selected tasks listen. A walk comes to
/// listeners first.
pub(crate) fn mark_listening_subflows(
    program: &ProgramMut<'_>,
    netns: &[NetnsInode],
    visited: &mut dyn FnMut() -> u64,
) -> Result<(), Error> {
    const STEP: &str = "look at listeners of MPTCP";
    walk(turns::OF_THE_START, program, netns, STEP, visited).map(drop)
}

/// Selects connections that exist. `visited` counts the connections that the program has seen, and
/// is asked all the time.
pub(crate) fn adopt(
    program: &ProgramMut<'_>,
    netns: &[NetnsInode],
    visited: &mut dyn FnMut() -> u64,
) -> Result<Missed, Error> {
    const STEP: &str = "look at existing connections";
    walk(turns::OF_THE_START, program, netns, STEP, visited)
}

/// Give the selecting bit of sockets back, or ask for it again, by `window.released`. Return how
/// many connections it could not come to.
pub(crate) fn switch(
    program: &ProgramMut<'_>,
    netns: &[NetnsInode],
    visited: &mut dyn FnMut() -> u64,
) -> Result<u64, Error> {
    const STEP: &str = "switch callbacks of sockets";
    walk(turns::OF_WINDOWS, program, netns, STEP, visited).map(|missed| missed.connections)
}

/// Return the CPU time of all walks until now, beside that of this process's own clock.
pub(crate) fn walking() -> Duration {
    walk::spent()
}

/// Has marked UDP sockets that can receive call back.
#[cfg(feature = "series")]
pub(crate) fn ask_datagram_sockets(
    program: &ProgramMut<'_>,
    netns: &[NetnsInode],
    visited: &mut dyn FnMut() -> u64,
) -> Result<(), Error> {
    const STEP: &str = "look at UDP sockets that exist";
    walk(turns::OF_THE_START, program, netns, STEP, visited).map(drop)
}

/// Walks over the sockets of these network namespaces, or of all that can be entered.
fn walk(
    turns: u8,
    program: &ProgramMut<'_>,
    only: &[NetnsInode],
    step: &str,
    visited: &mut dyn FnMut() -> u64,
) -> Result<Missed, Error> {
    let link = program.attach().tried(step)?;
    let own = netns::own().map_err(io::Error::other).tried(step)?;
    let wanted = |inode| netns::is_wanted(only, inode);
    let mut missed = Missed::default();
    if wanted(own) {
        let before = visited();
        let sockets = walk::open(&link).tried(step)?;
        let place = sockets.place;
        if walk::run(sockets, turns, visited).tried(step)? != Walk::Whole {
            missed.connections += unvisited(connections(), visited() - before);
            missed.places.insert(place);
        }
    }
    let others = netns::files()
        .into_iter()
        .filter(|&(inode, _)| inode != own && wanted(inode));
    for (inode, namespace) in others {
        let before = visited();
        let open = || walk::open(&link);
        let Some(opened) = netns::enter(inode, &namespace, open).tried(step)? else {
            continue;
        };
        let place = opened.as_ref().ok().map(|sockets| sockets.place);
        let walked = opened.and_then(|sockets| walk::run(sockets, turns, visited));
        if !matches!(walked, Ok(Walk::Whole)) {
            let there = netns::enter(inode, &namespace, connections);
            let there = there.unwrap_or_default().unwrap_or_default();
            missed.connections += unvisited(there, visited() - before);
        }
        if matches!(walked, Ok(Walk::Stuck | Walk::Skipped)) {
            missed.places.extend(place);
        }
    }
    Ok(missed)
}

/// Take the selecting bit off every socket of ours, in these network namespaces or in all that can
/// be entered. Where a task does not release the lock of one, a process stays behind until it does.
/// `visited` counts the sockets that the program has seen.
///
/// A refusal ends no other walk: the first one is returned.
pub(crate) fn deselect(
    program: &ProgramMut<'_>,
    only: &[NetnsInode],
    visited: &mut dyn FnMut() -> u64,
) -> Result<(), Error> {
    const STEP: &str = "take the marks off sockets";
    let link = program.attach().tried(STEP)?;
    let wanted = |inode| netns::is_wanted(only, inode);
    // Our own first: to enter a namespace, even this one, takes CAP_SYS_ADMIN (setns(2)).
    let own = netns::own().ok();
    let mut ended = match own.is_none_or(wanted) {
        true => walk::open(&link).and_then(|sockets| take_marks(sockets, visited)),
        false => Ok(()),
    };
    for (inode, namespace) in netns::files() {
        if Some(inode) == own || !wanted(inode) {
            continue;
        }
        let opened = netns::enter(inode, &namespace, || walk::open(&link));
        let walked = opened.and_then(|opened| match opened {
            Some(sockets) => take_marks(sockets?, visited),
            None => Ok(()),
        });
        ended = ended.and(walked);
    }
    ended.tried(STEP)
}

fn take_marks(sockets: Sockets, visited: &mut dyn FnMut() -> u64) -> io::Result<()> {
    let place = sockets.place;
    match walk::run(sockets, turns::OF_THE_END, visited)? {
        // One that is stuck continues.
        Walk::Whole | Walk::Stuck => Ok(()),
        Walk::Skipped => Err(io::Error::other(format!(
            "{place}: a task does not release the lock of a socket"
        ))),
    }
}

/// Do something in each of these network namespaces that can be entered, with what is given for
/// it.
pub(crate) fn in_namespaces<G: Sync, T: Send>(
    given: &BTreeMap<NetnsInode, G>,
    work: impl Fn(&G) -> T + Sync,
) -> BTreeMap<NetnsInode, T> {
    let own = netns::own().ok();
    let is_elsewhere = given.keys().any(|&inode| Some(inode) != own);
    let others = if is_elsewhere {
        netns::files()
    } else {
        BTreeMap::new()
    };
    let there = |inode, path: &Path, given| netns::enter(inode, path, || work(given)).ok()?;
    let done = given.iter().filter_map(|(&inode, given)| {
        let done = match others.get(&inode) {
            _ if Some(inode) == own => work(given),
            Some(path) => there(inode, path, given)?,
            None => return None,
        };
        Some((inode, done))
    });
    done.collect()
}

/// A connection that a walk is stuck at has not been visited: it may have come since they were
/// counted.
fn unvisited(connections: u64, visited: u64) -> u64 {
    connections.saturating_sub(visited).max(1)
}

/// Count the connections of the calling thread's network namespace, whose table takes no socket's
/// lock.
fn connections() -> u64 {
    let tables =
        ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"].map(fs::read_to_string);
    let count = |table: String| table.lines().filter(|line| is_connection(line)).count() as u64;
    tables.into_iter().flatten().map(count).sum()
}

/// Match the states of `adoptable()` in adopt.bpf.h, as the table prints them (`tcp4_seq_show()`,
/// net/ipv4/tcp_ipv4.c).
fn is_connection(line: &str) -> bool {
    const STATES: [&str; 5] = ["01", "02", "04", "05", "08"];
    let state = line.split_whitespace().nth(3);
    state.is_some_and(|state| STATES.contains(&state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_distinguished_from_listeners_and_headings() {
        let heading =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid";
        let line = |state: &str| {
            format!("   0: 0100007F:1F90 0100007F:8000 {state} 00000000:00000000 00:00000000")
        };
        assert!(!is_connection(heading));
        assert!(is_connection(&line("01")));
        assert!(is_connection(&line("08")));
        // A listener, and one that only waits for its time to pass.
        assert!(!is_connection(&line("0A")));
        assert!(!is_connection(&line("06")));
    }
}
