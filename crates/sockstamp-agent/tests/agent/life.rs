//! Starts, ends, and neighbours.

use std::fs;
use std::io::{BufRead, BufReader, PipeWriter, Read, Write, pipe};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testbed::{Cgroup, Host, PATIENCE, Process, within_attempts};
use with::agent::{Agent, SHARED, Scrape, exchange, post, talk, wait_for_line};
use with::leftovers::Leftovers;
use with::{sockstamp, wait_until};

#[test]
fn the_agent_leaves_no_trace_by_sigterm_or_when_killed() {
    let before = Leftovers::before();
    let host = Host::new("agent").unwrap();
    let mut agent = Agent::of(&host, "");
    agent.process.signal(Signal::SIGTERM).unwrap();
    let status = agent.process.wait_status(PATIENCE).unwrap();
    assert!(status.success(), "{status}: {}", agent.process.stderr());
    let mut agent = Agent::of(&host, "");
    talk(&host, 5, Duration::ZERO);
    agent.process.kill().unwrap();
    before.assert_none();
}

#[test]
fn two_agents_see_the_same() {
    let host = Host::new("agent").unwrap();
    let agents = [Agent::of(&host, ""), Agent::of(&host, "")];
    talk(&host, 20, Duration::ZERO);
    for agent in &agents {
        let scrape = agent.scrape();
        for direction in ["direction=\"tx\"", "direction=\"rx\""] {
            assert_eq!(
                scrape.sum("sockstamp_messages_total", &[direction]),
                40.0,
                "{}",
                scrape.0
            );
            assert_eq!(
                scrape.sum("sockstamp_measured_messages_total", &[direction]),
                40.0
            );
        }
    }
}

const UNIT: &str = include_str!("../../../../packaging/systemd/sockstamp-agent.service");

fn of_unit(key: &str) -> &str {
    let value = |line: &'static str| line.strip_prefix(key)?.strip_prefix('=');
    UNIT.lines().find_map(value).unwrap()
}

/// A command that becomes sockstamp with the unit's capabilities, and no others.
fn with_the_capabilities_of_the_unit(mut command: Command) -> Command {
    let kept = of_unit("CapabilityBoundingSet");
    let kept = kept.to_lowercase().replace("cap_", "+").replace(' ', ",");
    let kept = format!("-all,{kept}");
    command.args(["--inh-caps", &kept, "--bounding-set", &kept]);
    command.arg(sockstamp());
    command
}

/// Stages of a NIC are absent on every host.
#[test]
fn the_capabilities_of_the_unit_are_enough_for_every_stage() {
    let command = with_the_capabilities_of_the_unit(Command::new("setpriv"));
    let agent = Agent::by(command, "");
    assert!(
        agent.process.stderr().lines().count() == 1,
        "{}",
        agent.process.stderr()
    );
    let absent: Vec<_> = agent
        .scrape()
        .0
        .lines()
        .filter(|line| line.starts_with("sockstamp_absent_stage{") && !line.contains(".nic\""))
        .map(str::to_owned)
        .collect();
    // A host without the programs' features lacks more by any user.
    let own = Agent::start("").scrape().0;
    let of_host = |line: &String| own.lines().any(|other| other == line);
    assert!(absent.iter().all(of_host), "{absent:#?}");
    // These would take some of them away.
    for protection in ["ProtectKernelLogs=yes", "PrivateUsers=yes"] {
        assert!(!UNIT.lines().any(|line| line == protection), "{protection}");
    }
}

/// A thread that a client or another user's file could make do anything has little to do it with.
#[test]
fn threads_beside_the_measuring_one_have_the_capabilities_of_their_work_alone() {
    // include/uapi/linux/capability.h
    const DAC_READ_SEARCH: u64 = 1 << 2;
    const PROBING: u64 = 1 << 12 | 1 << 13 | 1 << 19 | 1 << 21;
    let directory = TempDir::new().unwrap();
    let agent = Agent::start(&format!(
        "[hindsight]\ndirectory = {:?}\nmin_free = 1\n[otlp]\nendpoint = \"http://127.0.0.1:1\"",
        directory.path()
    ));
    let expected = [
        ("hindsight", 0),
        ("http", 0),
        ("names", DAC_READ_SEARCH),
        ("otlp", 0),
        ("prober", PROBING),
    ];
    let mut found = Vec::new();
    let all = agent.capabilities()["sockstamp"];
    let of = |(name, held): (&str, u64)| (name.to_owned(), held & all);
    let expected = expected.map(of).to_vec();
    // A thread drops them when it begins.
    wait_until("capabilities are dropped", || {
        found = agent.capabilities().into_iter().collect();
        found.retain(|(name, _): &(String, u64)| name != "sockstamp");
        found == expected
    });
}

