//! Whose a service is that has an address of this host, in any network namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::name::Name;

use crate::netns;
use crate::slept_for::{self, Line};

/// Processes of a namespace that are asked for their sockets, at most.
const MOST: usize = 4096;

/// A connection as the end that asks has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// The namespace of the end that asks.
    pub netns: NetnsInode,
    /// Its address.
    pub local: SocketAddr,
    /// The address of the service.
    pub remote: SocketAddr,
}

/// The other end, on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its namespace.
    pub netns: NetnsInode,
    /// The process that has its socket, and that one's name, where that is known.
    pub process: Option<(u32, Name)>,
}

/// A namespace with a socket of the service, and that socket's inode.
#[derive(Debug, Clone, Copy)]
struct Found {
    netns: NetnsInode,
    inode: u64,
    is_connection: bool,
}

/// Return who has the services at the other ends, where that is this host. Two namespaces may have
/// one address: then only the connection itself tells whose it is.
#[must_use]
pub fn of(asked: &BTreeSet<Ends>) -> BTreeMap<Ends, Owner> {
    let mut found = BTreeMap::<Ends, Vec<Found>>::new();
    for (netns, process) in netns::a_process_of_each() {
        for (ends, inode, is_connection) in look(asked, &process) {
            // The service of another namespace's own loopback is not meant.
            if ends.netns == netns || !ends.remote.ip().is_loopback() {
                let one = Found {
                    netns,
                    inode,
                    is_connection,
                };
                found.entry(ends).or_default().push(one);
            }
        }
    }
    let only = found.into_iter().filter_map(|(ends, found)| {
        let connection = found.iter().find(|one| one.is_connection);
        let place = connection.or_else(|| match &found[..] {
            [first, others @ ..] => others
                .iter()
                .all(|other| other.netns == first.netns)
                .then_some(first),
            [] => None,
        })?;
        Some((ends, *place))
    });
    let only: BTreeMap<Ends, Found> = only.collect();
    let inodes = only.values().map(|found| (found.netns, found.inode));
    let holders = holders(&inodes.collect());
    only.into_iter()
        .map(|(ends, Found { netns, inode, .. })| {
            let process = holders.get(&(netns, inode)).cloned();
            (ends, Owner { netns, process })
        })
        .collect()
}

/// Return the sockets of a process' namespace that are the other end of one of these, or that wait
/// there for connections or datagrams: the inode, and true for the connection itself. /proc needs
/// no privilege for that, which a measurement has given up by then.
fn look(asked: &BTreeSet<Ends>, process: &Path) -> Vec<(Ends, u64, bool)> {
    let own = addresses(process);
    let is_own = |ends: &&Ends| own.contains(&canonical(ends.remote).ip());
    let asked: Vec<Ends> = asked.iter().filter(is_own).copied().collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for list in ["net/tcp", "net/tcp6", "net/udp", "net/udp6"] {
        let text = slept_for::bounded(&process.join(list));
        // A connection that nobody has accepted yet has no inode: its listener's process has it.
        let lines = text.lines().filter_map(Line::read);
        for line in lines.filter(|line| line.inode != 0) {
            let remote = (line.remote.port() != 0).then_some(line.remote);
            found.extend(matching(&asked, line.local, remote, line.inode));
        }
    }
    found
}

/// Return which of these the socket is the other end of.
fn matching(
    asked: &[Ends],
    local: SocketAddr,
    remote: Option<SocketAddr>,
    inode: u64,
) -> impl Iterator<Item = (Ends, u64, bool)> {
    let is_it = move |ends: &&Ends| {
        let service = canonical(ends.remote);
        let is_here =
            local == service || local.ip().is_unspecified() && local.port() == service.port();
        is_here && remote.is_none_or(|remote| remote == canonical(ends.local))
    };
    let found = asked.iter().filter(is_it).copied();
    found.map(move |ends| (ends, inode, remote.is_some()))
}

/// Return the addresses of a process' namespace, from proc(5)'s `fib_trie` and `if_inet6`.
fn addresses(process: &Path) -> BTreeSet<IpAddr> {
    let trie = fs::read_to_string(process.join("net/fib_trie")).unwrap_or_default();
    let v6 = fs::read_to_string(process.join("net/if_inet6")).unwrap_or_default();
    let v6 = v6.lines().filter_map(|line| {
        let bits = u128::from_str_radix(line.get(..32)?, 16).ok()?;
        Some(IpAddr::from(Ipv6Addr::from(bits)))
    });
    v4_of(&trie).chain(v6).collect()
}

/// Return the addresses of a trie of routes: a leaf has its address, then what it leads to.
fn v4_of(trie: &str) -> impl Iterator<Item = IpAddr> {
    let mut leaf = None;
    trie.lines().filter_map(move |line| {
        let line = line.trim_start();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        }
        leaf.filter(|_| line.starts_with("/32 host LOCAL"))
    })
}

/// Return the processes that hold sockets, by their namespaces and inodes: of several the one that
/// came last, as workers come after what started them.
fn holders(wanted: &BTreeSet<(NetnsInode, u64)>) -> BTreeMap<(NetnsInode, u64), (u32, Name)> {
    let places: BTreeSet<_> = wanted.iter().map(|(netns, _)| *netns).collect();
    let mut holders = BTreeMap::new();
    if wanted.is_empty() {
        return holders;
    }
    let mut pids: Vec<u32> = netns::pids().collect();
    pids.sort_unstable();
    for pid in pids.into_iter().rev().take(MOST).rev() {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let Some(netns) = netns::of_process(&process).filter(|netns| places.contains(netns)) else {
            continue;
        };
        let name = fs::read(process.join("comm")).unwrap_or_default();
        let name = Name::from(String::from_utf8_lossy(&name).trim_end());
        let held = sockets_of(&process).map(|inode| (netns, inode));
        for socket in held.filter(|socket| wanted.contains(socket)) {
            holders.insert(socket, (pid, name.clone()));
        }
    }
    holders
}

fn sockets_of(process: &Path) -> impl Iterator<Item = u64> {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    open.flatten().filter_map(|file| {
        let link = fs::read_link(file.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        inode.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn addresses_are_read_from_the_trie_of_routes() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.77.0.0\n        /24 link UNICAST\n     \
                    |-- 10.77.0.2\n        /32 host LOCAL\n     |-- 10.77.0.255\n        /32 link \
                    BROADCAST\n";
        let found: Vec<IpAddr> = v4_of(trie).collect();
        assert_eq!(found, ["10.77.0.2".parse::<IpAddr>().unwrap()]);
    }

    /// The witness is this process, which has both ends.
    #[test]
    fn the_process_of_the_other_end_is_found() {
        let home = netns::own().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, _) = listener.accept().unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ends = |local, remote| Ends {
            netns: home,
            local,
            remote,
        };
        let (own, port) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let over_tcp = ends(own, port);
        let over_udp = ends(own, datagrams.local_addr().unwrap());
        let elsewhere = ends(own, "192.0.2.1:80".parse().unwrap());
        let found = of(&[over_tcp, over_udp, elsewhere].into_iter().collect());
        for service in [over_tcp, over_udp] {
            let owner = found.get(&service).unwrap();
            let pid = owner.process.as_ref().map(|(pid, _)| *pid);
            assert_eq!((owner.netns, pid), (home, Some(std::process::id())));
        }
        assert_eq!(found.get(&elsewhere), None);
    }
}
