//! Find what tasks of a process sleep in while it has slow waits, by looks at them.
//!
//! A look has all tasks of the process, not the one that works on a request: its threads may sleep
//! in a lock because they have nothing to do. So looks during such waits are held against looks
//! without: what more of its tasks sleep in than otherwise is what the waits are for.

use std::collections::{BTreeMap, BTreeSet};

use super::sleep::{self, Ran, Sleep, SleepLook, Slept};
use super::slow::{Key, Slow};
use super::tree::Node;

/// As many looks show something.
const LEAST: usize = 3;

/// Return the process whose tasks are waited for, where that is on this host; 0 if none is known.
fn process(wait: &Slow) -> u32 {
    match wait.key.root {
        Node::Service | Node::Read | Node::Accept => wait.pid,
        Node::Answer => {
            let there = wait.seen.there.as_ref();
            let process = there.and_then(|there| there.process.as_ref());
            process.map_or(0, |(pid, _)| *pid)
        }
        _ => 0,
    }
}

/// Note for each wait for this host's programs what their tasks slept in.
pub(super) fn note(waits: &mut [Slow], looks: &[SleepLook]) {
    let mut keys = BTreeMap::<&Key, Vec<&Slow>>::new();
    for wait in waits.iter().filter(|wait| process(wait) != 0) {
        keys.entry(&wait.key).or_default().push(wait);
    }
    let found: BTreeMap<Key, Found> = keys
        .into_iter()
        .map(|(key, waits)| (key.clone(), find(&waits, looks)))
        .collect();
    for wait in waits {
        if let Some(found) = found.get(&wait.key) {
            wait.seen.slept = found.slept;
            wait.seen.ran.clone_from(&found.ran);
            wait.seen.idle = found.is_idle;
            ask(wait);
        }
    }
}

/// Give what is not known of a service to the peer for whose data its tasks sleep, at half of the
/// looks: the question to it may have been taken for another thing.
fn ask(wait: &mut Slow) {
    let Some(slept) = wait.seen.slept else { return };
    let is_peer = matches!(slept.sleep, Sleep::Peer(_));
    if wait.key.root != Node::Service || !is_peer || slept.looks * 2 < slept.of {
        return;
    }
    let is_asleep = |node| matches!(node, Node::ServiceAsleep | Node::ServiceUnknown);
    wait.parts.give(is_asleep, Node::ServiceAsks);
}

/// The tasks of programs while some of their waits went on.
struct Found {
    slept: Option<Slept>,
    ran: Option<Ran>,
    /// The tasks had nothing to do, at four looks of five.
    is_idle: bool,
}

fn find(waits: &[&Slow], looks: &[SleepLook]) -> Found {
    let pids: BTreeSet<_> = waits.iter().map(|wait| process(wait)).collect();
    let goes_on = |look: &&SleepLook| {
        let at = look.at.as_nanos();
        let is_in = |wait: &&Slow| process(wait) == look.pid && wait.begin < at && at < wait.end;
        waits.iter().any(is_in)
    };
    let of_these = looks.iter().filter(|look| pids.contains(&look.pid));
    let (during, without): (Vec<_>, Vec<_>) = of_these.partition(goes_on);
    let usual = Usual::new(waits, &during, &without);
    let idle = during.iter().filter(|look| usual.is_idle(look)).count();
    Found {
        slept: slept(&during, &usual),
        ran: ran(&during, &without),
        is_idle: during.len() >= LEAST && idle * 5 >= during.len() * 4,
    }
}

/// Return what more tasks slept in than otherwise, at a third of the looks during waits; of
/// several, what most tasks slept in.
fn slept(during: &[&SleepLook], usual: &Usual<'_>) -> Option<Slept> {
    let of = during.len();
    let beyond = |sleep: Sleep| {
        let beyond = during.iter().map(|look| usual.beyond(sleep, look));
        let beyond: Vec<_> = beyond.filter(|beyond| *beyond > 0).collect();
        let is_often = of >= LEAST && beyond.len() * 3 >= of;
        let looks = beyond.len();
        is_often.then(|| (beyond.iter().sum::<usize>(), Slept { sleep, looks, of }))
    };
    let candidates: BTreeSet<_> = during.iter().flat_map(|look| look.tasks.values()).collect();
    let candidates = candidates.into_iter().flatten().copied();
    candidates
        .filter(|sleep| *sleep != Sleep::Idle)
        .filter_map(beyond)
        .max_by_key(|(tasks, slept)| (*tasks, std::cmp::Reverse(slept.sleep)))
        .map(|(_, slept)| slept)
        .or_else(|| of_one_task(during))
}

