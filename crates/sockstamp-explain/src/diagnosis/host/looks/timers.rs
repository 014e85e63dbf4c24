//! Timers of a program's own, and waits that end when one of them does.

use std::collections::BTreeMap;

use sockstamp_model::clock::Nanos;
use sockstamp_model::wait::End;

use super::during::{LEAST, process};
use crate::diagnosis::evidence::sleep::SleepLook;
use crate::diagnosis::slow::Slow;

/// Timers are as exact as that.
const EXACT: u64 = 2_000_000;
/// Consequences of a timer's end may be late by as long, on a busy host.
const LATE: u64 = 10_000_000;
/// A look so long before the end of a wait shows what is due then.
const BEFORE: u64 = 60_000_000;
/// Between two looks, a call may have begun at any time; between two that are as far apart, nothing
/// is known of it.
const APART: u64 = 200_000_000;

/// The number of waits that ended when a timer did.
pub(super) struct Timed {
    /// Waits that were looked at in time.
    seen: usize,
    /// The times of those at whose end a timer was due.
    times: Vec<u64>,
}

impl Timed {
    /// `looks`: those at the processes of the waits.
    pub(super) fn new(waits: &[&Slow], looks: &[&SleepLook]) -> Self {
        let mut processes = BTreeMap::<u32, Vec<&SleepLook>>::new();
        for look in looks {
            processes.entry(look.pid).or_default().push(look);
        }
        let sorted = processes.into_iter().map(|(pid, mut looks)| {
            looks.sort_by_key(|look| look.at);
            let firsts = firsts(&looks);
            (pid, (looks, firsts))
        });
        let processes: BTreeMap<_, _> = sorted.collect();
        let mut timed = Self {
            seen: 0,
            times: Vec::new(),
        };
        for wait in waits.iter().filter(|wait| wait.how == End::Data) {
            let Some((looks, firsts)) = processes.get(&process(wait)) else {
                continue;
            };
            let Some(is_by_timer) = ends_by_timer(wait, looks, firsts) else {
                continue;
            };
            timed.seen += 1;
            timed.times.extend(is_by_timer.then_some(wait.time()));
        }
        timed.times.sort_unstable();
        timed
    }

    /// Four waits of five.
    pub(super) fn are_most(&self) -> bool {
        self.seen >= LEAST && self.times.len() * 5 >= self.seen * 4
    }

    /// Half may be so by chance, where a program has many timers.
    pub(super) fn are_few(&self) -> bool {
        self.seen >= LEAST && self.times.len() * 2 <= self.seen
    }

    /// Return the time that most take, if three quarters lie within a tenth of it.
    pub(super) fn usual(&self) -> Option<u64> {
        let middle = *self.times.get(self.times.len() / 2)?;
        let is_near = |time: &&u64| time.abs_diff(middle) * 10 <= middle;
        let near = self.times.iter().filter(is_near).count();
        (near * 4 >= self.times.len() * 3).then_some(middle)
    }
}

/// The first look at the call that each task is in at a look.
type Firsts = BTreeMap<u32, usize>;

fn firsts(looks: &[&SleepLook]) -> Vec<Firsts> {
    let mut all = Vec::<Firsts>::with_capacity(looks.len());
    for (of, look) in looks.iter().enumerate() {
        let known = all.last().zip(of.checked_sub(1));
        let first = |(task, after): (&u32, &Nanos)| {
            let goes_on = known.filter(|(_, before)| {
                let is_same = looks[*before].ends_after.get(task) == Some(after);
                is_same && !look.stirred.contains(task)
            });
            let first = goes_on.and_then(|(firsts, _)| firsts.get(task).copied());
            (*task, first.unwrap_or(of))
        };
        let firsts = look.ends_after.iter().map(first).collect();
        all.push(firsts);
    }
    all
}

/// Return true if a timer was due at the end of a wait, as a look long enough before has it; `None`
/// without such a look. `looks`: those at its process, in order.
fn ends_by_timer(wait: &Slow, looks: &[&SleepLook], firsts: &[Firsts]) -> Option<bool> {
    let ahead = BEFORE.min(wait.time() / 2);
    let late = EXACT + LATE.min(wait.time() / 50) + wait.seen.rtt.unwrap_or(0);
    let is_due = |(from, until): &(u64, u64)| {
        let times = from.saturating_sub(EXACT)..=until.saturating_add(late);
        times.contains(&wait.end)
    };
    let first = looks.partition_point(|look| look.at.as_nanos() <= wait.begin);
    let in_time = |of: &usize| looks[*of].at.as_nanos().saturating_add(ahead) <= wait.end;
    let mut inside = (first..looks.len()).take_while(in_time).peekable();
    inside.peek()?;
    Some(inside.any(|of| due(looks, firsts, of).iter().any(is_due)))
}

/// Return when calls that tasks are in at a look end by themselves, at the earliest and the latest:
/// each began after the look before, or goes on since then.
fn due(looks: &[&SleepLook], firsts: &[Firsts], of: usize) -> Vec<(u64, u64)> {
    let ends = looks[of].ends_after.iter();
    let due = ends.filter_map(|(task, after)| {
        let first = *firsts[of].get(task)?;
        let before = looks[first.checked_sub(1)?].at.as_nanos();
        let at = looks[first].at.as_nanos();
        (at - before <= APART).then_some((before + after.0, at + after.0))
    });
    due.collect()
}
