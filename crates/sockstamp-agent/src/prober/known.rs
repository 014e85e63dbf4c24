//! All peers that are probed.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use sockstamp_metrics::catalogue::{
    Metric, PROBE_LOSSES, PROBED_PEERS, UNANSWERED_METHODS, UNPROBED_PEERS,
};
use sockstamp_metrics::{Exposition, Value};
use sockstamp_model::clock::Nanos;
use sockstamp_ping::TargetId;

use super::peers::{Key, Peer, Peers};
use super::round_trips::{Method, RoundTrips};
use super::settings::Settings;

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

/// Count the methods that a peer which is given up did not answer.
fn count_unanswered(counts: &mut BTreeMap<Method, u64>, given_up: &Watched) {
    for method in &given_up.unanswered {
        *counts.entry(*method).or_default() += 1;
    }
}

/// The number of peers of each container. No container has more than another one wants, if not all
/// can be probed.
struct Shares(HashMap<String, usize>);

impl Shares {
    fn of<'a>(peers: impl Iterator<Item = &'a Key>) -> Self {
        let mut shares = Self(HashMap::new());
        peers.for_each(|(container, _)| shares.add(container));
        shares
    }

    fn add(&mut self, container: &str) {
        match self.0.get_mut(container) {
            Some(share) => *share += 1,
            None => _ = self.0.insert(container.to_owned(), 1),
        }
    }

    fn remove(&mut self, container: &str) {
        if let Some(share) = self.0.get_mut(container) {
            *share -= 1;
        }
    }

    /// Return the container that has the most peers, if it still has as many as this one when it
    /// leaves one to it.
    fn crowding(&self, container: &str) -> Option<String> {
        let own = self.0.get(container).copied().unwrap_or(0);
        let most = self.0.iter().max_by_key(|(name, share)| (**share, *name));
        let crowding = most.filter(|(_, share)| **share > own + 1);
        crowding.map(|(name, _)| name.clone())
    }
}

impl Watched {
    fn new(peer: Peer, now: Instant) -> Self {
        Self {
            peer,
            trips: RoundTrips::default(),
            id: None,
            seen: now,
            unanswered: Vec::new(),
        }
    }

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
        let mut ended = self.expire(now, settings, most);
        let mut shares = Shares::of(self.watched.keys());
        for watched in self.watched.values_mut() {
            watched.trips.of_flows(None);
        }
        let mut new = peers.found;
        new.retain(|key, peer| match self.watched.get_mut(key) {
            Some(known) => {
                known.see(peer.clone(), now);
                false
            }
            None => true,
        });
        for (key, peer) in new {
            if self.watched.len() >= most {
                let Some(crowding) = shares.crowding(&key.0) else {
                    self.too_many += 1;
                    continue;
                };
                ended.extend(self.give_up_one(&crowding, now));
                shares.remove(&crowding);
            }
            shares.add(&key.0);
            self.watched.insert(key, Watched::new(peer, now));
        }
        ended
    }

    /// Give up a peer of a container, one without connections first, and return its target.
    fn give_up_one(&mut self, container: &str, now: Instant) -> Option<TargetId> {
        let own = self.watched.iter().filter(|((of, _), _)| of == container);
        let (key, _) = own.min_by_key(|(_, watched)| watched.seen)?;
        let key = key.clone();
        let watched = self.watched.remove(&key)?;
        self.too_many += usize::from(watched.seen == now);
        count_unanswered(&mut self.unanswered, &watched);
        watched.id
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
            count_unanswered(&mut self.unanswered, watched);
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
            count_unanswered(&mut self.unanswered, &watched);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sockstamp_ping::Namespace;

    use super::*;
    use crate::config::ProbeTable;

    fn settings(most: u32) -> Settings {
        Settings {
            table: ProbeTable {
                max_targets: most,
                ..ProbeTable::default()
            },
            max_series: 100_000,
            target: sockstamp_bpf::Target::default(),
            expire: Duration::from_secs(60),
            share: None,
        }
    }

    fn peers(of: &[(&str, u8)]) -> Peers {
        let peer = Peer {
            namespace: Namespace::Own,
            port: None,
            min_rtt: None,
        };
        let all = of.iter().flat_map(|(container, count)| {
            (0..*count).map(|last| ((*container).to_owned(), [10, 0, 0, last].into()))
        });
        Peers {
            found: all.map(|key| (key, peer.clone())).collect(),
            ..Peers::default()
        }
    }

    fn probed(known: &Known) -> Vec<(String, usize)> {
        let mut shares: Vec<_> = Shares::of(known.watched.keys()).0.into_iter().collect();
        shares.sort();
        shares
    }

    fn named(shares: &[(&str, usize)]) -> Vec<(String, usize)> {
        let shares = shares.iter();
        shares
            .map(|(name, share)| ((*name).to_owned(), *share))
            .collect()
    }

    #[test]
    fn a_container_with_many_peers_leaves_places_to_others() {
        let mut known = Known::default();
        known.update(peers(&[("a", 100)]), &settings(10));
        assert_eq!(probed(&known), named(&[("a", 10)]));
        assert_eq!(known.too_many, 90);
        for _ in 0..3 {
            known.update(peers(&[("a", 100), ("b", 2), ("c", 100)]), &settings(10));
            assert_eq!(probed(&known), named(&[("a", 4), ("b", 2), ("c", 4)]));
            assert_eq!(known.too_many, 96 + 96);
        }
    }

    #[test]
    fn peers_that_give_way_are_those_without_a_connection_first() {
        let mut known = Known::default();
        known.update(peers(&[("a", 10)]), &settings(10));
        known.update(peers(&[("a", 9), ("b", 1)]), &settings(10));
        assert_eq!(probed(&known), named(&[("a", 9), ("b", 1)]));
        assert_eq!(known.too_many, 0);
    }

    #[test]
    fn places_that_are_enough_are_taken_from_nobody() {
        let mut known = Known::default();
        known.update(peers(&[("a", 9), ("b", 1)]), &settings(10));
        known.update(peers(&[("a", 9), ("b", 1)]), &settings(10));
        assert_eq!(
            (probed(&known), known.too_many),
            (named(&[("a", 9), ("b", 1)]), 0)
        );
    }
}
