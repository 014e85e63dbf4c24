//! Finds the programs of services that are waited for, where these are on this host: containers ask
//! each other, and nothing of that leaves the host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sockstamp_explain::diagnosis::There;
use sockstamp_host::netns;
use sockstamp_host::owner::{self, Ends};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

/// A connection to a service: the namespace that asks, the service, and the end that asks.
pub(crate) type Asked = (NetnsInode, SocketAddr, SocketAddr);

/// A look lists the sockets of every namespace: there are few of them.
const BETWEEN: Duration = Duration::from_secs(1);
const MOST_LOOKS: u32 = 8;
/// Connections that are looked for: in all, and of one service, which may have a process for each.
const MOST: usize = 64;
const MOST_OF_ONE: usize = 8;

/// The programs that were found.
#[derive(Debug, Default)]
pub(crate) struct Theirs {
    found: BTreeMap<Asked, (There, NetnsInode)>,
    looked_for: BTreeSet<Asked>,
    last: Option<Instant>,
    looks: u32,
}

impl Theirs {
    /// Do as [`find`](Self::find), unless the last look was just now.
    pub(crate) fn look(&mut self, asked: &BTreeSet<Asked>) {
        let is_soon = self.last.is_some_and(|last| last.elapsed() < BETWEEN);
        if !is_soon && self.looks < MOST_LOOKS {
            self.find(asked);
        }
    }

    /// Find the services of those connections that were not looked for before.
    pub(crate) fn find(&mut self, asked: &BTreeSet<Asked>) {
        let new = self.unknown(asked);
        if new.is_empty() {
            return;
        }
        self.last = Some(Instant::now());
        self.looks += 1;
        self.looked_for.extend(&new);
        self.found.extend(find(&new));
    }

    fn unknown(&self, asked: &BTreeSet<Asked>) -> BTreeSet<Asked> {
        let mut known = BTreeMap::<_, usize>::new();
        for (netns, service, _) in &self.looked_for {
            *known.entry((*netns, *service)).or_default() += 1;
        }
        let is_new = |ends: &&Asked| !self.looked_for.contains(ends);
        let has_room = |(netns, service, _): &&Asked| {
            let of = known.entry((*netns, *service)).or_default();
            *of += 1;
            *of <= MOST_OF_ONE
        };
        let new = asked.iter().filter(is_new).filter(has_room);
        new.take(MOST).copied().collect()
    }

    /// Return the processes that were found.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        let processes = self.found.values().flat_map(|(there, _)| &there.process);
        processes.map(|(pid, _)| *pid)
    }

    /// Return the programs by connection.
    pub(crate) fn found(&self) -> impl Iterator<Item = (&Asked, &There)> {
        self.found.iter().map(|(asked, (there, _))| (asked, there))
    }

    /// Return the namespace of a service that was found, by whatever connection to it.
    pub(crate) fn netns(&self, (from, service, _): &Asked) -> Option<NetnsInode> {
        let mut found = self.found.iter();
        let is_it = |(other, at, _): &Asked| (other, at) == (from, service);
        let found = found.find(|(asked, _)| is_it(asked));
        found.map(|(_, (_, netns))| *netns)
    }
}

/// Return those connections whose other end is the same process': its namespace, and both ends.
pub(crate) fn of_one_process(
    within: &BTreeSet<(u32, NetnsInode, SocketAddr, SocketAddr)>,
) -> Vec<Ends> {
    let ends = |(pid, netns, local, remote): &(u32, NetnsInode, SocketAddr, SocketAddr)| {
        let (netns, local, remote) = (*netns, *local, *remote);
        let ends = Ends {
            netns,
            local,
            remote,
        };
        (ends, *pid)
    };
    let processes: BTreeMap<Ends, u32> = within.iter().take(MOST).map(ends).collect();
    if processes.is_empty() {
        return Vec::new();
    }
    let owners = owner::of(&processes.keys().copied().collect());
    let is_own = |(ends, owner): &(Ends, owner::Owner)| {
        let process = owner.process.as_ref().map(|(pid, _)| pid);
        process == processes.get(ends)
    };
    owners
        .into_iter()
        .filter(is_own)
        .map(|(ends, _)| ends)
        .collect()
}

fn find(asked: &BTreeSet<Asked>) -> BTreeMap<Asked, (There, NetnsInode)> {
    let ends = asked.iter().map(|&(netns, remote, local)| Ends {
        netns,
        local,
        remote,
    });
    let owners = owner::of(&ends.collect());
    let names = match owners.is_empty() {
        true => BTreeMap::new(),
        false => netns::names(),
    };
    let place = |netns: NetnsInode| match names.get(&netns) {
        Some(name) => name.clone(),
        None => Name::from(netns.to_string()),
    };
    let found = owners.into_iter().map(|(ends, owner)| {
        let there = There {
            process: owner.process,
            netns: (owner.netns != ends.netns).then(|| place(owner.netns)),
        };
        ((ends.netns, ends.remote, ends.local), (there, owner.netns))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_service_of_this_process_is_found_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (service, own) = (client.peer_addr().unwrap(), client.local_addr().unwrap());
        let ends = (netns::own().unwrap(), service, own);
        let asked = BTreeSet::from([ends]);
        let mut theirs = Theirs::default();
        theirs.look(&asked);
        theirs.find(&asked);
        assert_eq!(theirs.looks, 1);
        let (found, there) = theirs.found().next().unwrap();
        assert_eq!((*found, &there.netns), (ends, &None));
        assert!(theirs.pids().eq([std::process::id()]));
        let within = |pid| BTreeSet::from([(pid, ends.0, service, own)]);
        assert_eq!(of_one_process(&within(std::process::id())).len(), 1);
        assert!(of_one_process(&within(1)).is_empty());
        let another = (ends.0, ends.1, SocketAddr::from(([127, 0, 0, 1], 9)));
        assert_eq!(theirs.netns(&another), Some(ends.0));
        let of = |port: u16| (ends.0, ends.1, SocketAddr::from(([127, 0, 0, 1], port)));
        let many = (1..100).map(of).chain([ends]).collect();
        assert_eq!(theirs.unknown(&many).len(), MOST_OF_ONE - 1);
    }
}
