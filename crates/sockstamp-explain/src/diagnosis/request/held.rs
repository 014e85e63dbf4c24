//! Questions that a service holds until it has news: long polls, queues, subscriptions. Somebody
//! may as well wait for a slow answer, so that only what is unlike that counts.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::clock::Nanos;
use sockstamp_model::wait::End;

use crate::diagnosis::evidence::sleep::Sleep;
use crate::diagnosis::slow::{Key, Slow};
use crate::diagnosis::tally::{Tried, most_at_once};
use crate::diagnosis::tree::Node;

/// Clients wait as long for news that may not come.
pub(super) const LONG: u64 = 1_000_000_000;

/// People set timers to whole seconds, or to half of one.
const STEP: u64 = 500_000_000;
/// A timer's end is seen as much later at most, and a hundredth of its time.
const LATE: u64 = 50_000_000;
/// Timers of milliseconds may end so early.
const EARLY: u64 = 2_000_000;

/// Return true if all times are those of one timer, by its length: other lengths are alike by
/// chance.
fn are_of_timer(least: u64, most: u64) -> bool {
    let step = (least.saturating_add(EARLY) / STEP).saturating_mul(STEP);
    step >= LONG && most <= step.saturating_add(LATE + step / 100)
}

/// Mark as always `open` what services hold, by what its askers see. `quick`: the other answers of
/// each key, without which all that the service answers is slow.
pub(in crate::diagnosis) fn mark(waits: &[Slow], open: &mut [bool], quick: &BTreeMap<Key, u64>) {
    for (key, found) in by_key(waits) {
        let quick = quick.get(key).copied().unwrap_or(0);
        if quick * 2 < found.len() as u64 {
            continue;
        }
        let connections = by_socket(waits, &found);
        let alone = connections.iter().filter(|found| found.len() == 1);
        let alone: Vec<_> = alone.flatten().copied().collect();
        if follow_each_other(waits, &alone) {
            alone.into_iter().for_each(|of| open[of] = true);
        }
        let limited = connections.iter().filter(|found| has_limit(waits, found));
        let limited: Vec<_> = limited.flatten().copied().collect();
        let limit = ended(waits, &limited).into_iter().max().unwrap_or(0);
        if are_apart(before_limit(waits, &limited)) {
            // Others ask the same, where news always is there at once, or never.
            let same = connections
                .iter()
                .filter(|found| ends_at(limit, waits, found));
            same.flatten().for_each(|&of| open[of] = true);
        }
    }
}

/// Mark what an event loop holds: it has nothing to do and asks nobody, while it answers half as
/// many other requests at once.
pub(in crate::diagnosis) fn idle(waits: &[Slow], open: &mut [bool], quick: &BTreeMap<Key, u64>) {
    let asks = asking(waits);
    for (key, found) in by_key(waits) {
        let is_held = |of: &usize| is_idle(&waits[*of], &asks);
        let held: Vec<_> = found.into_iter().filter(is_held).collect();
        let quick = quick.get(key).copied().unwrap_or(0);
        if quick * 2 >= held.len() as u64 && are_together(waits, &held) {
            held.into_iter().for_each(|of| open[of] = true);
        }
    }
}

/// Return the processes that ask others.
fn asking(waits: &[Slow]) -> BTreeSet<u32> {
    let asks = waits.iter().filter(|wait| wait.key.root == Node::Answer);
    asks.map(|wait| wait.pid).collect()
}

/// Return true if a service sleeps meanwhile, with nothing to do.
fn is_idle(wait: &Slow, asking: &BTreeSet<u32>) -> bool {
    let unknown = [Node::ServiceAsleep, Node::ServiceUnknown];
    let is_asleep = unknown.into_iter().any(|node| wait.is_mostly(node));
    is_asleep && wait.seen.idle && !asking.contains(&wait.pid)
}

/// Note what an event loop holds for all of its clients until there is news, on connections that
/// always have a question `open`: it has nothing to do, asks nobody, and answers all of them at
/// once. Clients that ask again as one look the same where each answer takes as long, so that this
/// must be long. What it sends after the same long time each is a sign of life that its clients
/// answer (the pings of a WebSocket), or may be.
pub(in crate::diagnosis) fn for_all(waits: &mut [Slow], open: &[bool], slow: Nanos) {
    let asks = asking(waits);
    let mut news = Vec::new();
    for (key, mut found) in by_key(waits) {
        found.retain(|of| open[*of] && waits[*of].how == End::Data && is_idle(&waits[*of], &asks));
        let times = ended(waits, &found);
        let least = times.iter().min().copied().unwrap_or(0);
        let varies = times
            .iter()
            .any(|time| time.saturating_mul(2) >= least.saturating_mul(3));
        let is_news = (least >= LONG || varies) && end_as_one(waits, &found, slow);
        if key.root == Node::Service && (is_news || are_long_alike(&times)) {
            news.extend(found);
        }
    }
    news.into_iter()
        .for_each(|of| waits[of].seen.for_news = true);
}

