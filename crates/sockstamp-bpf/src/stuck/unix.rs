//! Judge from looks at Unix sockets which tasks wait there, for what, and since when.
//!
//! A Unix socket keeps no times, and nothing in it tells which end spoke last. An idle client and
//! one that waits look alike, but for the service: it has not read the question, or no task of it
//! watches the connection for another one, as while it works for this one. An event loop is busy
//! with others at times, so that it must have stayed so from one look to the next.

use std::fs;
use std::path::Path;

use rustc_hash::FxHashMap;
use sockstamp_host::unix::Unix;
use sockstamp_model::clock::{Nanos, Timestamp};
use sockstamp_model::flow::{CgroupId, NetnsInode, SocketCookie};
use sockstamp_model::name::Name;
use sockstamp_model::wait::{End, Kind, UnixWait};

use crate::abi::raw::stuck_unix as Socket;
use crate::abi::raw::{stuck_role as role, stuck_watch as watch};
use crate::options::Target;
use crate::unix::{path, processes, text};

/// Looks that show the same of a question that may be none.
const CONFIRMED: u32 = 3;
/// The same of a queue, whose first member is known.
const SEEN_AGAIN: u32 = 2;
/// Tasks of a service whose sleeps are counted, at most.
const MOST_TASKS: usize = 256;

/// A wait at a Unix socket that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenUnix {
    /// Whose it is, for whom, and how long: an `Answer`, `Room`, a `Connect` or an `Accept`.
    pub wait: UnixWait,
    /// The beginning may lie earlier.
    pub at_least: bool,
    /// Messages that the other end has not read, or connections that were not accepted.
    pub count: u32,
    /// The queue of the service takes no more.
    pub is_full: bool,
}

/// A socket, the role of the wait, and the process that waits.
type Key = (u64, u8, u32);

/// The results of looks at one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct History {
    /// The first message that is not read.
    oldest: u64,
    /// Sleeps of the task that waits, if it sleeps for nothing else.
    switches: Option<u64>,
    /// Sleeps of the service's tasks.
    service: Option<u64>,
    since: u64,
    /// Looks in a row that have shown the same.
    looks: u32,
}

/// Looks at Unix sockets.
#[derive(Debug)]
pub(super) struct UnixLooks {
    target: Target,
    processes: Unix,
    before: FxHashMap<Key, History>,
}

