//! Sum the messages of recordings in groups and by time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use sockstamp_model::group::{
    Dimension, GroupCgroup, GroupInterface, GroupKey, GroupNetns, GroupSummary, Grouping, Groups,
};
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::size::SizeClass;
use sockstamp_model::stage::Direction;

/// Groups that are kept apart, those of all intervals together: 13 kB each at most.
const MOST: usize = 10_000;
/// Intervals, each of which has the rest of its messages as well.
const MOST_INTERVALS: u64 = 5000;

/// Intervals of equal length, from the first message to the last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intervals {
    /// In nanoseconds.
    length: u64,
    count: u64,
}

impl Intervals {
    /// # Errors
    ///
    /// If there would be too many: a longer interval that gives fewer, in nanoseconds.
    pub(crate) fn new(length: u64, first: u64, last: u64) -> Result<Self, u64> {
        let count = last / length - first / length + 1;
        match count <= MOST_INTERVALS {
            true => Ok(Self { length, count }),
            // One less, as the first message may be at the end of its interval.
            false => Err((last - first).div_ceil(MOST_INTERVALS - 1)),
        }
    }
}

/// Return the values of a message.
pub(crate) fn key(message: &Message, by: &Grouping) -> GroupKey {
    let has = |dimension| by.contains(dimension);
    let flow = message.flow;
    GroupKey {
        pid: has(Dimension::Pid).then_some(message.pid),
        comm: has(Dimension::Comm).then(|| message.comm.clone()),
        cgroup: has(Dimension::Cgroup).then_some(GroupCgroup {
            id: message.cgroup.0,
            path: None,
        }),
        container: has(Dimension::Container).then(|| container(message)),
        port: has(Dimension::Port).then(|| message.service_port()),
        peer: has(Dimension::Peer).then(|| flow.remote.ip().to_canonical()),
        interface: has(Dimension::Interface).then(|| interface(message)),
        proto: has(Dimension::Proto).then_some(flow.protocol),
        // A recording may be another host's.
        netns: has(Dimension::Netns).then_some(GroupNetns {
            inode: flow.netns,
            name: None,
        }),
        flow: has(Dimension::Flow).then_some(flow),
        cpu: has(Dimension::Cpu).then_some(message.cpu),
        size: has(Dimension::Size).then(|| SizeClass::of(message.bytes)),
        opened: has(Dimension::Opened).then_some(message.opened),
        retransmitted: has(Dimension::Retransmitted).then(|| message.was_sent_again()),
    }
}

/// Return the name of a container as `stat` has it, empty outside of containers.
fn container(message: &Message) -> Name {
    let container = message.container.as_ref();
    container.map_or_else(Name::default, |container| container.qualified_id().into())
}

/// Return the interface that a message left by; that of a read is unknown.
fn interface(message: &Message) -> GroupInterface {
    let unknown = GroupInterface {
        netns: message.flow.netns,
        index: 0,
        name: None,
        netns_name: None,
    };
    let last = message.interfaces.last.as_ref();
    last.map_or(unknown, |interface| GroupInterface {
        netns: interface.netns,
        index: interface.index,
        name: Some(interface.name.clone()),
        // A recording may be another host's.
        netns_name: None,
    })
}

/// Messages in groups, by interval.
pub(crate) struct Sums {
    by: Option<Grouping>,
    intervals: Option<Intervals>,
    /// The number of groups by the begin of the interval.
    counts: HashMap<u64, usize>,
    groups: HashMap<(u64, GroupKey), GroupSummary>,
    /// By the begin of the interval.
    other: HashMap<u64, GroupSummary>,
}

impl Sums {
    pub(crate) fn new(by: Option<Grouping>, intervals: Option<Intervals>) -> Self {
        Self {
            by,
            intervals,
            counts: HashMap::new(),
            groups: HashMap::new(),
            other: HashMap::new(),
        }
    }

    pub(crate) fn add(&mut self, message: &Message) {
        if self.by.is_none() && self.intervals.is_none() {
            return;
        }
        let begin = self.intervals.map_or(0, |intervals| {
            let time = message.time.as_nanos();
            time - time % intervals.length
        });
        let key = self
            .by
            .as_ref()
            .map(|by| key(message, by))
            .unwrap_or_default();
        let most = MOST as u64 / self.intervals.map_or(1, |intervals| intervals.count);
        let count = self.counts.entry(begin).or_default();
        let group = match self.groups.entry((begin, key)) {
            Entry::Occupied(occupied) => occupied.into_mut(),
            Entry::Vacant(vacant) if (*count as u64) < most => {
                *count += 1;
                let group = GroupSummary::new(vacant.key().1.clone());
                vacant.insert(group)
            }
            Entry::Vacant(_) => self.other.entry(begin).or_default(),
        };
        match message.direction {
            Direction::Tx => group.tx.record(message),
            Direction::Rx => group.rx.record(message),
        }
    }

