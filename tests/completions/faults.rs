//! Test faults of applications and their sockets, their effect on others, and the needs of the
//! service.

use std::collections::BTreeSet;
use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    connect, recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use sockstamp::Error;
use sockstamp::completions::Completions;
use sockstamp::completions::area::layout;
use sockstamp::completions::protocol::{REPLY_BYTES, Refusal, Reply, Request};
use sockstamp::timestamping::TxKind;
use sockstamp_bpf::probe;
use testbed::{Family, HeldSocket, PATIENCE, Process};
use with::completions::{Fixture, Service, completed, counts, send, until};
use with::schema::{misfits, schema};
use with::skip;
use with::unprivileged::Unprivileged;

static DATA: [u8; 20_000] = [7; 20_000];

/// An application that speaks the protocol by itself.
struct Raw {
    connection: OwnedFd,
    map: OwnedFd,
    /// The length of the memory, in bytes.
    length: usize,
}

impl Raw {
    fn join(path: &Path) -> Raw {
        let flags = SockFlag::SOCK_CLOEXEC;
        let connection = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        connect(connection.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
        ask(&connection, Request::Join, None);
        let (reply, map) = answer(&connection);
        let Reply::Joined { sockets } = reply else {
            panic!("{reply:?}");
        };
        Raw {
            connection,
            map: map.unwrap(),
            length: sockets as usize * layout::AREA * 8,
        }
    }

    fn map(&self, length: usize, protection: i32) -> nix::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                self.map.as_raw_fd(),
                0,
            )
        };
        match start == libc::MAP_FAILED {
            true => Err(Errno::last()),
            false => Ok(Mapping { start, length }),
        }
    }
}

struct Mapping {
    start: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    fn bytes(&self) -> Vec<u8> {
        // SAFETY: the mapping is readable and of that length; bytes of it may change while they are
        // copied, which a test can bear.
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), self.length) }.to_vec()
    }

    fn make_writable(&self) -> nix::Result<()> {
        // SAFETY: our own mapping, in its length.
        let result =
            unsafe { libc::mprotect(self.start, self.length, libc::PROT_READ | libc::PROT_WRITE) };
        Errno::result(result).map(drop)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of which no borrow is left.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

fn ask(connection: &OwnedFd, request: Request, passed: Option<i32>) {
    let bytes = request.to_bytes();
    let rights = [ControlMessage::ScmRights(passed.as_slice())];
    let control = if passed.is_some() { &rights[..] } else { &[] };
    let parts = [IoSlice::new(&bytes)];
    sendmsg::<()>(
        connection.as_raw_fd(),
        &parts,
        control,
        MsgFlags::MSG_NOSIGNAL,
        None,
    )
    .unwrap();
}

fn answer(connection: &OwnedFd) -> (Reply, Option<OwnedFd>) {
    let (mut bytes, mut space) = ([0; REPLY_BYTES], nix::cmsg_space!(i32));
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let message = recvmsg::<()>(
        connection.as_raw_fd(),
        &mut parts,
        Some(&mut space),
        MsgFlags::empty(),
    )
    .unwrap();
    let passed = message.cmsgs().unwrap().find_map(|control| match control {
        ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
        _ => None,
    });
    // SAFETY: the kernel has just made the descriptor for us, and nothing else refers to it.
    let passed = passed.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) });
    (Reply::from_bytes(&bytes).unwrap(), passed)
}

