//! Recordings of real traffic.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;
use sockstamp_model::flow::Opened;
use sockstamp_model::stage::Stage;
use sockstamp_record::{Batch, PacketReader, Reader, Writer};
use tempfile::{TempDir, tempdir};
use testbed::{Cgroup, PATIENCE, Process};
use with::{Stat, number, recording, wait_attached, wait_until};

/// Start `sockstamp record --every`; return when it measures.
fn record(output: &Path, options: &[&str], target: &[&str]) -> Process {
    let mut command = Command::new(with::sockstamp());
    command
        .args(["record", "--every", "--max-cost=none", "-o"])
        .arg(output);
    command.args(options).args(with::hooks()).args(target);
    let mut process = Process::spawn(command).unwrap();
    wait_attached(&mut process);
    process
}

/// End a recording as Ctrl-C does; return its standard error.
fn end(mut process: Process) -> String {
    process.signal(Signal::SIGINT).unwrap();
    let status = process.wait_status(PATIENCE).unwrap();
    let errors = process.stderr();
    assert!(status.success(), "{status}: {errors}");
    errors
}

fn report(recording: &Path) -> Value {
    report_with(recording, &[])
}

fn report_with(recording: &Path, options: &[&str]) -> Value {
    let output = Command::new(with::sockstamp())
        .args(["report", "--format", "json"])
        .args(options)
        .arg(recording)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Ask a server of this test this many questions, one after the other, with this pause.
fn ask(listener: &TcpListener, questions: usize, pause: Duration) {
    ask_slow(listener, questions, pause, [Duration::ZERO; 2]);
}

/// Do the same; the server takes these times for its first answer, and for each other one.
fn ask_slow(
    listener: &TcpListener,
    questions: usize,
    pause: Duration,
    [first, each]: [Duration; 2],
) {
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut socket, _) = listener.accept().unwrap();
            let mut question = [0; 100];
            socket.read_exact(&mut question).unwrap();
            thread::sleep(first);
            socket.write_all(&question[..50]).unwrap();
            while socket.read_exact(&mut question).is_ok() {
                thread::sleep(each);
                socket.write_all(&question[..50]).unwrap();
            }
        });
        let mut socket = TcpStream::connect(address).unwrap();
        let mut answer = [0; 50];
        for _ in 0..questions {
            socket.write_all(&[1; 100]).unwrap();
            socket.read_exact(&mut answer).unwrap();
            thread::sleep(pause);
        }
    });
}

#[test]
fn report_counts_messages_as_stat_does() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let target = ["tcp", "port", &port];
    let stat = Stat::start(&target);
    let recording = record(&file, &[], &target);
    ask(&listener, 300, Duration::ZERO);
    let told = end(recording);
    let stat = stat.finish();
    let report = report(&file);
    // And the connection, as it is opened and as it is accepted.
    assert!(told.contains("recorded 1202 messages"), "{told}");
    for direction in ["tx", "rx"] {
        let (counted, recorded) = (&stat[direction], &report[direction]);
        assert_eq!(number(&counted["messages"]), 600, "{counted}");
        for figure in ["messages", "measured", "bytes", "pipelined"] {
            assert_eq!(counted[figure], recorded[figure], "{direction} {figure}");
        }
        let stages = counted["stages"].as_object().unwrap();
        // One that no message had is no stage of a recording.
        let stages = stages
            .iter()
            .filter(|(_, figures)| number(&figures["count"]) > 0);
        for (stage, figures) in stages {
            // Its presence depends on a task that waits, which each measurement sees for itself.
            if !["rx.wakeup", "rx.app"].contains(&stage.as_str()) {
                assert_eq!(
                    figures["count"], recorded["stages"][stage]["count"],
                    "{stage}"
                );
            }
        }
    }
    assert_eq!(stat["verdicts"], report["verdicts"]);
}

/// Listen on a free port below those of clients (net.ipv4.ip_local_port_range). If these begin at
/// 1024, as the range is often widened, only privileged ports are left.
fn low_listener() -> TcpListener {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let lowest: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
    (1..lowest)
        .rev()
        .find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok())
        .unwrap_or_else(|| panic!("no port is free below those of clients: {range:?}"))
}

