//! Connections whose ends did not agree on scaled windows: a round trip carries 64 KB at most.

use std::collections::{BTreeMap, BTreeSet};

use sockstamp_model::flow::canonical;
use sockstamp_model::wait::Sending;

use crate::diagnosis::slow::{Slow, Socket};
use crate::diagnosis::tree::Node;

/// The largest window without scaling (RFC 7323, section 2.2).
const LARGEST: u32 = 65_535;

/// Return true if the peer's window held data back while its reader kept up: half of the largest
/// window was open.
const fn is_full(sending: &Sending) -> bool {
    let connection = &sending.connection;
    connection.unscaled && sending.window.0 > 0 && connection.peer_window >= LARGEST / 2
}

/// Return true for a wait that such a window accounts for, by the round trips that its bytes and
/// those before them in a send buffer take: a reader that hangs closes any window for longer.
const fn is_due(wait: &Slow, window: u64, rtt: u64) -> bool {
    /// Windows that the buffer of a connection holds whose congestion window has no use to grow.
    const BEFORE: u64 = 16;
    let trips = wait.seen.bytes / (LARGEST as u64 / 2) + BEFORE;
    window <= trips.saturating_mul(rtt)
}

/// Give the time of such windows to what keeps them small. A connection that was not looked at is
/// as others to the same peer. `rtt`: a wait's least round trip.
pub(in crate::diagnosis) fn give(
    waits: &mut [Slow],
    sending: &BTreeMap<Socket, Sending>,
    rtt: impl Fn(&Slow) -> u64,
) {
    let full = sending.values().filter(|sending| is_full(sending));
    let peer = |sending: &Sending| (sending.flow.netns, canonical(sending.flow.remote).ip());
    let peers: BTreeSet<_> = full.map(peer).collect();
    for wait in waits {
        let is_unscaled = match sending.get(&wait.socket()) {
            Some(sending) => is_full(sending),
            None => peers.contains(&(wait.flow.netns, wait.peer())),
        };
        let window = wait.parts.of(Node::DeliveryWindow);
        if is_unscaled && is_due(wait, window, rtt(wait)) {
            wait.parts
                .give(|node| node == Node::DeliveryWindow, Node::DeliveryUnscaled);
        }
    }
}
