//! Options that are spelled alike everywhere, on real traffic.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::tempdir;
use testbed::{Host, PATIENCE, Process, within_attempts};
use with::{Stat, wait_attached, wait_until};

/// Run it to its end; it must succeed.
fn sockstamp(arguments: &[&str]) -> Output {
    let output = Command::new(with::sockstamp()).args(arguments).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    output
}

fn stdout(arguments: &[&str]) -> String {
    String::from_utf8(sockstamp(arguments).stdout).unwrap()
}

/// Exchange this many questions and answers over one connection.
fn talk(listener: &TcpListener, mut socket: TcpStream, rounds: usize) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut accepted, _) = listener.accept().unwrap();
            let mut byte = [0];
            while accepted.read(&mut byte).unwrap() > 0 {
                accepted.write_all(&byte).unwrap();
            }
        });
        for _ in 0..rounds {
            socket.write_all(b"?").unwrap();
            socket.read_exact(&mut [0]).unwrap();
        }
        drop(socket);
    });
}

fn talk_in(host: &Host, rounds: usize) {
    let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let socket = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    host.enter(|| talk(&listener, socket, rounds));
}

#[test]
fn several_namespaces_are_one_target() {
    let hosts = ["spelled-a", "spelled-b", "spelled-c"].map(|name| Host::new(name).unwrap());
    let [a, b, _] = &hosts;
    let both = format!("{},{}", a.netns_name(), b.netns_name());
    let stat = Stat::start(&["--netns", &both, "tcp"]);
    for (host, rounds) in hosts.iter().zip([10, 20, 40]) {
        talk_in(host, rounds);
    }
    let report = stat.finish();
    // A question and an answer are two sends.
    assert_eq!(report["tx"]["messages"], 60, "{report}");
    assert_eq!(report["rx"]["messages"], 60);
}

/// A command that sends and reads twenty messages.
const COMMAND: &str = "import socket\n\
    a = socket.create_server(('127.0.0.1', 0))\n\
    b = socket.create_connection(a.getsockname())\n\
    c = a.accept()[0]\n\
    for _ in range(10):\n b.send(b'?'); c.recv(9); c.send(b'!'); b.recv(9)";

#[test]
fn repetitions_have_the_mean_of_their_figures() {
    let repeat = ["stat", "--every", "--repeat", "3"];
    let command = ["--", "python3", "-c", COMMAND];
    let json = [&repeat[..], &["--format", "json"], &command].concat();
    // Standard output is the command's.
    let told = String::from_utf8(sockstamp(&json).stderr).unwrap();
    let means: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!(means["runs"], 3);
    let twenty = serde_json::json!({"mean": 20.0, "error": 0.0});
    assert_eq!(means["messages"]["tx"], twenty);
    assert_eq!(means["figures"]["rx.total"]["count"], twenty);
    assert!(means["figures"]["tx.sent"]["p50_ns"]["mean"].as_f64() > Some(0.0));
    let text = sockstamp(&[&repeat[..], &command].concat()).stderr;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("3 runs, mean ± standard error"), "{text}");
    assert!(text.contains(" tx          20 ± 0.0% messages\n"), "{text}");
}

