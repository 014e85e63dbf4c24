//! The accept queue of a service of this host: what no event of its client's socket shows.

use sockstamp_model::clock::{Monotonic, Timestamp};

/// An accept queue that had no room at a look, or shortly before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullQueue {
    /// The moment of the look.
    pub at: Timestamp<Monotonic>,
    /// Connections that waited for accept().
    pub queue: u32,
    /// The most that may wait, less one.
    pub limit: u32,
}
