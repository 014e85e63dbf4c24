//! Listening TCP sockets, their accept queues and what they dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Result;
use sockstamp_model::flow::{NetnsInode, canonical};

use crate::descriptors;
use crate::netns;
use crate::slept_for::{self, Line};
use crate::sock_diag::{
    self, DROPS, Entry, INET_DIAG_INFO, INET_DIAG_SKMEMINFO, TCP_LISTEN, TCP_SYN_RECV,
};
use crate::syn_drops::{SynDrops, counter};

/// A listening socket, as the kernel has it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its own address.
    pub local: SocketAddr,
    /// Connections that wait for accept().
    pub queue: u32,
    /// The most that may wait, less one.
    pub limit: u32,
    /// Segments dropped since it listens (`sk_drops`); the kernel wraps it. Besides those that
    /// found the accept queue full, it counts ends of handshakes that brought a RST, or no data
    /// where TCP_DEFER_ACCEPT waits for some (`tcp_v4_rcv()`, net/ipv4/tcp_ipv4.c, v6.18).
    pub drops: u32,
    /// The inode of the socket, as in /proc/PID/fd.
    pub inode: u32,
    /// The cgroup (version 2) that it was made in; 0 if unknown.
    pub cgroup: u64,
}

/// A socket for as long as it lives: its network namespace, and its cookie.
pub type Key = (NetnsInode, u64);

/// The listeners of network namespaces, and how often accept queues were full there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listeners {
    /// Each listener.
    pub each: BTreeMap<Key, Listener>,
    /// `ListenOverflows` of nstat(8) of each network namespace; none where it cannot be read.
    pub overflows: BTreeMap<NetnsInode, u64>,
    /// SYNs of each network namespace that found the queue of half-open handshakes full:
    /// `TCPReqQFullDrop` and `TCPReqQFullDoCookies` of nstat(8).
    pub refused: BTreeMap<NetnsInode, u64>,
    /// SYNs of each network namespace that were dropped although there was room.
    pub others: BTreeMap<NetnsInode, SynDrops>,
}

/// Return the network namespace of a process, and the ports on which somebody listens there; none
/// if its sockets are too many to list. That needs no privilege.
#[must_use]
pub fn ports(pid: u32) -> Option<(NetnsInode, BTreeSet<u16>)> {
    let netns = netns::of_process(&PathBuf::from(format!("/proc/{pid}")))?;
    let lines = lines(pid);
    let listening = lines.iter().filter(|line| line.state == TCP_LISTEN);
    let ports = listening.map(|line| line.local.port()).collect();
    (!lines.is_empty()).then_some((netns, ports))
}

/// Return true if a process has both ends of a connection, at whose ports nobody listens: it wakes
/// its own tasks by such a pair. A program that asks a service of its own still listens.
#[must_use]
pub fn wakes_itself(pid: u32, local: SocketAddr, remote: SocketAddr) -> bool {
    let (local, remote) = (canonical(local), canonical(remote));
    if local.ip() != remote.ip() {
        return false;
    }
    let lines = lines(pid);
    let serves = lines.iter().any(|line| {
        line.state == TCP_LISTEN && [local.port(), remote.port()].contains(&line.local.port())
    });
    let mut others = lines
        .iter()
        .filter(|line| (line.local, line.remote) == (remote, local));
    let process = PathBuf::from(format!("/proc/{pid}"));
    !serves && others.any(|line| descriptors::holds(&process, line.inode))
}

/// Return the TCP sockets of the network namespace of a process.
fn lines(pid: u32) -> Vec<Line> {
    let list = |name| slept_for::bounded(&PathBuf::from(format!("/proc/{pid}/net/{name}")));
    let lists = ["tcp", "tcp6"].map(list);
    let lines = lists.iter().flat_map(|list| list.lines());
    lines.filter_map(Line::read).collect()
}

/// Half-open handshakes: their peers, by the address and port that they are for.
pub type HalfOpen = Vec<(SocketAddr, IpAddr)>;

/// Return the half-open handshakes of a network namespace. The kernel walks over all of its
/// connections for them.
///
/// # Errors
///
/// If the kernel does not list them, or the host is short of tasks.
pub fn half_open(of: NetnsInode) -> Result<HalfOpen> {
    let mut all = HalfOpen::new();
    for (_, found) in netns::in_each(Some(of), half_open_here) {
        all.extend(found??);
    }
    Ok(all)
}

fn half_open_here() -> Result<HalfOpen> {
    let mut found = HalfOpen::new();
    sock_diag::each(&[TCP_SYN_RECV], INET_DIAG_INFO, &mut |entry| {
        let peer = entry.remote().map(|peer| peer.ip());
        found.extend(entry.local().zip(peer));
    })?;
    Ok(found)
}

/// Return the number of those for a listener, and of the addresses that they come from.
#[must_use]
pub fn half_open_at(local: SocketAddr, handshakes: &HalfOpen) -> (u32, u32) {
    let is_for = |to: &SocketAddr| {
        let any = local.ip().is_unspecified();
        to.port() == local.port() && (any || to.ip().to_canonical() == local.ip().to_canonical())
    };
    let peers: Vec<_> = handshakes
        .iter()
        .filter(|(to, _)| is_for(to))
        .map(|(_, peer)| *peer)
        .collect();
    let addresses: BTreeSet<_> = peers.iter().collect();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    (number(peers.len()), number(addresses.len()))
}

