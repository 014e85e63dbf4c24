//! The accept queues of services on this host, in whatever network namespace.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use nix::sys::socket::SockProtocol;
use sockstamp_model::flow::{NetnsInode, canonical};

use crate::netlink;
use crate::netns;
use crate::sock_diag::{self, DROPS, Entry, INET_DIAG_SKMEMINFO, TCP_LISTEN};

/// An accept queue at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptQueue {
    /// The listener that has it: several tasks may listen at one address.
    pub cookie: u64,
    /// Connections that wait for accept().
    pub queue: u32,
    /// The most that may wait, less one.
    pub limit: u32,
    /// Segments that the listener has dropped (`sk_drops`), most of them for want of room.
    pub drops: u32,
}

impl AcceptQueue {
    /// Return true if it has no room for another connection (`sk_acceptq_is_full()`,
    /// include/net/sock.h, v6.18).
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.queue > self.limit
    }

    /// Return true if it had no room at some time since a look before: its task has taken one or
    /// two since, and more was dropped.
    #[must_use]
    pub const fn was_full_since(self, before: Self) -> bool {
        let is_it = self.cookie == before.cookie;
        is_it && self.queue > 0 && self.queue + 1 >= self.limit && self.drops != before.drops
    }
}

/// Sockets to the kernel of every namespace that could be entered.
#[derive(Debug)]
pub struct AcceptQueues(BTreeMap<NetnsInode, OwnedFd>);

impl AcceptQueues {
    /// Open them; later calls need no privilege.
    #[must_use]
    pub fn open() -> Self {
        let files = netns::files_for_sockets();
        let open = || netlink::open(SockProtocol::NetlinkSockDiag);
        let opened = netns::in_each_of(&files, &[], open).into_iter();
        Self(
            opened
                .filter_map(|(netns, socket)| Some((netns, socket.ok()?.ok()?)))
                .collect(),
        )
    }

    /// Return the queues of the service at an address of a namespace, that with the least room
    /// first: several tasks may listen there with sockets of their own.
    #[must_use]
    pub fn at(&self, netns: NetnsInode, service: SocketAddr) -> Vec<AcceptQueue> {
        let mut found: Vec<AcceptQueue> = Vec::new();
        let Some(socket) = self.0.get(&netns) else {
            return found;
        };
        // A namespace that has ended has no listeners.
        let _ = sock_diag::each_by(socket, &[TCP_LISTEN], INET_DIAG_SKMEMINFO, &mut |entry| {
            found.extend(queue(entry, canonical(service)));
        });
        let room = |queue: &AcceptQueue| i64::from(queue.limit) - i64::from(queue.queue);
        found.sort_by_key(room);
        found
    }
}

/// Return the queue of a listener, if it is the one of the service.
fn queue(entry: Entry<'_>, service: SocketAddr) -> Option<AcceptQueue> {
    let local = canonical(entry.local()?);
    let is_it = local == service || local.ip().is_unspecified() && local.port() == service.port();
    let queue = AcceptQueue {
        cookie: entry.cookie()?,
        queue: entry.receive_queue()?,
        limit: entry.send_queue()?,
        drops: entry
            .attribute_word(INET_DIAG_SKMEMINFO, DROPS)
            .unwrap_or(0),
    };
    is_it.then_some(queue)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// The witness is the caller of listen() and connect().
    #[test]
    fn a_queue_is_full_with_one_more_than_its_limit() {
        let netns = netns::own().unwrap();
        let queues = AcceptQueues::open();
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        nix::sys::socket::listen(&listening, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
        let service = listening.local_addr().unwrap();
        let at = || queues.at(netns, service).first().copied();
        let empty = at().unwrap();
        assert_eq!((empty.queue, empty.limit), (0, 1));
        let waiting = [(); 2].map(|()| TcpStream::connect(service).unwrap());
        let queue = at().unwrap();
        assert!(queue.queue == 2 && queue.is_full(), "{queue:?}");
        assert!(!queue.was_full_since(empty));
        let dropped = AcceptQueue { drops: 1, ..queue };
        assert!(dropped.was_full_since(empty));
        let other = AcceptQueue {
            cookie: queue.cookie + 1,
            ..dropped
        };
        assert!(!other.was_full_since(empty));
        drop(listening.accept().unwrap());
        assert!(!at().unwrap().is_full());
        drop((waiting, listening));
        assert_eq!(at(), None);
    }
}