/// bpf(2), BPF_MAP_UPDATE_ELEM, on the first element.
fn update(map: &OwnedFd) -> nix::Result<()> {
    const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
    /// `union bpf_attr` of include/uapi/linux/bpf.h, as far as this command reads it.
    #[repr(C)]
    struct Attributes {
        map: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let (key, value) = (0_u32, [0xff_u8; layout::AREA * 8]);
    let attributes = Attributes {
        map: map.as_raw_fd().try_into().unwrap(),
        padding: 0,
        key: ptr::from_ref(&key) as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the kernel reads the attributes, a key and a value of the map's sizes, all alive.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_UPDATE_ELEM,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    Errno::result(result).map(drop)
}

/// This holds even for root, which may do everything else.
#[test]
fn an_application_cannot_write_its_memory() {
    let service = Service::start(&[]);
    let application = Raw::join(&service.path());
    let writable = application.map(application.length, libc::PROT_READ | libc::PROT_WRITE);
    assert_eq!(writable.map(drop), Err(Errno::EPERM));
    let memory = application
        .map(application.length, libc::PROT_READ)
        .unwrap();
    assert_eq!(memory.make_writable(), Err(Errno::EACCES));
    assert_eq!(update(&application.map), Err(Errno::EPERM));
    assert!(memory.bytes().iter().all(|byte| *byte == 0));
}

#[test]
fn an_application_cannot_see_anothers_memory() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (sender, receiver) = fixture.udp(Family::V4);
    drop(receiver);
    let other = Raw::join(&service.path());
    let mut registration = service.connect().register(&sender, false).unwrap();
    until(|| send(&sender, &DATA) > 0);
    completed(&mut registration, &mut Vec::new(), 1);
    let memory = other.map(other.length, libc::PROT_READ).unwrap();
    assert!(memory.bytes().iter().all(|byte| *byte == 0));
    let page = 4096;
    let beyond = other.map(other.length.next_multiple_of(page) + page, libc::PROT_READ);
    assert_eq!(beyond.map(drop), Err(Errno::EINVAL));
}

/// Join, register a socket, send without a copy to a peer that does not read, report that, and be
/// killed.
const DOOMED: &str = "\
import array, socket, struct, sys, time
version = int(sys.argv[4])
service = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
service.connect(sys.argv[1])
service.send(struct.pack('=IIIIQ', version, 1, 0, 0, 0))
_, held, _, _ = socket.recv_fds(service, 48, 1)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.SOL_SOCKET, 60, 1)
sender.connect((sys.argv[2], int(sys.argv[3])))
socket.send_fds(service, [struct.pack('=IIIIQ', version, 2, 0, 0, 0)], [sender.fileno()])
assert struct.unpack('=II', service.recv(48)[:8]) == (version, 2)
for _ in range(5):
    sender.send(bytes(20000), 0x4000000)
print('in flight', flush=True)
time.sleep(60)
";

fn status(service: &Service) -> String {
    status_as("text", service)
}

