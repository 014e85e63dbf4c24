//! The peer whose data a task sleeps for, by the call that it is in: proc(5)'s
//! `/proc/PID/task/TID/syscall`.
//!
//! A task that reads one socket, or that polls sockets of one peer alone, waits for that peer. An
//! event loop, which watches its listener and its clients as well, waits for anything; what it is
//! connected to by Unix sockets may be that, and so may the end of the call's own time.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use sockstamp_model::flow::{NetnsInode, canonical};

use crate::call::{Asleep, Call, of_task};
use crate::cut;
use crate::descriptors;
use crate::memory;
use crate::netns;
use crate::unix::{Service, Unix};

/// Lists of sockets longer than this are not read: their sockets stay unknown.
const MOST_BYTES: u64 = 4 << 20;
/// A list is read again for a socket that it has not, after this time at the earliest.
const OLDEST: Duration = Duration::from_millis(500);

/// TCP_LISTEN, include/net/tcp_states.h.
const LISTEN: u8 = 10;

/// A Unix socket that was seen for so long may have been idle for as long.
const YOUNG: Duration = Duration::from_secs(2);

/// The sockets of each namespace, by inode.
#[derive(Debug, Default)]
pub struct Sockets {
    listed: HashMap<NetnsInode, Listed>,
    unix: Unix,
    /// Unix sockets that were seen, by namespace and inode.
    seen: HashMap<(NetnsInode, u64), Seen>,
    begun: Option<Instant>,
}

/// When a socket was seen first and last.
#[derive(Debug, Clone, Copy)]
struct Seen {
    first: Instant,
    last: Instant,
}

/// The end of a wait in a call of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Awaited {
    /// Data of one peer, which its program asked: the peer of an accepted connection is a client.
    Peer(SocketAddr),
    /// A service behind a Unix socket, and nothing else.
    Service(Service),
    /// Anything; services that it is connected to are in it, and whether each of these connections
    /// is younger than the looks.
    Any(Vec<(Service, bool)>),
    /// Data of one client, to whose accepted connection it keeps.
    Client(SocketAddr),
    /// Data of its clients alone: it asks nobody, and has no child.
    Clients,
    /// Room for what it sends to a peer.
    Room(SocketAddr),
    /// The same, to a service behind a Unix socket.
    ServiceRoom(Service),
}

#[derive(Debug)]
struct Listed {
    at: Instant,
    sockets: HashMap<u64, Socket>,
}

#[derive(Debug, Clone, Copy)]
struct Socket {
    /// The other end, if it has one.
    remote: Option<SocketAddr>,
    /// The same; none if it was accepted.
    peer: Option<SocketAddr>,
    /// The other end, if it was accepted.
    client: Option<SocketAddr>,
    /// The inode of the other end, in the same namespace.
    other: Option<u64>,
    /// Sends datagrams to anybody: who asks, and whom, is not known.
    is_free: bool,
}

impl Sockets {
    /// None yet, with what Unix sockets need.
    #[must_use]
    pub fn new(unix: Unix) -> Self {
        Self {
            unix,
            begun: Some(Instant::now()),
            ..Self::default()
        }
    }

    /// Return what a task of a process waits for in its call, and the time after which the call
    /// ends by itself.
    pub fn slept_for(&mut self, pid: u32, task: u32) -> (Option<Awaited>, Option<Duration>) {
        let Some(asleep) = memory::call(pid, task) else {
            return (None, None);
        };
        let (call, ends_after) = (asleep.call, asleep.ends_after);
        let process = Path::new("/proc").join(pid.to_string());
        let awaited = self.awaited(&process, asleep);
        let is_alone = call.is_of_events() && !has_children(&of_task(pid, task));
        let awaited = match awaited {
            Some(Awaited::Clients) if !is_alone => Some(Awaited::Any(Vec::new())),
            awaited => awaited,
        };
        (awaited, ends_after)
    }

