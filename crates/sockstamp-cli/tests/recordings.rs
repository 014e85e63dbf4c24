//! Recordings of real traffic.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use sockstamp_record::Reader;
use tempfile::tempdir;
use testbed::Process;

use common::{Stat, number, wait_attached};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Start `sockstamp record --every`; return when it measures.
fn record(output: &Path, options: &[&str], target: &[&str]) -> Process {
    let mut command = Command::new(common::sockstamp());
    command.args(["record", "--every", "-o"]).arg(output);
    command.args(options).args(common::hooks()).args(target);
    let mut process = Process::spawn(command).unwrap();
    wait_attached(&mut process);
    process
}

/// End a recording as Ctrl-C does; return its standard error.
fn end(mut process: Process) -> String {
    process.signal(Signal::SIGINT).unwrap();
    let status = process.wait_status(TIMEOUT).unwrap();
    let errors = process.stderr();
    assert!(status.success(), "{status}: {errors}");
    errors
}

fn report(recording: &Path) -> Value {
    let output = Command::new(common::sockstamp())
        .args(["report", "--format", "json"])
        .arg(recording)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Ask a server of this test so often, one question after the other, with so long a pause.
fn ask(listener: &TcpListener, questions: usize, pause: Duration) {
    ask_slow(listener, questions, pause, Duration::ZERO);
}

/// Do the same; the server takes so long for its first answer.
fn ask_slow(listener: &TcpListener, questions: usize, pause: Duration, work: Duration) {
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut socket, _) = listener.accept().unwrap();
            let mut question = [0; 100];
            socket.read_exact(&mut question).unwrap();
            thread::sleep(work);
            socket.write_all(&question[..50]).unwrap();
            while socket.read_exact(&mut question).is_ok() {
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
    assert!(told.contains("recorded 1200 messages"), "{told}");
    for direction in ["tx", "rx"] {
        let (counted, recorded) = (&stat[direction], &report[direction]);
        assert_eq!(number(&counted["messages"]), 600, "{counted}");
        for figure in ["messages", "measured", "bytes", "pipelined"] {
            assert_eq!(counted[figure], recorded[figure], "{direction} {figure}");
        }
        let stages = counted["stages"].as_object().unwrap();
        // One that no message had is no stage of a recording.
        let stages = stages.iter().filter(|(_, figures)| number(&figures["count"]) > 0);
        for (stage, figures) in stages {
            // Its presence depends on a task that waits, which each measurement sees for itself.
            if !["rx.wakeup", "rx.app"].contains(&stage.as_str()) {
                assert_eq!(figures["count"], recorded["stages"][stage]["count"], "{stage}");
            }
        }
    }
    assert_eq!(stat["verdicts"], report["verdicts"]);
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
        assert!(begin.elapsed() < TIMEOUT, "no row after {asked} questions");
        ask(&listener, 10, Duration::from_millis(1));
        asked += 10;
    }
    ask(&listener, 10, Duration::from_millis(1));
    asked += 10;
    recording.signal(Signal::SIGKILL).unwrap();
    recording.wait_status(TIMEOUT).unwrap();
    let rows = Reader::open(&file).unwrap().rows();
    assert!(rows > 0 && rows <= asked * 4, "{rows} of {asked}");
    let valid = number(&report(&file)["verdicts"]["valid"]);
    assert!(valid > 0 && valid <= rows, "{valid} of {rows}");
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
        ask_slow(&listener, 130, Duration::ZERO, WORK);
    }
    end(recording);
    let output = Command::new(common::sockstamp())
        .args(["explain", "--read"])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answers = text.split(" answers:").nth(1).unwrap_or_else(|| panic!("{text}"));
    let first = answers.lines().find(|line| line.contains("of the excess is"));
    let first = first.unwrap_or_else(|| panic!("{text}"));
    assert!(first.contains("peer.answer peer"), "{text}");
    assert!(answers.contains("usual cure: That of the peer"), "{text}");
}

#[test]
fn files_in_a_directory_are_by_date_hour_and_host() {
    let directory = tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let recording = record(directory.path(), &[], &["tcp", "port", &port]);
    ask(&listener, 10, Duration::ZERO);
    end(recording);
    let mut path = directory.path().to_owned();
    for part in ["date=20", "hour=", "host=", ""] {
        let entries: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap()).collect();
        // Two, if the hour has ended meanwhile.
        path = entries[0].path();
        let name = entries[0].file_name().into_string().unwrap();
        assert!(name.starts_with(part), "{name}");
    }
    assert!(
        path.extension().is_some_and(|extension| extension == "parquet"),
        "{path:?}"
    );
    assert_eq!(
        Reader::open(&path).unwrap().fact("version"),
        Some(env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn too_little_room_is_told_before_anything_is_measured() {
    let directory = tempdir().unwrap();
    let output = Command::new(common::sockstamp())
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
fn what_is_no_recording_is_refused_in_one_line() {
    for subcommand in ["report", "recover"] {
        let output = Command::new(common::sockstamp())
            .args([subcommand, "/proc/self/exe\u{1b}[2J"])
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
