//! Completions without system calls: `sockstamp notifications`, a service of this host, writes the
//! error-queue entries of registered sockets into memory that only their application can read.
//!
//! Everything in the memory is also in the error queue, which remains authoritative: it has entries
//! that the service missed or that were overwritten before they were read ([`Registration::lost`]),
//! and completions continue there if the service ends. The queue must therefore be read too, but
//! rarely; [`Registration::entries_queued`] shows when it is worthwhile. While it is not empty,
//! poll(2) reports POLLERR.
//!
//! Holding a socket entitles to its completions: it is passed to the service, which marks and
//! closes it.

pub mod area;
mod connection;
pub mod protocol;

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use area::{RangeReader, StampReader, layout};
use connection::Connection;
use protocol::{Registered, Reply, Request, Status};

use nix::unistd::Uid;
use sockstamp_clock::{ClockOffset, Realtime, Tai};

use crate::error_queue::ZeroCopyRange;
use crate::sys::options;
use crate::sys::shared_memory::SharedMemory;
use crate::timestamping::TxStamp;
use crate::{Error, Result, clock};

/// The service's default path.
pub const DEFAULT_PATH: &str = "/run/sockstamp/notifications.sock";

/// A connection to the service. One is enough for an application; sockets stay registered while it,
/// or a [`Registration`] made by it, lives.
#[derive(Debug, Clone)]
pub struct Completions {
    joined: Arc<Joined>,
}

#[derive(Debug)]
struct Joined {
    connection: Connection,
    memory: SharedMemory,
}

impl Completions {
    /// Connect to the service that listens at `path`, and map this application's memory. The
    /// service gets the sockets that are registered: only root and this process's own user are
    /// trusted with them.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if no service listens there (ENOENT, ECONNREFUSED) or this user may not
    /// connect (EACCES), [`Error::Untrusted`] if another user listens there, [`Error::Refused`] if
    /// the service is full, [`Error::NoAnswer`] if it is of another version.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self> {
        let own = Uid::effective().as_raw();
        Self::join(Connection::open(path.as_ref(), |user| {
            [0, own].contains(&user)
        })?)
    }

    /// Connect as [`connect`](Self::connect) does, to a service that runs as the user with this id
    /// and as no other.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect).
    pub fn connect_to_user(path: impl AsRef<Path>, user: u32) -> Result<Self> {
        Self::join(Connection::open(path.as_ref(), |is| is == user)?)
    }

    fn join(connection: Connection) -> Result<Self> {
        let (reply, map) = connection.ask(Request::Join, None)?;
        let (Reply::Joined { sockets }, Some(map)) = (reply, map) else {
            return Err(connection.no_answer());
        };
        let words = NonZeroUsize::new(sockets as usize * layout::AREA)
            .ok_or_else(|| connection.no_answer())?;
        let map = stays_whole(map).ok_or_else(|| connection.no_answer())?;
        let memory =
            SharedMemory::map(map, words).map_err(Error::call("mmap", connection.server()))?;
        Ok(Self {
            joined: Arc::new(Joined { connection, memory }),
        })
    }

    /// Have the future completions of `socket` written into memory: zerocopy ranges, and the stamps
    /// that it requested by SO_TIMESTAMPING.
    ///
    /// With `stamps`, on TCP and from Linux 6.15 on, each send is stamped without such a request,
    /// and without an entry in the error queue ([`Registration::has_stamps`]).
    ///
    /// # Errors
    ///
    /// [`Error::Refused`]; [`Error::NoAnswer`] if the service has ended. Earlier registrations are
    /// kept.
    pub fn register(&self, socket: impl AsFd, stamps: bool) -> Result<Registration> {
        let request = Request::Register { stamps };
        let from_tai = clock::measure()?.tai().inverse();
        let (reply, _) = self.joined.connection.ask(request, Some(socket.as_fd()))?;
        match reply {
            Reply::Registered(mut at)
                if self.joined.memory.words().len() / layout::AREA > at.slot as usize =>
            {
                if at.stamps {
                    ask_for_stamps(socket);
                    at.stamps = word(&self.joined, at, layout::SELECTED) == at.registration;
                }
                Ok(Registration::new(Arc::clone(&self.joined), at, from_tai))
            }
            _ => Err(self.joined.connection.no_answer()),
        }
    }

    /// Return true if the service runs: one system call.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.joined.connection.is_open()
    }
}