/// Any other system call would end it.
#[test]
fn the_system_calls_of_the_unit_are_enough_for_all_that_it_does() {
    let host = Host::new("calls").unwrap();
    let directory = TempDir::new().unwrap();
    let mut command = Command::new("python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent/seccomp.py");
    command.args([script, of_unit("SystemCallFilter"), "setpriv"]);
    let settings = |rate: u32| {
        format!(
            "sample = \"{rate}/s\"\nmax_cost = \"none\"\n\
             by = [\"container_name\", \"interface\", \"netns\"]\n\
             [page]\nslow = \"1ms\"\n\
             [hindsight]\ndirectory = {:?}\nmin_free = 1\n\
             [otlp]\nendpoint = \"http://127.0.0.1:1\"\nslow = \"1ms\"\ninterval = \"1s\"\n\
             [probe]\ninterval = \"1s\"\n[target]\nnetns = {:?}",
            directory.path(),
            host.netns_name()
        )
    };
    let mut agent = Agent::by(with_the_capabilities_of_the_unit(command), &settings(1000));
    talk(&host, 20, Duration::from_millis(5));
    let said = agent.reload(&settings(2000));
    assert!(said.contains("read again"), "{said}");
    talk(&host, 20, Duration::from_millis(5));
    let answers = [
        post(agent.address, "/snapshot", "Sockstamp-Snapshot: 1\r\n"),
        post(agent.address, "/explain", "Sockstamp-Explain: 1\r\n"),
    ];
    for (head, body) in answers {
        assert!(head.contains(" 200 "), "{head} {body}");
    }
    agent.scrape_until(|scrape| scrape.sum("sockstamp_messages_total", &[]) >= 160.0);
    agent.process.signal(Signal::SIGTERM).unwrap();
    let status = agent.process.wait_status(PATIENCE).unwrap();
    assert!(status.success(), "{status}: {}", agent.process.stderr());
}

/// To enter the namespace takes a capability that measuring goes without; and a group that had two
/// names would be counted twice.
#[test]
fn an_interface_of_another_namespace_has_one_name_also_after_a_reload() {
    let host = Host::new("named").unwrap();
    let settings = |rate: u32| {
        format!(
            "sample = \"{rate}/s\"\nmax_cost = \"none\"\nudp = {}\nby = [\"interface\"]\n\
             [target]\nnetns = {:?}",
            rate > 1000,
            host.netns_name()
        )
    };
    let agent = Agent::start(&settings(1000));
    let label = format!("interface=\"lo@{}\"", host.netns_name());
    let messages = |scrape: &Scrape| scrape.sum("sockstamp_messages_total", &[]);
    for round in 1..=2 {
        talk(&host, 25, Duration::ZERO);
        let expected = f64::from(100 * round);
        let scrape = agent.scrape_until(|scrape| messages(scrape) >= expected);
        let named = scrape.sum("sockstamp_messages_total", &[&label]);
        assert_eq!([messages(&scrape), named], [expected; 2], "{}", scrape.0);
        let said = agent.reload(&settings(2000));
        assert!(said.contains("read again"), "{said}");
    }
    let scrape = agent.scrape();
    assert_eq!(messages(&scrape), 200.0, "{}", scrape.0);
}

