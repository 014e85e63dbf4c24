//! Descriptors of processes that accept late.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sockstamp_host::descriptors;
use sockstamp_model::descriptors::Descriptors;

/// Processes that are looked at.
const MOST: usize = 16;

/// The least time between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Processes that had no room for more descriptors.
#[derive(Debug, Default)]
pub(crate) struct UsedUp {
    /// The most that each of them had open, where that left no room.
    most: BTreeMap<u32, Option<Descriptors>>,
    looked: Option<Instant>,
}

impl UsedUp {
    /// Look at a process, now and from now on.
    pub(crate) fn add(&mut self, pid: u32) {
        if pid != 0 && self.most.len() < MOST {
            self.most.entry(pid).or_insert_with(|| used_up(pid));
        }
    }

    /// Look at all: one that can accept nothing has few moments in which it has room.
    pub(crate) fn look(&mut self) {
        if self.looked.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        self.looked = Some(Instant::now());
        for (&pid, most) in &mut self.most {
            let now = used_up(pid);
            let open = |seen: Option<Descriptors>| seen.map_or(0, |seen| seen.open);
            if open(now) > open(*most) {
                *most = now;
            }
        }
    }

    pub(crate) fn seen(&self) -> impl Iterator<Item = (u32, Descriptors)> {
        let most = self.most.iter();
        most.filter_map(|(&pid, most)| Some((pid, (*most)?)))
    }
}

fn used_up(pid: u32) -> Option<Descriptors> {
    descriptors::of(pid).filter(Descriptors::are_used_up)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    /// As at the end of a measurement, which is not long after the last look at others.
    #[test]
    fn a_process_without_room_is_seen_at_once() {
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -n 4; exec 3</dev/null; echo; read end"]);
        let pipes = limited.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = pipes.spawn().unwrap();
        let mut said = [0];
        process
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        let mut used_up = UsedUp::default();
        used_up.look();
        used_up.add(process.id());
        used_up.look();
        let seen: Vec<_> = used_up
            .seen()
            .map(|(pid, seen)| (pid, seen.limit))
            .collect();
        drop(process.stdin.take());
        process.wait().unwrap();
        assert_eq!(seen, [(process.id(), 4)]);
    }

    #[test]
    fn processes_with_room_and_those_that_are_gone_are_not_used_up() {
        let mut used_up = UsedUp::default();
        for pid in [0, std::process::id(), u32::MAX] {
            used_up.add(pid);
        }
        assert_eq!(used_up.most.len(), 2);
        used_up.look();
        assert_eq!(used_up.seen().count(), 0);
    }
}
