//! Waits that hold for another wait: it has their time, and they are not counted again.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::canonical;
use sockstamp_model::wait::End;

use super::unserved;
use crate::diagnosis::evidence::sleep::Sleep;
use crate::diagnosis::slow::{Role, Slow};
use crate::diagnosis::tree::Node;

/// Hold this many at most: a proxy behind a proxy behind a proxy.
const DEPTH: usize = 8;

/// Return for each wait the one that has its time, if that was seen: that carries at least half of
/// it, and lies below it.
pub(in crate::diagnosis) fn between(waits: &[Slow]) -> Vec<Option<usize>> {
    let index = Index::new(waits);
    let mut held: Vec<_> = (0..waits.len())
        .map(|of| index.longest_below(waits, of))
        .collect();
    keep_together(waits, &mut held);
    (0..waits.len()).map(|of| last(waits, &held, of)).collect()
}

/// Let the failures of one program at one service stand on one side. A service that ended some of
/// them sooner than what is slow has no wait for those, so that its waits would be fewer than what
/// failed: then they hold for those who asked.
fn keep_together(waits: &[Slow], held: &mut [Option<usize>]) {
    let mut failed = BTreeMap::<_, Vec<usize>>::new();
    for (of, wait) in waits.iter().enumerate() {
        if wait.key.root == Node::Answer && wait.how.is_failure() {
            failed.entry((&wait.key, wait.how)).or_default().push(of);
        }
    }
    for alike in failed.into_values() {
        if alike.iter().all(|&of| held[of].is_some()) {
            continue;
        }
        for of in alike {
            let by = held[of].filter(|&by| unserved::is_unserved(&waits[by]));
            if let Some(by) = by.filter(|&by| held[by].is_none()) {
                held[by] = Some(of);
                held[of] = None;
            }
        }
    }
}

/// Return what a CPU quota took of requests that hold for others' waits: those have not that time.
pub(in crate::diagnosis) fn throttled_besides(
    waits: &[Slow],
    held: &[Option<usize>],
    slow: Nanos,
) -> Vec<Slow> {
    let own = waits.iter().zip(held).filter(|(_, held)| held.is_some());
    let own = own.filter(|(wait, _)| {
        wait.key.root == Node::Service && wait.parts.of(Node::ServiceThrottled) >= slow.0
    });
    own.map(|(wait, _)| {
        let mut part = wait.clone();
        part.keep_only(Node::ServiceThrottled);
        part.seen.is_part = true;
        part
    })
    .collect()
}

/// Follow waits to the one that holds for none. Of those that hold for each other in a circle, as
/// in a deadlock over several connections, the oldest has the time of all.
fn last(waits: &[Slow], held: &[Option<usize>], of: usize) -> Option<usize> {
    let mut way = vec![of];
    let mut by = held[of]?;
    while way.len() <= DEPTH {
        if let Some(begin) = way.iter().position(|&known| known == by) {
            let oldest = way[begin..].iter().min_by_key(|&&of| (waits[of].begin, of));
            return oldest.copied().filter(|&oldest| oldest != of);
        }
        way.push(by);
        match held[by] {
            Some(next) => by = next,
            None => break,
        }
    }
    Some(by)
}

/// Waits by the socket, and those for others by the process.
struct Index {
    sockets: BTreeMap<(SocketAddr, SocketAddr), Vec<usize>>,
    processes: BTreeMap<u32, Vec<usize>>,
}

impl Index {
    fn new(waits: &[Slow]) -> Self {
        let mut index = Self {
            sockets: BTreeMap::new(),
            processes: BTreeMap::new(),
        };
        let mut order: Vec<_> = (0..waits.len()).collect();
        order.sort_by_key(|&of| waits[of].begin);
        for of in order {
            let Slow { flow, pid, key, .. } = &waits[of];
            let ends = (canonical(flow.local), canonical(flow.remote));
            index.sockets.entry(ends).or_default().push(of);
            if *pid != 0 && matches!(key.root, Node::Answer | Node::Connect | Node::Delivery) {
                index.processes.entry(*pid).or_default().push(of);
            }
        }
        index
    }

