//! Looks at the queues of devices while somebody waits for a peer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use sockstamp_explain::diagnosis::{Backlog, Flips, Link, Neighbour, NextHop};
use sockstamp_host::clock;
use sockstamp_host::link_address::{self, LinkAddresses};
use sockstamp_host::neighbour::Known;
use sockstamp_host::queue::{Carrier, Device, Queue, Queues as Sockets};
use sockstamp_host::{netns, queue};
use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

/// Two packets of Ethernet wait in any queue.
const LEAST: u32 = 3000;
const BETWEEN: Nanos = Nanos(200_000_000);
/// The next look is made after so many times the time of this one at the earliest.
const SHARE: u64 = 50;
/// Looks that are kept: of the last minute and a half.
const MOST_LOOKS: usize = 512;
/// Queues that are kept, of all looks: users may make any number of devices, each with a queue.
const MOST_QUEUES: usize = 1 << 16;
/// Links that went down, and as many of one namespace: users may make any number in theirs. That of
/// this process has room in any case.
const MOST_LINKS: usize = 4096;
const MOST_LINKS_OF_ONE: usize = 256;
/// Times of each link that are kept.
const MOST_DOWNS: usize = 256;

type Moment = Timestamp<Monotonic>;

/// An address, as a namespace sees it.
type Peer = (NetnsInode, IpAddr);

/// Looks at queues.
#[derive(Debug)]
pub(crate) struct Queues {
    sockets: Sockets,
    links: LinkAddresses,
    looks: VecDeque<(Moment, BTreeMap<Device, Queue>)>,
    next: Option<Moment>,
    /// Looks that found no room for their queues, or gave theirs up early.
    left_out: u64,
    carriers: Carriers,
}

/// The number of times that a link went down, and the times between looks in which it was down.
type Downs = (u32, Vec<(Moment, Moment)>);

/// Links that go down, as looks at them show.
#[derive(Debug, Default)]
struct Carriers {
    /// The namespace of this process.
    home: Option<NetnsInode>,
    at: Option<Moment>,
    last: BTreeMap<Device, Carrier>,
    downs: BTreeMap<NetnsInode, BTreeMap<Device, Downs>>,
    /// Times that links without room went down.
    left_out: u64,
}

impl Carriers {
    fn see(&mut self, now: Moment, carriers: BTreeMap<Device, Carrier>) {
        let since = self.at.replace(now).unwrap_or(now);
        self.forget(&carriers);
        for (device, carrier) in &carriers {
            let Some(before) = self.last.get(device) else {
                continue;
            };
            // A count that has shrunk is that of another link with its number.
            let Some(lost) = carrier.lost.checked_sub(before.lost) else {
                continue;
            };
            let known = self.of(*device).is_some();
            // A link that was never up has not gone down.
            if lost == 0 && !(known && before.is_down) {
                continue;
            }
            if !known && !self.has_room(device.netns) {
                self.left_out += u64::from(lost);
                continue;
            }
            let of_one = self.downs.entry(device.netns).or_default();
            let (downs, times) = of_one.entry(*device).or_default();
            *downs = downs.saturating_add(lost);
            let is_full = times.len() >= MOST_DOWNS;
            // Of too many, the last one has all the time.
            match times.last_mut().filter(|(_, end)| *end == since || is_full) {
                Some((_, end)) => *end = now,
                None => times.push((since, now)),
            }
        }
        self.last = carriers;
    }

    fn of(&self, device: Device) -> Option<&Downs> {
        self.downs.get(&device.netns)?.get(&device)
    }

    fn is_full(&self) -> bool {
        self.downs.values().map(BTreeMap::len).sum::<usize>() >= MOST_LINKS
    }

    /// Return true if another link of a namespace finds room.
    fn has_room(&self, netns: NetnsInode) -> bool {
        let of_one = self.downs.get(&netns).map_or(0, BTreeMap::len);
        of_one < MOST_LINKS_OF_ONE && (self.home == Some(netns) || !self.is_full())
    }

    /// Forget links that are gone, where their namespace has no more room; where there is none at
    /// all, those of the namespace that has most of them.
    fn forget(&mut self, now: &BTreeMap<Device, Carrier>) {
        let is_here = |device: &Device, _: &mut Downs| now.contains_key(device);
        let full = self.downs.values_mut();
        full.filter(|of_one| of_one.len() >= MOST_LINKS_OF_ONE)
            .for_each(|of_one| of_one.retain(is_here));
        if self.is_full() {
            let gone = |of_one: &BTreeMap<Device, Downs>| {
                let gone = of_one.keys().filter(|device| !now.contains_key(device));
                gone.count()
            };
            let most = self.downs.iter_mut();
            let most = most.max_by_key(|(netns, of_one)| (gone(of_one), **netns));
            most.into_iter()
                .for_each(|(_, of_one)| of_one.retain(is_here));
        }
        self.downs.retain(|_, of_one| !of_one.is_empty());
    }
}

