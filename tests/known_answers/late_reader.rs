//! A task that has other work before it reads: `rx.app` shows whether it was running, waited for a
//! CPU or slept. The witnesses are the task's CPU clock and /proc/thread-self/schedstat.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde_json::Value;
use testbed::{Host, Process, within_attempts};
use with::expected::{ms, within};
use with::{Trace, number, of_direction};

/// The behaviour of the task before it reads.
const WORK: Duration = Duration::from_millis(40);
/// Longer than the way from a send to its arrival, on a busy machine.
const SLACK: u64 = ms(2);
const FIRST: u64 = 5;
const LATE: u64 = 7;

/// The time of a task by what it did, in nanoseconds.
#[derive(Debug)]
struct Did {
    running: u64,
    runnable: u64,
    blocked: u64,
}

/// The clocks of the calling task: the time of all, of its CPU, and of its waits for one.
fn clocks() -> [u64; 3] {
    let read = |clock: ClockId| Duration::from(clock_gettime(clock).unwrap());
    let [wall, cpu] = [ClockId::CLOCK_MONOTONIC, ClockId::CLOCK_THREAD_CPUTIME_ID].map(read);
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let delay = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    [nanos(wall), nanos(cpu), delay]
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

fn witnessed(work: impl FnOnce()) -> Did {
    let before = clocks();
    work();
    let after = clocks();
    let [wall, running, runnable] = [0, 1, 2].map(|clock| after[clock] - before[clock]);
    Did {
        running,
        runnable,
        blocked: wall.saturating_sub(running + runnable),
    }
}

fn compute() {
    let begin = clocks()[1];
    while clocks()[1] - begin < nanos(WORK) {
        std::hint::spin_loop();
    }
}

fn sleep() {
    thread::sleep(WORK);
}

/// Keep the calling task, and another one that computes, on one CPU.
fn with_a_neighbour(work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        pin();
        scope.spawn(|| {
            pin();
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        work();
        done.store(true, Ordering::Relaxed);
    });
}

fn pin() {
    let mut set = CpuSet::new();
    set.set(0).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}

/// Both ends of a connection, or two sockets that know each other.
trait Ends: Sync {
    fn on(host: &Host) -> Self;
    fn send(&self, bytes: u64);
    fn read(&self, bytes: u64);
    fn reader(&self) -> BorrowedFd<'_>;
}

struct Tcp {
    client: TcpStream,
    server: TcpStream,
}

impl Ends for Tcp {
    fn on(host: &Host) -> Tcp {
        let listener = host
            .tcp_listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .unwrap();
        let client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        Tcp { client, server }
    }

    fn send(&self, bytes: u64) {
        (&self.client)
            .write_all(&vec![0; usize::try_from(bytes).unwrap()])
            .unwrap();
    }

    fn read(&self, bytes: u64) {
        assert_eq!((&self.server).read(&mut [0; 100]).unwrap() as u64, bytes);
    }

    fn reader(&self) -> BorrowedFd<'_> {
        self.server.as_fd()
    }
}

struct Udp {
    client: UdpSocket,
    server: UdpSocket,
}

impl Ends for Udp {
    fn on(host: &Host) -> Udp {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let [client, server] = [host.udp_bind(any).unwrap(), host.udp_bind(any).unwrap()];
        client.connect(server.local_addr().unwrap()).unwrap();
        Udp { client, server }
    }

    fn send(&self, bytes: u64) {
        self.client
            .send(&vec![0; usize::try_from(bytes).unwrap()])
            .unwrap();
    }

    fn read(&self, bytes: u64) {
        assert_eq!(self.server.recv(&mut [0; 100]).unwrap() as u64, bytes);
    }

    fn reader(&self) -> BorrowedFd<'_> {
        self.server.as_fd()
    }
}

/// The data comes while no task waits for it: the task reads it after its work.
fn comes_late<E: Ends>(work: impl Fn() + Sync) -> Result<Did, String> {
    check::<E>(|ends| {
        ends.send(LATE);
        witnessed(&work)
    })
}

/// The task is woken by the data, and works before it reads.
fn woken<E: Ends>(work: impl Fn() + Sync) -> Result<Did, String> {
    check::<E>(|ends| {
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(WORK);
                ends.send(LATE);
            });
            let mut waited = [PollFd::new(ends.reader(), PollFlags::POLLIN)];
            poll(&mut waited, PollTimeout::NONE).unwrap();
            witnessed(&work)
        })
    })
}

