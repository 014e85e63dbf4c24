//! Links of this host that went down: what no event of the socket shows.

use sockstamp_model::clock::{Monotonic, Timestamp};
use sockstamp_model::name::Name;

/// A link by which the way to a peer begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The device, with its namespace.
    pub device: Name,
    /// How often it lost its carrier during the measurement.
    pub downs: u32,
    /// The times in which it did, or was down.
    pub times: Vec<(Timestamp<Monotonic>, Timestamp<Monotonic>)>,
}
