//! Turns of the walks of all sockstamps on this host.
//!
//! A walk that is [stuck](super::walk) outlives its sockstamp, and a walk of another one would be
//! stuck behind the same lock. Each place therefore has few turns, which are locks on bytes of one
//! file (fcntl(2), "Open file description locks"). The process of a walk holds its turn until it
//! ends, however it ends.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::unistd::geteuid;
use sockstamp_model::flow::NetnsInode;

/// No other user can open the file: they could take all turns.
const FILE: &str = "/run/sockstamp/walks";

/// Longest wait for a walk of another sockstamp, which may come to very many sockets.
const PATIENCE: Duration = Duration::from_secs(4);

/// The same where many turns have not come, at least.
const LEAST: Duration = Duration::from_millis(100);

const PAUSE: Duration = Duration::from_millis(20);

/// Turns that did not come: a sockstamp that is stopped keeps the ones that it has.
static MISSED: Mutex<Missed> = Mutex::new(Missed(BTreeSet::new()));

/// Distance from the byte of a turn to the one that says that its walk is stuck.
const STUCK: i64 = 1 << 40;

/// A place where a task may keep walks from ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A network namespace of root's.
    Namespace(NetnsInode),
    /// All network namespaces of a user, who can make any number.
    User(u32),
    /// All network namespaces in a user namespace that root made for a container.
    UserNamespace(u32),
}

impl Place {
    /// Return the byte of one of its turns.
    fn byte(self, turn: u8) -> i64 {
        let (kind, number) = match self {
            Self::Namespace(netns) => (0, netns.0),
            Self::User(user) => (1, user),
            Self::UserNamespace(inode) => (2, inode),
        };
        i64::from(turn) << 34 | kind << 32 | i64::from(number)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(netns) => write!(f, "network namespace {netns}"),
            Self::User(user) => write!(f, "network namespaces of the user {user}"),
            Self::UserNamespace(inode) => {
                write!(f, "network namespaces in the user namespace {inode}")
            }
        }
    }
}

/// The right to walk.
#[derive(Debug)]
pub(super) struct Turn {
    /// `None` where there is no file to lock, as for a sockstamp that is not root's.
    lock: Option<(File, i64)>,
}

/// Take a turn of a place, unless a walk of another sockstamp is stuck in it, or does not get on.
pub(super) fn take(place: Place, turn: u8) -> Option<Turn> {
    let missed = || MISSED.lock().unwrap_or_else(PoisonError::into_inner);
    let patience = missed().patience((place, turn));
    let begun = Instant::now();
    let taken = take_from(Path::new(FILE), place, turn, patience);
    match &taken {
        Some(_) => missed().0.remove(&(place, turn)),
        None => begun.elapsed() >= patience && missed().0.insert((place, turn)),
    };
    taken
}

struct Missed(BTreeSet<(Place, u8)>);

impl Missed {
    /// Return the longest wait for a turn: half of the last one for each that did not come, so
    /// that many take little longer than one, and hardly any for one that did not come before.
    fn patience(&self, turn: (Place, u8)) -> Duration {
        let halved = PATIENCE / (1 << self.0.len().min(16));
        match self.0.contains(&turn) {
            true => LEAST,
            false => halved.max(LEAST),
        }
    }
}

fn take_from(path: &Path, place: Place, turn: u8, patience: Duration) -> Option<Turn> {
    let Ok(file) = open(path) else {
        return Some(Turn { lock: None });
    };
    let byte = place.byte(turn);
    let begun = Instant::now();
    loop {
        match lock(&file, byte) {
            Ok(()) => {
                let lock = Some((file, byte));
                return Some(Turn { lock });
            }
            // fcntl(2) has both.
            Err(Errno::EAGAIN | Errno::EACCES) => {}
            // No locks are to be had.
            Err(_) => return Some(Turn { lock: None }),
        }
        if is_locked(&file, byte + STUCK) || begun.elapsed() > patience {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

impl Turn {
    /// Return the descriptor that the process of the walk must hold.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        self.lock.as_ref().map(|(file, _)| file.as_raw_fd())
    }

    /// Say to other sockstamps that the walk is stuck. What the process holds says so as well.
    pub(super) fn is_stuck(&self) {
        if let Some((file, byte)) = &self.lock {
            // Ignore the error: others then wait for this turn.
            let _ = lock(file, byte + STUCK);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700).create(directory)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.mode(0o600).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    match found.is_file() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0 {
        true => Ok(file),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// The constants are larger than their fields.
fn short(constant: libc::c_int) -> libc::c_short {
    constant.try_into().unwrap_or(libc::c_short::MAX)
}

fn of(byte: i64) -> libc::flock {
    libc::flock {
        l_type: short(libc::F_WRLCK),
        l_whence: short(libc::SEEK_SET),
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    }
}

fn lock(file: &File, byte: i64) -> nix::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&of(byte))).map(drop)
}

fn is_locked(file: &File, byte: i64) -> bool {
    let mut found = of(byte);
    let asked = fcntl(file, FcntlArg::F_OFD_GETLK(&mut found));
    asked.is_ok() && found.l_type != short(libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const PLACE: Place = Place::Namespace(NetnsInode(4_026_531_840));
    /// Far longer than any test waits where it ought not to.
    const LONG: Duration = Duration::from_secs(600);

    fn has_lock(turn: Option<&Turn>) -> bool {
        turn.is_some_and(|turn| turn.lock.is_some())
    }

    #[test]
    fn a_walk_that_is_stuck_is_waited_for_by_nobody_until_its_process_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/walks");
        let turn = take_from(&path, PLACE, 0, LONG).unwrap();
        turn.is_stuck();
        // The descriptor of the process that walks, which its sockstamp has closed.
        let walks = turn
            .lock
            .as_ref()
            .map(|(file, _)| file.try_clone().unwrap());
        drop(turn);
        assert!(take_from(&path, PLACE, 0, LONG).is_none());
        assert!(has_lock(take_from(&path, PLACE, 1, LONG).as_ref()));
        let user = Place::User(4_026_531_840);
        assert!(has_lock(take_from(&path, user, 0, LONG).as_ref()));
        drop(walks);
        assert!(has_lock(take_from(&path, PLACE, 0, LONG).as_ref()));
    }

    #[test]
    fn a_walk_that_gets_on_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("walks");
        let turn = take_from(&path, PLACE, 0, LONG).unwrap();
        assert!(take_from(&path, PLACE, 0, Duration::ZERO).is_none());
        let path = &path;
        thread::scope(|scope| {
            let next = scope.spawn(|| take_from(path, PLACE, 0, LONG));
            drop(turn);
            assert!(has_lock(next.join().unwrap().as_ref()));
        });
    }

    #[test]
    fn many_turns_that_do_not_come_are_waited_for_little_longer_than_one() {
        let mut missed = Missed(BTreeSet::new());
        let mut waited = Duration::ZERO;
        for turn in 0..16 {
            waited += missed.patience((PLACE, turn));
            missed.0.insert((PLACE, turn));
            assert_eq!(missed.patience((PLACE, turn)), LEAST);
        }
        assert!((PATIENCE..3 * PATIENCE).contains(&waited), "{waited:?}");
    }

    #[test]
    fn a_file_that_others_can_open_gives_no_turns_and_keeps_from_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("walks");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        for path in [path, link] {
            let turn = take_from(&path, PLACE, 0, LONG);
            assert!(turn.is_some_and(|turn| turn.lock.is_none()));
        }
    }
}
