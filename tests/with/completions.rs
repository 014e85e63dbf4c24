//! The service in a folder of its own, and sockets whose sends complete.

use std::fs::{self, Permissions};
use std::io::{IoSlice, Read};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::sys::socket::{MsgFlags, sendmsg};
use nix::unistd::Pid;
use sockstamp::completions::{Completions, Registration};
use sockstamp::error_queue::{ErrorQueue, Report, ZeroCopyRange};
use sockstamp::zerocopy::{Options, Support, ZeroCopySender};
use tempfile::TempDir;
use testbed::{Family, Host, Link, PATIENCE, Process};

/// `sockstamp notifications`, running.
pub struct Service {
    folder: TempDir,
    process: Process,
}

impl Service {
    pub fn start(options: &[&str]) -> Service {
        Service::start_by(Command::new(crate::sockstamp()), options)
    }

    /// By a command that runs `sockstamp`, as whatever user.
    pub fn start_by(mut command: Command, options: &[&str]) -> Service {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        command
            .args(["notifications", "--socket"])
            .arg(folder.path().join("socket"));
        let process = Process::spawn({
            command.args(options);
            command
        });
        let mut service = Service {
            folder,
            process: process.unwrap(),
        };
        until(|| service.path().exists() || !service.process.is_running().unwrap());
        assert!(service.path().exists(), "{}", service.log());
        service
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn connect(&self) -> Completions {
        let user = fs::metadata(self.path()).unwrap().uid();
        Completions::connect_to_user(self.path(), user).unwrap()
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }

    /// Return its standard error.
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// Wait for its end.
    pub fn wait(&mut self) {
        assert!(self.process.wait_status(PATIENCE).unwrap().success());
    }

    /// Kill it, as the kernel does when memory runs out.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
    }
}

/// Wait until it is so.
pub fn until(mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < PATIENCE, "it never came to be");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Send packets on each processor, as on a host in use. Linux 6.18 defers the release of a packet
/// that is read on another processor than it was sent on, and with it the completion, until the
/// sending processor handles its next packet (`skb_attempt_defer_free()`, net/core/skbuff.c; it
/// excepts zerocopy in v7.3). On an idle host a completion was seen to take ten seconds.
fn traffic() -> Background {
    const INTERVAL: Duration = Duration::from_millis(2);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let processors: Vec<usize> = (0..CpuSet::count())
        .filter(|processor| allowed.is_set(*processor).unwrap())
        .collect();
    Background::start(move || {
        for processor in &processors {
            let mut one = CpuSet::new();
            one.set(*processor).unwrap();
            sched_setaffinity(Pid::from_raw(0), &one).unwrap();
            socket.send(&[0]).unwrap();
            let _ = socket.recv(&mut [0]);
        }
        thread::sleep(INTERVAL);
    })
}

/// A sender and a receiver, joined by a veth pair.
pub struct Fixture {
    pub sender: Host,
    pub receiver: Host,
    link: Link,
    _traffic: Background,
}

impl Fixture {
    pub fn new() -> Fixture {
        let (sender, receiver) = (Host::new("sender").unwrap(), Host::new("receiver").unwrap());
        let link = Link::veth(&sender, &receiver).unwrap();
        Fixture {
            sender,
            receiver,
            link,
            _traffic: traffic(),
        }
    }

    fn ends(&self, family: Family) -> (SocketAddr, SocketAddr) {
        (
            SocketAddr::new(self.link.address_a(family), 0),
            SocketAddr::new(self.link.address_b(family), 0),
        )
    }

    /// Return a UDP socket that sends to another, which is never read: the kernel holds the
    /// datagrams until they are dropped there.
    pub fn udp(&self, family: Family) -> (UdpSocket, UdpSocket) {
        let (sender, receiver) = self.plain_udp(family);
        allow_zero_copy(&sender);
        (sender, receiver)
    }