    fn awaited(&mut self, process: &Path, asleep: Asleep) -> Option<Awaited> {
        let Asleep {
            call, descriptors, ..
        } = asleep;
        let netns = netns::of_process(process)?;
        if let Call::Send { fd } = call {
            let inode = descriptors::socket(process, fd)?;
            return match self.socket(process, netns, inode) {
                Some(socket) => socket.remote.map(Awaited::Room),
                // A reader of a Unix socket takes too little, as one of /dev/log.
                None => self.unix.service(netns, inode)?.map(Awaited::ServiceRoom),
            };
        }
        let descriptors = descriptors?;
        let inodes = descriptors
            .iter()
            .filter_map(|fd| descriptors::socket(process, *fd));
        let inodes: BTreeSet<u64> = inodes.collect();
        let (mut peers, mut services, mut has_clients) = (BTreeSet::new(), Vec::new(), false);
        let mut has_others = false;
        let is_one = inodes.len() == 1 && !call.is_of_loop();
        for inode in inodes {
            // Other sockets are mostly pairs, by which threads and signals wake a task.
            match self.socket(process, netns, inode) {
                Some(Socket { other, .. })
                    if other.is_some_and(|other| descriptors::holds(process, other)) => {}
                Some(Socket {
                    client: Some(client),
                    ..
                }) if is_one => return Some(Awaited::Client(client)),
                Some(Socket {
                    peer: None,
                    is_free,
                    ..
                }) => {
                    has_clients = true;
                    has_others |= is_free;
                }
                Some(Socket { peer, .. }) => peers.extend(peer),
                None => match self.unix.service(netns, inode) {
                    Some(Some(service)) => services.push((service, self.is_young(netns, inode))),
                    Some(None) => has_clients = true,
                    // Opened since the sockets were listed, or of another family.
                    None => has_others = true,
                },
            }
        }
        match (peers.len(), &services[..], has_clients) {
            (1, [], false) => peers.pop_first().map(Awaited::Peer),
            (0, [(service, _)], false) => Some(Awaited::Service(service.clone())),
            (0, [], true) if !has_others => Some(Awaited::Clients),
            _ => Some(Awaited::Any(services)),
        }
    }

    /// Return true for a socket that was opened after the first look, and not long ago.
    fn is_young(&mut self, netns: NetnsInode, inode: u64) -> bool {
        self.is_young_at(Instant::now(), (netns, inode))
    }

    fn is_young_at(&mut self, now: Instant, socket: (NetnsInode, u64)) -> bool {
        // One that is still looked at stays known: it would be new again.
        self.seen.retain(|_, seen| now < seen.last + YOUNG * 4);
        let first_look = Seen {
            first: now,
            last: now,
        };
        let seen = self.seen.entry(socket).or_insert(first_look);
        seen.last = now;
        let is_new = self.begun.is_some_and(|begun| seen.first > begun + OLDEST);
        is_new && now < seen.first + YOUNG
    }

    /// Return a socket, if it is one of TCP or UDP.
    fn socket(&mut self, process: &Path, netns: NetnsInode, inode: u64) -> Option<Socket> {
        let known = self.listed.get(&netns);
        let is_known = known
            .is_some_and(|known| known.sockets.contains_key(&inode) || known.at.elapsed() < OLDEST);
        if !is_known {
            self.listed.insert(netns, Listed::read(process));
        }
        self.listed.get(&netns)?.sockets.get(&inode).copied()
    }
}

impl Listed {
    fn read(process: &Path) -> Self {
        let mut listening = BTreeSet::new();
        let mut sockets = Vec::new();
        for list in ["net/tcp", "net/tcp6", "net/udp", "net/udp6"] {
            let text = bounded(&process.join(list));
            for line in text.lines().filter_map(Line::read) {
                let is_udp = list.starts_with("net/udp");
                if !is_udp && line.state == LISTEN {
                    listening.insert(line.local.port());
                }
                sockets.push((line, is_udp && line.remote.port() == 0));
            }
        }
        let ends = sockets
            .iter()
            .map(|(line, _)| ((line.local, line.remote), line.inode));
        let ends: HashMap<_, _> = ends.collect();
        let socket = |(line, is_free): &(Line, bool)| {
            let is_asked = line.remote.port() != 0 && !listening.contains(&line.local.port());
            let is_accepted = line.remote.port() != 0 && !is_asked;
            let socket = Socket {
                remote: (line.remote.port() != 0).then_some(line.remote),
                peer: is_asked.then_some(line.remote),
                client: is_accepted.then_some(line.remote),
                other: ends.get(&(line.remote, line.local)).copied(),
                is_free: *is_free,
            };
            (line.inode, socket)
        };
        Self {
            at: Instant::now(),
            sockets: sockets.iter().map(socket).collect(),
        }
    }
}

/// Read a list of sockets; nothing of one that is too long.
pub(crate) fn bounded(path: &Path) -> String {
    use std::io::Read as _;
    let mut text = String::new();
    let read = File::open(path).map(|file| file.take(MOST_BYTES).read_to_string(&mut text));
    match read {
        Ok(Ok(length)) if (length as u64) < MOST_BYTES => text,
        Ok(Ok(_)) => {
            cut::count();
            String::new()
        }
        _ => String::new(),
    }
}

/// A socket in proc_net(5)'s `tcp` or `udp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) state: u8,
    /// Bytes that were not acknowledged.
    pub(crate) sent: u32,
    /// Unread bytes, or connections that wait to be accepted.
    pub(crate) queue: u32,
    pub(crate) inode: u64,
}

impl Line {
    pub(crate) fn read(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        let state = u8::from_str_radix(fields.next()?, 16).ok()?;
        let (sent, queue) = fields.next()?.split_once(':')?;
        Some(Self {
            local,
            remote,
            state,
            sent: u32::from_str_radix(sent, 16).ok()?,
            queue: u32::from_str_radix(queue, 16).ok()?,
            inode: fields.nth(4)?.parse().ok()?,
        })
    }
}

