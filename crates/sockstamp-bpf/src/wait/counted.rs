//! Attempts and dropped packets until somebody asks for them: the maps of the programs, which are
//! emptied here, have little room.

use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use sockstamp_model::flow::{NetnsInode, Protocol};
use sockstamp_model::wait::{Attempts, Dropped, Key, Waits};

use super::attempts;
use crate::drops::Kept;
use crate::error::Error;
use crate::skeleton::sockstamp::SockstampMaps;

/// Keys that are held of each: some ten times as many as the maps have room for.
const HELD: usize = 50_000;
/// The time after which the maps are emptied.
pub(super) const EACH: Duration = Duration::from_secs(1);

/// The key of dropped packets.
type Ends = (NetnsInode, Protocol, SocketAddr, SocketAddr, Box<str>);

#[derive(Debug)]
pub(super) struct Counted {
    attempts: FxHashMap<Key, Attempts>,
    dropped: FxHashMap<Ends, Dropped>,
    kept: Kept,
    fetched: Instant,
    /// Elements of the maps that had been made by then.
    added: u64,
    untold: u64,
    untold_drops: u64,
}

impl Counted {
    pub(super) fn new() -> Self {
        Self {
            attempts: FxHashMap::default(),
            dropped: FxHashMap::default(),
            kept: Kept::default(),
            fetched: Instant::now(),
            added: 0,
            untold: 0,
            untold_drops: 0,
        }
    }

    /// Return true if the maps are to be emptied. The kernel looks through all of their buckets for
    /// that, so they are left alone while no element is made. `added`: those that were made.
    pub(super) fn is_due(&mut self, added: u64) -> bool {
        let is_due = added != self.added && self.fetched.elapsed() >= EACH;
        if is_due {
            self.added = added;
        }
        is_due
    }

    /// Empty the maps.
    pub(super) fn fetch(&mut self, maps: &SockstampMaps<'_>) -> Result<(), Error> {
        self.fetched = Instant::now();
        for attempts in attempts::take(maps)? {
            self.add_attempts(attempts);
        }
        for dropped in self.kept.take(maps)? {
            self.add_dropped(dropped);
        }
        Ok(())
    }

    fn add_attempts(&mut self, new: Attempts) {
        let has_room = self.attempts.len() < HELD;
        match self.attempts.entry(new.key) {
            Entry::Occupied(held) => {
                let held = held.into_mut();
                held.count += new.count;
                held.failed += new.failed;
                held.sum_ns += new.sum_ns;
                held.prompted += new.prompted;
                held.min_ns = held.min_ns.min(new.min_ns);
            }
            Entry::Vacant(place) if has_room => {
                place.insert(new);
            }
            Entry::Vacant(_) => self.untold += new.count,
        }
    }

    fn add_dropped(&mut self, new: Dropped) {
        let has_room = self.dropped.len() < HELD;
        let ends = (
            new.netns,
            new.protocol,
            new.from,
            new.to,
            new.reason.clone(),
        );
        match self.dropped.entry(ends) {
            Entry::Occupied(held) => held.into_mut().add(&new),
            Entry::Vacant(place) if has_room => {
                place.insert(new);
            }
            Entry::Vacant(_) => self.untold_drops += new.packets,
        }
    }

    /// Take all.
    pub(super) fn take(&mut self) -> Waits {
        Waits {
            attempts: self.attempts.drain().map(|(_, one)| one).collect(),
            dropped: self.dropped.drain().map(|(_, one)| one).collect(),
            untold: self.untold,
            untold_drops: self.untold_drops,
            ..Waits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::{Nanos, Timestamp};
    use sockstamp_model::wait::Kind;

    use super::*;

    fn attempts(pid: u32, count: u64, min: u64) -> Attempts {
        Attempts {
            key: Key {
                kind: Kind::Service,
                netns: NetnsInode(1),
                protocol: Protocol::Tcp,
                service: "10.0.0.2:80".parse().unwrap(),
                pid,
            },
            comm: Default::default(),
            count,
            failed: 1,
            sum_ns: 10,
            min_ns: Nanos(min),
            prompted: 1,
        }
    }

    fn dropped(port: u16, came: bool) -> Dropped {
        Dropped {
            netns: NetnsInode(1),
            protocol: Protocol::Tcp,
            from: SocketAddr::from(([10, 0, 0, 1], port)),
            to: "10.0.0.2:80".parse().unwrap(),
            reason: "NETFILTER_DROP".into(),
            packets: u64::from(!came),
            syns: u64::from(!came),
            first: Timestamp::from_nanos(1),
            last: Timestamp::from_nanos(1 + u64::from(came)),
            came,
        }
    }

    #[test]
    fn counts_of_a_key_are_added_until_they_are_taken() {
        let mut counted = Counted::new();
        counted.add_attempts(attempts(7, 5, 4));
        counted.add_attempts(attempts(7, 3, 2));
        counted.add_dropped(dropped(40_000, false));
        counted.add_dropped(dropped(40_000, true));
        let taken = counted.take();
        let [all] = &taken.attempts[..] else {
            panic!("{taken:?}");
        };
        assert_eq!(
            (
                all.count,
                all.failed,
                all.prompted,
                all.sum_ns,
                all.min_ns.0
            ),
            (8, 2, 2, 20, 2)
        );
        let [all] = &taken.dropped[..] else {
            panic!("{taken:?}");
        };
        assert_eq!((all.packets, all.syns, all.came), (1, 1, true));
        assert_eq!((all.first.as_nanos(), all.last.as_nanos()), (1, 2));
        assert_eq!(counted.take(), Waits::default());
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut counted = Counted::new();
        for number in 0..=HELD {
            counted.add_attempts(attempts(u32::try_from(number).unwrap(), 2, 1));
            counted.add_dropped(dropped(u16::try_from(number).unwrap(), false));
        }
        counted.add_attempts(attempts(7, 2, 1));
        let taken = counted.take();
        assert_eq!((taken.attempts.len(), taken.dropped.len()), (HELD, HELD));
        assert_eq!((taken.untold, taken.untold_drops), (2, 1));
    }
}
