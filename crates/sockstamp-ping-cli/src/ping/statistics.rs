//! Keep statistics of all events: counts and distributions of fixed size for any number of probes.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::group::GroupHistogram;
use sockstamp_model::histogram::Histogram;
use sockstamp_ping::{AnswerKind, Fallback, Outcome, RxKind, Times, TxKind};

use super::jitter::Jitter;
use super::spread::{MovingAverage, Spread};

/// Counts of probes by result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) lost: u64,
    pub(super) refused: u64,
    pub(super) not_sent: u64,
    pub(super) abandoned: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
    pub(super) late: u64,
    pub(super) truncated: u64,
    pub(super) strays: u64,
    /// ICMP errors about probes that were reported lost before.
    pub(super) late_refusals: u64,
    /// Answers that are ICMP's "port unreachable".
    pub(super) closed_ports: u64,
}

impl Counts {
    fn take_outcome(&mut self, outcome: &Outcome) {
        self.sent += u64::from(!matches!(outcome, Outcome::NotSent(_)));
        match outcome {
            Outcome::Answered(answer) => {
                self.answered += 1;
                self.reordered += u64::from(answer.reordered);
                self.truncated += u64::from(answer.missing > 0);
                self.closed_ports += u64::from(answer.kind == AnswerKind::PortUnreachable);
            }
            Outcome::Lost => self.lost += 1,
            Outcome::Refused(_) => self.refused += 1,
            Outcome::Abandoned => self.abandoned += 1,
            Outcome::NotSent(_) => self.not_sent += 1,
        }
    }

    /// Return the share of awaited probes without an answer in time, in tenths of a percent.
    pub(super) fn loss_per_mille(&self) -> Option<u64> {
        let decided = self.answered + self.lost + self.refused;
        let failed = self.lost + self.refused;
        (failed * 1000 + decided / 2).checked_div(decided)
    }

    /// Return the other counters with their names; they are mostly zero.
    pub(super) fn rare(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("refused", self.refused),
            ("not sent", self.not_sent),
            ("abandoned", self.abandoned),
            ("duplicates", self.duplicates),
            ("reordered", self.reordered),
            ("late", self.late),
            ("truncated", self.truncated),
            ("strays", self.strays),
            ("refused late", self.late_refusals),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
    }
}

/// Statistics of one target: some hundred bytes, so that there may be many targets.
#[derive(Debug, Default)]
pub(super) struct OfTarget {
    pub(super) counts: Counts,
    pub(super) rtt: GroupHistogram,
    pub(super) jitter: Jitter,
    pub(super) spread: Spread,
    pub(super) average: MovingAverage,
}

/// The sources of a round trip's stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamps {
    pub(super) tx: TxKind,
    pub(super) rx: RxKind,
}

impl From<&Times> for Stamps {
    fn from(times: &Times) -> Self {
        Self {
            tx: times.tx,
            rx: times.rx,
        }
    }
}

/// Statistics of all targets.
#[derive(Debug, Default)]
pub(super) struct OfAll {
    pub(super) counts: Counts,
    /// The stages of the way, by name, in their order.
    pub(super) send: Histogram,
    pub(super) neighbour: Histogram,
    pub(super) qdisc: Histogram,
    pub(super) rtt: Histogram,
    pub(super) wakeup: Histogram,
    pub(super) read: Histogram,
    pub(super) user_rtt: Histogram,
    pub(super) prober_delay: Histogram,
    /// Round trips by sources of stamps, in the order of their first occurrence.
    pub(super) stamps: Vec<(Stamps, u64)>,
    pub(super) fallbacks: BTreeMap<&'static str, u64>,
}

impl OfAll {
    /// The stages of a round trip in user space's view, in their order. The kernel gives no stamp
    /// between `rx.stack` and `rx.wakeup`.
    pub(super) fn stages(&self) -> [(&'static str, &Histogram); 6] {
        [
            ("tx.copy", &self.send),
            ("tx.neighbour", &self.neighbour),
            ("tx.qdisc", &self.qdisc),
            ("network", &self.rtt),
            ("rx.stack+wakeup", &self.wakeup),
            ("rx.app", &self.read),
        ]
    }

    fn take_times(&mut self, times: &Times) {
        self.rtt.record(times.rtt, 1);
        self.user_rtt.record(times.user_rtt, 1);
        self.prober_delay.record(times.prober_delay(), 1);
        let waits = &times.waits;
        for (histogram, wait) in [
            (&mut self.send, waits.send),
            (&mut self.neighbour, waits.neighbour),
            (&mut self.qdisc, waits.qdisc),
            (&mut self.wakeup, waits.wakeup),
            (&mut self.read, waits.read),
        ] {
            if let Some(wait) = wait {
                histogram.record(wait, 1);
            }
        }
        self.take_stamps(times.into());
        if let Some(name) = times.fallback.map(Fallback::name) {
            *self.fallbacks.entry(name).or_default() += 1;
        }
    }

    fn take_stamps(&mut self, stamps: Stamps) {
        match self.stamps.iter_mut().find(|(known, _)| *known == stamps) {
            Some((_, count)) => *count += 1,
            None => self.stamps.push((stamps, 1)),
        }
    }
}

/// Everything that was seen.
#[derive(Debug)]
pub(super) struct Statistics {
    pub(super) targets: Vec<OfTarget>,
    pub(super) all: OfAll,
}

impl Statistics {
    pub(super) fn new(targets: usize) -> Self {
        Self {
            targets: std::iter::repeat_with(OfTarget::default)
                .take(targets)
                .collect(),
            all: OfAll::default(),
        }
    }