    /// Return the groups of each interval with its begin in nanoseconds since 1970, the earliest
    /// first. By dimensions alone there is one.
    pub(crate) fn finish(self) -> Vec<(u64, Groups)> {
        let is_whole = self.by.is_some() && self.intervals.is_none();
        // Without a dimension there is one group: any grouping has its name.
        let by = self.by.or_else(|| Grouping::new([Dimension::Flow]));
        let Some(by) = by else {
            return Vec::new();
        };
        let mut begins: HashMap<u64, Vec<GroupSummary>> = HashMap::new();
        if is_whole {
            begins.insert(0, Vec::new());
        }
        for ((begin, _), mut group) in self.groups {
            group.tx.complete_parts();
            group.rx.complete_parts();
            begins.entry(begin).or_default().push(group);
        }
        let mut other = self.other;
        other.keys().for_each(|begin| {
            begins.entry(*begin).or_default();
        });
        let mut intervals: Vec<(u64, Groups)> = begins
            .into_iter()
            .map(|(begin, parts)| {
                let mut groups = Groups::new(by.clone(), parts);
                groups.other = other.remove(&begin).unwrap_or_default();
                groups.other.tx.complete_parts();
                groups.other.rx.complete_parts();
                (begin, groups)
            })
            .collect();
        intervals.sort_by_key(|(begin, _)| *begin);
        intervals
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::fixture;
    use sockstamp_model::flow::Opened;

    use super::*;

    #[test]
    fn too_many_intervals_are_refused_with_a_length_that_is_not() {
        for (length, last) in [(1, 3_600_000), (7, 35_021), (1_000_000, u64::MAX)] {
            let longer = Intervals::new(length, 13, last).unwrap_err();
            assert!(longer > length);
            assert!(Intervals::new(longer, 13, last).is_ok());
        }
        assert!(Intervals::new(1, 1, MOST_INTERVALS).is_ok());
        assert!(Intervals::new(1, 0, MOST_INTERVALS).is_err());
    }

    #[test]
    fn the_last_interval_has_as_many_groups_as_the_first() {
        let intervals = Intervals::new(100, 0, 399_999).unwrap();
        let mut sums = Sums::new(Grouping::new([Dimension::Pid]), Some(intervals));
        for time in 0..400_000 {
            let mut message = fixture::message(Direction::Tx);
            (message.time, message.pid) = (Timestamp::from_nanos(time), (time % 4) as u32);
            sums.add(&message);
        }
        let all = sums.finish();
        assert_eq!(all.len(), 4000);
        for (_, groups) in &all {
            assert_eq!(groups.groups.len(), MOST / 4000);
            assert_eq!(groups.other.tx.messages, 50);
        }
    }

    #[test]
    fn messages_are_grouped_by_what_each_alone_has() {
        let by = "cpu,size,opened,retransmitted".parse().unwrap();
        let mut sums = Sums::new(Some(by), None);
        for (cpu, bytes, retransmits) in [(Some(3), 1448, 1), (Some(3), 600, 0), (None, 4095, 2)] {
            let mut message = fixture::message(Direction::Tx);
            (message.cpu, message.bytes, message.retransmits) = (cpu, bytes, retransmits);
            message.opened = cpu.map(|_| Opened::Accepted);
            sums.add(&message);
        }
        let all = sums.finish();
        let mut keys: Vec<_> = (all[0].1.groups.iter())
            .map(|group| group.key.to_string())
            .collect();
        keys.sort();
        let expected = [
            "- 512-4095 - true",
            "3 512-4095 accepted false",
            "3 512-4095 accepted true",
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn groups_without_a_message_are_none() {
        let sums = Sums::new(Grouping::new([Dimension::Pid]), None).finish();
        assert!(matches!(&sums[..], [(0, groups)] if groups.groups.is_empty()));
        assert!(Sums::new(None, None).finish().is_empty());
    }
}
