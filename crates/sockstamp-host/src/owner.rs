//! Whose a service is that has an address of this host, in any network namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sockstamp_model::flow::{NetnsInode, canonical};
use sockstamp_model::name::Name;

use crate::descriptors;
use crate::netns;
use crate::slept_for::{self, Line};

/// Processes of all these namespaces that are asked for their sockets, at most.
const MOST: usize = 4096;
/// Descriptors that are looked at for that, at most: of all processes, and of one of them. A user
/// may give its processes half a million each, so that the first ones of every process come first:
/// they have half of the room.
const MOST_OF_ALL: usize = 1 << 19;
const MOST_OF_ONE: usize = 1 << 16;
const FIRST_OF_ONE: usize = MOST_OF_ALL / 2 / MOST;
/// Connections of a process that are returned, at most.
const MOST_CONNECTIONS: usize = 64;
/// IPv4 addresses of a namespace that are kept, at most.
const MOST_ADDRESSES: usize = 1 << 16;

/// A connection as the end that asks has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// The namespace of the end that asks.
    pub netns: NetnsInode,
    /// The address of that end.
    pub local: SocketAddr,
    /// The address of the service.
    pub remote: SocketAddr,
}

/// The other end, on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The namespace of the other end.
    pub netns: NetnsInode,
    /// The process that has its socket, and that one's name, where that is known.
    pub process: Option<(u32, Name)>,
}

/// Owners by connection, for looks that come again and again: to find one, all processes are asked.
#[derive(Debug, Default)]
pub struct Owners(BTreeMap<Ends, Known>);

/// An owner that was looked for, and when.
#[derive(Debug)]
struct Known {
    owner: Option<Owner>,
    at: Instant,
}

impl Known {
    /// A socket may be handed over, and a service may begin: look again after this time.
    const OLDEST: Duration = Duration::from_secs(10);

    fn holds(&self, now: Instant) -> bool {
        let process = self.owner.as_ref().and_then(|owner| owner.process.as_ref());
        let goes_on = |(pid, _): &(u32, Name)| Path::new(&format!("/proc/{pid}")).exists();
        now.duration_since(self.at) < Self::OLDEST && process.is_none_or(goes_on)
    }
}

impl Owners {
    /// Do the same as [`of`], but look only for what is not known, or too old.
    pub fn of(&mut self, asked: &BTreeSet<Ends>) -> BTreeMap<Ends, Owner> {
        self.at(Instant::now(), asked, of)
    }

    fn at(
        &mut self,
        now: Instant,
        asked: &BTreeSet<Ends>,
        find: impl FnOnce(&BTreeSet<Ends>) -> BTreeMap<Ends, Owner>,
    ) -> BTreeMap<Ends, Owner> {
        self.0.retain(|_, known| known.holds(now));
        let is_unknown = |ends: &&Ends| !self.0.contains_key(ends);
        let unknown: BTreeSet<Ends> = asked.iter().filter(is_unknown).copied().collect();
        if !unknown.is_empty() {
            let mut found = find(&unknown);
            self.0.extend(unknown.into_iter().map(|ends| {
                let owner = found.remove(&ends);
                (ends, Known { owner, at: now })
            }));
        }
        let owner = |ends: &Ends| Some((*ends, self.0.get(ends)?.owner.clone()?));
        asked.iter().filter_map(owner).collect()
    }
}

/// A namespace with a socket of the service, and that socket's inode.
#[derive(Debug, Clone, Copy)]
struct Found {
    netns: NetnsInode,
    inode: u64,
    is_connection: bool,
    /// The socket listens, and connections or datagrams wait there.
    has_queue: bool,
}

