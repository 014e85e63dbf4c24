//! Find what tasks of a process sleep in while it has slow waits, by looks at them.
//!
//! A look has all tasks of the process, not the one that works on a request: its threads may sleep
//! in a lock because they have nothing to do. So looks during such waits are held against looks
//! without: what more of its tasks sleep in than otherwise is what the waits are for.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::name::Name;
use sockstamp_model::wait::End;

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

/// Note for each wait for this host's programs what their tasks slept in. Looks while somebody is
/// pushed to, on a connection that always has a question `open`, tell nothing of other waits.
pub(super) fn note(waits: &mut [Slow], open: &[bool], looks: &[SleepLook]) {
    let mut keys = BTreeMap::<&Key, [Vec<&Slow>; 2]>::new();
    let known = waits.iter().zip(open);
    for (wait, is_open) in known.filter(|(wait, _)| process(wait) != 0) {
        keys.entry(&wait.key).or_default()[usize::from(*is_open)].push(wait);
    }
    let keys = keys
        .into_iter()
        .map(|(key, [asked, pushed])| match asked[..] {
            [] => (key, pushed),
            _ => (key, asked),
        });
    let found: BTreeMap<Key, Found> = keys
        .map(|(key, waits)| (key.clone(), find(&waits, looks)))
        .collect();
    for wait in waits {
        if let Some(found) = found.get(&wait.key) {
            wait.seen.slept.clone_from(&found.slept);
            wait.seen.ran.clone_from(&found.ran);
            wait.seen.asleep_in.clone_from(&found.asleep_in);
            wait.seen.idle = found.is_idle;
            wait.seen.held_up = found.is_held_up;
            wait.seen.tracer.clone_from(&found.tracer);
            ask(wait);
        }
    }
}

/// Give what is not known of a service to the peer for whose data its tasks sleep, at half of the
/// looks: the question to it may have been taken for another thing.
fn ask(wait: &mut Slow) {
    let Some(slept) = &wait.seen.slept else {
        return;
    };
    let is_peer = matches!(slept.sleep, Sleep::Peer(_));
    if wait.key.root != Node::Service || !is_peer || slept.looks * 2 < slept.of {
        return;
    }
    let is_asleep = |node| matches!(node, Node::ServiceAsleep | Node::ServiceUnknown);
    wait.parts.give(is_asleep, Node::ServiceAsks);
}

/// Return true for a sleep in which nobody is who has nothing to tell.
const fn is_held_up(sleep: &Sleep) -> bool {
    matches!(
        sleep,
        Sleep::Stopped
            | Sleep::Frozen
            | Sleep::NetworkFiles
            | Sleep::Disk
            | Sleep::FileLock
            | Sleep::HeldFile(..)
            | Sleep::SessionLock
            | Sleep::Standby
    )
}

/// Return true if tasks sleep so at four looks of five: it is no subscription that the wait is for.
/// A process of one task has no other one that works, so that a lock holds it up, too.
fn are_held_up(during: &[&SleepLook], usual: &Usual<'_>) -> bool {
    let is_so = |look: &&&SleepLook| {
        let mut sleeps = look.tasks.values().flatten();
        sleeps.any(|sleep| match sleep {
            Sleep::Lock => look.tasks.len() == 1,
            sleep => is_held_up(sleep) && usual.beyond(sleep, look) > 0,
        })
    };
    let looks = during.iter().filter(is_so).count();
    during.len() >= LEAST && looks * 5 >= during.len() * 4
}

/// The tasks of programs while some of their waits went on.
struct Found {
    slept: Option<Slept>,
    ran: Option<Ran>,
    /// All that tasks slept in, but for events, at most looks.
    asleep_in: Vec<Sleep>,
    /// The tasks had nothing to do, at four looks of five.
    is_idle: bool,
    /// The tasks did not sleep for want of something to do, at four looks of five.
    is_held_up: bool,
    /// The program that traced theirs at half of the looks.
    tracer: Option<Name>,
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
        slept: own_timer(waits, &during, &without).or_else(|| slept(&during, &usual)),
        ran: ran(&during, &without),
        asleep_in: asleep_in(&during),
        is_idle: during.len() >= LEAST && idle * 5 >= during.len() * 4,
        is_held_up: are_held_up(&during, &usual),
        tracer: tracer(&during),
    }
}

fn tracer(during: &[&SleepLook]) -> Option<Name> {
    let tracers: Vec<_> = during
        .iter()
        .filter_map(|look| look.tracer.as_ref())
        .collect();
    let is_often = tracers.len() >= LEAST && tracers.len() * 2 >= during.len();
    tracers
        .first()
        .filter(|_| is_often)
        .map(|tracer| (*tracer).clone())
}

