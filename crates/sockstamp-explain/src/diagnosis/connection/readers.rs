//! A peer that reads slowly among others that do not, by TCP's own clock of closed windows.
//!
//! Who reads its own download slowly waits for itself, and there is nothing to say. One of many
//! that are sent alike by a service is another matter: what is queued for it grows old.

use std::collections::BTreeMap;

use sockstamp_model::flow::{NetnsInode, Opened};
use sockstamp_model::wait::{End, Sending};

use crate::diagnosis::slow::{self, Parts, Seen, Slow, Socket};
use crate::diagnosis::tree::Node;

/// As many others show that the service has many clients.
const OTHERS: usize = 2;

/// Add a wait for each connection of a service whose peer's window held data back for half of the
/// time, while those of most others did for less than a tenth, and were sent half as much or more.
pub(in crate::diagnosis) fn add(waits: &mut Vec<Slow>, sending: &BTreeMap<Socket, Sending>) {
    let mut services = BTreeMap::<(NetnsInode, u16), Vec<&Sending>>::new();
    let accepted = sending.values();
    for one in accepted.filter(|sending| sending.opened == Opened::Accepted) {
        let service = (one.flow.netns, one.flow.local.port());
        services.entry(service).or_default().push(one);
    }
    for clients in services.values() {
        let held: Vec<_> = clients.iter().filter(|one| is_held(one)).collect();
        // Who asks for a page now and then is not sent what the others are.
        let least = held.iter().map(|one| one.sends / 2).max().unwrap_or(0);
        let fast = clients
            .iter()
            .filter(|one| is_fast(one) && one.sends >= least);
        let fast = fast.count();
        if fast >= OTHERS && fast > held.len() {
            held.into_iter().for_each(|one| hold(waits, one, fast));
        }
    }
}

const fn is_fast(sending: &Sending) -> bool {
    sending.window.0.saturating_mul(10) <= sending.seen_for.0
}

const fn is_held(sending: &Sending) -> bool {
    sending.window.0 > 0 && sending.window.0.saturating_mul(2) >= sending.seen_for.0
}

/// Put the time of a closed window in place of what the socket itself shows of it.
fn hold(waits: &mut Vec<Slow>, sending: &Sending, others: usize) {
    let is_of = |wait: &Slow| {
        wait.key.root == Node::Delivery && wait.socket() == slow::socket(&sending.flow)
    };
    let known = waits.iter().filter(|wait| is_of(wait));
    let Some(known) = known.max_by_key(|wait| wait.end).cloned() else {
        return;
    };
    waits.retain(|wait| !is_of(wait));
    let begin = known.end.saturating_sub(sending.window.0);
    waits.push(Slow {
        begin,
        parts: Parts::divide(sending.window.0, [], Node::DeliveryWindow),
        how: End::Open,
        seen: Seen {
            others,
            age: sending.window.0,
            ..known.seen
        },
        ..known
    });
}