/// A service that starts again has another cgroup, at the same path.
#[test]
fn a_target_that_starts_again_is_measured_again() {
    let (host, parent) = (Host::new("again").unwrap(), Cgroup::new("again").unwrap());
    let cgroup = parent.below("service").unwrap();
    let path = cgroup.path().to_owned();
    let agent = Agent::start(&format!("max_cost = \"none\"\n[target]\ncgroup = {path:?}"));
    let messages = |scrape: &Scrape| scrape.sum("sockstamp_messages_total", &[]);
    let ask = |cgroup: &Cgroup| {
        let script = "import socket\n\
                      s = socket.create_server(('127.0.0.1', 0))\n\
                      c = socket.create_connection(s.getsockname())\nd, _ = s.accept()\n\
                      for i in range(5):\n c.send(b'x'); d.recv(1)";
        let mut command = host.command("python3");
        command.args(["-c", script]);
        cgroup.start_in(&mut command).unwrap();
        assert!(command.status().unwrap().success());
    };
    ask(&cgroup);
    agent.scrape_until(|scrape| messages(scrape) == 10.0);
    drop(cgroup);
    // Settings can be changed meanwhile; another cgroup that is not there is refused.
    let settings =
        |rest: &str| format!("max_cost = \"none\"\nsample = \"50/s\"\n[target]\ncgroup = {rest}");
    let said = agent.reload(&settings("\"/nowhere\""));
    assert!(said.contains("is unchanged"), "{said}");
    let said = agent.reload(&settings(&format!("{path:?}")));
    assert!(said.contains("read again"), "{said}");
    let again = parent.below("service").unwrap();
    let said = "the target has another cgroup now, which is measured";
    wait_until(said, || agent.process.stderr().contains(said));
    ask(&again);
    agent.scrape_until(|scrape| messages(scrape) == 20.0);
}

/// Without traffic, peers or clients.
#[test]
fn an_idle_agent_sleeps() {
    const TIME: Duration = Duration::from_secs(5);
    /// Twice per second for groups and for datagrams that were dropped; the rest is for samples of
    /// the cost, and for peers.
    const WAKINGS: u64 = 14;
    let host = Host::new("idle").unwrap();
    let agent = Agent::start(&format!("[target]\nnetns = \"{}\"", host.netns_name()));
    thread::sleep(Duration::from_secs(2));
    within_attempts(|| {
        let before = wakings(agent.process.id());
        thread::sleep(TIME);
        let woken = wakings(agent.process.id()) - before;
        match woken <= WAKINGS {
            true => Ok(()),
            false => Err(format!("woken {woken} times")),
        }
    });
}

/// Times that a thread of the process has slept.
fn wakings(process: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of_thread = |path: PathBuf| -> u64 {
        let status = fs::read_to_string(path.join("status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    };
    threads
        .map(|thread| of_thread(thread.unwrap().path()))
        .sum()
}

/// The default ceiling under a flood: the log and the metrics say what it does.
#[test]
fn the_ceiling_is_held_under_a_flood_and_said() {
    let host = Host::new("flood").unwrap();
    let agent = Agent::start(&format!("[target]\nnetns = \"{}\"", host.netns_name()));
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                client.write_all(&[0; 100]).unwrap();
                server.read_exact(&mut [0; 100]).unwrap();
            }
        });
        let begun = Instant::now();
        while !agent.process.stderr().contains("max_cost 1%: ") && begun.elapsed() < PATIENCE {
            agent.scrape();
        }
        // A look before the line may not show what it is about.
        let held = agent.scrape();
        stop.store(true, Ordering::Relaxed);
        let said = agent.process.stderr();
        // Lower rates, windows, or both: what costs most here is chosen.
        let lowered = said.contains("messages per second, flow and direction are measured");
        let in_windows = said.contains(", in windows of 1/");
        assert!(lowered || in_windows, "{said}");
        let cap = held.sum("sockstamp_rate_cap", &[]);
        let one_of = held.sum("sockstamp_windows_one_of", &[]);
        assert!(cap < 100.0 || one_of > 1.0, "{cap} {one_of}: {said}");
        assert_eq!(said.matches("max_cost 1%: ").count(), 1, "{said}");
    });
}

/// Return the memory of a process that no file has: a host short of memory drops pages of programs,
/// and reads them again.
fn anonymous_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kilobytes * 1024
}

/// Ten times as many connections as there is memory for.
#[test]
fn the_memory_is_held_under_a_flood_of_connections_and_said() {
    const CONNECTIONS: usize = 2000;
    /// In bytes. A megabyte has room for some hundred flows, and each could take kilobytes.
    const SLACK: u64 = 2_000_000;
    let host = Host::new("flood").unwrap();
    let agent = Agent::of(&host, "max_memory = 1");
    talk(&host, 5, Duration::ZERO);
    let before = agent.scrape();
    let had = anonymous_bytes(agent.process.id());
    assert_eq!(before.sum("sockstamp_max_memory_bytes", &[]), 1_048_576.0);
    let listener = host.tcp_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let connections: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(&[0; 100]).unwrap();
            server.read_exact(&mut [0; 100]).unwrap();
            (client, server)
        })
        .collect();
    let after = agent.scrape();
    let left_out = after.sum("sockstamp_losses_total", &["reason=\"turned_away\""]);
    // Both ends of each.
    assert!(left_out > CONNECTIONS as f64, "{left_out}");
    let line = "beyond max_memory or max_flows, not measured: ";
    wait_for_line(&agent.process, line);
    let said = agent.process.stderr();
    assert_eq!(said.matches(line).count(), 1, "{said}");
    // A look at waits takes some kilobytes for each of 4000 sockets, until it is over.
    wait_until("the agent has no more memory than before", || {
        let has = anonymous_bytes(agent.process.id());
        println!("{has} bytes, and {had} before");
        has < had + SLACK
    });
    // The agent goes on with those that have room.
    drop(connections);
    let counted = agent.scrape().sum("sockstamp_messages_total", &[]);
    talk(&host, 5, Duration::ZERO);
    agent.scrape_until(|scrape| scrape.sum("sockstamp_messages_total", &[]) >= counted + 20.0);
}