/// Keep each processor busy with a task that gives way to all others: one that idles was seen to
/// take no samples of the scheduler's clock, without which parts are unknown.
fn keep_awake() -> Vec<Process> {
    let processors = thread::available_parallelism().unwrap().get();
    let busy = |processor: usize| {
        let mut command = Command::new("chrt");
        command.args([
            "--idle",
            "0",
            "taskset",
            "--cpu-list",
            &processor.to_string(),
        ]);
        command.args(["sh", "-c", "while :; do :; done"]);
        Process::spawn(command).unwrap()
    };
    (0..processors).map(busy).collect()
}

/// Compare the parts of the late read with what its task saw between the arrival and the read.
fn check<E: Ends>(until_read: impl Fn(&E) -> Did + Sync) -> Result<Did, String> {
    let host = Host::new("reader").unwrap();
    let _awake = keep_awake();
    let trace = Trace::start(&["--netns", host.netns_name()]);
    let ends = E::on(&host);
    // In a task of its own, which may be kept to a CPU.
    let did = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            ends.send(FIRST);
            ends.read(FIRST);
            let did = until_read(&ends);
            ends.read(LATE);
            did
        });
        reader.join().unwrap()
    });
    let messages = trace.finish();
    let read: Vec<&Value> = of_direction(&messages, "rx")
        .into_iter()
        .filter(|message| number(&message["bytes"]) == LATE)
        .collect();
    let [read] = read[..] else {
        panic!("{messages:?}");
    };
    println!("{did:?}: {}", read["parts"]);
    assert_eq!(read["verdict"], "valid");
    let part = |name: &str| read["parts"]["rx.app"][name].as_u64().unwrap_or(0);
    // A processor that stands still takes no samples of the scheduler's clock.
    within("unknown", part("unknown"), 0..=0)?;
    let near = |witness: u64| witness.saturating_sub(SLACK)..=witness + SLACK;
    within("running", part("running"), near(did.running))?;
    within("blocked", part("blocked"), near(did.blocked))?;
    match read["stages"]["rx.wakeup"].as_u64() {
        None => within("runnable", part("runnable"), near(did.runnable))?,
        // The part has all waits for a CPU since the data came.
        Some(wakeup) => within("rx.wakeup", wakeup, did.runnable..=u64::MAX)?,
    }
    Ok(did)
}

fn most_of(work: u64, what: &str) -> Result<(), String> {
    within(what, work, nanos(WORK) * 9 / 10..=nanos(WORK) * 100)
}

#[test]
fn a_reader_that_computes_first_is_running() {
    within_attempts(|| {
        most_of(comes_late::<Tcp>(compute)?.running, "running")?;
        most_of(woken::<Tcp>(compute)?.running, "running")?;
        most_of(comes_late::<Udp>(compute)?.running, "running")
    });
}

#[test]
fn a_reader_that_sleeps_first_is_blocked() {
    within_attempts(|| {
        most_of(comes_late::<Tcp>(sleep)?.blocked, "blocked")?;
        most_of(woken::<Tcp>(sleep)?.blocked, "blocked")?;
        most_of(comes_late::<Udp>(sleep)?.blocked, "blocked")
    });
}

#[test]
fn a_reader_that_shares_its_cpu_is_runnable() {
    let shared = || with_a_neighbour(compute);
    within_attempts(|| {
        let did = comes_late::<Tcp>(shared)?;
        within(
            "runnable",
            did.runnable,
            nanos(WORK) / 4..=nanos(WORK) * 100,
        )?;
        let did = comes_late::<Udp>(shared)?;
        within(
            "runnable",
            did.runnable,
            nanos(WORK) / 4..=nanos(WORK) * 100,
        )
    });
}

/// The time of a task that had not read before is unknown.
#[test]
fn a_reader_that_is_another_than_before_is_unknown() {
    let host = Host::new("reader").unwrap();
    let trace = Trace::start(&["--netns", host.netns_name()]);
    let ends = Tcp::on(&host);
    ends.send(FIRST);
    ends.read(FIRST);
    ends.send(LATE);
    thread::scope(|scope| scope.spawn(|| ends.read(LATE)).join().unwrap());
    let messages = trace.finish();
    let read = of_direction(&messages, "rx");
    assert_eq!(read.len(), 2, "{messages:?}");
    let parts = &read[1]["parts"]["rx.app"];
    assert_eq!(
        number(&parts["unknown"]),
        number(&read[1]["stages"]["rx.app"]),
        "{parts}"
    );
}
