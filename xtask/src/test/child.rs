//! Run a command in a process group of its own, and end it with its children at its limit.

use std::collections::BTreeSet;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::log::Log;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Passed,
    Failed,
    /// Ended by us: the limit was over.
    OverLimit,
    /// Ended by us: no output for the whole patience.
    Silent,
}

/// When a command is ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) end: Instant,
    /// The time that it may print nothing.
    pub(super) patience: Option<Duration>,
}

/// Time between SIGTERM and SIGKILL, in which a command may clean up.
const GRACE: Duration = Duration::from_secs(30);
/// How often the clock is read while a command prints nothing.
const TICK: Duration = Duration::from_millis(50);
/// Time for the rest of the output. A program that a test leaves behind may hold the pipe open.
const REST: Duration = Duration::from_secs(1);

/// Process groups of running commands.
static GROUPS: Mutex<Groups> = Mutex::new(Groups {
    running: BTreeSet::new(),
    closed: false,
});

struct Groups {
    running: BTreeSet<Pid>,
    closed: bool,
}

/// Run a command to its end or its limits, with all its output in a log.
pub(super) fn run(command: Command, limits: Limits, log: &mut Log) -> Result<End> {
    let (mut child, output) = spawn(command)?;
    let group = group_of(&child)?;
    let ended = watch(&mut child, &output, limits, log);
    groups().running.remove(&group);
    ended
}

/// End all running commands, and start none any more.
pub(super) fn end_all() {
    let running = {
        let mut groups = groups();
        groups.closed = true;
        groups.running.clone()
    };
    for group in running {
        // The group may have ended meanwhile.
        let _ = killpg(group, Signal::SIGTERM);
    }
}

fn groups() -> std::sync::MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn group_of(child: &Child) -> Result<Pid> {
    Ok(Pid::from_raw(i32::try_from(child.id())?))
}

/// Take the command, as its copies of the pipe's end would keep the pipe open.
fn spawn(mut command: Command) -> Result<(Child, Receiver<Vec<u8>>)> {
    let (reader, writer) = io::pipe().context("cannot make a pipe")?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("cannot copy a pipe")?)
        .stderr(writer)
        .process_group(0);
    let mut groups = groups();
    ensure!(!groups.closed, "interrupted");
    let child = command
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    groups.running.insert(group_of(&child)?);
    drop(groups);
    let (sender, output) = mpsc::channel();
    thread::spawn(move || copy(reader, &sender));
    Ok((child, output))
}

fn copy(mut reader: PipeReader, output: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = [0; 8192];
    while let Ok(length @ 1..) = reader.read(&mut buffer) {
        if output.send(buffer[..length].to_vec()).is_err() {
            return;
        }
    }
}

fn watch(
    child: &mut Child,
    output: &Receiver<Vec<u8>>,
    limits: Limits,
    log: &mut Log,
) -> Result<End> {
    let mut heard = Instant::now();
    loop {
        match output.recv_timeout(TICK) {
            Ok(bytes) => {
                heard = Instant::now();
                log.write(&bytes)?;
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK),
        }
        if let Some(status) = child.try_wait().context("cannot wait for a command")? {
            drain(output, log)?;
            if let Some(signal) = status.signal() {
                log.line(&format!("ended by signal {signal}"))?;
                // Measurements that it left behind would change those of the next test.
                let _ = killpg(group_of(child)?, Signal::SIGKILL);
            }
            return Ok(end(status));
        }
        let reason = if Instant::now() >= limits.end {
            End::OverLimit
        } else if limits.patience.is_some_and(|most| heard.elapsed() > most) {
            End::Silent
        } else {
            continue;
        };
        kill(child)?;
        drain(output, log)?;
        return Ok(reason);
    }
}

fn end(status: ExitStatus) -> End {
    if status.success() {
        End::Passed
    } else {
        End::Failed
    }
}

fn drain(output: &Receiver<Vec<u8>>, log: &mut Log) -> Result<()> {
    let until = Instant::now() + REST;
    while let Ok(bytes) = output.recv_timeout(until.saturating_duration_since(Instant::now())) {
        log.write(&bytes)?;
    }
    Ok(())
}

fn kill(child: &mut Child) -> Result<()> {
    let group = group_of(child)?;
    let until = Instant::now() + GRACE;
    // The group may end meanwhile: both calls may find none.
    let _ = killpg(group, Signal::SIGTERM);
    while Instant::now() < until && child.try_wait()?.is_none() {
        thread::sleep(TICK);
    }
    let _ = killpg(group, Signal::SIGKILL);
    child.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_shell(script: &str, seconds: u64, patience: Option<Duration>) -> (End, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut log = Log::in_memory();
        let end = run(command, Limits { end, patience }, &mut log).unwrap();
        (end, log.text().to_owned())
    }

    #[test]
    fn output_and_errors_are_kept_in_their_order() {
        let (end, text) = run_shell("echo one; echo two >&2; echo three", 60, None);
        assert_eq!((end, text.as_str()), (End::Passed, "one\ntwo\nthree\n"));
    }

    #[test]
    fn a_command_that_fails_has_failed() {
        assert_eq!(run_shell("exit 3", 60, None).0, End::Failed);
    }

    /// Wait until a process has ended. Its parent is gone, and init may wait for it later.
    fn wait_for_end(pid: &str) {
        let stat = format!("/proc/{pid}/stat");
        let runs = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        let until = Instant::now() + Duration::from_secs(20);
        while runs() {
            assert!(Instant::now() < until, "{pid} runs");
            thread::sleep(TICK);
        }
    }

    #[test]
    fn a_command_ends_at_its_limit_with_its_children() {
        let (end, text) = run_shell("sleep 1000 & echo $!; wait", 1, None);
        assert_eq!(end, End::OverLimit);
        wait_for_end(text.trim());
    }

    #[test]
    fn a_command_that_is_killed_leaves_no_children() {
        let (end, text) = run_shell("sleep 1000 & echo $!; kill -9 $$", 60, None);
        assert_eq!(end, End::Failed);
        let (pid, rest) = text.split_once('\n').unwrap();
        assert_eq!(rest, "ended by signal 9\n");
        wait_for_end(pid);
    }

    #[test]
    fn a_command_that_prints_nothing_is_ended() {
        let patience = Some(Duration::from_millis(200));
        assert_eq!(run_shell("sleep 1000", 60, patience).0, End::Silent);
        let prints = "for i in 1 2 3 4 5; do echo; sleep 0.1; done";
        assert_eq!(
            run_shell(prints, 60, Some(Duration::from_secs(20))).0,
            End::Passed
        );
    }

    #[test]
    fn a_program_that_is_left_behind_delays_no_end() {
        let began = Instant::now();
        let (end, text) = run_shell("sleep 30 & echo $!", 60, None);
        assert_eq!(end, End::Passed);
        assert!(began.elapsed() < Duration::from_secs(15));
        let left = Pid::from_raw(text.trim().parse().unwrap());
        nix::sys::signal::kill(left, Signal::SIGKILL).unwrap();
    }
}
