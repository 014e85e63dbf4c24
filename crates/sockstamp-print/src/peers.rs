//! Programs that waits are for, where these are on this host, and what keeps them from going on.
//! One that is stopped answers nobody, one with a full accept queue gets no connection, and tasks
//! of others sleep for something.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anyhow::Result;
use serde::Serialize;
use sockstamp_bpf::stuck::{Open, OpenUnix};
use sockstamp_evidence::Tasks;
use sockstamp_explain::diagnosis::{Sleep, SleepLook};
use sockstamp_host::accept_queue::{AcceptQueue, AcceptQueues};
use sockstamp_host::owner::{self, Ends, Owner, Owners};
use sockstamp_model::flow::{NetnsInode, SocketCookie, canonical};
use sockstamp_model::name::Name;
use sockstamp_model::wait::{Kind, Wait};

/// Processes whose tasks are looked at, at most.
const MOST: usize = 64;

/// Neither end has anything under way, and a task of each sleeps for data of the other.
const EACH: &str = ": each end waits for the other";

/// State of the program that a wait is for, which keeps the wait from going on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// The process, and its name, where they are known.
    pid: Option<u32>,
    comm: Option<Name>,
    /// All of its tasks are `stopped` or `frozen`.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// Connections that wait for its accept(), and the most that may, less one, if these are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    full_queue: Option<[u32; 2]>,
    /// The sleep of its tasks, if one look shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<String>,
    /// The process that waits is that of the service itself.
    #[serde(skip)]
    is_own: bool,
    /// A task of the program reads the connection itself.
    #[serde(skip)]
    reads_on: bool,
}

impl Peer {
    /// The end of a line.
    pub fn words(&self) -> String {
        let who = match (&self.comm, self.pid) {
            _ if self.is_own => "it".to_owned(),
            (Some(comm), Some(pid)) => format!("{pid}/{comm} on this host"),
            _ => "the service, on this host,".to_owned(),
        };
        let queue = self.full_queue.map(|[queue, limit]| {
            format!("; its accept queue is full: {queue} of {limit} (ss -lnt)")
        });
        let state = self.state.map(|state| match state {
            "frozen" => format!("; {who} is frozen (cgroup.freeze, freezer.state)"),
            _ => format!("; {who} is stopped (SIGSTOP, a debugger)"),
        });
        let tasks = self.tasks.as_ref().map(|tasks| match self.is_own {
            true => format!("; {tasks}"),
            false => format!("; {who}: {tasks}"),
        });
        let unknown = match (&queue, &state, &tasks) {
            (Some(_), None, None) => format!("; {who} does not accept in time"),
            _ => String::new(),
        };
        [queue, state, tasks]
            .into_iter()
            .flatten()
            .collect::<String>()
            + &unknown
    }
}

/// Return the end of a line: the process that a wait at a Unix socket is for.
pub(crate) fn server(open: &OpenUnix) -> String {
    match &open.wait.server {
        Some((pid, comm)) if open.wait.kind != Kind::Accept => {
            format!("; {pid}/{comm} on this host")
        }
        _ => String::new(),
    }
}

/// Peers by wait: the namespace, and both ends; and processes behind Unix sockets.
#[derive(Debug, Default)]
pub struct Peers(BTreeMap<Ends, Peer>, BTreeMap<u32, Peer>);

impl Peers {
    /// Look at those of some waits. Tasks are looked at after sockets, so that an answer may have
    /// left in between: of those that are not `unmoved` afterwards, they tell nothing.
    pub fn of(
        listed: &[&Open],
        unix: &[&OpenUnix],
        owners: &mut Owners,
        unmoved: impl FnOnce() -> Result<BTreeSet<SocketCookie>>,
    ) -> Result<Self> {
        let mut peers = Self::looked_at(listed, unix, owners);
        if peers.0.values().any(|peer| peer.tasks.is_some()) {
            peers.without_tasks_of_moved(listed, &unmoved()?);
        }
        Ok(peers)
    }

