//! Looks at the queues of devices while somebody waits for a peer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use sockstamp_explain::diagnosis::{Backlog, Flips, Link, Neighbour, NextHop};
use sockstamp_host::link_address::{self, LinkAddresses};
use sockstamp_host::neighbour::Known;
use sockstamp_host::queue::{Device, Queue, Queues as Sockets};
use sockstamp_host::{netns, queue};
use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

/// Two packets of Ethernet wait in any queue.
const LEAST: u32 = 3000;
const BETWEEN: Duration = Duration::from_millis(200);
const MOST_LOOKS: usize = 64;

/// An address, as a namespace sees it.
type Peer = (NetnsInode, IpAddr);

/// Looks at queues.
#[derive(Debug)]
pub(crate) struct Queues {
    sockets: Sockets,
    links: LinkAddresses,
    looks: Vec<(Instant, BTreeMap<Device, Queue>)>,
    /// The number of times that links had gone down before.
    downs: BTreeMap<Device, u32>,
}

impl Queues {
    pub(crate) fn open() -> Self {
        let sockets = queue::Queues::open();
        let downs = sockets.carriers_lost();
        Self {
            sockets,
            links: LinkAddresses::open(),
            looks: Vec::new(),
            downs,
        }
    }

    /// Look, unless the last look was just now.
    pub(crate) fn look(&mut self) {
        let now = Instant::now();
        let is_soon = |(last, _): &(Instant, _)| now < *last + BETWEEN;
        if self.looks.last().is_some_and(is_soon) || self.looks.len() == MOST_LOOKS {
            return;
        }
        self.looks.push((now, self.sockets.waiting(LEAST)));
    }

    /// Return the longest queue on the way to each peer.
    pub(crate) fn backlogs(&self, peers: &BTreeSet<Peer>) -> BTreeMap<Peer, Backlog> {
        let devices: BTreeSet<_> = self
            .looks
            .iter()
            .flat_map(|(_, found)| found.keys())
            .collect();
        let mut queued: Vec<_> = devices
            .into_iter()
            .filter_map(|device| Some((*device, self.usual(*device)?)))
            .collect();
        queued.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
        let on_the_way = |&(from, peer): &Peer| {
            let mut queued = queued.iter();
            let found = queued.find(|(device, _)| self.sockets.leads_to(*device, from, peer));
            let &(device, (bytes, time)) = found?;
            let device = self.name(device)?;
            Some((
                (from, peer),
                Backlog {
                    device,
                    bytes,
                    time,
                },
            ))
        };
        peers.iter().filter_map(on_the_way).collect()
    }

    /// Return the next hops on the way to each peer that do not answer to their addresses.
    pub(crate) fn silent(&self, peers: &BTreeSet<Peer>) -> BTreeMap<Peer, Neighbour> {
        let found = |&(from, peer): &Peer| {
            let silent = self.sockets.silent_neighbour(from, peer)?;
            let neighbour = Neighbour {
                address: silent.address,
                device: self.name(silent.device)?,
                is_set: silent.known == Known::Set,
            };
            Some(((from, peer), neighbour))
        };
        peers.iter().filter_map(found).collect()
    }

    /// Return the next hop on the way to each peer.
    pub(crate) fn next_hops(&self, peers: &BTreeSet<Peer>) -> BTreeMap<Peer, NextHop> {
        let found = |&(from, peer): &Peer| {
            let (device, address) = self.sockets.hops(from, peer).into_iter().next()?;
            let device = self.name(device)?;
            Some(((from, peer), NextHop { address, device }))
        };
        peers.iter().filter_map(found).collect()
    }

    /// Return the links by which the way to each peer begins, and which went down.
    pub(crate) fn links(&self, peers: &BTreeSet<Peer>) -> BTreeMap<Peer, Link> {
        if peers.is_empty() {
            return BTreeMap::new();
        }
        let now = self.sockets.carriers_lost();
        let found = |&(from, peer): &Peer| {
            let device = self.sockets.first_to(from, peer)?;
            let before = self.downs.get(&device).copied().unwrap_or(0);
            let downs = now.get(&device)?.wrapping_sub(before);
            let device = self.name(device).filter(|_| downs > 0)?;
            Some(((from, peer), Link { device, downs }))
        };
        peers.iter().filter_map(found).collect()
    }

    /// Return the next hops on the way to each peer whose link addresses changed, and changed back.
    pub(crate) fn flips(&mut self, peers: &BTreeSet<Peer>) -> BTreeMap<Peer, Flips> {
        if peers.is_empty() {
            return BTreeMap::new();
        }
        let changed = self.links.flips();
        let found = |&(from, peer): &Peer| {
            let mut hops = self.sockets.hops(from, peer).into_iter();
            let (hop, flips) = hops.find_map(|hop| Some((hop, changed.get(&hop)?)))?;
            let link_address::Flips { changes, between } = flips.clone();
            let flips = Flips {
                address: hop.1,
                device: self.name(hop.0)?,
                changes,
                between,
            };
            Some(((from, peer), flips))
        };
        peers.iter().filter_map(found).collect()
    }

    fn name(&self, device: Device) -> Option<Name> {
        let name = self.sockets.name(device)?;
        let home = netns::own().ok()?;
        let place = netns::seen_from(device.netns, home, &netns::names());
        Some(Name::from(format!("{name}{place}")))
    }

    /// Return the bytes that waited in a device at most looks, and the time that it needs for them.
    fn usual(&self, device: Device) -> Option<(u64, Nanos)> {
        let seen = self
            .looks
            .iter()
            .filter_map(|(at, found)| Some((*at, *found.get(&device)?)));
        let seen: Vec<_> = seen.collect();
        let is_usual = seen.len() >= 2 && seen.len() * 4 >= self.looks.len() * 3;
        let (&(begin, first), &(end, last)) = (seen.first()?, seen.last()?);
        let sent = last.sent.checked_sub(first.sent).filter(|_| is_usual)?;
        let mut backlogs: Vec<_> = seen
            .iter()
            .map(|(_, queue)| u64::from(queue.backlog))
            .collect();
        backlogs.sort_unstable();
        let bytes = backlogs[backlogs.len() / 2];
        let elapsed = (end - begin).as_nanos();
        let time = (elapsed * u128::from(bytes)).checked_div(u128::from(sent))?;
        Some((bytes, Nanos(u64::try_from(time).ok()?)))
    }
}
