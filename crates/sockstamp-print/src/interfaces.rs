//! The interfaces by which messages left, for people.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use sockstamp_host::netns;
use sockstamp_host::places::Places;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::interface::InterfaceSummary;
use sockstamp_model::name::Name;

/// Interfaces that fit into a few lines.
const SHOWN: usize = 8;

const OUT_OF_SIGHT: &str = "the way goes on in this host; --host-path shows it";

/// The namespace whose interfaces need no further name; 0, which none has, if that cannot be seen.
pub fn own_namespace() -> NetnsInode {
    let inode = fs::metadata("/proc/self/ns/net").map(|file| file.ino());
    NetnsInode(
        inode
            .ok()
            .and_then(|inode| inode.try_into().ok())
            .unwrap_or(0),
    )
}

/// The last interfaces of sent messages, the busiest first.
pub fn summary(
    output: &mut dyn Write,
    interfaces: &[InterfaceSummary],
    home: NetnsInode,
    names: &BTreeMap<NetnsInode, Name>,
) -> io::Result<()> {
    let (shown, rest) = interfaces.split_at(interfaces.len().min(SHOWN));
    for (position, entry) in shown.iter().enumerate() {
        let title = if position == 0 {
            " interfaces:"
        } else {
            "            "
        };
        let name = entry.interface.as_ref().map_or_else(
            || "other".to_owned(),
            |interface| interface.seen_from(home, names),
        );
        write!(output, "{title} {name} {}", entry.messages)?;
        match &entry.medium {
            Some(medium) => writeln!(output, " ({})", medium.name())?,
            None => writeln!(output)?,
        }
    }
    if !rest.is_empty() {
        let messages: u64 = rest.iter().map(|entry| entry.messages).sum();
        writeln!(output, "             {} more {messages}", rest.len())?;
    }
    if interfaces.iter().any(|entry| entry.leads_on) {
        writeln!(output, "             {OUT_OF_SIGHT}")?;
    }
    Ok(())
}

/// The names of network namespaces, looked up again when one without a name is seen.
#[derive(Debug)]
pub struct Namespaces {
    names: BTreeMap<NetnsInode, Name>,
    /// When they were looked up on this host; never for those of a recording.
    read_at: Option<Instant>,
}

impl Namespaces {
    /// At most one look in this time.
    const REST: Duration = Duration::from_secs(10);

    /// Read the names of this host.
    pub fn read() -> Self {
        Self {
            names: netns::names(),
            read_at: Some(Instant::now()),
        }
    }

    /// Keep the names that a recording has.
    pub fn recorded(places: Places) -> Self {
        Self {
            names: places.names,
            read_at: None,
        }
    }

    /// Return the name of a network namespace; one that is new is looked for.
    pub fn name(&mut self, netns: NetnsInode) -> Option<&Name> {
        let is_due = |read_at: Instant| read_at.elapsed() > Self::REST;
        if !self.names.contains_key(&netns) && self.read_at.is_some_and(is_due) {
            self.names.extend(netns::names());
            self.read_at = Some(Instant::now());
        }
        self.names.get(&netns)
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::interface::{Interface, Medium};

    use super::*;

    const HOME: NetnsInode = NetnsInode(1);

    fn entry(name: &str, netns: u32, medium: Medium, messages: u64) -> InterfaceSummary {
        InterfaceSummary {
            interface: Some(Interface {
                name: name.into(),
                index: 2,
                netns: NetnsInode(netns),
            }),
            leads_on: medium.leads_on(),
            medium: Some(medium),
            messages,
        }
    }

    fn shown(interfaces: &[InterfaceSummary]) -> String {
        let mut text = Vec::new();
        summary(&mut text, interfaces, HOME, &BTreeMap::new()).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn packets_through_a_veth_lead_on() {
        let veth = Medium::Virtual("veth".to_owned());
        let other = InterfaceSummary {
            interface: None,
            medium: None,
            leads_on: false,
            messages: 1,
        };
        assert_eq!(
            shown(&[
                entry("eth0", 1, Medium::Physical, 20),
                entry("eth0", 7, veth, 12),
                other
            ]),
            " interfaces: eth0 20 (physical)\n             \
             eth0@7 12 (veth)\n             \
             other 1\n             \
             the way goes on in this host; --host-path shows it\n"
        );
    }

    #[test]
    fn interfaces_beyond_the_first_lines_are_summed() {
        let many: Vec<_> = (0..SHOWN + 3)
            .map(|_| entry("lo", 7, Medium::Loopback, 2))
            .collect();
        let text = shown(&many);
        assert_eq!(text.lines().count(), SHOWN + 1);
        assert!(text.ends_with("             3 more 6\n"), "{text}");
        assert_eq!(shown(&[]), "");
    }
}
