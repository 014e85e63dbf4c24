//! Files of recordings: which are written, which stay, and which are refused.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use sockstamp_record::{PacketReader, Reader, Writer};
use tempfile::{TempDir, tempdir};
use testbed::{PATIENCE, Process};
use with::{number, recording, wait_until};

use super::{ask, end, record, report};

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
    // Packets replace nothing, whether the command runs or not.
    for (words, of_earlier) in [
        (["pcap", "-w"], 1),
        (["trace", "-o"], 127),
        (["stat", "-o"], 127),
    ] {
        for (path, status) in [(&earlier, of_earlier), (&new, 127)] {
            let output = Command::new(with::sockstamp())
                .args(words)
                .arg(path)
                .args(["--", "/nonexistent/command"])
                .output()
                .unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(status), "{words:?}: {told}");
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
