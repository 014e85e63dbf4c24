//! Messages in groups, over loopback. Root.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sockstamp_bpf::{Grouped, Options, Session, Target};
use sockstamp_model::flow::NetnsInode;
use sockstamp_model::group::{GroupDirection, GroupSummary, Groups};
use sockstamp_model::stage::Direction;
use sockstamp_model::summary::{DirectionSummary, Summary};
use testbed::{Family, Host, Link, LinkConfig, PATIENCE};

/// Answers each request, connection after connection.
struct Echo {
    address: SocketAddr,
}

/// Bytes of a request and of its answer: others for other connections, as far as their client's
/// ports tell.
fn sizes(client: SocketAddr) -> (usize, usize) {
    let request = 100 + usize::from(client.port() % 997);
    (request, 2 * request + 1)
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for socket in listener.incoming() {
                thread::spawn(move || answer(socket.unwrap()));
            }
        });
        Self { address }
    }

    /// A connection that has asked `requests` times.
    fn ask(&self, requests: usize) -> TcpStream {
        let mut client = TcpStream::connect(self.address).unwrap();
        (0..requests).for_each(|_| request(&mut client));
        client
    }

    /// Assert that every message counted for a group of one flow is of that flow's size.
    fn assert_own(&self, group: &GroupSummary) {
        let flow = group.key.flow.unwrap();
        let (sent, read) = if flow.remote == self.address {
            sizes(flow.local)
        } else {
            let (request, answer) = sizes(flow.remote);
            (answer, request)
        };
        assert_eq!(group.tx.bytes, sent as u64 * group.tx.messages, "{flow}");
        assert_eq!(group.rx.bytes, read as u64 * group.rx.messages, "{flow}");
    }
}

fn answer(mut socket: TcpStream) {
    let (request, answer) = sizes(socket.peer_addr().unwrap());
    while socket.read_exact(&mut vec![0; request]).is_ok() {
        socket.write_all(&vec![0; answer]).unwrap();
    }
}

fn request(client: &mut TcpStream) {
    let (request, answer) = sizes(client.local_addr().unwrap());
    client.write_all(&vec![0; request]).unwrap();
    client.read_exact(&mut vec![0; answer]).unwrap();
}

fn start(grouped: Grouped) -> Session {
    let options = Options {
        target: Target {
            pids: vec![std::process::id()],
            ..Target::default()
        },
        groups: Some(grouped),
        ..Options::default()
    };
    Session::start(&options).unwrap()
}

fn by(dimensions: &str) -> Grouped {
    Grouped::by(dimensions.parse().unwrap())
}

fn finish(mut session: Session) -> (Summary, Groups) {
    session.settle(Duration::from_secs(2), &mut drop).unwrap();
    let mut summary = session.stop(&mut drop).unwrap();
    let groups = summary.groups.take().unwrap();
    assert_adds_up(&groups, &summary);
    (summary, groups)
}

/// Groups and the rest are the whole: every count, and every sum to the nanosecond.
fn assert_adds_up(groups: &Groups, summary: &Summary) {
    let (_, whole) = groups.top(0);
    let refused: u64 = summary.refusals().map(|(_, count)| count).sum();
    assert_eq!(whole.tx.refused + whole.rx.refused, refused);
    for direction in Direction::ALL {
        assert_same(whole.direction(direction), summary.direction(direction));
    }
}

fn assert_same(group: &GroupDirection, whole: &DirectionSummary) {
    assert_eq!(group.messages, whole.messages);
    assert_eq!(group.bytes, whole.bytes);
    assert_eq!(group.retransmits, whole.retransmits);
    assert_eq!(
        (group.total.count(), group.total.sum_ns(), group.total.max()),
        (whole.total.count(), whole.total.sum_ns(), whole.total.max())
    );
    for (part, sum) in whole.parts.iter() {
        assert_eq!(&group.parts[part], sum, "{part}");
    }
    for (stage, histogram) in whole.stages.present() {
        let stages = group.stages[stage].as_ref().unwrap();
        assert_eq!(stages.count(), histogram.count(), "{stage}");
        assert_eq!(stages.sum_ns(), histogram.sum_ns(), "{stage}");
        assert_eq!(stages.max(), histogram.max(), "{stage}");
        for quantile in [0.5, 0.9] {
            let (coarse, fine) = (stages.quantile(quantile), histogram.quantile(quantile));
            let (coarse, fine) = (
                coarse.map_or(0, |value| value.0),
                fine.map_or(0, |value| value.0),
            );
            // Neither is further off than its own accuracy; below 60 ns both are meaningless.
            assert!(
                coarse.abs_diff(fine) as f64 <= 0.15 * fine as f64 + 60.0,
                "{stage}: {coarse} {fine}"
            );
        }
    }
}

