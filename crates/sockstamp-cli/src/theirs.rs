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

/// A service, as a namespace has it.
type Service = (NetnsInode, SocketAddr);

/// A look lists the sockets of every namespace: there are few of them.
const BETWEEN: Duration = Duration::from_secs(1);
const MOST_LOOKS: u32 = 8;
/// Services that are looked for.
const MOST: usize = 64;

/// The programs that were found.
#[derive(Debug, Default)]
pub(crate) struct Theirs {
    found: BTreeMap<Service, There>,
    looked_for: BTreeSet<Service>,
    last: Option<Instant>,
    looks: u32,
}

impl Theirs {
    /// Do as [`find`](Self::find), unless the last look was just now.
    pub(crate) fn look(&mut self, asked: &BTreeMap<Service, SocketAddr>) {
        let is_soon = self.last.is_some_and(|last| last.elapsed() < BETWEEN);
        if !is_soon && self.looks < MOST_LOOKS {
            self.find(asked);
        }
    }

    /// Find those of the services that were not looked for before.
    pub(crate) fn find(&mut self, asked: &BTreeMap<Service, SocketAddr>) {
        let is_new = |service: &Service| !self.looked_for.contains(service);
        let new = asked.iter().filter(|(service, _)| is_new(service));
        let new: BTreeMap<Service, SocketAddr> = new
            .map(|(service, local)| (*service, *local))
            .take(MOST)
            .collect();
        if new.is_empty() {
            return;
        }
        self.last = Some(Instant::now());
        self.looks += 1;
        self.looked_for.extend(new.keys());
        self.found.extend(find(&new));
    }

    /// Return the processes that were found.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        let processes = self.found.values().flat_map(|there| &there.process);
        processes.map(|(pid, _)| *pid)
    }

    /// Return the programs by service.
    pub(crate) fn found(&self) -> impl Iterator<Item = (&Service, &There)> {
        self.found.iter()
    }
}

fn find(asked: &BTreeMap<Service, SocketAddr>) -> BTreeMap<Service, There> {
    let ends = asked.iter().map(|(&(netns, remote), &local)| Ends {
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
        ((ends.netns, ends.remote), there)
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
        let service = (netns::own().unwrap(), client.peer_addr().unwrap());
        let asked = [(service, client.local_addr().unwrap())]
            .into_iter()
            .collect();
        let mut theirs = Theirs::default();
        theirs.look(&asked);
        theirs.find(&asked);
        assert_eq!(theirs.looks, 1);
        let (found, there) = theirs.found().next().unwrap();
        assert_eq!((*found, &there.netns), (service, &None));
        assert!(theirs.pids().eq([std::process::id()]));
    }
}
