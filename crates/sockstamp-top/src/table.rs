//! The figures of an interval: from two readings of growing counters to the rows of a table.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use sockstamp_explain::diagnosis::{self, Scope};
use sockstamp_model::clock::Nanos;
use sockstamp_model::group::{GroupDirection, GroupHistogram, GroupKey, GroupSummary, Groups};
use sockstamp_model::part::{Part, PartMap};
use sockstamp_model::stage::{Direction, Stage, StageMap};
use sockstamp_model::summary::Summary;
use sockstamp_print::groups;

use super::units;

/// A snapshot of the counters.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) summary: Summary,
    pub(super) groups: Groups,
}

impl Snapshot {
    /// Return all of it, the groups of most messages first.
    pub(super) fn into_summary(mut self) -> Summary {
        groups::order(&mut self.groups, groups::Sort::default());
        Summary {
            groups: Some(self.groups),
            ..self.summary
        }
    }
}

/// A distribution in short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Short {
    pub(super) p50: Option<Nanos>,
    pub(super) p99: Option<Nanos>,
    pub(super) sum_ns: u128,
}

impl From<&GroupHistogram> for Short {
    fn from(histogram: &GroupHistogram) -> Self {
        Self {
            p50: histogram.quantile(0.5),
            p99: histogram.quantile(0.99),
            sum_ns: histogram.sum_ns(),
        }
    }
}

/// A direction of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Half {
    /// Per second.
    pub(super) messages: u64,
    /// Per second.
    pub(super) bytes: u64,
    /// Retransmissions in the whole interval.
    pub(super) retransmits: u64,
    pub(super) refused: u64,
    pub(super) stages: StageMap<Option<Short>>,
    /// Sums in nanoseconds.
    parts: PartMap<u128>,
    /// The time of sent messages until they left the host.
    pub(super) total: Short,
}

impl Half {
    fn new(direction: Direction, counted: &GroupDirection, time: Duration) -> Self {
        Self {
            messages: rate(counted.messages, time),
            bytes: rate(counted.bytes, time),
            retransmits: counted.retransmits,
            refused: counted.refused,
            stages: StageMap::from_fn(|stage| {
                let histogram = counted.stages[stage].as_ref()?;
                (!histogram.is_empty()).then(|| histogram.into())
            }),
            parts: PartMap::from_fn(|part| counted.parts[part].map_or(0, |sum| sum.sum_ns)),
            total: counted.time(direction).into(),
        }
    }

    /// The parts of a stage in percent of it, if it has more than a remainder.
    pub(super) fn parts(&self, stage: Stage) -> Vec<(Part, u64)> {
        let whole = Part::of(stage).map(|part| self.parts[part]).sum();
        let known: Vec<_> = Part::of(stage)
            .map(|part| (part, units::percent(self.parts[part], whole)))
            .filter(|&(_, percent)| percent > 0)
            .collect();
        let told = known.iter().any(|(part, _)| !part.is_rest());
        if told { known } else { Vec::new() }
    }

    /// Return the stage's share of the messages' time, in percent.
    pub(super) fn share(&self, stage: Stage) -> u64 {
        if !stage.has_share() {
            return 0;
        }
        let sum = self.stages[stage].map_or(0, |figures| figures.sum_ns);
        units::percent(sum, self.total.sum_ns)
    }
}

/// The owner of a row's messages.
#[expect(
    clippy::large_enum_variant,
    reason = "most rows are groups, and there are few"
)]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A group; the default stands for messages without a slot.
    Group(GroupKey),
    /// Groups that gave way to new ones.
    Ended,
    Flow(sockstamp_model::Flow),
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) name: String,
    pub(super) tx: Half,
    pub(super) rx: Half,
    /// The diagnosis of its time, in one sentence.
    pub(super) diagnosis: Option<String>,
}

