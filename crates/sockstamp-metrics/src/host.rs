//! The counts of a measurement that no group has.

use std::borrow::Cow;

use sockstamp_model::stage::Direction;
use sockstamp_model::summary::{Lost, Summary};
use sockstamp_model::unpaired::Unpaired;
use sockstamp_model::verdict::Verdict;

use crate::catalogue::{
    ADOPTED, CONNECTIONS, COST_LOOKS, DROPS, FAILED_CONNECTIONS, LOST, OUT_OF_ORDER, PIPELINED,
    SYNS_AGAIN, UNPAIRED, VERDICTS, WINDOWS,
};
use crate::counters::Count;

/// Return every count of a summary that is not in groups. Those of 0 are among them, so that a rate
/// has a beginning.
#[must_use]
pub fn host_counters(summary: &Summary) -> Vec<Count> {
    let connections = &summary.connections;
    let mut counts = Vec::new();
    for verdict in Verdict::ALL {
        counts.push(match verdict.is_of_connection() {
            true => Count::new(
                &FAILED_CONNECTIONS,
                Some(verdict.name()),
                connections.failed(verdict),
            ),
            false => {
                let count = summary.verdicts.get(&verdict).copied().unwrap_or(0);
                Count::new(&VERDICTS, Some(verdict.name()), count)
            }
        });
    }
    counts.push(Count::new(&CONNECTIONS, Some("opened"), connections.opened));
    counts.push(Count::new(
        &CONNECTIONS,
        Some("accepted"),
        connections.accepted,
    ));
    counts.push(Count::new(&SYNS_AGAIN, None, connections.syns_again));
    counts.push(Count::new(&ADOPTED, None, summary.adopted));
    counts.push(Count::new(&OUT_OF_ORDER, None, summary.rx.out_of_order));
    counts.push(Count::new(&DROPS, None, summary.rx.drops));
    for direction in Direction::ALL {
        let unpaired = summary.direction(direction).unpaired;
        let pipelined = unpaired[Unpaired::Pipelined];
        counts.push(Count::new(&PIPELINED, Some(direction.name()), pipelined));
        counts.extend(unpaired.iter().map(|(reason, count)| {
            Count {
                metric: &UNPAIRED,
                labels: [("direction", direction.name()), ("reason", reason.name())]
                    .map(|(label, value)| (Cow::Borrowed(label), value.to_owned()))
                    .into(),
                value: count,
            }
        }));
    }
    let cost = summary.cost.unwrap_or_default();
    for (result, count) in [("below", cost.looks - cost.over), ("over", cost.over)] {
        counts.push(Count::new(&COST_LOOKS, Some(result), count));
    }
    let windows = summary.windows.unwrap_or_default();
    let in_time = windows.count - windows.late;
    for (result, count) in [
        ("in_time", in_time),
        ("late", windows.late),
        ("failed", windows.failed),
    ] {
        counts.push(Count::new(&WINDOWS, Some(result), count));
    }
    let losses = losses(&summary.lost);
    counts.extend(losses.map(|(reason, count)| Count::new(&LOST, Some(reason), count)));
    counts
}

/// Return every loss under the name that it has in JSON.
fn losses(lost: &Lost) -> [(&'static str, u64); 12] {
    // A new kind of loss does not compile until it is here.
    let Lost {
        ring,
        evicted,
        unmatched,
        flows,
        mptcp,
        host_path,
        neighbours,
        turned_away,
        groups,
        skipped,
        not_adopted,
        datagrams,
    } = *lost;
    [
        ("ring", ring),
        ("evicted", evicted),
        ("unmatched", unmatched),
        ("flows", flows),
        ("mptcp", mptcp),
        ("host_path", host_path),
        ("neighbours", neighbours),
        ("turned_away", turned_away),
        ("groups", groups),
        ("skipped", skipped),
        ("not_adopted", not_adopted),
        ("datagrams", datagrams),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_is_counted_once_under_its_metric() {
        let mut summary = Summary::default();
        summary.verdicts.insert(Verdict::Hol, 3);
        summary
            .connections
            .failed
            .insert(Verdict::ConnectRefused, 2);
        summary.lost.skipped = 9;
        let counts = host_counters(&summary);
        let of = |metric: &str, label: &str| {
            let named = counts
                .iter()
                .filter(|count| count.metric.name == metric && !count.labels.is_empty());
            let mut found = named.filter(|count| count.labels[0].1 == label);
            let value = found.next().map(|count| count.value);
            assert!(found.next().is_none(), "{label}");
            value
        };
        assert_eq!(of("sockstamp_verdicts", "hol"), Some(3));
        assert_eq!(
            of("sockstamp_failed_connections", "connect-refused"),
            Some(2)
        );
        assert_eq!(of("sockstamp_losses", "skipped"), Some(9));
        for verdict in Verdict::ALL {
            let metrics = ["sockstamp_verdicts", "sockstamp_failed_connections"];
            let found = metrics
                .iter()
                .filter_map(|metric| of(metric, verdict.name()));
            assert_eq!(found.count(), 1, "{verdict}");
        }
    }
}