    /// Do the same as [`udp`](Self::udp), for a sender of the library.
    pub fn plain_udp(&self, family: Family) -> (UdpSocket, UdpSocket) {
        let (local, remote) = self.ends(family);
        let receiver = self.receiver.udp_bind(remote).unwrap();
        let sender = self.sender.udp_bind(local).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (sender, receiver)
    }

    /// A TCP connection.
    pub fn tcp(&self, family: Family) -> (TcpStream, TcpStream) {
        let (sender, receiver) = self.plain_tcp(family);
        allow_zero_copy(&sender);
        (sender, receiver)
    }

    /// Do the same as [`tcp`](Self::tcp), for a sender of the library.
    pub fn plain_tcp(&self, family: Family) -> (TcpStream, TcpStream) {
        let (_, remote) = self.ends(family);
        let listener = self.receiver.tcp_listen(remote).unwrap();
        let sender = self
            .sender
            .tcp_connect(listener.local_addr().unwrap())
            .unwrap();
        let (receiver, _) = listener.accept().unwrap();
        (sender, receiver)
    }
}

/// Read and discard, so that sends complete.
pub struct Reader(#[expect(dead_code, reason = "it reads until it is dropped")] Background);

impl Reader {
    pub fn of_datagrams(socket: UdpSocket) -> Reader {
        socket
            .set_read_timeout(Some(Duration::from_millis(10)))
            .unwrap();
        Reader::start(move |buffer| drop(socket.recv(buffer)))
    }

    pub fn of_stream(mut socket: TcpStream) -> Reader {
        socket
            .set_read_timeout(Some(Duration::from_millis(10)))
            .unwrap();
        Reader::start(move |buffer| drop(socket.read(buffer)))
    }

    fn start(mut read: impl FnMut(&mut [u8]) + Send + 'static) -> Reader {
        let mut buffer = vec![0; 1 << 20];
        Reader(Background::start(move || read(&mut buffer)))
    }
}

/// A thread that does the same again and again until this is dropped.
struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    fn start(mut turn: impl FnMut() + Send + 'static) -> Background {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                turn();
            }
        });
        Background {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Set SO_ZEROCOPY, as the library's sender does.
fn allow_zero_copy(socket: impl AsFd) {
    let sender = ZeroCopySender::<_, Vec<u8>>::new(socket, Options::default()).unwrap();
    assert_eq!(sender.support(), Support::Available);
}

/// One send without a copy; how much of it the kernel took, 0 for none.
pub fn send(socket: impl AsFd, data: &'static [u8]) -> usize {
    let parts = [IoSlice::new(data)];
    let flags = MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY) | MsgFlags::MSG_DONTWAIT;
    match sendmsg::<()>(socket.as_fd().as_raw_fd(), &parts, &[], flags, None) {
        Ok(sent) => sent,
        Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::ECONNREFUSED) => 0,
        Err(errno) => panic!("{errno}"),
    }
}

/// The error queue, to its end.
pub fn drain(socket: impl AsFd) -> Vec<ZeroCopyRange> {
    let mut ranges = Vec::new();
    let drained = ErrorQueue::new().drain(socket, |report| match report {
        Report::ZeroCopy(range) => ranges.push(range),
        other => panic!("{other:?}"),
    });
    drained.unwrap();
    ranges
}

/// Return how often each id came, by ranges.
pub fn counts(ranges: &[ZeroCopyRange]) -> Vec<u32> {
    let mut counts = Vec::new();
    for range in ranges {
        for id in range.first..=range.last {
            counts.resize(counts.len().max(id as usize + 1), 0);
            counts[id as usize] += 1;
        }
    }
    counts
}

/// Add what is new in memory, until all of the first `sends` are complete.
pub fn completed(registration: &mut Registration, ranges: &mut Vec<ZeroCopyRange>, sends: u32) {
    until(|| {
        registration.completed(|range| ranges.push(range));
        let counts = counts(ranges);
        counts.len() >= sends as usize && counts.iter().all(|count| *count > 0)
    });
}