/// Return who has the services at the other ends, where that is this host. Two namespaces may have
/// one address: then only the connection itself tells whose it is.
#[must_use]
pub fn of(asked: &BTreeSet<Ends>) -> BTreeMap<Ends, Owner> {
    let mut found = BTreeMap::<Ends, Vec<Found>>::new();
    for (netns, process) in netns::a_process_of_each() {
        for (ends, line) in look(asked, &process) {
            // The service of another namespace's own loopback is not meant.
            if ends.netns == netns || !ends.remote.ip().is_loopback() {
                let is_connection = line.remote.port() != 0;
                let one = Found {
                    netns,
                    inode: line.inode,
                    is_connection,
                    has_queue: !is_connection && line.queue > 0,
                };
                found.entry(ends).or_default().push(one);
            }
        }
    }
    let candidates = found.into_iter();
    let candidates = candidates.filter_map(|(ends, found)| Some((ends, meant(found)?)));
    let candidates: BTreeMap<Ends, Vec<Found>> = candidates.collect();
    let inodes = candidates.values().flatten();
    let holders = holders(&inodes.map(|found| (found.netns, found.inode)).collect());
    let owner = |found: Vec<Found>| {
        let netns = found.first()?.netns;
        let mut processes = found.iter().map(|found| holders.get(&(netns, found.inode)));
        let first = processes.next()?;
        // Sockets of several processes: it may be any.
        let process = first.filter(|_| processes.all(|other| other == first));
        Some(Owner {
            netns,
            process: process.cloned(),
        })
    };
    candidates
        .into_iter()
        .filter_map(|(ends, found)| Some((ends, owner(found)?)))
        .collect()
}

/// Return true if the other end, in the namespace of a process, has no data under way and none
/// unread: whatever it was sent it has read, and all that it sent was acknowledged.
#[must_use]
pub fn is_silent(pid: u32, ends: &Ends) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let [local, remote] = [ends.remote, ends.local].map(canonical);
    let is_it = |line: &Line| (line.local, line.remote) == (local, remote);
    let lists = ["net/tcp", "net/tcp6"].map(|list| slept_for::bounded(&process.join(list)));
    let lines = lists.iter().flat_map(|text| text.lines());
    let other = lines.filter_map(Line::read).find(is_it);
    other.is_some_and(|line| line.sent == 0 && line.queue == 0)
}

/// Return the first of a process' TCP connections, by their ends.
#[must_use]
pub fn connections(process: &Path) -> BTreeSet<Ends> {
    const ESTABLISHED: u8 = 1;
    let Some(netns) = netns::of_process(process) else {
        return BTreeSet::new();
    };
    let own = descriptors::sockets(process);
    let lists = ["net/tcp", "net/tcp6"].map(|list| slept_for::bounded(&process.join(list)));
    let lines = lists
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(Line::read);
    let is_own = |line: &Line| line.state == ESTABLISHED && own.contains(&line.inode);
    let ends = |Line { local, remote, .. }| Ends {
        netns,
        local,
        remote,
    };
    lines
        .filter(is_own)
        .map(ends)
        .take(MOST_CONNECTIONS)
        .collect()
}

/// Return the sockets that may be meant: the connection itself; else the listener that has a queue,
/// if one has; else all of one namespace.
fn meant(found: Vec<Found>) -> Option<Vec<Found>> {
    if let Some(connection) = found.iter().find(|one| one.is_connection) {
        return Some(vec![*connection]);
    }
    let first = *found.first()?;
    if found.iter().any(|other| other.netns != first.netns) {
        return None;
    }
    let mut queues = found.iter().filter(|one| one.has_queue);
    match (queues.next(), queues.next()) {
        (Some(only), None) => Some(vec![*only]),
        _ => Some(found),
    }
}

/// Return the sockets of a process' namespace that are the other end of one of these, or that wait
/// there for connections or datagrams. /proc needs no privilege for that, which a measurement has
/// given up by then.
fn look(asked: &BTreeSet<Ends>, process: &Path) -> Vec<(Ends, Line)> {
    let own = addresses(process);
    let is_own = |ends: &&Ends| own.contains(&canonical(ends.remote).ip());
    let asked = Asked::new(asked.iter().filter(is_own).copied());
    if asked.by_port.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for list in ["net/tcp", "net/tcp6", "net/udp", "net/udp6"] {
        let text = slept_for::bounded(&process.join(list));
        // A connection that nobody has accepted yet has no inode: its listener's process has it.
        let lines = text.lines().filter_map(Line::read);
        for line in lines.filter(|line| line.inode != 0) {
            found.extend(asked.matching(line).map(|ends| (ends, line)));
        }
    }
    found
}

/// Connections whose other ends are looked for. Users may have very many, in lists that are as
/// long: a socket is not compared with each.
#[derive(Debug, Default)]
struct Asked {
    /// By the service, and the end that asks.
    by_ends: BTreeMap<(SocketAddr, SocketAddr), Vec<Ends>>,
    /// By the port of the service.
    by_port: BTreeMap<u16, Vec<Ends>>,
}

