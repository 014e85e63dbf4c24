//! Test the ends of a measurement, which leave nothing behind.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sockstamp_bpf::probe;
use tempfile::NamedTempFile;
use testbed::{Host, PATIENCE, Process, within_attempts};
use with::bpf_objects::{bpf_objects, wait_unloaded};
use with::traced_hosts::{Connection, trace_into, wait_acknowledged};
use with::{Stat, end, messages, number, plan, report, skip, sockstamp, start, wait_until};

/// The directory of a process's cgroup in the version 2 hierarchy.
fn cgroup_of(pid: u32) -> PathBuf {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let path = text
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .unwrap();
    probe::facts().cgroup2.unwrap().join(path)
}

/// A process that is not ours to wait for. Killed on drop.
struct Stray(u32);

impl Stray {
    /// Its id is the first line that a command printed.
    fn of(output: &str) -> Stray {
        Stray(output.lines().next().unwrap().parse().unwrap())
    }

    fn is_alive(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    }
}

impl Drop for Stray {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0).unwrap());
        // The process may have ended already.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

#[test]
fn a_measurement_of_nothing_sleeps() {
    const LOOK: Duration = Duration::from_secs(4);
    let host = Host::new("idle").unwrap();
    let processes =
        ["stat", "trace"].map(|subcommand| start(&[subcommand, "--netns", host.netns_name()]));
    let woken = |process: &Process| activity(process).0;
    // The first look is at once.
    thread::sleep(Duration::from_secs(1));
    within_attempts(|| {
        let before = processes.each_ref().map(woken);
        thread::sleep(LOOK);
        let of_both = processes.iter().map(woken).zip(before);
        let most = of_both.map(|(now, before)| now - before).max().unwrap();
        match most <= 2 * LOOK.as_secs() {
            true => Ok(()),
            false => Err(format!(
                "the busier of stat and trace was woken {most} times"
            )),
        }
    });
    for process in processes {
        end(process);
    }
}

/// Prints its process id and stays.
const STAYS: &[&str] = &["sh", "-c", "echo $$; exec sleep 60"];

#[test]
fn a_killed_stat_leaves_no_program() {
    for subcommand in ["stat", "trace"] {
        let mut process = start(&[subcommand]);
        let objects = bpf_objects(&process);
        process.kill().unwrap();
        wait_unloaded(&objects);
    }
}

#[test]
fn a_killed_stat_leaves_the_command_alone_and_no_cgroup() {
    let mut process = start(&[&["stat", "--"], STAYS].concat());
    process.wait_for_stdout("\n", PATIENCE).unwrap();
    let command = Stray::of(&process.stdout());
    let cgroup = cgroup_of(command.0);
    assert_ne!(cgroup, cgroup_of(std::process::id()));
    let objects = bpf_objects(&process);
    process.kill().unwrap();

    wait_unloaded(&objects);
    wait_until("the cgroup is gone", || !cgroup.exists());
    assert!(command.is_alive());
    assert_eq!(cgroup_of(command.0), cgroup_of(std::process::id()));
}

#[test]
fn a_daemon_that_the_command_leaves_behind_lives_on() {
    let words = ["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"];
    let output = run("stat", &words, "");
    assert!(output.status.success());
    let daemon = Stray::of(&String::from_utf8(output.stdout).unwrap());
    assert!(daemon.is_alive());
    assert_eq!(cgroup_of(daemon.0), cgroup_of(std::process::id()));
}

/// Return the times that a process was woken, and its CPU time.
fn activity(process: &Process) -> (u64, Duration) {
    let read = |file| fs::read_to_string(format!("/proc/{}/{file}", process.id())).unwrap();
    let status = read("status");
    let woken = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let time = read("schedstat")
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    (
        woken.unwrap().trim().parse().unwrap(),
        Duration::from_nanos(time),
    )
}

