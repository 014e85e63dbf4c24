//! Lanes of a track, on each of which messages follow each other.

/// The end of the last message on each lane.
#[derive(Debug, Default)]
pub(super) struct Lanes(Vec<u64>);

impl Lanes {
    /// Return the lane for an item from `begin` to `end`: among those that end before, the one that
    /// ends last.
    pub(super) fn take(&mut self, begin: u64, end: u64) -> usize {
        let free = self
            .0
            .iter()
            .enumerate()
            .filter(|(_, last)| **last <= begin);
        let lane = match free.max_by_key(|(_, last)| **last) {
            Some((lane, _)) => lane,
            None => {
                self.0.push(0);
                self.0.len() - 1
            }
        };
        self.0[lane] = end;
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
