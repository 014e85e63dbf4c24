//! The peer whose data a task sleeps for, by the call that it is in: proc(5)'s
//! `/proc/PID/task/TID/syscall`.
//!
//! A task that reads one socket, or that polls sockets of one peer alone, waits for that peer. An
//! event loop, which watches its listener and its clients as well, waits for anything; what it is
//! connected to by Unix sockets may be that, and so may the end of the call's own time.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::libc;
use serde::{Deserialize, Serialize};
use sockstamp_model::flow::{NetnsInode, canonical};

use crate::descriptors;
use crate::memory;
use crate::netns;
use crate::unix::{Service, Unix};

/// Descriptors that a call is asked for: a task that polls more is an event loop.
const MOST: usize = 64;
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
            let peer = self.socket(process, netns, inode)?.remote?;
            return Some(Awaited::Room(peer));
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

/// The call that a task sleeps in, as far as its arguments are in memory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asleep {
    call: Call,
    /// The descriptors that it waits on to read; `None` if they are too many.
    descriptors: Option<Vec<u64>>,
    ends_after: Option<Duration>,
}

impl Asleep {
    /// Read it. That waits for pages that may not come.
    pub(crate) fn of(pid: u32, task: u32) -> Option<Self> {
        let text = fs::read_to_string(of_task(pid, task).join("syscall")).ok()?;
        let process = Path::new("/proc").join(pid.to_string());
        let call = Call::read(&text)?;
        Some(Self {
            call,
            descriptors: call.descriptors(&process),
            ends_after: call.ends_after(&process, &text),
        })
    }
}

fn of_task(pid: u32, task: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/task/{task}"))
}

/// A system call that waits for data or room, and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Call {
    /// Of one descriptor.
    Read { fd: u64 },
    /// The same, which sends.
    Send { fd: u64 },
    /// An array of `struct pollfd`.
    Poll { array: u64, count: u64 },
    /// A set of bits.
    Select { below: u64, set: u64 },
    /// The descriptors of an epoll instance.
    Epoll { fd: u64 },
}