    fn looked_at(listed: &[&Open], unix: &[&OpenUnix], owners: &mut Owners) -> Self {
        let waits = || listed.iter().map(|open| &open.wait);
        let asked: BTreeSet<Ends> = waits().filter(|wait| asks(wait)).map(ends).collect();
        let owners = owners.of(&asked);
        let mut looks = Looks::new(waits());
        let found = waits().filter_map(|wait| match wait.kind {
            Kind::Service => Some((ends(wait), looks.served(wait)?)),
            _ if asks(wait) => {
                let owner = owners.get(&ends(wait))?;
                Some((ends(wait), looks.asked(wait, owner)?))
            }
            _ => None,
        });
        let found = found.collect();
        let served = unix.iter().filter_map(|open| looks.behind(open));
        Self(found, served.collect())
    }

    fn without_tasks_of_moved(&mut self, listed: &[&Open], unmoved: &BTreeSet<SocketCookie>) {
        let waits = listed.iter().map(|open| &open.wait);
        let stays = |wait: &&Wait| unmoved.contains(&wait.flow.cookie);
        let asking = waits.clone().filter(stays).filter(|wait| is_heard(wait));
        let asked: BTreeSet<_> = asking.map(|wait| other_end(&ends(wait))).collect();
        for wait in waits {
            let Some(peer) = self.0.get_mut(&ends(wait)) else {
                continue;
            };
            if !unmoved.contains(&wait.flow.cookie) {
                peer.tasks = None;
            } else if wait.kind == Kind::Service && peer.reads_on && asked.contains(&own_end(wait))
            {
                peer.tasks = peer.tasks.take().map(|tasks| tasks + EACH);
            }
        }
        self.0.retain(|_, peer| {
            peer.tasks.is_some() || peer.state.is_some() || peer.full_queue.is_some()
        });
    }

    /// Return the program that a wait at a Unix socket is for, if its state keeps that from ending.
    pub fn of_unix(&self, open: &OpenUnix) -> Option<&Peer> {
        let (pid, _) = open.wait.server.as_ref()?;
        self.1.get(pid).filter(|_| open.wait.kind != Kind::Accept)
    }

    /// Return the program that a wait is for, if it is known.
    pub fn get(&self, wait: &Wait) -> Option<&Peer> {
        let has_peer = asks(wait) || wait.kind == Kind::Service;
        self.0.get(&ends(wait)).filter(|_| has_peer)
    }
}

/// Return true for a wait that the peer's program may end.
fn asks(wait: &Wait) -> bool {
    !matches!(wait.kind, Kind::Accept | Kind::Service | Kind::Read)
}

/// Return true for a question that has arrived.
fn is_heard(wait: &Wait) -> bool {
    wait.kind == Kind::Answer && wait.bytes == 0
}

/// The addresses of a connection as an end has them.
fn own_end(wait: &Wait) -> [SocketAddr; 2] {
    [wait.flow.local, wait.flow.remote].map(canonical)
}

/// The same as the other end has them.
fn other_end(ends: &Ends) -> [SocketAddr; 2] {
    [ends.remote, ends.local].map(canonical)
}

fn ends(wait: &Wait) -> Ends {
    Ends {
        netns: wait.flow.netns,
        local: wait.flow.local,
        remote: wait.flow.remote,
    }
}

/// Looks at programs and listeners, each once.
struct Looks {
    queues: Option<AcceptQueues>,
    tasks: Tasks,
    seen: BTreeMap<u32, Option<SleepLook>>,
}

