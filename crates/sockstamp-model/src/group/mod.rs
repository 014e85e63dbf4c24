//! Messages summed by whose they are.
//!
//! A **group** sums results by the process that made the call, the service's port, the flow, ...,
//! or several of these [`Dimension`]s at once. The number of groups is bounded. Messages whose
//! group finds no slot are summed in [`Groups::other`], so that the groups and the rest always add
//! up to the whole.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Serialize;

use crate::stage::Direction;

mod coarse;
mod dimension;
mod direction;
mod key;
mod record;

pub use coarse::{GroupHistogram, SLOTS, slot};
pub use dimension::{Dimension, Grouping};
pub use direction::GroupDirection;
pub use key::{GroupCgroup, GroupInterface, GroupKey, GroupNetns};

/// The messages of one group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GroupSummary {
    /// The common values; the default for [`Groups::other`].
    pub key: GroupKey,
    /// Sent messages.
    pub tx: GroupDirection,
    /// Received messages.
    pub rx: GroupDirection,
}

impl GroupSummary {
    /// A group of this key without messages.
    #[must_use]
    pub fn new(key: GroupKey) -> Self {
        Self {
            key,
            ..Self::default()
        }
    }

    /// The messages of one direction.
    #[must_use]
    pub fn direction(&self, direction: Direction) -> &GroupDirection {
        match direction {
            Direction::Tx => &self.tx,
            Direction::Rx => &self.rx,
        }
    }

    /// Messages of both directions.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.tx.messages.saturating_add(self.rx.messages)
    }

    /// Time that the measured messages of both directions took, in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.tx.sent.sum_ns().saturating_add(self.rx.total.sum_ns())
    }

    /// Add everything that `other` has counted; its key is ignored.
    pub fn merge(&mut self, other: &Self) {
        self.tx.merge(&other.tx);
        self.rx.merge(&other.rx);
    }

    /// Return the counts since an earlier snapshot of the same group.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            key: self.key.clone(),
            tx: self.tx.since(&earlier.tx),
            rx: self.rx.since(&earlier.rx),
        }
    }
}

/// All messages of a measurement, in groups. `groups`, `other` and `ended` add up to the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// The dimensions of the groups.
    pub by: Grouping,
    /// The groups, those with the most messages first.
    pub groups: Vec<GroupSummary>,
    /// The messages that found no room for their group.
    pub other: GroupSummary,
    /// The messages of groups that gave way to new ones after their last message.
    pub ended: GroupSummary,
    /// The number of ended groups.
    pub ended_groups: u64,
}

impl Groups {
    /// Groups of the same key become one; those with the most messages come first.
    #[must_use]
    pub fn new(by: Grouping, parts: impl IntoIterator<Item = GroupSummary>) -> Self {
        let mut merged = BTreeMap::<GroupKey, GroupSummary>::new();
        for part in parts {
            match merged.entry(part.key.clone()) {
                Entry::Vacant(vacant) => {
                    vacant.insert(part);
                }
                Entry::Occupied(occupied) => occupied.into_mut().merge(&part),
            }
        }
        let mut groups: Vec<_> = merged.into_values().collect();
        // Stable: groups with as many messages stay in the order of their keys.
        groups.sort_by_key(|group| Reverse(group.messages()));
        Self {
            by,
            groups,
            other: GroupSummary::default(),
            ended: GroupSummary::default(),
            ended_groups: 0,
        }
    }

    /// The first `count` groups, and everything else in one.
    #[must_use]
    pub fn top(&self, count: usize) -> (&[GroupSummary], GroupSummary) {
        let (top, rest) = self.groups.split_at(count.min(self.groups.len()));
        let mut other = GroupSummary::default();
        for group in rest.iter().chain([&self.other, &self.ended]) {
            other.merge(group);
        }
        (top, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Nanos;
    use crate::stage::Stage;

    fn group(comm: &str, messages: u64) -> GroupSummary {
        let mut group = GroupSummary::new(GroupKey {
            comm: Some(comm.into()),
            ..GroupKey::default()
        });
        group.tx.messages = messages;
        group.rx.bytes = messages;
        group
    }

    #[test]
    fn the_top_and_the_rest_are_the_whole() {
        let by = "comm".parse().unwrap();
        let mut groups = Groups::new(
            by,
            [group("a", 1), group("b", 5), group("c", 3), group("b", 2)],
        );
        groups.other = group("", 10);
        groups.ended = group("", 20);
        let (top, rest) = groups.top(2);
        let named: Vec<_> = top
            .iter()
            .map(|group| (group.key.to_string(), group.messages()))
            .collect();
        assert_eq!(named, [("b".to_owned(), 7), ("c".to_owned(), 3)]);
        assert_eq!((rest.messages(), rest.rx.bytes), (31, 31));
        assert!(rest.key.is_other());
        assert_eq!(groups.top(9).0.len(), 3);
    }

    #[test]
    fn a_difference_counts_messages_in_between() {
        let mut earlier = group("a", 4);
        earlier.tx.stages[Stage::TxQueue]
            .get_or_insert_default()
            .record(Nanos(1_000), 4);
        let mut now = earlier.clone();
        let more = {
            let mut more = group("a", 3);
            more.tx.stages[Stage::TxQueue]
                .get_or_insert_default()
                .record(Nanos(50_000), 3);
            more.tx.stages[Stage::TxQdisc]
                .get_or_insert_default()
                .record(Nanos(70), 1);
            more
        };
        now.merge(&more);
        assert_eq!(now.since(&earlier), more);
        assert_eq!(now.messages(), 7);
    }
}
