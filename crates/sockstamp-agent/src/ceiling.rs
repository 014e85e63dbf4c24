//! Says in the log what the ceiling of the cost does to the measurement.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use sockstamp_model::summary::Summary;

/// The shortest time between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// The way in which the measurement keeps its cost down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// The rate below which it is held, in messages per second, flow and direction.
    lowered: Option<u32>,
    /// The inverse of the part of the time that is measured.
    one_of: u32,
    /// The cheapest way costs more than the ceiling.
    is_over: bool,
}

/// No rate is held back.
const FREE: State = State {
    lowered: None,
    one_of: 1,
    is_over: false,
};

/// The last line, and what it was about.
#[derive(Debug)]
pub(crate) struct CeilingLog {
    said: State,
    at: Option<Instant>,
    /// Looks that found the cost above the ceiling, until now.
    over: u64,
}

impl Default for CeilingLog {
    fn default() -> Self {
        Self {
            said: FREE,
            at: None,
            over: 0,
        }
    }
}

impl CeilingLog {
    /// Return a line if there is something new to say, once per minute at most.
    pub(crate) fn line(&mut self, now: Instant, summary: &Summary) -> Option<String> {
        let cost = summary.cost?;
        if self.at.is_some_and(|at| now.duration_since(at) < PAUSE) {
            return None;
        }
        let state = State {
            lowered: cost.rate_cap.filter(|_| cost.lowered),
            one_of: summary.windows.map_or(1, |windows| windows.one_of),
            // A session that replaces another counts anew.
            is_over: cost.over > self.over,
        };
        self.over = cost.over;
        if state == self.said {
            return None;
        }
        (self.said, self.at) = (state, Some(now));
        Some(state.line(cost.ceiling))
    }
}

impl State {
    /// `ceiling` is in millionths of one core.
    fn line(self, ceiling: u32) -> String {
        let percent = f64::from(ceiling) / 10_000.0;
        let mut line = format!("max_cost {percent}%: ");
        // Writing to a string cannot fail.
        let _ = match self.lowered {
            Some(rate) => write!(
                line,
                "{rate} messages per second, flow and direction are measured"
            ),
            None => write!(line, "all rates are as configured"),
        };
        if self.one_of > 1 {
            let _ = write!(line, ", in windows of 1/{} of the time", self.one_of);
        }
        if self.is_over {
            line.push_str("; it costs more even so");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::summary::{Cost, Windows};

    use super::*;

    fn summary(rate_cap: u32, one_of: u32, over: u64) -> Summary {
        Summary {
            cost: Some(Cost {
                ceiling: 10_000,
                rate_cap: Some(rate_cap),
                lowered: rate_cap < 100,
                over,
                ..Cost::default()
            }),
            windows: (one_of > 1).then(|| Windows {
                one_of,
                ..Windows::default()
            }),
            ..Summary::default()
        }
    }

    #[test]
    fn each_change_is_a_line_and_no_change_is_none() {
        let mut log = CeilingLog::default();
        let begun = Instant::now();
        let mut after =
            |minutes: u32, summary: &Summary| log.line(begun + PAUSE * minutes, summary);
        assert_eq!(after(0, &Summary::default()), None);
        assert_eq!(after(0, &summary(100, 1, 0)), None);
        let line = after(1, &summary(50, 1, 0)).unwrap();
        assert_eq!(
            line,
            "max_cost 1%: 50 messages per second, flow and direction are measured"
        );
        assert_eq!(after(2, &summary(50, 1, 0)), None);
        let line = after(3, &summary(6, 4, 0)).unwrap();
        assert!(
            line.ends_with(
                "6 messages per second, flow and direction are measured, in windows of 1/4 of the time"
            ),
            "{line}"
        );
        let line = after(4, &summary(6, 4, 3)).unwrap();
        assert!(line.ends_with("; it costs more even so"), "{line}");
        // The cost was over until then, and is not any more.
        let line = after(5, &summary(6, 4, 3)).unwrap();
        assert!(line.ends_with("1/4 of the time"), "{line}");
        let line = after(6, &summary(100, 1, 3)).unwrap();
        assert_eq!(line, "max_cost 1%: all rates are as configured");
    }

    #[test]
    fn lines_are_a_minute_apart_and_the_last_state_is_said() {
        let mut log = CeilingLog::default();
        let begun = Instant::now();
        assert!(log.line(begun, &summary(50, 1, 0)).is_some());
        for (seconds, rate) in [(1, 25), (30, 12), (59, 6)] {
            let now = begun + Duration::from_secs(seconds);
            assert_eq!(log.line(now, &summary(rate, 1, 0)), None);
        }
        let line = log.line(begun + PAUSE, &summary(6, 1, 0)).unwrap();
        assert!(line.contains(" 6 messages"), "{line}");
    }
}
