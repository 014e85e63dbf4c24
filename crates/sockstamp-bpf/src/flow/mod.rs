//! Sockets that exist already: marked and adopted at the start, given back at the end.

#[expect(
    unsafe_code,
    reason = "fork(2) has no safe wrapper, and libbpf-rs shows no descriptor of an iterator"
)]
mod walk;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use libbpf_rs::{Iter, Link, ProgramMut};
use sockstamp_host::netns;
use sockstamp_model::flow::NetnsInode;

use crate::error::{Error, Tried};

use walk::Walk;

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

/// Mark the subflows by which MPTCP sockets of the selected tasks listen. A walk comes to
/// listeners first.
pub(crate) fn mark_listening_subflows(
    program: &ProgramMut<'_>,
    netns: Option<NetnsInode>,
    visited: &mut dyn FnMut() -> u64,
) -> Result<(), Error> {
    walk_where_wanted(program, netns, "look at listeners of MPTCP", visited).map(drop)
}

/// Selects connections that exist. Returns how many it could not come to, since a task does not
/// release the lock of one. `visited` counts the connections that the program has seen, and is
/// asked all the time.
pub(crate) fn adopt(
    program: &ProgramMut<'_>,
    netns: Option<NetnsInode>,
    visited: &mut dyn FnMut() -> u64,
) -> Result<u64, Error> {
    walk_where_wanted(program, netns, "look at existing connections", visited)
}

/// Give the selecting bit of sockets back, or ask for it again, by `window.released`. Return how
/// many connections it could not come to.
pub(crate) fn switch(
    program: &ProgramMut<'_>,
    netns: Option<NetnsInode>,
    visited: &mut dyn FnMut() -> u64,
) -> Result<u64, Error> {
    // The second walk gives back what the first one took until it was stuck.
    let run = walk::run_in_any_case;
    walk_by(run, program, netns, "switch callbacks of sockets", visited)
}

/// Return the CPU time of all walks until now, beside that of this process's own clock.
pub(crate) fn walking() -> Duration {
    walk::spent()
}

/// Has marked UDP sockets that can receive call back.
#[cfg(feature = "series")]
pub(crate) fn ask_datagram_sockets(
    program: &ProgramMut<'_>,
    netns: Option<NetnsInode>,
    visited: &mut dyn FnMut() -> u64,
) -> Result<(), Error> {
    walk_where_wanted(program, netns, "look at UDP sockets that exist", visited).map(drop)
}

/// Walks over the sockets of this network namespace or of all that can be entered. Returns how many
/// connections it did not come to.
fn walk_where_wanted(
    program: &ProgramMut<'_>,
    only: Option<NetnsInode>,
    step: &str,
    visited: &mut dyn FnMut() -> u64,
) -> Result<u64, Error> {
    walk_by(walk::run, program, only, step, visited)
}

fn walk_by(
    run: walk::Run,
    program: &ProgramMut<'_>,
    only: Option<NetnsInode>,
    step: &str,
    visited: &mut dyn FnMut() -> u64,
) -> Result<u64, Error> {
    let link = program.attach().tried(step)?;
    let own = netns::own().map_err(io::Error::other).tried(step)?;
    let wanted = |inode| only.is_none_or(|only| only == inode);
    let mut missed = 0;
    if wanted(own) {
        let before = visited();
        let iterator = walk::open(&link).tried(step)?;
        if run(own, iterator, visited).tried(step)? == Walk::Stuck {
            missed += unvisited(connections(), visited() - before);
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
        let walked = opened.and_then(|iterator| run(inode, iterator, visited));
        if !matches!(walked, Ok(Walk::Whole)) {
            let there = netns::enter(inode, &namespace, connections);
            let there = there.unwrap_or_default().unwrap_or_default();
            missed += unvisited(there, visited() - before);
        }
    }
    Ok(missed)
}

/// Take the selecting bit off every socket of ours, in every network namespace that can be entered.
/// Where a task does not release the lock of one, a process stays behind until it does. `visited`
/// counts the sockets that the program has seen.
///
/// A refusal ends no other walk: the first one is returned.
pub(crate) fn deselect(
    program: &ProgramMut<'_>,
    visited: &mut dyn FnMut() -> u64,
) -> Result<(), Error> {
    const STEP: &str = "take the marks off sockets";
    let link = program.attach().tried(STEP)?;
    // Our own first: to enter a namespace, even this one, takes CAP_SYS_ADMIN (setns(2)).
    let own = netns::own().ok();
    // Nobody walks after this: the number only tells namespaces apart.
    let here = own.unwrap_or(NetnsInode(0));
    let walked = walk::open(&link).and_then(|all| walk::run_in_any_case(here, all, visited));
    let mut ended = walked.map(drop);
    for (inode, namespace) in netns::files() {
        if Some(inode) == own {
            continue;
        }
        let opened = netns::enter(inode, &namespace, || walk::open(&link));
        let walked = opened.and_then(|opened| match opened {
            Some(iterator) => walk::run_in_any_case(inode, iterator?, visited).map(drop),
            None => Ok(()),
        });
        ended = ended.and(walked);
    }
    ended.tried(STEP)
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
