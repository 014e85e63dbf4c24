//! The common values of a group's messages, and how they are printed.

use std::fmt;
use std::net::IpAddr;

use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use super::dimension::Dimension;
use crate::flow::{Flow, NetnsInode, Opened, Protocol, canonical};
use crate::name::Name;
use crate::size::SizeClass;

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
    /// Its index there; 0 if the socket had no route when the key was formed.
    pub index: u32,
    /// Its name; `None` if it could not be looked up.
    pub name: Option<Name>,
    /// The name of its namespace, or the inode if that has none, unless it is our own.
    #[serde(skip)]
    pub netns_name: Option<Name>,
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

/// The common values of a group's messages, one per dimension of the [`Grouping`](super::Grouping).
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
    /// The CPU of the call, if it is known.
    pub cpu: Option<Option<u16>>,
    /// The class of the number of bytes.
    pub size: Option<SizeClass>,
    /// The end that opened the connection, if it is known.
    pub opened: Option<Option<Opened>>,
    /// True if a part of each was sent again.
    pub retransmitted: Option<bool>,
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
            Dimension::Cpu => self.cpu.map(known_or_dash),
            Dimension::Size => self.size.map(|size| size.to_string()),
            Dimension::Opened => self
                .opened
                .map(|opened| known_or_dash(opened.map(Opened::name))),
            Dimension::Retransmitted => self.retransmitted.map(|again| again.to_string()),
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

fn known_or_dash(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn interface_name(interface: &GroupInterface) -> String {
    match (&interface.name, &interface.netns_name, interface.index) {
        (Some(name), Some(netns_name), _) => format!("{name}@{netns_name}"),
        (Some(name), None, _) => name.to_string(),
        (None, _, 0) => "-".to_owned(),
        (None, Some(netns_name), index) => format!("#{index}@{netns_name}"),
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
        entry(
            &mut map,
            Dimension::Flow,
            self.flow.map(FlowObject).as_ref(),
        )?;
        entry(&mut map, Dimension::Cpu, self.cpu.as_ref())?;
        entry(&mut map, Dimension::Size, self.size.as_ref())?;
        entry(
            &mut map,
            Dimension::Opened,
            self.opened.map(|opened| opened.map(Opened::name)).as_ref(),
        )?;
        entry(
            &mut map,
            Dimension::Retransmitted,
            self.retransmitted.as_ref(),
        )?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
                netns_name: None,
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
    fn keys_of_messages_print_what_is_unknown_as_a_dash() {
        let key = GroupKey {
            cpu: Some(None),
            size: Some(SizeClass::of(700)),
            opened: Some(Some(Opened::Accepted)),
            retransmitted: Some(true),
            ..GroupKey::default()
        };
        assert_eq!(key.to_string(), "- 512-4095 accepted true");
        assert_eq!(
            serde_json::to_string(&key).unwrap(),
            r#"{"cpu":null,"size":512,"opened":"accepted","retransmitted":true}"#
        );
    }

    #[test]
    fn interfaces_of_other_namespaces_have_its_name() {
        let shown = |name: Option<&str>, netns_name: Option<&str>| {
            let interface = GroupInterface {
                netns: NetnsInode(7),
                index: 2,
                name: name.map(Name::from),
                netns_name: netns_name.map(Name::from),
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
}