/// Return the usage of the service that listens at `path`.
///
/// # Errors
///
/// Those of [`Completions::connect`].
pub fn status(path: impl AsRef<Path>) -> Result<Status> {
    let connection = Connection::open(path.as_ref(), |_| true)?;
    match connection.ask(Request::Status, None)? {
        (Reply::Status(status), _) => Ok(status),
        _ => Err(connection.no_answer()),
    }
}

/// A socket whose completions are in memory, until this is dropped.
#[derive(Debug)]
pub struct Registration {
    joined: Arc<Joined>,
    at: Registered,
    ranges: RangeReader,
    stamps: StampReader,
    /// The counts of ranges and stamps when the queue was last read.
    drained: [u64; 2],
    torn_before: u64,
    from_tai: ClockOffset<Tai, Realtime>,
}

impl Registration {
    fn new(joined: Arc<Joined>, at: Registered, from_tai: ClockOffset<Tai, Realtime>) -> Self {
        Self {
            torn_before: word(&joined, at, layout::TORN),
            joined,
            from_tai,
            ranges: RangeReader::starting_at(at.ranges_written),
            stamps: StampReader::starting_at(at.stamps_written),
            drained: [at.ranges_written, at.stamps_written],
            at,
        }
    }

    /// Hand the sends that completed since the last time to `each`, from memory only and without
    /// waiting.
    ///
    /// A range may come again, in whole or in part. A completion that stays missing and is not in
    /// [`lost`](Self::lost) is in the error queue.
    pub fn completed(&mut self, each: impl FnMut(ZeroCopyRange)) {
        self.ranges.read(area(&self.joined, self.at), each);
    }

    /// Hand the stamps since the last time to `each`, from memory only and without waiting.
    ///
    /// A stamp may come again. Those of TCP without error-queue entries have ids as with OPT_ID_TCP
    /// ([`Origin`](crate::timestamping::Origin)): the first byte after the registration is 0. Those
    /// that such a socket requests by SO_TIMESTAMPING are in the error queue alone. The former
    /// are read on CLOCK_TAI and converted by the offset at the registration, whole seconds that
    /// only leap seconds change.
    pub fn stamps(&mut self, each: impl FnMut(TxStamp)) {
        self.stamps
            .read(area(&self.joined, self.at), self.from_tai, each);
    }

    /// Ranges and stamps that were written over before they were read, since the registration.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ranges_lost().saturating_add(self.stamps.lost())
    }

    pub(crate) fn ranges_lost(&self) -> u64 {
        self.ranges.lost()
    }

    /// Count entries that left the error queue while the service's programs read them, since the
    /// registration: their reader has them, memory may not.
    #[must_use]
    pub fn torn(&self) -> u64 {
        word(&self.joined, self.at, layout::TORN).saturating_sub(self.torn_before)
    }

    /// Estimate the number of entries in the error queue, from what came into memory since
    /// [`queue_is_read`](Self::queue_is_read): more than a few are worth reading it.
    #[must_use]
    pub fn entries_queued(&self) -> u64 {
        self.ranges_queued().saturating_add(self.stamps_queued())
    }

    pub(crate) fn ranges_queued(&self) -> u64 {
        word(&self.joined, self.at, layout::RANGES_WRITTEN).saturating_sub(self.drained[0])
    }

    /// Return none where sends are stamped without entries.
    pub(crate) fn stamps_queued(&self) -> u64 {
        if self.has_stamps() {
            return 0;
        }
        word(&self.joined, self.at, layout::STAMPS_WRITTEN).saturating_sub(self.drained[1])
    }

    /// Call this before reading the error queue to its end.
    pub fn queue_is_read(&mut self) {
        self.drained = [layout::RANGES_WRITTEN, layout::STAMPS_WRITTEN]
            .map(|count| word(&self.joined, self.at, count));
    }

    /// Return true if TCP sends are stamped without error-queue entries.
    #[must_use]
    pub fn has_stamps(&self) -> bool {
        self.at.stamps
    }

    /// Return true if the service runs: one system call. If it does not, only the error queue has
    /// completions.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.joined.connection.is_open()
    }
}

