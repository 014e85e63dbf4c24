//! Walks over the sockets of a network namespace, each by a process of its own.
//!
//! The kernel locks each socket for the program (`bpf_iter_tcp_seq_show()`, net/ipv4/tcp_ipv4.c,
//! v6.1 to v7.3) and sleeps uninterruptibly where a task holds the lock, as a send does that copies
//! from memory that does not come: a file on a file system that hangs, or whatever an unprivileged
//! user arranges. A process does not end before its last thread, so a thread that sleeps there
//! would keep sockstamp from ending. A process of its own can be left behind.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libbpf_rs::{Link, libbpf_sys};
use nix::errno::Errno;
use nix::libc;
use nix::unistd::{ForkResult, fork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sockstamp_model::flow::NetnsInode;

use super::turn::{self, Place, Turn};

/// Longest time of a walk at one socket. A send that copies holds the lock for microseconds, and
/// for milliseconds where memory is swapped in.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same where other walks are stuck, at least.
const LEAST: Duration = Duration::from_millis(100);

/// include/uapi/linux/nsfs.h
const NS_GET_USERNS: libc::Ioctl = 0xb701;
const NS_GET_PARENT: libc::Ioctl = 0xb702;
const NS_GET_OWNER_UID: libc::Ioctl = 0xb704;

/// Interval between looks at a walk's progress.
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// The CPU time of the walks that have ended.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Return the CPU time of all walks that have ended: no clock of this process has it.
pub(super) fn spent() -> Duration {
    Duration::from_micros(SPENT.load(Ordering::Relaxed))
}

/// The end of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walk {
    Whole,
    /// Waits for a lock, and continues when that is released.
    Stuck,
    /// Not begun: walks before it are stuck.
    Skipped,
}

/// An iterator over the sockets of a network namespace.
pub(super) struct Sockets {
    iterator: OwnedFd,
    pub(super) place: Place,
}

/// Make an iterator over the sockets of the calling thread's network namespace, to which it keeps
/// (`bpf_iter_init_seq_net()`, fs/proc/proc_net.c, v6.18).
pub(super) fn open(link: &Link) -> io::Result<Sockets> {
    // SAFETY: the call takes the number of a descriptor that `link` keeps open.
    let descriptor = unsafe { libbpf_sys::bpf_iter_create(link.as_fd().as_raw_fd()) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Sockets {
        // SAFETY: the call succeeded, so this is a new descriptor that nothing else refers to.
        iterator: unsafe { OwnedFd::from_raw_fd(descriptor) },
        place: here()?,
    })
}

/// Return the place that the calling thread's network namespace is.
fn here() -> io::Result<Place> {
    place_of(File::open("/proc/thread-self/ns/net")?)
}

/// Return the place that a network namespace is, by who could have made it.
fn place_of(namespace: File) -> io::Result<Place> {
    let Some(users) = outermost(namespace.as_fd()) else {
        return Ok(Place::Namespace(NetnsInode(inode_of(namespace)?)));
    };
    Ok(match owner(&users).filter(|user| *user != 0) {
        Some(user) => Place::User(user),
        // A container that root made, whose users may nest others in it.
        None => Place::UserNamespace(inode_of(users.into())?),
    })
}

fn inode_of(namespace: File) -> io::Result<u32> {
    u32::try_from(namespace.metadata()?.ino()).map_err(io::Error::other)
}

/// Return the outermost of the user namespaces that a network namespace is in, below the first one
/// or ours. A user with subordinate ids (subuid(5)) may nest any number in its own, each of another
/// id: only the outermost tells who is behind them.
fn outermost(namespace: BorrowedFd<'_>) -> Option<OwnedFd> {
    let mut outermost = None;
    let mut at = related(namespace, NS_GET_USERNS)?;
    while let Some(parent) = related(at.as_fd(), NS_GET_PARENT) {
        outermost = Some(mem::replace(&mut at, parent));
    }
    outermost
}