impl Asked {
    fn new(asked: impl Iterator<Item = Ends>) -> Self {
        let mut all = Self::default();
        for ends in asked {
            let (service, own) = (canonical(ends.remote), canonical(ends.local));
            all.by_ends.entry((service, own)).or_default().push(ends);
            all.by_port.entry(service.port()).or_default().push(ends);
        }
        all
    }

    /// Return which of these the socket is the other end of.
    fn matching(&self, line: Line) -> impl Iterator<Item = Ends> {
        let Line { local, remote, .. } = line;
        let is_it = move |ends: &&Ends| {
            let service = canonical(ends.remote);
            let is_here =
                local == service || local.ip().is_unspecified() && local.port() == service.port();
            is_here && (remote.port() == 0 || remote == canonical(ends.local))
        };
        let is_connection = remote.port() != 0 && !local.ip().is_unspecified();
        let near = match is_connection {
            true => self.by_ends.get(&(local, remote)),
            false => self.by_port.get(&local.port()),
        };
        near.into_iter().flatten().filter(is_it).copied()
    }
}

/// Return the addresses of a process' namespace, from proc(5)'s `fib_trie` and `if_inet6`.
fn addresses(process: &Path) -> BTreeSet<IpAddr> {
    // A router has a million routes, of which few are addresses.
    let trie = File::open(process.join("net/fib_trie")).map(BufReader::new);
    let v6 = slept_for::bounded(&process.join("net/if_inet6"));
    let v6 = v6.lines().filter_map(|line| {
        let bits = u128::from_str_radix(line.get(..32)?, 16).ok()?;
        Some(IpAddr::from(Ipv6Addr::from(bits)))
    });
    let v4 = trie.into_iter().flat_map(v4_of);
    v4.take(MOST_ADDRESSES).chain(v6).collect()
}

/// Return the addresses of a trie of routes: a leaf has its address, then what it leads to.
fn v4_of(trie: impl BufRead) -> impl Iterator<Item = IpAddr> {
    let mut leaf = None;
    let lines = trie.lines().map_while(Result::ok);
    lines.filter_map(move |line| {
        let line = line.trim_start();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        }
        leaf.filter(|_| line.starts_with("/32 host LOCAL"))
    })
}

/// Sockets of namespaces, by their inodes.
type Sockets = BTreeSet<(NetnsInode, u64)>;
type Holders = BTreeMap<(NetnsInode, u64), (u32, Name)>;

/// Return the processes that hold sockets: of several the one that came last, as workers come after
/// what started them.
fn holders(wanted: &Sockets) -> Holders {
    let places: BTreeSet<_> = wanted.iter().map(|(netns, _)| *netns).collect();
    if wanted.is_empty() {
        return Holders::new();
    }
    let process = |pid: u32| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let netns = netns::of_process(&process).filter(|netns| places.contains(netns))?;
        // Numbers begin anew at their limit.
        Some((started(&process)?, pid, netns, process))
    };
    let processes = netns::pids().filter_map(process).collect();
    let processes = last_and_first(processes, MOST).map(|(_, pid, netns, path)| (pid, netns, path));
    among(&processes.collect::<Vec<_>>(), wanted)
}

/// Return which of these processes hold sockets: of several the first one, of those that have it
/// among their first descriptors, or else of the others.
fn among(processes: &[(u32, NetnsInode, PathBuf)], wanted: &Sockets) -> Holders {
    let mut holders = Holders::new();
    let mut left = MOST_OF_ALL;
    for range in [0..FIRST_OF_ONE, FIRST_OF_ONE..MOST_OF_ONE] {
        for (pid, netns, process) in processes {
            if holders.len() == wanted.len() || left == 0 {
                break;
            }
            let held = sockets_of(process, range.clone(), &mut left);
            let held = held.map(|inode| (*netns, inode));
            for socket in held.filter(|socket| wanted.contains(socket)) {
                let name = || Name::from(comm(process).trim_end());
                holders.entry(socket).or_insert_with(|| (*pid, name()));
            }
        }
    }
    holders
}

