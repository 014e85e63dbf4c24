//! What else shows why a program slept, or was not seen to do anything.

use std::collections::BTreeSet;

use sockstamp_model::clock::Nanos;

use crate::diagnosis::host::cpu::union;
use crate::diagnosis::slow::Slow;
use crate::diagnosis::tally::Account;

/// As many connections are the whole program.
const WHOLE: usize = 3;

/// Tell of late reads of several connections that ended as one: whatever kept the program, kept all
/// of it, unless a thread of it ran.
pub(in crate::diagnosis) fn standstill(account: &Account<'_>) -> Option<String> {
    let mut seen = account.counted.iter().map(|counted| &counted.wait.seen);
    if seen.any(|seen| seen.ran.is_some()) {
        return None;
    }
    let (times, connections) = standstills(account)?;
    let times = match times {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    Some(format!(
        "; it stood still as a whole {times}, while up to {connections} connections waited: a \
         garbage collection, a lock that all need, or a stopped process"
    ))
}

/// Return how often it stood still, and how many connections waited, if nine waits in ten were
/// so. They ended within a tenth of the longest.
fn standstills(account: &Account<'_>) -> Option<(usize, usize)> {
    let mut waits: Vec<&Slow> = account.counted.iter().map(|counted| counted.wait).collect();
    waits.sort_by_key(|wait| wait.end);
    let longer = |one: &Slow, next: &Slow| one.time().max(next.time());
    let ends = waits.chunk_by(|one, next| (next.end - one.end) * 10 <= longer(one, next));
    let (mut times, mut most, mut kept) = (0, 0, 0);
    for together in ends {
        let connections: BTreeSet<_> = together.iter().map(|wait| wait.socket()).collect();
        let longest = together.iter().map(|wait| wait.time()).max().unwrap_or(0);
        let apart = together[together.len() - 1].end - together[0].end;
        if connections.len() >= WHOLE && apart * 10 <= longest {
            times += 1;
            most = connections.len().max(most);
            kept += together.len();
        }
    }
    (times > 0 && kept * 10 >= waits.len() * 9).then_some((times, most))
}

/// Tell how long tasks of this host waited for disks, if that is half of the time in which these
/// waits went on.
pub(in crate::diagnosis) fn disks(account: &Account<'_>) -> Option<String> {
    let waits = || account.counted.iter().map(|counted| counted.wait);
    let time = waits().map(|wait| wait.seen.disks).max()?;
    let asleep = union(waits().map(|wait| (wait.begin, wait.end)).collect());
    (time > 0 && time * 2 >= asleep)
        .then(|| format!("; tasks of this host waited for disks for {}", Nanos(time)))
}
