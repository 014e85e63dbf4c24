//! Floods from several threads. The stamps of a probe take the kernel as long as half of the probe:
//! one thread would be slower than a pinger without them.

use std::num::NonZero;
use std::thread;

use sockstamp_ping::{Target, TargetId};

use super::hosts::floods;
use super::options::Options;

/// A flood in which each thread sends a probe with each answer to its own.
const OF_A_FLOOD: usize = 2;

/// The number of targets by which each host is probed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chains(usize);

impl Chains {
    pub(super) fn of(options: &Options) -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        // Answers to one identifier come to all sockets that have it.
        let may_split = floods(options) && options.identifier.is_none();
        let probes = options.retries.map_or(options.count, |_| Some(1));
        Self(match may_split && probes.is_none_or(|probes| probes > 1) {
            true => processors.min(OF_A_FLOOD),
            false => 1,
        })
    }

    /// Share the probes of each target out among its threads.
    pub(super) fn split(self, targets: Vec<Target>) -> Vec<Target> {
        let parts = targets
            .into_iter()
            .flat_map(|target| (0..self.0).map(move |part| self.part(&target, part)));
        parts.collect()
    }

    fn part(self, whole: &Target, part: usize) -> Target {
        let mut target = whole.clone();
        let settings = &mut target.settings;
        let (chains, this) = (self.0 as u64, part as u64);
        let of = |probes: u64| probes / chains + u64::from(this < probes % chains);
        settings.count = settings.count.map(of);
        settings.preload = of(settings.preload).max(1);
        settings.interval *= u32::try_from(chains).unwrap_or(1);
        settings.thread = u16::try_from(part).unwrap_or_default();
        target
    }

    /// Return the index of the host that a target is a part of.
    pub(super) fn host(self, target: TargetId) -> usize {
        index(target) / self.0
    }

    /// Return a probe's number for its host.
    pub(super) fn seq(self, target: TargetId, seq: u64) -> u64 {
        let chains = self.0 as u64;
        seq.saturating_sub(1) * chains + target.number() % chains + 1
    }
}

/// Targets are numbered as they were added, which is the order of the hosts.
pub(crate) fn index(target: TargetId) -> usize {
    usize::try_from(target.number()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sockstamp_ping::{Protocol, Settings};

    use super::*;

    #[test]
    fn the_parts_of_a_flood_are_the_whole() {
        let mut whole = Target::new(Ipv4Addr::LOCALHOST.into(), Protocol::Icmp);
        whole.settings = Settings {
            count: Some(7),
            preload: 5,
            ..Settings::default()
        };
        let of_each = |name: fn(&Settings) -> u64| {
            let parts = Chains(2).split(vec![whole.clone(), whole.clone()]);
            let parts = parts.iter().map(|part| name(&part.settings));
            parts.collect::<Vec<_>>()
        };
        assert_eq!(of_each(|part| part.count.unwrap()), [4, 3, 4, 3]);
        assert_eq!(of_each(|part| part.preload), [3, 2, 3, 2]);
        assert_eq!(of_each(|part| part.thread.into()), [0, 1, 0, 1]);
        assert_eq!(of_each(|part| part.interval.as_secs()), [2; 4]);
        assert_eq!(Chains(1).split(vec![whole.clone()]), [whole]);
    }
}