    /// Count a probe's result.
    pub(super) fn outcome(&mut self, target: usize, outcome: &Outcome) {
        self.count(Some(target), |counts| counts.take_outcome(outcome));
        let Outcome::Answered(answer) = outcome else {
            return;
        };
        if let Some(target) = self.targets.get_mut(target) {
            target.rtt.record(answer.times.rtt, 1);
            target.jitter.record(answer.times.rtt);
            target.spread.record(answer.times.rtt);
            target.average.record(answer.times.rtt);
        }
        self.all.take_times(&answer.times);
    }

    /// Something that is no outcome.
    pub(super) fn count(&mut self, target: Option<usize>, count: impl Fn(&mut Counts)) {
        count(&mut self.all.counts);
        if let Some(target) = target.and_then(|target| self.targets.get_mut(target)) {
            count(&mut target.counts);
        }
    }

    /// Return the jitter of a single target: differences between round trips to several targets
    /// mean nothing.
    pub(super) fn jitter(&self) -> Option<Nanos> {
        match self.targets.as_slice() {
            [only] => only.jitter.value(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{answer, refusal};
    use super::*;

    #[test]
    fn each_outcome_is_counted_for_its_target_and_for_all() {
        let mut statistics = Statistics::new(2);
        for outcome in [
            Outcome::Answered(answer(10)),
            Outcome::Lost,
            Outcome::Refused(refusal()),
            Outcome::Abandoned,
            Outcome::NotSent(std::io::Error::from_raw_os_error(101)),
        ] {
            statistics.outcome(1, &outcome);
        }
        statistics.count(None, |counts| counts.strays += 1);
        let expected = Counts {
            sent: 4,
            answered: 1,
            lost: 1,
            refused: 1,
            not_sent: 1,
            abandoned: 1,
            ..Counts::default()
        };
        assert_eq!(statistics.targets[0].counts, Counts::default());
        assert_eq!(statistics.targets[1].counts, expected);
        assert_eq!(
            statistics.all.counts,
            Counts {
                strays: 1,
                ..expected
            }
        );
        // Abandoned probes are not lost.
        assert_eq!(expected.loss_per_mille(), Some(667));
        assert_eq!(Counts::default().loss_per_mille(), None);
    }

    #[test]
    fn stages_add_up_to_the_view_of_user_space() {
        let mut statistics = Statistics::new(1);
        statistics.outcome(0, &Outcome::Answered(answer(10)));
        let sum: u128 = statistics
            .all
            .stages()
            .iter()
            .map(|(_, stage)| stage.sum_ns())
            .sum();
        assert_eq!(sum, statistics.all.user_rtt.sum_ns());
        assert_eq!(
            statistics.all.prober_delay.sum_ns(),
            sum - statistics.all.rtt.sum_ns() - statistics.all.qdisc.sum_ns()
        );
    }

    #[test]
    fn sources_of_stamps_are_counted_in_order_of_their_first_use() {
        let mut statistics = Statistics::new(1);
        let mut fallen_back = answer(10);
        fallen_back.times.tx = TxKind::User;
        fallen_back.times.rx = RxKind::User;
        fallen_back.times.fallback = Some(Fallback::NoTxStamp);
        for answer in [answer(10), fallen_back, answer(11)] {
            statistics.outcome(0, &Outcome::Answered(answer));
        }
        let counts: Vec<_> = statistics
            .all
            .stamps
            .iter()
            .map(|(stamps, count)| (stamps.tx, *count))
            .collect();
        assert_eq!(counts, [(TxKind::Software, 2), (TxKind::User, 1)]);
        assert_eq!(
            statistics.all.fallbacks,
            BTreeMap::from([("no-tx-stamp", 1)])
        );
    }
}
