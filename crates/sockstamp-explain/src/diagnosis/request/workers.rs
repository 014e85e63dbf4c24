//! What late reads of a service wait for: workers that others of its requests have.
//!
//! The number of workers is in no field, but as many requests as were ever read and not answered
//! at one moment show how many it has.

use std::collections::BTreeMap;

use sockstamp_model::flow::NetnsInode;
use sockstamp_model::wait::End;

use crate::diagnosis::slow::Slow;
use crate::diagnosis::tally::most_at_once;
use crate::diagnosis::tree::Node;

/// Give what is not known of late reads to the requests that have all the workers meanwhile. Those
/// of connections that always have one `open` may need none.
pub(in crate::diagnosis) fn divide(waits: &mut [Slow], open: &[bool]) {
    let mut services = BTreeMap::<(NetnsInode, u16), Vec<(u64, u64)>>::new();
    let served = waits.iter().zip(open).filter(|(_, open)| !**open);
    // A request without an answer begins when it came, and not when a worker took it.
    let is_answered = |wait: &Slow| wait.key.root == Node::Service && wait.how == End::Data;
    let served = served.filter(|(wait, _)| is_answered(wait));
    for (wait, _) in served {
        let spans = services.entry(service(wait)).or_default();
        spans.push((wait.begin, wait.end));
    }
    let taken: BTreeMap<_, _> = services
        .into_iter()
        .map(|(service, spans)| (service, Taken::new(&spans)))
        .collect();
    let reads = waits.iter_mut().filter(|wait| wait.key.root == Node::Read);
    for read in reads {
        let Some(taken) = taken.get(&service(read)) else {
            continue;
        };
        let mut left = taken.within(read.begin, read.end);
        for node in [Node::ReadUnknown, Node::ReadAsleep] {
            let time = read.parts.of(node).min(left);
            read.parts.shift(node, Node::ReadTurn, time);
            left -= time;
        }
        read.seen.workers = taken.workers;
    }
}

fn service(wait: &Slow) -> (NetnsInode, u16) {
    (wait.flow.netns, wait.flow.local.port())
}

/// When all workers of a service were taken.
struct Taken {
    workers: usize,
    /// From, until; in order.
    spans: Vec<(u64, u64)>,
}

impl Taken {
    fn new(requests: &[(u64, u64)]) -> Self {
        let workers = most_at_once(requests.iter().copied());
        let mut changes: Vec<_> = requests
            .iter()
            .flat_map(|&(begin, end)| [(begin, true), (end, false)])
            .collect();
        changes.sort_unstable();
        let mut spans = Vec::new();
        let (mut open, mut since) = (0, 0);
        for (at, begins) in changes {
            if begins {
                open += 1;
                since = at;
            } else {
                if open == workers {
                    spans.push((since, at));
                }
                open -= 1;
            }
        }
        Self { workers, spans }
    }

    /// Return the time in which they were, between two moments.
    fn within(&self, begin: u64, end: u64) -> u64 {
        let first = self.spans.partition_point(|(_, until)| *until <= begin);
        let spans = self.spans[first..].iter();
        spans
            .take_while(|(from, _)| *from < end)
            .map(|&(from, until)| until.min(end).saturating_sub(from.max(begin)))
            .sum()
    }
}
