//! The comments of packets.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;
use sockstamp_model::container::container_of;
use sockstamp_model::flow::CgroupId;
use sockstamp_model::name::Name;
use sockstamp_model::packet::{MessageName, Packet, PacketStage};

/// Processes whose text is kept.
const OWNERS: usize = 4_096;

/// Forms `pid=1 comm=curl container=docker/0123456789ab stage=driver gso=3x1448`, of what is known,
/// and the keys by which a recording has its message.
///
/// Names are escaped, spaces in them too, so that no name looks like another word.
#[derive(Default)]
pub(super) struct Comments {
    /// By process: what nearly all of its packets have in common.
    owners: FxHashMap<Option<u32>, Owner>,
    text: String,
}

impl Comments {
    pub(super) fn of(&mut self, packet: &Packet<'_>, message: Option<&MessageName>) -> &str {
        let Self { owners, text } = self;
        if owners.len() >= OWNERS {
            owners.clear();
        }
        let owner = owners
            .entry(packet.pid)
            .or_insert_with(|| Owner::of(packet));
        if !owner.has(packet) {
            *owner = Owner::of(packet);
        }
        let known = &owner.texts[packet.stage as usize];
        if packet.segments.is_none() && message.is_none() {
            return known;
        }
        text.clone_from(known);
        if let Some(segments) = packet.segments {
            let _ = write!(text, " gso={}x{}", segments.count, segments.size);
        }
        if let Some(message) = message {
            name_message(text, message);
        }
        text
    }
}

fn name_message(text: &mut String, message: &MessageName) {
    let (cookie, time) = (message.cookie.0, message.time.as_nanos());
    let _ = write!(text, " message_cookie={cookie} message_time_ns={time}");
    if let Some(end) = message.seq_end {
        let _ = write!(text, " seq_end={end}");
    }
}

/// The process of a packet, and its container.
struct Owner {
    comm: Name,
    cgroup: Option<CgroupId>,
    has_path: bool,
    /// By stage.
    texts: [String; PacketStage::ALL.len()],
}

impl Owner {
    fn of(packet: &Packet<'_>) -> Self {
        let mut text = String::new();
        if let Some(pid) = packet.pid {
            let _ = write!(text, "pid={pid} comm={} ", word(&packet.comm.to_string()));
        }
        let path = packet.cgroup_path.as_deref();
        if let Some(container) = path.and_then(|path| container_of(path.as_bytes())) {
            let _ = write!(text, "container={} ", word(&container.to_string()));
        }
        Self {
            comm: packet.comm.clone(),
            cgroup: packet.cgroup,
            has_path: path.is_some(),
            texts: PacketStage::ALL.map(|stage| format!("{text}stage={stage}")),
        }
    }

    /// Return true if nothing has changed. A cgroup has one path, which may be learned later.
    fn has(&self, packet: &Packet<'_>) -> bool {
        self.cgroup == packet.cgroup
            && self.has_path == packet.cgroup_path.is_some()
            && self.comm == packet.comm
    }
}

fn word(name: &str) -> String {
    name.replace(' ', "\\x20")
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::flow::{Flow, NetnsInode, Protocol, SocketCookie};
    use sockstamp_model::interface::Interface;
    use sockstamp_model::packet::Segments;
    use sockstamp_model::stage::Direction;

    use super::*;

    fn packet(comm: &str, cgroup: u64, path: Option<&str>) -> Packet<'static> {
        Packet {
            stage: PacketStage::Driver,
            direction: Direction::Tx,
            time: Timestamp::from_nanos(1),
            stamp: Timestamp::from_nanos(1),
            address: 0,
            flow: Flow {
                netns: NetnsInode(1),
                protocol: Protocol::Tcp,
                local: "10.0.0.1:1".parse().unwrap(),
                remote: "10.0.0.2:2".parse().unwrap(),
                cookie: SocketCookie(0),
            },
            cgroup: Some(CgroupId(cgroup)),
            cgroup_path: path.map(|path| Cow::Owned(path.into())),
            pid: Some(7),
            comm: comm.into(),
            interface: Interface {
                name: "eth0".into(),
                index: 2,
                netns: NetnsInode(1),
            },
            length: 40,
            segments: Some(Segments {
                size: 1448,
                count: 3,
            }),
            bytes: Cow::default(),
        }
    }

    #[test]
    fn a_name_in_a_comment_is_one_word() {
        let packet = packet("a pid=1\n\u{1b}[2J", 1, Some("/system.slice/nginx.service"));
        let message = MessageName {
            cookie: SocketCookie(5),
            time: Timestamp::from_nanos(6),
            seq_end: Some(7),
        };
        assert_eq!(
            Comments::default().of(&packet, Some(&message)),
            "pid=7 comm=a\\x20pid=1\\n\\x1b[2J container=nginx.service stage=driver gso=3x1448 message_cookie=5 message_time_ns=6 seq_end=7"
        );
    }

    /// A process that is not known has the id `None`, and yet a container.
    #[test]
    fn a_comment_follows_a_change_of_its_process() {
        let mut comments = Comments::default();
        let (a, b) = ((1, Some("/a.service")), (2, Some("/b.service")));
        for (pid, comm, (cgroup, path), expected) in [
            (Some(7), "sh", (1, None), "pid=7 comm=sh stage=driver"),
            (
                Some(7),
                "sh",
                a,
                "pid=7 comm=sh container=a.service stage=driver",
            ),
            (
                Some(7),
                "sh",
                a,
                "pid=7 comm=sh container=a.service stage=driver",
            ),
            (
                Some(7),
                "curl",
                a,
                "pid=7 comm=curl container=a.service stage=driver",
            ),
            (
                Some(7),
                "curl",
                b,
                "pid=7 comm=curl container=b.service stage=driver",
            ),
            (
                Some(8),
                "curl",
                b,
                "pid=8 comm=curl container=b.service stage=driver",
            ),
            (None, "", b, "container=b.service stage=driver"),
        ] {
            let packet = Packet {
                pid,
                segments: None,
                ..packet(comm, cgroup, path)
            };
            assert_eq!(comments.of(&packet, None), expected);
        }
    }
}
