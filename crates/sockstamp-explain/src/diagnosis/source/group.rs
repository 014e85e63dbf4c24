//! The waits of a group in sums: no single one of them is known.

use sockstamp_model::clock::Nanos;
use sockstamp_model::group::{GroupDirection, GroupHistogram, GroupSummary};
use sockstamp_model::part::Part;
use sockstamp_model::stage::{Direction, Stage};

use super::evidence::is_queued;
use super::message::{answered, been_read, connected, left, yields};
use crate::diagnosis::slow::Parts;
use crate::diagnosis::tree::Node;

/// All waits of one kind of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Kind {
    pub(in super::super) root: Node,
    pub(in super::super) count: u64,
    pub(in super::super) mean: Nanos,
    pub(in super::super) median: Nanos,
    pub(in super::super) p90: Nanos,
    /// Of the mean one.
    pub(in super::super) parts: Parts,
}

/// Return the waits of a group, by kind. The time between a read and a send is left out: it is
/// service, or the pause of one who asks.
pub(in super::super) fn of_group(group: &GroupSummary) -> Vec<Kind> {
    let stage = |stage: Stage| {
        let histogram = group.direction(stage.direction()).stages[stage].as_ref();
        histogram.filter(|histogram| histogram.count() > 0)
    };
    let connect = stage(Stage::ConnHandshake)
        .map(|all| kind(all, |mean| connected(mean, &parts(&group.tx, all.count()))));
    let accept =
        stage(Stage::ConnAccept).map(|all| kind(all, |mean| Parts::divide(mean, [], Node::Accept)));
    let answer = stage(Stage::PeerAnswer)
        .map(|all| kind(all, |mean| answered(mean, &parts(&group.rx, all.count()))));
    let all = [connect, accept, answer, sent(group), read(group)];
    all.into_iter().flatten().collect()
}

fn sent(group: &GroupSummary) -> Option<Kind> {
    let all = Some(group.tx.time(Direction::Tx)).filter(|all| all.count() > 0)?;
    let (stage, part) = (
        stages(&group.tx, all.count()),
        parts(&group.tx, all.count()),
    );
    Some(kind(all, |mean| {
        let mut divided = left(mean, &stage, &part);
        yields(
            &mut divided,
            is_queued(part(Part::Excess), part(Part::Path)),
        );
        divided
    }))
}

fn read(group: &GroupSummary) -> Option<Kind> {
    let all = Some(group.rx.time(Direction::Rx)).filter(|all| all.count() > 0)?;
    let (stage, part) = (
        stages(&group.rx, all.count()),
        parts(&group.rx, all.count()),
    );
    Some(kind(all, |mean| been_read(mean, &stage, &part)))
}

fn kind(all: &GroupHistogram, divided: impl FnOnce(u64) -> Parts) -> Kind {
    let mean = mean(all.sum_ns(), all.count());
    let quantile = |of: f64| all.quantile(of).unwrap_or_default();
    let parts = divided(mean);
    let first = parts.iter().next();
    Kind {
        root: first.map_or(Node::Delivery, |(node, _)| node.root()),
        count: all.count(),
        mean: Nanos(mean),
        median: quantile(0.5),
        p90: quantile(0.9),
        parts,
    }
}

fn mean(sum: u128, count: u64) -> u64 {
    let mean = sum.checked_div(u128::from(count)).unwrap_or(0);
    u64::try_from(mean).unwrap_or(u64::MAX)
}

/// Return the mean time in a stage, of this many messages.
fn stages(of: &GroupDirection, count: u64) -> impl Fn(Stage) -> u64 + '_ {
    move |stage| {
        of.stages[stage]
            .as_ref()
            .map_or(0, |all| mean(all.sum_ns(), count))
    }
}

/// Return the mean time in a part, of this many messages.
fn parts(of: &GroupDirection, count: u64) -> impl Fn(Part) -> u64 + '_ {
    move |part| of.parts[part].map_or(0, |all| mean(all.sum_ns, count))
}