#[test]
fn an_address_in_use_ends_it_before_anything_is_loaded() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = Command::new(sockstamp())
        .args(["agent", "--listen", &address])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.starts_with(&format!("sockstamp: cannot listen on {address}: ")),
        "{errors}"
    );
}

#[test]
fn a_service_manager_is_notified_of_the_start_and_then_regularly() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Command::new(sockstamp());
    command
        .args(["agent", "--listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "600000");
    let _agent = Process::spawn(command).unwrap();
    let hear = || {
        let mut word = [0; 64];
        let length = manager.recv(&mut word).unwrap();
        String::from_utf8_lossy(&word[..length])
            .trim_end()
            .to_owned()
    };
    assert_eq!(hear(), "READY=1");
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1");
    }
}

/// Scrapes in quick succession share a reading of the counters.
#[test]
fn a_thousand_scrapes_share_a_few_readings() {
    let host = Host::new("agent").unwrap();
    let agent = Agent::of(&host, "");
    talk(&host, 5, Duration::ZERO);
    let looks = || agent.scrape().sum("sockstamp_looks_total", &[]);
    let begun = Instant::now();
    let before = looks();
    for _ in 0..1000 {
        agent.get("/metrics");
    }
    let looks = looks() - before;
    let most = begun.elapsed().as_secs_f64() * 5.0 + 2.0;
    assert!(looks <= most, "{looks} looks, at most {most}");
}

/// As of a log shipper that is stopped.
#[test]
fn a_log_that_nobody_reads_stops_neither_figures_nor_the_end() {
    let host = Host::new("agent").unwrap();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("agent.toml");
    let settings = format!("[target]\nnetns = \"{}\"", host.netns_name());
    fs::write(&file, settings).unwrap();
    let (log, written) = pipe().unwrap();
    let mut agent = Command::new(sockstamp())
        .args(["agent", "--listen", "127.0.0.1:0", "--config"])
        .arg(&file)
        .stderr(written.try_clone().unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(log).lines().map(Result::unwrap);
    let address =
        lines.find_map(|line| Some(line.split_once("listening on http://")?.1.to_owned()));
    let address = address.unwrap().parse().unwrap();
    fill(written);
    let pid = Pid::from_raw(i32::try_from(agent.id()).unwrap());
    kill(pid, Signal::SIGHUP).unwrap();
    let begin = Instant::now();
    let lost = || {
        let (_, text) = exchange(address, "/metrics", "");
        let lost = text
            .lines()
            .find_map(|line| line.strip_prefix("sockstamp_lost_log_lines_total "));
        lost.unwrap().parse::<f64>().unwrap()
    };
    while lost() < 1.0 && begin.elapsed() < PATIENCE {
        thread::sleep(SHARED);
    }
    let lost = lost();
    kill(pid, Signal::SIGTERM).unwrap();
    let begin = Instant::now();
    let status = loop {
        let status = agent.try_wait().unwrap();
        if status.is_some() || begin.elapsed() >= PATIENCE {
            break status;
        }
        thread::sleep(Duration::from_millis(10));
    };
    let _ = agent.kill();
    agent.wait().unwrap();
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    assert!(lost >= 1.0, "{lost}");
}

/// Leave no room in a pipe, for the descriptors that are duplicates of this one.
fn fill(pipe: PipeWriter) {
    let set = |flags| fcntl(&pipe, FcntlArg::F_SETFL(flags)).unwrap();
    set(OFlag::O_NONBLOCK);
    while (&pipe).write(b"x").is_ok() {}
    set(OFlag::empty());
}
