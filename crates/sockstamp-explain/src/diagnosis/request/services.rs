//! The time of slow requests by service of this host, and whom their services asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockstamp_model::clock::Nanos;

use super::flows::Served;
use crate::diagnosis::evidence::sleep::{Sleep, Slept};
use crate::diagnosis::service_time::{Asked, Peer, ServiceTime};
use crate::diagnosis::slow::{Key, Slow};
use crate::diagnosis::tree::Node;

/// Sum the slow requests of each service, the one with most time first. `open`: connections that
/// are rather pushed to.
pub(in crate::diagnosis) fn sum(
    waits: &[Slow],
    open: &[bool],
    served: &Served,
) -> Vec<ServiceTime> {
    let requests = waits.iter().zip(open).filter(|(_, open)| !**open);
    let requests = requests.filter(|(wait, _)| wait.key.root == Node::Service);
    let mut services = BTreeMap::<&Key, Sum>::new();
    let mut processes = BTreeMap::<u32, Vec<&Slow>>::new();
    for (request, _) in requests {
        services.entry(&request.key).or_default().add(request);
        processes.entry(request.pid).or_default().push(request);
    }
    for question in waits.iter().filter(|wait| served.waits_for(wait)) {
        let requests = processes.get(&question.pid).into_iter().flatten();
        let inside =
            |request: &&&Slow| request.begin <= question.begin && question.end <= request.end;
        // The newest of several: that one was not open when the others asked before.
        let Some(request) = requests.filter(inside).max_by_key(|request| request.begin) else {
            continue;
        };
        services.entry(&request.key).or_default().ask(question);
    }
    let mut services: Vec<_> = services.into_iter().map(|(key, sum)| sum.of(key)).collect();
    services.sort_by_key(|service| std::cmp::Reverse(service.time));
    services
}

#[derive(Debug, Default)]
struct Sum {
    count: u64,
    time: u64,
    parts: BTreeMap<Node, u64>,
    asked: BTreeMap<Peer, (u64, u64)>,
    /// Peers for whose data its tasks slept: most questions to them may be too short to be known.
    slept_for: BTreeMap<SocketAddr, u64>,
}

impl Sum {
    fn add(&mut self, request: &Slow) {
        self.count += 1;
        if let Some(Slept {
            sleep: Sleep::Peer(peer),
            ..
        }) = &request.seen.slept
        {
            let asks = request.parts.of(Node::ServiceAsks);
            let time = self.slept_for.entry(*peer).or_default();
            *time = time.saturating_add(asks);
        }
        self.time = self.time.saturating_add(request.time());
        for (node, time) in request.parts.iter() {
            let sum = self.parts.entry(node).or_default();
            *sum = sum.saturating_add(time);
        }
    }

    fn ask(&mut self, question: &Slow) {
        let peer = match &question.seen.path {
            Some(path) => Peer::Path(path.clone()),
            None => Peer::Address(question.key.service),
        };
        let (questions, time) = self.asked.entry(peer).or_default();
        *questions += 1;
        *time = time.saturating_add(question.time());
    }

    fn of(mut self, key: &Key) -> ServiceTime {
        for (peer, slept) in std::mem::take(&mut self.slept_for) {
            let (_, time) = self.asked.entry(Peer::Address(peer)).or_default();
            *time = slept.max(*time);
        }
        let mut asked: Vec<_> = self
            .asked
            .into_iter()
            .map(|(peer, (questions, time))| Asked {
                peer,
                questions,
                time: Nanos(time),
            })
            .collect();
        asked.sort_by_key(|asked| std::cmp::Reverse(asked.time));
        ServiceTime {
            program: key.program.clone(),
            service: key.service,
            count: self.count,
            time: Nanos(self.time),
            parts: self.parts,
            asked,
        }
    }
}