fn comm(process: &Path) -> String {
    let name = fs::read(process.join("comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).into_owned()
}

/// Return these in the order from the last to the first. Of more than that, those in the middle are
/// left out: services begin with the host, and workers come last.
fn last_and_first<T: Ord>(mut all: Vec<T>, most: usize) -> impl Iterator<Item = T> {
    all.sort_unstable();
    if let Some(beyond) = all.len().checked_sub(most) {
        all.drain(most / 2..most / 2 + beyond);
    }
    all.into_iter().rev()
}

/// Return when a process was started, in ticks: field 22 of proc(5)'s `/proc/PID/stat`.
fn started(process: &Path) -> Option<u64> {
    let stat = fs::read(process.join("stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, after) = stat.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Return the inodes of the sockets that a process has open, in this part of its descriptors, and
/// of as many as are `left`.
fn sockets_of(process: &Path, part: Range<usize>, left: &mut usize) -> impl Iterator<Item = u64> {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    let open = open.flatten().skip(part.start).take(part.len().min(*left));
    open.inspect(|_| *left -= 1)
        .filter_map(|file| socket(&file))
}

/// Return the inode of a socket.
fn socket(descriptor: &DirEntry) -> Option<u64> {
    let link = fs::read_link(descriptor.path()).ok()?;
    let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
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
        let found: Vec<IpAddr> = v4_of(trie.as_bytes()).collect();
        assert_eq!(found, ["10.77.0.2".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn addresses_are_found_behind_any_number_of_routes() {
        let routes = "     |-- 10.78.0.0\n        /24 universe UNICAST\n".repeat(200_000);
        let trie = format!("Main:\n{routes}Local:\n     |-- 10.77.0.2\n        /32 host LOCAL\n");
        let found: Vec<IpAddr> = v4_of(trie.as_bytes()).collect();
        assert_eq!(found, ["10.77.0.2".parse::<IpAddr>().unwrap()]);
    }

    /// As of a user who has as many connections as a list may be long.
    #[test]
    fn very_many_connections_are_found_in_a_list_as_long() {
        const MANY: u32 = 20_000;
        let service: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let own = |number: u32| SocketAddr::from((Ipv6Addr::from(u128::from(number)), 9));
        let ends = |number| Ends {
            netns: NetnsInode(1),
            local: own(number),
            remote: service,
        };
        let line = |remote| Line {
            local: service,
            remote,
            state: 1,
            sent: 0,
            queue: 0,
            inode: 1,
        };
        let asked = Asked::new((1..=MANY).map(ends));
        let begun = Instant::now();
        for number in 1..=MANY {
            let found: Vec<_> = asked.matching(line(own(number))).collect();
            assert_eq!(found, [ends(number)]);
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
        // A listener has all.
        let listener = line(SocketAddr::from(([0; 4], 0)));
        assert_eq!(asked.matching(listener).count(), MANY as usize);
        let elsewhere = Line {
            local: "127.0.0.2:80".parse().unwrap(),
            ..line(own(1))
        };
        assert_eq!(asked.matching(elsewhere).count(), 0);
    }

    #[test]
    fn few_descriptors_are_looked_at_where_few_are_left() {
        let _open = [(); 20].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let own = Path::new("/proc/self");
        let sockets = |left: &mut usize| sockets_of(own, 0..MOST_OF_ONE, left).count();
        let mut left = 10;
        assert!(sockets(&mut left) <= 10);
        assert_eq!(sockets(&mut left), 0);
        let mut left = 10_000;
        assert!(sockets(&mut left) >= 20 && left <= 10_000 - 20);
    }

    #[test]
    fn new_processes_with_very_many_descriptors_hide_no_older_one() {
        const EACH: usize = 4096;
        let folder = tempfile::tempdir().unwrap();
        let process = |name: &str, descriptors: usize, inode: u64| {
            let process = folder.path().join(name);
            let open = process.join("fd");
            fs::create_dir_all(&open).unwrap();
            for number in 0..descriptors {
                let link = format!("socket:[{inode}]");
                std::os::unix::fs::symlink(link, open.join(number.to_string())).unwrap();
            }
            fs::write(process.join("comm"), format!("{name}\n")).unwrap();
            process
        };
        let netns = NetnsInode(1);
        let hoards = process("hoards", EACH, 5);
        let hoarding = (0..=MOST_OF_ALL / EACH).map(|_| (100, netns, hoards.clone()));
        let service = (7, netns, process("service", FIRST_OF_ONE, 9));
        let processes: Vec<_> = hoarding.chain([service]).collect();
        let wanted = [(netns, 9), (netns, 10)].into();
        let found = among(&processes, &wanted);
        assert_eq!(found, [((netns, 9), (7, Name::from("service")))].into());
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
        // A name server has one port for both protocols.
        let both = TcpListener::bind("127.0.0.1:0").unwrap();
        let of_both = UdpSocket::bind(both.local_addr().unwrap()).unwrap();
        let over_both = ends(own, of_both.local_addr().unwrap());
        let asked = [over_tcp, over_udp, over_both, elsewhere];
        let found = of(&asked.into_iter().collect());
        for service in [over_tcp, over_udp, over_both] {
            let owner = found.get(&service).unwrap();
            let pid = owner.process.as_ref().map(|(pid, _)| *pid);
            assert_eq!((owner.netns, pid), (home, Some(std::process::id())));
        }
        assert_eq!(found.get(&elsewhere), None);
    }

    #[test]
    fn owners_are_found_again_when_they_are_old_or_gone() {
        let own = std::process::id();
        let ends = |port| Ends {
            netns: NetnsInode(1),
            local: ([127, 0, 0, 1], port).into(),
            remote: ([127, 0, 0, 1], 80).into(),
        };
        let begun = Instant::now();
        let mut owners = Owners::default();
        let mut look = |after: u64, ports: &[u16], pid: u32| {
            let mut searched = Vec::new();
            let asked = ports.iter().map(|port| ends(*port)).collect();
            let now = begun + Duration::from_secs(after);
            let found = owners.at(now, &asked, |unknown| {
                searched = unknown.iter().map(|ends| ends.local.port()).collect();
                let process = Some((pid, Name::from("service")));
                let netns = NetnsInode(1);
                let here = unknown.iter().filter(|ends| ends.local.port() != 9);
                here.map(|ends| {
                    (
                        *ends,
                        Owner {
                            netns,
                            process: process.clone(),
                        },
                    )
                })
                .collect()
            });
            let found: Vec<u16> = found.keys().map(|ends| ends.local.port()).collect();
            (searched, found)
        };
        assert_eq!(look(0, &[1, 9], own), (vec![1, 9], vec![1]));
        assert_eq!(look(9, &[1, 9, 2], own), (vec![2], vec![1, 2]));
        assert_eq!(look(10, &[1, 2], u32::MAX), (vec![1], vec![1, 2]));
        // A process of this number never was.
        assert_eq!(look(11, &[1, 2], own), (vec![1], vec![1, 2]));
    }

    #[test]
    fn of_too_many_processes_the_first_and_the_last_are_asked() {
        let asked = |all: &[u32], most| last_and_first(all.to_vec(), most).collect::<Vec<_>>();
        assert_eq!(asked(&[3, 1, 2], 4), [3, 2, 1]);
        assert_eq!(asked(&[5, 3, 1, 2, 4, 6], 4), [6, 5, 2, 1]);
        assert!(asked(&[], 4).is_empty());
    }

    /// The witness is the order in which they were started.
    #[test]
    fn a_child_starts_after_its_parent() {
        let child = std::process::Command::new("sleep").arg("60").spawn();
        let mut child = child.unwrap();
        let of_child = started(Path::new(&format!("/proc/{}", child.id())));
        child.kill().unwrap();
        child.wait().unwrap();
        let own = started(Path::new("/proc/self"));
        assert!(own.is_some() && own <= of_child, "{own:?} {of_child:?}");
    }

    #[test]
    fn the_connections_of_a_process_are_those_that_it_holds() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let own = Ends {
            netns: netns::own().unwrap(),
            local: client.local_addr().unwrap(),
            remote: client.peer_addr().unwrap(),
        };
        assert!(connections(Path::new("/proc/self")).contains(&own));
        drop(client);
        assert!(!connections(Path::new("/proc/self")).contains(&own));
    }

    #[test]
    fn of_several_listeners_the_one_with_a_queue_is_meant() {
        let found = |inode, is_connection, has_queue| Found {
            netns: NetnsInode(1),
            inode,
            is_connection,
            has_queue,
        };
        let meant = |all: &[Found]| {
            let meant = meant(all.to_vec())?;
            Some(meant.iter().map(|one| one.inode).collect::<Vec<_>>())
        };
        let (idle, other) = (found(3, false, false), found(4, false, false));
        assert_eq!(meant(&[idle]), Some(vec![3]));
        assert_eq!(meant(&[idle, other]), Some(vec![3, 4]));
        assert_eq!(meant(&[idle, found(5, false, true)]), Some(vec![5]));
        assert_eq!(meant(&[idle, found(6, true, false)]), Some(vec![6]));
        let elsewhere = Found {
            netns: NetnsInode(2),
            ..other
        };
        assert_eq!(meant(&[idle, elsewhere]), None);
    }
}
