//! Test hosts, their programs, cgroups, and leftovers of a crash.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use testbed::{
    Cgroup, Error, Family, Host, Link, LinkConfig, PATIENCE, Process, clean_up_leftovers,
    peer_program, within_attempts,
};

fn netns_inode_of(pid: u32) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}/ns/net")).unwrap().ino()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn programs_and_threads_run_inside_the_namespace() {
    let host = Host::new("host").unwrap();
    let own = netns_inode_of(std::process::id());
    assert_ne!(host.netns_inode(), own);

    let sleep = host.spawn("sleep", &["60"]).unwrap();
    assert_eq!(netns_inode_of(sleep.id()), host.netns_inode());
    let name = fs::read_to_string(format!("/proc/{}/comm", sleep.id())).unwrap();
    assert_eq!(name, "sleep\n");

    let inside = host.enter(|| fs::read_link("/proc/thread-self/ns/net").unwrap());
    assert_eq!(inside, Path::new(&format!("net:[{}]", host.netns_inode())));
    assert_eq!(netns_inode_of(std::process::id()), own);

    let by_name = Command::new("ip")
        .args(["netns", "exec", host.netns_name(), "true"])
        .status()
        .unwrap();
    assert!(by_name.success());
}

#[test]
fn failures_name_the_failed_action() {
    let host = Host::new("host").unwrap();
    let error = host
        .run("sh", &["-c", "echo reason >&2; exit 3"])
        .unwrap_err();
    assert!(
        matches!(&error, Error::Command { status, .. } if status.code() == Some(3)),
        "{error:?}"
    );
    assert!(error.to_string().ends_with("reason"), "{error}");

    let error = host.run("no-such-program", &[]).unwrap_err();
    assert!(
        matches!(&error, Error::System { subject, .. } if subject == "no-such-program"),
        "{error:?}"
    );

    let error = host
        .wait_for_port("127.0.0.1:1".parse().unwrap(), Duration::from_millis(20))
        .unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
}

#[test]
fn the_output_of_a_running_program_can_be_read() {
    let host = Host::new("host").unwrap();
    let mut program = host
        .spawn("sh", &["-c", "echo one; echo two >&2; sleep 60"])
        .unwrap();
    program.wait_for_stdout("one", PATIENCE).unwrap();
    eventually("two", || program.stderr() == "two\n");
    assert!(program.is_running().unwrap());
    program.signal(Signal::SIGTERM).unwrap();
    assert!(!program.wait_status(PATIENCE).unwrap().success());

    let mut short = host.spawn("echo", &["done"]).unwrap();
    assert!(matches!(
        short.wait_for_stdout("more", PATIENCE),
        Err(Error::Command { .. })
    ));
    assert_eq!(short.wait(PATIENCE).unwrap(), "done\n");
}

#[test]
fn a_dropped_host_takes_its_processes_along() {
    let host = Host::new("host").unwrap();
    let name = host.netns_name().to_owned();
    // Its child outlives a process killed on drop, and is no child of this test.
    let mut parent = host
        .spawn("sh", &["-c", "sleep 60 & echo $!; wait"])
        .unwrap();
    parent.wait_for_stdout("\n", PATIENCE).unwrap();
    let child: u32 = parent.stdout().trim().parse().unwrap();
    drop(parent);
    assert_eq!(netns_inode_of(child), host.netns_inode());
    drop(host);
    assert!(!Path::new("/run/netns").join(name).exists());
    assert!(!is_running(child));
}

/// Return true if a process exists and is not a zombie that waits for its new parent.
fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit_once(')')
            .unwrap()
            .1
            .trim_start()
            .starts_with('Z')
    })
}

#[test]
fn a_process_survives_the_end_of_a_cgroup_that_it_joined() {
    let output = run_alone("join-a-cgroup-and-drop-it")
        .wait(PATIENCE)
        .unwrap();
    assert!(output.contains("survived"), "{output}");
}

/// Run in a separate process what would harm this one.
fn run_alone(what: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed-crash"));
    command.arg(what);
    Process::spawn(command).unwrap()
}

#[test]
fn a_name_without_a_namespace_is_removed() {
    // No process starts that long after boot.
    let path = format!("/run/netns/sst-1-{}-{}-half", u64::MAX, std::process::id());
    let path = Path::new(&path);
    drop(Host::new("directory").unwrap());
    fs::write(path, "").unwrap();
    clean_up_leftovers().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_link_may_outlive_its_hosts() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let links = [
        Link::veth(&a, &b).unwrap(),
        Link::relay(&a, &b, LinkConfig::default()).unwrap(),
    ];
    drop((a, b));
    drop(links);
}

