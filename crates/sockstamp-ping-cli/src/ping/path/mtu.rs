//! The search for the largest packet that reaches the target unfragmented.

use std::net::IpAddr;

/// The result of a probe of some size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Arrived,
    /// A router has a smaller MTU ahead; 0 if it does not say which.
    TooBig {
        from: IpAddr,
        mtu: usize,
    },
    /// This host's interface has a smaller one.
    Refused,
    Lost,
    /// A result that says nothing about sizes.
    Other,
}

/// Bounds of the path MTU that narrow down. Sizes are those of IP packets.
#[derive(Debug)]
pub(super) struct Search {
    /// The largest packet that arrived, or one that every path carries.
    low: usize,
    has_arrived: bool,
    /// Larger ones do not.
    high: usize,
    next: Option<usize>,
    losses: u32,
    probes: u32,
    /// The routers with a smaller MTU ahead, in the order of their answers.
    pub(super) narrowed: Vec<(IpAddr, usize)>,
    /// Larger packets vanish without an answer.
    pub(super) is_hole: bool,
}

/// Ethernet's.
const USUAL: usize = 1500;
/// The length field of IP.
const LARGEST: usize = 65_535;
/// Bisecting 16 bits, twice where probes are lost, and routers.
const MOST: u32 = 60;

impl Search {
    pub(super) fn new(is_v4: bool) -> Self {
        Self {
            // RFC 791 and RFC 8200, section 5.
            low: if is_v4 { 68 } else { 1280 },
            has_arrived: false,
            high: LARGEST,
            next: Some(USUAL),
            losses: 0,
            probes: 0,
            narrowed: Vec::new(),
            is_hole: false,
        }
    }

    /// Return the size of the next probe; none at the end.
    pub(super) fn next(&self) -> Option<usize> {
        self.next.filter(|_| self.probes < MOST)
    }

    /// Return the path MTU, if it was found.
    pub(super) fn found(&self) -> Option<usize> {
        (self.has_arrived && self.low == self.high).then_some(self.low)
    }

    /// Take what became of a probe of `size`. `is_reached`: the target answers smaller probes.
    pub(super) fn take(&mut self, size: usize, fate: Fate, is_reached: bool) {
        self.probes += 1;
        match fate {
            Fate::Arrived => {
                let first = !self.has_arrived;
                (self.low, self.has_arrived) = (self.low.max(size), true);
                // Mostly the interface is the limit: ask it first.
                self.next = match first && self.high == LARGEST {
                    true => Some(size + 1),
                    false => self.middle(),
                };
            }
            Fate::TooBig { from, mtu } if (self.low..size).contains(&mtu) => {
                self.narrowed.push((from, mtu));
                self.lower(mtu);
                self.next = match self.has_arrived && self.low == mtu {
                    true => None,
                    false => Some(mtu),
                };
            }
            Fate::Refused | Fate::TooBig { .. } => {
                self.lower(size - 1);
                self.next = self.middle();
            }
            Fate::Lost => self.lose(size, is_reached),
            Fate::Other => self.next = None,
        }
        if fate != Fate::Lost {
            self.losses = 0;
        }
    }

    /// A router that drops what is too big without an answer drops it again.
    fn lose(&mut self, size: usize, is_reached: bool) {
        const TRIES: u32 = 3;
        self.losses += 1;
        if self.losses < TRIES {
            return;
        }
        self.losses = 0;
        if !is_reached {
            self.next = None;
            return;
        }
        self.is_hole = true;
        self.lower(size - 1);
        self.next = self.middle();
    }

    fn lower(&mut self, high: usize) {
        self.high = self.high.min(high).max(self.low);
    }

    fn middle(&self) -> Option<usize> {
        match self.low == self.high {
            true if self.has_arrived => None,
            _ => Some((self.low + self.high).div_ceil(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Search a path whose interface and routers have these MTUs; return what was found, and by how
    /// many probes.
    fn search(interface: usize, path: usize, answers: bool) -> (Option<usize>, u32, Search) {
        let from = IpAddr::from([10, 0, 0, 1]);
        let mut search = Search::new(true);
        while let Some(size) = search.next() {
            let fate = match size {
                _ if size > interface => Fate::Refused,
                _ if size > path && answers => Fate::TooBig { from, mtu: path },
                _ if size > path => Fate::Lost,
                _ => Fate::Arrived,
            };
            search.take(size, fate, true);
        }
        (search.found(), search.probes, search)
    }

    #[test]
    fn the_usual_path_takes_two_probes() {
        let (found, probes, _) = search(1500, 1500, true);
        assert_eq!((found, probes), (Some(1500), 2));
    }

    #[test]
    fn any_mtu_is_found() {
        for path in [68, 576, 1280, 1400, 1499, 1500, 9000, 65_535] {
            for interface in [path, 1500.max(path), 9000.max(path), 65_535] {
                let (found, probes, search) = search(interface, path, true);
                assert_eq!(found, Some(path), "{interface} {search:?}");
                assert!(probes < 30, "{interface} {search:?}");
                assert!(!search.is_hole);
            }
        }
    }

    #[test]
    fn a_router_that_tells_is_remembered() {
        let (_, probes, search) = search(1500, 1400, true);
        assert_eq!(search.narrowed, [([10, 0, 0, 1].into(), 1400)]);
        assert_eq!(probes, 2);
    }

    #[test]
    fn a_hole_is_found_by_what_vanishes() {
        let (found, probes, search) = search(1500, 1400, false);
        assert_eq!((found, search.is_hole), (Some(1400), true));
        assert!(probes < 40, "{probes}");
    }

    #[test]
    fn a_target_that_never_answers_ends_the_search() {
        let mut search = Search::new(false);
        while let Some(size) = search.next() {
            search.take(size, Fate::Lost, false);
        }
        assert_eq!((search.found(), search.probes), (None, 3));
    }
}