/// Return the group of a grouping by port and peer that has this port.
fn of_port<'a>(groups: &'a [Value], port: &str) -> &'a Value {
    let port: u64 = port.parse().unwrap();
    let of_port = |group: &&Value| number(&group["key"]["port"]) == port;
    groups
        .iter()
        .find(of_port)
        .unwrap_or_else(|| panic!("{groups:?}"))
}

#[test]
fn groups_of_a_report_are_those_of_stat_and_intervals_add_up_to_them() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    // Ports below those of clients: the lower one is the service's.
    let listeners = [0, 1].map(|_| low_listener());
    let ports = listeners
        .each_ref()
        .map(|listener| listener.local_addr().unwrap().port().to_string());
    let target = ["tcp", "port", &ports[0], "or", "tcp", "port", &ports[1]];
    let stat = Stat::start(&[&["--by", "port,peer"][..], &target].concat());
    let recording = record(&file, &[], &target);
    for (listener, questions) in listeners.iter().zip([200, 50]) {
        ask(listener, questions, Duration::from_millis(2));
    }
    end(recording);
    let stat = stat.finish();
    let report = report_with(&file, &["--by", "port,peer"]);
    let series = report_with(&file, &["--by", "port,peer", "--interval", "100ms"]);
    let [counted, recorded] = [&stat, &report].map(|of| of["groups"].as_array().unwrap());
    assert_eq!(recorded.len(), 2, "{report}");
    let rows = series["series"]["rows"].as_array().unwrap();
    for (port, questions) in ports.iter().zip([200, 50]) {
        let (counted, recorded) = (of_port(counted, port), of_port(recorded, port));
        assert_eq!(counted["key"], recorded["key"]);
        for direction in ["tx", "rx"] {
            assert_eq!(number(&recorded[direction]["messages"]), 2 * questions);
            for figure in ["messages", "measured", "refused", "bytes", "retransmits"] {
                let [counted, recorded] = [counted, recorded].map(|of| &of[direction][figure]);
                assert_eq!(counted, recorded, "{port} {direction} {figure}");
            }
            let count = |of: &Value| number(&of[direction]["total"]["count"]);
            assert_eq!(count(counted), count(recorded));
            let sum = |of: &Value| number(&of[direction]["total"]["sum_ns"]);
            let all = rows
                .iter()
                .filter(|row| row["key"]["port"] == recorded["key"]["port"]);
            assert_eq!(all.map(sum).sum::<u64>(), sum(recorded));
        }
    }

    // By the rows themselves.
    let recording = Reader::open(&file).unwrap();
    for row in rows {
        let begin = number(&row["time_ns"]);
        assert_eq!(begin % 100_000_000, 0);
        let sum: u64 = (recording.messages())
            .map(|message| message.unwrap())
            .filter(|message| message.direction == sockstamp_model::Direction::Rx)
            .filter(|message| message.time.as_nanos() / 100_000_000 * 100_000_000 == begin)
            .filter(|message| {
                let ports =
                    [message.flow.local, message.flow.remote].map(|end| end.port().to_string());
                ports.contains(&row["key"]["port"].to_string())
            })
            .map(|message| message.total().0)
            .sum();
        assert_eq!(number(&row["rx"]["total"]["sum_ns"]), sum);
    }
    assert!(rows.len() > 4, "the questions alone took 500 ms: {series}");
}