/// Return what more tasks slept in than otherwise, at a third of the looks during waits; of
/// several, what most tasks slept in. Who sleeps in a lock waits for one that has it: what that one
/// sleeps in comes first.
fn slept(during: &[&SleepLook], usual: &Usual<'_>) -> Option<Slept> {
    let of = during.len();
    let beyond = |sleep: &Sleep| {
        let beyond = during.iter().map(|look| usual.beyond(sleep, look));
        let beyond: Vec<_> = beyond.filter(|beyond| *beyond > 0).collect();
        // Of those that have a lock in turn, few are in it at a time.
        let part = if is_held_up(sleep) { 6 } else { 3 };
        let is_often = of >= LEAST && beyond.len() * part >= of;
        let slept = Slept {
            sleep: sleep.clone(),
            looks: beyond.len(),
            of,
            theirs: theirs(sleep, during),
        };
        is_often.then(|| (beyond.iter().sum::<usize>(), slept))
    };
    let candidates: BTreeSet<_> = during.iter().flat_map(|look| look.tasks.values()).collect();
    let candidates = candidates.into_iter().flatten();
    candidates
        .filter(|sleep| **sleep != Sleep::Idle)
        .filter_map(beyond)
        .max_by(|(tasks, slept), (others, other)| {
            let is_cause = |slept: &Slept| slept.sleep != Sleep::Lock;
            is_cause(slept)
                .cmp(&is_cause(other))
                .then_with(|| tasks.cmp(others))
                .then_with(|| other.sleep.cmp(&slept.sleep))
        })
        .map(|(_, slept)| slept)
        .or_else(|| of_one_task(during))
}

/// Return all that tasks slept in at four looks of five, but for events.
fn asleep_in(during: &[&SleepLook]) -> Vec<Sleep> {
    let mut looks = BTreeMap::<_, usize>::new();
    for look in during {
        let states: BTreeSet<_> = look.tasks.values().flatten().collect();
        for state in states {
            *looks.entry(state).or_default() += 1;
        }
    }
    let is_often = |(state, looks): &(&Sleep, usize)| {
        **state != Sleep::Idle && during.len() >= LEAST && looks * 5 >= during.len() * 4
    };
    let often = looks.into_iter().filter(is_often);
    often.map(|(state, _)| state.clone()).collect()
}

/// Return what tasks of a service at the other end of a Unix socket did at half of the looks.
fn theirs(sleep: &Sleep, during: &[&SleepLook]) -> Option<Option<Sleep>> {
    let mut counts = BTreeMap::<_, usize>::new();
    let with = during.iter().filter(|look| !look.theirs.is_empty());
    for look in with.clone() {
        let states: BTreeSet<_> = look.theirs.iter().collect();
        for state in states {
            *counts.entry(state).or_default() += 1;
        }
    }
    let is_half = |(_, count): &(_, usize)| {
        matches!(sleep, Sleep::Service(..)) && count * 2 >= with.clone().count()
    };
    let most = counts.into_iter().filter(is_half);
    most.max_by_key(|(state, count)| (**state != Some(Sleep::Idle), *count))
        .map(|(state, _)| state.clone())
}

/// A task that is alone waits for an event, where it does so at four looks of five: it is kept by
/// none of the other things.
fn of_one_task(during: &[&SleepLook]) -> Option<Slept> {
    let of = during.len();
    let waits = |look: &&&SleepLook| {
        look.tasks.len() == 1 && look.tasks.values().all(|task| *task == Some(Sleep::Idle))
    };
    let looks = during.iter().filter(waits).count();
    (of >= LEAST && looks * 5 >= of * 4).then_some(Slept {
        sleep: Sleep::Idle,
        looks,
        of,
        theirs: None,
    })
}

/// Timers are as exact as that.
const TIMER: u64 = 2_000_000;

/// A timer of the program's own ends its waits: at four looks of five, a task waits for events
/// until the end of a wait, and no longer than that takes. Without such waits it waits longer.
fn own_timer(waits: &[&Slow], during: &[&SleepLook], without: &[&SleepLook]) -> Option<Slept> {
    let ended = waits.iter().filter(|wait| wait.how == End::Data);
    let longest = ended.clone().map(|wait| wait.time()).max()?;
    let ends = |look: &&&SleepLook| {
        let at = look.at.as_nanos();
        let of_this = ended.clone().filter(|wait| process(wait) == look.pid);
        let mut open = of_this.filter(|wait| wait.begin < at && at < wait.end);
        open.any(|wait| {
            let times = (wait.end - at).saturating_sub(TIMER)..=wait.time() + TIMER;
            look.ends_after
                .values()
                .any(|after| times.contains(&after.0))
        })
    };
    let is_short = |look: &&&SleepLook| {
        let mut times = look.ends_after.values();
        times.any(|after| after.0 <= longest + TIMER)
    };
    let (of, looks) = (during.len(), during.iter().filter(ends).count());
    let usual = without.iter().filter(is_short).count();
    let is_often = of >= LEAST && looks * 5 >= of * 4 && usual * 2 <= without.len();
    is_often.then_some(Slept {
        sleep: Sleep::Timer,
        looks,
        of,
        theirs: None,
    })
}