impl UnixLooks {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            target: target.clone(),
            processes: Unix::default(),
            before: FxHashMap::default(),
        }
    }

    /// Return what waits, the oldest first, and whether further looks may show more.
    pub(super) fn look(&mut self, found: Vec<Socket>) -> (Vec<OpenUnix>, bool) {
        let mut open = Vec::new();
        let mut is_unconfirmed = false;
        let mut now = FxHashMap::default();
        for socket in self.of_target(one_each(found)) {
            let history = self.history(&socket);
            now.insert(key(&socket), history);
            match judge(&socket, &history) {
                Verdict::Waits(kind, age, at_least) => {
                    let age = match kind {
                        Kind::Answer if at_least && polls_alone(&socket) => age.max(socket.slept),
                        _ => age,
                    };
                    open.push(self.open(&socket, kind, age, at_least));
                }
                Verdict::MayWait => is_unconfirmed = true,
            }
        }
        self.before = now;
        open.sort_by_key(|open| (open.wait.since, open.wait.pid));
        (open, is_unconfirmed)
    }

    /// Leave tasks of others out that wait for room at sockets of anybody.
    fn of_target(&self, mut found: Vec<Socket>) -> Vec<Socket> {
        let is_foreign = |socket: &Socket| {
            matches!(
                u32::from(socket.role),
                role::STUCK_CONNECTS | role::STUCK_SENDS
            )
        };
        if self.target.names_tasks() && found.iter().any(is_foreign) {
            let own = processes(&self.target);
            found.retain(|socket| !is_foreign(socket) || own.contains(&socket.waiter_pid));
        }
        found
    }

    /// Add this look to those before, if these have shown the same.
    fn history(&mut self, socket: &Socket) -> History {
        let before = self.before.get(&key(socket)).copied();
        let alone = socket.watch & watch::STUCK_IN_CALL != 0;
        let new = History {
            oldest: socket.oldest,
            switches: alone.then_some(socket.switches),
            service: None,
            since: socket.now,
            looks: 1,
        };
        let is_same =
            |before: &History| (before.oldest, before.switches) == (new.oldest, new.switches);
        let Some(before) = before.filter(is_same) else {
            return new;
        };
        let is_of_loop = is_of_loop(socket);
        let service = is_of_loop.then(|| self.service_sleeps(socket)).flatten();
        let goes_on = match (before.service, service) {
            _ if !is_of_loop => true,
            (Some(before), Some(now)) => before == now,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        History {
            service,
            since: if goes_on { before.since } else { new.since },
            looks: if goes_on { before.looks + 1 } else { 1 },
            ..new
        }
    }

    /// Return how often tasks of the service have slept.
    fn service_sleeps(&mut self, socket: &Socket) -> Option<u64> {
        let (pid, _) = self.processes.holder(&service(socket), socket.peer_inode)?;
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let each = tasks.flatten().take(MOST_TASKS);
        each.map(|task| sleeps(&task.path())).sum()
    }

    fn open(&mut self, socket: &Socket, kind: Kind, age: u64, at_least: bool) -> OpenUnix {
        let (pid, comm) = match socket.waiter_pid {
            0 => (socket.pid, text(&socket.comm)),
            waiter => (waiter, text(&socket.waiter_comm)),
        };
        let wait = UnixWait {
            kind,
            service: service(socket),
            server: self.server(socket),
            netns: NetnsInode(socket.netns),
            cookie: SocketCookie(socket.cookie),
            inode: socket.inode,
            cgroup: CgroupId(socket.cgroup),
            pid,
            comm,
            is_new: false,
            since: Timestamp::from_nanos(socket.now.saturating_sub(age)),
            lasted: Nanos(age),
            inside: Nanos(age),
            end: End::Open,
            bytes: 0,
        };
        OpenUnix {
            wait,
            at_least,
            count: socket.unread,
            // A stream is limited by bytes.
            is_full: u32::from(socket.role) != role::STUCK_END && socket.unread > socket.limit,
        }
    }

    /// Return the process that is waited for: of an end, the one that has accepted it, or else the
    /// one that listens.
    fn server(&mut self, socket: &Socket) -> Option<(u32, Name)> {
        if u32::from(socket.role) != role::STUCK_END {
            return Some((socket.pid, text(&socket.comm)));
        }
        let accepted = match socket.peer_inode {
            0 => None,
            inode => self.processes.holder(&service(socket), inode),
        };
        // A socket of a unit of systemd is listened at by init, which serves nothing there.
        let listens = Some(socket.listener).filter(|pid| *pid > 1);
        accepted.or_else(|| {
            let pid = listens?;
            let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
            Some((pid, Name::from(name.trim_ascii_end())))
        })
    }
}

fn service(socket: &Socket) -> Name {
    path(&socket.path, socket.path_bytes)
}

fn key(socket: &Socket) -> Key {
    (socket.socket, socket.role, socket.waiter_pid)
}

/// Keep one record of each: of the process whose task sleeps, or of the one that was there first.
fn one_each(found: Vec<Socket>) -> Vec<Socket> {
    let preference = |socket: &Socket| (socket.pid != socket.waiter_pid, socket.pid);
    let mut kept = FxHashMap::<Key, Socket>::default();
    for socket in found {
        let one = kept.entry(key(&socket)).or_insert(socket);
        if preference(&socket) < preference(one) {
            *one = socket;
        }
    }
    kept.into_values().collect()
}

/// Return the sleeps of a task by its own choice.
fn sleeps(task: &Path) -> Option<u64> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let line = status.lines();
    let mut count = line.filter_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.next()?.trim().parse().ok()
}

/// Return true if the only task of a process sleeps in poll(): it has asked before.
fn polls_alone(socket: &Socket) -> bool {
    let tasks = || fs::read_dir(format!("/proc/{}/task", socket.waiter_pid));
    let polls = socket.watch & watch::STUCK_POLLS_IN != 0;
    polls && tasks().is_ok_and(|tasks| tasks.count() == 1)
}

/// Return true if an event loop of the service has the connection, and has read all.
fn is_of_loop(socket: &Socket) -> bool {
    socket.unread == 0 && socket.peer_watch & watch::STUCK_EPOLL_IN != 0
}

enum Verdict {
    /// For this, for so long, or longer.
    Waits(Kind, u64, bool),
    MayWait,
}

