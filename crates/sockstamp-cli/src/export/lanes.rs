//! Lanes of a track, on each of which messages follow each other.

use std::collections::BTreeSet;

/// The end of the last message on each lane, and the lane.
#[derive(Debug, Default)]
pub(super) struct Lanes(BTreeSet<(u64, usize)>);

impl Lanes {
    /// Return the lane for an item from `begin` to `end`: among those that end before, the one that
    /// ends last.
    pub(super) fn take(&mut self, begin: u64, end: u64) -> usize {
        let free = self.0.range(..=(begin, usize::MAX)).next_back().copied();
        let lane = match free {
            Some((last, lane)) => {
                self.0.remove(&(last, lane));
                lane
            }
            None => self.0.len(),
        };
        self.0.insert((end, lane));
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_lies_on_lanes_of_its_own() {
        let mut lanes = Lanes::default();
        let spans = [
            (10, 20),
            (20, 30),
            (15, 40),
            (30, 35),
            (5, 50),
            (41, 42),
            (36, 37),
        ];
        let taken = spans.map(|(begin, end)| lanes.take(begin, end));
        assert_eq!(taken, [0, 0, 1, 0, 2, 1, 0]);
    }
}
