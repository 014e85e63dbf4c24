//! Workers that clients keep who ask nothing: each sleeps in a read of one connection, as long as
//! that is kept open, and others wait until one is free.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::during::{LEAST, client, goes_on};
use super::usual::Usual;
use crate::diagnosis::evidence::sleep::{Sleep, SleepLook, Slept};
use crate::diagnosis::slow::{Role, Slow};
use crate::diagnosis::tree::Node;

/// At four looks of five, all tasks that serve read connections of other clients than those that
/// wait to be accepted or read: as many as ever, while no task works.
pub(super) fn by_idle_clients(
    waits: &[&Slow],
    during: &[&SleepLook],
    usual: &Usual<'_>,
) -> Option<Slept> {
    let root = waits.first()?.key.root;
    let are_late = matches!(root, Node::Accept | Node::Read);
    if !are_late || waits.iter().any(|wait| wait.key.role == Role::Asks) {
        return None;
    }
    let readers = during.iter().map(|look| look.reads.len());
    let most = readers.max().filter(|most| *most > 0)?;
    let are_kept = |look: &&&SleepLook| {
        let waiting = waiting(waits, look);
        let read: BTreeSet<_> = look.reads.values().collect();
        let is_other = !waiting.iter().any(|client| read.contains(client));
        look.reads.len() == most && is_other && rest_is_idle(look, usual, root)
    };
    let (of, looks) = (during.len(), during.iter().filter(are_kept).count());
    let is_often = of >= LEAST && looks * 5 >= of * 4;
    is_often.then_some(Slept::new(Sleep::IdleClients(most), looks, of))
}

/// Return the clients that wait at a look.
fn waiting(waits: &[&Slow], look: &SleepLook) -> BTreeSet<SocketAddr> {
    let on = waits.iter().filter(|wait| goes_on(&[wait], look));
    on.map(|wait| client(wait)).collect()
}

/// The other tasks have nothing to do, or sleep in locks as otherwise. One that accepts hands its
/// connections on, and none that waits for that keeps a place in the queue.
fn rest_is_idle(look: &SleepLook, usual: &Usual<'_>, root: Node) -> bool {
    let mut others = look
        .tasks
        .iter()
        .filter(|(task, _)| !look.reads.contains_key(task));
    others.all(|(_, sleep)| match sleep {
        Some(Sleep::Idle) => true,
        Some(Sleep::Accept) => root == Node::Read,
        Some(sleep) if sleep.is_own_lock() => usual.beyond(sleep, look) == 0,
        _ => false,
    })
}

/// Of processes that accept the connections of a service, four of five or more sleep for clients of
/// their own, at four looks of five: others of a service may only write its logs.
pub(super) fn all_processes(looks: &[&SleepLook], pids: &BTreeSet<u32>) -> Option<Slept> {
    let mut by_pid = BTreeMap::<u32, Kept>::new();
    for look in looks.iter().filter(|look| pids.contains(&look.pid)) {
        let of = by_pid.entry(look.pid).or_default();
        let workers = kept_workers(look);
        of.workers = of.workers.max(workers);
        of.kept += usize::from(workers > 0);
        of.all += 1;
    }
    let kept: Vec<_> = by_pid.values().filter(|of| of.are_most()).collect();
    let are_all = !kept.is_empty() && kept.len() * 5 >= pids.len() * 4;
    let sum = |of: fn(&Kept) -> usize| kept.iter().map(|kept| of(kept)).sum();
    let workers = sum(|of| of.workers);
    are_all.then(|| {
        Slept::new(
            Sleep::IdleClients(workers),
            sum(|of| of.kept),
            sum(|of| of.all),
        )
    })
}

/// Looks at a process.
#[derive(Debug, Default)]
struct Kept {
    /// The most of its tasks that slept for clients at a look.
    workers: usize,
    /// Looks at which no other task worked.
    kept: usize,
    all: usize,
}

impl Kept {
    const fn are_most(&self) -> bool {
        self.all >= LEAST && self.kept * 5 >= self.all * 4
    }
}

/// Return how many tasks of a process sleep for clients of their own, if no other one works.
fn kept_workers(look: &SleepLook) -> usize {
    let is_idle = |task: &Option<Sleep>| match task {
        Some(Sleep::Client(_) | Sleep::Idle) => true,
        Some(sleep) => sleep.is_own_lock(),
        None => false,
    };
    match look.tasks.values().all(is_idle) {
        true => look.reads.len(),
        false => 0,
    }
}
