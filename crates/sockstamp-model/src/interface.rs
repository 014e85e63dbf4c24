//! The network interfaces by which messages leave.

use std::collections::BTreeMap;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::flow::NetnsInode;
use crate::name::Name;

/// A network interface. Its index and its name are those of its network namespace: two containers
/// both have an `eth0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Interface {
    /// The name when it was first seen.
    pub name: Name,
    /// The index: if_nametoindex(3).
    pub index: u32,
    /// The namespace.
    pub netns: NetnsInode,
}

impl Interface {
    /// Print its name as seen from the namespace `home`: with its own namespace, if that is
    /// another, by name or inode, as in `eth0@blue` or `eth0@4026532001`.
    #[must_use]
    pub fn seen_from(&self, home: NetnsInode, names: &BTreeMap<NetnsInode, Name>) -> String {
        match names.get(&self.netns) {
            _ if self.netns == home => self.name.to_string(),
            Some(netns) => format!("{}@{netns}", self.name),
            None => format!("{}@{}", self.name, self.netns),
        }
    }
}

/// The medium of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// A device on a bus: a NIC, also one of a virtual machine.
    Physical,
    /// The host itself.
    Loopback,
    /// Another interface, or a program; the kind as in ip-link(8), such as `veth`.
    Virtual(String),
}

impl Medium {
    /// `"physical"`, `"loopback"`, or the kind of a virtual one.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Physical => "physical",
            Self::Loopback => "loopback",
            Self::Virtual(kind) if kind.is_empty() => "virtual",
            Self::Virtual(kind) => kind,
        }
    }

    /// Return true if packets continue on another interface of the host, as from a container; the
    /// next one is not visible here.
    #[must_use]
    pub fn leads_on(&self) -> bool {
        matches!(self, Self::Virtual(kind) if kind == "veth" || kind == "netkit")
    }
}

/// The number of messages that left by an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceSummary {
    /// The interface; `None` for all interfaces together for which there was no room.
    pub interface: Option<Interface>,
    /// Its medium; `None` if unknown.
    pub medium: Option<Medium>,
    /// Packets continue from there by an interface that is not visible.
    pub leads_on: bool,
    /// Valid sent messages for which it was the last one on their way, by weight.
    pub messages: u64,
}

/// `{"name":…,"index":…,"netns":…,"kind":…,"leads_on":…,"messages":…}`; of those without room
/// `{"name":"other","messages":…}`.
impl Serialize for InterfaceSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("InterfaceSummary", 6)?;
        match &self.interface {
            Some(interface) => {
                object.serialize_field("name", &interface.name)?;
                object.serialize_field("index", &interface.index)?;
                object.serialize_field("netns", &interface.netns)?;
            }
            None => object.serialize_field("name", "other")?,
        }
        match &self.medium {
            Some(medium) => {
                object.serialize_field("kind", medium.name())?;
                object.serialize_field("leads_on", &self.leads_on)?;
            }
            None => object.skip_field("kind")?,
        }
        object.serialize_field("messages", &self.messages)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eth0() -> Interface {
        Interface {
            name: "eth0".into(),
            index: 2,
            netns: NetnsInode(4_026_532_001),
        }
    }

    #[test]
    fn an_interface_of_another_namespace_prints_it() {
        let mut names = BTreeMap::new();
        let shown = |home, names: &_| eth0().seen_from(NetnsInode(home), names);
        assert_eq!(shown(4_026_532_001, &names), "eth0");
        assert_eq!(shown(4_026_531_840, &names), "eth0@4026532001");
        names.insert(NetnsInode(4_026_532_001), Name::from("blue"));
        assert_eq!(shown(4_026_531_840, &names), "eth0@blue");
        assert_eq!(shown(4_026_532_001, &names), "eth0");
    }

    #[test]
    fn the_way_leads_on_from_a_container() {
        let kind = |kind: &str| Medium::Virtual(kind.to_owned());
        assert!(kind("veth").leads_on());
        for last in [kind("tun"), kind(""), Medium::Physical, Medium::Loopback] {
            assert!(!last.leads_on(), "{}", last.name());
        }
        assert_eq!(kind("").name(), "virtual");
    }

    #[test]
    fn json_of_a_summary() {
        let known = InterfaceSummary {
            interface: Some(eth0()),
            medium: Some(Medium::Virtual("veth".to_owned())),
            leads_on: true,
            messages: 12,
        };
        assert_eq!(
            serde_json::to_string(&known).unwrap(),
            r#"{"name":"eth0","index":2,"netns":4026532001,"kind":"veth","leads_on":true,"messages":12}"#
        );
        let other = InterfaceSummary {
            interface: None,
            medium: None,
            leads_on: false,
            messages: 3,
        };
        assert_eq!(
            serde_json::to_string(&other).unwrap(),
            r#"{"name":"other","messages":3}"#
        );
    }
}
