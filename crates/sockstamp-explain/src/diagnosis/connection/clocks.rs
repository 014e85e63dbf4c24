//! Programs that keep a clock of their own: what they ask or read at its ticks says nothing of who
//! answers, and what they do seldom costs them little.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::Protocol;
use sockstamp_model::service::ANSWERING_EACH;
use sockstamp_model::wait::End;

use crate::diagnosis::finding::Finding;
use crate::diagnosis::slow::{Key, Role, Slow, Socket};
use crate::diagnosis::tally::Account;
use crate::diagnosis::tree::Node;

/// A loop that sends or reads at a tick of its own, as of a game, does so twenty times a second at
/// least.
const TICK: u64 = 50_000_000;
/// A tick may come later by a tenth.
const LATE: u64 = TICK + TICK / 10;

/// As few show no clock.
const LEAST: usize = 20;

/// Mark as `open` and note the datagrams of programs that send twenty or more a second, where one
/// comes back in as short a time: both ends may send at ticks of their own, and answer nothing.
pub(in crate::diagnosis) fn mark(waits: &mut [Slow], open: &mut [bool]) {
    let mut keys = BTreeMap::<&Key, Vec<usize>>::new();
    for (of, wait) in waits.iter().enumerate() {
        let is_question = wait.key.root == Node::Answer && wait.how != End::Open;
        let is_ended = is_question && !wait.is_failure();
        let answers_each = ANSWERING_EACH.contains(&wait.key.service.port());
        if is_ended && wait.flow.protocol == Protocol::Udp && !answers_each && !wait.asks_name() {
            keys.entry(&wait.key).or_default().push(of);
        }
    }
    let keys = keys.into_values();
    let ticks: Vec<_> = keys
        .filter(|found| are_at_ticks(found.iter().map(|&of| &waits[of])))
        .flatten()
        .collect();
    for of in ticks {
        open[of] = true;
        waits[of].seen.for_news = true;
        // A peer on this host sleeps until its next tick.
        waits[of].seen.held_up = false;
    }
}

/// Return true for so many that follow each other within a tick, and mostly end within one.
fn are_at_ticks<'a>(waits: impl Iterator<Item = &'a Slow>) -> bool {
    let mut sockets = BTreeMap::<Socket, Vec<u64>>::new();
    let (mut all, mut short) = (0, 0);
    for wait in waits {
        sockets.entry(wait.socket()).or_default().push(wait.begin);
        all += 1;
        short += usize::from(wait.time() <= LATE);
    }
    let mut gaps = Vec::new();
    for mut begins in sockets.into_values() {
        begins.sort_unstable();
        gaps.extend(begins.windows(2).map(|pair| pair[1] - pair[0]));
    }
    all >= LEAST && short * 10 >= all * 9 && median(gaps).is_some_and(|gap| gap <= LATE)
}

fn median(mut times: Vec<u64>) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// Return true if all that is read late is read at ticks of a clock: a tick is missed at times.
pub(super) fn are_read_at_ticks(account: &Account<'_>) -> bool {
    let times = account.times();
    let within = |most| times.iter().filter(|time| **time <= most).count();
    let is_tick = within(LATE) * 10 >= times.len() * 9 && within(LATE * 2) == times.len();
    let mut waits = account.counted.iter().map(|counted| counted.wait);
    // A program that asks over TCP mostly waits for the answer.
    is_tick && (waits.all(|wait| wait.flow.protocol == Protocol::Udp) || are_regular(account))
}

/// Return true if reads come at moments that are as far apart, twenty a second or more.
fn are_regular(account: &Account<'_>) -> bool {
    const SAME: u64 = TICK / 10;
    let ends = account.counted.iter().map(|counted| counted.wait.end);
    let mut moments: Vec<_> = ends.collect();
    moments.sort_unstable();
    moments.dedup_by(|next, one| *next - *one <= SAME);
    let gaps: Vec<_> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let Some(usual) = median(gaps.clone()) else {
        return false;
    };
    let near = gaps.iter().filter(|gap| gap.abs_diff(usual) <= usual / 10);
    gaps.len() >= LEAST && usual <= LATE && near.count() * 4 >= gaps.len() * 3
}

/// Return the percentage of its time that a program loses by opening connections, if that is
/// little: less than a tenth; or, where each is opened by a process of its own, which has none to
/// keep, less than a fifth.
pub(in crate::diagnosis) fn seldom_opens(account: &Account<'_>, finding: &Finding) -> Option<u64> {
    let waits = || account.counted.iter().map(|counted| counted.wait);
    let begin = waits().map(|wait| wait.begin).min()?;
    let end = waits().map(|wait| wait.end).max()?;
    let whole = Nanos((end - begin).saturating_mul(account.connections() as u64));
    let processes: BTreeSet<_> = waits().map(|wait| wait.pid).collect();
    let is_each = processes.len() == account.counted.len() && !processes.contains(&0);
    let part = match is_each {
        true => 5,
        false => 10,
    };
    let is_path = finding.node == Node::ConnectPath && finding.role == Role::Asks;
    let lost = account.lost();
    let is_little = is_path && account.failure.is_none() && lost.saturating_mul(part) < whole.0;
    is_little.then(|| lost * 100 / whole.0)
}
