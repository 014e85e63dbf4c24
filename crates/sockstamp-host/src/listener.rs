//! Listening TCP sockets, their accept queues and what they dropped.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;

use anyhow::Result;
use sockstamp_model::flow::NetnsInode;

use crate::netns;
use crate::sock_diag::{self, Entry, INET_DIAG_SKMEMINFO, TCP_LISTEN};

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

/// Position of `SK_MEMINFO_DROPS`, the ninth word, in `INET_DIAG_SKMEMINFO`.
const DROPS: usize = 32;

/// The listeners of network namespaces, and how often accept queues were full there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listeners {
    /// Each listener.
    pub each: BTreeMap<Key, Listener>,
    /// `ListenOverflows` of nstat(8) of each network namespace; none where it cannot be read.
    pub overflows: BTreeMap<NetnsInode, u64>,
}

/// Return the listeners of this network namespace and of all others that can be entered, or of one.
///
/// # Errors
///
/// If the kernel does not list them, or the host is short of tasks.
pub fn all(only: Option<NetnsInode>) -> Result<Listeners> {
    let mut all = Listeners::default();
    for (netns, found) in netns::in_each(only, here) {
        let (listeners, overflows) = found??;
        let keyed = listeners.into_iter();
        all.each
            .extend(keyed.map(|(cookie, listener)| ((netns, cookie), listener)));
        all.overflows
            .extend(overflows.map(|overflows| (netns, overflows)));
    }
    Ok(all)
}

/// Listeners with their cookies.
type Found = Vec<(u64, Listener)>;

/// Return the listeners of the calling thread's network namespace, and its count of overflows.
fn here() -> Result<(Found, Option<u64>)> {
    let mut found = Vec::new();
    sock_diag::each(&[TCP_LISTEN], INET_DIAG_SKMEMINFO, &mut |entry| {
        found.extend(listener(entry));
    })?;
    let counters = fs::read_to_string("/proc/thread-self/net/netstat");
    Ok((found, counters.ok().as_deref().and_then(overflows)))
}

/// Find a counter in a line of values, which follows one of names: `netstat_seq_show()`,
/// net/ipv4/proc.c, v6.18.
fn overflows(counters: &str) -> Option<u64> {
    let mut lines = counters.lines();
    let place = lines.find_map(|names| {
        names
            .split_whitespace()
            .position(|name| name == "ListenOverflows")
    })?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
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
            let all = all(Some(netns::own().unwrap())).unwrap();
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
    fn both_families_have_their_addresses() {
        let listening = TcpListener::bind("[::1]:0").unwrap();
        let address = listening.local_addr().unwrap();
        let found = all(None).unwrap().each;
        assert!(
            found.values().any(|listener| listener.local == address),
            "{found:?}"
        );
    }

    #[test]
    fn overflows_are_found_by_their_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 22 333\n\
                    IpExt: InNoRoutes\nIpExt: 4\n";
        assert_eq!(overflows(text), Some(22));
        assert_eq!(overflows("IpExt: InNoRoutes\nIpExt: 4\n"), None);
        assert_eq!(overflows("TcpExt: ListenOverflows\n"), None);
        let here = all(Some(netns::own().unwrap())).unwrap();
        assert_eq!(here.overflows.len(), 1);
    }
}
