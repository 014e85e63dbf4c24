//! Evidence of the host beside messages and waits, as plain data.

pub(super) mod backlog;
pub(super) mod drop_reason;
pub(super) mod full_queue;
pub(super) mod link;
pub(super) mod neighbour;
mod places;
pub(super) mod sleep;
pub(super) mod there;
