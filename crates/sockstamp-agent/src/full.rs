//! Says in the log which limits leave something out.

use std::time::{Duration, Instant};

use sockstamp_model::summary::Summary;
use sockstamp_model::verdict::Verdict;

/// The shortest time between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// A limit that is reached, and how often it has left something out.
type Reached = (&'static str, u64);

/// Everything that limits of the settings have left out of a measurement.
fn reached(summary: &Summary) -> [Reached; 3] {
    let map_full = summary.verdicts.get(&Verdict::MapFull);
    [
        (
            "connections and UDP sockets beyond max_memory or max_flows, not measured",
            summary.lost.turned_away,
        ),
        (
            "messages beyond max_memory, refused",
            map_full.copied().unwrap_or_default(),
        ),
        ("look-ups of groups beyond max_groups", summary.lost.groups),
    ]
}

/// The counts of the last line.
#[derive(Debug, Default)]
pub(crate) struct FullLog {
    said: [u64; 3],
    at: Option<Instant>,
}

impl FullLog {
    /// Return a line if more was left out, once per minute at most.
    pub(crate) fn line(&mut self, now: Instant, summary: &Summary) -> Option<String> {
        if self.at.is_some_and(|at| now.duration_since(at) < PAUSE) {
            return None;
        }
        let mut new = Vec::new();
        for ((what, count), said) in reached(summary).into_iter().zip(&mut self.said) {
            // A session that replaces another counts anew.
            let more = count.checked_sub(*said).unwrap_or(count);
            *said = count;
            if more > 0 {
                new.push(format!("{what}: {more}"));
            }
        }
        if new.is_empty() {
            return None;
        }
        self.at = Some(now);
        Some(new.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::summary::Lost;

    use super::*;

    fn summary(turned_away: u64, map_full: u64) -> Summary {
        Summary {
            lost: Lost {
                turned_away,
                ..Lost::default()
            },
            verdicts: [(Verdict::MapFull, map_full)].into(),
            ..Summary::default()
        }
    }

    #[test]
    fn what_is_left_out_is_said_once_and_then_what_comes_on_top() {
        let mut log = FullLog::default();
        let begun = Instant::now();
        let mut after = |seconds: u64, summary: &Summary| {
            log.line(begun + Duration::from_secs(seconds), summary)
        };
        assert_eq!(after(0, &summary(0, 0)), None);
        let beyond = "connections and UDP sockets beyond max_memory or max_flows, not measured";
        assert_eq!(after(1, &summary(3, 0)), Some(format!("{beyond}: 3")));
        assert_eq!(after(2, &summary(5, 0)), None, "too soon");
        let both = format!("{beyond}: 4; messages beyond max_memory, refused: 1");
        assert_eq!(after(61, &summary(7, 1)), Some(both));
        assert_eq!(after(200, &summary(7, 1)), None, "nothing new");
        // Another session.
        assert_eq!(after(300, &summary(2, 0)), Some(format!("{beyond}: 2")));
    }
}
