//! Find the time in which an excess came.

/// The share of the excess that an episode has, at least.
const MOST: f64 = 0.8;
/// An episode that is a longer part of the whole time tells nothing.
const SHORT: f64 = 0.25;

/// The shortest time in which most of the first component's excess came. It describes the messages
/// that there are, and claims nothing of others: what comes at times has an episode by chance, too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Episode {
    /// Its first second, since 1970.
    pub begin: u64,
    /// Its length.
    pub seconds: u64,
    /// The length of the whole time.
    pub of: u64,
    /// Its share of the component's excess: of 1.
    pub share: f64,
}

impl Episode {
    /// Find it among the seconds that have slow messages, each with the excess of these, of `of`
    /// seconds in all. `None` if the excess is spread over more of them, or is none.
    pub(crate) fn shortest(mut excesses: Vec<(u64, f64)>, of: u64) -> Option<Self> {
        excesses.retain(|(_, excess)| *excess > 0.0);
        excesses.sort_unstable_by_key(|(second, _)| *second);
        let whole: f64 = excesses.iter().map(|(_, excess)| excess).sum();
        let mut shortest: Option<Self> = None;
        let (mut first, mut sum) = (0, 0.0);
        for &(second, excess) in &excesses {
            sum += excess;
            while sum - excesses[first].1 >= MOST * whole {
                sum -= excesses[first].1;
                first += 1;
            }
            let begin = excesses[first].0;
            let seconds = second - begin + 1;
            let is_shorter = shortest.is_none_or(|shortest| seconds < shortest.seconds);
            if sum >= MOST * whole && is_shorter {
                shortest = Some(Self {
                    begin,
                    seconds,
                    of,
                    share: sum / whole,
                });
            }
        }
        shortest.filter(|shortest| shortest.seconds as f64 <= SHORT * of as f64)
    }

    /// Return the second after it.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.begin.saturating_add(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn the_shortest_time_with_most_of_it_is_found() {
        let mut excesses: Vec<(u64, f64)> = (100..220).map(|second| (second, 1.0)).collect();
        assert_eq!(Episode::shortest(excesses.clone(), 120), None);
        for (_, excess) in &mut excesses[40..50] {
            *excess = 100.0;
        }
        let expected = Episode {
            begin: 140,
            seconds: 9,
            of: 120,
            share: 900.0 / 1110.0,
        };
        assert_eq!(Episode::shortest(excesses, 120), Some(expected));
        assert_eq!(Episode::shortest(Vec::new(), 120), None);
        assert_eq!(Episode::shortest(vec![(7, -1.0)], 120), None);
    }

    #[test]
    fn the_end_of_a_burst_is_in_it_after_seconds_without_a_slow_message() {
        let excesses = vec![(10, 50.0), (14, 50.0), (90, 1.0)];
        let episode = Episode::shortest(excesses, 100).unwrap();
        assert_eq!((episode.begin, episode.seconds, episode.end()), (10, 5, 15));
    }

    #[test]
    fn no_shorter_time_has_as_much() {
        for seed in 0..300 {
            let mut rng = Rng::with_seed(seed);
            let count = rng.u64(1..60);
            let excesses: Vec<_> = (0..count)
                .map(|second| (second, f64::from(rng.u32(..100))))
                .collect();
            let whole: f64 = excesses.iter().map(|(_, excess)| excess).sum();
            let has_enough = |length: &usize| {
                let mut times = excesses.windows(*length);
                times.any(|time| {
                    let sum: f64 = time.iter().map(|(_, excess)| excess).sum();
                    whole > 0.0 && sum >= MOST * whole
                })
            };
            let expected = (1..=excesses.len()).find(has_enough);
            let found = Episode::shortest(excesses.clone(), 400);
            let length = found.map(|found| usize::try_from(found.seconds).unwrap());
            assert_eq!(length, expected, "{seed}");
        }
    }
}
