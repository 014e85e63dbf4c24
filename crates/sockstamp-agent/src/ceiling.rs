//! Says in the log what the ceiling of the cost does to the measurement.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use sockstamp_model::summary::{Cost, Summary};

use crate::threads::Threads;

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
    threads: Threads,
}

impl Default for CeilingLog {
    fn default() -> Self {
        Self {
            said: FREE,
            at: None,
            over: 0,
            threads: Threads::default(),
        }
    }
}

impl CeilingLog {
    /// Return a line if there is something new to say, once per minute at most.
    pub(crate) fn line(&mut self, now: Instant, summary: &Summary) -> Option<String> {
        let cost = summary.cost?;
        self.threads.look(now);
        if self.at.is_some_and(|at| now.duration_since(at) < PAUSE) {
            return None;
        }
        let state = State {
            lowered: cost.rate_cap.filter(|_| cost.lowered),
            one_of: summary.windows.map_or(1, |windows| windows.one_of),
            // A session that replaces another counts anew. What cost more for a moment, as starting
            // does, is not what the figures of now show.
            is_over: cost.over > self.over
                && cost.programs.saturating_add(cost.process) > cost.ceiling,
        };
        self.over = cost.over;
        if state == self.said {
            return None;
        }
        (self.said, self.at) = (state, Some(now));
        let mut line = state.line(cost.ceiling);
        if state.is_over {
            line.push_str(&over(&cost, self.threads.busiest(now)));
        }
        Some(line)
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
        line
    }
}

/// Say what costs, and what to do.
fn over(cost: &Cost, busiest: Option<(String, f64)>) -> String {
    let percent = |millionths: u32| f64::from(millionths) / 10_000.0;
    let busiest = busiest.map_or(String::new(), |(name, share)| {
        format!(", most of it the thread {name} with {:.2}%", 100.0 * share)
    });
    let cure = match cost.programs > cost.process {
        true => "name a [target], or turn groups off by a rule",
        false => "scrape less often, or turn off what needs threads",
    };
    format!(
        "; it costs more even so (programs {:.2}%, this process {:.2}%{busiest}): {cure}",
        percent(cost.programs),
        percent(cost.process),
    )
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
                programs: 9_000,
                process: 2_500,
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
        let what = "; it costs more even so (programs 0.90%, this process 0.25%";
        let cure = ": name a [target], or turn groups off by a rule";
        assert!(line.contains(what) && line.ends_with(cure), "{line}");
        // The cost was over until then, and is not any more.
        let line = after(5, &summary(6, 4, 3)).unwrap();
        assert!(line.ends_with("1/4 of the time"), "{line}");
        let line = after(6, &summary(100, 1, 3)).unwrap();
        assert_eq!(line, "max_cost 1%: all rates are as configured");
    }

    #[test]
    fn a_cost_below_the_ceiling_is_not_called_more() {
        let mut log = CeilingLog::default();
        let mut calm = summary(100, 1, 3);
        calm.cost.as_mut().unwrap().programs = 300;
        assert_eq!(log.line(Instant::now(), &calm), None);
    }

    #[test]
    fn what_costs_most_is_named() {
        let cost = Cost {
            programs: 1_000,
            process: 12_000,
            ..Cost::default()
        };
        assert_eq!(
            over(&cost, Some(("http".to_owned(), 0.009))),
            "; it costs more even so (programs 0.10%, this process 1.20%, most of it the thread http \
             with 0.90%): scrape less often, or turn off what needs threads"
        );
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
