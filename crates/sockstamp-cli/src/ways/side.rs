//! Name the directions of flows, and the messages on them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sockstamp_model::flow::{Flow, NetnsInode, Protocol, canonical};
use sockstamp_model::message::Message;
use sockstamp_model::packet::MessageName;
use sockstamp_model::stage::Direction;

/// Messages of each protocol that are remembered: some ten megabytes.
pub(super) const MESSAGES: usize = 131_072;

/// One direction of a flow.
pub(super) type Side = (NetnsInode, SocketAddr, SocketAddr, Direction);

/// Datagrams of a socket that is bound to any address have none in their messages.
pub(super) fn side(flow: &Flow, direction: Direction) -> Side {
    let local = canonical(flow.local);
    let local = match flow.protocol {
        Protocol::Tcp => local,
        Protocol::Udp => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), local.port()),
    };
    (flow.netns, local, canonical(flow.remote), direction)
}

pub(super) fn name(message: &Message, seq_end: Option<u32>) -> MessageName {
    MessageName {
        cookie: message.flow.cookie,
        time: message.time,
        seq_end,
    }
}
