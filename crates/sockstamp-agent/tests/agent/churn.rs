//! Connections, containers and network namespaces that come and go at full rate, and an agent that
//! is killed meanwhile. Witnesses: /proc of the agent, and the kernel's list of BPF programs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testbed::{Cgroup, Family, Host, Link, PATIENCE, Process};
use with::agent::{Agent, exchange, resident, wait_for_line};
use with::leftovers::Leftovers;
use with::{sockstamp, wait_attached};

/// Memory that may come with later churn, in kB: the allocator's slack and buffers that fill. Some
/// 15,000 connections come later, so a leak of 600 bytes each is more.
const SLACK: u64 = 8_000;
const PORT: u16 = 9000;
/// A container lives as long as the prober needs to find it.
const LIFE: Duration = Duration::from_millis(1500);

/// Time of the churn; set SOCKSTAMP_CHURN_SECONDS for a longer one.
fn duration() -> Duration {
    let seconds = std::env::var("SOCKSTAMP_CHURN_SECONDS");
    let seconds = seconds.map_or(20, |seconds| seconds.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

/// Connects often, and once more without closing.
const CLIENT: &str = "
import socket, sys
for _ in range(20):
    s = socket.create_connection((sys.argv[1], 9000))
    s.sendall(b'x' * 100)
    s.recv(100)
print('there', flush=True)
s.recv(1)
";

/// Answers all connections.
const SERVER: &str = "
import socket, threading
def answer(s):
    while message := s.recv(100):
        s.sendall(message)
l = socket.create_server(('', 9000))
print('there', flush=True)
while True:
    s, _ = l.accept()
    threading.Thread(target=answer, args=(s,), daemon=True).start()
";

/// Answer all connections to a port of this host, until the test ends.
fn serve(host: &Host) {
    let address = ([127, 0, 0, 1], PORT).into();
    let listener = host.tcp_listen(address).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut message = [0; 100];
                while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok()
                {
                }
            });
        }
    });
}

/// A container in a namespace of its own, for as long as its client needs.
fn live_and_die(number: u64) {
    let (near, far) = (Host::new("near").unwrap(), Host::new("far").unwrap());
    let link = Link::veth(&near, &far).unwrap();
    let mut server = far.spawn("python3", &["-c", SERVER]).unwrap();
    server.wait_for_stdout("there", PATIENCE).unwrap();
    let top = Cgroup::new("churn").unwrap();
    let id = format!("{:08x}{number:056x}", std::process::id());
    let cgroup = top.below(&format!("docker-{id}.scope")).unwrap();
    let mut command = near.command("python3");
    let address = link.address_b(Family::V4).to_string();
    command.args(["-c", CLIENT, &address]);
    cgroup.start_in(&mut command).unwrap();
    let mut process = Process::spawn(command).unwrap();
    process.wait_for_stdout("there", PATIENCE).unwrap();
    thread::sleep(LIFE);
    drop(process);
    drop(cgroup);
    drop(top);
}

/// Connections over the loopback interface, one after another.
fn connect(host: &Host, until: &AtomicBool) -> u64 {
    let address = ([127, 0, 0, 1], PORT).into();
    let mut connections = 0;
    while !until.load(Ordering::Relaxed) {
        let mut stream = host.tcp_connect(address).unwrap();
        stream.write_all(&[0; 100]).unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        connections += 1;
    }
    connections
}

/// Everything that an agent holds, apart from memory.
#[derive(Debug)]
struct Held {
    threads: usize,
    descriptors: usize,
    maps: usize,
    programs: usize,
    namespaces: usize,
}

impl Held {
    fn all(&self) -> [usize; 5] {
        [
            self.threads,
            self.descriptors,
            self.maps,
            self.programs,
            self.namespaces,
        ]
    }

    /// No count has grown; at that time a reading may have held a few descriptors.
    fn is_within(&self, before: &Self) -> bool {
        self.all()
            .iter()
            .zip(before.all())
            .all(|(now, before)| *now <= before)
    }
}