/// Return true for long times that are all those of one timer.
fn are_long_alike(times: &[u64]) -> bool {
    const LEAST: usize = 3;
    let least = times.iter().min().copied().unwrap_or(0);
    let most = times.iter().max().copied().unwrap_or(0);
    times.len() >= LEAST && are_of_timer(least, most)
}

/// Return true if these waits end at the same moments, on half of their connections or more each,
/// of which there are several.
pub(super) fn end_as_one(waits: &[Slow], found: &[usize], slow: Nanos) -> bool {
    let mut ends: Vec<_> = found.iter().map(|&of| &waits[of]).collect();
    ends.sort_by_key(|wait| wait.end);
    let of = by_socket(waits, found).len();
    let is_same = |one: &&Slow, next: &&Slow| {
        next.end - one.end <= slow.0.max(one.time().min(next.time()) / 100)
    };
    let are_most = |together: &[&Slow]| {
        let sockets: BTreeSet<_> = together.iter().map(|wait| wait.socket()).collect();
        sockets.len() > 1 && sockets.len() * 2 >= of
    };
    of > 1 && ends.chunk_by(is_same).all(are_most)
}

/// Mark what an event loop here, which asks nobody, answers when news come: nothing but another
/// client ends such a wait, or a timer that is not seen to. Those that have not ended are left.
pub(in crate::diagnosis) fn by_clients(waits: &mut [Slow], open: &mut [bool]) {
    let mut news = Vec::new();
    for (_, found) in by_key(waits) {
        let is_held = |of: &usize| {
            let wait = &waits[*of];
            let seen = &wait.seen;
            let slept = seen.slept.as_ref().map(|slept| &slept.sleep);
            let is_idle = slept.is_none_or(Sleep::is_idle) && seen.idle;
            is_idle && seen.for_clients && wait.is_mostly(Node::AnswerPeer)
        };
        let held: Vec<_> = found.into_iter().filter(is_held).collect();
        // A question that is open for much longer than any other may have been forgotten.
        let longest = ended(waits, &held).into_iter().max().unwrap_or(0);
        let is_as_long = |of: &usize| waits[*of].time() <= longest.saturating_mul(3);
        news.extend(held.into_iter().filter(is_as_long));
    }
    for of in news {
        open[of] = true;
        // A service that waits for the asker waits for news, too, which no timer of its own ends.
        waits[of].seen.for_news |= waits[of].seen.has_no_timer;
    }
}

/// Mark what a service answers after the same long time, three times at least, while it asks nobody
/// and answers ten times as many others at once, and no look at its tasks shows why: polls that
/// brought no news.
pub(in crate::diagnosis) fn alike(waits: &[Slow], open: &mut [bool], quick: &BTreeMap<Key, u64>) {
    const LEAST: usize = 3;
    let asks = asking(waits);
    for (key, found) in by_key(waits) {
        let times = || found.iter().map(|&of| waits[of].time());
        let (least, most) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let is_unseen = |of: &usize| {
            let seen = &waits[*of].seen;
            let is_seen = seen.slept.is_some() || seen.ran.is_some() || !seen.asleep_in.is_empty();
            !is_seen && !asks.contains(&waits[*of].pid)
        };
        let is_mostly_quick = quick.get(key).copied().unwrap_or(0) >= found.len() as u64 * 10;
        let is_same = (most - least) * 100 <= most && are_of_timer(least, most);
        let are_alike = found.len() >= LEAST && is_same;
        if key.root == Node::Service && is_mostly_quick && are_alike && found.iter().all(is_unseen)
        {
            found.into_iter().for_each(|of| open[of] = true);
        }
    }
}

/// Mark and note what an idle event loop answers after the same long time, while it answers as many
/// others at once: polls that brought no news, also behind a proxy. What its process asks meanwhile
/// may be for the others.
pub(in crate::diagnosis) fn polls(
    waits: &mut [Slow],
    open: &mut [bool],
    quick: &BTreeMap<Key, u64>,
) {
    let mut polls = Vec::new();
    for (key, mut found) in by_key(waits) {
        let all = quick.get(key).copied().unwrap_or(0) + found.len() as u64;
        let mut times = ended(waits, &found);
        times.retain(|time| *time >= LONG);
        let most = times.iter().max().copied().unwrap_or(0);
        // Others go on, and may bring none either.
        found.retain(|&of| match waits[of].how {
            End::Open => waits[of].time() <= most,
            _ => waits[of].time() >= LONG,
        });
        let are_idle = found.iter().all(|&of| waits[of].seen.idle);
        if are_idle && all >= times.len() as u64 * 2 && are_long_alike(&times) {
            polls.extend(found);
        }
    }
    for of in polls {
        open[of] = true;
        waits[of].seen.for_news = true;
    }
}