impl Looks {
    fn new<'a>(mut waits: impl Iterator<Item = &'a Wait>) -> Self {
        let connects = waits.any(|wait| wait.kind == Kind::Connect);
        Self {
            queues: connects.then(AcceptQueues::open),
            tasks: Tasks::default(),
            seen: BTreeMap::new(),
        }
    }

    /// Return what keeps a peer from going on, if anything is known to.
    fn asked(&mut self, wait: &Wait, owner: &Owner) -> Option<Peer> {
        let queues = self.queues.as_ref().filter(|_| wait.kind == Kind::Connect);
        let service = canonical(wait.flow.remote);
        let full_queue = queues.and_then(|queues| full(queues, owner.netns, service));
        let (pid, comm) = owner.process.clone().unzip();
        let look = pid.and_then(|pid| self.look(pid));
        let mut peer = Peer {
            full_queue,
            ..peer(look, canonical(wait.flow.local))
        };
        let is_silent = || pid.is_some_and(|pid| owner::is_silent(pid, &ends(wait)));
        if peer.reads_on && is_heard(wait) && is_silent() {
            peer.tasks = peer.tasks.map(|tasks| tasks + EACH);
        }
        (peer.state.is_some() || peer.tasks.is_some() || full_queue.is_some()).then_some(Peer {
            pid,
            comm,
            ..peer
        })
    }

    /// Return what keeps the service behind a Unix socket from going on.
    fn behind(&mut self, open: &OpenUnix) -> Option<(u32, Peer)> {
        let (pid, comm) = open.wait.server.clone()?;
        // No task reads from a client without an address.
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        let peer = peer(Some(self.look(pid)?), nobody);
        let found = Peer {
            pid: Some(pid),
            comm: Some(comm),
            ..peer
        };
        (found.state.is_some() || found.tasks.is_some()).then_some((pid, found))
    }

    /// Return what keeps the program itself from an answer that it owes.
    fn served(&mut self, wait: &Wait) -> Option<Peer> {
        let look = self.look(wait.pid)?;
        let peer = peer(Some(look), canonical(wait.flow.remote));
        (peer.state.is_some() || peer.tasks.is_some()).then_some(Peer {
            pid: Some(wait.pid),
            comm: Some(wait.comm.clone()),
            is_own: true,
            ..peer
        })
    }

    fn look(&mut self, pid: u32) -> Option<&SleepLook> {
        if self.seen.len() < MOST || self.seen.contains_key(&pid) {
            let tasks = &mut self.tasks;
            let look = self.seen.entry(pid).or_insert_with(|| tasks.look(pid));
            return look.as_ref();
        }
        None
    }
}

fn full(queues: &AcceptQueues, netns: NetnsInode, service: SocketAddr) -> Option<[u32; 2]> {
    let found = queues
        .at(netns, service)
        .into_iter()
        .find(|queue| queue.is_full());
    found.map(|AcceptQueue { queue, limit, .. }| [queue, limit])
}

/// Return what a look shows of a program that owes something to a client.
fn peer(look: Option<&SleepLook>, client: SocketAddr) -> Peer {
    let halted = look.and_then(SleepLook::halted);
    let state = halted.map(|halted| match halted {
        Sleep::Frozen => "frozen",
        _ => "stopped",
    });
    let tasks = look.filter(|_| state.is_none());
    Peer {
        pid: None,
        comm: None,
        state,
        full_queue: None,
        tasks: tasks.and_then(|look| look.keeps(client)),
        is_own: false,
        reads_on: tasks.is_some_and(|look| look.reads_from(client)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_said_to_be_stopped_or_to_have_a_full_queue() {
        let peer = |state, full_queue| Peer {
            pid: Some(8),
            comm: Some("web".into()),
            state,
            full_queue,
            tasks: None,
            is_own: false,
            reads_on: false,
        };
        assert_eq!(
            peer(Some("stopped"), None).words(),
            "; 8/web on this host is stopped (SIGSTOP, a debugger)"
        );
        assert_eq!(
            peer(None, Some([3, 2])).words(),
            "; its accept queue is full: 3 of 2 (ss -lnt); 8/web on this host does not accept in time"
        );
        let both = peer(Some("frozen"), Some([3, 2])).words();
        assert!(
            both.ends_with(
                "(ss -lnt); 8/web on this host is frozen (cgroup.freeze, freezer.state)"
            )
        );
    }
}
