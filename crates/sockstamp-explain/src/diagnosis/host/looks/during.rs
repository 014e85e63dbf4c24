//! Which waits a look falls into.

use std::net::SocketAddr;

use sockstamp_model::flow::canonical;

use crate::diagnosis::evidence::sleep::SleepLook;
use crate::diagnosis::slow::{Role, Slow};
use crate::diagnosis::tree::Node;

/// As many looks show something.
pub(super) const LEAST: usize = 3;

/// Return the process whose tasks are waited for, where that is on this host; 0 if none is known.
pub(super) fn process(wait: &Slow) -> u32 {
    match wait.key.root {
        Node::Service | Node::Read | Node::Accept => wait.pid,
        Node::Connect if wait.seen.full_queue.is_none() => 0,
        Node::Answer | Node::Connect => {
            let there = wait.seen.there.as_ref();
            let process = there.and_then(|there| there.process.as_ref());
            process.map_or(0, |(pid, _)| *pid)
        }
        _ => 0,
    }
}

/// Return true if one of these waits went on, for the process that was looked at.
pub(super) fn goes_on(waits: &[&Slow], look: &SleepLook) -> bool {
    let at = look.at.as_nanos();
    let is_in = |wait: &&Slow| process(wait) == look.pid && wait.begin < at && at < wait.end;
    waits.iter().any(is_in)
}

/// The end of a connection at the client that a wait is of.
pub(super) fn client(wait: &Slow) -> SocketAddr {
    canonical(match wait.key.role {
        Role::Asks => wait.flow.local,
        Role::Serves => wait.flow.remote,
    })
}
