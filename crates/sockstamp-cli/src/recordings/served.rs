//! Programs of the host that recorded, by the messages that they read: a peer whose own messages
//! are in the recording is not beyond this host.

use std::net::SocketAddr;

use rustc_hash::FxHashMap;
use sockstamp_explain::diagnosis::There;
use sockstamp_host::places::Places;
use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::name::Name;
use sockstamp_model::stage::Direction;

/// Connections that are kept.
const MOST: usize = 16_384;

/// The two ends of a connection, as one of them has it.
type Ends = (SocketAddr, SocketAddr);

/// Readers by their connection.
#[derive(Debug, Default)]
pub(super) struct Served {
    readers: FxHashMap<Ends, (NetnsInode, u32, Name)>,
    places: Places,
}

impl Served {
    pub(super) fn of(places: Places) -> Self {
        Self {
            places,
            ..Self::default()
        }
    }

    /// Note who has read a message. `process`: the name of its process, if that is known.
    pub(super) fn add(&mut self, message: &Message, process: Option<&Name>) {
        let flow = &message.flow;
        let ends = (canonical(flow.local), canonical(flow.remote));
        let has_room = self.readers.len() < MOST && !self.readers.contains_key(&ends);
        if message.direction == Direction::Rx && has_room {
            let name = process.unwrap_or(&message.comm).clone();
            self.readers.insert(ends, (flow.netns, message.pid, name));
        }
    }

    /// Return the program at the other end: the namespace that asks, the service, and its own end.
    pub(super) fn at(
        &self,
        (from, service, own): (NetnsInode, SocketAddr, SocketAddr),
    ) -> Option<There> {
        let ends = (canonical(service), canonical(own));
        let (netns, pid, name) = self.readers.get(&ends)?;
        // The loopback address of another namespace is not the one that is asked.
        if service.ip().is_loopback() && *netns != from {
            return None;
        }
        let place = || match self.places.names.get(netns) {
            Some(name) => name.clone(),
            None => Name::from(netns.to_string()),
        };
        Some(There {
            process: Some((*pid, name.clone())),
            netns: (*netns != from).then(place),
        })
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::fixture;

    use super::*;

    #[test]
    fn who_reads_on_the_other_end_is_on_this_host() {
        let mut read = fixture::message(Direction::Rx);
        read.flow.netns = NetnsInode(7);
        (read.pid, read.comm) = (9, Name::from("worker"));
        let flow = read.flow;
        let mut places = Places::default();
        places.names.insert(NetnsInode(7), Name::from("shop"));
        let mut served = Served::of(places);
        served.add(&read, Some(&Name::from("redis")));
        let asked = |from| served.at((NetnsInode(from), flow.local, flow.remote));
        let process = Some((9, Name::from("redis")));
        let netns = Some(Name::from("shop"));
        assert_eq!(asked(8), Some(There { process, netns }));
        assert_eq!(asked(7).unwrap().netns, None);
        assert_eq!(served.at((NetnsInode(8), flow.remote, flow.local)), None);
    }

    #[test]
    fn another_namespaces_loopback_is_not_asked() {
        let mut read = fixture::message(Direction::Rx);
        (read.flow.local, read.flow.remote) = (
            "127.0.0.1:80".parse().unwrap(),
            "127.0.0.1:4000".parse().unwrap(),
        );
        let mut served = Served::default();
        served.add(&read, None);
        let asked = |from| served.at((from, read.flow.local, read.flow.remote));
        assert!(asked(read.flow.netns).is_some());
        assert_eq!(asked(NetnsInode(u32::MAX)), None);
    }
}