#[test]
fn tables_of_intervals_add_up_to_the_whole() {
    let host = Host::new("spelled-interval").unwrap();
    let mut command = Command::new(with::sockstamp());
    command.args(["stat", "--every", "--max-cost=none", "--format", "json"]);
    command.args(["--interval", "200ms", "--netns"]);
    let mut stat = Process::spawn({
        command.arg(host.netns_name());
        command
    })
    .unwrap();
    wait_attached(&mut stat);
    for _ in 0..5 {
        talk_in(&host, 10);
        // The first may have begun before.
        let printed = stat.stdout().lines().count();
        wait_until("two intervals have ended", || {
            stat.stdout().lines().count() >= printed + 2
        });
    }
    stat.signal(Signal::SIGINT).unwrap();
    let printed = stat.wait(PATIENCE).unwrap();
    let lines: Vec<Value> = (printed.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (whole, intervals) = lines.split_last().unwrap();
    assert!(intervals.len() >= 5, "{printed}");
    let count = |summary: &Value| summary["tx"]["messages"].as_u64().unwrap();
    let sum: u64 = intervals.iter().map(|one| count(&one["interval"])).sum();
    assert_eq!((sum, count(whole)), (100, 100), "{printed}");
    assert!(intervals.iter().all(|one| count(&one["interval"]) < 100));
}

/// timeout(1) sends a signal to its child, and one to the child's group.
#[test]
fn a_signal_that_comes_twice_loses_nothing_that_was_measured() {
    let host = Host::new("spelled-twice").unwrap();
    for between in [200, 5_000, 20_000].map(Duration::from_micros) {
        within_attempts(|| signal_twice(&host, between));
    }
}

/// Fail if this machine stood still between the signals for so long that they are two wishes.
fn signal_twice(host: &Host, between: Duration) -> Result<(), String> {
    let mut command = Command::new(with::sockstamp());
    command.args(["stat", "--every", "--max-cost=none", "--format", "json"]);
    command.args(["--netns", host.netns_name()]);
    let mut stat = Process::spawn(command).unwrap();
    wait_attached(&mut stat);
    talk_in(host, 10);
    let first = Instant::now();
    stat.signal(Signal::SIGINT).unwrap();
    thread::sleep(between);
    stat.signal(Signal::SIGINT).unwrap();
    let passed = first.elapsed();
    let printed = stat.wait(PATIENCE).unwrap();
    if passed > Duration::from_millis(250) {
        return Err(format!("{passed:?} between the signals"));
    }
    let summary: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(summary["tx"]["messages"], 20, "{printed}");
    Ok(())
}

/// Ctrl-C is the command's. One that ignores it is left alone by the second, and what was measured
/// is printed.
#[test]
fn a_command_that_ignores_ctrl_c_does_not_keep_the_measurement() {
    let directory = tempdir().unwrap();
    let output = directory.path().join("stat.json");
    let mut command = Command::new(with::sockstamp());
    command.args([
        "stat",
        "--every",
        "--max-cost=none",
        "--format",
        "json",
        "-o",
    ]);
    command.arg(&output).args(["--", "sh", "-c"]);
    let script =
        format!("trap '' INT; python3 -c \"{COMMAND}\"; echo $$; exec sleep 600 > /dev/null 2>&1");
    command.arg(script);
    let mut stat = Process::spawn(command).unwrap();
    stat.wait_for_stdout("\n", PATIENCE).unwrap();
    stat.signal(Signal::SIGINT).unwrap();
    // Signals that it handles close to each other are one wish to end.
    stat.wait_for_stderr("another one ends the measurement", PATIENCE)
        .unwrap();
    thread::sleep(Duration::from_millis(700));
    assert!(stat.is_running().unwrap());
    stat.signal(Signal::SIGINT).unwrap();
    let status = stat.wait_status(PATIENCE).unwrap();
    let (pid, told) = (stat.stdout(), stat.stderr());
    // The command goes on.
    let killed = Command::new("kill").args(["-KILL", pid.trim()]).status();
    assert!(killed.unwrap().success());
    let told: Vec<_> = told.lines().collect();
    let expected = [
        "sockstamp: the command ignores Ctrl-C; another one ends the measurement, and leaves the command",
        &format!("sockstamp: the command goes on: process {}", pid.trim()),
    ];
    assert_eq!(told, expected);
    assert_eq!(status.code(), Some(0));
    let summary: Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
    assert_eq!(summary["tx"]["messages"], 20, "{summary}");
}

/// Record ten questions that are answered, and one that is not.
fn record(path: &Path) -> SocketAddr {
    let host = Host::new("spelled-read").unwrap();
    let mut command = Command::new(with::sockstamp());
    command.args(["record", "--every", "--max-cost=none", "-o"]);
    command.arg(path).args(["--netns", host.netns_name()]);
    let mut process = Process::spawn(command).unwrap();
    wait_attached(&mut process);
    talk_in(&host, 10);
    let listener = host.tcp_listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let silent = listener.local_addr().unwrap();
    let mut socket = host.tcp_connect(silent).unwrap();
    let _accepted = listener.accept().unwrap();
    socket.write_all(b"?").unwrap();
    let patience = Some(Duration::from_millis(300));
    socket.set_read_timeout(patience).unwrap();
    socket.read_exact(&mut [0]).unwrap_err();
    drop(socket);
    process.signal(Signal::SIGINT).unwrap();
    process.wait(PATIENCE).unwrap();
    silent
}

#[test]
fn what_reads_recordings_takes_a_tree_and_the_same_conditions() {
    let directory = tempdir().unwrap();
    let silent = record(&directory.path().join("tree/")).port().to_string();
    let tree = directory.path().join("tree");
    let tree = tree.to_str().unwrap();
    let lines = |words: &[&str]| stdout(&[&["trace", "-r", tree], words].concat());
    let all = lines(&[]);
    // Forty-one messages, two connects and two accepts.
    assert_eq!(all.lines().count(), 41 + 4, "{all}");
    let times: Vec<_> = all.lines().map(|line| &line[..15]).collect();
    assert!(times.is_sorted(), "{all}");
    assert_eq!(lines(&["-c", "3"]).lines().count(), 3);
    let of_silent = lines(&["port", &silent]);
    assert!(
        of_silent.lines().count() < 5 && of_silent.contains(&silent),
        "{of_silent}"
    );
    assert_outside(tree);
    let pid = std::process::id().to_string();
    assert_eq!(lines(&["-p", &pid]), all);
    let coloured = lines(&["--color", "always", "--slow", "1us"]);
    assert!(coloured.starts_with("\x1b[1m"), "{coloured}");

    let waited = stdout(&["stuck", "-r", tree, "--slow", "100ms"]);
    let answer = format!("waits for an answer of 127.0.0.1:{silent}");
    let wait = waited.lines().find(|line| line.contains(&answer));
    assert!(
        wait.is_some_and(|wait| wait.contains("; given up, 20")),
        "{waited}"
    );
    assert!(
        waited.ends_with(" of 100 ms or longer got no data\n"),
        "{waited}"
    );
    let json = stdout(&["stuck", "-r", tree, "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let waits = json["waits"].as_array().unwrap();
    let wait = waits.iter().find(|wait| wait["kind"] == "answer").unwrap();
    assert_eq!(wait["end"], "given-up");
    assert!(wait["lasted_ns"].as_u64() >= Some(300_000_000));

    assert_eq!(stdout(&["recover", tree]).lines().count(), 2);
    let trace = sockstamp(&["export", "--perfetto", "-o", "-", tree]).stdout;
    assert!(trace.len() > 1000);
}

/// Times in which nothing was recorded are refused, with those of the recording.
fn assert_outside(tree: &str) {
    for (span, told) in [
        (
            &["--to", "2000-01-01"] as &[&str],
            "nothing was recorded then",
        ),
        (
            &["--from", "now", "--to", "-5m"],
            "--to is not after --from",
        ),
    ] {
        let mut command = Command::new(with::sockstamp());
        let output = command.args(["trace", "-r", tree]).args(span).output();
        let output = output.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{span:?}: {stderr}");
        let (begin, times) = stderr.split_once(": the recording has ").unwrap();
        assert!(begin.ends_with(told), "{stderr}");
        let times = times.trim_end().trim_end_matches(" UTC");
        let (from, to) = times.split_once(" to ").unwrap();
        let all = stdout(&["trace", "-r", tree, "--from", from, "--to", to]);
        assert_eq!(all, stdout(&["trace", "-r", tree]));
    }
}

/// A file has what would be printed, and - is standard output.
#[test]
fn what_prints_writes_to_a_file_by_the_same_option() {
    let directory = tempdir().unwrap();
    let recording = directory.path().join("a.parquet");
    record(&recording);
    let recording = recording.to_str().unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    for words in [
        &["stat", "--duration", "10ms"] as &[&str],
        &["explain", "-r", recording],
        &["explain", "--duration", "10ms"],
        &["diff", recording, recording],
        &["stuck", "-r", recording],
        &["stuck", "--slow", "1h"],
        &["trace", "-r", recording],
        &["report", recording],
        &["ping", "-c", "1", "::1"],
        &["ping", "--path", "-c", "1", "::1"],
        &["doctor"],
    ] {
        for (format, file) in [("text", &one), ("json", &other)] {
            let place = ["--format", format, "-o", file.to_str().unwrap()];
            assert_eq!(stdout(&[words, &place].concat()), "", "{words:?}");
            let written = fs::read_to_string(file).unwrap();
            assert!(written.ends_with('\n'), "{words:?}: {written}");
            let parsed = written.lines().map(serde_json::from_str::<Value>);
            let is_json = parsed.into_iter().all(|line| line.is_ok());
            assert_eq!(is_json, format == "json", "{words:?}: {written}");
            let place = ["--format", format, "-o", "-"];
            let printed = stdout(&[words, &place].concat());
            assert!(printed.ends_with('\n'), "{words:?}: {printed}");
            fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn a_file_that_is_read_is_not_written_over() {
    let directory = tempdir().unwrap();
    let (recording, list) = (
        directory.path().join("a.parquet"),
        directory.path().join("list"),
    );
    record(&recording);
    fs::write(&list, "127.0.0.1\n").unwrap();
    let files = [&recording, &list];
    let before = files.map(|file| fs::read(file).unwrap());
    let [path, list] = files.map(|file| file.to_str().unwrap());
    for words in [
        ["explain", "-r", path, "-o", path],
        ["stuck", "-r", path, "-o", path],
        ["trace", "-r", path, "-o", path],
        ["diff", path, path, "-o", path],
        ["ping", "--targets", list, "-o", list],
    ] {
        let output = Command::new(with::sockstamp()).args(words).output();
        let told = String::from_utf8(output.unwrap().stderr).unwrap();
        assert!(told.contains("write to another file"), "{words:?}: {told}");
    }
    assert_eq!(files.map(|file| fs::read(file).unwrap()), before);
}

/// A service that sleeps for 30 ms before each of twenty answers.
const LATE: &str = "import socket, threading, time\n\
    a = socket.create_server(('127.0.0.1', 0))\n\
    b = socket.create_connection(a.getsockname())\n\
    c = a.accept()[0]\n\
    def serve():\n while c.recv(9): time.sleep(.03); c.send(b'!')\n\
    server = threading.Thread(target=serve); server.start()\n\
    for _ in range(20):\n b.send(b'?'); b.recv(9)\n\
    b.close(); server.join()";

/// The findings of recordings keep to the limit that is named.
#[test]
fn what_reads_recordings_calls_slow_what_is_named() {
    let directory = tempdir().unwrap();
    let recording = directory.path().join("a.parquet");
    let path = recording.to_str().unwrap();
    let every = ["record", "--every", "--max-cost=none", "-o", path];
    sockstamp(&[&every[..], &["--", "python3", "-c", LATE]].concat());
    for words in [&["report", path] as &[&str], &["explain", "-r", path]] {
        let findings = |slow: &str| {
            let json = stdout(&[words, &["--slow", slow, "--format", "json"]].concat());
            let json: Value = serde_json::from_str(&json).unwrap();
            let diagnosis = &json["diagnosis"];
            let found = !diagnosis["findings"].as_array().unwrap().is_empty();
            (diagnosis["slow_ns"].as_u64().unwrap(), found)
        };
        assert_eq!(findings("5ms"), (5_000_000, true), "{words:?}");
        assert_eq!(findings("1h"), (3_600_000_000_000, false), "{words:?}");
    }
}
