//! The other ends of Unix sockets: sock_diag(7), for unix(7).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::sys::socket::SockProtocol;
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::name::Name;

use crate::netlink::{self, value, word};
use crate::{descriptors, netns};

// include/uapi/linux/sock_diag.h, unix_diag.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_NAME: u32 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_PEER: u16 = 2;
/// Bytes of `struct unix_diag_req` and `struct unix_diag_msg`.
const REQUEST: usize = 24;
const MESSAGE: usize = 16;
/// Where the latter has the inode.
const INODE: usize = 4;

/// Look through the descriptors of all processes this often at most: a service with many workers
/// has one of them at each end.
const MOST_SEARCHES: u32 = 8;
/// Processes that are remembered for a service.
const MOST_WORKERS: usize = 16;

/// A service behind a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The address that it listens at: a path, or an abstract name after `@`.
    pub path: Name,
    /// The process that has accepted the connection, where it was found, and that one's name.
    pub process: Option<(u32, Name)>,
}

/// Sockets to the kernel of every namespace that could be entered, and what they have told.
#[derive(Debug, Default)]
pub struct Unix {
    kernels: BTreeMap<NetnsInode, OwnedFd>,
    /// Processes that had such a service's end of a connection.
    workers: BTreeMap<Name, BTreeSet<u32>>,
    searches: u32,
}

/// A socket, as the kernel lists it.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    name: Option<Name>,
    peer: u64,
}

impl Unix {
    /// Open them; later calls need no privilege.
    #[must_use]
    pub fn open() -> Self {
        let files = netns::files_for_sockets();
        let open = || netlink::open(SockProtocol::NetlinkSockDiag);
        let opened = netns::in_each_of(&files, &[], open).into_iter();
        let opened = opened.filter_map(|(netns, socket)| Some((netns, socket.ok()?.ok()?)));
        Self {
            kernels: opened.collect(),
            ..Self::default()
        }
    }

    /// Return the inodes of the Unix sockets of a namespace; `None` where nobody can tell, as of
    /// one that came after these were opened.
    #[must_use]
    pub fn inodes(&self, netns: NetnsInode) -> Option<BTreeSet<u64>> {
        let kernel = self.kernels.get(&netns)?;
        let mut inodes = BTreeSet::new();
        let mut add = |socket: &[u8]| inodes.extend(word(socket, INODE).map(u64::from));
        netlink::dump(kernel, SOCK_DIAG_BY_FAMILY, &request(0, 0), &mut add).ok()?;
        Some(inodes)
    }

    /// Return true if a Unix socket of a namespace is open.
    #[must_use]
    pub fn is_open(&self, netns: NetnsInode, inode: u64) -> bool {
        self.listed(netns, inode).is_some()
    }

    /// Return the process that holds the end of a connection to a service, by its inode, or another
    /// one of that service, and its name.
    pub fn holder(&mut self, path: &Name, inode: u64) -> Option<(u32, Name)> {
        self.worker(path, inode)
    }

    /// Return true if a socket of a namespace has connected to a service, and asks it.
    #[must_use]
    pub fn asks(&self, netns: NetnsInode, inode: u64) -> bool {
        let own = self.listed(netns, inode).filter(|own| own.name.is_none());
        let other = own.and_then(|own| self.listed(netns, own.peer));
        other.is_some_and(|other| other.name.is_some())
    }

    /// Return the process that has accepted the connection of such a socket, and its name.
    pub fn server(&mut self, netns: NetnsInode, inode: u64) -> Option<(u32, Name)> {
        self.service(netns, inode)??.process
    }

    /// Return the service at the other end of a socket of a namespace: `None` if it is none of
    /// Unix; `Some(None)` if the other end is a client, or has no name.
    pub(crate) fn service(&mut self, netns: NetnsInode, inode: u64) -> Option<Option<Service>> {
        let own = self.listed(netns, inode)?;
        let of_service = |other: Listed| match own.name {
            None => other.name,
            Some(_) => None,
        };
        let path = self.listed(netns, own.peer).and_then(of_service);
        Some(path.map(|path| Service {
            process: self.worker(&path, own.peer),
            path,
        }))
    }

