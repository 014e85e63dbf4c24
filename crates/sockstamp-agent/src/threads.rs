//! The CPU time of the agent's threads, by their names.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, sysconf};

/// A span that is long enough for ticks.
const SPAN: Duration = Duration::from_secs(30);

type Times = BTreeMap<String, Duration>;

/// The times at the last two looks, which are half a minute apart at least.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    older: Option<(Instant, Times)>,
    newer: Option<(Instant, Times)>,
}

impl Threads {
    /// Take the times of now.
    pub(crate) fn look(&mut self, now: Instant) {
        let is_due = |(then, _): &(Instant, Times)| now.duration_since(*then) >= SPAN;
        if self.newer.as_ref().is_none_or(is_due) {
            self.older = self.newer.replace((now, times()));
        }
    }

    /// Return the thread that took most since the older look, and its part of a core.
    pub(crate) fn busiest(&self, now: Instant) -> Option<(String, f64)> {
        let (then, before) = self.older.as_ref()?;
        most(before, times(), now.duration_since(*then))
    }
}

fn most(before: &Times, after: Times, span: Duration) -> Option<(String, f64)> {
    let grown = after.into_iter().map(|(name, time)| {
        let before = before.get(&name).copied().unwrap_or_default();
        (name, time.saturating_sub(before))
    });
    let (name, time) = grown.max_by_key(|(_, time)| *time)?;
    let is_seen = !time.is_zero() && !span.is_zero();
    is_seen.then(|| (name, time.as_secs_f64() / span.as_secs_f64()))
}

fn times() -> Times {
    let tick = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    let tick = Duration::from_secs(1) / tick.and_then(|ticks| ticks.try_into().ok()).unwrap_or(100);
    let mut times = Times::new();
    for task in fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        if let Some((name, ticks)) = parse(&stat) {
            *times.entry(name.to_owned()).or_default() += tick * ticks;
        }
    }
    times
}

/// Return the name and the ticks in user and system mode, fields 2, 14 and 15
/// (proc_pid_stat(5)). The name may have spaces and parentheses.
fn parse(stat: &str) -> Option<(&str, u32)> {
    let (begin, rest) = stat.rsplit_once(')')?;
    let (_, name) = begin.split_once('(')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some((name, ticks()? + ticks()?))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "12 (a) (b) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20 0 1 0 99 0 0";
        assert_eq!(parse(stat), Some(("a) (b", 42)));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn the_thread_that_grew_most_is_named() {
        let times = |names: &[(&str, u64)]| -> Times {
            let times = names.iter();
            times
                .map(|(name, ms)| ((*name).to_owned(), Duration::from_millis(*ms)))
                .collect()
        };
        let before = times(&[("http", 900), ("prober", 100)]);
        let after = times(&[("http", 950), ("prober", 400), ("names", 200)]);
        let busiest = most(&before, after.clone(), Duration::from_secs(30));
        assert_eq!(busiest, Some(("prober".to_owned(), 0.01)));
        assert_eq!(most(&after, after.clone(), Duration::from_secs(30)), None);
    }

    /// The witness is the thread's own clock.
    #[test]
    fn a_thread_that_computes_is_found_by_its_name() {
        let busy = thread::Builder::new().name("computes".to_owned());
        let found = busy.spawn(|| {
            let spent = || {
                let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
                Duration::from(nix::time::clock_gettime(clock).unwrap())
            };
            while spent() < Duration::from_millis(200) {}
            times()["computes"]
        });
        let found = found.unwrap().join().unwrap();
        assert!(
            (Duration::from_millis(150)..Duration::from_secs(2)).contains(&found),
            "{found:?}"
        );
    }
}
