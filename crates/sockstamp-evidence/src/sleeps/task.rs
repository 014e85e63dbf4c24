//! Tasks of a process: their states, places and clocks, as proc(5) has them.

use std::path::{Path, PathBuf};
use std::{fs, io};

use sockstamp_explain::diagnosis::Sleep;
use sockstamp_host::memory;
use sockstamp_model::name::Name;

/// A task, by its state and place.
pub(super) struct Task {
    pub(super) name: Name,
    pub(super) sleep: Option<Sleep>,
}

impl Task {
    pub(super) fn read(path: &Path, title: &str) -> Option<Self> {
        let stat = fs::read(path.join("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let (name, state) = name_and_state(&stat)?;
        let place = fs::read_to_string(path.join("wchan")).unwrap_or_default();
        Some(Self {
            name: Name::from(name),
            sleep: Sleep::of(state, &place, title),
        })
    }
}

/// Return what the first tasks of a process do.
pub(super) fn states(pid: u32) -> Vec<Option<Sleep>> {
    const MOST: usize = 8;
    let title = memory::title(pid);
    let tasks = numbers(pid).unwrap_or_default().into_iter().take(MOST);
    let tasks = tasks.filter_map(|task| Task::read(&of_task(pid, task), &title));
    tasks.map(|task| task.sleep).collect()
}

pub(super) fn place(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// Return true for a process of another user, which takes CAP_SYS_PTRACE to look at: what its tasks
/// sleep in reads as if they were idle (`proc_pid_wchan()`, fs/proc/base.c, v6.18).
pub(super) fn is_hidden(process: &Path) -> bool {
    let program = fs::read_link(process.join("exe"));
    program.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

pub(super) fn of_task(pid: u32, task: u32) -> PathBuf {
    place(pid).join(format!("task/{task}"))
}

/// Return the tasks of a process.
pub(super) fn numbers(pid: u32) -> Option<Vec<u32>> {
    let tasks = fs::read_dir(place(pid).join("task")).ok()?;
    let number = |task: fs::DirEntry| task.file_name().to_str()?.parse().ok();
    Some(tasks.flatten().filter_map(number).collect())
}

/// Return for how long a task has run, and waited for a CPU: the first fields of its `schedstat`.
pub(super) fn clocks(path: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(path.join("schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Return the name of the program that traces a process.
pub(super) fn tracer(pid: u32) -> Option<Name> {
    let status = fs::read_to_string(place(pid).join("status")).ok()?;
    let mut lines = status.lines();
    let tracer = lines.find_map(|line| line.strip_prefix("TracerPid:"))?;
    let tracer = tracer.trim().parse().ok().filter(|tracer| *tracer != 0)?;
    let name = fs::read(place(tracer).join("comm")).ok()?;
    Some(Name::from(name.trim_ascii_end()))
}

/// Return the second and the third field of proc(5)'s `/proc/PID/stat`; a name may have blanks.
fn name_and_state(stat: &str) -> Option<(&str, char)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    Some((name, after.trim_start().chars().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_after_any_name() {
        assert_eq!(
            name_and_state("7 (a b) c) D 1 7 7 0"),
            Some(("a b) c", 'D'))
        );
        assert_eq!(name_and_state("7 (a"), None);
    }
}