fn status_as(format: &str, service: &Service) -> String {
    let mut command = Command::new(with::sockstamp());
    command
        .args(["notifications", "--status", "--format", format, "--socket"])
        .arg(service.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_application_that_is_killed_is_forgotten_whatever_is_in_flight() {
    let (fixture, service) = (Fixture::new(), Service::start(&["--sockets", "1"]));
    let (other, receiver) = fixture.udp(Family::V4);
    let to = receiver.local_addr().unwrap();
    let path = service.path();
    let version = sockstamp::completions::protocol::VERSION.to_string();
    let words = [
        "-c",
        DOOMED,
        path.to_str().unwrap(),
        &to.ip().to_string(),
        &to.port().to_string(),
        &version,
    ];
    let mut application = fixture.sender.spawn("python3", &words).unwrap();
    application.wait_for_stdout("in flight", PATIENCE).unwrap();
    assert!(
        status(&service).starts_with("1 applications, 1 sockets, "),
        "{}",
        status(&service)
    );
    let json: serde_json::Value = serde_json::from_str(&status_as("json", &service)).unwrap();
    assert_eq!(misfits(&schema("notifications-status"), &json), [""; 0]);
    assert_eq!(json["sockets"], 1);
    application.kill().unwrap();
    until(|| {
        status(&service)
            == "0 applications, 0 sockets, 0 areas of memory, 0 requests refused, 0 entries torn\n"
    });
    // Sends in flight complete now; no application's memory has them.
    drop(receiver);
    let mut registration = service.connect().register(&other, false).unwrap();
    until(|| send(&other, &DATA) > 0);
    let mut ranges = Vec::new();
    completed(&mut registration, &mut ranges, 1);
    assert_eq!(counts(&ranges), [1]);
}

/// The last process that closes the socket waits for unsent data. That is the service, since it got
/// the descriptor while it was stopped.
#[test]
fn a_lingering_socket_does_not_delay_the_service() {
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (sender, _receiver) = lingering(&fixture);
    let application = Raw::join(&service.path());
    service.signal(Signal::SIGSTOP);
    ask(
        &application.connection,
        Request::Register { stamps: false },
        Some(sender.as_raw_fd()),
    );
    drop(sender);
    service.signal(Signal::SIGCONT);

    let start = Instant::now();
    let (reply, _) = answer(&application.connection);
    assert!(matches!(reply, Reply::Registered(_)), "{reply:?}");
    let (other, _peer) = fixture.udp(Family::V4);
    drop(service.connect().register(&other, false).unwrap());
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
}

/// The application alone waits for the lock, which a program of the service needs.
#[test]
fn a_locked_socket_does_not_delay_other_applications() {
    let (fixture, mut service) = (Fixture::new(), Service::start(&[]));
    let (sender, _receiver) = fixture.tcp(Family::V4);
    let lock = HeldSocket::hold(sender.try_clone().unwrap()).unwrap();
    let own = service.connect();
    let waiting = thread::spawn(move || own.register(&sender, true).unwrap().has_stamps());

    let start = Instant::now();
    for _ in 0..10 {
        let (other, _peer) = fixture.tcp(Family::V4);
        let registration = service.connect().register(&other, true).unwrap();
        assert_eq!(registration.has_stamps(), can_stamp());
    }
    service.signal(Signal::SIGTERM);
    service.wait();
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
    drop(lock);
    waiting.join().unwrap();
}

/// `--status` agrees: only the count of existing areas limits them.
#[test]
fn memory_that_is_kept_counts_until_it_is_given_back() {
    let service = Service::start(&["--per-user", "3"]);
    let mut kept = Vec::new();
    for _ in 0..3 {
        let Raw { map, length, .. } = Raw::join(&service.path());
        kept.push((map, length));
    }
    until(|| status(&service).starts_with("0 applications, 0 sockets, 3 areas of memory, "));
    assert!(matches!(
        Completions::connect(service.path()),
        Err(Error::Refused {
            refusal: Refusal::MemoryInUse,
            ..
        })
    ));
    // A mapping keeps it as a descriptor does.
    let (map, length) = kept.pop().unwrap();
    let raw = Raw {
        connection: map.try_clone().unwrap(),
        map,
        length,
    };
    let mapping = raw.map(raw.length, libc::PROT_READ).unwrap();
    drop(raw);
    assert!(Completions::connect(service.path()).is_err());
    drop(mapping);
    drop(service.connect());
    drop(kept);
    until(|| status(&service).starts_with("0 applications, 0 sockets, 0 areas of memory, "));
}

fn can_stamp() -> bool {
    probe::facts().tx_timestamping == Some(true)
}

/// The ids of links to cgroups that the service has: proc(5), `/proc/pid/fdinfo`.
fn cgroup_links(service: &Service) -> BTreeSet<u32> {
    let entries = fs::read_dir(format!("/proc/{}/fdinfo", service.id())).unwrap();
    let texts = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts
        .filter(|text| text.contains("link_type:\tcgroup"))
        .filter_map(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("link_id:")?.trim().parse().ok())
        })
        .collect()
}

/// Programs are kept this long for the next application: attachment.rs of sockstamp-bpf.
const KEPT: Duration = Duration::from_secs(2);

#[test]
fn applications_that_come_and_go_do_not_attach_and_detach_programs() {
    if !can_stamp() {
        return skip(
            "faults::applications_that_come_and_go_do_not_attach_and_detach_programs",
            "without BPF timestamping nothing is attached for an application",
        );
    }
    let (fixture, service) = (Fixture::new(), Service::start(&[]));
    let (sender, _receiver) = fixture.tcp(Family::V4);
    let mut seen = BTreeSet::new();
    let start = Instant::now();
    let (mut registered, mut gaps) = (0, 0);
    let mut last = start;
    while registered < 12 || start.elapsed() < Duration::from_secs(1) {
        let began = Instant::now();
        until(|| service.connect().register(&sender, true).is_ok());
        gaps += usize::from(last.elapsed() > KEPT);
        // The application leaves after this moment.
        last = began;
        registered += 1;
        seen.extend(cgroup_links(&service));
    }
    // One of setsockopt(2) and one of the callbacks, and as many again for each time in which
    // nobody wanted them for longer than they are kept.
    assert!(
        seen.len() <= 2 * (1 + gaps),
        "{registered} with {gaps} gaps by {seen:?}"
    );
    until(|| cgroup_links(&service).is_empty());
}