#[test]
fn a_recording_that_is_killed_keeps_its_finished_rows() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut recording = record(&file, &[], &["tcp", "port", &port]);
    let begin = Instant::now();
    let mut asked = 0;
    while Reader::open(&file).unwrap().rows() == 0 {
        assert!(begin.elapsed() < PATIENCE, "no row after {asked} questions");
        ask(&listener, 10, Duration::from_millis(1));
        asked += 10;
    }
    ask(&listener, 10, Duration::from_millis(1));
    asked += 10;
    recording.signal(Signal::SIGKILL).unwrap();
    recording.wait_status(PATIENCE).unwrap();
    let rows = Reader::open(&file).unwrap().rows();
    // Four messages per question, and a connection from both ends per ten.
    let most = asked * 4 + asked / 10 * 2;
    assert!(rows > 0 && rows <= most, "{rows} of {most}");
    let valid = number(&report(&file)["verdicts"]["valid"]);
    assert!(valid > 0 && valid <= rows, "{valid} of {rows}");
}

/// A client of a service that is held on the first CPU, and its server: this process, which is not.
#[test]
fn messages_have_their_container_their_cpu_and_the_end_that_opened() {
    const ASKS: &str = "
import os, socket, sys
os.sched_setaffinity(0, {0})
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
for _ in range(10):
    s.sendall(b'x')
    s.recv(1)
";
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let top = Cgroup::new("recorded").unwrap();
    let service = format!("web-{}.service", std::process::id());
    let cgroup = top.below(&service).unwrap();
    let recording = record(&file, &[], &["tcp", "port", &port]);
    let mut command = Command::new("python3");
    command.args(["-c", ASKS, &port]);
    cgroup.start_in(&mut command).unwrap();
    let client = Process::spawn(command).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut byte = [0];
    while server.read(&mut byte).unwrap() > 0 {
        server.write_all(&byte).unwrap();
    }
    client.wait(PATIENCE).unwrap();
    end(recording);
    let messages: Result<Vec<_>, _> = Reader::open(&file).unwrap().messages().collect();
    let messages = messages.unwrap();
    let (clients, servers): (Vec<_>, Vec<_>) = messages
        .iter()
        .partition(|message| message.flow.remote.port().to_string() == port);
    assert_eq!((clients.len(), servers.len()), (21, 21));
    for message in &clients {
        assert_eq!(message.opened, Some(Opened::Connected), "{message:?}");
        // The handshake ends in no task.
        let cpu = Some(0).filter(|_| !message.is_connection());
        assert_eq!(message.cpu, cpu, "{message:?}");
        let container = message
            .container
            .as_ref()
            .map(|container| container.full_name());
        assert_eq!(container.as_ref(), Some(&service), "{message:?}");
    }
    let cpus = thread::available_parallelism().unwrap().get();
    for message in &servers {
        assert_eq!(message.opened, Some(Opened::Accepted), "{message:?}");
        assert!(
            message.cpu.is_some_and(|cpu| usize::from(cpu) < cpus),
            "{message:?}"
        );
        assert_ne!(message.container, clients[0].container, "{message:?}");
    }
    let report = report_with(&file, &["--by", "container"]);
    let of_service = |group: &&Value| group["key"]["container"] == service.as_str();
    let group = report["groups"].as_array().unwrap().iter().find(of_service);
    assert_eq!(number(&group.unwrap()["tx"]["messages"]), 10, "{report}");
}

