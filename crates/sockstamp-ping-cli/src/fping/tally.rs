//! The answers of a host.

use std::time::Duration;

use sockstamp_model::clock::Nanos;
use sockstamp_ping::Outcome;

use crate::ping::spread::Spread;

/// The results of the probes of a host.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) all: Span,
    /// Since the last summary of `-Q`.
    pub(super) recent: Span,
    /// The times of probes by their number, for `-C`; as many as were asked for.
    pub(super) times: Vec<Option<Nanos>>,
}

/// Probes of a span of time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) spread: Spread,
}

impl Span {
    fn take(&mut self, time: Option<Nanos>) {
        self.sent += 1;
        if let Some(time) = time {
            self.answered += 1;
            self.spread.record(time);
        }
    }

    /// Return the lost probes in percent, as fping(8) rounds them: down.
    pub(super) fn loss(&self) -> u64 {
        let lost = self.sent - self.answered;
        (lost * 100).checked_div(self.sent).unwrap_or_default()
    }

    pub(super) fn outage(&self, period: Duration) -> u128 {
        u128::from(self.sent - self.answered) * period.as_millis()
    }
}

impl Tally {
    /// Room for the times of that many probes.
    pub(super) fn new(times: u64) -> Self {
        Self {
            times: vec![None; usize::try_from(times).unwrap_or(0)],
            ..Self::default()
        }
    }

    /// Take a probe's result; one that was abandoned has none.
    pub(super) fn take(&mut self, seq: u64, outcome: &Outcome) {
        let time = match outcome {
            Outcome::Answered(answer) => Some(answer.times.rtt),
            Outcome::Abandoned => return,
            _ => None,
        };
        self.all.take(time);
        self.recent.take(time);
        let place = usize::try_from(seq - 1).unwrap_or(usize::MAX);
        if let Some(place) = self.times.get_mut(place) {
            *place = time;
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.all.answered > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_rounded_down_and_outage_is_periods() {
        let mut tally = Tally::new(3);
        for seq in 1..=3 {
            tally.take(seq, &Outcome::Lost);
        }
        tally.all.take(Some(Nanos::from_millis(1)));
        tally.take(4, &Outcome::Abandoned);
        assert_eq!((tally.all.sent, tally.all.loss()), (4, 75));
        assert_eq!(tally.all.outage(Duration::from_millis(200)), 600);
        assert_eq!(tally.times, [None; 3]);
    }
}
