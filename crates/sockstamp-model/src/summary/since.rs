//! The counts of an interval: the difference of two snapshots of one measurement.

use std::collections::{BTreeMap, HashMap};

use super::{Connections, DirectionSummary, Resent, Summary};
use crate::group::{GroupSummary, Groups};
use crate::histogram::Histogram;
use crate::part::{PartMap, PartSummary};
use crate::stage::StageMap;
use crate::unpaired::UnpairedCounts;
use crate::verdict::Verdict;

impl Summary {
    /// Return the counts since an earlier snapshot of the same measurement. Extremes are those of
    /// all time within their bucket. What only the end of a measurement shows is left out:
    /// interfaces, listeners, quotas, NICs.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let groups = self.groups.as_ref();
        let groups = groups.map(|now| groups_since(now, earlier.groups.as_ref()));
        Self {
            duration: self.duration.saturating_sub(earlier.duration),
            tx: direction(&self.tx, &earlier.tx),
            rx: direction(&self.rx, &earlier.rx),
            absent: self.absent.clone(),
            verdicts: verdicts(&self.verdicts, &earlier.verdicts),
            in_flight: self.in_flight,
            connections: connections(&self.connections, &earlier.connections),
            groups,
            cost: self.cost,
            ..Self::default()
        }
    }
}

fn direction(now: &DirectionSummary, then: &DirectionSummary) -> DirectionSummary {
    DirectionSummary {
        messages: now.messages.saturating_sub(then.messages),
        measured: now.measured.saturating_sub(then.measured),
        bytes: now.bytes.saturating_sub(then.bytes),
        estimate: now.estimate,
        retransmits: now.retransmits.saturating_sub(then.retransmits),
        resent: (now.resent).map(|now| resent(now, then.resent.unwrap_or_default())),
        segments: (now.segments).map(|now| now.saturating_sub(then.segments.unwrap_or(0))),
        out_of_order: now.out_of_order.saturating_sub(then.out_of_order),
        unpaired: UnpairedCounts::from_fn(|why| {
            now.unpaired[why].saturating_sub(then.unpaired[why])
        }),
        drops: now.drops.saturating_sub(then.drops),
        drop_reasons: reasons(&now.drop_reasons, &then.drop_reasons),
        stages: StageMap::from_fn(|stage| {
            let nothing = Histogram::new();
            let then = then.stages[stage].as_ref().unwrap_or(&nothing);
            Some(now.stages[stage].as_ref()?.since(then))
        }),
        parts: PartMap::from_fn(|part| {
            let then = then.parts[part].unwrap_or_default();
            now.parts[part].map(|now| PartSummary {
                count: now.count.saturating_sub(then.count),
                sum_ns: now.sum_ns.saturating_sub(then.sum_ns),
                max_ns: now.max_ns,
            })
        }),
        sent: now.sent.since(&then.sent),
        begins_unseen: now.begins_unseen.saturating_sub(then.begins_unseen),
        total: now.total.since(&then.total),
        ..DirectionSummary::default()
    }
}

fn reasons(
    now: &BTreeMap<Box<str>, u64>,
    then: &BTreeMap<Box<str>, u64>,
) -> BTreeMap<Box<str>, u64> {
    let since = now.iter().map(|(reason, count)| {
        let earlier = then.get(reason).copied().unwrap_or(0);
        (reason.clone(), count.saturating_sub(earlier))
    });
    since.filter(|(_, count)| *count > 0).collect()
}

fn resent(now: Resent, then: Resent) -> Resent {
    Resent {
        syns: now.syns.saturating_sub(then.syns),
        probes: now.probes.saturating_sub(then.probes),
        window: now.window.saturating_sub(then.window),
        fast: now.fast.saturating_sub(then.fast),
        timeouts: now.timeouts.saturating_sub(then.timeouts),
        needless: now.needless.saturating_sub(then.needless),
    }
}

fn verdicts(now: &BTreeMap<Verdict, u64>, then: &BTreeMap<Verdict, u64>) -> BTreeMap<Verdict, u64> {
    let before = |verdict: &Verdict| then.get(verdict).copied().unwrap_or(0);
    let since =
        |(verdict, count): (&Verdict, &u64)| (*verdict, count.saturating_sub(before(verdict)));
    now.iter().map(since).collect()
}

fn connections(now: &Connections, then: &Connections) -> Connections {
    Connections {
        opened: now.opened.saturating_sub(then.opened),
        accepted: now.accepted.saturating_sub(then.accepted),
        syns_again: now.syns_again.saturating_sub(then.syns_again),
        failed: verdicts(&now.failed, &then.failed),
    }
}

fn groups_since(now: &Groups, then: Option<&Groups>) -> Groups {
    let nothing = GroupSummary::default();
    let before: HashMap<_, _> = then
        .iter()
        .flat_map(|then| &then.groups)
        .map(|group| (&group.key, group))
        .collect();
    let of = |group: &GroupSummary| group.since(before.get(&group.key).unwrap_or(&&nothing));
    Groups {
        other: now.other.since(then.map_or(&nothing, |then| &then.other)),
        ended: now.ended.since(then.map_or(&nothing, |then| &then.ended)),
        ended_groups: now.ended_groups - then.map_or(0, |then| then.ended_groups),
        ..Groups::new(now.by.clone(), now.groups.iter().map(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Nanos;
    use crate::stage::Stage;

    fn summary(seconds: u64, messages: u64, slow: u64) -> Summary {
        let mut summary = Summary {
            duration: Nanos::from_secs(seconds),
            ..Summary::default()
        };
        let mut times = Histogram::new();
        times.record(Nanos(1_000), messages);
        times.record(Nanos(50_000_000), slow);
        summary.tx.messages = messages + slow;
        summary.tx.stages[Stage::TxQueue] = Some(times.clone());
        summary.tx.sent = times;
        summary.verdicts.insert(Verdict::Valid, messages + slow);
        summary.verdicts.insert(Verdict::Reset, 2);
        summary
    }

    #[test]
    fn an_interval_has_what_came_since() {
        let (then, now) = (summary(2, 100, 1), summary(5, 130, 11));
        let since = now.since(&then);
        assert_eq!(since.duration, Nanos::from_secs(3));
        assert_eq!(since.tx.messages, 40);
        let queue = since.tx.stages[Stage::TxQueue].as_ref().unwrap();
        assert_eq!(queue.count(), 40);
        assert_eq!(queue.sum_ns(), 30 * 1_000 + 10 * 50_000_000);
        assert_eq!(queue.quantile(0.9), Some(Nanos(50_000_000)));
        assert_eq!(since.verdict(Verdict::Valid), 40);
        assert_eq!(since.verdict(Verdict::Reset), 0);
        assert_eq!(now.since(&Summary::default()).tx, now.tx);
    }
}
