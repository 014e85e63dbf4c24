//! Requests that a service has read and not answered: open ones, and those whose connection ended.
//!
//! Bytes without an answer may be no request: a log, a subscription, a confirmation. Tasks that
//! work, or sleep for anything but events, owe an answer, and so does a program that does not watch
//! the connection for more. An event loop watches every connection, so that one without anything to
//! do may push. Where clients gave up, the service must be one that answers.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::{NetnsInode, Opened};
use sockstamp_model::wait::{End, Sending};

use crate::diagnosis::evidence::sleep::Sleep;
use crate::diagnosis::slow::{Key, Slow, Socket};
use crate::diagnosis::tree::Node;
use crate::diagnosis::words::{counted, service};

/// Return true for a request that a service of this host has not answered.
pub(in crate::diagnosis) fn is_unserved(wait: &Slow) -> bool {
    wait.key.root == Node::Service && wait.how != End::Data
}

/// Return true for one whose connection has ended.
pub(in crate::diagnosis) fn has_ended(wait: &Slow) -> bool {
    is_unserved(wait) && wait.how != End::Open
}

/// Return true for a request whose connection had an answer all the same: a process of its own may
/// have sent it, whose sends are not measured, as of a server that starts one for each connection.
pub(in crate::diagnosis) fn was_answered(wait: &Slow) -> bool {
    has_ended(wait) && wait.seen.has_sent_since
}

/// Mark as `open` what may be no request, and say of the others that tasks sleep, where looks saw
/// no more. `counted`: services that have answered, also where all of it was quick.
pub(in crate::diagnosis) fn settle(
    waits: &mut [Slow],
    open: &mut [bool],
    sending: &BTreeMap<Socket, Sending>,
    counted: &BTreeSet<&Key>,
) {
    let answering = answering(waits, sending);
    let polls = Polls::new(waits, open);
    let known = waits.iter_mut().zip(open);
    for (wait, open) in known.filter(|(wait, _)| is_unserved(wait)) {
        if is_asleep(wait) {
            wait.parts
                .give(|node| node == Node::ServiceUnknown, Node::ServiceAsleep);
        }
        let is_held = match wait.how {
            End::Open => *open || wait.seen.may_push,
            _ if polls.are_more_of(wait) => true,
            _ => {
                let answers = counted.contains(&wait.key) || answering.contains(&place(wait));
                wait.seen.may_push && !answers
            }
        };
        *open = is_held && !is_kept(wait);
    }
}

/// Answers that were found to be held until there was news, by the connections that had them.
struct Polls {
    connections: BTreeSet<Socket>,
    /// The services most of whose clients are such: those that ended, too, as far as one knows.
    services: BTreeSet<Key>,
}

/// Connections of the clients of a service.
#[derive(Debug, Default)]
struct Clients {
    /// Those that had an answer that was held.
    answered: BTreeSet<Socket>,
    /// Those whose request is open, and may be one more.
    waiting: BTreeSet<Socket>,
    /// Those whose request ended without an answer, and that had none that was held.
    ended: BTreeSet<Socket>,
}

impl Clients {
    /// Requests that are open are no polls by themselves: somebody must have had news.
    fn are_mostly_held(&self) -> bool {
        let held = self.answered.union(&self.waiting).count();
        !self.answered.is_empty() && held > self.ended.len()
    }
}

impl Polls {
    fn new(waits: &[Slow], open: &[bool]) -> Self {
        let of_services = || {
            let known = waits.iter().zip(open);
            known.filter(|(wait, _)| wait.key.root == Node::Service)
        };
        let mut clients = BTreeMap::<&Key, Clients>::new();
        let mut connections = BTreeSet::new();
        for (wait, open) in of_services().filter(|(wait, _)| !has_ended(wait)) {
            let of = clients.entry(&wait.key).or_default();
            if *open && !is_unserved(wait) {
                connections.insert(wait.socket());
                of.answered.insert(wait.socket());
            } else if is_unserved(wait) && (*open || wait.seen.may_push) && !is_kept(wait) {
                of.waiting.insert(wait.socket());
            }
        }
        let ended = of_services().filter(|(wait, _)| has_ended(wait));
        for (wait, _) in ended.filter(|(wait, _)| !connections.contains(&wait.socket())) {
            let of = clients.entry(&wait.key).or_default();
            of.ended.insert(wait.socket());
        }
        let services = clients.into_iter().filter(|(_, of)| of.are_mostly_held());
        Self {
            services: services.map(|(key, _)| key.clone()).collect(),
            connections,
        }
    }

    /// Return true for a request that ended without an answer, and may be one more of these.
    fn are_more_of(&self, wait: &Slow) -> bool {
        self.connections.contains(&wait.socket()) || self.services.contains(&wait.key)
    }
}

type Place = (NetnsInode, u16);

fn place(wait: &Slow) -> Place {
    (wait.flow.netns, wait.flow.local.port())
}

/// Return the services that have answered on any connection.
fn answering(waits: &[Slow], sending: &BTreeMap<Socket, Sending>) -> BTreeSet<Place> {
    let is_answer = |wait: &&Slow| {
        wait.key.root == Node::Service && (wait.how == End::Data || wait.seen.has_answered)
    };
    let sent = sending.values();
    let sent = sent.filter(|one| one.opened == Opened::Accepted && one.connection.sends > 0);
    let sent = sent.map(|one| (one.flow.netns, one.flow.local.port()));
    waits
        .iter()
        .filter(is_answer)
        .map(place)
        .chain(sent)
        .collect()
}

/// Return true if tasks of the service were seen to do anything but wait for events.
fn is_kept(wait: &Slow) -> bool {
    let seen = &wait.seen;
    let sleeps = seen
        .slept
        .as_ref()
        .is_some_and(|slept| !slept.sleep.is_idle() && slept.sleep != Sleep::More);
    seen.held_up || sleeps || seen.ran.is_some() || wait.is_mostly(Node::ServiceAsks)
}

/// Return true if looks saw tasks that sleep, and none that ran.
fn is_asleep(wait: &Slow) -> bool {
    let seen = &wait.seen;
    seen.ran.is_none() && (seen.slept.is_some() || !seen.asleep_in.is_empty())
}

/// Return a note of clients that closed a connection on which nothing was ever answered, if there
/// are some.
pub(in crate::diagnosis) fn note(key: &Key, waits: &[&Slow]) -> Option<String> {
    if waits.is_empty() {
        return None;
    }
    let mut times: Vec<_> = waits.iter().map(|wait| wait.time()).collect();
    times.sort_unstable();
    let (clients, typical) = (times.len() as u64, Nanos(times[times.len() / 2]));
    let program = &key.program;
    Some(format!(
        "{program} at {} answered nothing of what {} sent, which ended {typical} later: it does not \
         answer, or nothing was asked (a log, figures)",
        service(key.service),
        counted(clients, "connection"),
    ))
}