/// A task that is alone waits for an event, where it does so at four looks of five: it is kept by
/// none of the other things.
fn of_one_task(during: &[&SleepLook]) -> Option<Slept> {
    let of = during.len();
    let waits = |look: &&&SleepLook| {
        look.tasks.len() == 1 && look.tasks.values().all(|task| *task == Some(Sleep::Idle))
    };
    let looks = during.iter().filter(waits).count();
    let sleep = Sleep::Idle;
    (of >= LEAST && looks * 5 >= of * 4).then_some(Slept { sleep, looks, of })
}

/// Return the threads that ran at half of the looks during waits, and half as often otherwise at
/// most; of several, those that ran most.
fn ran(during: &[&SleepLook], without: &[&SleepLook]) -> Option<Ran> {
    let of = during.len();
    let (now, usual) = (runs(during), runs(without));
    let is_more = |name: &str, looks: usize| {
        let usual = usual.get(name).copied().unwrap_or(0);
        without.len() >= LEAST && usual * 2 * of <= looks * without.len()
    };
    now.into_iter()
        .filter(|(name, looks)| of >= LEAST && looks * 2 >= of && is_more(name, *looks))
        .max_by_key(|(_, looks)| *looks)
        .map(|(name, looks)| Ran { name, looks, of })
}

/// Return at how many looks threads of each name ran.
fn runs(looks: &[&SleepLook]) -> BTreeMap<String, usize> {
    let mut runs = BTreeMap::new();
    for look in looks {
        let names: BTreeSet<_> = look.ran.iter().map(sleep::of_all).collect();
        for name in names {
            *runs.entry(name).or_default() += 1;
        }
    }
    runs
}

/// What tasks sleep in without such a wait.
struct Usual<'a> {
    waits: &'a [&'a Slow],
    without: &'a [&'a SleepLook],
    /// Tasks that were seen in more than one state.
    changing: BTreeSet<(u32, u32)>,
}