/// Read an address in words of this host's order, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok();
    let ip = match address.len() {
        8 => IpAddr::from(word(0)?.to_ne_bytes()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
            IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

/// Return true unless a task has surely no child, whose end it may wait for (CONFIG_PROC_CHILDREN).
fn has_children(task: &Path) -> bool {
    fs::read_to_string(task.join("children")).map_or(true, |children| !children.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process;
    use std::sync::mpsc;
    use std::thread::{self, sleep};

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    /// Return the number of the calling thread.
    fn own_task() -> u32 {
        // `PID/task/TID`, proc(5).
        let link = fs::read_link("/proc/thread-self").unwrap();
        link.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    /// A thread does this on a connection; what is seen of it then.
    fn seen(waits: impl FnOnce(&TcpStream) + Send) -> (Option<SocketAddr>, SocketAddr) {
        // Nobody accepts, so that this process has not both ends.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = client.peer_addr().unwrap();
        let (known, task) = mpsc::channel();
        let found = thread::scope(|scope| {
            scope.spawn(|| {
                known.send(own_task()).unwrap();
                waits(&client);
            });
            let task = task.recv().unwrap();
            sleep(Duration::from_millis(100));
            let found = Sockets::default().slept_for(process::id(), task);
            drop(listener);
            match found {
                (Some(Awaited::Peer(peer)), _) => Some(peer),
                _ => None,
            }
        });
        (found, server)
    }

    #[test]
    fn a_unix_socket_that_is_looked_at_grows_old_once() {
        let begun = Instant::now();
        let mut sockets = Sockets {
            begun: Some(begun),
            ..Sockets::default()
        };
        let mut is_young =
            |seconds| sockets.is_young_at(begun + Duration::from_secs(seconds), (NetnsInode(1), 7));
        assert!(is_young(1));
        assert!((3..60).all(|seconds| !is_young(seconds)));
    }

    #[test]
    fn a_task_that_reads_or_polls_sleeps_for_the_peer() {
        let (found, server) = seen(|mut client| drop(client.read(&mut [0])));
        assert_eq!(found, Some(server));
        let (found, server) = seen(|client| {
            let mut polled = [PollFd::new(client, PollFlags::IN)];
            poll(&mut polled, None).unwrap();
        });
        assert_eq!(found, Some(server));
        assert_eq!(seen(|_| sleep(Duration::from_millis(500))).0, None);
    }

    #[test]
    fn a_task_in_a_send_sleeps_for_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = client.peer_addr().unwrap();
        let (known, task) = mpsc::channel();
        let found = thread::scope(|scope| {
            scope.spawn(|| {
                known.send(own_task()).unwrap();
                // More than both buffers hold, until the peer is reset.
                let _ = (&client).write_all(&vec![0; 64 << 20]);
            });
            let task = task.recv().unwrap();
            let look = || Sockets::default().slept_for(process::id(), task);
            let began = Instant::now();
            let mut found = look();
            while found.0.is_none() && began.elapsed() < Duration::from_secs(30) {
                sleep(Duration::from_millis(10));
                found = look();
            }
            drop(listener);
            found
        });
        assert_eq!(found, (Some(Awaited::Room(server)), None));
    }

    #[test]
    fn a_pair_within_a_process_wakes_its_own_tasks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let listed = Listed::read(Path::new("/proc/self"));
        let local = accepted.local_addr().unwrap();
        let is_pair = |socket: &&Socket| socket.peer == Some(local);
        let other = listed
            .sockets
            .values()
            .find(is_pair)
            .unwrap()
            .other
            .unwrap();
        assert!(descriptors::holds(Path::new("/proc/self"), other));
        drop((client, accepted));
        assert!(!descriptors::holds(Path::new("/proc/self"), other));
    }

    #[test]
    fn who_accepts_waits_for_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let listed = Listed::read(Path::new("/proc/self"));
        let of = |socket: &TcpStream| {
            let local = socket.local_addr().unwrap();
            let text = fs::read_to_string("/proc/self/net/tcp").unwrap();
            let mut lines = text.lines().filter_map(Line::read);
            // One that is closed, and waits, has no inode.
            let is_open = |line: &Line| line.state != LISTEN && line.inode != 0;
            let line = lines.find(|line| line.local == local && is_open(line));
            listed.sockets[&line.unwrap().inode].peer
        };
        assert_eq!(of(&client), Some(client.peer_addr().unwrap()));
        assert_eq!(of(&accepted), None);
    }

    #[test]
    fn lines_of_sockets_are_read() {
        let line = "  137: 00000000:0035 0200000A:0000 07 00000000:00000000 00:00000000 00000000 \
                     0        0 4711 2 0 0";
        let line = Line::read(line).unwrap();
        assert_eq!(line.local, "0.0.0.0:53".parse().unwrap());
        assert_eq!((line.state, line.inode), (7, 4711));
        assert_eq!(Line::read("   sl  local_address rem_address   st"), None);
        assert_eq!(Line::read(""), None);
    }
}
