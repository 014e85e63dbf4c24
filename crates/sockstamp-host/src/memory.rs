//! Titles and calls of processes, which are in their memory.
//!
//! A page of memory may never come, as one of a file on a file system that a user serves (fuse(4)).
//! A task that reads `/proc/PID/mem` sleeps until it comes, and SIGKILL does not end that (tried on
//! v6.18): a thread that did so would keep its process from ending. So a process of its own reads,
//! and is left behind where a page does not come.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::time::{ClockId, clock_gettime};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::call::Asleep;

/// Longest wait for an answer. One takes some microseconds, and where memory is swapped in some
/// milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);
/// Processes that may be left behind at a time, of this one.
const MOST_LOST: usize = 3;
/// The same, of all sockstamps of this host, with those that read.
const MOST_READERS: usize = 16;
/// Each reader has locked one of the files of this name, and a number.
const TURN: &str = "/run/sockstamp/reader";
/// Processes that are remembered since they did not answer.
const MOST_SILENT: usize = 1024;
/// Bytes of a title that are read: users may make them any length.
const TITLE: u64 = 4096;

/// What is asked of a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Question {
    Title { pid: u32 },
    Call { pid: u32, task: u32 },
}

/// A line of the reader: an answer, and the CPU time of the reader until now.
#[derive(Debug, Serialize, Deserialize)]
struct Line<T> {
    answer: Option<T>,
    spent: Duration,
}

/// Return the title of a process: its first argument, which some change while they work.
pub fn title(pid: u32) -> String {
    let question = Question::Title { pid };
    let here = || Some(title_of(pid));
    ask(question, here).unwrap_or_default()
}

/// Return the call that a task sleeps in.
pub(crate) fn call(pid: u32, task: u32) -> Option<Asleep> {
    let question = Question::Call { pid, task };
    ask(question, || Asleep::of(pid, task))
}

/// Have processes read that are started so, and run [`serve`]. Without that, this process reads.
pub fn read_apart(reader: fn() -> Command) {
    readers().reader = Some(reader);
}

/// Return the CPU time of the readers.
#[must_use]
pub fn spent() -> Duration {
    readers().spent
}

/// Answer questions on standard input until it ends, unless too many do so already.
///
/// # Errors
///
/// If a question cannot be read, or an answer not be written.
pub fn serve() -> io::Result<()> {
    let Some(_turn) = turn() else {
        return Ok(());
    };
    for question in io::stdin().lines() {
        let spent = || clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
        let spent = || spent().map_or(Duration::ZERO, Duration::from);
        let line = match serde_json::from_str(&question?)? {
            Question::Title { pid } => serde_json::to_string(&Line {
                answer: Some(title_of(pid)),
                spent: spent(),
            }),
            Question::Call { pid, task } => serde_json::to_string(&Line {
                answer: Asleep::of(pid, task),
                spent: spent(),
            }),
        };
        writeln!(io::stdout(), "{}", line?)?;
    }
    Ok(())
}

/// Take a turn that ends with this process; `None` if there is none. Where there are no turns, as
/// without root, none is needed.
fn turn() -> Option<Option<Flock<File>>> {
    let open = |number| {
        let path = PathBuf::from(format!("{TURN}-{number}"));
        let mut private = DirBuilder::new();
        let directory = path.parent().unwrap_or(Path::new("/"));
        private.recursive(true).mode(0o700).create(directory)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.open(&path)
    };
    for number in 0..MOST_READERS {
        let Ok(file) = open(number) else {
            return Some(None);
        };
        if let Ok(turn) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            return Some(Some(turn));
        }
    }
    None
}

fn title_of(pid: u32) -> String {
    let mut line = Vec::new();
    let read = File::open(format!("/proc/{pid}/cmdline"));
    let _ = read.and_then(|file| file.take(TITLE).read_to_end(&mut line));
    let title = line.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(title).into_owned()
}

fn ask<T: DeserializeOwned>(question: Question, here: impl FnOnce() -> Option<T>) -> Option<T> {
    let mut readers = readers();
    match readers.reader {
        Some(reader) => readers.ask(reader, question),
        None => {
            drop(readers);
            here()
        }
    }
}

static READERS: Mutex<Readers> = Mutex::new(Readers::new());

fn readers() -> MutexGuard<'static, Readers> {
    READERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processes that read.
struct Readers {
    reader: Option<fn() -> Command>,
    running: Option<Running>,
    /// Those that wait for a page.
    lost: Vec<Child>,
    /// Processes whose memory they wait for.
    silent: BTreeSet<u32>,
    spent: Duration,
}

struct Running {
    child: Child,
    spent: Duration,
}