/// Return the listeners of this network namespace and of all others that can be entered, or of
/// these alone, if any are named.
///
/// # Errors
///
/// If the kernel does not list them, or the host is short of tasks.
pub fn all(only: &[NetnsInode]) -> Result<Listeners> {
    let mut all = Listeners::default();
    for (netns, found) in netns::in_each_of(&netns::files(), only, here) {
        let (listeners, counters, others) = found??;
        let keyed = listeners.into_iter();
        all.each
            .extend(keyed.map(|(cookie, listener)| ((netns, cookie), listener)));
        let counter = |name| counter(&counters, name);
        all.overflows
            .extend(counter("ListenOverflows").map(|count| (netns, count)));
        let refused = ["TCPReqQFullDrop", "TCPReqQFullDoCookies"].map(counter);
        let refused = refused.into_iter().flatten().reduce(u64::wrapping_add);
        all.refused.extend(refused.map(|count| (netns, count)));
        all.others.extend(others.map(|others| (netns, others)));
    }
    Ok(all)
}

/// Listeners with their cookies.
type Found = Vec<(u64, Listener)>;

/// Return the listeners of the calling thread's network namespace, and its counters; none of these
/// where they cannot be read.
fn here() -> Result<(Found, String, Option<SynDrops>)> {
    let mut found = Vec::new();
    sock_diag::each(&[TCP_LISTEN], INET_DIAG_SKMEMINFO, &mut |entry| {
        found.extend(listener(entry));
    })?;
    let counters = fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
    let others = SynDrops::here(&counters);
    Ok((found, counters, others))
}

/// Return a listener with its cookie.
fn listener(entry: Entry<'_>) -> Option<(u64, Listener)> {
    let listener = Listener {
        local: entry.local()?,
        queue: entry.receive_queue()?,
        limit: entry.send_queue()?,
        drops: entry
            .attribute_word(INET_DIAG_SKMEMINFO, DROPS)
            .unwrap_or(0),
        inode: entry.inode()?,
        cgroup: entry.cgroup(),
    };
    Some((entry.cookie()?, listener))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// The witness is the caller of listen() and connect().
    #[test]
    fn a_listener_reports_its_accept_queue() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listening.local_addr().unwrap();
        let of = || {
            let all = all(&[netns::own().unwrap()]).unwrap();
            let mut found = all.each.into_values();
            found.find(|listener| listener.local == address).unwrap()
        };
        let before = of();
        assert_eq!((before.queue, before.drops), (0, 0));
        // listen() of the standard library asks for 128, or for what the kernel allows.
        assert!(before.limit > 0);
        let _waiting = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        assert_eq!(of().queue, 2);
        listening.accept().unwrap();
        assert_eq!(of().queue, 1);
    }

    #[test]
    fn the_ports_of_a_process_are_those_that_listen() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listening.local_addr().unwrap().port();
        let client = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        let (_, own) = ports(std::process::id()).unwrap();
        assert!(own.contains(&port) && !own.contains(&client.local_addr().unwrap().port()));
    }

    #[test]
    fn a_pair_whose_listener_is_closed_wakes_its_own_process() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        let (accepted, _) = listening.accept().unwrap();
        let (local, remote) = (
            accepted.local_addr().unwrap(),
            accepted.peer_addr().unwrap(),
        );
        let is_pair = || wakes_itself(std::process::id(), local, remote);
        // A service that the program asks itself.
        assert!(!is_pair());
        drop(listening);
        assert!(is_pair() && wakes_itself(std::process::id(), remote, local));
        drop(client);
        assert!(!is_pair());
    }

    #[test]
    fn both_families_have_their_addresses() {
        let listening = TcpListener::bind("[::1]:0").unwrap();
        let address = listening.local_addr().unwrap();
        let found = all(&[]).unwrap().each;
        assert!(
            found.values().any(|listener| listener.local == address),
            "{found:?}"
        );
    }

    #[test]
    fn counters_are_found_by_their_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 22 333\n\
                    IpExt: InNoRoutes\nIpExt: 4\n";
        let overflows = |text| counter(text, "ListenOverflows");
        assert_eq!(overflows(text), Some(22));
        assert_eq!(overflows("IpExt: InNoRoutes\nIpExt: 4\n"), None);
        assert_eq!(overflows("TcpExt: ListenOverflows\n"), None);
        let here = all(&[netns::own().unwrap()]).unwrap();
        assert_eq!((here.overflows.len(), here.refused.len()), (1, 1));
    }

    #[test]
    fn half_open_handshakes_belong_to_the_listener_at_their_address() {
        let to = |local: &str, peer: &str| (local.parse().unwrap(), peer.parse().unwrap());
        let all = vec![
            to("10.0.0.1:80", "198.18.0.1"),
            to("10.0.0.1:80", "198.18.0.1"),
            to("10.0.0.2:80", "198.18.0.2"),
            to("10.0.0.1:81", "198.18.0.3"),
        ];
        assert_eq!(half_open_at("0.0.0.0:80".parse().unwrap(), &all), (3, 2));
        assert_eq!(half_open_at("10.0.0.1:80".parse().unwrap(), &all), (2, 1));
        assert_eq!(half_open_at("10.0.0.3:80".parse().unwrap(), &all), (0, 0));
    }
}
