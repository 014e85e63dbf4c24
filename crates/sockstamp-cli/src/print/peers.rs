//! Programs that waits are for, where these are on this host, and what keeps them from going on.
//! One that is stopped answers nobody, one with a full accept queue gets no connection, and tasks
//! of others sleep for something.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::Serialize;
use sockstamp_bpf::stuck::Open;
use sockstamp_evidence::Tasks;
use sockstamp_explain::diagnosis::{Sleep, SleepLook};
use sockstamp_host::accept_queue::{AcceptQueue, AcceptQueues};
use sockstamp_host::owner::{self, Ends, Owner};
use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::name::Name;
use sockstamp_model::wait::{Kind, Wait};

/// Processes whose tasks are looked at, at most.
const MOST: usize = 64;

/// State of the program that a wait is for, which keeps the wait from going on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Peer {
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
}

impl Peer {
    /// The end of a line.
    pub(crate) fn words(&self) -> String {
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

/// Peers by wait: the namespace, and both ends.
#[derive(Debug, Default)]
pub(crate) struct Peers(BTreeMap<Ends, Peer>);

impl Peers {
    /// Look at those of some waits.
    pub(crate) fn of(listed: &[&Open]) -> Self {
        let waits = || listed.iter().map(|open| &open.wait);
        let asked: BTreeSet<Ends> = waits().filter(|wait| asks(wait)).map(ends).collect();
        let owners = match asked.is_empty() {
            true => BTreeMap::new(),
            false => owner::of(&asked),
        };
        let mut looks = Looks::new(waits());
        let found = waits().filter_map(|wait| match wait.kind {
            Kind::Service => Some((ends(wait), looks.served(wait)?)),
            _ if asks(wait) => {
                let owner = owners.get(&ends(wait))?;
                Some((ends(wait), looks.asked(wait, owner)?))
            }
            _ => None,
        });
        Self(found.collect())
    }

    pub(crate) fn get(&self, wait: &Wait) -> Option<&Peer> {
        let has_peer = asks(wait) || wait.kind == Kind::Service;
        self.0.get(&ends(wait)).filter(|_| has_peer)
    }
}

/// Return true for a wait that the peer's program may end.
fn asks(wait: &Wait) -> bool {
    !matches!(wait.kind, Kind::Accept | Kind::Service | Kind::Read)
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
        let peer = Peer {
            full_queue,
            ..peer(look, canonical(wait.flow.local))
        };
        (peer.state.is_some() || peer.tasks.is_some() || full_queue.is_some()).then_some(Peer {
            pid,
            comm,
            ..peer
        })
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
    let found = queues.at(netns, service).filter(|queue| queue.is_full());
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
