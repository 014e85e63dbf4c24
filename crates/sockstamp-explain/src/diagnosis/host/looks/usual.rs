//! The sleeps of tasks while no question waits for them.

use std::collections::{BTreeMap, BTreeSet};

use super::during::{LEAST, process};
use crate::diagnosis::evidence::sleep::{Sleep, SleepLook};
use crate::diagnosis::slow::Slow;

/// The sleeps of tasks without such a wait.
pub(super) struct Usual<'a> {
    waits: &'a [&'a Slow],
    pub(super) without: &'a [&'a SleepLook],
    /// Tasks that were seen in more than one state.
    changing: BTreeSet<(u32, u32)>,
    /// The number of tasks that sleep in what is slept in during the waits, at most looks without:
    /// each look is held against that.
    medians: BTreeMap<Sleep, usize>,
}

impl<'a> Usual<'a> {
    pub(super) fn new(
        waits: &'a [&'a Slow],
        during: &[&SleepLook],
        without: &'a [&'a SleepLook],
    ) -> Self {
        let mut states = BTreeMap::<_, BTreeSet<_>>::new();
        for look in during.iter().chain(without) {
            for (&task, sleep) in &look.tasks {
                states.entry((look.pid, task)).or_default().insert(sleep);
            }
        }
        let changing = states.into_iter().filter(|(_, states)| states.len() > 1);
        let sleeps = during.iter().flat_map(|look| look.tasks.values());
        let sleeps: BTreeSet<_> = sleeps.flatten().collect();
        let median = |sleep: &Sleep| (sleep.clone(), median(without, sleep));
        Self {
            waits,
            without,
            changing: changing.map(|(task, _)| task).collect(),
            medians: sleeps.into_iter().map(median).collect(),
        }
    }

    /// Return how many tasks more than otherwise sleep in it. Where no look shows otherwise, those
    /// count that are not always so; nobody has no memory for want of something to do. Who is
    /// stopped is so between the waits, too.
    pub(super) fn beyond(&self, sleep: &Sleep, look: &SleepLook) -> usize {
        let tasks = look
            .tasks
            .iter()
            .filter(|(_, of)| of.as_ref() == Some(sleep));
        let is_stopped = matches!(sleep, Sleep::Stopped | Sleep::Frozen | Sleep::Halted(_));
        if look.tasks.len() == 1 || is_stopped {
            return tasks.count();
        }
        if self.without.len() >= LEAST {
            let usual = self.medians.get(sleep).copied().unwrap_or(0);
            return tasks.count().saturating_sub(usual);
        }
        let all = tasks.clone().count();
        let changes = |task: u32| self.changing.contains(&(look.pid, task));
        let changing = tasks.filter(|(task, _)| changes(**task)).count();
        match sleep {
            Sleep::Memory => all,
            sleep if sleep.is_own_lock() => changing.min(self.unserved(look)),
            _ => changing,
        }
    }

    /// Return how many waits go on that no task works on: threads without work sleep in locks, too.
    pub(super) fn unserved(&self, look: &SleepLook) -> usize {
        let at = look.at.as_nanos();
        let is_on = |wait: &&&Slow| process(wait) == look.pid && wait.begin < at && at < wait.end;
        let open = self.waits.iter().filter(is_on).count();
        let works = |task: &&Option<Sleep>| {
            let sleeps = |sleep: &Sleep| sleep.is_idle() || sleep.is_own_lock();
            !task.as_ref().is_some_and(sleeps)
        };
        open.saturating_sub(look.tasks.values().filter(works).count())
    }

    /// Return true if none of the tasks has something to do: they wait for events, or as otherwise.
    pub(super) fn is_idle(&self, look: &SleepLook) -> bool {
        let mut tasks = look.tasks.values();
        !look.tasks.is_empty()
            && tasks.all(|task| match task {
                None => false,
                Some(Sleep::Idle | Sleep::Accept) => true,
                Some(sleep) => {
                    let is_known = sleep.is_own_lock() || self.without.len() >= LEAST;
                    is_known && self.beyond(sleep, look) == 0
                }
            })
    }
}

/// Return how many tasks sleep in it at most looks.
fn median(looks: &[&SleepLook], sleep: &Sleep) -> usize {
    let count = |look: &&SleepLook| {
        let tasks = look.tasks.values();
        tasks.filter(|task| task.as_ref() == Some(sleep)).count()
    };
    let mut counts: Vec<_> = looks.iter().map(count).collect();
    counts.sort_unstable();
    counts.get(counts.len() / 2).copied().unwrap_or(0)
}