/// Threads wait for sockets to close; the service continues.
#[test]
fn sockets_that_linger_take_as_many_threads_of_a_user_as_may_be() {
    const SOCKETS: usize = 40;
    // Its own, the one that ends it, and sixteen of the user.
    const THREADS: usize = 18;
    let (fixture, service) = (Fixture::new(), Service::start(&["--per-user", "64"]));
    let sockets: Vec<_> = (0..SOCKETS).map(|_| lingering(&fixture)).collect();
    let applications: Vec<_> = (0..SOCKETS).map(|_| Raw::join(&service.path())).collect();
    service.signal(Signal::SIGSTOP);
    let mut peers = Vec::new();
    for (application, (socket, peer)) in applications.iter().zip(sockets) {
        let request = Request::Register { stamps: false };
        ask(&application.connection, request, Some(socket.as_raw_fd()));
        peers.push(peer);
    }
    service.signal(Signal::SIGCONT);
    until(|| threads(&service) >= THREADS);
    thread::sleep(Duration::from_secs(1));
    assert_eq!(threads(&service), THREADS);
    // The connections of that user wait; they are served when there is a thread again.
    drop(peers);
    for application in &applications {
        let (reply, _) = answer(&application.connection);
        assert!(matches!(reply, Reply::Registered(_)), "{reply:?}");
    }
}

fn threads(service: &Service) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", service.id()));
    tasks.unwrap().count()
}

/// A connection that close(2) waits for, and its other end.
fn lingering(fixture: &Fixture) -> (TcpStream, TcpStream) {
    const SECONDS: i32 = 60;
    let (sender, receiver) = fixture.tcp(Family::V4);
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: SECONDS,
    };
    setsockopt(&sender, sockopt::Linger, &linger).unwrap();
    fill(&sender);
    (sender, receiver)
}

/// Until nothing more fits into the buffers of both sides.
fn fill(sender: &TcpStream) {
    sender.set_nonblocking(true).unwrap();
    while nix::sys::socket::send(sender.as_raw_fd(), &DATA, MsgFlags::empty()).is_ok() {}
    sender.set_nonblocking(false).unwrap();
}

/// docs/shared-completions.md documents this.
#[test]
fn three_capabilities_are_enough_for_the_service() {
    let copy = Unprivileged::new();
    let service = Service::start_by(copy.with_capabilities("-all,+bpf,+perfmon,+net_admin"), &[]);
    let of_another_user = Completions::connect(service.path());
    assert!(matches!(of_another_user, Err(Error::Untrusted { .. })));
    let fixture = Fixture::new();
    let (sender, receiver) = fixture.udp(Family::V4);
    drop(receiver);
    let mut registration = service.connect().register(&sender, false).unwrap();
    until(|| send(&sender, &DATA) > 0);
    completed(&mut registration, &mut Vec::new(), 1);

    if can_stamp() {
        let (sender, _receiver) = fixture.tcp(Family::V4);
        let mut registration = service.connect().register(&sender, true).unwrap();
        assert!(registration.has_stamps(), "{}", service.log());
        until(|| {
            let mut sent = false;
            nix::sys::socket::send(sender.as_raw_fd(), &[0; 10], MsgFlags::empty()).unwrap();
            registration.stamps(|stamp| sent |= stamp.kind == TxKind::Snd);
            sent
        });
    }
}

#[test]
fn the_service_names_missing_capabilities() {
    let (copy, folder) = (Unprivileged::new(), tempfile::tempdir().unwrap());
    let mut command = copy.command();
    command
        .args(["notifications", "--socket"])
        .arg(folder.path().join("socket"));
    let mut process = Process::spawn(command).unwrap();
    assert!(!process.wait_status(PATIENCE).unwrap().success());
    let said = process.stderr();
    assert!(said.contains("setcap"), "{said}");
}
