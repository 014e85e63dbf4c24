//! The other ends of pipes and FIFOs: proc(5)'s `/proc/PID/fd` and `fdinfo`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use sockstamp_model::name::Name;

use crate::call::Call;
use crate::{memory, netns};

/// Descriptors of a process that are looked at.
const MOST: usize = 1024;
/// Processes that are looked at.
const MOST_PROCESSES: usize = 4096;
/// Look through the descriptors of all processes this often at most.
const MOST_SEARCHES: usize = 8;

/// Processes at the other ends of pipes, by what their descriptors are called and whether they
/// read.
#[derive(Debug, Default)]
pub struct Pipes {
    known: HashMap<(PathBuf, bool), Option<u32>>,
    searches: usize,
}

/// The process at the other end of a pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherEnd {
    /// The process.
    pub pid: u32,
    /// The name of the process.
    pub name: Name,
    /// True if the process reads what this end writes.
    pub reads: bool,
}

impl Pipes {
    /// Return the other end of the pipe that a task of a process reads or writes, if another
    /// process has it.
    pub fn other_end(&mut self, pid: u32, task: u32) -> Option<OtherEnd> {
        let (fd, reads) = match memory::call(pid, task)?.call {
            Call::Send { fd } => (fd, true),
            Call::Read { fd } => (fd, false),
            Call::Poll { .. } | Call::Select { .. } | Call::Epoll { .. } => return None,
        };
        let pipe = fs::read_link(of_process(pid).join(format!("fd/{fd}"))).ok()?;
        let other = self.holder(pid, pipe, reads)?;
        let name = fs::read(of_process(other).join("comm")).ok()?;
        Some(OtherEnd {
            pid: other,
            name: Name::from(name.trim_ascii_end()),
            reads,
        })
    }

    fn holder(&mut self, pid: u32, pipe: PathBuf, reads: bool) -> Option<u32> {
        let key = (pipe, reads);
        if let Some(known) = self.known.get(&key) {
            let is_there = known.is_none_or(|other| has(other, &key.0, reads));
            if is_there || self.searches >= MOST_SEARCHES {
                return known.filter(|_| is_there);
            }
        }
        if self.searches >= MOST_SEARCHES {
            return None;
        }
        self.searches += 1;
        let mut others: Vec<u32> = netns::pids().filter(|other| *other != pid).collect();
        // The processes of both ends were mostly started one after the other.
        others.sort_by_key(|other| other.abs_diff(pid));
        let mut others = others.into_iter().take(MOST_PROCESSES);
        let found = others.find(|other| has(*other, &key.0, reads));
        self.known.insert(key, found);
        found
    }
}

fn of_process(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// Return true if a process has that end of a pipe open.
fn has(pid: u32, pipe: &Path, reads: bool) -> bool {
    let process = of_process(pid);
    let open = fs::read_dir(process.join("fd")).into_iter().flatten();
    let mut open = open.flatten().take(MOST);
    open.any(|descriptor| {
        let is_it = fs::read_link(descriptor.path()).is_ok_and(|link| link == *pipe);
        is_it && does(&process.join("fdinfo").join(descriptor.file_name()), reads)
    })
}

/// Return true if a descriptor was opened to read, or to write: the last bits of its octal flags
/// are 0 for the one, 1 for the other and 2 for both (open(2)).
fn does(about: &Path, reads: bool) -> bool {
    let about = fs::read_to_string(about).unwrap_or_default();
    let mut lines = about.lines();
    let flags = lines.find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| match flags & 3 {
        0 => reads,
        1 => !reads,
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// `sleep` has the other end, and does not read.
    fn sleeps() -> Child {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::piped()).spawn().unwrap()
    }

    /// The witness is this process, which has given the other end to its child.
    #[test]
    fn the_reader_of_a_full_pipe_is_found() {
        let mut child = sleeps();
        let mut pipe = child.stdin.take().unwrap();
        let (pid, own) = (child.id(), std::process::id());
        let (known, task) = std::sync::mpsc::channel();
        let writer = thread::spawn(move || {
            let link = fs::read_link("/proc/thread-self").unwrap();
            let task: u32 = link.file_name().unwrap().to_str().unwrap().parse().unwrap();
            known.send(task).unwrap();
            // More than a pipe holds, until its reader is killed.
            let _ = pipe.write_all(&vec![0; 4 << 20]);
        });
        let task = task.recv().unwrap();
        let begin = Instant::now();
        let found = loop {
            let found = Pipes::default().other_end(own, task);
            if found.is_some() || begin.elapsed() > Duration::from_secs(30) {
                break found;
            }
            thread::sleep(Duration::from_millis(10));
        };
        child.kill().unwrap();
        child.wait().unwrap();
        writer.join().unwrap();
        let expected = OtherEnd {
            pid,
            name: "sleep".into(),
            reads: true,
        };
        assert_eq!(found, Some(expected));
    }
}