    fn listed(&self, netns: NetnsInode, inode: u64) -> Option<Listed> {
        let inode = u32::try_from(inode).ok().filter(|inode| *inode != 0)?;
        let kernel = self.kernels.get(&netns)?;
        let answer = netlink::ask(
            kernel,
            SOCK_DIAG_BY_FAMILY,
            &request(inode, UDIAG_SHOW_NAME | UDIAG_SHOW_PEER),
        )
        .ok()?;
        Listed::read(&answer)
    }

    /// Return the process that has the service's end: mostly one that had another before.
    fn worker(&mut self, path: &Name, inode: u64) -> Option<(u32, Name)> {
        let place = |pid: u32| PathBuf::from(format!("/proc/{pid}"));
        let holds = |pid: &u32| descriptors::holds(&place(*pid), inode);
        let known = self.workers.entry(path.clone()).or_default();
        let mut found = known.iter().copied().find(holds);
        if found.is_none() && self.searches < MOST_SEARCHES {
            self.searches += 1;
            found = netns::pids().find(holds);
            if known.len() < MOST_WORKERS {
                known.extend(found);
            }
        }
        // Another worker of the same service has its name.
        let pid = found.or_else(|| known.first().copied())?;
        Some((pid, name_of(&place(pid))?))
    }
}

fn name_of(process: &Path) -> Option<Name> {
    let name = fs::read(process.join("comm")).ok()?;
    Some(Name::from(String::from_utf8_lossy(&name).trim_end()))
}

impl Listed {
    fn read(answer: &[u8]) -> Option<Self> {
        let attributes = answer.get(MESSAGE..)?;
        let peer = value(attributes, UNIX_DIAG_PEER).and_then(|peer| word(peer, 0));
        Some(Self {
            name: value(attributes, UNIX_DIAG_NAME).and_then(path),
            peer: peer.unwrap_or(0).into(),
        })
    }
}

/// Return a path without the zero that ends it; that of an abstract name begins it.
fn path(name: &[u8]) -> Option<Name> {
    let name = match name {
        [0, name @ ..] => [b"@", name].concat(),
        name => name.split(|byte| *byte == 0).next()?.to_vec(),
    };
    (name.len() > 1).then(|| Name::from(&name[..]))
}

/// A `struct unix_diag_req` for one socket, by its inode alone, or for all: with what to show.
fn request(inode: u32, show: u32) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    request[0] = u8::try_from(libc::AF_UNIX).unwrap_or(0);
    request[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    request[8..12].copy_from_slice(&inode.to_ne_bytes());
    request[12..16].copy_from_slice(&show.to_ne_bytes());
    request[16..].fill(u8::MAX);
    request
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn inode(socket: &impl AsRawFd) -> u64 {
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let inode = link.to_str().unwrap().trim_start_matches("socket:[");
        inode.trim_end_matches(']').parse().unwrap()
    }

    /// The witness is this process, which has both ends.
    #[test]
    fn who_asks_is_told_the_service_and_who_serves_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("service");
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let (served, _) = listener.accept().unwrap();
        let home = netns::own().unwrap();
        let mut unix = Unix::open();
        let service = unix.service(home, inode(&client)).unwrap().unwrap();
        assert_eq!(service.path.to_string(), path.display().to_string());
        let (pid, _) = service.process.unwrap();
        assert_eq!(pid, std::process::id());
        assert_eq!(unix.service(home, inode(&served)), Some(None));
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(unix.service(home, inode(&one)), Some(None));
        let listed = unix.inodes(home).unwrap();
        let ends = [inode(&client), inode(&served)];
        assert!(ends.iter().all(|inode| listed.contains(inode)));
        assert_eq!(unix.holder(&service.path, inode(&served)).unwrap().0, pid);
        assert!(ends.iter().all(|inode| unix.is_open(home, *inode)));
        drop(served);
        assert!(!unix.inodes(home).unwrap().contains(&ends[1]) && !unix.is_open(home, ends[1]));
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(unix.service(home, inode(&tcp)), None);
    }

    #[test]
    fn names_end_at_a_zero_or_begin_with_one() {
        let of = |name: &[u8]| path(name).map(|name| name.to_string());
        assert_eq!(of(b"/run/php.sock\0").as_deref(), Some("/run/php.sock"));
        assert_eq!(of(b"\0php").as_deref(), Some("@php"));
        assert_eq!(of(b"\0"), None);
        assert_eq!(of(b""), None);
    }
}
