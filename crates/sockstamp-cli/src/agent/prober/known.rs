//! All peers that are probed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Instant;

use sockstamp_export::catalogue::{
    Metric, PROBE_LOSSES, PROBED_PEERS, UNANSWERED_METHODS, UNPROBED_PEERS,
};
use sockstamp_export::{Exposition, Value};
use sockstamp_model::clock::Nanos;
use sockstamp_ping::TargetId;

use super::Settings;
use super::peers::{Key, Peer, Peers};
use super::round_trips::{Method, RoundTrips};

/// A peer that is probed.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) peer: Peer,
    pub(super) trips: RoundTrips,
    /// The engine's target, while there is one.
    pub(super) id: Option<TargetId>,
    /// The last look that saw a connection to it.
    seen: Instant,
    /// Methods that it did not answer.
    unanswered: Vec<Method>,
}

impl Watched {
    /// Try the next method.
    pub(super) fn unanswered(&mut self) {
        let method = self.trips.method();
        self.unanswered.push(method);
        self.trips.begin(match method {
            Method::Icmp => Method::Tcp,
            Method::Tcp | Method::Flow => Method::Flow,
        });
    }
}

/// All peers that are probed, and the number of those that are not.
#[derive(Debug, Default)]
pub(super) struct Known {
    watched: BTreeMap<Key, Watched>,
    too_many: usize,
    local: usize,
    link_local: usize,
    unlisted: usize,
    /// Methods that were not answered by peers that have expired.
    unanswered: BTreeMap<Method, u64>,
    /// Skipped probes and dropped events: those of engines that have ended, and those of this one.
    lost: [[u64; 2]; 2],
}

impl Known {
    /// Take the peers that were found, and return the targets that end.
    pub(super) fn update(&mut self, peers: Peers, settings: &Settings) -> Vec<TargetId> {
        let now = Instant::now();
        let most = settings.most();
        (self.local, self.link_local, self.unlisted) =
            (peers.local, peers.link_local, peers.unlisted);
        self.too_many = 0;
        let ended = self.expire(now, settings, most);
        for watched in self.watched.values_mut() {
            watched.trips.of_flows(None);
        }
        for (key, peer) in peers.found {
            let count = self.watched.len();
            match self.watched.entry(key) {
                Entry::Occupied(mut known) => known.get_mut().see(peer, now),
                Entry::Vacant(place) if count < most => {
                    place.insert(Watched {
                        peer,
                        trips: RoundTrips::default(),
                        id: None,
                        seen: now,
                        unanswered: Vec::new(),
                    });
                }
                Entry::Vacant(_) => self.too_many += 1,
            }
        }
        ended
    }

    /// Remove peers without a connection, and those above a bound that was lowered.
    fn expire(&mut self, now: Instant, settings: &Settings, most: usize) -> Vec<TargetId> {
        let mut left = most;
        let mut ended = Vec::new();
        self.watched.retain(|_, watched| {
            let stays = now - watched.seen < settings.expire && left > 0;
            if stays {
                left -= 1;
                return true;
            }
            ended.extend(watched.id);
            for method in &watched.unanswered {
                *self.unanswered.entry(*method).or_default() += 1;
            }
            false
        });
        ended
    }

    /// Leave the targets of an engine that has ended.
    pub(super) fn forget(&mut self) {
        for watched in self.watched.values_mut() {
            watched.id = None;
        }
        self.forget_losses();
    }

    /// Forget the peers as well: they are probed no more.
    pub(super) fn forget_all(&mut self) {
        for watched in std::mem::take(&mut self.watched).into_values() {
            for method in watched.unanswered {
                *self.unanswered.entry(method).or_default() += 1;
            }
        }
        self.forget_losses();
    }

    fn forget_losses(&mut self) {
        let [past, present] = &mut self.lost;
        for (past, present) in past.iter_mut().zip(present) {
            *past += std::mem::take(present);
        }
        (self.too_many, self.local, self.link_local, self.unlisted) = (0, 0, 0, 0);
    }

    /// Set the losses of the present engine.
    pub(super) fn engine_lost(&mut self, skipped: u64, dropped: u64) {
        self.lost[1] = [skipped, dropped];
    }

    pub(super) fn watched(&mut self, key: &Key) -> Option<&mut Watched> {
        self.watched.get_mut(key)
    }

    /// The peers that should be probed but are not.
    pub(super) fn idle(&mut self) -> impl Iterator<Item = (&Key, &mut Watched)> {
        let all = self.watched.iter_mut();
        all.filter(|(_, watched)| watched.id.is_none() && watched.trips.method() != Method::Flow)
    }

    /// Add the series to an exposition.
    pub(super) fn expose(&self, exposition: &mut Exposition) {
        for ((container, address), watched) in &self.watched {
            watched.trips.expose(container, *address, exposition);
        }
        let mut add = |metric: &'static Metric, value: &str, count: u64| {
            let labels = vec![(metric.labels[0].into(), value.to_owned())];
            exposition.add(metric, labels, Value::Count(count));
        };
        for method in Method::ALL {
            let of_it = |watched: &&Watched| watched.trips.method() == method;
            let count = self.watched.values().filter(of_it).count();
            add(&PROBED_PEERS, method.name(), count as u64);
        }
        for method in [Method::Icmp, Method::Tcp] {
            let all = self
                .watched
                .values()
                .flat_map(|watched| &watched.unanswered);
            let present = all.filter(|unanswered| **unanswered == method).count() as u64;
            let past = self.unanswered.get(&method).copied().unwrap_or(0);
            add(&UNANSWERED_METHODS, method.name(), past + present);
        }
        let is_idle =
            |watched: &&Watched| watched.id.is_none() && watched.trips.method() != Method::Flow;
        let idle = self.watched.values().filter(is_idle).count();
        for (reason, count) in [
            ("max_targets", self.too_many),
            ("local", self.local),
            ("link_local", self.link_local),
            ("unlisted", self.unlisted),
            ("namespace", idle),
        ] {
            add(&UNPROBED_PEERS, reason, count as u64);
        }
        let [past, present] = self.lost;
        for (place, reason) in ["skipped", "dropped"].into_iter().enumerate() {
            add(&PROBE_LOSSES, reason, past[place] + present[place]);
        }
    }
}

impl Watched {
    fn see(&mut self, peer: Peer, now: Instant) {
        self.trips.of_flows(peer.min_rtt.map(Nanos::from));
        self.peer = peer;
        self.seen = now;
    }
}
