//! Messages summed by whose they are.
//!
//! A **group** sums results by the process that made the call, the service's port, the flow, ...,
//! or several of these [`Dimension`]s at once. The number of groups is bounded. Messages whose
//! group finds no slot are summed in [`Groups::other`], so that the groups and the rest always add
//! up to the whole.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::UnknownName;
use crate::flow::{Flow, NetnsInode, Protocol, canonical};
use crate::name::Name;
use crate::part::{Part, PartMap, PartSummary};
use crate::stage::{Direction, Stage, StageMap};

mod coarse;
mod record;

pub use coarse::{GroupHistogram, SLOTS, slot};

/// The dimensions that groups may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// The process that made the send or read call.
    Pid,
    /// Its name.
    Comm,
    /// The cgroup (version 2) of the socket.
    Cgroup,
    /// The container that cgroup belongs to.
    Container,
    /// The port of the service: the local one of accepted connections, the remote one of opened
    /// ones.
    Port,
    /// The remote address.
    Peer,
    /// The network interface that the socket's route leads to.
    Interface,
    /// The transport protocol.
    Proto,
    /// The network namespace of the socket.
    Netns,
    /// The socket.
    Flow,
}

impl Dimension {
    /// Every dimension, in the order in which a group's values are printed.
    pub const ALL: [Self; 10] = [
        Self::Pid,
        Self::Comm,
        Self::Cgroup,
        Self::Container,
        Self::Port,
        Self::Peer,
        Self::Interface,
        Self::Proto,
        Self::Netns,
        Self::Flow,
    ];

    /// The name used in options and JSON, such as `"port"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::Comm => "comm",
            Self::Cgroup => "cgroup",
            Self::Container => "container",
            Self::Port => "port",
            Self::Peer => "peer",
            Self::Interface => "interface",
            Self::Proto => "proto",
            Self::Netns => "netns",
            Self::Flow => "flow",
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dimension {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|dimension| dimension.name() == name)
            .ok_or_else(|| UnknownName {
                what: "dimension",
                name: name.to_owned(),
            })
    }
}

impl Serialize for Dimension {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The dimensions that messages are grouped by; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Grouping(BTreeSet<Dimension>);

impl Grouping {
    /// `None` if there is no dimension.
    #[must_use]
    pub fn new(dimensions: impl IntoIterator<Item = Dimension>) -> Option<Self> {
        let dimensions: BTreeSet<_> = dimensions.into_iter().collect();
        (!dimensions.is_empty()).then_some(Self(dimensions))
    }

    /// Return the grouping by one dimension, and others.
    #[must_use]
    pub fn with(dimension: Dimension, others: impl IntoIterator<Item = Dimension>) -> Self {
        Self(others.into_iter().chain([dimension]).collect())
    }

    /// Return true if groups differ in this dimension.
    #[must_use]
    pub fn contains(&self, dimension: Dimension) -> bool {
        self.0.contains(&dimension)
    }

    /// The dimensions, in the order of [`Dimension::ALL`].
    pub fn dimensions(&self) -> impl Iterator<Item = Dimension> {
        self.0.iter().copied()
    }
}

/// Print `pid,comm`.
impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.dimensions().map(Dimension::name).collect();
        f.pad(&names.join(","))
    }
}

impl FromStr for Grouping {
    type Err = UnknownName;

    fn from_str(names: &str) -> Result<Self, UnknownName> {
        let dimensions: Result<_, _> = names.split(',').map(Dimension::from_str).collect();
        dimensions.map(Self)
    }
}

/// A cgroup of version 2.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct GroupCgroup {
    /// The kernel's number for it, which is the inode of its directory.
    pub id: u64,
    /// The path from the root of the hierarchy; `None` if the cgroup was gone before it was looked
    /// up.
    pub path: Option<Name>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct GroupInterface {
    /// The network namespace that it is in.
    pub netns: NetnsInode,
    /// Its index there; 0 if the socket had no route when it was looked at.
    pub index: u32,
    /// Its name; `None` if it could not be looked up.
    pub name: Option<Name>,
    /// The name of its namespace, or the inode if that has none, unless it is our own.
    #[serde(skip)]
    pub place: Option<Name>,
}

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct GroupNetns {
    /// Its inode.
    pub inode: NetnsInode,
    /// Its name: of ip-netns(8), else of a container in it. `None` for our own, and where it has
    /// none.
    pub name: Option<Name>,
}