/// Return the threads that did not sleep at half of the looks during waits, and half as often
/// otherwise at most; of several, those that did least.
fn ran(during: &[&SleepLook], without: &[&SleepLook]) -> Option<Ran> {
    let of = during.len();
    let (now, usual) = (runs(during), runs(without));
    let is_more = |name: &str, looks: usize| {
        let (usual, _) = usual.get(name).copied().unwrap_or_default();
        without.len() >= LEAST && usual * 2 * of <= looks * without.len()
    };
    now.into_iter()
        .filter(|(name, (looks, _))| of >= LEAST && looks * 2 >= of && is_more(name, *looks))
        .max_by_key(|(_, (looks, _))| *looks)
        .map(|(name, (looks, ready))| Ran {
            name,
            looks,
            ready,
            of,
        })
}

/// Return at how many looks threads of each name did not sleep, and at how many of these none ran.
fn runs(looks: &[&SleepLook]) -> BTreeMap<String, (usize, usize)> {
    let mut runs = BTreeMap::<String, (usize, usize)>::new();
    for look in looks {
        let ran: BTreeSet<_> = look.ran.iter().map(sleep::of_all).collect();
        let ready: BTreeSet<_> = look.ready.iter().map(sleep::of_all).collect();
        for name in ran.union(&ready) {
            let (looks, waited) = runs.entry(name.clone()).or_default();
            *looks += 1;
            *waited += usize::from(!ran.contains(name));
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
            for (&task, sleep) in &look.tasks {
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
    fn beyond(&self, sleep: &Sleep, look: &SleepLook) -> usize {
        let tasks = look
            .tasks
            .iter()
            .filter(|(_, of)| of.as_ref() == Some(sleep));
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
        tasks.all(|task| match task {
            None => false,
            Some(Sleep::Idle) => true,
            Some(sleep) => {
                let is_known = *sleep == Sleep::Lock || self.without.len() >= LEAST;
                is_known && self.beyond(sleep, look) == 0
            }
        })
    }

    fn median(&self, sleep: &Sleep) -> usize {
        let count = |look: &&SleepLook| {
            let tasks = look.tasks.values();
            tasks.filter(|task| task.as_ref() == Some(sleep)).count()
        };
        let mut counts: Vec<_> = self.without.iter().map(count).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::clock::Nanos;
    use sockstamp_model::clock::Timestamp;
    use sockstamp_model::fixture;
    use sockstamp_model::stage::Direction;

    use super::super::slow::{Parts, Role, Seen};
    use super::*;

    /// A look at two threads: one that serves, and one that only ever sleeps in `other`.
    fn look(ms: u64, serving: Option<Sleep>, other: Sleep) -> SleepLook {
        SleepLook {
            pid: 7,
            at: Timestamp::from_nanos(ms * 1_000_000),
            tasks: [(7, Some(other)), (8, serving)].into_iter().collect(),
            ran: Vec::new(),
            ready: Vec::new(),
            ends_after: BTreeMap::new(),
            theirs: Vec::new(),
            tracer: None,
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
        let open = vec![false; waits.len()];
        note(&mut waits, &open, looks);
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
        let looks: Vec<_> = (0..10).map(|of| alone(of, asks.clone())).collect();
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
    fn a_tracer_is_named() {
        let look = |of: u64, tracer: Option<Name>| SleepLook {
            tracer,
            ..look(of * 100 + 25, None, Sleep::Lock)
        };
        let traced = (0..10)
            .map(|of| look(of, Some("strace".into())))
            .collect::<Vec<_>>();
        assert_eq!(served(&traced).tracer, Some("strace".into()));
        let once = (0..10).map(|of| look(of, (of == 1).then(|| "gdb".into())));
        assert_eq!(served(&once.collect::<Vec<_>>()).tracer, None);
    }

    /// As of an event loop that limits its rate: it sleeps until the moment at which it answers.
    #[test]
    fn a_timer_that_ends_with_the_wait_is_its_own() {
        let at = |ms: u64, after: u64| SleepLook {
            tasks: [(7, Some(Sleep::Idle))].into_iter().collect(),
            ends_after: [(7, Nanos(after * 1_000_000))].into_iter().collect(),
            ..look(ms, None, Sleep::Idle)
        };
        let told = |after: u64, otherwise: u64| {
            let during = (0..10).map(|of| at(of * 100 + 25, after));
            let without = (0..10).map(|of| at(of * 100 + 75, otherwise));
            let looks: Vec<_> = during.chain(without).collect();
            served(&looks).slept.map(|slept| slept.sleep)
        };
        assert_eq!(told(50, 60_000), Some(Sleep::Timer));
        assert_eq!(told(30, 60_000), Some(Sleep::Timer));
        // A timer that would end before the wait does, or after it, or that always ticks.
        assert_eq!(told(20, 60_000), Some(Sleep::Idle));
        assert_eq!(told(60_000, 60_000), Some(Sleep::Idle));
        assert_eq!(told(50, 50), Some(Sleep::Idle));
    }

    /// As of a pool of one thread, which sleeps for each request, beside others in locks.
    #[test]
    fn what_tasks_always_sleep_in_is_kept() {
        let looks: Vec<_> = (0..10)
            .map(|of| look(of * 100 + 25, Some(Sleep::Timer), Sleep::Lock))
            .collect();
        let seen = served(&looks);
        assert_eq!(seen.slept, None);
        assert_eq!(seen.asleep_in, [Sleep::Lock, Sleep::Timer]);
    }

    #[test]
    fn a_service_behind_a_unix_socket_is_named_with_what_it_does() {
        let php = Sleep::Service("php-fpm".into(), "/run/php.sock".into());
        let at = |of: u64, theirs: Option<Sleep>| SleepLook {
            tasks: [(7, Some(php.clone()))].into_iter().collect(),
            theirs: vec![theirs],
            ..look(of * 100 + 25, None, Sleep::Idle)
        };
        let told = |theirs: Option<Sleep>| {
            let looks: Vec<_> = (0..10).map(|of| at(of, theirs.clone())).collect();
            served(&looks).slept.unwrap().words()
        };
        let known = "for php-fpm at the Unix socket /run/php.sock, at 10 of 10 looks";
        assert_eq!(told(Some(Sleep::Idle)), known);
        assert_eq!(told(None), format!("{known}; it runs meanwhile"));
        let disk = told(Some(Sleep::Disk));
        assert_eq!(
            disk,
            format!("{known}; its tasks sleep meanwhile: a disk or file system (state D)")
        );
    }

    /// The state of a task in /proc is the same for one that runs and one that waits for a CPU.
    #[test]
    fn a_thread_that_waits_for_a_cpu_does_not_run() {
        let at = |of: u64, is_ready: bool| {
            let name = vec![Name::from("worker")];
            let look = look(of * 100 + 25, Some(Sleep::Lock), Sleep::Idle);
            match is_ready {
                true => SleepLook {
                    ready: name,
                    ..look
                },
                false => SleepLook { ran: name, ..look },
            }
        };
        let told = |ready: u64| {
            let during = (0..10).map(|of| at(of, of < ready));
            let without = (0..10).map(|of| look(of * 100 + 75, Some(Sleep::Lock), Sleep::Idle));
            let looks: Vec<_> = during.chain(without).collect();
            served(&looks).ran.unwrap().words()
        };
        assert_eq!(
            told(10),
            "its thread worker waited for a CPU, at 10 of 10 looks"
        );
        let both = "its thread worker ran or waited for a CPU (that at 4), at 10 of 10 looks";
        assert_eq!(told(4), both);
    }

    #[test]
    fn what_tasks_sleep_in_otherwise_is_not_what_they_wait_for() {
        let looks = |at: u64, sleep: Sleep, other: Sleep| {
            let look = move |of: u64| look(of * 100 + at, Some(sleep.clone()), other.clone());
            (0..10).map(look)
        };
        let during = |sleep, other| looks(25, sleep, other);
        let without = |sleep, other| looks(75, sleep, other);
        let told = |looks: Vec<_>| {
            served(&looks)
                .slept
                .map(|slept| (slept.sleep, slept.looks, slept.of))
        };
        let all = |sleep: Sleep| {
            let waits = during(sleep, Sleep::Lock);
            waits.chain(without(Sleep::Idle, Sleep::Lock)).collect()
        };
        assert_eq!(told(all(Sleep::Timer)), Some((Sleep::Timer, 10, 10)));
        assert_eq!(told(all(Sleep::Lock)), Some((Sleep::Lock, 10, 10)));
        assert_eq!(told(all(Sleep::Idle)), None);
        let peer = Sleep::Peer("10.0.0.9:5672".parse().unwrap());
        assert_eq!(told(all(peer.clone())), Some((peer, 10, 10)));
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