/// By default stat keeps its cost below a ceiling, and samples it now and then.
#[test]
fn an_idle_stat_sleeps() {
    const TIME: Duration = Duration::from_secs(6);
    /// Once per second, and twice for a sample every two seconds, if others keep the host busy.
    const WAKINGS: u64 = 18;
    const CPU: Duration = Duration::from_millis(6);
    let host = Host::new("idle").unwrap();
    let process = start(&["stat", "--netns", host.netns_name(), "--format", "json"]);
    // The first look is at once.
    thread::sleep(Duration::from_secs(1));
    within_attempts(|| {
        let before = activity(&process);
        thread::sleep(TIME);
        let after = activity(&process);
        let (woken, time) = (after.0 - before.0, after.1 - before.1);
        println!("{woken} times, {time:?}");
        match woken <= WAKINGS && time <= CPU {
            true => Ok(()),
            false => Err(format!("woken {woken} times, for {time:?}")),
        }
    });
}

#[test]
fn a_signal_ends_the_measurement_with_its_report() {
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        let mut process = start(&["stat", "--format", "json"]);
        let objects = bpf_objects(&process);
        process.signal(signal).unwrap();
        let status = process.wait_status(PATIENCE).unwrap();
        assert_eq!(status.code(), Some(0), "{signal}: {}", process.stderr());
        let report: Value = serde_json::from_str(&process.stdout()).unwrap();
        assert_eq!(number(&report["version"]), 1);
        wait_unloaded(&objects);
    }
}

#[test]
fn a_duration_ends_the_measurement() {
    let output = Command::new(sockstamp())
        .args(["stat", "--format", "json", "--duration", "300ms"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let measured = Duration::from_nanos(number(&report["duration_ns"]));
    assert!(measured >= Duration::from_millis(300), "{measured:?}");
}

/// The kernel refuses a link, and an iterator, to a process that may have no more descriptors.
fn limit_descriptors(process: &Process, descriptors: &str) {
    let pid = process.id().to_string();
    let descriptors = format!("--nofile={descriptors}");
    let status = Command::new("prlimit")
        .args(["--pid", &pid, &descriptors])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn marks_that_stay_on_sockets_are_reported() {
    let name = "marks_that_stay_on_sockets_are_reported";
    if !plan().uses_bit() {
        return skip(name, "no bits on sockets on this kernel");
    }
    let host = Host::new("marked").unwrap();
    let process = start(&["stat", "--format", "json", "--netns", host.netns_name()]);
    limit_descriptors(&process, "3:");
    let process = end(process);
    let said = process.stderr();
    let expected = "sockets stay marked until they are closed: cannot take the marks off sockets";
    assert_eq!(said.matches(expected).count(), 1, "{said}");
    let report: Value = serde_json::from_str(&process.stdout()).unwrap();
    assert_eq!(number(&report["version"]), 1);
}

#[test]
fn a_window_whose_programs_the_kernel_refuses_is_reported_and_counted() {
    let name = "a_window_whose_programs_the_kernel_refuses_is_reported_and_counted";
    if !plan().has_windows() {
        return skip(name, "no windows on this kernel");
    }
    let host = Host::new("refused").unwrap();
    let options = [
        "stat",
        "--expert=windows=1/4",
        "--format",
        "json",
        "--netns",
        host.netns_name(),
    ];
    let process = start(&options);
    limit_descriptors(&process, "8:");
    wait_until("it is said", || process.stderr().contains("left out"));
    limit_descriptors(&process, "1024:");
    let process = end(process);
    let said = process.stderr();
    assert_eq!(
        said.matches("a measuring window is left out").count(),
        1,
        "{said}"
    );
    let report: Value = serde_json::from_str(&process.stdout()).unwrap();
    assert!(
        number(&report["windows"]["failed"]) > 0,
        "{}",
        report["windows"]
    );
}

/// With a command, a signal is for the command.
#[test]
fn a_signal_is_passed_to_the_command() {
    const TRAPS: &str = "trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep 0.02; done";
    let output = NamedTempFile::new().unwrap();
    let path = output.path().to_str().unwrap();
    let mut process = start(&[
        "stat", "--format", "json", "-o", path, "--", "sh", "-c", TRAPS,
    ]);
    process.wait_for_stdout("ready\n", PATIENCE).unwrap();
    process.signal(Signal::SIGTERM).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    assert_eq!(status.code(), Some(7));
    assert_eq!(process.stdout(), "ready\ngot it\n");
    assert_eq!(number(&report(output.path())["version"]), 1);
}

/// Run a command under a measurement whose own output goes elsewhere.
fn run(subcommand: &str, words: &[&str], input: &str) -> Output {
    let mut child = Command::new(sockstamp())
        .args([subcommand, "-o", "/dev/null", "--"])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn the_exit_status_is_the_commands() {
    for subcommand in ["stat", "trace"] {
        for (command, status) in [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 128 + 15)] {
            let output = run(subcommand, &["sh", "-c", command], "");
            assert_eq!(
                output.status.code(),
                Some(status),
                "{subcommand}: {command}"
            );
        }
    }
}

#[test]
fn input_and_output_are_the_commands() {
    let words = ["sh", "-c", "cat; echo complaint >&2; echo result"];
    for subcommand in ["stat", "trace"] {
        let output = run(subcommand, &words, "some input\n");
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "some input\nresult\n"
        );
        let stderr = String::from_utf8(output.stderr).unwrap();
        let told = stderr.strip_prefix("complaint\n").unwrap();
        // A trace without a message has its reason there.
        match subcommand {
            "trace" => assert!(
                told.starts_with("sockstamp: no message in ")
                    && told
                        .ends_with(": sh sent and read nothing over TCP or UDP that is measured\n"),
                "{stderr}"
            ),
            _ => assert_eq!(told, ""),
        }
    }
}

/// Exchange this many requests and answers of one byte: four messages each.
fn ping_pong(connection: &mut Connection, times: usize) {
    for _ in 0..times {
        connection.client.write_all(&[0]).unwrap();
        connection.server.read_exact(&mut [0]).unwrap();
        connection.server.write_all(&[0]).unwrap();
        connection.client.read_exact(&mut [0]).unwrap();
    }
    wait_acknowledged(&connection.client);
    wait_acknowledged(&connection.server);
}

/// Close the pipe, as in `sockstamp trace | head -1`.
#[test]
fn a_reader_that_has_seen_enough_ends_trace_quietly() {
    let host = Host::new("corner").unwrap();
    let mut trace = Command::new(sockstamp())
        .args(["trace", "--netns", host.netns_name()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(trace.stdout.take().unwrap());
    let line = thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            line
        });
        // Connections before the measurement are not seen.
        while !reader.is_finished() {
            ping_pong(
                &mut Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into()),
                1,
            );
        }
        reader.join().unwrap()
    });
    assert!(line.contains("127.0.0.1"), "{line}");
    while trace.try_wait().unwrap().is_none() {
        ping_pong(
            &mut Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into()),
            1,
        );
    }
    let output = trace.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