#[test]
fn explain_names_a_server_that_is_slow_at_times() {
    const FLOWS: usize = 25;
    const WORK: Duration = Duration::from_millis(50);
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let recording = record(&file, &[], &["tcp", "port", &port]);
    for _ in 0..FLOWS {
        ask_slow(&listener, 130, Duration::ZERO, [WORK, Duration::ZERO]);
    }
    end(recording);
    let text = explain(&file, &[]);
    let answers = text
        .split(" answers:")
        .nth(1)
        .unwrap_or_else(|| panic!("{text}"));
    let first = answers
        .lines()
        .find(|line| line.contains("of the excess is"));
    let first = first.unwrap_or_else(|| panic!("{text}"));
    assert!(first.contains("peer.answer peer"), "{text}");
    assert!(answers.contains("usual cure: That of the peer"), "{text}");
    let first_cause = answers
        .split(" answers without these:")
        .next()
        .unwrap_or_default();
    assert_eq!(first_cause.matches("one of them:").count(), 3, "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }

    // One answer of each flow took as long as the server worked, by the server's own sleep.
    let json = explain(&file, &["--format", "json", "--slow", "49ms"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["version"], 2);
    let explanations = json["explanations"].as_array().unwrap();
    let answers = explanations
        .iter()
        .find(|one| one["kind"] == "answers")
        .unwrap();
    assert!(number(&answers["slow"]) >= FLOWS as u64, "{answers}");
    assert_eq!(answers["claim"], "first");
    assert_eq!(answers["components"][0]["part"], "peer");
    for life in answers["lives"].as_array().unwrap() {
        assert!(
            number(&life["stages"]["peer.answer"]) >= 49_000_000,
            "{life}"
        );
    }
}

fn explain(recording: &Path, options: &[&str]) -> String {
    let output = Command::new(with::sockstamp())
        .args(["explain", "-r"])
        .arg(recording)
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn diff(before: &Path, after: &Path, options: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(with::sockstamp())
        .arg("diff")
        .args([before, after])
        .args(options)
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[test]
fn without_a_message_there_is_nothing_to_compare() {
    let directory = tempdir().unwrap();
    let [some, none] = ["some.parquet", "none.parquet"].map(|name| directory.path().join(name));
    recording::write(&some, &recording::population(10));
    recording::write(&none, &[]);
    for (sides, filter, lacks) in [
        ([&some, &none], &[][..], "no message matches after"),
        ([&none, &some], &[], "no message matches before"),
        (
            [&some, &some],
            &["port", "1"],
            "no message matches on either side",
        ),
    ] {
        let mut command = Command::new(with::sockstamp());
        let output = command.arg("diff").args(sides).args(filter).output();
        let output = output.unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("nothing to compare: ") && told.contains(lacks),
            "{told}"
        );
    }
}

#[test]
fn diff_finds_a_server_that_works_longer() {
    const FLOWS: usize = 25;
    const WORK: Duration = Duration::from_millis(20);
    let directory = tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let [before, after] = [("before", Duration::ZERO), ("after", WORK)].map(|(name, work)| {
        let file = directory.path().join(name);
        let recording = record(&file, &[], &["tcp", "port", &port]);
        for _ in 0..FLOWS {
            ask_slow(&listener, 10, Duration::ZERO, [work; 2]);
        }
        end(recording);
        file
    });
    // The server's sleep is the change, by its own clock.
    let (status, json) = diff(&before, &after, &["--format", "json"]);
    assert_eq!(status, Some(0), "{json}");
    let json: Value = serde_json::from_str(&json).unwrap();
    let changes = json["changes"].as_array().unwrap();
    let answer = changes
        .iter()
        .find(|change| change["stage"] == "peer.answer" && change["quantile"] == "p50")
        .unwrap_or_else(|| panic!("{json}"));
    assert_eq!(answer["beyond_chance"], true, "{answer}");
    assert_eq!(answer["matters"], true, "{answer}");
    assert_eq!(changes[0]["beyond_chance"], true, "{json}");
    let [old, new] = ["before_ns", "after_ns"].map(|key| answer[key].as_f64().unwrap());
    // Buckets are 3 % wide.
    assert!(new >= WORK.as_nanos() as f64 * 0.97, "{answer}");
    assert!(old < new, "{answer}");

    let gate = ["--fail-if", "peer.answer.p50 > +20%"];
    let (status, text) = diff(&before, &after, &gate);
    assert_eq!(status, Some(3), "{text}");
    assert!(text.contains("fails: peer.answer.p50 > +20%"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let (status, text) = diff(&before, &before, &gate);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("changed: by too little to matter"), "{text}");
    // Recordings of either system, named twice as if they were others.
    let several = |sides: [&[&PathBuf]; 2]| {
        let mut command = Command::new(with::sockstamp());
        command.arg("diff").arg("--before").args(sides[0]);
        let output = command
            .arg("--after")
            .args(sides[1])
            .args(gate)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (status, text) = several([&[&before; 3], &[&after; 3]]);
    assert_eq!(status, Some(3), "{text}");
    let (status, text) = several([&[&before, &after, &before], &[&after, &before, &after]]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("changed: maybe "), "{text}");
    // A connection was accepted on one side only: no change of that can hold.
    let accepted = directory.path().join("accepted");
    let mut messages = recording::population(5_000);
    recording::write(&accepted, &messages);
    let none = directory.path().join("none");
    messages.retain(|message| message.stages[Stage::ConnAccept].is_none());
    recording::write(&none, &messages);
    let gate = ["--fail-if", "conn.accept.p50 > +20%"];
    for (sides, side) in [
        ([&none, &accepted], "after"),
        ([&accepted, &none], "before"),
    ] {
        let (status, text) = diff(sides[0], sides[1], &gate);
        assert_eq!(status, Some(1), "{text}");
        let line = text
            .lines()
            .find(|line| line.contains("conn.accept"))
            .unwrap();
        assert!(line.contains(&format!("only {side}: ")), "{text}");
        assert!(!text.contains("fails:"), "{text}");
        let (_, json) = diff(sides[0], sides[1], &["--format", "json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        let [one] = &json["one_sided"].as_array().unwrap()[..] else {
            panic!("{json}");
        };
        assert_eq!(
            (&one["stage"], &one["side"]),
            (&"conn.accept".into(), &side.into())
        );
        assert!(number(&one["messages"]) > 0, "{json}");
    }
    // An absent stage cannot be examined.
    let (status, _) = diff(&before, &after, &["--fail-if", "rx.nic.p50 > +20%"]);
    assert_eq!(status, Some(1));
}

#[test]
fn files_in_a_directory_are_by_date_hour_and_host() {
    let directory = tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let recording = record(directory.path(), &["--packets"], &["tcp", "port", &port]);
    ask(&listener, 10, Duration::ZERO);
    end(recording);
    let mut path = directory.path().to_owned();
    for part in ["date=20", "hour=", "host=", ""] {
        let entries: Vec<_> = fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap())
            .collect();
        // Two, if the hour has ended meanwhile.
        path = entries[0].path();
        let name = entries[0].file_name().into_string().unwrap();
        assert!(name.starts_with(part), "{name}");
    }
    let [messages, packets] =
        ["parquet", "packets"].map(|extension| path.with_extension(extension));
    let messages = Reader::open(&messages).unwrap();
    assert_eq!(messages.fact("version"), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(messages.fact("lost"), Some("0"));
    assert_eq!(
        PacketReader::open(&packets).unwrap().fact("lost_ring"),
        Some("0")
    );

    // Readers take the directory.
    let report = report(directory.path());
    assert_eq!(number(&report["tx"]["messages"]), 20, "{report}");
    assert_eq!(number(&report["lost"]["ring"]), 0, "{report}");
    let pcap = Command::new(with::sockstamp())
        .args(["pcap", "-r"])
        .arg(directory.path())
        .args(["-w", "-"])
        .output()
        .unwrap();
    let told = String::from_utf8(pcap.stderr).unwrap();
    assert!(pcap.status.success() && !told.contains("missing"), "{told}");
    // The block type of a section header, as pcapng begins.
    assert!(pcap.stdout.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), "{told}");
    // Ten questions, ten answers, and the connection.
    let written: Option<u64> = told.split_whitespace().find_map(|word| word.parse().ok());
    assert!(written >= Some(23), "{told}");
}

/// No message wakes the reader: one in a million is measured. A quarter of the ring does.
#[test]
fn packets_without_messages_are_read_before_their_ring_is_full() {
    const QUESTIONS: usize = 8000;
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut command = Command::new(with::sockstamp());
    command
        .args([
            "record",
            "--sample",
            "1/1000000",
            "--packets",
            "--buffer=1",
            "-o",
        ])
        .arg(&file)
        .args(with::hooks())
        .args(["tcp", "port", &port]);
    let mut recording = Process::spawn(command).unwrap();
    wait_attached(&mut recording);
    ask(&listener, QUESTIONS, Duration::from_micros(200));
    let told = end(recording);
    let packets = PacketReader::open(&file.with_extension("packets")).unwrap();
    assert_eq!(packets.fact("lost_ring"), Some("0"), "{told}");
    // A packet per question and answer, sent and received.
    let expected = 4 * QUESTIONS as u64;
    assert!(packets.rows() >= expected, "{told}");
}

#[test]
fn explain_says_that_only_slow_messages_were_recorded() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    let facts = [("slower_than_ns", "50000000".to_owned())];
    let mut writer = Writer::create(&file, &facts).unwrap();
    let mut batch = Batch::new();
    for message in recording::population(5_000) {
        batch.push(&message);
    }
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let text = explain(&file, &[]);
    let expected = " recording: only messages that took longer than 50.0 ms were recorded";
    assert!(text.starts_with(expected), "{text}");
    let json: Value = serde_json::from_str(&explain(&file, &["--format", "json"])).unwrap();
    assert_eq!(json["recorded_slower_than_ns"], 50_000_000);
    assert_eq!(json["explanations"][0]["percentiles_rounded"], false);
}

#[test]
fn losses_of_a_recording_are_in_its_report() {
    let directory = tempdir().unwrap();
    for (name, lost) in [("one.parquet", "3"), ("two.parquet", "4")] {
        let mut writer = Writer::create(&directory.path().join(name), &[]).unwrap();
        writer.add_fact("lost", lost.to_owned());
        writer.add_fact("lost_turned_away", lost.to_owned());
        writer.finish().unwrap();
    }
    let report = report(directory.path());
    for loss in ["ring", "turned_away"] {
        assert_eq!(number(&report["lost"][loss]), 7, "{loss}: {report}");
    }
    assert_eq!(number(&report["lost"]["evicted"]), 0, "{report}");
}

#[test]
fn too_little_room_is_an_error_before_anything_is_measured() {
    let directory = tempdir().unwrap();
    let output = Command::new(with::sockstamp())
        .args(["record", "--min-free", "100000000000", "-o"])
        .arg(directory.path().join("file"))
        .args(["--", "true"])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("less than --min-free 100000000000"), "{told}");
}

#[test]
fn a_recording_is_not_written_over() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("night.parquet");
    recording::write(&file, &recording::population(10));
    let before = fs::read(&file).unwrap();
    let output = Command::new(with::sockstamp())
        .args(["record", "-o"])
        .arg(&file)
        .args(["--", "true"])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("night.parquet exists: name another"),
        "{told}"
    );
    assert_eq!(fs::read(&file).unwrap(), before);
}

fn pipe_in(directory: &TempDir) -> PathBuf {
    let pipe = directory.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    pipe
}

/// Return true if a process waits for the other end of a pipe that it opens (fs/pipe.c).
fn opens_a_pipe(pid: u32) -> bool {
    let waits_in = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap();
    ["fifo_open", "wait_for_partner"].contains(&waits_in.as_str())
}

#[test]
fn a_signal_ends_packets_that_wait_for_the_reader_of_a_pipe() {
    let directory = tempdir().unwrap();
    let pipe = pipe_in(&directory);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut command = Command::new(with::sockstamp());
        command.args(["pcap", "-w"]).arg(&pipe);
        let mut process = Process::spawn(command).unwrap();
        wait_until("it opens the pipe", || opens_a_pipe(process.id()));
        process.signal(signal).unwrap();
        let status = process.wait_status(PATIENCE).unwrap();
        assert_eq!(status.signal(), Some(signal as i32), "{status}");
    }
}

