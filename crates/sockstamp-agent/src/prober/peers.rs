//! The peers that containers have connections to now.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sockstamp_host::connection::{self, Connection};
use sockstamp_host::{container, netns};
use sockstamp_model::container::Container;
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
    /// Both ends are on the same host, or in the same namespace: no network lies between.
    pub(super) local: usize,
    /// Addresses that mean something on one interface alone.
    pub(super) link_local: usize,
    /// Network namespaces whose connections the kernel does not list, or that cannot be entered
    /// for a lack of tasks.
    pub(super) unlisted: usize,
    /// Network namespaces that were looked at.
    pub(super) namespaces: usize,
    /// CPU time of the threads that entered them.
    pub(super) elsewhere: Duration,
}

/// The containers of cgroups that connections were in at the last reading. The kernel gives no
/// number of a cgroup twice, so each is looked up once.
#[derive(Debug, Default)]
pub(super) struct Containers(HashMap<CgroupId, Option<Container>>);

impl Containers {
    /// Learn the containers of these cgroups, within a directory or on the host, and forget others.
    fn learn(&mut self, wanted: &BTreeSet<CgroupId>, within: Option<&Path>) -> anyhow::Result<()> {
        self.0.retain(|cgroup, _| wanted.contains(cgroup));
        let unknown = wanted.iter().filter(|cgroup| !self.0.contains_key(*cgroup));
        let unknown: BTreeSet<_> = unknown.copied().collect();
        if !unknown.is_empty() {
            self.0.extend(container::of_cgroups(&unknown, within)?);
        }
        Ok(())
    }

    /// Return the number of known cgroups.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn of(&self, connection: &Connection) -> Option<&Container> {
        self.0.get(&CgroupId(connection.cgroup))?.as_ref()
    }
}

/// Find the peers within the target of the measurement. Its processes, names and interface are not
/// known of a connection: they leave none out.
pub(super) fn find(
    target: &sockstamp_bpf::Target,
    containers: &mut Containers,
    namespaces: &mut netns::Files,
) -> anyhow::Result<Peers> {
    let mut peers = Peers::default();
    let mut found = Vec::new();
    let own = netns::own().ok();
    let files = namespaces.look();
    let look = || (connection::here(), cpu_time());
    for (netns, looked) in netns::in_each_of(files, &target.netns, look) {
        peers.namespaces += 1;
        if let (Ok((_, spent)), true) = (&looked, Some(netns) != own) {
            peers.elsewhere += *spent;
        }
        // A namespace whose connections the kernel does not list has peers that are not found.
        let Ok((Ok(mut connections), _)) = looked else {
            peers.unlisted += 1;
            continue;
        };
        let namespace = match files.get(&netns) {
            _ if Some(netns) == own => Namespace::Own,
            Some(file) => Namespace::Path(PathBuf::clone(file)),
            None => continue,
        };
        connections.retain(|connection| is_selected(target, netns, connection));
        found.push((namespace, connections));
    }
    if peers.namespaces < files.len() {
        namespaces.forget();
    }
    let connections = found.iter().flat_map(|(_, connections)| connections);
    let wanted = connections.map(|connection| CgroupId(connection.cgroup));
    containers.learn(&wanted.collect(), target.cgroup.as_deref())?;
    for (namespace, connections) in &found {
        for connection in connections {
            if let Some(container) = containers.of(connection) {
                peers.add(container.qualified_id(), namespace, connection);
            }
        }
    }
    Ok(peers)
}

/// Return the CPU time of the calling thread.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
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

    #[test]
    fn a_cgroup_is_looked_up_once_while_it_has_connections() {
        let mut containers = Containers::default();
        let nowhere = [CgroupId(u64::MAX), CgroupId(u64::MAX - 1)];
        containers.learn(&nowhere.into(), None).unwrap();
        assert_eq!(containers.0.len(), 2);
        // Known containers are not asked for again: this directory is no cgroup's.
        let known = Container {
            runtime: sockstamp_model::container::Runtime::Docker,
            id: "0123".to_owned(),
            user: None,
        };
        containers.0.insert(nowhere[0], Some(known.clone()));
        let wanted = BTreeSet::from([nowhere[0]]);
        containers
            .learn(&wanted, Some(Path::new("/nowhere")))
            .unwrap();
        assert_eq!(containers.0, HashMap::from([(nowhere[0], Some(known))]));
    }
}
