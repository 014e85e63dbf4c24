//! What the sources read alike.

use sockstamp_model::clock::Nanos;
use sockstamp_model::flow::{Flow, Opened};

use crate::diagnosis::slow::Role;

/// Below these, differences of round trips are work of the hosts: 1 ms is a tick of a slow timer.
const LEAST_QUEUE: u64 = 1_000_000;

/// The end that opened a connection asks; where that is unknown, services have the lower port.
pub(super) fn role(opened: Option<Opened>, flow: &Flow) -> Role {
    match opened {
        Some(Opened::Connected) => Role::Asks,
        Some(Opened::Accepted) => Role::Serves,
        None if flow.local.port() < flow.remote.port() => Role::Serves,
        None => Role::Asks,
    }
}

/// Return true if a round trip shows a queue on the path: it is well above its smallest.
pub(super) fn is_queued(beyond: u64, smallest: u64) -> bool {
    beyond > smallest && beyond > LEAST_QUEUE
}

pub(super) fn nanos(time: Option<Nanos>) -> u64 {
    time.map_or(0, Nanos::as_nanos)
}
