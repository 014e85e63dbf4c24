//! TCP sockets that listen, and connections that they had no room for.

use std::net::SocketAddr;

use serde::Serialize;

use crate::flow::NetnsInode;

/// A listener that had connections waiting for accept(), or dropped some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListenerSummary {
    /// Its own address.
    pub local: SocketAddr,
    /// The network namespace that it is in.
    pub netns: NetnsInode,
    /// Connections that wait for accept() at the end of the measurement.
    pub queue: u32,
    /// The length of the accept queue that listen() requested, as far as the kernel allowed it.
    pub limit: u32,
    /// Segments that it dropped.
    pub dropped: u64,
    /// Of these, SYNs and ends of handshakes that found the queue full, at least. Others are ends
    /// of handshakes that brought a RST, or no data where TCP_DEFER_ACCEPT waits for some. `None`
    /// if it cannot be known.
    pub overflowed: Option<u64>,
    /// SYNs that it dropped because this host has no route back to their senders, at least.
    pub unrouted: u64,
    /// Handshakes that peers begin and do not end, if they filled its queue.
    pub half_open: Option<HalfOpen>,
}

/// Handshakes of a listener that wait for their end, where they were as many as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HalfOpen {
    /// SYNs that found the queue full, of its network namespace, or as full as unknown peers may
    /// make it without SYN cookies: they were dropped, or answered by these.
    pub refused: u64,
    /// Handshakes that wait for their end at the end of the measurement.
    pub count: u32,
    /// Addresses that they come from.
    pub addresses: u32,
}
