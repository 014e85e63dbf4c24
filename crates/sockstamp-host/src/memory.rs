//! Titles and calls of processes, which are in their memory.
//!
//! A page of memory may never come, as one of a file on a file system that a user serves (fuse(4)).
//! A task that reads `/proc/PID/mem` sleeps until it comes, and SIGKILL does not end that (tried on
//! v6.18): a thread that did so would keep its process from ending. So a process of its own reads,
//! and is left behind where a page does not come.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
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
/// Longest wait for the start of a reader, which waits for a CPU and for its program's pages.
const START: Duration = Duration::from_secs(2);
/// Time until another reader is started after one that did not begin.
const PAUSE: Duration = Duration::from_secs(10);
/// Longest wait for the end of a reader that was killed. One that waits for a page does not end.
const END: Duration = Duration::from_millis(200);
/// Time for which nothing is asked of a process whose page did not come, at least.
const SILENCE: Duration = Duration::from_secs(60);
/// First line of a reader, once it can be asked.
const READY: &[u8] = b"ready\n";
/// Processes that may be left behind at a time, of this one.
const MOST_LOST: usize = 3;
/// Readers at a time, of all sockstamps of this host, with those left behind.
const MOST_READERS: usize = 16;
/// Each reader has locked one of the files of this name, and a number.
const TURN: &str = "/run/sockstamp/reader";
/// Processes that are remembered since they did not answer.
const MOST_SILENT: usize = 1024;
/// Bytes of a title that are read: users may make them any length.
const TITLE: u64 = 4096;

/// Questions about a process.
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
    io::stdout().write_all(READY)?;
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
    /// Readers that wait for a page, and the processes that it belongs to.
    lost: Vec<(u32, Child)>,
    /// Processes whose memory one has waited for, and since when.
    silent: BTreeMap<u32, Instant>,
    /// When a reader was started last that did not begin.
    failed: Option<Instant>,
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
            silent: BTreeMap::new(),
            failed: None,
            spent: Duration::ZERO,
        }
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        reader: fn() -> Command,
        question: Question,
    ) -> Option<T> {
        let (Question::Title { pid } | Question::Call { pid, .. }) = question;
        if self.is_silent(pid, Instant::now()) {
            return None;
        }
        if self.running.is_none() {
            self.start(reader);
        }
        let running = self.running.as_mut()?;
        if let Ok(line) = running.exchange::<Line<T>>(question) {
            self.spent += line.spent.saturating_sub(running.spent);
            running.spent = line.spent;
            return line.answer;
        }
        if let Some(Running { child, .. }) = self.running.take()
            && let Some(stuck) = end(child)
        {
            self.lose(pid, stuck, Instant::now());
        }
        None
    }

    /// Return true while a reader waits for a page of the process, and for some time.
    fn is_silent(&mut self, pid: u32, now: Instant) -> bool {
        self.lost
            .retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
        let is_recent = |since: &Instant| now.duration_since(*since) < SILENCE;
        self.lost.iter().any(|(of, _)| *of == pid) || self.silent.get(&pid).is_some_and(is_recent)
    }

    /// Start a reader, unless too many are left behind, or the last one has not begun.
    fn start(&mut self, reader: fn() -> Command) {
        let is_recent = |failed: Instant| failed.elapsed() < PAUSE;
        if self.lost.len() >= MOST_LOST || self.failed.is_some_and(is_recent) {
            return;
        }
        self.running = Running::start(reader()).ok();
        self.failed = self.running.is_none().then(Instant::now);
    }

    /// Leave a reader that waits for a page of a process, and ask nothing of that for some time.
    fn lose(&mut self, pid: u32, stuck: Child, now: Instant) {
        self.lost.push((pid, stuck));
        if self.silent.len() >= MOST_SILENT {
            self.silent.clear();
        }
        self.silent.insert(pid, now);
    }
}