impl Call {
    /// `0 0x3 0x7ffc… 0x400 …`: a number, its arguments, the stack and the instruction pointer.
    fn read(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace();
        let number: libc::c_long = fields.next()?.parse().ok()?;
        let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
        let (first, second) = (argument()?, argument()?);
        match number {
            libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => {
                Some(Self::Read { fd: first })
            }
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_sendfile => Some(Self::Send { fd: first }),
            libc::SYS_ppoll => Some(Self::Poll {
                array: first,
                count: second,
            }),
            libc::SYS_pselect6 => Some(Self::Select {
                below: first,
                set: second,
            }),
            libc::SYS_epoll_pwait | SYS_EPOLL_PWAIT2 => Some(Self::Epoll { fd: first }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => Some(Self::Poll {
                array: first,
                count: second,
            }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => Some(Self::Select {
                below: first,
                set: second,
            }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => Some(Self::Epoll { fd: first }),
            _ => None,
        }
    }

    /// Return true for the call of an event loop, which may have no other connection just now.
    const fn is_of_loop(self) -> bool {
        matches!(self, Self::Epoll { .. })
    }

    /// Return true for a wait for any of several things.
    const fn is_of_events(self) -> bool {
        !matches!(self, Self::Read { .. } | Self::Send { .. })
    }

    /// Return the time after which it ends without any event, if it does.
    fn ends_after(self, process: &Path, text: &str) -> Option<Duration> {
        let mut fields = text.split_ascii_whitespace();
        let number: libc::c_long = fields.next()?.parse().ok()?;
        let mut argument = |at: usize| {
            let field = fields.nth(at)?.strip_prefix("0x")?;
            u64::from_str_radix(field, 16).ok()
        };
        let of_pointer = |at: Option<u64>| timespec(process, at.filter(|at| *at != 0)?);
        match self {
            Self::Poll { .. } if number == libc::SYS_ppoll => of_pointer(argument(2)),
            Self::Poll { .. } => millis(argument(2)?),
            Self::Epoll { .. } if number == SYS_EPOLL_PWAIT2 => of_pointer(argument(3)),
            Self::Epoll { .. } => millis(argument(3)?),
            Self::Select { .. } if number == libc::SYS_pselect6 => of_pointer(argument(4)),
            Self::Read { .. } | Self::Send { .. } | Self::Select { .. } => None,
        }
    }

    /// Return the descriptors that it waits on to read; `None` if they are too many.
    fn descriptors(self, process: &Path) -> Option<Vec<u64>> {
        let found: Vec<u64> = match self {
            Self::Read { fd } | Self::Send { fd } => vec![fd],
            Self::Poll { count, .. } if count > MOST as u64 => return None,
            Self::Poll { array, count } => {
                let bytes = memory(process, array, count * 8)?;
                bytes.chunks_exact(8).filter_map(polled).collect()
            }
            Self::Select { below, .. } if below > 1024 => return None,
            Self::Select { set: 0, .. } => return None,
            Self::Select { below, set } => {
                let bytes = memory(process, set, below.div_ceil(8))?;
                let is_set = |fd: &u64| {
                    let byte = usize::try_from(fd / 8).ok().and_then(|at| bytes.get(at));
                    byte.is_some_and(|byte| byte >> (fd % 8) & 1 == 1)
                };
                (0..below).filter(is_set).collect()
            }
            Self::Epoll { fd } => {
                let text = fs::read_to_string(process.join(format!("fdinfo/{fd}"))).ok()?;
                text.lines().filter_map(watched).collect()
            }
        };
        (found.len() <= MOST).then_some(found)
    }
}

/// Return true unless a task has surely no child, whose end it may wait for (CONFIG_PROC_CHILDREN).
fn has_children(task: &Path) -> bool {
    fs::read_to_string(task.join("children")).map_or(true, |children| !children.trim().is_empty())
}

/// Of all architectures, since v5.11 (include/uapi/asm-generic/unistd.h).
const SYS_EPOLL_PWAIT2: libc::c_long = 441;

/// A time in milliseconds; a negative one never ends.
fn millis(argument: u64) -> Option<Duration> {
    let low = u32::try_from(argument & u64::from(u32::MAX)).ok()?;
    let time = u64::try_from(low.cast_signed()).ok()?;
    Some(Duration::from_millis(time))
}

/// A `struct timespec` of a process.
fn timespec(process: &Path, address: u64) -> Option<Duration> {
    let bytes = memory(process, address, 16)?;
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let nanos = u32::try_from(word(8)?).ok()?;
    Some(Duration::new(word(0)?, nanos.min(999_999_999)))
}

/// Return the descriptor of a `struct pollfd` that asks for data: poll(2).
fn polled(bytes: &[u8]) -> Option<u64> {
    let fd = i32::from_ne_bytes(*bytes.first_chunk()?);
    let events = i16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    u64::try_from(fd)
        .ok()
        .filter(|_| events & libc::POLLIN != 0)
}

/// Return the descriptor of a line `tfd: 5 events: 19 …` that asks for data: proc(5).
fn watched(line: &str) -> Option<u64> {
    let mut fields = line.strip_prefix("tfd:")?.split_ascii_whitespace();
    let fd = fields.next()?.parse().ok()?;
    let events = u32::from_str_radix(fields.nth(1)?, 16).ok()?;
    (events & libc::EPOLLIN.cast_unsigned() != 0).then_some(fd)
}

fn memory(process: &Path, address: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let file = File::open(process.join("mem")).ok()?;
    file.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
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
            let line = lines.find(|line| line.local == local && line.state != LISTEN);
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

    #[test]
    fn calls_end_after_their_own_time() {
        let after = |number: libc::c_long, arguments: &str| {
            let text = format!("{number} {arguments}");
            let call = Call::read(&text)?;
            call.ends_after(Path::new("/proc/self"), &text)
        };
        let epoll = libc::SYS_epoll_pwait;
        let of = Duration::from_millis(400);
        assert_eq!(
            after(epoll, "0x3 0x7ffc 0x20 0x190 0x0 0x8 0x7f 0x7e"),
            Some(of)
        );
        assert_eq!(
            after(epoll, "0x3 0x7ffc 0x20 0xffffffff 0x0 0x8 0x7f 0x7e"),
            None
        );
        assert_eq!(
            after(epoll, "0x3 0x7ffc 0x20 0xffffffffffffffff 0x0 0x8"),
            None
        );
        let time: [u64; 2] = [1, 500_000_000];
        let of_pointer = format!("0x3 0x1 {:#x} 0x0 0x8", time.as_ptr().addr());
        let of = Some(Duration::from_millis(1_500));
        assert_eq!(after(libc::SYS_ppoll, &of_pointer), of);
        assert_eq!(after(libc::SYS_ppoll, "0x3 0x1 0x0 0x0 0x8"), None);
    }

    #[test]
    fn calls_and_what_they_watch_are_read() {
        let call = Call::read("0 0x3 0x7ffc 0x400 0x0 0x0 0x0 0x7ffc 0x7f0a");
        assert_eq!(call.is_some(), libc::SYS_read == 0);
        assert_eq!(Call::read("running"), None);
        assert_eq!(watched("tfd:        5 events:       19 data: 5"), Some(5));
        assert_eq!(watched("tfd:        5 events:        4 data: 5"), None);
        assert_eq!(watched("flags:\t02"), None);
    }
}