/// Return a namespace that has to do with this one (ioctl_nsfs(2)), if it is ours or below it.
fn related(namespace: BorrowedFd<'_>, how: libc::Ioctl) -> Option<OwnedFd> {
    // SAFETY: the call takes a number, and returns a new descriptor or an error.
    let other = unsafe { libc::ioctl(namespace.as_raw_fd(), how) };
    // SAFETY: where the call succeeded, this is a new descriptor that nothing else refers to.
    (other >= 0).then(|| unsafe { OwnedFd::from_raw_fd(other) })
}

/// Return the user that made a user namespace.
fn owner(users: &OwnedFd) -> Option<u32> {
    let mut owner: libc::uid_t = 0;
    // SAFETY: the kernel writes to `owner`, which lives as long as the call.
    let told = unsafe { libc::ioctl(users.as_raw_fd(), NS_GET_OWNER_UID, &raw mut owner) };
    (told == 0).then_some(owner)
}

/// A process that reads an iterator.
struct Reader {
    process: Pid,
    /// Can be read when it has ended.
    ended: OwnedFd,
}

/// The readers of this process that wait for a lock, by their turns.
static STUCK: Mutex<BTreeMap<(Place, u8), Reader>> = Mutex::new(BTreeMap::new());

/// Run an iterator to its end, or until `progress`, which tells how many sockets it has come to,
/// stands still. Do not begin where as many walks as there are `turns` are stuck, of whichever
/// sockstamp: this one would stay behind as well.
pub(super) fn run(
    sockets: Sockets,
    turns: u8,
    progress: &mut dyn FnMut() -> u64,
) -> io::Result<Walk> {
    let place = sockets.place;
    for number in 0..turns {
        if is_one_stuck((place, number))? {
            continue;
        }
        if let Some(turn) = turn::take(place, number) {
            return run_in(turn, number, sockets, progress);
        }
    }
    Ok(Walk::Skipped)
}

fn is_one_stuck(turn: (Place, u8)) -> io::Result<bool> {
    const NOW: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut stuck = stuck();
    let Some(reader) = stuck.get(&turn) else {
        return Ok(false);
    };
    let has_ended = is_readable(&reader.ended, &NOW)?;
    if has_ended {
        reap(reader.process)?;
        stuck.remove(&turn);
    }
    Ok(!has_ended)
}

fn stuck() -> MutexGuard<'static, BTreeMap<(Place, u8), Reader>> {
    STUCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Return the longest time of a walk at one socket: half of the last one for each walk that is
/// stuck, so that many places take little longer than one.
fn patience() -> Duration {
    let halved = u32::try_from(stuck().len()).unwrap_or(u32::MAX);
    let patience = PATIENCE.checked_div(1 << halved.min(16)).unwrap_or(LEAST);
    patience.max(LEAST)
}

fn run_in(
    turn: Turn,
    number: u8,
    sockets: Sockets,
    progress: &mut dyn FnMut() -> u64,
) -> io::Result<Walk> {
    let Sockets { iterator, place } = sockets;
    let patience = patience();
    let mut visited = progress();
    let mut moved = Instant::now();
    let process = start(&iterator, turn.descriptor())?;
    drop(iterator);
    let ended = pidfd_open(process, PidfdFlags::empty())?;
    while !is_readable(&ended, &TICK)? {
        let now = progress();
        if now != visited {
            (visited, moved) = (now, Instant::now());
        } else if moved.elapsed() > patience {
            turn.is_stuck();
            stuck().insert((place, number), Reader { process, ended });
            return Ok(Walk::Stuck);
        }
    }
    match reap(process)? {
        Some(0) => Ok(Walk::Whole),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(Errno::EINTR.into()),
    }
}