/// Kill a reader, and return it if that does not end it: then it waits for a page. Another was only
/// late, or had ended by itself.
fn end(mut child: Child) -> Option<Child> {
    // Ignore the error: it has ended.
    let _ = child.kill();
    let due = Instant::now() + END;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= due {
            return Some(child);
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
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
        let mut running = Self {
            child,
            spent: Duration::ZERO,
        };
        match running.line(START) {
            Ok(line) if line == READY => Ok(running),
            _ => {
                end(running.child);
                Err(io::ErrorKind::NotConnected.into())
            }
        }
    }

    fn exchange<T: DeserializeOwned>(&mut self, question: Question) -> io::Result<T> {
        let input = self.child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = serde_json::to_vec(&question)?;
        line.push(b'\n');
        input.write_all(&line)?;
        Ok(serde_json::from_slice(&self.line(PATIENCE)?)?)
    }

    /// Return the next line of the reader, if it comes within a time.
    fn line(&mut self, within: Duration) -> io::Result<Vec<u8>> {
        let output = self
            .child
            .stdout
            .as_mut()
            .ok_or(io::ErrorKind::BrokenPipe)?;
        let due = Instant::now() + within;
        let mut said = Vec::new();
        while !said.ends_with(b"\n") {
            wait(&*output, due)?;
            let mut some = [0; 4096];
            match output.read(&mut some)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => said.extend_from_slice(&some[..length]),
            }
        }
        Ok(said)
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
        let script = "echo ready; read question; echo \"$0\"; exec sleep 1000";
        reader.args(["-c", script, line]);
        reader
    }

    fn answering() -> Command {
        saying(r#"{"answer":"postgres: x","spent":{"secs":0,"nanos":7}}"#)
    }

    fn asleep() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
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
        // The child is started before it has its arguments.
        let begun = Instant::now();
        while title_of(child.id()) != long[..4096] && begun.elapsed() < Duration::from_secs(60) {}
        let title = title_of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(title, long[..4096]);
    }

    /// The sleeping reader ends when it is killed, as one does that was late.
    #[test]
    fn a_reader_that_does_not_answer_is_ended_and_its_process_asked_again() {
        let mut readers = Readers::new();
        let told = title_by(&mut readers, answering, 7);
        assert_eq!(told.as_deref(), Some("postgres: x"));
        assert_eq!(readers.spent, Duration::from_nanos(7));
        assert_eq!(title_by(&mut readers, answering, 8), None);
        assert!(readers.running.is_none() && readers.lost.is_empty());
        assert!(title_by(&mut readers, answering, 8).is_some());
        // One that others have killed is no silence, either.
        let running = readers.running.as_mut().unwrap();
        running.child.kill().unwrap();
        assert_eq!(title_by(&mut readers, answering, 8), None);
        assert!(title_by(&mut readers, answering, 8).is_some());
        assert!(readers.silent.is_empty() && readers.lost.is_empty());
        assert!(end(readers.running.take().unwrap().child).is_none());
    }

    /// A child in which a page is awaited cannot be made here: this one is taken for one.
    #[test]
    fn a_process_is_silent_while_a_reader_waits_for_its_page_and_some_time_longer() {
        let mut readers = Readers::new();
        let now = Instant::now();
        readers.lose(8, asleep(), now);
        assert!(readers.is_silent(8, now) && !readers.is_silent(7, now));
        assert!(readers.is_silent(8, now + SILENCE));
        assert_eq!(title_by(&mut readers, answering, 8), None);
        assert!(readers.running.is_none());
        let (_, stuck) = readers.lost.pop().unwrap();
        assert!(end(stuck).is_none());
        assert!(readers.is_silent(8, now + SILENCE / 2));
        assert!(!readers.is_silent(8, now + SILENCE));
    }

    #[test]
    fn a_reader_without_a_turn_makes_no_process_silent() {
        let mut readers = Readers::new();
        let turned_away = || Command::new("true");
        assert_eq!(title_by(&mut readers, turned_away, 7), None);
        assert!(readers.silent.is_empty() && readers.lost.is_empty());
        // The next one is started after a pause.
        assert_eq!(title_by(&mut readers, answering, 7), None);
        readers.failed = Instant::now().checked_sub(PAUSE);
        assert!(title_by(&mut readers, answering, 7).is_some());
        assert!(end(readers.running.take().unwrap().child).is_none());
    }

    /// Processes in which a page is awaited cannot be killed: here they are, and none is started
    /// while so many are left.
    #[test]
    fn few_readers_are_left_behind() {
        let mut readers = Readers::new();
        readers.lost = (0..MOST_LOST).map(|_| (8, asleep())).collect();
        assert_eq!(title_by(&mut readers, answering, 7), None);
        assert!(readers.running.is_none() && readers.silent.is_empty());
        readers.lost[0].1.kill().unwrap();
        let begun = Instant::now();
        let mut told = None;
        while told.is_none() && begun.elapsed() < Duration::from_secs(60) {
            told = title_by(&mut readers, answering, 7);
        }
        assert!(told.is_some());
        let running = readers.running.take().map(|running| running.child);
        let lost = readers.lost.into_iter().map(|(_, child)| child);
        for child in lost.chain(running) {
            assert!(end(child).is_none());
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