#[test]
fn leftovers_of_a_killed_process_are_removed() {
    let mut leaver = run_alone("leave-things-behind");
    leaver.wait_for_stdout("ready\n", PATIENCE).unwrap();
    let stdout = leaver.stdout();
    let line = stdout
        .lines()
        .find_map(|line| line.split_once("left "))
        .unwrap()
        .1;
    let [netns, cgroup, inside, grouped] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let netns = Path::new("/run/netns").join(netns);
    let cgroup_name = Path::new(cgroup).file_name().unwrap();
    let pids: [u32; 2] = [inside.parse().unwrap(), grouped.parse().unwrap()];

    // No host is removed as long as its creator lives.
    clean_up_leftovers().unwrap();
    assert!(netns.exists() && Path::new(cgroup).exists());
    assert!(pids.iter().all(|&pid| is_running(pid)));

    // From now on any other process that uses the crate may do the clean-up.
    leaver.kill().unwrap();
    clean_up_leftovers().unwrap();
    assert!(!netns.exists() && !Path::new(cgroup).exists());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    for mount in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        assert!(!Path::new(mount).join(cgroup_name).exists(), "{mount}");
    }
    for pid in pids {
        eventually("the end of a process", || !is_running(pid));
    }
}

#[test]
fn a_cgroup_holds_processes_and_takes_them_along() {
    let cgroup = Cgroup::new("group").unwrap();
    let membership = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        text.lines()
            .find_map(|line| line.strip_prefix("0::").map(str::to_owned))
            .unwrap()
    };
    let name = cgroup
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();

    let mut command = Command::new("sleep");
    command.arg("60");
    cgroup.start_in(&mut command).unwrap();
    let started = Process::spawn(command).unwrap();
    assert!(membership(started.id()).ends_with(&name));

    let mut command = Command::new("sleep");
    command.arg("60");
    let added = Process::spawn(command).unwrap();
    assert!(!membership(added.id()).ends_with(&name));
    cgroup.add(added.id()).unwrap();
    assert!(membership(added.id()).ends_with(&name));

    let mut members = cgroup.processes();
    members.sort_unstable();
    let mut expected = [started.id(), added.id()];
    expected.sort_unstable();
    assert_eq!(members, expected);

    let path = cgroup.path().to_owned();
    drop(cgroup);
    assert!(!path.exists());
    assert!(!is_running(started.id()) && !is_running(added.id()));
}

