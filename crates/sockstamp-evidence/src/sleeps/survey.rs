//! A process with more tasks than are looked at.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::task::{clocks, numbers, of_task};

/// Tasks of a process that are looked at, at most.
pub(super) const MOST_TASKS: usize = 64;

/// A process with more tasks than are looked at: those that have run since it was surveyed before.
#[derive(Debug, Default)]
pub(super) struct Survey {
    at: Option<Instant>,
    ran: HashMap<u32, u64>,
    active: Vec<u32>,
}

impl Survey {
    /// Between two surveys: each reads a file for each of thousands of tasks.
    const BETWEEN: Duration = Duration::from_secs(1);
    /// Tasks that are surveyed.
    const MOST: usize = 4096;

    /// Return the tasks to look at.
    pub(super) fn chosen(&mut self, pid: u32) -> Option<Vec<u32>> {
        if self.at.is_none_or(|at| at.elapsed() >= Self::BETWEEN) {
            self.at = Some(Instant::now());
            self.look(pid, &numbers(pid)?);
        }
        Some(self.active.clone())
    }

    fn look(&mut self, pid: u32, tasks: &[u32]) {
        let ran = |task: &u32| Some((*task, clocks(&of_task(pid, *task))?.0));
        let now: HashMap<_, _> = tasks.iter().take(Self::MOST).filter_map(ran).collect();
        let has_run = |task: &&u32| {
            let before = self.ran.get(task);
            before.is_some_and(|before| now.get(task).is_some_and(|now| now > before))
        };
        let (mut active, others): (Vec<u32>, Vec<u32>) = tasks.iter().partition(has_run);
        active.extend(others);
        active.truncate(MOST_TASKS);
        (self.ran, self.active) = (now, active);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Of more tasks than are looked at, the one that runs is among them.
    #[test]
    fn tasks_that_run_come_before_those_that_never_do() {
        let mut survey = Survey::default();
        // `PID/task/TID`, proc(5).
        let own = fs::read_link("/proc/thread-self").unwrap();
        let runs: u32 = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let process = std::process::id();
        // No task has such a number.
        let never = (0..4_000).map(|of| u32::MAX - of);
        let all: Vec<u32> = never.chain([runs]).collect();
        survey.look(process, &all);
        assert!(!survey.active.contains(&runs));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(50) {}
        survey.look(process, &all);
        assert_eq!(survey.active[0], runs);
        assert_eq!(survey.active.len(), MOST_TASKS);
    }
}