impl<'a> Usual<'a> {
    fn new(waits: &'a [&'a Slow], during: &[&SleepLook], without: &'a [&'a SleepLook]) -> Self {
        let mut states = BTreeMap::<_, BTreeSet<_>>::new();
        for look in during.iter().chain(without) {
            for (&task, &sleep) in &look.tasks {
                states.entry((look.pid, task)).or_default().insert(sleep);
            }
        }
        let changing = states.into_iter().filter(|(_, states)| states.len() > 1);
        Self {
            waits,
            without,
            changing: changing.map(|(task, _)| task).collect(),
        }
    }

    /// Return how many tasks more than otherwise sleep in it. Where no look shows otherwise, those
    /// count that are not always so.
    fn beyond(&self, sleep: Sleep, look: &SleepLook) -> usize {
        let tasks = look.tasks.iter().filter(|(_, of)| **of == Some(sleep));
        if look.tasks.len() == 1 {
            return tasks.count();
        }
        if self.without.len() >= LEAST {
            return tasks.count().saturating_sub(self.median(sleep));
        }
        let changes = |task: u32| self.changing.contains(&(look.pid, task));
        let changing = tasks.filter(|(task, _)| changes(**task)).count();
        match sleep {
            Sleep::Lock => changing.min(self.unserved(look)),
            _ => changing,
        }
    }

    /// Return how many waits go on that no task works on: threads without work sleep in locks, too.
    fn unserved(&self, look: &SleepLook) -> usize {
        let at = look.at.as_nanos();
        let is_on = |wait: &&&Slow| process(wait) == look.pid && wait.begin < at && at < wait.end;
        let open = self.waits.iter().filter(is_on).count();
        let works = |task: &&Option<Sleep>| !matches!(task, Some(Sleep::Idle | Sleep::Lock));
        open.saturating_sub(look.tasks.values().filter(works).count())
    }

    /// Return true if none of the tasks has something to do: they wait for events, or as otherwise.
    fn is_idle(&self, look: &SleepLook) -> bool {
        let mut tasks = look.tasks.values();
        tasks.all(|task| match *task {
            None => false,
            Some(Sleep::Idle) => true,
            Some(sleep) => {
                let is_known = sleep == Sleep::Lock || self.without.len() >= LEAST;
                is_known && self.beyond(sleep, look) == 0
            }
        })
    }

    fn median(&self, sleep: Sleep) -> usize {
        let count = |look: &&SleepLook| {
            let tasks = look.tasks.values();
            tasks.filter(|task| **task == Some(sleep)).count()
        };
        let mut counts: Vec<_> = self.without.iter().map(count).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::fixture;
    use sockstamp_model::name::Name;
    use sockstamp_model::stage::Direction;
    use sockstamp_model::wait::End;

    use super::super::slow::{Parts, Role, Seen};
    use super::*;

    /// A look at two threads: one that serves, and one that only ever sleeps in `other`.
    fn look(ms: u64, serving: Option<Sleep>, other: Sleep) -> SleepLook {
        SleepLook {
            pid: 7,
            at: Timestamp::from_nanos(ms * 1_000_000),
            tasks: [(7, Some(other)), (8, serving)].into_iter().collect(),
            ran: Vec::new(),
        }
    }

    /// Waits of 50 ms, one in 100 ms.
    fn served(looks: &[SleepLook]) -> Seen {
        let flow = fixture::message(Direction::Tx).flow;
        let wait = |of: u64| Slow {
            key: Key::new(Node::Service, "web".into(), Role::Serves, &flow),
            flow,
            pid: 7,
            is_new: false,
            begin: of * 100_000_000,
            end: of * 100_000_000 + 50_000_000,
            weight: 1,
            parts: Parts::divide(50_000_000, [], Node::ServiceAsleep),
            how: End::Data,
            seen: Seen::default(),
        };
        let mut waits: Vec<_> = (0..10).map(wait).collect();
        note(&mut waits, looks);
        waits[0].seen.clone()
    }

    #[test]
    fn a_task_that_is_alone_in_its_event_wait_is_kept_by_nothing_else() {
        let alone = |of: u64, sleep| SleepLook {
            tasks: [(7, Some(sleep))].into_iter().collect(),
            ..look(of * 100 + 25, Some(Sleep::Idle), Sleep::Idle)
        };
        let looks: Vec<_> = (0..10).map(|of| alone(of, Sleep::Idle)).collect();
        let slept = served(&looks).slept.unwrap();
        assert_eq!((slept.sleep, slept.looks, slept.of), (Sleep::Idle, 10, 10));
        let asks = Sleep::Peer("10.0.0.9:3306".parse().unwrap());
        let looks: Vec<_> = (0..10).map(|of| alone(of, asks)).collect();
        assert_eq!(served(&looks).slept.unwrap().sleep, asks);
    }

    #[test]
    fn a_thread_that_runs_only_while_others_wait_is_named() {
        let at = |ms, ran: &[&str]| SleepLook {
            ran: ran.iter().map(|name| Name::from(*name)).collect(),
            ..look(ms, Some(Sleep::Lock), Sleep::Idle)
        };
        let told = |ran: &[&str], otherwise: &[&str]| {
            let during = (0..10).map(|of| at(of * 100 + 25, ran));
            let without = (0..10).map(|of| at(of * 100 + 75, otherwise));
            let looks: Vec<_> = during.chain(without).collect();
            served(&looks).ran.map(|ran| ran.words())
        };
        assert_eq!(
            told(&["GC Thread#0", "GC Thread#12"], &[]).as_deref(),
            Some("its thread GC Thread ran, at 10 of 10 looks: it collects garbage, as a rule")
        );
        assert_eq!(told(&["worker-1"], &["worker-7"]), None);
        assert_eq!(told(&[], &[]), None);
    }

    #[test]
    fn what_tasks_sleep_in_otherwise_is_not_what_they_wait_for() {
        let during = |sleep, other| (0..10).map(move |of| look(of * 100 + 25, Some(sleep), other));
        let without = |sleep, other| (0..10).map(move |of| look(of * 100 + 75, Some(sleep), other));
        let told = |looks: Vec<_>| {
            served(&looks)
                .slept
                .map(|slept| (slept.sleep, slept.looks, slept.of))
        };
        let all = |sleep| {
            let waits = during(sleep, Sleep::Lock);
            waits.chain(without(Sleep::Idle, Sleep::Lock)).collect()
        };
        assert_eq!(told(all(Sleep::Timer)), Some((Sleep::Timer, 10, 10)));
        assert_eq!(told(all(Sleep::Lock)), Some((Sleep::Lock, 10, 10)));
        assert_eq!(told(all(Sleep::Idle)), None);
        let peer = Sleep::Peer("10.0.0.9:5672".parse().unwrap());
        assert_eq!(told(all(peer)), Some((peer, 10, 10)));
        // Without work it sleeps in the same lock.
        let pool = during(Sleep::Lock, Sleep::Lock).chain(without(Sleep::Lock, Sleep::Lock));
        assert_eq!(told(pool.collect()), None);
        // No look shows the task otherwise, and another one works on the request.
        let beside = during(Sleep::Lock, Sleep::Timer).chain([look(910, None, Sleep::Timer)]);
        assert_eq!(told(beside.collect()), None);
        let mixed = during(Sleep::Disk, Sleep::Timer).take(8);
        let mixed = mixed.chain([look(925, None, Sleep::Timer)]).collect();
        assert_eq!(told(mixed), Some((Sleep::Disk, 8, 9)));
        assert_eq!(
            told(during(Sleep::Disk, Sleep::Timer).take(2).collect()),
            None
        );
    }
}