    fn longest_below(&self, waits: &[Slow], of: usize) -> Option<usize> {
        let wait = &waits[of];
        let (here, there) = (canonical(wait.flow.local), canonical(wait.flow.remote));
        let same = self.sockets.get(&(here, there));
        let facing = self.sockets.get(&(there, here));
        let own = match wait.key.root {
            Node::Service | Node::Read => self.processes.get(&wait.pid),
            _ => None,
        };
        let near = [same, facing, own]
            .into_iter()
            .flatten()
            .flat_map(|found| around(found, waits, wait));
        let below = near.filter(|&other| other != of && is_below(&waits[other], wait));
        below
            .map(|other| (wait.overlap(&waits[other]), other))
            .filter(|&(overlap, _)| overlap * 2 >= wait.time().max(1))
            .max()
            .map(|(_, other)| other)
    }
}

/// Return those that begin before a wait ends, the last first, and none that begins a minute before
/// it.
fn around<'a>(
    found: &'a [usize],
    waits: &'a [Slow],
    wait: &'a Slow,
) -> impl Iterator<Item = usize> + 'a {
    const LONGEST: u64 = 60_000_000_000;
    let end = found.partition_point(|&other| waits[other].begin < wait.end);
    found[..end]
        .iter()
        .rev()
        .copied()
        .take_while(|&other| waits[other].begin + LONGEST > wait.begin)
        .take(MOST_NEAR)
}

/// Compare a wait with this many others at most.
const MOST_NEAR: usize = 256;

/// Return when what is asked for a wait must have ended: it goes on until the program has seen that
/// nobody waits any more, or was looked at later.
fn end_for_others(wait: &Slow) -> u64 {
    match wait.how {
        End::Data => wait.end,
        _ => wait.end.saturating_add(wait.time() / 10),
    }
}

/// Return true if tasks of the upper wait's process were in sends on the lower one's connection.
fn is_in_send(upper: &Slow, lower: &Slow) -> bool {
    let slept = upper.seen.slept.as_ref().map(|slept| &slept.sleep);
    let room = Sleep::Room(canonical(lower.flow.remote));
    slept == Some(&room) && upper.socket() != lower.socket()
}

/// Return true if the lower wait is what the upper one waits for.
fn is_below(lower: &Slow, upper: &Slow) -> bool {
    use Node::{
        Accept, Answer, Connect, Delivery, DeliveryCall, DeliveryRoom, DeliveryWindow, Greeting,
        Read, ReadStack, Service,
    };
    let is_other_end = lower.faces(upper);
    let is_same_end =
        lower.flow.local == upper.flow.local && lower.flow.remote == upper.flow.remote;
    let is_inside = upper.begin <= lower.begin && lower.end <= end_for_others(upper);
    match (upper.key.root, lower.key.root) {
        (Answer | Greeting, Service | Read | Accept) => is_other_end,
        (Answer, Delivery) => is_same_end || is_other_end,
        // What came before accept() could not be read.
        (Read, Accept) => is_same_end,
        // A question of the process inside a request, to another, or a connect for one.
        (Service, Answer | Connect) => {
            lower.pid == upper.pid && lower.key.role == Role::Asks && is_inside && !is_same_end
        }
        // Tasks were in a send to another client.
        (Service, Delivery) => lower.pid == upper.pid && is_in_send(upper, lower),
        (Delivery, Read) => is_other_end && upper.parts.of(DeliveryWindow) > 0,
        // A call has the socket's lock, and what arrives waits in the backlog until it ends
        // (`tcp_add_backlog()`, net/ipv4/tcp_ipv4.c, v6.18).
        (Read, Delivery) if is_same_end => {
            upper.is_mostly(ReadStack) && lower.is_mostly(DeliveryCall)
        }
        // A proxy that has no room elsewhere reads no more.
        (Read, Delivery) => {
            lower.pid == upper.pid
                && lower.parts.of(DeliveryRoom) + lower.parts.of(DeliveryWindow) > 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use sockstamp_model::wait::Kind;

    use super::*;
    use crate::diagnosis::source::of_wait;
    use crate::diagnosis::tests::wait;

    #[test]
    fn of_a_circle_the_oldest_has_the_time() {
        let begins = [30, 10, 20, 40, 50];
        let waits = begins.map(|begin| of_wait(&wait(Kind::Answer, End::Data, begin, 100)));
        let held_by = |held: [Option<usize>; 5]| {
            let of = |of| last(&waits, &held, of);
            [0, 1, 2, 3, 4].map(of)
        };
        // Three hold for each other, and one for them.
        let circle = [Some(1), Some(2), Some(0), Some(0), None];
        assert_eq!(held_by(circle), [Some(1), None, Some(1), Some(1), None]);
        let chain = [Some(1), Some(2), None, Some(0), Some(3)];
        assert_eq!(held_by(chain), [Some(2), Some(2), None, Some(2), Some(2)]);
    }
}
