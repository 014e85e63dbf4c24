//! Next hops that answer late or not to their addresses: what no event of the socket shows.

use std::net::IpAddr;

use sockstamp_model::clock::{Monotonic, Timestamp};
use sockstamp_model::name::Name;

/// A next hop that may not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// The address: that of the peer, or of a gateway.
    pub address: IpAddr,
    /// The device by which it is asked, with its namespace.
    pub device: Name,
    /// Somebody set its link address, and the kernel asks nobody. Otherwise it asks in vain.
    pub is_set: bool,
}

/// A next hop whose link address packets waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextHop {
    /// The address: that of the peer, or of a gateway.
    pub address: IpAddr,
    /// The device by which it is asked, with its namespace.
    pub device: Name,
}

/// The link address of a next hop that changed, and changed back: two hosts may have its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flips {
    /// The address: that of the peer, or of a gateway.
    pub address: IpAddr,
    /// The device by which it is reached, with its namespace.
    pub device: Name,
    /// The number of changes that were seen.
    pub changes: u32,
    /// The link address that came back, and the one before that.
    pub between: [Name; 2],
    /// The changes were seen between these moments.
    pub time: (Timestamp<Monotonic>, Timestamp<Monotonic>),
}