#[test]
fn a_cpu_quota_is_enforced() {
    const WINDOW: Duration = Duration::from_secs(1);
    let mut cgroup = Cgroup::new("quota").unwrap();
    cgroup
        .set_cpu_quota(Duration::from_millis(10), Duration::from_millis(100))
        .unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    cgroup.start_in(&mut command).unwrap();
    let hog = Process::spawn(command).unwrap();
    // CPU time in ns, the first field: Documentation/scheduler/sched-stats.rst
    let cpu_time = || {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", hog.id())).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    };
    within_attempts(|| {
        let (before, start) = (cpu_time(), Instant::now());
        thread::sleep(WINDOW);
        let (used, elapsed) = (cpu_time() - before, start.elapsed());
        // Expect a tenth, and what may be left over from the period before.
        match used < elapsed / 10 + Duration::from_millis(40) {
            true => Ok(()),
            false => Err(format!("{used:?} in {elapsed:?}")),
        }
    });
}

#[test]
fn the_peer_answers_after_its_think_time() {
    const THINK: Duration = Duration::from_millis(20);
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let peer = peer_program().unwrap();
    for protocol in ["tcp", "udp"] {
        let think = THINK.as_millis().to_string();
        let arguments = [
            "serve",
            "--port",
            "0",
            "--protocol",
            protocol,
            "--think",
            &think,
            "--response",
            "1000",
        ];
        let mut server = b.spawn(&peer, &arguments).unwrap();
        server.wait_for_stdout("\n", PATIENCE).unwrap();
        let port = server
            .stdout()
            .trim()
            .strip_prefix("listening on ")
            .unwrap()
            .parse()
            .unwrap();
        for family in [Family::V4, Family::V6] {
            let address = SocketAddr::new(link.address_b(family), port);
            if protocol == "tcp" {
                b.wait_for_port(address, PATIENCE).unwrap();
            }
            let address = address.to_string();
            let mut arguments = vec!["client", "--protocol", protocol, "--connect", &address];
            arguments.extend(["--count", "5", "--response", "1000"]);
            let result: serde_json::Value =
                serde_json::from_str(&a.run(&peer, &arguments).unwrap()).unwrap();
            let rtt = |name: &str| Duration::from_nanos(result[name].as_u64().unwrap());
            assert_eq!(result["count"], 5);
            assert_eq!(result["bytes"], 5 * (64 + 1000));
            assert!(rtt("rtt_min_ns") >= THINK, "{result}");
            assert!(
                rtt("rtt_p50_ns") >= rtt("rtt_min_ns") && rtt("rtt_p50_ns") <= rtt("rtt_p99_ns"),
                "{result}"
            );
        }
    }
}

/// Each takes the requested time: in pieces, computing, paced, and delayed by the kernel.
#[test]
fn requests_go_as_they_are_asked_to() {
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let link = Link::veth(&a, &b).unwrap();
    let peer = peer_program().unwrap();
    let _serve = b.spawn(&peer, &["serve", "--port", "7000"]).unwrap();
    let _busy = b
        .spawn(&peer, &["serve", "--port", "7001", "--compute", "20"])
        .unwrap();
    let _large = b
        .spawn(&peer, &["serve", "--port", "7002", "--request", "200000"])
        .unwrap();
    for (port, options, least) in [
        (7000, "--pieces 3 --hold 10", 20),
        (7000, "--pieces 2 --hold 10 --hold-back cork", 10),
        (
            7000,
            "--pieces 2 --hold 10 --hold-back more --nodelay false",
            10,
        ),
        (7001, "", 20),
        (7002, "--request 200000 --pacing 4000000", 20),
    ] {
        let address = SocketAddr::new(link.address_b(Family::V4), port);
        b.wait_for_port(address, PATIENCE).unwrap();
        let address = address.to_string();
        let client = ["client", "--connect", &address, "--count", "3"];
        let options: Vec<&str> = options.split_whitespace().collect();
        let text = a.run(&peer, &[&client[..], &options].concat()).unwrap();
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        let least_ns = least * 1_000_000;
        assert!(
            result["rtt_p50_ns"].as_u64().unwrap() >= least_ns,
            "{options:?}: {result}"
        );
    }
}

#[test]
fn a_blast_into_a_small_buffer_spends_its_time_in_send() {
    const SENDS: u64 = 50;
    const SIZE: u64 = 10_000;
    let (a, b) = (Host::new("a").unwrap(), Host::new("b").unwrap());
    let delay = Duration::from_millis(5);
    let link = Link::relay(&a, &b, LinkConfig::default().delay(delay)).unwrap();
    let peer = peer_program().unwrap();
    let mut sink = b
        .spawn(&peer, &["sink", "--port", "7000", "--rate-limit", "none"])
        .unwrap();
    sink.wait_for_stdout("listening on 7000\n", PATIENCE)
        .unwrap();
    let address = format!("{}:7000", link.address_b(Family::V4));
    let (sends, size) = (SENDS.to_string(), SIZE.to_string());
    let arguments = [
        "blast",
        "--connect",
        &address,
        "--sends",
        &sends,
        "--size",
        &size,
        "--sndbuf",
        "20000",
    ];
    within_attempts(|| {
        let result: serde_json::Value =
            serde_json::from_str(&a.run(&peer, &arguments).unwrap()).unwrap();
        let value = |name: &str| result[name].as_u64().unwrap();
        assert_eq!(value("sends"), SENDS);
        assert_eq!(value("bytes"), SENDS * SIZE);
        assert_eq!(value("bytes_acked"), SENDS * SIZE + 1);
        assert!(value("segs_out") >= SENDS * SIZE / 1500);
        // The kernel doubles the buffer for its bookkeeping, so at most 40 kB leave per round trip
        // of 10 ms; the last ones are not awaited in send.
        assert!(value("send_ns") > 50_000_000, "{result}");
        assert!(value("sndbuf_limited_us") > 0, "{result}");
        assert!(value("acked_ns") >= value("send_ns"), "{result}");
        // The link loses nothing: TCP probes where ACKs are late.
        match value("total_retrans") {
            0 => Ok(()),
            again => Err(format!("{again} segments were sent again")),
        }
    });
}

#[test]
fn the_peer_refuses_unknown_options() {
    let host = Host::new("host").unwrap();
    let peer = peer_program().unwrap();
    for arguments in [
        &["sink"][..],
        &["serve", "--port", "x"],
        &["sink", "--port", "1", "--speed", "1"],
        &["fly"],
    ] {
        assert!(
            matches!(host.run(&peer, arguments), Err(Error::Command { .. })),
            "{arguments:?}"
        );
    }
}
