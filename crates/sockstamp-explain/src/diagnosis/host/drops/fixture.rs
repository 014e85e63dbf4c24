//! Drops for tests.

use std::net::SocketAddr;

use sockstamp_model::clock::Timestamp;
use sockstamp_model::flow::{NetnsInode, Protocol};
use sockstamp_model::wait::Dropped;

/// Drops of SYNs in the first six seconds.
pub(super) fn dropped(reason: &str, from: SocketAddr, to: SocketAddr, packets: u64) -> Dropped {
    Dropped {
        netns: NetnsInode(1),
        protocol: Protocol::Tcp,
        from,
        to,
        reason: reason.into(),
        packets,
        syns: packets,
        first: Timestamp::from_nanos(0),
        last: Timestamp::from_nanos(6_000_000_000),
        came: false,
    }
}
