//! Conditions at which the last minutes are kept unasked.

use std::time::{Duration, Instant};

use sockstamp_model::clock::Nanos;
use sockstamp_model::message::Message;

use crate::config::KeepWhen;

/// Messages from which on a quantile says something.
const LEAST: u64 = 20;

/// The messages of a window, by weight.
#[derive(Debug)]
struct Tally {
    begun: Instant,
    all: u64,
    above: u64,
}

impl Tally {
    fn new(begun: Instant) -> Self {
        Self {
            begun,
            all: 0,
            above: 0,
        }
    }
}

/// The conditions, and how near they are.
#[derive(Debug)]
pub(super) struct Watch {
    conditions: Vec<(KeepWhen, Tally)>,
    /// No moment is kept twice.
    rest: Duration,
    kept: Option<Instant>,
}

impl Watch {
    /// Watch for these; after one was met, none is for a while.
    pub(super) fn new(conditions: &[KeepWhen], rest: Duration) -> Self {
        let now = Instant::now();
        let conditions = conditions.iter();
        Self {
            conditions: conditions
                .map(|condition| (condition.clone(), Tally::new(now)))
                .collect(),
            rest,
            kept: None,
        }
    }

    pub(super) fn push(&mut self, message: &Message) {
        if !message.verdict.is_valid() {
            return;
        }
        for (condition, tally) in &mut self.conditions {
            if let Some(took) = message.stages[condition.stage] {
                let weight = u64::from(message.weight);
                tally.all += weight;
                if took > Nanos::from(condition.above) {
                    tally.above += weight;
                }
            }
        }
    }

    /// Return the time until a window ends that has messages.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let counting = self.conditions.iter().filter(|(_, tally)| tally.all > 0);
        let left =
            counting.map(|(condition, tally)| condition.window.saturating_sub(now - tally.begun));
        left.min()
    }

    /// End the windows that are over; return the condition that was met in one, in words.
    pub(super) fn met(&mut self, now: Instant) -> Option<String> {
        let mut met = None;
        for (condition, tally) in &mut self.conditions {
            if now - tally.begun < condition.window {
                continue;
            }
            let Tally { all, above, .. } = std::mem::replace(tally, Tally::new(now));
            let allowed = (1.0 - condition.quantile) * all as f64;
            if all >= LEAST && above as f64 > allowed {
                met.get_or_insert_with(|| {
                    format!(
                        "{} took more than {:?} in {above} of {all} messages",
                        condition.stage.name(),
                        condition.above
                    )
                });
            }
        }
        let has_rested = self.kept.is_none_or(|kept| now - kept >= self.rest);
        let met = met.filter(|_| has_rested)?;
        self.kept = Some(now);
        Some(met)
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;
    use sockstamp_model::stage::{Direction, Stage};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watch(text: &str) -> Watch {
        let condition: KeepWhen = toml::from_str(text).unwrap();
        Watch::new(&[condition], 30 * SECOND)
    }

    fn push(watch: &mut Watch, count: u32, took: Nanos) {
        let mut message = fixture::message(Direction::Rx);
        message.stages[Stage::RxApp] = Some(took);
        message.weight = count;
        watch.push(&message);
    }

    #[test]
    fn a_condition_is_met_by_the_share_above_its_bound() {
        let mut watch = watch("stage = \"rx.app\"\nabove = \"100ms\"\nfor = \"10s\"");
        let (fast, slow) = (Nanos(1_000), Nanos(100_000_001));
        let begin = Instant::now();
        let mut round = |count, slow_ones, second| {
            push(&mut watch, count, fast);
            push(&mut watch, slow_ones, slow);
            watch.met(begin + second * SECOND)
        };
        assert_eq!(round(99, 2, 9), None, "the window is not over");
        let met = round(0, 0, 11).unwrap();
        assert!(
            met.contains("rx.app took more than 100ms in 2 of 101"),
            "{met}"
        );
        assert_eq!(round(0, 100, 22), None, "it rests");
        assert_eq!(round(991, 9, 50), None, "a hundredth may be slow");
        assert_eq!(round(0, 19, 70), None, "there are too few messages");
        assert!(round(0, 20, 90).is_some());
    }

    #[test]
    fn windows_are_waited_for_while_they_have_messages() {
        let mut watch = watch("stage = \"rx.app\"\nabove = \"100ms\"\nquantile = 0.5");
        let now = Instant::now();
        assert_eq!(watch.wait(now), None);
        push(&mut watch, 1, Nanos(1));
        assert!(watch.wait(now + SECOND).unwrap() <= 60 * SECOND);
        assert_eq!(watch.met(now + 61 * SECOND), None);
        assert_eq!(watch.wait(now + 61 * SECOND), None);
    }
}
