//! Find what tasks of a process sleep in while it has slow waits, by looks at them.
//!
//! A look has all tasks of the process, not the one that works on a request: its threads may sleep
//! in a lock because they have nothing to do. So looks during such waits are held against looks
//! without: what more of its tasks sleep in than otherwise is what the waits are for.

mod during;
mod few;
mod kept;
#[cfg(test)]
mod tests;
mod timers;
mod usual;

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::clock::Nanos;
use sockstamp_model::name::Name;
use sockstamp_model::wait::End;

use crate::diagnosis::evidence::sleep::{self, Ran, Sleep, SleepLook, Slept};
use crate::diagnosis::slow::{Few, Key, Slow};
use crate::diagnosis::tree::Node;
use during::{LEAST, client, goes_on, process};
use timers::Timed;
use usual::Usual;

/// Note for each wait for this host's programs what their tasks slept in. Looks while somebody is
/// pushed to, on a connection that always has a question `open`, tell nothing of other waits. What
/// failed may have met another process than what was answered.
pub(in crate::diagnosis) fn note(waits: &mut [Slow], open: &[bool], looks: &[SleepLook]) {
    let acceptors = name_acceptors(waits);
    let mut keys = BTreeMap::<(&Key, bool), [Vec<&Slow>; 2]>::new();
    let known = waits.iter().zip(open);
    for (wait, is_open) in known.filter(|(wait, _)| process(wait) != 0) {
        let of = (&wait.key, wait.is_failure());
        keys.entry(of).or_default()[usize::from(*is_open)].push(wait);
    }
    let keys = keys
        .into_iter()
        .map(|(key, [asked, pushed])| match asked[..] {
            [] => (key, pushed),
            _ => (key, asked),
        });
    let keys: BTreeMap<_, _> = keys.collect();
    let find = |(&(key, fails), waits): (&(&Key, bool), &Vec<&Slow>)| {
        let others = keys.get(&(key, !fails)).map_or(&[][..], Vec::as_slice);
        ((key.clone(), fails), find(waits, others, looks))
    };
    let found: BTreeMap<(Key, bool), Found> = keys.iter().map(find).collect();
    for wait in &mut *waits {
        if let Some(found) = found.get(&(wait.key.clone(), wait.is_failure())) {
            wait.seen.slept.clone_from(&found.slept);
            wait.seen.ran.clone_from(&found.ran);
            wait.seen.asleep_in.clone_from(&found.asleep_in);
            wait.seen.idle = found.is_idle;
            wait.seen.for_clients = found.is_for_clients;
            wait.seen.few = found.few;
            wait.seen.has_no_timer = found.has_no_timer;
            wait.seen.held_up = found.is_held_up;
            wait.seen.tracer.clone_from(&found.tracer);
            ask(wait);
        }
    }
    note_kept(waits, &acceptors, looks);
}

/// Note of connections that wait to be accepted that clients keep the processes that accept, of
/// which there are several: those that did, or those that who listens has started.
fn note_kept(waits: &mut [Slow], acceptors: &BTreeMap<Key, BTreeSet<u32>>, looks: &[SleepLook]) {
    let mut services = BTreeMap::<(Key, u32), Vec<&mut Slow>>::new();
    for wait in waits
        .iter_mut()
        .filter(|wait| wait.key.root == Node::Accept)
    {
        let of = (wait.key.clone(), wait.pid);
        services.entry(of).or_default().push(wait);
    }
    for ((key, pid), waiting) in services {
        let is_on = |look: &&SleepLook| {
            let at = look.at.as_nanos();
            let mut waits = waiting.iter();
            waits.any(|wait| wait.begin < at && at < wait.end)
        };
        let during: Vec<_> = looks.iter().filter(is_on).collect();
        let started = during
            .iter()
            .filter(|look| pid != 0 && look.parent == Some(pid));
        let started: BTreeSet<_> = started.map(|look| look.pid).collect();
        let known = acceptors.get(&key).filter(|pids| pids.len() > 1);
        let Some(slept) = kept::all_processes(&during, known.unwrap_or(&started)) else {
            continue;
        };
        for wait in waiting {
            wait.seen.slept = Some(slept.clone());
        }
    }
}

