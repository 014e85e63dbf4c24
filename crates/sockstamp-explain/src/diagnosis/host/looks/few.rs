//! Processes of one task each that have more questions at once than there are of them: the others
//! wait for their turn.

use std::collections::{BTreeMap, BTreeSet};

use super::during::{LEAST, goes_on, process};
use crate::diagnosis::evidence::sleep::{Sleep, SleepLook};
use crate::diagnosis::slow::{Few, Slow};
use crate::diagnosis::tally::most_at_once;
use crate::diagnosis::tree::Node;

/// Return how many processes work on questions, if all are of one task, and fewer than the
/// questions at once. One that waits for events at most looks, as a master or an event loop does,
/// works on none. Where each question has a process of its own, not all of these may be looked at.
pub(super) fn find(waits: &[&Slow], during: &[&SleepLook]) -> Option<Few> {
    let mut looks = BTreeMap::<u32, (usize, usize)>::new();
    for look in during.iter().filter(|look| goes_on(waits, look)) {
        let (busy, all) = looks.entry(look.pid).or_default();
        let is_idle = |task: &Option<Sleep>| task.as_ref().is_some_and(Sleep::is_idle);
        *busy += usize::from(!look.tasks.values().all(is_idle));
        *all += 1;
    }
    let are_alone = during.iter().all(|look| look.tasks.len() == 1);
    let is_busy = |(busy, all): &(usize, usize)| *all >= LEAST && busy * 2 >= *all;
    let workers = looks.iter().filter(|(_, looks)| is_busy(looks));
    let workers: BTreeSet<_> = workers.map(|(&pid, _)| pid).collect();
    let asked = || waits.iter().filter(|wait| wait.key.root == Node::Answer);
    let is_known = |wait: &&Slow| process(wait) == 0 || workers.contains(&process(wait));
    let questions = most_at_once(asked().map(|wait| (wait.begin, wait.end)));
    let are_known = asked().all(is_known);
    let workers = workers.len();
    let are_few = are_alone && are_known && workers > 0 && questions > workers;
    are_few.then_some(Few { workers, questions })
}
