use crate::event::TargetId;
use crate::sockets::Sockets;

/// A target that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// Its number in all events.
    pub id: TargetId,
    /// The sockets that probe it.
    pub sockets: Sockets,
}