/// The common values of a group's messages, one per dimension of the [`Grouping`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupKey {
    /// The process; 0 if no task made the call: SYNs that the kernel retransmitted, data that went
    /// with a SYN.
    pub pid: Option<u32>,
    /// The name of that process' task.
    pub comm: Option<Name>,
    /// The cgroup of the socket.
    pub cgroup: Option<GroupCgroup>,
    /// The container, empty where there is none.
    pub container: Option<Name>,
    /// The port of the service.
    pub port: Option<u16>,
    /// The remote address.
    pub peer: Option<IpAddr>,
    /// The interface of the route.
    pub interface: Option<GroupInterface>,
    /// The transport protocol.
    pub proto: Option<Protocol>,
    /// The network namespace of the socket.
    pub netns: Option<GroupNetns>,
    /// The socket.
    pub flow: Option<Flow>,
}

impl GroupKey {
    /// Return true if this is the sum of messages without a slot.
    #[must_use]
    pub fn is_other(&self) -> bool {
        *self == Self::default()
    }

    /// The value in one dimension, as people know it; `None` if the grouping lacks the dimension.
    #[must_use]
    pub fn value(&self, dimension: Dimension) -> Option<String> {
        match dimension {
            Dimension::Pid => self.pid.map(|pid| pid.to_string()),
            Dimension::Comm => self.comm.as_ref().map(or_dash),
            Dimension::Cgroup => self.cgroup.as_ref().map(|cgroup| match &cgroup.path {
                Some(path) => path.to_string(),
                None => format!("#{}", cgroup.id),
            }),
            Dimension::Container => self.container.as_ref().map(or_dash),
            Dimension::Port => self.port.map(|port| port.to_string()),
            Dimension::Peer => self.peer.map(|peer| peer.to_canonical().to_string()),
            Dimension::Interface => self.interface.as_ref().map(interface_name),
            Dimension::Proto => self.proto.map(|protocol| protocol.to_string()),
            Dimension::Netns => self.netns.as_ref().map(|netns| match &netns.name {
                Some(name) => name.to_string(),
                None => netns.inode.to_string(),
            }),
            Dimension::Flow => self.flow.map(|flow| flow.to_string()),
        }
    }
}

fn or_dash(name: &Name) -> String {
    if name.is_empty() {
        "-".to_owned()
    } else {
        name.to_string()
    }
}

fn interface_name(interface: &GroupInterface) -> String {
    match (&interface.name, &interface.place, interface.index) {
        (Some(name), Some(place), _) => format!("{name}@{place}"),
        (Some(name), None, _) => name.to_string(),
        (None, _, 0) => "-".to_owned(),
        (None, Some(place), index) => format!("#{index}@{place}"),
        (None, None, index) => format!("#{index}@{}", interface.netns),
    }
}

/// The values with a blank between them, or `other`.
impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_other() {
            return f.pad("other");
        }
        let values: Vec<_> = Dimension::ALL
            .into_iter()
            .filter_map(|dimension| self.value(dimension))
            .collect();
        f.pad(&values.join(" "))
    }
}

/// An object with a key a dimension.
impl Serialize for GroupKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn entry<M: SerializeMap>(
            map: &mut M,
            dimension: Dimension,
            value: Option<&impl Serialize>,
        ) -> Result<(), M::Error> {
            value.map_or(Ok(()), |value| map.serialize_entry(&dimension, value))
        }

        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, Dimension::Pid, self.pid.as_ref())?;
        entry(&mut map, Dimension::Comm, self.comm.as_ref())?;
        entry(&mut map, Dimension::Cgroup, self.cgroup.as_ref())?;
        entry(&mut map, Dimension::Container, self.container.as_ref())?;
        entry(&mut map, Dimension::Port, self.port.as_ref())?;
        entry(
            &mut map,
            Dimension::Peer,
            self.peer.map(|peer| peer.to_canonical()).as_ref(),
        )?;
        entry(&mut map, Dimension::Interface, self.interface.as_ref())?;
        entry(&mut map, Dimension::Proto, self.proto.as_ref())?;
        entry(&mut map, Dimension::Netns, self.netns.as_ref())?;
        entry(&mut map, Dimension::Flow, self.flow.map(FlowObject).as_ref())?;
        map.end()
    }
}

