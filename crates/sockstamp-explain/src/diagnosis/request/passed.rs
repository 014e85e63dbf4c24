//! News that a proxy passes on: its question lasts as long as a request of a client that always
//! waits, so that nobody waits for it who would not wait for news.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::clock::Nanos;
use sockstamp_model::wait::{End, Sending};

use crate::diagnosis::slow::{Key, Slow, Socket};
use crate::diagnosis::tree::Node;

/// Mark and note what services hold for clients of a proxy that always have a request `open`, on
/// connections that ask little else, while they answer others `in_time`: half as many, by key.
pub(in crate::diagnosis) fn mark(
    waits: &mut [Slow],
    open: &mut [bool],
    sending: &BTreeMap<Socket, Sending>,
    in_time: &BTreeMap<Key, u64>,
    slow: Nanos,
) {
    let requests = requests(waits);
    let held = held(waits, sending);
    let mut passed = BTreeMap::<&Key, Vec<(usize, usize)>>::new();
    for (question, wait) in waits.iter().enumerate() {
        if !is_question(wait) {
            continue;
        }
        let Some(request) = request_of(wait, waits, &requests, slow) else {
            continue;
        };
        if open[request] && held.contains(&waits[request].socket()) {
            passed
                .entry(&wait.key)
                .or_default()
                .push((question, request));
        }
    }
    let answers_others = |(key, found): &(&Key, Vec<(usize, usize)>)| {
        let others = in_time.get(*key).copied().unwrap_or(0);
        others * 2 >= found.len() as u64
    };
    let passed: BTreeMap<_, _> = passed.into_iter().filter(answers_others).collect();
    let mut news: Vec<_> = passed
        .values()
        .flatten()
        .flat_map(|&(one, other)| [one, other])
        .collect();
    // Others go on, and may wait for the same.
    news.extend((0..waits.len()).filter(|&of| {
        let wait = &waits[of];
        let longest = passed.get(&wait.key).map(|found| longest(waits, found));
        wait.how == End::Open
            && is_question(wait)
            && longest.is_some_and(|longest| wait.time() <= longest)
    }));
    for of in news {
        open[of] = true;
        waits[of].seen.for_news = true;
    }
}

fn longest(waits: &[Slow], found: &[(usize, usize)]) -> u64 {
    let times = found.iter().map(|&(question, _)| waits[question].time());
    times.max().unwrap_or(0)
}

fn is_question(wait: &Slow) -> bool {
    wait.key.root == Node::Answer && !wait.is_failure() && !wait.is_unacknowledged()
}

/// Return the places of the requests of each process, in the order in which they began.
fn requests(waits: &[Slow]) -> BTreeMap<u32, Vec<usize>> {
    let mut requests = BTreeMap::<u32, Vec<usize>>::new();
    for (of, wait) in waits.iter().enumerate() {
        if wait.key.root == Node::Service && wait.pid != 0 {
            requests.entry(wait.pid).or_default().push(of);
        }
    }
    for found in requests.values_mut() {
        found.sort_unstable_by_key(|&of| waits[of].begin);
    }
    requests
}

/// Return the request of its process that began just before a question, and ended just after it.
fn request_of(
    question: &Slow,
    waits: &[Slow],
    requests: &BTreeMap<u32, Vec<usize>>,
    slow: Nanos,
) -> Option<usize> {
    let found = requests.get(&question.pid)?;
    let until = found.partition_point(|&of| waits[of].begin <= question.begin);
    let mut before = found[..until].iter().rev().copied();
    let is_near = |&of: &usize| question.begin - waits[of].begin <= slow.0;
    let ends_with = |&of: &usize| {
        let request = &waits[of];
        match (question.how, request.how) {
            (End::Open, End::Open) => true,
            (End::Data, End::Data) => request.end.abs_diff(question.end) <= slow.0,
            _ => false,
        }
    };
    before.by_ref().take_while(is_near).find(ends_with)
}

/// Return the connections of services of which a third of the requests or more are slow: workers
/// ask a few other things for each job.
fn held(waits: &[Slow], sending: &BTreeMap<Socket, Sending>) -> BTreeSet<Socket> {
    let mut slow = BTreeMap::<Socket, u64>::new();
    for wait in waits.iter().filter(|wait| wait.key.root == Node::Service) {
        *slow.entry(wait.socket()).or_default() += u64::from(wait.weight);
    }
    let is_held = |(socket, slow): &(Socket, u64)| {
        let asked = sending.get(socket).map(|one| u64::from(one.receives));
        asked.is_some_and(|asked| slow * 3 >= asked)
    };
    let held = slow.into_iter().filter(is_held);
    held.map(|(socket, _)| socket).collect()
}