#[test]
fn a_pipe_cannot_be_a_recording() {
    let directory = tempdir().unwrap();
    let pipe = pipe_in(&directory);
    let output = Command::new(with::sockstamp())
        .args(["record", "-o"])
        .arg(&pipe)
        .args(["--", "true"])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("pipe is not a regular file"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn a_command_that_cannot_run_costs_no_file() {
    let directory = tempdir().unwrap();
    let [earlier, new] = ["earlier", "new"].map(|name| directory.path().join(name));
    fs::write(&earlier, "of yesterday").unwrap();
    for words in [["pcap", "-w"], ["trace", "-o"], ["stat", "-o"]] {
        for path in [&earlier, &new] {
            let output = Command::new(with::sockstamp())
                .args(words)
                .arg(path)
                .args(["--", "/nonexistent/command"])
                .output()
                .unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(127), "{words:?}: {told}");
        }
        assert_eq!(fs::read(&earlier).unwrap(), b"of yesterday", "{words:?}");
        assert!(!new.exists(), "{words:?}");
    }
}

#[test]
fn a_measurement_that_is_refused_leaves_no_file() {
    let directory = tempdir().unwrap();
    let output = Command::new(with::sockstamp())
        .args(["record", "--packets", "--cgroup", "/no/such/cgroup", "-o"])
        .arg(directory.path().join("file"))
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("no cgroup /no/such/cgroup"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn recover_passes_over_files_that_it_cannot_recover() {
    let directory = tempdir().unwrap();
    let [bad, running, good] =
        ["bad", "running", "good"].map(|name| directory.path().join(format!("{name}.parquet")));
    fs::write(&bad, "").unwrap();
    let _writer = Writer::create(&running, &[]).unwrap();
    recording::write(&good, &recording::population(10));
    let output = Command::new(with::sockstamp())
        .arg("recover")
        .args([&bad, &running, &good])
        .output()
        .unwrap();
    let [printed, told] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        printed.ends_with("good.parquet: 10 messages, 0 bytes cut\n"),
        "{printed}"
    );
    assert!(
        told.contains("bad.parquet: no messages up to byte 0"),
        "{told}"
    );
    assert!(
        told.contains("running.parquet is still being recorded"),
        "{told}"
    );
}

#[test]
fn what_is_no_recording_is_refused_in_one_line() {
    for words in [&["report"][..], &["recover"], &["explain", "-r"]] {
        let output = Command::new(with::sockstamp())
            .args(words)
            .arg("/proc/self/exe\u{1b}[2J")
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains("cannot open /proc/self/exe\\x1b[2J: No such file"),
            "{told}"
        );
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

/// Return true if a process handles a signal (proc_pid_status(5)): it has begun to read.
fn catches(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    caught >> (signal as u32 - 1) & 1 == 1
}

/// Many copies of one take long to read.
#[test]
fn a_signal_ends_a_long_read() {
    const COPIES: usize = 60;
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    recording::write(&file, &recording::population(20_000));
    let sides = ["first", "second"].map(|name| {
        let side = directory.path().join(name);
        fs::create_dir(&side).unwrap();
        for number in 0..COPIES {
            fs::copy(&file, side.join(format!("{number}.parquet"))).unwrap();
        }
        side.display().to_string()
    });
    let files = sides.join(" ");
    let begun = directory.path().join("begun");
    let [export, join] =
        ["export --perfetto -o", "join -o"].map(|begin| format!("{begin} {}", begun.display()));
    let before = directory.path().read_dir().unwrap().count();
    for (subcommand, files, signal, status) in [
        ("report", &files, Signal::SIGINT, 130),
        ("report --html /dev/null", &files, Signal::SIGTERM, 143),
        ("explain -r", &files, Signal::SIGINT, 130),
        (&export, &files, Signal::SIGINT, 130),
        (&join, &files, Signal::SIGINT, 130),
    ] {
        let words = format!("{subcommand} {files}");
        let mut command = Command::new(with::sockstamp());
        command.args(words.split_whitespace());
        let mut process = Process::spawn(command).unwrap();
        wait_until("it catches the signal", || catches(process.id(), signal));
        process.signal(signal).unwrap();
        let ended = process.wait_status(PATIENCE).unwrap();
        let errors = process.stderr();
        assert_eq!(
            ended.code(),
            Some(status),
            "{subcommand}: {ended}: {errors}"
        );
        assert!(errors.contains("interrupted"), "{subcommand}: {errors}");
    }
    assert_eq!(directory.path().read_dir().unwrap().count(), before);
}