/// The ring buffer is not read while `trace` is stopped.
#[test]
fn messages_that_found_no_room_are_counted() {
    /// Four records each, which is more than the 8 MB of the ring buffer hold.
    const TIMES: usize = 20_000;
    let host = Host::new("corner").unwrap();
    let output = NamedTempFile::new().unwrap();
    let mut trace = trace_into(output.path(), &host);
    trace.signal(Signal::SIGSTOP).unwrap();
    ping_pong(
        &mut Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into()),
        TIMES,
    );
    trace.signal(Signal::SIGCONT).unwrap();
    trace.signal(Signal::SIGINT).unwrap();
    let status = trace.wait_status(PATIENCE).unwrap();
    assert_eq!(status.code(), Some(0));

    let shown = messages(output.path()).len();
    let stderr = trace.stderr();
    let lost = stderr
        .strip_prefix("sockstamp: ")
        .and_then(|text| text.split(' ').next());
    let lost: usize = lost
        .unwrap_or_default()
        .parse()
        .unwrap_or_else(|_| panic!("{stderr}"));
    assert!(lost > 0);
    assert_eq!(shown + lost, 4 * TIMES, "{stderr}");
}

#[test]
fn a_namespace_may_vanish_meanwhile() {
    let host = Host::new("corner").unwrap();
    let stat = Stat::start(&["--netns", host.netns_name()]);
    let mut connection = Connection::new(&host, &host, Ipv4Addr::LOCALHOST.into());
    ping_pong(&mut connection, 1);
    drop(connection);
    drop(host);

    let report = stat.finish();
    assert_eq!(number(&report["tx"]["messages"]), 2, "{report}");
    assert_eq!(number(&report["rx"]["messages"]), 2, "{report}");
}
