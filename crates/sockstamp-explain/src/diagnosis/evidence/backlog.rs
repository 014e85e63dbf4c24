//! Queues of this host's devices on the way to a peer: what no event of the socket shows.

use sockstamp_model::clock::{Monotonic, Nanos, Timestamp};
use sockstamp_model::name::Name;

/// The queue of a device through which the way to a peer leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    /// The device, with its namespace.
    pub device: Name,
    /// The bytes that waited there at most looks.
    pub bytes: u64,
    /// The time that the device needs for them.
    pub time: Nanos,
    /// The first and the last look at which bytes waited there.
    pub seen: (Timestamp<Monotonic>, Timestamp<Monotonic>),
}