impl Row {
    pub(super) fn new(key: Key, name: String, counted: &GroupSummary, time: Duration) -> Self {
        Self {
            key,
            name,
            tx: Half::new(Direction::Tx, &counted.tx, time),
            rx: Half::new(Direction::Rx, &counted.rx, time),
            diagnosis: diagnosis::of_group(counted, Scope::default().slow)
                .map(|(_, sentence)| sentence),
        }
    }

    /// Many groups in one.
    pub(super) fn is_rest(&self) -> bool {
        match &self.key {
            Key::Group(key) => key.is_other(),
            Key::Ended => true,
            Key::Flow(_) => false,
        }
    }

    pub(super) fn half(&self, direction: Direction) -> &Half {
        match direction {
            Direction::Tx => &self.tx,
            Direction::Rx => &self.rx,
        }
    }

    /// The direction that has the stage, and its figures.
    pub(super) fn stage(&self, stage: Stage) -> Option<Short> {
        self.half(stage.direction()).stages[stage]
    }

    pub(super) fn share(&self, stage: Stage) -> u64 {
        self.half(stage.direction()).share(stage)
    }

    /// Nanoseconds or percent; `None` where there is no message with this stage.
    fn shown(&self, shown: Shown, stage: Stage) -> Option<u64> {
        let figures = self.stage(stage)?;
        match shown {
            Shown::P50 => figures.p50.map(Nanos::as_nanos),
            Shown::P99 => figures.p99.map(Nanos::as_nanos),
            // Outside the messages' time.
            Shown::Share if !stage.has_share() => None,
            Shown::Share => Some(self.share(stage)),
        }
    }

    /// Return the text of a cell of the table.
    pub(super) fn cell(&self, shown: Shown, stage: Stage) -> Option<String> {
        let value = self.shown(shown, stage)?;
        Some(match shown {
            Shown::P50 | Shown::P99 => units::time(Nanos(value)),
            Shown::Share => format!("{value}%"),
        })
    }
}

/// The quantity in the cells of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    P50,
    P99,
    /// The stage's part of the time.
    Share,
}

impl Shown {
    pub(super) fn next(self) -> Self {
        match self {
            Self::P50 => Self::P99,
            Self::P99 => Self::Share,
            Self::Share => Self::P50,
        }
    }

    /// Return the text of the total's cell; its share would always be 100 %.
    pub(super) fn of_total(self, half: &Half) -> Option<String> {
        match self {
            Self::P50 => half.total.p50.map(units::time),
            Self::P99 => half.total.p99.map(units::time),
            Self::Share => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Share => "share",
        }
    }
}

