//! The peers that containers have connections to now.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sockstamp_host::connection::{self, Connection};
use sockstamp_host::{container, netns};
use sockstamp_model::flow::{CgroupId, Flow, NetnsInode, Protocol, SocketCookie, canonical};
use sockstamp_model::stage::Direction;
use sockstamp_ping::Namespace;

/// A container's name, as the label `container` has it, and the address of a peer.
pub(super) type Key = (String, IpAddr);

/// A peer of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) namespace: Namespace,
    /// The lowest port that the container's own connections use, if it opened any.
    pub(super) port: Option<u16>,
    /// The smallest round trip of its connections.
    pub(super) min_rtt: Option<Duration>,
}

/// Peers, and the number of those that cannot be probed.
#[derive(Debug, Default)]
pub(super) struct Peers {
    pub(super) found: BTreeMap<Key, Peer>,
    /// They are on the same host, or in the same namespace: no network lies between.
    pub(super) local: usize,
    /// Addresses that mean something on one interface alone.
    pub(super) link_local: usize,
    /// Network namespaces whose connections the kernel does not list, or that cannot be entered
    /// for a lack of tasks.
    pub(super) unlisted: usize,
}

/// Find the peers within the target of the measurement. Its processes, names and interface are not
/// known of a connection: they leave none out.
pub(super) fn find(target: &sockstamp_bpf::Target) -> anyhow::Result<Peers> {
    let containers = container::by_cgroup(target.cgroup.as_deref())?;
    let mut peers = Peers::default();
    if containers.is_empty() {
        return Ok(peers);
    }
    let own = netns::own().ok();
    let files = netns::files();
    for (netns, connections) in netns::in_each_of(&files, target.netns, connection::here) {
        // A namespace whose connections the kernel does not list has peers that are not found.
        let Ok(Ok(connections)) = connections else {
            peers.unlisted += 1;
            continue;
        };
        let namespace = match files.get(&netns) {
            _ if Some(netns) == own => Namespace::Own,
            Some(file) => Namespace::Path(PathBuf::clone(file)),
            None => continue,
        };
        for connection in connections {
            if let Some(container) = containers.get(&CgroupId(connection.cgroup))
                && is_selected(target, netns, &connection)
            {
                peers.add(container.qualified_id(), &namespace, &connection);
            }
        }
    }
    Ok(peers)
}

fn is_selected(target: &sockstamp_bpf::Target, netns: NetnsInode, connection: &Connection) -> bool {
    let flow = Flow {
        netns,
        protocol: Protocol::Tcp,
        local: connection.local,
        remote: connection.remote,
        cookie: SocketCookie(0),
    };
    let filter = target.filter.as_ref();
    filter.is_none_or(|filter| {
        let mut directions = Direction::ALL.into_iter();
        directions.any(|direction| filter.selects(&flow, direction))
    })
}

impl Peers {
    fn add(&mut self, container: String, namespace: &Namespace, connection: &Connection) {
        let [local, remote] = [connection.local, connection.remote].map(canonical);
        match remote.ip() {
            address if address.is_loopback() || address == local.ip() => self.local += 1,
            IpAddr::V6(address) if address.is_unicast_link_local() => self.link_local += 1,
            address => {
                let known = self
                    .found
                    .entry((container, address))
                    .or_insert_with(|| Peer {
                        namespace: namespace.clone(),
                        port: None,
                        min_rtt: None,
                    });
                known.merge(remote, connection);
            }
        }
    }
}

impl Peer {
    fn merge(&mut self, remote: SocketAddr, connection: &Connection) {
        // The port of a peer that connected to us is not a service.
        let port = Some(remote.port()).filter(|_| !connection.accepted);
        self.port = [self.port, port].into_iter().flatten().min();
        self.min_rtt = [self.min_rtt, connection.min_rtt]
            .into_iter()
            .flatten()
            .min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(local: &str, remote: &str, micros: u64, accepted: bool) -> Connection {
        Connection {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            cgroup: 0,
            min_rtt: Some(Duration::from_micros(micros)),
            accepted,
        }
    }

    #[test]
    fn connections_to_one_peer_are_one_and_local_ones_are_none() {
        let mut peers = Peers::default();
        for connection in [
            connection("[::ffff:10.0.0.1]:4000", "[::ffff:10.0.0.2]:443", 30, false),
            connection("10.0.0.1:4001", "10.0.0.2:80", 20, false),
            connection("10.0.0.1:22", "10.0.0.2:50", 40, true),
            connection("10.0.0.1:4002", "10.0.0.1:80", 10, false),
            connection("127.0.0.1:4003", "127.0.0.2:80", 10, false),
            connection("[fe80::1]:4004", "[fe80::2]:80", 10, false),
        ] {
            peers.add("web".to_owned(), &Namespace::Own, &connection);
        }
        let peer = Peer {
            namespace: Namespace::Own,
            port: Some(80),
            min_rtt: Some(Duration::from_micros(20)),
        };
        let key = ("web".to_owned(), "10.0.0.2".parse().unwrap());
        assert_eq!(peers.found, BTreeMap::from([(key, peer)]));
        assert_eq!((peers.local, peers.link_local), (2, 1));
    }

    #[test]
    fn the_filter_of_the_target_holds_for_peers() {
        let target = |filter: &str| sockstamp_bpf::Target {
            filter: Some(filter.parse().unwrap()),
            ..sockstamp_bpf::Target::default()
        };
        let connection = connection("10.0.0.1:4000", "10.0.0.2:443", 1, false);
        assert!(is_selected(&target("port 443"), NetnsInode(1), &connection));
        assert!(!is_selected(
            &target("not port 443"),
            NetnsInode(1),
            &connection
        ));
    }
}