#[test]
fn each_connection_is_a_group_of_its_own() {
    let echo = Echo::start();
    let session = start(by("flow"));
    for requests in 1..=5 {
        echo.ask(requests);
    }
    let (summary, groups) = finish(session);
    assert_eq!((summary.lost.groups, groups.other.messages()), (0, 0));
    assert_eq!(groups.groups.len(), 10, "both ends of each connection");
    let client = groups
        .groups
        .iter()
        .filter(|group| group.key.flow.unwrap().remote == echo.address);
    let mut asked: Vec<_> = client
        .map(|group| {
            echo.assert_own(group);
            group.tx.messages
        })
        .collect();
    asked.sort_unstable();
    assert_eq!(asked, [1, 2, 3, 4, 5]);
}

#[test]
fn both_ends_know_the_port_of_the_service() {
    let (one, another) = (Echo::start(), Echo::start());
    let session = start(by("port"));
    one.ask(7);
    another.ask(3);
    let (_, groups) = finish(session);
    let ports: Vec<_> = groups
        .groups
        .iter()
        .map(|group| (group.key.port.unwrap(), group.tx.messages))
        .collect();
    assert_eq!(
        ports,
        [(one.address.port(), 14), (another.address.port(), 6)]
    );
}

#[test]
fn a_group_has_a_value_in_each_dimension() {
    let echo = Echo::start();
    let session = start(by("pid,comm,cgroup,container,peer,interface"));
    echo.ask(2);
    let (_, groups) = finish(session);
    let [GroupSummary { key, .. }] = groups.groups.as_slice() else {
        panic!("{groups:?}");
    };
    assert_eq!(key.pid, Some(std::process::id()));
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(key.comm, Some(comm.trim_end().into()));
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .unwrap();
    assert_eq!(key.cgroup.as_ref().unwrap().path, Some(own.into()));
    let container = sockstamp_model::container::container_of(own);
    assert_eq!(
        key.container,
        Some(container.map_or_else(Default::default, |found| found.id.into()))
    );
    assert_eq!(key.peer, Some("127.0.0.1".parse().unwrap()));
    assert_eq!(key.interface.as_ref().unwrap().name, Some("lo".into()));
    assert_eq!((key.port, key.flow), (None, None));
}

#[test]
fn messages_without_a_slot_are_in_other_and_counted() {
    let echo = Echo::start();
    let mut session = start(Grouped {
        limit: 8,
        ..by("flow")
    });
    let clients: Vec<_> = (0..20).map(|_| echo.ask(3)).collect();
    let under_way = session.groups().unwrap().unwrap();
    assert_eq!(under_way.groups.len(), 8);
    drop(clients);
    let (summary, groups) = finish(session);
    assert_eq!(groups.groups.len(), 8);
    // No group gave way, so each of the other 32 ends searched a slot once for its connection, and
    // once for its messages.
    assert_eq!((summary.lost.groups, groups.ended_groups), (64, 0));
    assert_eq!(groups.other.messages(), 32 * 6);
}

/// Poll for this long.
fn poll(session: &mut Session, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        session.poll(Duration::from_millis(20), &mut drop).unwrap();
    }
}