/// Per second.
pub(super) fn rate(count: u64, time: Duration) -> u64 {
    let nanos = time.as_nanos();
    let rate = (u128::from(count) * 1_000_000_000 + nanos / 2).checked_div(nanos);
    rate.map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Return the rows of the counts between `earlier` and `now`, or since the start without `earlier`.
/// Groups without a message in between stay, with zeros: only an ended group vanishes.
pub(super) fn rows(earlier: Option<&Snapshot>, now: &Snapshot) -> Vec<Row> {
    let time = elapsed(earlier, now);
    let nothing = GroupSummary::default();
    let before: HashMap<_, _> = earlier
        .iter()
        .flat_map(|earlier| &earlier.groups.groups)
        .map(|group| (&group.key, group))
        .collect();
    let mut rows: Vec<_> = now
        .groups
        .groups
        .iter()
        .map(|group| {
            let counted = group.since(before.get(&group.key).unwrap_or(&&nothing));
            let name = group.key.to_string();
            Row::new(Key::Group(group.key.clone()), name, &counted, time)
        })
        .collect();
    let other = earlier.map_or(&nothing, |earlier| &earlier.groups.other);
    let ended = earlier.map_or(&nothing, |earlier| &earlier.groups.ended);
    for (key, name, group, before) in [
        (
            Key::Group(GroupKey::default()),
            "other",
            &now.groups.other,
            other,
        ),
        (Key::Ended, "ended", &now.groups.ended, ended),
    ] {
        if group.messages() > 0 {
            rows.push(Row::new(key, name.to_owned(), &group.since(before), time));
        }
    }
    rows
}

/// The sum of all groups.
pub(super) fn whole(earlier: Option<&Snapshot>, now: &Snapshot) -> GroupSummary {
    let sum = |snapshot: &Snapshot| snapshot.groups.top(0).1;
    let now = sum(now);
    earlier.map_or_else(|| now.clone(), |earlier| now.since(&sum(earlier)))
}

pub(super) fn elapsed(earlier: Option<&Snapshot>, now: &Snapshot) -> Duration {
    let start = earlier.map_or(0, |earlier| earlier.summary.duration.0);
    Duration::from_nanos(now.summary.duration.0.saturating_sub(start))
}

/// The order of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The time of all messages, largest first.
    Time,
    Messages,
    Bytes,
    Retransmits,
    Stage(Stage),
    Name,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Messages => "messages",
            Self::Bytes => "bytes",
            Self::Retransmits => "retransmits",
            Self::Stage(stage) => stage.name(),
            Self::Name => "name",
        }
    }

    /// All of them, for a table with these stages.
    pub(super) fn all(stages: &[Stage]) -> Vec<Self> {
        let first = [Self::Time, Self::Messages, Self::Bytes, Self::Retransmits];
        let stages = stages.iter().copied().map(Self::Stage);
        first
            .into_iter()
            .chain(stages)
            .chain([Self::Name])
            .collect()
    }

    /// Order by the largest value of `shown`; names from A on. Equal rows are in the order of their
    /// names, so that they do not move.
    pub(super) fn compare(self, shown: Shown, a: &Row, b: &Row) -> Ordering {
        let value = |row: &Row| match self {
            Self::Time => row.tx.total.sum_ns.saturating_add(row.rx.total.sum_ns),
            Self::Messages => u128::from(row.tx.messages) + u128::from(row.rx.messages),
            Self::Bytes => u128::from(row.tx.bytes) + u128::from(row.rx.bytes),
            Self::Retransmits => row.tx.retransmits.into(),
            Self::Stage(stage) => row.shown(shown, stage).unwrap_or(0).into(),
            Self::Name => 0,
        };
        value(b).cmp(&value(a)).then_with(|| a.name.cmp(&b.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_row_counts_messages_of_the_interval() {
        let (earlier, now) = sample::snapshots();
        let rows = rows(Some(&earlier), &now);
        let redis = rows
            .iter()
            .find(|row| row.name.starts_with("redis"))
            .unwrap();
        // 24 000 in two seconds.
        assert_eq!(redis.tx.messages, 12_000);
        assert_eq!(redis.share(Stage::TxQueue), 70);
        // The acknowledgement has no share.
        assert_eq!(redis.share(Stage::TxNetwork), 0);
        let since_start = super::rows(None, &now);
        let redis = since_start
            .iter()
            .find(|row| row.name.starts_with("redis"))
            .unwrap();
        assert_eq!(redis.tx.messages, 11_000);
    }

    #[test]
    fn idle_groups_stay_with_zeros() {
        let (_, now) = sample::snapshots();
        let mut later = now.clone();
        later.summary.duration = Nanos(now.summary.duration.0 + 1_000_000_000);
        let rows = rows(Some(&now), &later);
        assert_eq!(rows.len(), now.groups.groups.len() + 1);
        assert!(
            rows.iter()
                .all(|row| row.tx.messages == 0 && row.tx.total.p50.is_none())
        );
    }

    #[test]
    fn equal_rows_keep_the_order_of_names() {
        let row = |name: &str| {
            Row::new(
                Key::Ended,
                name.to_owned(),
                &GroupSummary::default(),
                Duration::from_secs(1),
            )
        };
        for order in Order::all(&[Stage::TxCopy]) {
            assert_eq!(
                order.compare(Shown::P99, &row("a"), &row("b")),
                Ordering::Less,
                "{order:?}"
            );
        }
    }
}