fn judge(socket: &Socket, history: &History) -> Verdict {
    let seen_for = socket.now.saturating_sub(history.since);
    let slept = socket.slept.max(seen_for);
    let in_call = socket.watch & watch::STUCK_IN_CALL != 0;
    let needed = match (u32::from(socket.role), socket.full) {
        (role::STUCK_CONNECTS | role::STUCK_SENDS, _) => 1,
        (role::STUCK_END, 1) if in_call => 1,
        (role::STUCK_END, 0) => CONFIRMED,
        _ => SEEN_AGAIN,
    };
    if history.looks < needed {
        return Verdict::MayWait;
    }
    match (u32::from(socket.role), socket.full) {
        (role::STUCK_LISTENS, _) => Verdict::Waits(Kind::Accept, seen_for, true),
        (role::STUCK_CONNECTS, _) => Verdict::Waits(Kind::Connect, slept, true),
        (role::STUCK_SENDS, _) => Verdict::Waits(Kind::Room, slept, true),
        (_, 0) if in_call => Verdict::Waits(Kind::Answer, slept, false),
        (_, 0) => Verdict::Waits(Kind::Answer, seen_for, true),
        _ if in_call => Verdict::Waits(Kind::Room, slept, true),
        _ => Verdict::Waits(Kind::Room, seen_for, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A client that sleeps in a read, at this time.
    /// No process has this number.
    const NOBODY: u32 = u32::MAX;

    fn client(now: u64) -> Socket {
        let mut socket = Socket::default();
        (socket.socket, socket.pid, socket.waiter_pid) = (1, NOBODY, NOBODY);
        (socket.asks, socket.watch) = (1, watch::STUCK_IN_CALL);
        (socket.now, socket.slept) = (now, now);
        socket
    }

    fn looks(sockets: &[Socket]) -> Vec<OpenUnix> {
        let mut looks = UnixLooks::new(&Target::default());
        let all = sockets.iter().map(|socket| looks.look(vec![*socket]).0);
        all.last().unwrap_or_default()
    }

    #[test]
    fn a_question_is_one_after_looks_that_show_the_same() {
        let at = |now| client(now * MS);
        assert!(looks(&[at(100), at(200)]).is_empty());
        let open = looks(&[at(100), at(200), at(300)]);
        assert_eq!(open.len(), 1);
        assert_eq!((open[0].wait.kind, open[0].at_least), (Kind::Answer, false));
        assert_eq!(open[0].wait.lasted, Nanos(300 * MS));
        // The task has slept anew: it was answered in between.
        let mut later = at(300);
        later.switches = 9;
        assert!(looks(&[at(100), at(200), later]).is_empty());
    }

    #[test]
    fn who_polls_waits_for_as_long_as_looks_have_shown() {
        let at = |now| Socket {
            watch: watch::STUCK_POLLS_IN,
            unread: 1,
            oldest: 5,
            ..client(now * MS)
        };
        let open = looks(&[at(100), at(200), at(300)]);
        assert_eq!(
            (open[0].wait.lasted, open[0].at_least),
            (Nanos(200 * MS), true)
        );
        // Another message is the first that is not read.
        let mut other = at(200);
        other.oldest = 6;
        assert!(looks(&[at(100), other, at(300)]).is_empty());
    }

    #[test]
    fn an_event_loop_that_nobody_finds_is_not_known_to_hang() {
        let at = |now| Socket {
            peer_watch: watch::STUCK_EPOLL_IN,
            ..client(now * MS)
        };
        assert!(looks(&[at(100), at(200), at(300), at(400)]).is_empty());
    }

    #[test]
    fn a_task_that_waits_for_room_does_so_at_one_look() {
        let mut connects = client(300 * MS);
        connects.role = role::STUCK_CONNECTS.try_into().unwrap();
        (connects.unread, connects.limit, connects.pid) = (3, 2, 70);
        let open = looks(&[connects]);
        assert_eq!((open[0].wait.kind, open[0].count), (Kind::Connect, 3));
        assert!(open[0].is_full && open[0].at_least);
        assert_eq!(open[0].wait.server.as_ref().unwrap().0, 70);
        let mut full = client(300 * MS);
        full.full = 1;
        assert_eq!(looks(&[full])[0].wait.kind, Kind::Room);
    }

    #[test]
    fn a_connection_is_not_accepted_since_a_look_that_saw_it_first() {
        let at = |now| Socket {
            role: role::STUCK_LISTENS.try_into().unwrap(),
            waiter_pid: 0,
            watch: 0,
            unread: 2,
            oldest: 5,
            ..client(now * MS)
        };
        assert!(looks(&[at(100)]).is_empty());
        let open = looks(&[at(100), at(250)]);
        assert_eq!(
            (open[0].wait.kind, open[0].wait.lasted),
            (Kind::Accept, Nanos(150 * MS))
        );
    }
}
