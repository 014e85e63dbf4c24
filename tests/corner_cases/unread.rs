//! An output that nobody reads: its end comes all the same, and leaves nothing behind.

use std::fs;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testbed::{Host, PATIENCE};
use with::agent::talk;
use with::leftovers::Leftovers;
use with::unprivileged::NOBODY;
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

fn is_there(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// A command that asks all the time, and ignores SIGTERM or not; its process is in a file.
const ASKS: &str = "
import os, signal, socket, sys
if sys.argv[2] == 'ignores': signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1] + '.new', 'w').write(str(os.getpid()))
os.rename(sys.argv[1] + '.new', sys.argv[1])
server = socket.create_server(('127.0.0.1', 0))
one = socket.create_connection(server.getsockname()); other = server.accept()[0]
while True:
    one.sendall(b'q'); other.recv(9); other.sendall(b'a'); one.recv(9)
";

/// Trace such a command for a reader who does not read, and end it; return how it ended, what it
/// said, and whether its command goes on.
fn end_with_command(how: &str) -> (ExitStatus, String, i32, bool) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pid");
    let (_reader, writer) = full_pipe();
    let (said, errors) = pipe().unwrap();
    let mut sockstamp = Command::new(sockstamp())
        .args([
            "trace",
            "--every",
            "--max-cost=none",
            "--",
            "python3",
            "-c",
            ASKS,
        ])
        .arg(&file)
        .arg(how)
        .stdout(writer)
        .stderr(errors)
        .spawn()
        .unwrap();
    wait_until("it waits for its reader", || {
        file.exists() && waits_to_write(&sockstamp)
    });
    let command: i32 = fs::read_to_string(&file).unwrap().parse().unwrap();
    let pid = Pid::from_raw(i32::try_from(sockstamp.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let status = ended(&mut sockstamp);
    let goes_on = is_there(command);
    if goes_on {
        kill(Pid::from_raw(command), Signal::SIGKILL).unwrap();
        wait_until("the command is gone", || !is_there(command));
    }
    let said = std::io::read_to_string(said).unwrap();
    (status.expect("it goes on"), said, command, goes_on)
}

#[test]
fn a_command_gets_the_signal_and_is_named_if_it_goes_on() {
    let before = Leftovers::before();
    let (status, said, command, goes_on) = end_with_command("ends");
    assert_eq!(
        status.signal(),
        Some(Signal::SIGTERM as i32),
        "{status} {said}"
    );
    assert!(
        !goes_on && said.contains("nobody reads the output"),
        "{command}: {said}"
    );
    assert!(!said.contains("goes on"), "{said}");

    let (status, said, command, goes_on) = end_with_command("ignores");
    assert_eq!(
        status.signal(),
        Some(Signal::SIGTERM as i32),
        "{status} {said}"
    );
    assert!(goes_on, "{said}");
    let told = format!("the command goes on: process {command}\n");
    assert!(said.contains(&told), "{said}");
    before.assert_none();
}

/// The files of its process in /proc are root's then, and hide the call in which it waits.
#[test]
fn a_program_with_file_capabilities_ends_too() {
    let before = Leftovers::before();
    let host = Host::new("unread-caps").unwrap();
    let folder = TempDir::with_prefix_in("sockstamp-caps", "/var/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("sockstamp");
    fs::copy(sockstamp(), &copy).unwrap();
    let held = "cap_bpf,cap_perfmon,cap_net_admin,cap_sys_admin=ep";
    let set = Command::new("setcap").arg(held).arg(&copy).status();
    assert!(set.unwrap().success());
    let (_reader, writer) = full_pipe();
    let mut sockstamp = Command::new(&copy)
        .args(["trace", "--every", "--max-cost=none", "--format", "json"])
        .args(["--netns", host.netns_name()])
        .uid(NOBODY)
        .gid(NOBODY)
        .stdout(writer)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it waits for its reader", || {
        talk(&host, 20, Duration::ZERO);
        waits_to_write(&sockstamp)
    });
    let pid = Pid::from_raw(i32::try_from(sockstamp.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let status = ended(&mut sockstamp).expect("it goes on");
    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32), "{status}");
    before.assert_none();
}