/// Return the memory if it cannot shrink while it is mapped, which would end this process by
/// SIGBUS. A BPF map cannot, and has no type of file, as no anonymous inode has
/// (`anon_inode_getattr()`, fs/libfs.c, v6.18); what has a length in a file system may.
fn stays_whole(map: OwnedFd) -> Option<File> {
    let map = File::from(map);
    let mode = map.metadata().ok()?.mode();
    (mode & libc::S_IFMT == 0).then_some(map)
}

/// Make a program of the service run with the socket, which requests stamps: only a program can,
/// and the service must not wait for the socket's lock. The kernel refuses the value afterwards,
/// since no packet lives that long (`do_ip_setsockopt()`, net/ipv4/ip_sockglue.c, v6.18).
fn ask_for_stamps(socket: impl AsFd) {
    const IMPOSSIBLE: i32 = 256;
    let _ = options::set(socket, libc::IPPROTO_IP, libc::IP_TTL, &IMPOSSIBLE);
}

fn area(joined: &Joined, at: Registered) -> &[AtomicU64] {
    &joined.memory.words()[at.slot as usize * layout::AREA..][..layout::AREA]
}

fn word(joined: &Joined, at: Registered, word: usize) -> u64 {
    area(joined, at)[word].load(Ordering::Relaxed)
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.joined.connection.tell(Request::Release {
            slot: self.at.slot,
            registration: self.at.registration,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::AsRawFd;
    use std::thread;

    use nix::sys::socket::{
        AddressFamily, Backlog, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, accept,
        bind, listen, sendmsg, socket,
    };

    use super::*;

    /// Listen as the service does, and answer the first request with a file as the memory.
    fn shares(file: &File, folder: &Path) -> std::path::PathBuf {
        let path = folder.join("socket");
        let (seqpacket, flags) = (SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
        let listener = socket(AddressFamily::Unix, seqpacket, flags, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&listener, Backlog::new(1).unwrap()).unwrap();
        let file = file.try_clone().unwrap();
        thread::spawn(move || {
            let connection = accept(listener.as_raw_fd()).unwrap();
            let reply = Reply::Joined { sockets: 64 }.to_bytes();
            let passed = [file.as_raw_fd()];
            let (parts, rights) = ([IoSlice::new(&reply)], [ControlMessage::ScmRights(&passed)]);
            sendmsg::<()>(connection, &parts, &rights, MsgFlags::empty(), None).unwrap();
        });
        path
    }

    #[test]
    fn memory_that_may_shrink_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let short = tempfile::tempfile().unwrap();
        short.set_len(4096).unwrap();
        let result = Completions::connect(shares(&short, folder.path()));
        assert!(matches!(result, Err(Error::NoAnswer { .. })), "{result:?}");
    }

    #[test]
    fn a_service_of_another_user_gets_no_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = shares(&tempfile::tempfile().unwrap(), folder.path());
        let another = Uid::effective().as_raw() + 1;
        match Completions::connect_to_user(path, another) {
            Err(Error::Untrusted { user, .. }) => assert_eq!(user + 1, another),
            other => panic!("{other:?}"),
        }
    }
}
