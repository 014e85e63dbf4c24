//! Count the messages of groups, so that the largest can be shown.

use std::cmp::Reverse;
use std::collections::HashMap;

use sockstamp_model::group::{GroupKey, Grouping};
use sockstamp_model::message::Message;

use crate::report::groups::key;

/// Groups that are shown by themselves.
const SHOWN: usize = 8;
/// Groups that are counted.
const COUNTED: usize = 10_000;

/// Messages by group, and the time from the first to the last.
#[derive(Debug)]
pub(super) struct Census {
    by: Grouping,
    groups: HashMap<GroupKey, u64>,
    /// Beyond the groups that are counted; `None` if there is none.
    other: Option<u64>,
    span: Option<(u64, u64)>,
}

/// The groups that are shown, the largest first.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) by: Grouping,
    /// With their numbers of messages.
    pub(super) groups: Vec<(GroupKey, u64)>,
    /// The messages of all others; `None` if there are no other groups.
    pub(super) other: Option<u64>,
    /// The time of the first message, and that of the last, since 1970.
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Census {
    pub(super) fn new(by: Grouping) -> Self {
        Self {
            by,
            groups: HashMap::new(),
            other: None,
            span: None,
        }
    }

    pub(super) fn add(&mut self, message: &Message) {
        let time = message.time.as_nanos();
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
        let key = key(message, &self.by);
        let weight = u64::from(message.weight);
        let room = self.groups.len() < COUNTED;
        match self.groups.get_mut(&key) {
            Some(count) => *count += weight,
            None if room => {
                self.groups.insert(key, weight);
            }
            None => *self.other.get_or_insert(0) += weight,
        }
    }

    pub(super) fn finish(self) -> Shown {
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_by_cached_key(|(key, count)| (Reverse(*count), key.to_string()));
        let hidden: Option<u64> =
            (groups.len() > SHOWN).then(|| groups.iter().skip(SHOWN).map(|(_, count)| count).sum());
        groups.truncate(SHOWN);
        let (first, last) = self.span.unwrap_or_default();
        Shown {
            by: self.by,
            groups,
            other: hidden.map(|hidden| hidden + self.other.unwrap_or(0)),
            first,
            last,
        }
    }
}

impl Shown {
    /// Return the number of groups, with that of all others.
    pub(super) fn len(&self) -> usize {
        self.groups.len() + usize::from(self.other.is_some())
    }

    /// Return the place of a message's group.
    pub(super) fn place(&self, message: &Message) -> usize {
        let key = key(message, &self.by);
        let place = self.groups.iter().position(|(group, _)| *group == key);
        place.unwrap_or(self.groups.len())
    }

    /// Iterate over the names of the groups and their messages.
    pub(super) fn named(&self) -> impl Iterator<Item = (String, u64)> {
        let groups = self
            .groups
            .iter()
            .map(|(key, count)| (key.to_string(), *count));
        let other = self.other.map(|other| ("all others".to_owned(), other));
        groups.chain(other)
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;
    use sockstamp_model::group::Dimension;
    use sockstamp_model::stage::Direction;

    use super::*;

    #[test]
    fn each_message_has_a_place_whatever_its_weight() {
        for weight in [0, 1] {
            let mut census = Census::new(Grouping::new([Dimension::Pid]).unwrap());
            let messages = (0..20).map(|pid| {
                let mut message = fixture::message(Direction::Rx);
                (message.pid, message.weight) = (pid, weight);
                message
            });
            let messages: Vec<_> = messages.collect();
            messages.iter().for_each(|message| census.add(message));
            let shown = census.finish();
            assert_eq!((shown.len(), shown.named().count()), (SHOWN + 1, SHOWN + 1));
            let mut places = messages.iter().map(|message| shown.place(message));
            assert!(places.all(|place| place < shown.len()));
        }
    }
}