#[test]
fn idle_groups_give_way_when_there_are_too_many() {
    let echo = Echo::start();
    let mut session = start(Grouped {
        limit: 8,
        idle: Duration::from_millis(100),
        ..by("flow")
    });
    let mut staying = echo.ask(1);
    (0..9).for_each(|_| drop(echo.ask(1)));
    let begun = Instant::now();
    let before = loop {
        poll(&mut session, Duration::from_millis(2_500));
        let groups = session.groups().unwrap().unwrap();
        if groups.ended_groups >= 2 {
            break groups;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", groups.ended_groups);
    };
    assert!(before.other.messages() > 0);
    // A connection whose group has ended gets another one, and so does a new connection.
    request(&mut staying);
    let local = staying.local_addr().unwrap();
    let (_, groups) = finish(session);
    let group = groups
        .groups
        .iter()
        .find(|group| group.key.flow.unwrap().local == local)
        .unwrap();
    assert!((1..=2).contains(&group.tx.messages));
}

/// Runs a program whose membarrier(2) fails, as it does on a host with `nohz_full`: seccomp(2),
/// with the filter of classic BPF that Documentation/userspace-api/seccomp_filter.rst describes.
const WITHOUT_MEMBARRIER: &str = "
import ctypes, errno, os, struct, sys
number = 324  # of x86-64
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, number), (RETURN, 0, 0, 0x50000 | errno.EINVAL), (RETURN, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
program = struct.pack('HxxxxxxP', len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP, by a filter
assert libc.syscall(number, 0, 0) == -1 and ctypes.get_errno() == errno.EINVAL
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn groups_give_way_where_membarrier_is_refused() {
    let output = std::process::Command::new("python3")
        .args(["-c", WITHOUT_MEMBARRIER])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "idle_groups_give_way_when_there_are_too_many"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The place of a group is not given away while one of its messages is on its way.
#[test]
fn messages_in_flight_end_in_the_group_that_sent_them() {
    let (client, server) = (Host::new("client").unwrap(), Host::new("server").unwrap());
    let link = Link::relay(&client, &server, LinkConfig::default()).unwrap();
    let any = SocketAddr::new(link.address_b(Family::V4), 0);
    let listener = server.tcp_listen(any).unwrap();
    let options = Options {
        target: Target {
            netns: vec![NetnsInode(u32::try_from(client.netns_inode()).unwrap())],
            ..Target::default()
        },
        groups: Some(Grouped {
            limit: 1,
            idle: Duration::ZERO,
            ..by("flow")
        }),
        ..Options::default()
    };
    let mut session = Session::start(&options).unwrap();
    let mut socket = client.tcp_connect(listener.local_addr().unwrap()).unwrap();

    link.set_config(LinkConfig::default().loss(1.0)).unwrap();
    socket.write_all(&[0; 100]).unwrap();
    poll(&mut session, Duration::from_millis(2_500));
    let in_flight = session.groups().unwrap().unwrap();
    assert_eq!(in_flight.ended_groups, 0);
    assert_eq!(in_flight.groups.len(), 1);
    assert_eq!(in_flight.groups[0].tx.messages, 1);
    assert_eq!(in_flight.groups[0].tx.total.count(), 0);

    // The segment is sent again and again, each time after twice as long: RFC 6298, section 5.5.
    link.set_config(LinkConfig::default()).unwrap();
    poll(&mut session, Duration::from_millis(3_500));
    let (_, groups) = finish(session);
    assert_eq!(groups.ended_groups, 1);
    assert_eq!(groups.ended.tx.total.count(), 1);
    assert!(groups.ended.tx.total.sum_ns() > 2_000_000_000);
}

/// Groups give way in the midst of their messages: nothing is lost, and nothing counted for another
/// group.
#[test]
fn groups_that_change_places_under_load_stay_exact() {
    let echo = Echo::start();
    let mut session = start(Grouped {
        limit: 3,
        idle: Duration::ZERO,
        ..by("flow")
    });
    let begun = Instant::now();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = echo.ask(0);
                while !over.load(Ordering::Relaxed) && begun.elapsed() < PATIENCE {
                    request(&mut client);
                    thread::sleep(Duration::from_micros(100));
                }
            });
        }
        let mut ended = 0;
        while begun.elapsed() < Duration::from_secs(4) || (ended < 2 && begun.elapsed() < PATIENCE)
        {
            poll(&mut session, Duration::from_secs(1));
            ended = session.groups().unwrap().unwrap().ended_groups;
        }
        over.store(true, Ordering::Relaxed);
    });
    let (summary, groups) = finish(session);
    assert!(groups.ended_groups >= 2, "{}", groups.ended_groups);
    assert!(summary.lost.groups > 0);
    // This holds for any former owner of the slot.
    groups
        .groups
        .iter()
        .for_each(|group| echo.assert_own(group));
}