fn held(agent: &Agent) -> Held {
    let of = |what: &str| format!("/proc/{}/{what}", agent.process.id());
    let links = fs::read_dir(of("fd")).unwrap().filter_map(Result::ok);
    let links: Vec<_> = links
        .filter_map(|link| fs::read_link(link.path()).ok())
        .collect();
    let kind = |name: &str| links.iter().filter(|link| link.ends_with(name)).count();
    let tasks: Vec<_> = fs::read_dir(of("task"))
        .unwrap()
        .filter_map(Result::ok)
        .collect();
    let namespaces = tasks
        .iter()
        .filter_map(|task| fs::metadata(task.path().join("ns/net")).ok());
    Held {
        threads: tasks.len(),
        descriptors: links.len(),
        maps: kind("anon_inode:bpf-map"),
        programs: kind("anon_inode:bpf-prog"),
        namespaces: namespaces
            .map(|netns| netns.ino())
            .collect::<BTreeSet<_>>()
            .len(),
    }
}

#[test]
fn churn_leaves_memory_flat_and_nothing_behind() {
    let directory = TempDir::new().unwrap();
    let host = Host::new("churn").unwrap();
    serve(&host);
    let agent = Agent::start(&format!(
        "max_groups = 20\nexpire = \"2s\"\n[probe]\ninterval = \"1s\"\n[hindsight]\ndirectory = \"{}\"\n\
         max_size = 4\nkeep = \"8s\"\n",
        directory.path().display()
    ));
    agent.scrape();
    let before = held(&agent);
    let (stop, lived) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut memory = Vec::new();
    let mut probed = 0.0_f64;
    let connections = thread::scope(|scope| {
        let connecting = scope.spawn(|| connect(&host, &stop));
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    live_and_die(lived.fetch_add(1, Ordering::Relaxed));
                }
            });
        }
        let start = Instant::now();
        while start.elapsed() < duration() {
            let scrape = agent.scrape();
            probed = probed.max(scrape.sum("sockstamp_probed_peers", &[]));
            memory.push(resident(&agent));
            thread::sleep(Duration::from_millis(300));
        }
        stop.store(true, Ordering::Relaxed);
        connecting.join().unwrap()
    });
    let lived = lived.into_inner();
    println!("{connections} connections, {lived} containers, memory {memory:?} kB");
    // The first half meets every kind of thing, so later memory would be a leak.
    let (early, late) = memory.split_at(memory.len() / 2);
    let most = |of: &[u64]| of.iter().copied().max().unwrap();
    assert!(most(late) <= most(early) + SLACK, "{memory:?}");
    assert!(lived >= 5 && connections >= 500 && probed >= 1.0);
    let start = Instant::now();
    while !held(&agent).is_within(&before) {
        assert!(
            start.elapsed() < PATIENCE,
            "{:?} is not {before:?}",
            held(&agent)
        );
        agent.scrape();
        thread::sleep(Duration::from_millis(100));
    }
}

fn start_at(address: &str) -> Process {
    let mut command = std::process::Command::new(sockstamp());
    command.args(["agent", "--listen", address]);
    Process::spawn(command).unwrap()
}

/// A Prometheus that scrapes every ten seconds misses one scrape at most.
#[test]
fn a_killed_agent_is_back_before_the_second_scrape() {
    const SCRAPE: Duration = Duration::from_secs(10);
    let before = Leftovers::before();
    let host = Host::new("killed").unwrap();
    serve(&host);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| connect(&host, &stop));
        let mut agent = start_at("127.0.0.1:0");
        wait_attached(&mut agent);
        let address = wait_for_line(&agent, "listening on http://");
        for _ in 0..2 {
            agent.kill().unwrap();
            let killed = Instant::now();
            agent = start_at(&address);
            wait_attached(&mut agent);
            let address = address.parse().unwrap();
            let (head, body) = exchange(address, "/metrics", "");
            assert!(killed.elapsed() < SCRAPE, "{:?}", killed.elapsed());
            assert!(
                head.contains(" 200 ") && body.contains("sockstamp_messages_total"),
                "{head}"
            );
        }
        stop.store(true, Ordering::Relaxed);
        agent.kill().unwrap();
    });
    before.assert_none();
}
