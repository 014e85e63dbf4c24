//! Recordings of real traffic.

mod files;
mod findings;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use nix::sys::signal::Signal;
use serde_json::Value;
use sockstamp_model::flow::Opened;
use sockstamp_record::{PacketReader, Reader, Writer};
use tempfile::tempdir;
use testbed::{Cgroup, PATIENCE, Process};
use with::{Stat, number, wait_attached};

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
            // The presence depends on a task that waits, which each measurement sees for itself.
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