impl Queues {
    pub(crate) fn open() -> Self {
        let mut queues = Self {
            sockets: queue::Queues::open(),
            links: LinkAddresses::open(),
            looks: VecDeque::new(),
            next: None,
            left_out: 0,
            carriers: Carriers {
                home: netns::own().ok(),
                ..Carriers::default()
            },
        };
        queues.look_at_links();
        queues
    }

    /// Look, unless the last look was just now.
    pub(crate) fn look(&mut self) {
        let Ok(now) = clock::now() else {
            return;
        };
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        self.keep((now, self.sockets.waiting(LEAST)));
        self.look_at_links();
        let took = clock::now().map_or(0, |end| end.as_nanos().saturating_sub(now.as_nanos()));
        let rest = BETWEEN.0.max(took.saturating_mul(SHARE));
        self.next = Some(Timestamp::from_nanos(now.as_nanos().saturating_add(rest)));
    }

    fn keep(&mut self, look: (Moment, BTreeMap<Device, Queue>)) {
        self.looks.push_back(look);
        let mut queues: usize = self.looks.iter().map(|(_, found)| found.len()).sum();
        while self.looks.len() > MOST_LOOKS || queues > MOST_QUEUES && self.looks.len() > 1 {
            self.left_out += u64::from(self.looks.len() <= MOST_LOOKS);
            let oldest = self.looks.pop_front();
            queues -= oldest.map_or(0, |(_, found)| found.len());
        }
    }

    /// Return how many looks at queues, and times that links went down, found no room.
    pub(crate) const fn left_out(&self) -> u64 {
        self.left_out.saturating_add(self.carriers.left_out)
    }