/// Mark and note what a service answers when another client's message has come, if three quarters
/// of its slow answers are so: what people say in a chat, or news for subscribers. Who waits for a
/// lock that another client gives back looks the same. More than the slow ones were counted with
/// another limit, and say nothing of these.
pub(in crate::diagnosis) fn prompted(
    waits: &mut [Slow],
    open: &mut [bool],
    tried: &BTreeMap<Key, Tried>,
) {
    let mut news = Vec::new();
    for (key, mut found) in by_key(waits) {
        found.retain(|&of| key.root == Node::Service && waits[of].how == End::Data);
        let slow: u64 = found.iter().map(|&of| u64::from(waits[of].weight)).sum();
        let prompted = tried.get(key).map_or(0, |tried| tried.prompted);
        if prompted > 0 && prompted * 4 >= slow * 3 && prompted * 3 <= slow * 4 {
            news.extend(found);
        }
    }
    for of in news {
        open[of] = true;
        waits[of].seen.for_news = true;
    }
}

fn by_key(waits: &[Slow]) -> BTreeMap<&Key, Vec<usize>> {
    let mut keys = BTreeMap::<_, Vec<_>>::new();
    for (of, wait) in waits.iter().enumerate() {
        let is_question = matches!(wait.key.root, Node::Answer | Node::Service);
        if is_question && !wait.is_failure() && !wait.is_unacknowledged() {
            keys.entry(&wait.key).or_default().push(of);
        }
    }
    keys
}

/// A connection for each question, and the next one at once: the askers wait for nine tenths of the
/// time, as on a connection that always has one open.
fn follow_each_other(waits: &[Slow], found: &[usize]) -> bool {
    let spans = || found.iter().map(|&of| (waits[of].begin, waits[of].end));
    let askers = most_at_once(spans());
    let begin = spans().map(|(begin, _)| begin).min().unwrap_or(0);
    let end = spans().map(|(_, end)| end).max().unwrap_or(0);
    let open: u64 = found.iter().map(|&of| waits[of].time()).sum();
    let whole = (end - begin).saturating_mul(askers as u64);
    found.len() >= askers * 2 && askers > 0 && open.saturating_mul(10) >= whole.saturating_mul(9)
}

/// A quarter of the answers on a connection comes at a limit, none later, and a quarter before it:
/// news came, or did not in time. It waits for half of the time.
fn has_limit(waits: &[Slow], found: &[usize]) -> bool {
    const LEAST: usize = 6;
    let times = ended(waits, found);
    let limit = times.iter().max().copied().unwrap_or(0);
    let at_limit = times.iter().filter(|time| **time >= limit - limit / 20);
    let at_limit = at_limit.count();
    let before = before_limit(waits, found).len();
    let begin = found.iter().map(|&of| waits[of].begin).min().unwrap_or(0);
    let end = found.iter().map(|&of| waits[of].end).max().unwrap_or(0);
    let waits_for_half = times.iter().sum::<u64>().saturating_mul(2) >= end - begin;
    let least = (times.len() / 4).max(1);
    times.len() >= LEAST && at_limit >= least && before >= least && waits_for_half
}

/// Return true if the longest of these is as long as a limit.
fn ends_at(limit: u64, waits: &[Slow], found: &[usize]) -> bool {
    let longest = ended(waits, found).into_iter().max();
    longest.is_some_and(|longest| longest.abs_diff(limit) <= limit / 20)
}

fn ended(waits: &[Slow], found: &[usize]) -> Vec<u64> {
    let ended = found.iter().map(|&of| &waits[of]);
    let ended = ended.filter(|wait| wait.how != End::Open);
    ended.map(Slow::time).collect()
}

/// Return the times that are well below the longest.
fn before_limit(waits: &[Slow], found: &[usize]) -> Vec<u64> {
    let mut times = ended(waits, found);
    let limit = times.iter().max().copied().unwrap_or(0);
    times.retain(|time| time.saturating_mul(10) < limit.saturating_mul(9));
    times
}

/// No more than half of these lie within a tenth: they are of any length.
fn are_apart(mut times: Vec<u64>) -> bool {
    times.sort_unstable();
    let alike = |(from, &time): (usize, &u64)| {
        let times = times[from..].iter();
        times
            .take_while(|other| **other <= time + time / 10)
            .count()
    };
    let most = times.iter().enumerate().map(alike).max().unwrap_or(0);
    most * 2 <= times.len()
}

fn by_socket(waits: &[Slow], found: &[usize]) -> Vec<Vec<usize>> {
    let mut sockets = BTreeMap::<_, Vec<_>>::new();
    for &of in found {
        sockets.entry(waits[of].socket()).or_default().push(of);
    }
    sockets.into_values().collect()
}

/// A process has several connections, or was seen to watch those of its clients, so that no task of
/// it is kept by one.
fn are_together(waits: &[Slow], found: &[usize]) -> bool {
    if found.iter().all(|&of| waits[of].seen.for_clients) {
        return true;
    }
    let mut processes = BTreeMap::<_, BTreeSet<_>>::new();
    for wait in found.iter().map(|&of| &waits[of]) {
        processes.entry(wait.pid).or_default().insert(wait.socket());
    }
    processes.values().all(|sockets| sockets.len() > 1)
}