/// A flow with the keys that a message of `trace` has for it.
struct FlowObject(Flow);

impl Serialize for FlowObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Flow", 5)?;
        object.serialize_field("protocol", &self.0.protocol)?;
        object.serialize_field("local", &canonical(self.0.local))?;
        object.serialize_field("remote", &canonical(self.0.remote))?;
        object.serialize_field("cookie", &self.0.cookie)?;
        object.serialize_field("netns", &self.0.netns)?;
        object.end()
    }
}

/// The messages of one direction of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupDirection {
    /// Messages, whatever became of them.
    pub messages: u64,
    /// Measured messages.
    pub measured: u64,
    /// Refused messages, by weight.
    pub refused: u64,
    /// Bytes of the messages.
    pub bytes: u64,
    /// Segments that were sent again; always 0 for RX.
    pub retransmits: u64,
    /// The distribution of every stage; `None` where the stage is absent.
    pub stages: StageMap<Option<GroupHistogram>>,
    /// The parts of the stages; `None` where the stage is absent.
    pub parts: PartMap<Option<PartSummary>>,
    /// TX: the distribution of the time until a message left the host; empty for RX.
    pub sent: GroupHistogram,
    /// The distribution of the sum of a message's stages.
    pub total: GroupHistogram,
}

impl GroupDirection {
    /// Return the distribution that messages of this direction are judged by: of the time until
    /// they left the host, or until they were read.
    #[must_use]
    pub fn time(&self, direction: Direction) -> &GroupHistogram {
        match direction {
            Direction::Tx => &self.sent,
            Direction::Rx => &self.total,
        }
    }

    /// Add everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.messages, other.messages),
            (&mut self.measured, other.measured),
            (&mut self.refused, other.refused),
            (&mut self.bytes, other.bytes),
            (&mut self.retransmits, other.retransmits),
        ] {
            *sum = sum.saturating_add(more);
        }
        for (stage, histogram) in other.stages.present() {
            self.stages[stage].get_or_insert_default().merge(histogram);
        }
        for (part, sum) in other.parts.iter() {
            if let Some(sum) = sum {
                self.parts[part].get_or_insert_default().merge(sum);
            }
        }
        self.sent.merge(&other.sent);
        self.total.merge(&other.total);
    }

    /// Return the counts since an earlier snapshot of the same group. The maximum of a part is that
    /// of all time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(earlier.messages),
            measured: self.measured.saturating_sub(earlier.measured),
            refused: self.refused.saturating_sub(earlier.refused),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            retransmits: self.retransmits.saturating_sub(earlier.retransmits),
            stages: StageMap::from_fn(|stage| {
                let now = self.stages[stage].as_ref()?;
                Some(match &earlier.stages[stage] {
                    Some(then) => now.since(then),
                    None => now.clone(),
                })
            }),
            parts: PartMap::from_fn(|part| {
                let now = self.parts[part]?;
                let then = earlier.parts[part].unwrap_or_default();
                Some(PartSummary {
                    count: now.count.saturating_sub(then.count),
                    sum_ns: now.sum_ns.saturating_sub(then.sum_ns),
                    max_ns: now.max_ns,
                })
            }),
            sent: self.sent.since(&earlier.sent),
            total: self.total.since(&earlier.total),
        }
    }

    /// Compute the parts that are the rest of their stage, for every stage with parts.
    pub fn complete_parts(&mut self) {
        for rest in Part::ALL.into_iter().filter(|part| part.is_rest()) {
            let Some(stage) = &self.stages[rest.stage()] else {
                continue;
            };
            let counted = self.parts.of(rest.stage()).filter(|(part, _)| !part.is_rest());
            let others: u128 = counted.map(|(_, sum)| sum.sum_ns).sum();
            self.parts[rest] = Some(PartSummary {
                count: stage.count(),
                sum_ns: stage.sum_ns().saturating_sub(others),
                max_ns: None,
            });
        }
    }

    /// Return the stage with the most time and its share of the time of all stages, from 0 to 1;
    /// `None` if no time was measured.
    #[must_use]
    pub fn largest_stage(&self) -> Option<(Stage, f64)> {
        let stages = self.stages.present().filter(|(stage, _)| stage.has_share());
        let sums = stages.map(|(stage, histogram)| (stage, histogram.sum_ns()));
        let (stage, sum) = sums.max_by_key(|&(_, sum)| sum)?;
        let whole = self.time(stage.direction()).sum_ns();
        (whole > 0).then(|| (stage, sum as f64 / whole as f64))
    }
}