impl Readers {
    const fn new() -> Self {
        Self {
            reader: None,
            running: None,
            lost: Vec::new(),
            silent: BTreeSet::new(),
            spent: Duration::ZERO,
        }
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        reader: fn() -> Command,
        question: Question,
    ) -> Option<T> {
        let (Question::Title { pid } | Question::Call { pid, .. }) = question;
        if self.silent.contains(&pid) {
            return None;
        }
        if self.running.is_none() {
            self.lost
                .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            if self.lost.len() >= MOST_LOST {
                return None;
            }
            self.running = Running::start(reader()).ok();
        }
        let running = self.running.as_mut()?;
        if let Ok(line) = running.exchange::<Line<T>>(question) {
            self.spent += line.spent.saturating_sub(running.spent);
            running.spent = line.spent;
            return line.answer;
        }
        self.lose(pid);
        None
    }

    /// Leave the reader that has not answered, and ask nothing of the process again.
    fn lose(&mut self, pid: u32) {
        if let Some(Running { mut child, .. }) = self.running.take() {
            // Ignore the error: it has ended.
            let _ = child.kill();
            self.lost.push(child);
        }
        if self.silent.len() >= MOST_SILENT {
            self.silent.clear();
        }
        self.silent.insert(pid);
    }
}

impl Running {
    /// Start a reader that a terminal's Ctrl-C does not end, and that keeps nothing of ours open.
    fn start(mut reader: Command) -> io::Result<Self> {
        let child = reader
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            child,
            spent: Duration::ZERO,
        })
    }

    fn exchange<T: DeserializeOwned>(&mut self, question: Question) -> io::Result<T> {
        let (Some(input), Some(output)) = (&mut self.child.stdin, &mut self.child.stdout) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut line = serde_json::to_vec(&question)?;
        line.push(b'\n');
        input.write_all(&line)?;
        let due = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        while !said.ends_with(b"\n") {
            wait(&*output, due)?;
            let mut some = [0; 4096];
            match output.read(&mut some)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => said.extend_from_slice(&some[..length]),
            }
        }
        Ok(serde_json::from_slice(&said)?)
    }
}

/// Wait until something can be read.
fn wait(output: impl AsFd, due: Instant) -> io::Result<()> {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut watched = [PollFd::new(&output, PollFlags::IN)];
        match poll(&mut watched, Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that says `line` to the first question, and nothing to others.
    fn saying(line: &str) -> Command {
        let mut reader = Command::new("sh");
        reader.args(["-c", "read question; echo \"$0\"; exec sleep 1000", line]);
        reader
    }

    fn answering() -> Command {
        saying(r#"{"answer":"postgres: x","spent":{"secs":0,"nanos":7}}"#)
    }

    fn mute() -> Command {
        let mut reader = Command::new("sleep");
        reader.arg("1000");
        reader
    }

    fn title_by(readers: &mut Readers, reader: fn() -> Command, pid: u32) -> Option<String> {
        readers.ask(reader, Question::Title { pid })
    }

    #[test]
    fn the_title_is_the_first_argument_and_no_longer_than_its_bound() {
        let own = std::env::args().next().unwrap();
        assert_eq!(title_of(std::process::id()), own);
        let long = "x".repeat(100_000);
        let mut child = Command::new("sleep")
            .arg0(&long)
            .arg("1000")
            .spawn()
            .unwrap();
        // It is started before it has its arguments.
        let begun = Instant::now();
        while title_of(child.id()) != long[..4096] && begun.elapsed() < Duration::from_secs(60) {}
        let title = title_of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(title, long[..4096]);
    }

    #[test]
    fn a_reader_that_does_not_answer_is_left_and_its_process_asked_no_more() {
        let mut readers = Readers::new();
        let told = title_by(&mut readers, answering, 7);
        assert_eq!(told.as_deref(), Some("postgres: x"));
        assert_eq!(readers.spent, Duration::from_nanos(7));
        assert_eq!(title_by(&mut readers, answering, 8), None);
        assert!(readers.running.is_none() && readers.silent == [8].into());
        // Another reader answers for others.
        assert!(title_by(&mut readers, answering, 7).is_some());
        let begun = Instant::now();
        assert_eq!(title_by(&mut readers, answering, 8), None);
        assert!(readers.running.is_some(), "{:?}", begun.elapsed());
        let Running { mut child, .. } = readers.running.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Processes in which a page is awaited cannot be killed: here they are, and none is started
    /// while so many are left.
    #[test]
    fn few_readers_are_left_behind() {
        let mut readers = Readers::new();
        let lost = || mute().spawn().unwrap();
        readers.lost = (0..MOST_LOST).map(|_| lost()).collect();
        assert_eq!(title_by(&mut readers, answering, 7), None);
        assert!(readers.running.is_none() && readers.silent.is_empty());
        readers.lost[0].kill().unwrap();
        let begun = Instant::now();
        let mut told = None;
        while told.is_none() && begun.elapsed() < Duration::from_secs(60) {
            told = title_by(&mut readers, answering, 7);
        }
        assert!(told.is_some());
        let running = readers.running.take().map(|running| running.child);
        for mut child in readers.lost.into_iter().chain(running) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn an_answer_that_is_none_is_no_answer() {
        let mut readers = Readers::new();
        assert_eq!(
            title_by(&mut readers, || saying("running 0 tests"), 7),
            None
        );
        assert!(readers.running.is_none());
    }
}