/// Give connections that nobody accepts to the process that accepted others of the service. A
/// listener is known by who began to listen, as a master does whose workers accept. Return who
/// accepted those of each service.
fn name_acceptors(waits: &mut [Slow]) -> BTreeMap<Key, BTreeSet<u32>> {
    let mut acceptors = BTreeMap::<Key, BTreeSet<u32>>::new();
    for wait in waits.iter().filter(|wait| wait.key.root == Node::Accept) {
        if wait.how == End::Data && wait.pid != 0 {
            let of_service = acceptors.entry(wait.key.clone()).or_default();
            of_service.insert(wait.pid);
        }
    }
    for wait in waits.iter_mut().filter(|wait| wait.how != End::Data) {
        match acceptors.get(&wait.key) {
            Some(pids) if !pids.contains(&wait.pid) => {
                // Nothing tells which of several would have accepted it.
                let only = pids.first().filter(|_| pids.len() == 1);
                wait.pid = only.copied().unwrap_or(0);
            }
            _ => {}
        }
    }
    acceptors
}

/// Tell that tasks of some processes were not looked at.
pub(in crate::diagnosis) fn unseen(hidden: &BTreeSet<u32>) -> Option<String> {
    const NAMED: usize = 3;
    let named = hidden.iter().take(NAMED).map(|pid| format!("PID {pid}"));
    let named = named.collect::<Vec<_>>().join(", ");
    let whose = match hidden.len() {
        0 => return None,
        count if count > NAMED => format!("{named} and {} others", count - NAMED),
        _ => named,
    };
    Some(format!(
        "what tasks of {whose} sleep in is not known: they are another user's, and that takes \
         CAP_SYS_PTRACE"
    ))
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

/// Return true if tasks sleep so at four looks of five: it is no subscription that the wait is for.
/// A process of one task has no other one that works, so that a lock holds it up, too.
fn are_held_up(during: &[&SleepLook], usual: &Usual<'_>) -> bool {
    let is_so = |look: &&&SleepLook| {
        let mut sleeps = look.tasks.values().flatten();
        sleeps.any(|sleep| match sleep {
            sleep if sleep.is_own_lock() => look.tasks.len() == 1,
            sleep => sleep.is_held_up() && usual.beyond(sleep, look) > 0,
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
    /// The tasks waited for clients, and asked nobody, at four looks of five.
    is_for_clients: bool,
    /// Fewer tasks than questions.
    few: Option<Few>,
    /// Waits of theirs ended when no timer of theirs did.
    has_no_timer: bool,
    /// The tasks worked, or did not sleep for want of something to do, at four looks of five.
    is_held_up: bool,
    /// The program that traced theirs at half of the looks.
    tracer: Option<Name>,
}

/// Find what tasks did during these waits, and not otherwise. `others` wait for the same, with
/// another end: looks during them show neither.
fn find(waits: &[&Slow], others: &[&Slow], looks: &[SleepLook]) -> Found {
    let pids: BTreeSet<_> = waits.iter().map(|wait| process(wait)).collect();
    let of_these = looks.iter().filter(|look| pids.contains(&look.pid));
    let serving = do_end(waits).then(|| without_parked(of_these.clone()));
    let of_these = serving.as_ref().map_or_else(
        || of_these.collect::<Vec<_>>(),
        |looks| looks.iter().collect(),
    );
    let timed = Timed::new(waits, &of_these);
    let of_these = of_these.into_iter();
    let (during, without): (Vec<_>, Vec<_>) = of_these.partition(|look| goes_on(waits, look));
    let without: Vec<_> = without
        .into_iter()
        .filter(|look| !goes_on(others, look))
        .collect();
    let usual = Usual::new(waits, &during, &without);
    let idle = during.iter().filter(|look| usual.is_idle(look)).count();
    let alone = during.iter().filter(|look| are_for_clients(look)).count();
    let is_mostly = |looks: usize| during.len() >= LEAST && looks * 5 >= during.len() * 4;
    Found {
        few: few::find(waits, &during),
        has_no_timer: timed.are_few(),
        slept: for_more(waits, &during)
            .or_else(|| kept::by_idle_clients(waits, &during, &usual))
            .or_else(|| own_timer(&timed, waits, &during, &without))
            .or_else(|| slept(&during, &usual)),
        ran: ran(&during, &without),
        asleep_in: asleep_in(&during),
        is_idle: is_mostly(idle),
        is_for_clients: is_mostly(alone),
        is_held_up: are_held_up(&during, &usual) || is_mostly(at_work(waits, &during, &usual)),
        tracer: tracer(&during),
    }
}

/// Return the looks at which the tasks that serve are at work all along: one runs, and does not as
/// often without such waits; or it sends to a peer that has no room, or sleeps once, until the wait
/// ends. A task that waits for news goes back to its event wait, or sleeps again and again. Where
/// other tasks wait for clients of their own, one sends as seldom without such waits.
fn at_work(waits: &[&Slow], during: &[&SleepLook], usual: &Usual<'_>) -> usize {
    let runs_more = usual.without.len() >= LEAST && ran(during, usual.without).is_some();
    let naps = naps_once(waits, during);
    let works = |sleep: &Option<Sleep>| match sleep {
        None => runs_more,
        Some(Sleep::Timer) => naps,
        Some(sleep) => matches!(sleep, Sleep::Room(_)),
    };
    let sends_more = |look: &SleepLook| {
        let mut sends = look.tasks.values().flatten();
        let is_more =
            |sleep: &Sleep| matches!(sleep, Sleep::Room(_)) && usual.beyond(sleep, look) > 0;
        usual.without.len() >= LEAST && sends.any(is_more)
    };
    let is_at_work = |look: &&&SleepLook| {
        let tasks = look.tasks.values();
        let is_locked = |task: &Option<Sleep>| task.as_ref().is_some_and(Sleep::is_own_lock);
        let mut serving = tasks.filter(|task| !is_locked(task)).peekable();
        sends_more(look) || (serving.peek().is_some() && serving.all(works))
    };
    during.iter().filter(is_at_work).count()
}

/// Return true if tasks went to sleep for a timer hardly more often than somebody began to wait.
fn naps_once(waits: &[&Slow], during: &[&SleepLook]) -> bool {
    let naps = |look: &&&SleepLook| {
        let mut stirred = look.stirred.iter();
        stirred.any(|task| look.tasks.get(task) == Some(&Some(Sleep::Timer)))
    };
    let is_seen = |wait: &&&Slow| during.iter().any(|look| goes_on(&[wait], look));
    let seen = waits.iter().filter(is_seen).count();
    during.iter().filter(naps).count() * 2 <= seen * 3
}

/// Return true if these waits end by what was waited for, or are not open for much longer than
/// those that did.
fn do_end(waits: &[&Slow]) -> bool {
    let ended = waits.iter().filter(|wait| wait.how == End::Data);
    let longest = ended.map(|wait| wait.time()).max().unwrap_or(0);
    let ends = |wait: &&Slow| wait.how == End::Data || wait.time() <= longest.saturating_mul(3);
    waits.iter().all(ends)
}

/// Leave out tasks that slept at all looks, and did not run between them: what ended was not theirs
/// to do. Who is stopped, or held up otherwise, may have ended it since.
fn without_parked<'a>(looks: impl Iterator<Item = &'a SleepLook> + Clone) -> Vec<SleepLook> {
    let mut seen = BTreeMap::<_, (usize, bool)>::new();
    for look in looks.clone() {
        for (task, sleep) in &look.tasks {
            let (times, is_parked) = seen.entry((look.pid, *task)).or_insert((0, true));
            *times += 1;
            *is_parked &=
                !look.stirred.contains(task) && !sleep.as_ref().is_some_and(Sleep::is_held_up);
        }
    }
    let is_parked = |of: &(u32, u32)| {
        let (times, is_parked) = seen[of];
        is_parked && times >= LEAST
    };
    let mut looks: Vec<_> = looks.cloned().collect();
    for look in &mut looks {
        look.tasks.retain(|task, _| !is_parked(&(look.pid, *task)));
    }
    looks
}

/// Return true if nothing but a client, or a timer of its own, ends what a process does: its event
/// loops watch clients alone, and its other tasks sleep in locks, as those without work do.
fn are_for_clients(look: &SleepLook) -> bool {
    let is_so = |(task, sleep): (&u32, &Option<Sleep>)| {
        sleep.as_ref().is_some_and(Sleep::is_own_lock) || look.for_clients.contains(task)
    };
    let has_loop = look
        .tasks
        .keys()
        .any(|task| look.for_clients.contains(task));
    has_loop && look.tasks.iter().all(is_so)
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
        let part = if sleep.is_held_up() { 6 } else { 3 };
        let is_often = of >= LEAST && beyond.len() * part >= of;
        let slept = Slept {
            theirs: theirs(sleep, during),
            sessions: sessions(during),
            ..Slept::new(sleep.clone(), beyond.len(), of)
        };
        is_often.then(|| (beyond.iter().sum::<usize>(), slept))
    };
    let candidates: BTreeSet<_> = during.iter().flat_map(|look| look.tasks.values()).collect();
    let candidates = candidates.into_iter().flatten();
    candidates
        .filter(|sleep| !sleep.is_idle())
        .filter_map(beyond)
        .max_by(|(tasks, slept), (others, other)| {
            let rank = |slept: &Slept| slept.sleep.rank();
            rank(slept)
                .cmp(&rank(other))
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
        !state.is_idle() && during.len() >= LEAST && looks * 5 >= during.len() * 4
    };
    let often = looks.into_iter().filter(is_often);
    often.map(|(state, _)| state.clone()).collect()
}

/// Return what tasks at the other end of a Unix socket or a pipe did at half of the looks.
fn theirs(sleep: &Sleep, during: &[&SleepLook]) -> Option<Option<Sleep>> {
    let mut counts = BTreeMap::<_, usize>::new();
    let with = during.iter().filter(|look| !look.theirs.is_empty());
    for look in with.clone() {
        let states: BTreeSet<_> = look.theirs.iter().collect();
        for state in states {
            *counts.entry(state).or_default() += 1;
        }
    }
    let has_other = matches!(
        sleep,
        Sleep::Service(..) | Sleep::FullService(..) | Sleep::FullPipe(_) | Sleep::EmptyPipe(_)
    );
    let is_half = |(_, count): &(_, usize)| has_other && count * 2 >= with.clone().count();
    let most = counts.into_iter().filter(is_half);
    most.max_by_key(|(state, count)| (!state.as_ref().is_some_and(Sleep::is_idle), *count))
        .map(|(state, _)| state.clone())
}

/// A task that is alone waits for an event, or for a connection, where it does so at four looks of
/// five: it is kept by none of the other things.
fn of_one_task(during: &[&SleepLook]) -> Option<Slept> {
    let of = during.len();
    let waits_for = |sleep: Sleep| {
        let waits = |look: &&&SleepLook| {
            look.tasks.len() == 1 && look.tasks.values().flatten().eq([&sleep])
        };
        let looks = during.iter().filter(waits).count();
        (of >= LEAST && looks * 5 >= of * 4).then(|| Slept::new(sleep.clone(), looks, of))
    };
    [Sleep::Accept, Sleep::Idle].into_iter().find_map(waits_for)
}

/// Return the sessions that were in a transaction or at work at half of the looks that show some.
fn sessions(during: &[&SleepLook]) -> Vec<Name> {
    let mut looks = BTreeMap::<_, usize>::new();
    let with = during.iter().filter(|look| !look.sessions.is_empty());
    for look in with.clone() {
        for session in &look.sessions {
            *looks.entry(session).or_default() += 1;
        }
    }
    let of = with.count();
    let often = looks.into_iter().filter(|(_, looks)| looks * 2 >= of);
    often.map(|(session, _)| session.clone()).collect()
}

/// At four looks of five, a task reads the very connection on which somebody waits for it.
fn for_more(waits: &[&Slow], during: &[&SleepLook]) -> Option<Slept> {
    let reads = |look: &&&SleepLook| {
        let at = look.at.as_nanos();
        let of_this = waits.iter().filter(|wait| process(wait) == look.pid);
        let mut open = of_this.filter(|wait| wait.begin < at && at < wait.end);
        open.any(|wait| look.reads.values().any(|read| *read == client(wait)))
    };
    let (of, looks) = (during.len(), during.iter().filter(reads).count());
    (of >= LEAST && looks * 5 >= of * 4).then_some(Slept::new(Sleep::More, looks, of))
}

/// A timer of the program's own ends its waits. Without such waits it waits longer: one that always
/// ticks is due at the end of some by chance.
fn own_timer(
    timed: &Timed,
    waits: &[&Slow],
    during: &[&SleepLook],
    without: &[&SleepLook],
) -> Option<Slept> {
    let ended = waits.iter().filter(|wait| wait.how == End::Data);
    let longest = ended.map(|wait| wait.time()).max()?;
    let is_short = |look: &&&SleepLook| {
        let mut times = look.ends_after.values();
        times.any(|after| after.0 <= longest)
    };
    let short = |looks: &[&SleepLook]| looks.iter().filter(is_short).count();
    let is_own = timed.are_most() && short(without) * 2 <= without.len();
    is_own.then(|| Slept {
        usual: timed.usual().map(Nanos),
        ..Slept::new(Sleep::Timer, short(during), during.len())
    })
}

/// Return the threads that did not sleep at half of the looks during waits, and half as often
/// otherwise at most; of several, those that did least.
fn ran(during: &[&SleepLook], without: &[&SleepLook]) -> Option<Ran> {
    let of = during.len();
    let (now, usual) = (runs(during), runs(without));
    // Only the one task of a process can work on what that has to answer.
    let are_alone = during.iter().all(|look| look.tasks.len() == 1);
    let is_more = |name: &str, looks: usize| {
        let (usual, _) = usual.get(name).copied().unwrap_or_default();
        let is_known = without.len() >= LEAST;
        match is_known {
            true => usual * 2 * of <= looks * without.len(),
            false => are_alone,
        }
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