impl Serialize for GroupDirection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("GroupDirection", 9)?;
        object.serialize_field("messages", &self.messages)?;
        object.serialize_field("measured", &self.measured)?;
        object.serialize_field("refused", &self.refused)?;
        object.serialize_field("bytes", &self.bytes)?;
        object.serialize_field("retransmits", &self.retransmits)?;
        object.serialize_field("stages", &self.stages)?;
        object.serialize_field("parts", &self.parts)?;
        object.serialize_field("sent", &self.sent)?;
        object.serialize_field("total", &self.total)?;
        object.end()
    }
}

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

    /// Add everything that `other` has counted; its key is not looked at.
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
                Entry::Vacant(place) => {
                    place.insert(part);
                }
                Entry::Occupied(place) => place.into_mut().merge(&part),
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
    fn dimensions_and_groupings_round_trip() {
        for dimension in Dimension::ALL {
            assert_eq!(dimension.name().parse(), Ok(dimension));
        }
        let grouping: Grouping = "port,pid,port".parse().unwrap();
        assert_eq!(grouping.to_string(), "pid,port");
        assert!(grouping.contains(Dimension::Pid) && !grouping.contains(Dimension::Comm));
        assert_eq!(
            "pid,ports".parse::<Grouping>().unwrap_err().to_string(),
            r#"no dimension is named "ports""#
        );
        assert_eq!(Grouping::new([]), None);
    }

    #[test]
    fn keys_print_names_instead_of_numbers() {
        let key = GroupKey {
            pid: Some(7),
            comm: Some("nginx".into()),
            cgroup: Some(GroupCgroup { id: 42, path: None }),
            container: Some(Name::default()),
            peer: Some("::ffff:10.0.0.1".parse().unwrap()),
            interface: Some(GroupInterface {
                netns: NetnsInode(4_026_531_840),
                index: 3,
                name: None,
                place: None,
            }),
            ..GroupKey::default()
        };
        assert_eq!(key.to_string(), "7 nginx #42 - 10.0.0.1 #3@4026531840");
        assert_eq!(
            serde_json::to_string(&key).unwrap(),
            concat!(
                r#"{"pid":7,"comm":"nginx","cgroup":{"id":42,"path":null},"container":"","peer":"10.0.0.1","#,
                r#""interface":{"netns":4026531840,"index":3,"name":null}}"#
            )
        );
        assert_eq!(GroupKey::default().to_string(), "other");
    }

    #[test]
    fn interfaces_of_other_namespaces_have_their_place() {
        let shown = |name: Option<&str>, place: Option<&str>| {
            let interface = GroupInterface {
                netns: NetnsInode(7),
                index: 2,
                name: name.map(Name::from),
                place: place.map(Name::from),
            };
            let key = GroupKey {
                interface: Some(interface),
                ..GroupKey::default()
            };
            key.to_string()
        };
        assert_eq!(shown(Some("eth0"), None), "eth0");
        assert_eq!(shown(Some("eth0"), Some("blue")), "eth0@blue");
        assert_eq!(shown(None, Some("blue")), "#2@blue");
    }

    #[test]
    fn the_top_and_the_rest_are_the_whole() {
        let by = "comm".parse().unwrap();
        let mut groups = Groups::new(by, [group("a", 1), group("b", 5), group("c", 3), group("b", 2)]);
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

    #[test]
    fn the_largest_stage_is_that_with_the_most_time() {
        let mut tx = GroupDirection::default();
        assert_eq!(tx.largest_stage(), None);
        for (stage, nanos) in [
            (Stage::TxCopy, 1_000),
            (Stage::TxQdisc, 3_000),
            (Stage::TxNetwork, 80_000),
            (Stage::AppService, 9_000),
        ] {
            tx.stages[stage].get_or_insert_default().record(Nanos(nanos), 1);
        }
        tx.sent.record(Nanos(4_000), 1);
        tx.total.record(Nanos(84_000), 1);
        assert_eq!(tx.largest_stage(), Some((Stage::TxQdisc, 0.75)));
    }
}