/// Return the exit status of a reader that has ended, `None` if a signal has ended it, and count
/// what it has used.
fn reap(reader: Pid) -> io::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: all zeros is a value of this structure of integers.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    let reader = reader.as_raw_nonzero().get();
    // SAFETY: the kernel writes to `status` and `usage`, which live as long as the call.
    let reaped = unsafe { libc::wait4(reader, &raw mut status, 0, &raw mut usage) };
    if reaped < 0 {
        return Err(io::Error::last_os_error());
    }
    let times = [usage.ru_utime, usage.ru_stime];
    let micros = times.map(|time| 1_000_000 * time.tv_sec + time.tv_usec);
    let spent = u64::try_from(micros.iter().sum::<i64>()).unwrap_or(0);
    SPENT.fetch_add(spent, Ordering::Relaxed);
    Ok(libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)))
}

fn is_readable(ended: &OwnedFd, within: &Timespec) -> io::Result<bool> {
    let mut watched = [PollFd::new(ended, PollFlags::IN)];
    match poll(&mut watched, Some(within)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn start(iterator: &OwnedFd, turn: Option<RawFd>) -> io::Result<Pid> {
    let iterator = iterator.as_raw_fd();
    // SAFETY: other threads may hold locks, which are never released in the child: it only makes
    // system calls, and ends.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => {
            Pid::from_raw(child.as_raw()).ok_or_else(|| Errno::ESRCH.into())
        }
        ForkResult::Child => read_to_the_end(iterator, turn.unwrap_or(iterator)),
    }
}

/// Run in the child. Close everything else: programs stay attached as long as anything has their
/// links, and a reader of our output waits for its end.
fn read_to_the_end(iterator: RawFd, turn: RawFd) -> ! {
    let (low, high) = (iterator.min(turn), iterator.max(turn));
    let mut output = [0_u8; 64];
    // SAFETY: the calls take numbers, and the kernel writes to `output` within its length. The
    // descriptors belong to the child alone, and nothing in it uses those that are closed. The
    // kernel refuses a range that ends before it begins.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, low - 1, 0);
        libc::syscall(libc::SYS_close_range, low + 1, high - 1, 0);
        libc::syscall(libc::SYS_close_range, high + 1, libc::c_int::MAX, 0);
        loop {
            match libc::read(iterator, output.as_mut_ptr().cast(), output.len()) {
                0 => libc::_exit(0),
                1.. => {}
                // EAGAIN: it has come to a million sockets (`bpf_seq_read()`,
                // kernel/bpf/bpf_iter.c, v6.18).
                _ => match Errno::last_raw() {
                    libc::EINTR | libc::EAGAIN => {}
                    errno => libc::_exit(errno),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Make a user namespace by one user, and in it another one by another user, with a network
    /// namespace. The process stays there.
    fn nested(outer: u32) -> Child {
        const INSIDE: &str = "echo; read go; exec setpriv --reuid=7 --regid=7 --clear-groups \
            unshare --user --net sh -c 'echo; exec cat'";
        let by_user = format!("--reuid={outer}");
        let words = ["--clear-groups", "unshare", "--user", "sh", "-c", INSIDE];
        let mut child = Command::new("setpriv")
            .arg(by_user)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut entered = || said.read_line(&mut String::new()).unwrap();
        entered();
        for (map, owner) in [("uid_map", outer), ("gid_map", 0)] {
            let map = format!("/proc/{}/{map}", child.id());
            fs::write(map, format!("0 {owner} 1\n7 100007 1\n")).unwrap();
        }
        child.stdin.as_ref().unwrap().write_all(b"go\n").unwrap();
        entered();
        child
    }

    fn place(of: &Child) -> Place {
        place_of(File::open(format!("/proc/{}/ns/net", of.id())).unwrap()).unwrap()
    }

    #[test]
    fn nested_namespaces_are_one_place_whichever_ids_made_them() {
        let ours = here().unwrap();
        assert!(matches!(ours, Place::Namespace(_)), "{ours:?}");
        for (outer, is_it) in [
            (
                54_321,
                (|place| place == Place::User(54_321)) as fn(Place) -> bool,
            ),
            (0, |place| matches!(place, Place::UserNamespace(_))),
        ] {
            let mut child = nested(outer);
            let place = place(&child);
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(is_it(place), "{outer}: {place:?}");
        }
    }
}