    /// Note which links went down, and which link addresses changed, since the last look.
    fn look_at_links(&mut self) {
        if let Ok(now) = clock::now() {
            self.carriers.see(now, self.sockets.carriers());
            self.links.read(now);
        }
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
        queued.sort_by_key(|(_, usual)| std::cmp::Reverse(usual.time));
        let on_the_way = |&(from, peer): &Peer| {
            let mut queued = queued.iter();
            let found = queued.find(|(device, _)| self.sockets.leads_to(*device, from, peer));
            let (device, usual) = *found?;
            let backlog = Backlog {
                device: self.name(device)?,
                bytes: usual.bytes,
                time: usual.time,
                seen: usual.seen,
            };
            Some(((from, peer), backlog))
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
    pub(crate) fn links(&mut self, peers: &BTreeSet<Peer>) -> BTreeMap<Peer, Link> {
        if peers.is_empty() {
            return BTreeMap::new();
        }
        self.look_at_links();
        let found = |&(from, peer): &Peer| {
            let device = self.sockets.first_to(from, peer)?;
            let (downs, times) = self.carriers.of(device)?.clone();
            let device = self.name(device)?;
            let link = Link {
                device,
                downs,
                times,
            };
            Some(((from, peer), link))
        };
        peers.iter().filter_map(found).collect()
    }

    /// Return the next hops on the way to each peer whose link addresses changed, and changed back.
    pub(crate) fn flips(&mut self, peers: &BTreeSet<Peer>) -> BTreeMap<Peer, Flips> {
        if peers.is_empty() {
            return BTreeMap::new();
        }
        self.look_at_links();
        let changed = self.links.flips();
        let found = |&(from, peer): &Peer| {
            let mut hops = self.sockets.hops(from, peer).into_iter();
            let (hop, flips) = hops.find_map(|hop| Some((hop, changed.get(&hop)?)))?;
            let link_address::Flips {
                changes,
                between,
                time,
            } = flips.clone();
            let flips = Flips {
                address: hop.1,
                device: self.name(hop.0)?,
                changes,
                between,
                time,
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

    /// Return the bytes that waited in a device at most looks.
    fn usual(&self, device: Device) -> Option<Usual> {
        let seen = self
            .looks
            .iter()
            .filter_map(|(at, found)| Some((*at, *found.get(&device)?)));
        let seen: Vec<_> = seen.collect();
        let is_usual = seen.len() >= 2 && seen.len() * 4 >= self.looks.len() * 3;
        let (&(begin, _), &(end, _)) = (seen.first()?, seen.last()?);
        let (elapsed, sent) = between(&seen).filter(|_| is_usual)?;
        let mut backlogs: Vec<_> = seen
            .iter()
            .map(|(_, queue)| u64::from(queue.backlog))
            .collect();
        backlogs.sort_unstable();
        let bytes = backlogs[backlogs.len() / 2];
        let time = (elapsed * u128::from(bytes)).checked_div(sent)?;
        Some(Usual {
            bytes,
            time: Nanos(u64::try_from(time).ok()?),
            seen: (begin, end),
        })
    }
}

/// Return the nanoseconds between looks that came one soon after the other, and the bytes that the
/// device has sent in them: between others it may have been idle.
fn between(seen: &[(Moment, Queue)]) -> Option<(u128, u128)> {
    const SOON: u64 = 1_000_000_000;
    let (mut elapsed, mut sent) = (0, 0);
    for pair in seen.windows(2) {
        let [(begin, first), (end, last)] = pair else {
            continue;
        };
        let time = end.as_nanos().checked_sub(begin.as_nanos())?;
        if time <= SOON {
            elapsed += u128::from(time);
            sent += u128::from(last.sent.checked_sub(first.sent)?);
        }
    }
    Some((elapsed, sent))
}

/// Bytes that waited in a device at most looks.
#[derive(Debug, Clone, Copy)]
struct Usual {
    bytes: u64,
    /// The time that the device needs for them.
    time: Nanos,
    /// The first and the last of these looks.
    seen: (Moment, Moment),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_queues_the_last_looks_are_kept() {
        let devices = Sockets::open().carriers();
        let of = |number| (Timestamp::from_nanos(number), Queue::default());
        let mut queues = Queues::open();
        let all: BTreeMap<_, _> = devices
            .into_keys()
            .map(|device| (device, of(0).1))
            .collect();
        let most = MOST_QUEUES / all.len();
        for number in 0..MOST_LOOKS as u64 + 5 {
            queues.keep((of(number).0, all.clone()));
        }
        assert_eq!(queues.looks.len(), MOST_LOOKS.min(most));
        assert_eq!(queues.left_out() > 0, most < MOST_LOOKS);
        let last = queues.looks.back().map(|(at, _)| at.as_nanos());
        assert_eq!(last, Some(MOST_LOOKS as u64 + 4));
    }

    #[test]
    fn links_that_are_gone_leave_room() {
        let own = *Sockets::open().carriers().keys().next().unwrap();
        let mut carriers = Carriers::default();
        let mut at = 0;
        // A device of each of these namespaces loses its carrier.
        let mut flap = |carriers: &mut Carriers, namespaces: std::ops::Range<u32>| {
            let looks = [0, 1].map(|lost| {
                let of = |number| {
                    let mut device = own;
                    device.netns = NetnsInode(number);
                    let is_down = lost == 1;
                    (device, Carrier { lost, is_down })
                };
                namespaces.clone().map(of).collect::<BTreeMap<_, _>>()
            });
            for look in looks {
                at += 1;
                carriers.see(Timestamp::from_nanos(at), look);
            }
        };
        let most = u32::try_from(MOST_LINKS).unwrap();
        let of =
            |carriers: &Carriers, number: u32| carriers.downs.contains_key(&NetnsInode(number));
        flap(&mut carriers, 0..most);
        assert_eq!((carriers.downs.len(), carriers.left_out), (MOST_LINKS, 0));
        // One gives way to one: the first namespaces are the host's.
        flap(&mut carriers, most..most + 1);
        assert!(of(&carriers, most) && of(&carriers, 0) && !of(&carriers, most - 1));
        // Links that are there keep their room, and what finds none is counted.
        flap(&mut carriers, 0..most + 7);
        assert_eq!((carriers.downs.len(), carriers.left_out), (MOST_LINKS, 7));
        carriers.home = Some(NetnsInode(most + 6));
        flap(&mut carriers, 0..most + 7);
        assert!(of(&carriers, most + 6));
    }

    #[test]
    fn links_of_a_namespace_take_no_room_of_others() {
        let devices: Vec<_> = Sockets::open().carriers().into_keys().collect();
        let of_one = devices
            .iter()
            .filter(|device| device.netns == devices[0].netns);
        let own: Vec<Device> = of_one.copied().collect();
        let of = |netns: u32| {
            own.iter().map(move |device| {
                let mut device = *device;
                device.netns = NetnsInode(netns);
                device
            })
        };
        let carrier = |lost| Carrier {
            lost,
            is_down: lost == 1,
        };
        let mut carriers = Carriers::default();
        let mut at = 0;
        let mut flap = |carriers: &mut Carriers, netns: u32| {
            for lost in [0, 1] {
                at += 1;
                let look = of(netns).map(|device| (device, carrier(lost))).collect();
                carriers.see(Timestamp::from_nanos(at), look);
            }
        };
        (0..300).for_each(|netns| flap(&mut carriers, netns));
        assert_eq!(carriers.downs.len(), 300);
        assert!(
            carriers
                .downs
                .values()
                .all(|of_one| of_one.len() == own.len())
        );
    }

    #[test]
    fn a_link_is_down_between_the_looks_that_show_it() {
        let device = *Sockets::open().carriers().keys().next().unwrap();
        let mut carriers = Carriers::default();
        let see = |carriers: &mut Carriers, at, lost, is_down| {
            let carrier = Carrier { lost, is_down };
            carriers.see(
                Timestamp::from_nanos(at),
                BTreeMap::from([(device, carrier)]),
            );
        };
        see(&mut carriers, 1, 7, true);
        see(&mut carriers, 2, 7, true);
        assert!(carriers.downs.is_empty());
        for (at, lost, is_down) in [(3, 7, false), (4, 8, true), (5, 8, false), (6, 8, false)] {
            see(&mut carriers, at, lost, is_down);
        }
        see(&mut carriers, 9, 10, false);
        let time = |begin, end| (Timestamp::from_nanos(begin), Timestamp::from_nanos(end));
        assert_eq!(
            carriers.downs[&device.netns][&device],
            (3, vec![time(3, 5), time(6, 9)])
        );
    }
}
