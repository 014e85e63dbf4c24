//! An output that nobody reads: its end comes all the same, and leaves nothing behind.

use std::fs;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::{Host, PATIENCE};
use with::agent::talk;
use with::leftovers::Leftovers;
use with::{sockstamp, wait_until};

/// A pipe without room, as of a pager that is suspended.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    let set = |flags| fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
    set(OFlag::O_NONBLOCK);
    while (&writer).write(b"x").is_ok() {}
    set(OFlag::empty());
    (reader, writer)
}

fn waits_to_write(sockstamp: &Child) -> bool {
    let call = fs::read_to_string(format!("/proc/{}/wchan", sockstamp.id()));
    call.is_ok_and(|call| call.contains("pipe_write"))
}

fn ended(sockstamp: &mut Child) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(status) = sockstamp.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    sockstamp.kill().unwrap();
    sockstamp.wait().unwrap();
    None
}

/// Let sockstamp wait for its reader, and send it these signals; return how it ended.
fn end(host: &Host, words: &[&str], signals: &[Signal]) -> ExitStatus {
    let (_reader, writer) = full_pipe();
    let mut sockstamp = Command::new(sockstamp())
        .args(words)
        .args(["--netns", host.netns_name()])
        .stdout(writer)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let waits = || {
        talk(host, 20, Duration::ZERO);
        waits_to_write(&sockstamp)
    };
    wait_until("it waits for its reader", waits);
    for signal in signals {
        let pid = Pid::from_raw(i32::try_from(sockstamp.id()).unwrap());
        kill(pid, *signal).unwrap();
        thread::sleep(Duration::from_secs(1));
    }
    ended(&mut sockstamp).unwrap_or_else(|| panic!("{words:?} goes on"))
}

#[test]
fn signals_and_the_duration_end_what_waits_for_a_reader() {
    const TRACE: &[&str] = &["trace", "--every", "--max-cost=none", "--format", "json"];
    let before = Leftovers::before();
    let host = Host::new("unread").unwrap();
    for (words, signals) in [
        (TRACE, &[Signal::SIGTERM][..]),
        (TRACE, &[Signal::SIGINT, Signal::SIGINT]),
        (&["pcap", "-w", "-"], &[Signal::SIGTERM]),
        (&["stat", "--interval", "100ms"], &[Signal::SIGINT]),
    ] {
        let status = end(&host, words, signals);
        assert_eq!(
            status.signal(),
            Some(signals[0] as i32),
            "{words:?}: {status}"
        );
    }
    let timed = [TRACE, &["--duration", "3s"]].concat();
    let status = end(&host, &timed, &[]);
    assert_eq!(status.code(), Some(1), "{status}");
    before.assert_none();
}
